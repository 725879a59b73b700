package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Rollout brings a change to the units in waves: the next wave begins once
// every unit of the one before runs the change and is ready. Dark units, of
// which no node is ready, are passed over and catch up when they return. A
// unit without a child gets one at once: of what most units have that wait for the
// change, before that comes to its turn and while it is stopped or paused.
type Rollout struct {
	// Order lists units that go first, in this order; the others follow by
	// name. No wave has units of both.
	// +kubebuilder:validation:MaxItems=20000
	// +listType=atomic
	// +optional
	Order []LabelValue `json:"order,omitempty"`
	// MaxUnits is the size of a wave: a number, or a percentage of all units,
	// rounded down, one at least. The default is 1.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 : self.matches('^(100|[1-9]?[0-9])%$')",message="must be a number from 1, or a percentage up to 100%"
	// +optional
	MaxUnits *intstr.IntOrString `json:"maxUnits,omitempty"`
	// PauseSeconds is how long a wave is ready before the next begins.
	// +kubebuilder:validation:Minimum=0
	// +optional
	PauseSeconds int32 `json:"pauseSeconds,omitempty"`
	// ProgressDeadlineSeconds is how long a unit may take to become ready
	// once the change reached it; then the rollout stops (condition
	// Progressing is False) until it is ready. The default is 600.
	// +kubebuilder:validation:Minimum=1
	// +optional
	ProgressDeadlineSeconds *int32 `json:"progressDeadlineSeconds,omitempty"`
	// MaxFailedUnits past their deadline do not stop the rollout.
	// +kubebuilder:validation:Minimum=0
	// +optional
	MaxFailedUnits int32 `json:"maxFailedUnits,omitempty"`
	// Paused lets no further wave begin.
	// +optional
	Paused bool `json:"paused,omitempty"`
}

// Conditions of a grid.
const (
	// Valid: the spec makes sense, and no unit is refused a child.
	Valid = "Valid"
	// Ready: every unit's workload is current and has all its replicas.
	Ready = "Ready"
	// Progressing: False where a rollout is paused, or stopped by a wave that
	// is not ready in time.
	Progressing = "Progressing"
	// Held: children are kept though their unit has no node any more.
	Held = "Held"
)

// WorkloadGridStatus is the status of a DeploymentGrid and of a
// StatefulSetGrid. Its size does not grow with the number of units.
type WorkloadGridStatus struct {
	// ObservedGeneration is the generation that the status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Units have at least one node.
	Units int64 `json:"units"`
	// ReadyUnits have all replicas of their workload ready.
	ReadyUnits int64 `json:"readyUnits"`
	// UpdatedUnits run what the grid says, and have brought it to every replica.
	UpdatedUnits int64 `json:"updatedUnits"`
	// DarkUnits have no node that is ready.
	DarkUnits int64 `json:"darkUnits"`
	// HeldUnits lost their last node and keep their workload for now.
	HeldUnits int64 `json:"heldUnits"`
	// RefusedUnits cannot have a child.
	RefusedUnits int64 `json:"refusedUnits"`
	// Revision is the ControllerRevision with the current templates.
	// +optional
	Revision string `json:"revision,omitempty"`
	// Rollout is where the current rollout in waves is.
	// +optional
	Rollout *RolloutStatus `json:"rollout,omitempty"`
	// Gone lists at most 100 units of spec.rollout.order that had a child and have no
	// node any more: no wave waits for them, as it does for a unit that is mistyped.
	// +listType=atomic
	// +optional
	Gone []string `json:"gone,omitempty"`
	// LastRemoval is when children of vanished units were removed last.
	// +optional
	LastRemoval *metav1.Time `json:"lastRemoval,omitempty"`
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Worst lists at most 20 units that are not as they should be.
	// +listType=atomic
	// +optional
	Worst []UnitStatus `json:"worst,omitempty"`
	// States is the status of every unit's workload, up to 200 units; SuperEdge's form.
	// +optional
	States map[string]UnitState `json:"states,omitempty"`
}

// RolloutStatus is where a rollout in waves is.
type RolloutStatus struct {
	// Revision is what is rolled out.
	Revision string `json:"revision"`
	// WaitingSince is when the last wave began.
	// +optional
	WaitingSince *metav1.Time `json:"waitingSince,omitempty"`
	// ReadySince is when that wave became ready; absent while it is not.
	// +optional
	ReadySince *metav1.Time `json:"readySince,omitempty"`
	// Through is the last unit in turn that a wave of this revision has gone to, in
	// this order.
	// +optional
	Through string `json:"through,omitempty"`
	// Order is a hash of spec.rollout.order.
	// +optional
	Order string `json:"order,omitempty"`
	// Failed are at most 100 units that the change reached and that did not become ready
	// in time, or were refused it, and are not ready since: they stop the rollout also while
	// they are dark or without a node, and for a controller that takes over.
	// +listType=atomic
	// +optional
	Failed []string `json:"failed,omitempty"`
	// FailedUnits is how many those are, with those that Failed does not name.
	// +optional
	FailedUnits int64 `json:"failedUnits,omitempty"`
	// StoppedRevision is the revision that units which failed stopped last, until it goes on
	// or nobody waits: a unit without a child does not begin with it for units out of sight.
	// +optional
	StoppedRevision string `json:"stoppedRevision,omitempty"`
}

// UnitStatus is one unit that is not as it should be.
type UnitStatus struct {
	Unit string `json:"unit"`
	// Reason is one of Refused, Held, Missing, NotReady, Outdated, Dark.
	Reason string `json:"reason"`
	// +optional
	Message string `json:"message,omitempty"`
}

// UnitState is the part of a DeploymentStatus or StatefulSetStatus that
// SuperEdge's users read.
type UnitState struct {
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// +optional
	Replicas int64 `json:"replicas,omitempty"`
	// +optional
	ReadyReplicas int64 `json:"readyReplicas,omitempty"`
	// +optional
	UpdatedReplicas int64 `json:"updatedReplicas,omitempty"`
	// +optional
	AvailableReplicas int64 `json:"availableReplicas,omitempty"`
	// Conditions holds Available alone.
	// +listType=atomic
	// +optional
	Conditions []UnitCondition `json:"conditions,omitempty"`
}

// UnitCondition is a condition of a workload, without its words.
type UnitCondition struct {
	Type   string                 `json:"type"`
	Status metav1.ConditionStatus `json:"status"`
}

// ServiceGridStatus is the status of a ServiceGrid.
type ServiceGridStatus struct {
	// ObservedGeneration is the generation that the status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Service is the name of the Service.
	// +optional
	Service string `json:"service,omitempty"`
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
