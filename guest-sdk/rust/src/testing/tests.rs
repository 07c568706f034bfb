//! Tests of the fake host beyond the cases of the fake cluster, which `tests/cases.rs` runs.

use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

use super::*;
use crate::client::Patch;
use crate::finalizer::{self, Phase};
use crate::{Object, Plugin, Watch, WatchRef, WriteRule};

const DEPLOYMENTS: WatchRef<Deployment> = WatchRef::new("deployments");
const MAPS: WatchRef<ConfigMap> = WatchRef::new("maps");
const FINALIZER: &str = "example.com/cleanup";

/// Holds a finalizer, and sets the status of its object.
#[derive(Default)]
struct Finalized {
    observed: Vec<String>,
}

impl Describe for Finalized {
    fn describe(config: &Config) -> Result<Plugin, Error> {
        let _: Option<String> = config.get("image")?;
        Ok(Plugin::new("finalized", "0.1.0")
            .watch(Watch::of(DEPLOYMENTS).triggers_itself())
            .watch(Watch::of(MAPS).notify())
            .writes(WriteRule::of::<Deployment>(&[Verb::Get, Verb::Patch]))
            .writes(WriteRule::status_of::<Deployment>()))
    }
}

impl Reconciler for Finalized {
    fn reconcile(&self, ctx: &Context<'_>, request: &Request) -> Result<Outcome, Error> {
        let Some(deployment) = ctx.cache(DEPLOYMENTS).get(&request.key)? else {
            return Ok(Outcome::Done);
        };
        finalizer::run(&deployment, FINALIZER, |phase, held| {
            if phase == Phase::Apply {
                let mut held = held.clone();
                held.status = Some(DeploymentStatus { replicas: Some(2), ..DeploymentStatus::default() });
                ctx.client().update_status(&held)?;
                crate::info!(generation = held.metadata.generation.unwrap_or_default(), "held");
            }
            Ok(Outcome::Done)
        })
    }
}

impl Observer for Finalized {
    fn observe(&mut self, _: &Context<'_>, notifications: &[Notification<'_>]) -> Result<(), Error> {
        for notification in notifications {
            let value: Option<String> = notification.field("/data/k")?;
            let before = notification.before::<Object>()?.is_some();
            let (change, key) = (notification.change(), notification.key());
            self.observed.push(format!("{change} {key} {before} {value:?}"));
        }
        Err(Error::retry(self.observed.join(", ")))
    }
}

fn deployment() -> Deployment {
    let mut deployment = Deployment::default();
    deployment.metadata.namespace = Some("default".into());
    deployment.metadata.name = Some("web".into());
    deployment
}

fn key() -> ObjectKey {
    ObjectKey::new("default", "web")
}

#[test]
fn work_under_a_new_finalizer_can_update_the_status() {
    let host = Host::<Finalized>::new();
    host.put(&deployment());
    host.reconcile(DEPLOYMENTS, &key()).unwrap();
    let stored: Deployment = host.get(&key()).unwrap();
    assert_eq!(stored.metadata.finalizers, Some(vec![FINALIZER.to_owned()]));
    assert_eq!(stored.status.unwrap().replicas, Some(2));
    assert_eq!(
        host.writes(),
        ["patch apps/v1 Deployment default/web", "update apps/v1 Deployment default/web status"]
    );
    assert_eq!(host.log()[0].fields, [("generation".to_owned(), "1".to_owned())]);

    host.delete::<Deployment>(&key());
    assert!(host.get::<Deployment>(&key()).is_some(), "the finalizer holds it");
    host.reconcile(DEPLOYMENTS, &key()).unwrap();
    assert!(host.get::<Deployment>(&key()).is_none());
}

#[test]
fn a_finalizer_that_another_client_removed_is_no_error() {
    let host = Host::<Finalized>::new();
    let mut going = deployment();
    going.metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
    host.put(&going);
    host.delete::<Deployment>(&key());
    host.fail(Failure::new(ApiError::NotFound("gone".into())).verb(Verb::Patch).kind("Deployment"));
    assert_eq!(host.reconcile(DEPLOYMENTS, &key()).unwrap(), Outcome::Done);
}

#[test]
fn an_observer_receives_the_changes_of_a_batch() {
    let host = Host::<Finalized>::new();
    let map = |value: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "n", "name": "m"}, "data": {"k": value}});
    let change = ObservedChange { watch: "maps".into(), ..ObservedChange::default() };
    let error = host
        .observe(&[
            ObservedChange { after: Some(map("1")), is_initial: true, ..change.clone() },
            ObservedChange { before: Some(map("1")), after: Some(map("2")), ..change.clone() },
            ObservedChange { before: Some(map("2")), ..change },
        ])
        .unwrap_err();
    let expected = r#"added n/m false Some("1"), updated n/m true Some("2"), deleted n/m true None"#;
    assert_eq!(error.to_string(), expected);
}

#[test]
fn an_event_about_an_object_that_was_just_written_needs_no_request() {
    let host = Host::<Finalized>::new();
    host.put(&deployment());
    host.with_context(|ctx| {
        let body = json!({"metadata": {"labels": {"a": "b"}}});
        let written: Deployment = ctx.client().patch(&key(), &Patch::Merge(&body)).unwrap();
        host.fail(Failure::new(ApiError::NotFound("no get".into())).verb(Verb::Get));
        ctx.events().normal(&written, "Labelled", "Label", "Labelled by the test");
    });
    let reasons: Vec<_> = host.events().into_iter().map(|event| event.reason).collect();
    assert_eq!(reasons, ["Labelled"]);
}

#[test]
fn the_clock_is_that_of_the_test() {
    let host = Host::<Finalized>::new();
    let time = Timestamp::new(1_767_268_800, 5).unwrap();
    host.set_time(time);
    assert_eq!(crate::clock::now(), time);
}

#[test]
fn the_configuration_reaches_the_plugin() {
    let host = Host::<Finalized>::with_config(&json!({"image": "nginx"}));
    let image: Option<String> =
        host.with_context(|ctx| ctx.config().and_then(|config| Ok(config.get("image")?))).unwrap();
    assert_eq!(image.as_deref(), Some("nginx"));
    assert_eq!(host.descriptor()["name"], json!("finalized"));
}

#[test]
#[should_panic(expected = "describe: config.image cannot be read as")]
fn a_plugin_that_refuses_its_configuration_has_no_host() {
    let _ = Host::<Finalized>::with_config(&json!({"image": 7}));
}

#[test]
#[should_panic(expected = "cache.get: there is no host outside of a plugin")]
fn a_call_without_a_host_names_the_fake_one() {
    drop(Host::<Finalized>::new());
    let _ = Context::without_request().cache::<Object>("maps").get(&key());
}
