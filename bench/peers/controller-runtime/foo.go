// The Foo of examples/sample-controller, with the same CustomResourceDefinition. The methods at the end are as controller-gen generates them.
package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/scheme"
)

var fooScheme = (&scheme.Builder{
	GroupVersion: schema.GroupVersion{Group: "samplecontroller.k8s.io", Version: "v1alpha1"},
}).Register(&Foo{}, &FooList{})

// FooSpec is the desired state of a Foo.
type FooSpec struct {
	// DeploymentName is the name of the Deployment.
	DeploymentName string `json:"deploymentName"`
	// Replicas is the number of replicas of the Deployment; 1 by default.
	Replicas *int32 `json:"replicas,omitempty"`
}

// FooStatus is the observed state of a Foo.
type FooStatus struct {
	// AvailableReplicas is the number of available replicas of the Deployment.
	AvailableReplicas int32 `json:"availableReplicas"`
}

// Foo describes a Deployment.
type Foo struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   FooSpec    `json:"spec"`
	Status *FooStatus `json:"status,omitempty"`
}

// FooList is a list of Foos.
type FooList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Foo `json:"items"`
}

// DeepCopyInto copies the Foo into another one.
func (in *Foo) DeepCopyInto(out *Foo) {
	*out = *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	if in.Spec.Replicas != nil {
		replicas := *in.Spec.Replicas
		out.Spec.Replicas = &replicas
	}
	if in.Status != nil {
		status := *in.Status
		out.Status = &status
	}
}

// DeepCopy copies the Foo.
func (in *Foo) DeepCopy() *Foo {
	out := new(Foo)
	in.DeepCopyInto(out)
	return out
}

// DeepCopyObject copies the Foo.
func (in *Foo) DeepCopyObject() runtime.Object { return in.DeepCopy() }

// DeepCopyObject copies the list.
func (in *FooList) DeepCopyObject() runtime.Object {
	out := &FooList{TypeMeta: in.TypeMeta}
	in.ListMeta.DeepCopyInto(&out.ListMeta)
	if in.Items != nil {
		out.Items = make([]Foo, len(in.Items))
		for i := range in.Items {
			in.Items[i].DeepCopyInto(&out.Items[i])
		}
	}
	return out
}
