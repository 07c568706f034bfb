//! The Foo of examples/sample-controller, with the same CustomResourceDefinition.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The desired state of a Foo.
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
    /// The name of the Deployment.
    #[schemars(length(min = 1))]
    pub deployment_name: String,
    /// The number of replicas of the Deployment; 1 by default.
    #[schemars(range(min = 1, max = 10))]
    pub replicas: Option<i32>,
}

/// The observed state of a Foo.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FooStatus {
    /// The number of available replicas of the Deployment.
    pub available_replicas: i32,
}
