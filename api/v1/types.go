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
//
// +kubebuilder:validation:XValidation:rule="!has(self.templates) || self.templates.all(u, self.templates[u] == 'default' || (has(self.templatePool) && self.templates[u] in self.templatePool))",message="must name entries of spec.templatePool, or default",fieldPath=".templates"
// +kubebuilder:validation:XValidation:rule="!has(self.defaultTemplateName) || size(self.defaultTemplateName) == 0 || self.defaultTemplateName == 'default' || (has(self.templatePool) && self.defaultTemplateName in self.templatePool)",message="must name an entry of spec.templatePool, or default",fieldPath=".defaultTemplateName"
type WorkloadGridSpec struct {
	// GridUniqKey is the unit key: the label key of nodes whose values are the units.
	GridUniqKey UnitKey `json:"gridUniqKey"`
	// Template is an apps/v1 DeploymentSpec or StatefulSetSpec.
	Template Template `json:"template"`
	// TemplatePool holds further templates by name.
	// +kubebuilder:validation:MaxProperties=100
	// +optional
	TemplatePool map[string]Template `json:"templatePool,omitempty"`
	// Templates names the template of a unit, where it is not the default.
	// +kubebuilder:validation:MaxProperties=20000
	// +optional
	Templates map[string]TemplateName `json:"templates,omitempty"`
	// DefaultTemplateName is the template of all other units; "" and "default"
	// are spec.template.
	// +optional
	DefaultTemplateName TemplateName `json:"defaultTemplateName,omitempty"`
	// AutoDeleteUnusedTemplate drops entries of the pool that no unit uses.
	// +optional
	AutoDeleteUnusedTemplate bool `json:"autoDeleteUnusedTemplate,omitempty"`
	// Rollout is how a change reaches the units; absent, it reaches all at once.
	// +optional
	Rollout *Rollout `json:"rollout,omitempty"`
}

// UnitKey is the label key of nodes whose values are the units.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=317
// +kubebuilder:validation:XValidation:rule="self.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$')",message="must be a label key of nodes, such as site or topology.kubernetes.io/zone"
type UnitKey string

// TemplateName is a key of spec.templatePool, or "default".
//
// +kubebuilder:validation:MaxLength=253
type TemplateName string

// Template is an apps/v1 DeploymentSpec or StatefulSetSpec, as it was written.
// Only RawExtension holds data: the other fields are what the CRD's validation
// reads of it.
//
// +kubebuilder:pruning:PreserveUnknownFields
// +kubebuilder:validation:XValidation:rule="!has(self.selector.matchLabels) || self.selector.matchLabels.all(k, has(self.template.metadata) && has(self.template.metadata.labels) && k in self.template.metadata.labels && self.template.metadata.labels[k] == self.selector.matchLabels[k])",message="selector.matchLabels must be among template.metadata.labels"
// +kubebuilder:validation:XValidation:rule="(has(self.selector.matchLabels) && size(self.selector.matchLabels) > 0) || has(self.selector.matchExpressions)",message="selector must not be empty: give selector.matchLabels, and the same labels to template.metadata"
type Template struct {
	runtime.RawExtension `json:"-"`

	Selector Selector    `json:"selector"`
	Template PodTemplate `json:"template"`
}

// Selector is a metav1.LabelSelector, as far as the CRD's validation reads it.
//
// +kubebuilder:pruning:PreserveUnknownFields
type Selector struct {
	// +kubebuilder:validation:MaxProperties=100
	// +optional
	MatchLabels map[string]LabelValue `json:"matchLabels,omitempty"`
	// +optional
	MatchExpressions []metav1.LabelSelectorRequirement `json:"matchExpressions,omitempty"`
}

// PodTemplate is a core/v1 PodTemplateSpec, as far as the CRD's validation reads it.
//
// +kubebuilder:pruning:PreserveUnknownFields
type PodTemplate struct {
	// +optional
	Metadata PodMetadata `json:"metadata,omitempty"`
}

