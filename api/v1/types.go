package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Group and Version of the grids.
const (
	Group   = "superedge.io"
	Version = "v1"
)

// DefaultTemplate is the name of spec.template among the templates.
const DefaultTemplate = "default"

// WorkloadGridSpec is the spec of a DeploymentGrid and of a StatefulSetGrid.
type WorkloadGridSpec struct {
	// GridUniqKey is the unit key: the label key of nodes whose values are the units.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	GridUniqKey string `json:"gridUniqKey"`
	// Template is an apps/v1 DeploymentSpec or StatefulSetSpec.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	Template runtime.RawExtension `json:"template"`
	// TemplatePool holds further templates by name.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +optional
	TemplatePool map[string]runtime.RawExtension `json:"templatePool,omitempty"`
	// Templates names the template of a unit, where it is not the default.
	// +optional
	Templates map[string]string `json:"templates,omitempty"`
	// DefaultTemplateName is the template of all other units; "" and "default"
	// are spec.template.
	// +optional
	DefaultTemplateName string `json:"defaultTemplateName,omitempty"`
	// AutoDeleteUnusedTemplate drops entries of the pool that no unit uses.
	// +optional
	AutoDeleteUnusedTemplate bool `json:"autoDeleteUnusedTemplate,omitempty"`
}

// ServiceGridSpec is the spec of a ServiceGrid.
type ServiceGridSpec struct {
	// GridUniqKey is the unit key: traffic stays on nodes that share its value.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	GridUniqKey string `json:"gridUniqKey"`
	// Template is a v1 ServiceSpec.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	Template runtime.RawExtension `json:"template"`
}

// DeploymentGrid runs a Deployment in every unit.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=deploymentgrids,singular=deploymentgrid,shortName=dg
// +kubebuilder:printcolumn:name="Key",type=string,JSONPath=`.spec.gridUniqKey`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63",message="metadata.name: must be no more than 63 characters, for it becomes the value of a label"
type DeploymentGrid struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              WorkloadGridSpec `json:"spec"`
}

// StatefulSetGrid runs a StatefulSet in every unit.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=statefulsetgrids,singular=statefulsetgrid,shortName=ssg
// +kubebuilder:printcolumn:name="Key",type=string,JSONPath=`.spec.gridUniqKey`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63",message="metadata.name: must be no more than 63 characters, for it becomes the value of a label"
type StatefulSetGrid struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              WorkloadGridSpec `json:"spec"`
}

// ServiceGrid makes one Service whose traffic stays in the unit of its client.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=servicegrids,singular=servicegrid,shortName=sg
// +kubebuilder:printcolumn:name="Key",type=string,JSONPath=`.spec.gridUniqKey`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 59",message="metadata.name: must be no more than 59 characters, for the Service is named after it with -svc"
type ServiceGrid struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              ServiceGridSpec `json:"spec"`
}
