//! The Foo of examples/sample-controller, with the same CustomResourceDefinition.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the user asks for.
#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "samplecontroller.k8s.io",
    version = "v1alpha1",
    kind = "Foo",
    namespaced,
    status = "FooStatus"
)]
#[kube(annotation("api-approved.kubernetes.io", "unapproved, experimental-only"))]
#[kube(printcolumn(name = "Deployment", type_ = "string", json_path = ".spec.deploymentName"))]
#[kube(printcolumn(name = "Available", type_ = "integer", json_path = ".status.availableReplicas"))]
#[serde(rename_all = "camelCase")]
pub struct FooSpec {
    /// The Deployment's name.
    #[schemars(length(min = 1))]
    pub deployment_name: String,
    /// How many replicas it has; 1 when not given.
    #[schemars(range(min = 1, max = 10))]
    pub replicas: Option<i32>,
}

/// What is there.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FooStatus {
    /// How many replicas of the Deployment are available.
    pub available_replicas: i32,
}