// PodMetadata is a metav1.ObjectMeta, as far as the CRD's validation reads it.
//
// +kubebuilder:pruning:PreserveUnknownFields
type PodMetadata struct {
	// +optional
	Labels map[string]LabelValue `json:"labels,omitempty"`
}

// LabelValue is the value of a label.
//
// +kubebuilder:validation:MaxLength=63
type LabelValue string

// ServiceGridSpec is the spec of a ServiceGrid.
type ServiceGridSpec struct {
	// GridUniqKey is the unit key: traffic stays on nodes that share its value.
	GridUniqKey UnitKey `json:"gridUniqKey"`
	// Template is a v1 ServiceSpec.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	Template runtime.RawExtension `json:"template"`
}

// DeploymentGrid runs a Deployment in every unit.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=deploymentgrids,singular=deploymentgrid,shortName=dg
// +kubebuilder:printcolumn:name="Key",type=string,JSONPath=`.spec.gridUniqKey`
// +kubebuilder:printcolumn:name="Units",type=integer,JSONPath=`.status.units`
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.readyUnits`
// +kubebuilder:printcolumn:name="Updated",type=integer,JSONPath=`.status.updatedUnits`
// +kubebuilder:printcolumn:name="Valid",type=string,JSONPath=`.status.conditions[?(@.type=="Valid")].status`
// +kubebuilder:printcolumn:name="Rollout",type=string,JSONPath=`.status.conditions[?(@.type=="Progressing")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Held",type=integer,JSONPath=`.status.heldUnits`,priority=1
// +kubebuilder:printcolumn:name="Dark",type=integer,JSONPath=`.status.darkUnits`,priority=1
// +kubebuilder:printcolumn:name="Revision",type=string,JSONPath=`.status.revision`,priority=1
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63",message="metadata.name: must be no more than 63 characters, for it becomes the value of a label"
type DeploymentGrid struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              WorkloadGridSpec `json:"spec"`
	// +structType=atomic
	// +optional
	Status WorkloadGridStatus `json:"status,omitempty"`
}

// StatefulSetGrid runs a StatefulSet in every unit.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=statefulsetgrids,singular=statefulsetgrid,shortName=ssg
// +kubebuilder:printcolumn:name="Key",type=string,JSONPath=`.spec.gridUniqKey`
// +kubebuilder:printcolumn:name="Units",type=integer,JSONPath=`.status.units`
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.readyUnits`
// +kubebuilder:printcolumn:name="Updated",type=integer,JSONPath=`.status.updatedUnits`
// +kubebuilder:printcolumn:name="Valid",type=string,JSONPath=`.status.conditions[?(@.type=="Valid")].status`
// +kubebuilder:printcolumn:name="Rollout",type=string,JSONPath=`.status.conditions[?(@.type=="Progressing")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Held",type=integer,JSONPath=`.status.heldUnits`,priority=1
// +kubebuilder:printcolumn:name="Dark",type=integer,JSONPath=`.status.darkUnits`,priority=1
// +kubebuilder:printcolumn:name="Revision",type=string,JSONPath=`.status.revision`,priority=1
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63",message="metadata.name: must be no more than 63 characters, for it becomes the value of a label"
type StatefulSetGrid struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              WorkloadGridSpec `json:"spec"`
	// +structType=atomic
	// +optional
	Status WorkloadGridStatus `json:"status,omitempty"`
}

// ServiceGrid makes one Service whose traffic stays in the unit of its client.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=servicegrids,singular=servicegrid,shortName=sg
// +kubebuilder:printcolumn:name="Key",type=string,JSONPath=`.spec.gridUniqKey`
// +kubebuilder:printcolumn:name="Service",type=string,JSONPath=`.status.service`
// +kubebuilder:printcolumn:name="Valid",type=string,JSONPath=`.status.conditions[?(@.type=="Valid")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 59",message="metadata.name: must be no more than 59 characters, for the Service is named after it with -svc"
type ServiceGrid struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              ServiceGridSpec `json:"spec"`
	// +structType=atomic
	// +optional
	Status ServiceGridStatus `json:"status,omitempty"`
}
