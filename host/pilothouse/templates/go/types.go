package main

import "pilothouse.dev/sdk"

// Foo is what the user asks for, and what is there.
type Foo struct {
	sdk.TypeMeta
	Metadata sdk.ObjectMeta `json:"metadata"`
	Spec     struct {
		DeploymentName string `json:"deploymentName"`
		// 1 when not given.
		Replicas *int32 `json:"replicas,omitempty"`
	} `json:"spec"`
	Status *FooStatus `json:"status,omitempty"`
}

// FooStatus is what is there.
type FooStatus struct {
	AvailableReplicas int32 `json:"availableReplicas"`
}

// Deployment is as much of a Deployment as this controller needs. k8s.io/api has all of it, for four times the size of the plugin.
type Deployment struct {
	sdk.TypeMeta
	Metadata sdk.ObjectMeta   `json:"metadata"`
	Spec     DeploymentSpec   `json:"spec"`
	Status   DeploymentStatus `json:"status,omitzero"`
}

// DeploymentSpec is the wanted state of a Deployment.
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

// Selector says which Pods belong to a Deployment.
type Selector struct {
	MatchLabels map[string]string `json:"matchLabels,omitempty"`
}

// Container is one container of a Pod.
type Container struct {
	Name  string `json:"name"`
	Image string `json:"image"`
}

// DeploymentStatus is what there is of a Deployment.
type DeploymentStatus struct {
	AvailableReplicas int32 `json:"availableReplicas,omitempty"`
}
