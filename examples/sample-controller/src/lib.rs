//! A controller that runs a Deployment for every Foo: the sample controller of the Kubernetes documentation, as a plugin.
//!
//! A Foo names a Deployment and its number of replicas. The plugin creates the Deployment, reverts changes to it, recreates it when it
//! is deleted, and reports the number of available replicas.

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kube::{CustomResource, CustomResourceExt};
use pilothouse_sdk::client::Change;
use pilothouse_sdk::owner::{controller_owner_ref, is_controlled_by};
use pilothouse_sdk::{
    Config, Context, Describe, Error, Outcome, Plugin, Reconciler, Request, Verb, Watch, WatchRef, WriteRule,
    info,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The image that every Deployment runs. Change it and build again: the new version of the plugin rolls it out to every Foo.
const IMAGE: &str = "nginx:1.29";

const FOOS: WatchRef<Foo> = WatchRef::new("foos");
const DEPLOYMENTS: WatchRef<Deployment> = WatchRef::new("deployments");

/// The desired state of a Foo.
#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "samplecontroller.k8s.io",
    version = "v1alpha1",
    kind = "Foo",
    namespaced,
    status = "FooStatus"
)]
// Required for groups below k8s.io; remove this line for a group of your own.
#[kube(annotation("api-approved.kubernetes.io", "unapproved, experimental-only"))]
#[kube(printcolumn(name = "Deployment", type_ = "string", json_path = ".spec.deploymentName"))]
#[kube(printcolumn(name = "Available", type_ = "integer", json_path = ".status.availableReplicas"))]
#[serde(rename_all = "camelCase")]
pub struct FooSpec {
    /// The name of the Deployment.
    #[schemars(length(min = 1))]
    pub deployment_name: String,
    /// The number of replicas; 1 by default.
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

/// The plugin.
#[derive(Default)]
struct SampleController;

impl Describe for SampleController {
    fn describe(_config: &Config) -> Result<Plugin, Error> {
        Ok(Plugin::new("sample-controller", env!("CARGO_PKG_VERSION"))
            .summary("Runs a Deployment for every Foo")
            .crd(Foo::crd())
            // The predicate ignores changes of a Foo's status, which this plugin writes itself.
            .watch(Watch::of(FOOS).triggers_itself().predicate("generationChanged()"))
            .owns(DEPLOYMENTS)
            .writes(WriteRule::of::<Deployment>(&[Verb::Create, Verb::Update]))
            .writes(WriteRule::status_of::<Foo>()))
    }
}

impl Reconciler for SampleController {
    fn reconcile(&self, ctx: &Context<'_>, request: &Request) -> Result<Outcome, Error> {
        let Some(foo) = ctx.cache(FOOS).get(&request.key)? else {
            return Ok(Outcome::Done); // The garbage collector deletes its Deployment.
        };
        if foo.metadata.deletion_timestamp.is_some() {
            return Ok(Outcome::Done);
        }
        let key = request.key.sibling(&foo.spec.deployment_name);
        let present = ctx.cache(DEPLOYMENTS).get(&key)?;
        if present.as_ref().is_some_and(|deployment| !is_controlled_by(deployment, &foo)) {
            let note = format!("Deployment {key} already exists and is not managed by Foo {}", request.key);
            ctx.events().warning(&foo, "ErrResourceExists", "Sync", &note);
            return Err(Error::retry(note));
        }
        let (deployment, change) = ctx.client().create_or_update(
            present,
            || new_deployment(&foo),
            |deployment| set_desired_state(deployment, &foo),
        )?;
        let status_changed = update_status(ctx, &foo, &deployment)?;
        if change != Change::Unchanged || status_changed {
            info!(deployment = key, change = format!("{change:?}"), "synced");
            ctx.events().normal(&foo, "Synced", "Sync", "Foo synced successfully");
        }
        Ok(Outcome::Done)
    }
}

/// Sets the fields that the Foo determines, and leaves the others as they are.
fn set_desired_state(deployment: &mut Deployment, foo: &Foo) {
    let spec = &mut deployment.spec;
    spec.replicas = foo.spec.replicas.or(spec.replicas);
    for container in spec.template.spec.iter_mut().flat_map(|pod| &mut pod.containers) {
        if container.name == "nginx" {
            container.image = Some(IMAGE.to_owned());
        }
    }
}

/// Updates the Foo's status if it differs, and returns whether it did.
fn update_status(ctx: &Context<'_>, foo: &Foo, deployment: &Deployment) -> Result<bool, Error> {
    let available = deployment.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0);
    if foo.status.as_ref().is_some_and(|status| status.available_replicas == available) {
        return Ok(false);
    }
    let mut foo = foo.clone();
    foo.status = Some(FooStatus { available_replicas: available });
    ctx.client().update_status(&foo)?;
    Ok(true)
}

fn new_deployment(foo: &Foo) -> Deployment {
    let name = foo.metadata.name.clone().unwrap_or_default();
    let labels = [("app".to_owned(), "nginx".to_owned()), ("controller".to_owned(), name)];
    let container = Container { name: "nginx".into(), image: Some(IMAGE.into()), ..Container::default() };
    Deployment {
        metadata: ObjectMeta {
            name: Some(foo.spec.deployment_name.clone()),
            namespace: foo.metadata.namespace.clone(),
            owner_references: Some(vec![controller_owner_ref(foo)]),
            ..ObjectMeta::default()
        },
        spec: DeploymentSpec {
            replicas: Some(foo.spec.replicas.unwrap_or(1)),
            selector: LabelSelector { match_labels: Some(labels.clone().into()), ..LabelSelector::default() },
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta { labels: Some(labels.into()), ..ObjectMeta::default() }),
                spec: Some(PodSpec { containers: vec![container], ..PodSpec::default() }),
            },
            ..DeploymentSpec::default()
        },
        ..Deployment::default()
    }
}

pilothouse_sdk::export!(SampleController);

#[cfg(test)]
mod tests;
