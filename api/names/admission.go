package names

// Of the admission webhook, gridmesh's own.
const (
	// Admission is the MutatingWebhookConfiguration of the webhook, its Service and its Lease.
	Admission = "gridmesh-admission"
	// AppLabel has it on its pods (Kubernetes' recommended labels).
	AppLabel = "app.kubernetes.io/name"
	// AdmissionCerts is the Secret with the webhook's certificate.
	AdmissionCerts = "gridmesh-admission-certs"
)
