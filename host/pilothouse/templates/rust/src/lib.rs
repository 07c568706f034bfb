//! For every Foo, a Deployment.

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

/// What the user asks for.
#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "samplecontroller.k8s.io",
    version = "v1alpha1",
    kind = "Foo",
    namespaced,
    status = "FooStatus"
)]
// The group *.k8s.io asks for this line; a group of your own does not.
#[kube(annotation("api-approved.kubernetes.io", "unapproved, experimental-only"))]
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

#[derive(Default)]
struct Controller;

impl Describe for Controller {
    fn describe(_config: &Config) -> Result<Plugin, Error> {
        Ok(Plugin::new("{{name}}", env!("CARGO_PKG_VERSION"))
            .summary("Runs a Deployment for every Foo")
            .crd(Foo::crd())
            // A Foo's own status, which this plugin writes, is no news to it.
            .watch(Watch::of::<Foo>("foos").triggers_itself().predicate("generationChanged()"))
            .watch(Watch::of::<Deployment>("deployments").triggers_owner("foos"))
            .writes(WriteRule::of::<Deployment>(&["create", "update"]))
            .writes(WriteRule::status_of::<Foo>()))
    }
}

impl Reconciler for Controller {
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
        if change != Change::Unchanged {
            info!("Deployment {key}: {change:?}");
        }
        report(foo, &deployment)?;
        Ok(Outcome::Done)
    }
}

/// Brings what the Foo decides to what it says, and leaves the rest to others.
fn repair(deployment: &mut Deployment, foo: &Foo) {
    deployment.spec.replicas = foo.spec.replicas.or(deployment.spec.replicas);
}

/// Writes the status when it differs.
fn report(mut foo: Foo, deployment: &Deployment) -> Result<(), Error> {
    let available = deployment.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0);
    if foo.status.as_ref().is_some_and(|status| status.available_replicas == available) {
        return Ok(());
    }
    foo.status = Some(FooStatus { available_replicas: available });
    client::update_status(&foo)?;
    Ok(())
}

fn new_deployment(foo: &Foo) -> Deployment {
    let name = foo.metadata.name.clone().unwrap_or_default();
    let labels = [("app".to_owned(), "nginx".to_owned()), ("controller".to_owned(), name)];
    let container =
        Container { name: "nginx".into(), image: Some("nginx:1.29".into()), ..Container::default() };
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

pilothouse_sdk::export!(Controller);

#[cfg(test)]
mod tests;
