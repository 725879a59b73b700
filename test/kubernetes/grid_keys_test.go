package kubernetes

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// Whoever writes a mistake into topologyKeys finds it in the Events of the
// Service, by the controller with the rights of deploy/.
func TestMistakenKeysAreAnEventOfTheService(t *testing.T) {
	controller(t)
	for name, annotation := range map[string]string{"bad-json": "topologyKeys: site", "bad-case": `topologykeys: '["site"]'`, "sound": `topologyKeys: '["site"]'`} {
		applied(t, fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {name: %s, annotations: {%s}}, spec: {ports: [{port: 80}]}}`, name, annotation), "service/"+name)
	}
	told := func(name string) (texts []string, err error) {
		list, err := c.Kube.CoreV1().Events("default").List(patient(t), metav1.ListOptions{
			FieldSelector: "involvedObject.kind=Service,involvedObject.name=" + name + ",reason=TopologyKeys",
		})
		if err == nil {
			for _, ev := range list.Items {
				texts = append(texts, ev.Message)
			}
		}
		return texts, err
	}
	for name, want := range map[string]string{"bad-json": "metadata.annotations[topologyKeys]: is no JSON array of strings", "bad-case": "metadata.annotations[topologykeys]: is not topologyKeys"} {
		wait.Eventually(t, func() error {
			texts, err := told(name)
			if err != nil || len(texts) != 1 || !strings.HasPrefix(texts[0], want) {
				return fmt.Errorf("%s: told %q, want %q: %w", name, texts, want, errors.Join(err))
			}
			return nil
		})
	}
	if texts, err := told("sound"); err != nil || len(texts) > 0 {
		t.Errorf("of a sound one was told %q, %v", texts, err)
	}
}
