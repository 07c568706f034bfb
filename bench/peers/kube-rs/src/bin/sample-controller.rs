//! The kube-rs peer of the end-to-end benchmark: the same controller as examples/sample-controller.
//!
//! It creates the same Deployments, repairs, status and Events. Deployments are read from a cache: their watch fills a reflector and triggers
//! the owner, as in the documentation of `Controller::owns_stream`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use futures::StreamExt;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};
use kube::api::PostParams;
use kube::runtime::controller::{Action, Controller};
use kube::runtime::events::{Event, EventType, Recorder};
use kube::runtime::reflector::{ObjectRef, Store, store};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use kube_rs_peers::foo::{Foo, FooStatus};
use tracing::{info, warn};

const IMAGE: &str = "nginx:1.29";

#[derive(Parser)]
struct Arguments {
    #[arg(long)]
    kubeconfig: PathBuf,
    /// Write no Events, to measure what they cost.
    #[arg(long)]
    no_events: bool,
}

struct Context {
    client: Client,
    deployments: Store<Deployment>,
    recorder: Option<Recorder>,
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Api(#[from] kube::Error),
    #[error("{0}")]
    NotControlled(String),
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).init();
    let arguments = Arguments::parse();
    let client = kube_rs_peers::connect(&arguments.kubeconfig).await?;
    let foos = Api::<Foo>::all(client.clone());
    let (deployments, writer) = store();
    let changes = watcher(Api::<Deployment>::all(client.clone()), watcher::Config::default())
        .default_backoff()
        .reflect(writer)
        .touched_objects();
    let recorder = (!arguments.no_events).then(|| Recorder::new(client.clone(), "sample-controller".into()));
    let context = Arc::new(Context { client, deployments, recorder });
    Controller::new(foos, watcher::Config::default())
        .owns_stream(changes)
        .shutdown_on_signal()
        .run(reconcile, error_policy, context)
        .for_each(|_| async {})
        .await;
    Ok(())
}

/// Retries every error after 5 seconds. A conflict because of a stale cache is retried earlier, when the cache changes.
fn error_policy(foo: Arc<Foo>, error: &Error, _: Arc<Context>) -> Action {
    warn!(foo = foo.name_any(), "{error}");
    Action::requeue(Duration::from_secs(5))
}

async fn reconcile(foo: Arc<Foo>, context: Arc<Context>) -> Result<Action, Error> {
    if foo.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    let namespace = foo.namespace().unwrap_or_default();
    let key = ObjectRef::<Deployment>::new(&foo.spec.deployment_name).within(&namespace);
    let present = context.deployments.get(&key);
    if present.as_ref().is_some_and(|deployment| !is_controlled_by(deployment, &foo)) {
        let note = format!(
            "Deployment {namespace}/{} already exists and is not managed by Foo {namespace}/{}",
            foo.spec.deployment_name,
            foo.name_any()
        );
        publish(&context, &foo, EventType::Warning, "ErrResourceExists", &note).await?;
        return Err(Error::NotControlled(note));
    }
    let deployments = Api::<Deployment>::namespaced(context.client.clone(), &namespace);
    let (deployment, written) = match present {
        None => (Arc::new(deployments.create(&PostParams::default(), &new_deployment(&foo)).await?), true),
        Some(present) => {
            let mut deployment = Deployment::clone(&present);
            repair(&mut deployment, &foo);
            if deployment == *present {
                (present, false)
            } else {
                let name = &foo.spec.deployment_name;
                (Arc::new(deployments.replace(name, &PostParams::default(), &deployment).await?), true)
            }
        }
    };
    let reported = report(&context, &foo, &deployment).await?;
    if written || reported {
        info!(deployment = deployment.name_any(), written, reported, "synced");
        publish(&context, &foo, EventType::Normal, "Synced", "Foo synced successfully").await?;
    }
    Ok(Action::await_change())
}

/// Returns whether the Foo controls the Deployment, by UID.
fn is_controlled_by(deployment: &Deployment, foo: &Foo) -> bool {
    let controller = deployment.owner_references().iter().find(|owner| owner.controller == Some(true));
    controller.is_some_and(|owner| Some(&owner.uid) == foo.metadata.uid.as_ref())
}

/// Sets the fields of the Deployment that the Foo determines, and leaves the others unchanged.
fn repair(deployment: &mut Deployment, foo: &Foo) {
    let spec = &mut deployment.spec;
    spec.replicas = foo.spec.replicas.or(spec.replicas);
    for container in spec.template.spec.iter_mut().flat_map(|pod| &mut pod.containers) {
        if container.name == "nginx" {
            container.image = Some(IMAGE.to_owned());
        }
    }
}

/// Writes the status if it has changed, and returns whether it has.
async fn report(context: &Context, foo: &Foo, deployment: &Deployment) -> Result<bool, Error> {
    let available = deployment.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0);
    if foo.status.as_ref().is_some_and(|status| status.available_replicas == available) {
        return Ok(false);
    }
    let mut foo = foo.clone();
    foo.status = Some(FooStatus { available_replicas: available });
    let foos = Api::<Foo>::namespaced(context.client.clone(), &foo.namespace().unwrap_or_default());
    foos.replace_status(&foo.name_any(), &PostParams::default(), &foo).await?;
    Ok(true)
}

async fn publish(
    context: &Context,
    foo: &Foo,
    type_: EventType,
    reason: &str,
    note: &str,
) -> Result<(), kube::Error> {
    let Some(recorder) = &context.recorder else { return Ok(()) };
    let event = Event {
        type_,
        reason: reason.to_owned(),
        note: Some(note.to_owned()),
        action: "Sync".to_owned(),
        secondary: None,
    };
    recorder.publish(&event, &foo.object_ref(&())).await
}

fn new_deployment(foo: &Foo) -> Deployment {
    let labels = [("app".to_owned(), "nginx".to_owned()), ("controller".to_owned(), foo.name_any())];
    let container = Container { name: "nginx".into(), image: Some(IMAGE.into()), ..Container::default() };
    let owner = foo.controller_owner_ref(&()).expect("a Foo from the server has a name and a UID");
    Deployment {
        metadata: ObjectMeta {
            name: Some(foo.spec.deployment_name.clone()),
            namespace: foo.namespace(),
            owner_references: Some(vec![OwnerReference { block_owner_deletion: Some(true), ..owner }]),
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
