package admission

import (
	"encoding/json"
	"errors"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The versions of reviews that are answered: the fields of both are the same.
const (
	reviewV1      = "admission.k8s.io/v1"
	reviewV1beta1 = "admission.k8s.io/v1beta1"
	reviewKind    = "AdmissionReview"
)

var (
	errNoReview  = errors.New("it is no AdmissionReview of " + reviewV1 + " or " + reviewV1beta1)
	errNoRequest = errors.New("it has no request")
)

// decode reads a review. Of one that is wrong it returns what an answer needs, as far
// as that could be read.
func decode(body []byte) (*admissionv1.AdmissionReview, error) {
	in := &admissionv1.AdmissionReview{}
	err := json.Unmarshal(body, in)
	if in.Request == nil {
		in.Request = &admissionv1.AdmissionRequest{}
		if err == nil {
			err = errNoRequest
		}
	}
	if in.APIVersion != reviewV1 && in.APIVersion != reviewV1beta1 || in.Kind != reviewKind {
		in.APIVersion = reviewV1
		if err == nil {
			err = errNoReview
		}
	}
	if err != nil {
		err = fmt.Errorf("read the review: %w", err)
	}
	return in, err
}

// allowed answers a review in its own version, with a JSON patch (RFC 6902); nil for none.
func allowed(in *admissionv1.AdmissionReview, patch []byte) ([]byte, error) {
	out := admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: in.APIVersion, Kind: reviewKind},
		Response: &admissionv1.AdmissionResponse{UID: in.Request.UID, Allowed: true},
	}
	if len(patch) > 0 {
		how := admissionv1.PatchTypeJSONPatch
		out.Response.Patch, out.Response.PatchType = patch, &how
	}
	return json.Marshal(out)
}
