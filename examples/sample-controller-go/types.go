package main

import "pilothouse.dev/sdk"

// Foo names a Deployment and its number of replicas.
type Foo struct {
	sdk.TypeMeta
	Metadata sdk.ObjectMeta `json:"metadata"`
	Spec     struct {
		DeploymentName string `json:"deploymentName"`
		// The number of replicas; 1 by default.
		Replicas *int32 `json:"replicas,omitempty"`
	} `json:"spec"`
	Status *FooStatus `json:"status,omitempty"`
}

// FooStatus is the observed state of a Foo.
type FooStatus struct {
	AvailableReplicas int32 `json:"availableReplicas"`
}

// Deployment has the fields of a Deployment that this controller needs. With the complete type of k8s.io/api the plugin would be four
// times as large.
type Deployment struct {
	sdk.TypeMeta
	Metadata sdk.ObjectMeta   `json:"metadata"`
	Spec     DeploymentSpec   `json:"spec"`
	Status   DeploymentStatus `json:"status,omitzero"`
}

// DeploymentSpec is the desired state of a Deployment.
type DeploymentSpec struct {
	Replicas *int32   `json:"replicas,omitempty"`
	Selector Selector `json:"selector"`
	Template struct {
		Metadata sdk.ObjectMeta `json:"metadata"`
		Spec     struct {
			Containers []Container `json:"containers"`
		} `json:"spec"`
	} `json:"template"`
}

// Selector selects the Pods of a Deployment.
type Selector struct {
	MatchLabels map[string]string `json:"matchLabels,omitempty"`
}

// Container is one container of a Pod.
type Container struct {
	Name  string `json:"name"`
	Image string `json:"image"`
}

// DeploymentStatus is the observed state of a Deployment.
type DeploymentStatus struct {
	AvailableReplicas int32 `json:"availableReplicas,omitempty"`
}
