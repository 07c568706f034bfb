//! Foo → Deployment: the controller that Kubernetes' own documentation teaches with, as a plugin.
//!
//! A Foo names a Deployment and says how many replicas it has. The plugin creates that Deployment, repairs it when
//! somebody changes it, creates it again when somebody deletes it, and reports how many replicas are available.

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kube::{CustomResource, CustomResourceExt};
use pilothouse_sdk::client::{self, Change};
use pilothouse_sdk::owner::{controller_owner_ref, is_controlled_by};
use pilothouse_sdk::{
    Config, Context, Describe, Error, Outcome, Plugin, Reconciler, Request, Watch, WriteRule, info,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What every Deployment runs. Try it: change this line, build again, and watch the new version of the plugin roll it
/// out to every Foo.
const IMAGE: &str = "nginx:1.29";

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

/// The plugin.
#[derive(Default)]
struct SampleController;

impl Describe for SampleController {
    fn describe(_config: &Config) -> Result<Plugin, Error> {
        Ok(Plugin::new("sample-controller", env!("CARGO_PKG_VERSION"))
            .summary("Runs a Deployment for every Foo")
            .crd(Foo::crd())
            .watch(Watch::of::<Foo>("foos").triggers_itself())
            .watch(Watch::of::<Deployment>("deployments").triggers_owner("foos"))
            .writes(WriteRule::of::<Deployment>(&["create", "update"]))
            .writes(WriteRule::status_of::<Foo>()))
    }
}

impl Reconciler for SampleController {
    fn reconcile(&self, ctx: &Context<'_>, request: &Request) -> Result<Outcome, Error> {
        let Some(foo) = ctx.cache::<Foo>("foos").get(&request.key)? else {
            return Ok(Outcome::Done); // Its Deployment goes with it, by the owner reference.
        };
        if foo.metadata.deletion_timestamp.is_some() {
            return Ok(Outcome::Done);
        }
        let key = request.key.sibling(&foo.spec.deployment_name);
        let present = ctx.cache::<Deployment>("deployments").get(&key)?;
        if present.as_ref().is_some_and(|deployment| !is_controlled_by(deployment, &foo)) {
            let note = format!("Deployment {key} already exists and is not managed by Foo {}", request.key);
            ctx.events().warning(&foo, "ErrResourceExists", "Sync", &note);
            return Err(Error::retry(note));
        }
        let (deployment, change) = client::create_or_update(
            present,
            || new_deployment(&foo),
            |deployment| repair(deployment, &foo),
        )?;
        let reported = report(&foo, &deployment)?;
        if change != Change::Unchanged || reported {
            info!(deployment = key, change = format!("{change:?}"), "synced");
            ctx.events().normal(&foo, "Synced", "Sync", "Foo synced successfully");
        }
        Ok(Outcome::Done)
    }
}

/// Brings what the Foo decides to what it says, and leaves the rest to others.
fn repair(deployment: &mut Deployment, foo: &Foo) {
    let spec = &mut deployment.spec;
    spec.replicas = foo.spec.replicas.or(spec.replicas);
    for container in spec.template.spec.iter_mut().flat_map(|pod| &mut pod.containers) {
        if container.name == "nginx" {
            container.image = Some(IMAGE.to_owned());
        }
    }
}

/// Writes the status when it differs, and says whether it did.
fn report(foo: &Foo, deployment: &Deployment) -> Result<bool, Error> {
    let available = deployment.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0);
    if foo.status.as_ref().is_some_and(|status| status.available_replicas == available) {
        return Ok(false);
    }
    let mut foo = foo.clone();
    foo.status = Some(FooStatus { available_replicas: available });
    client::update_status(&foo)?;
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
