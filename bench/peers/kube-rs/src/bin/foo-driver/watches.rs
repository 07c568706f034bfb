//! Watches Foos and Deployments, decodes only four of their fields, and counts the Foos that do not have the target state yet.

use std::future::Future;
use std::ops::Range;
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Request, WatchEvent, WatchParams};
use kube::core::Status;
use kube::{Client, Resource};
use kube_rs_peers::foo::Foo;
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::sync::watch;

/// Returns the name of the Foo with this number, and of its Deployment.
pub fn name(number: usize) -> String {
    format!("bench-{number}")
}

/// The state of a Foo that a phase waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetState {
    /// The Deployment has this number of replicas, and the Foo's status reports them as available.
    Replicas(i32),
    /// Neither the Foo nor its Deployment exists.
    Gone,
}

/// The Foos whose target state is awaited.
pub struct Goal {
    pub numbers: Range<usize>,
    pub target: TargetState,
}

/// The observed state of a Foo.
#[derive(Clone, Copy, Default)]
struct FooState {
    foo: bool,
    available: Option<i32>,
    deployment: bool,
    replicas: Option<i32>,
}

impl FooState {
    fn is(&self, target: TargetState) -> bool {
        match target {
            TargetState::Replicas(count) => self.replicas == Some(count) && self.available == Some(count),
            TargetState::Gone => !self.foo && !self.deployment,
        }
    }
}

/// The observed state of all Foos.
struct State {
    foos: Vec<FooState>,
    goal: Goal,
    /// The number of Foos of the goal that do not have the target state.
    remaining: usize,
}

impl State {
    /// Updates the state of a Foo, and returns the new number of remaining Foos if it has changed.
    fn update(&mut self, number: usize, change: impl FnOnce(&mut FooState)) -> Option<usize> {
        let foo = self.foos.get_mut(number)?;
        let before = foo.is(self.goal.target);
        change(foo);
        let after = foo.is(self.goal.target);
        if before == after || !self.goal.numbers.contains(&number) {
            return None;
        }
        self.remaining = if after { self.remaining - 1 } else { self.remaining + 1 };
        Some(self.remaining)
    }
}

/// The watches of Foos and their Deployments.
pub struct FooWatches {
    state: Arc<Mutex<State>>,
    /// The number of remaining Foos, or the error of a watch.
    progress: watch::Receiver<Result<usize, String>>,
    progress_sender: watch::Sender<Result<usize, String>>,
}

impl FooWatches {
    /// Starts both watches for `count` Foos.
    pub async fn start(client: &Client, count: usize) -> Result<Self, kube::Error> {
        let goal = Goal { numbers: 0..0, target: TargetState::Gone };
        let state =
            Arc::new(Mutex::new(State { foos: vec![FooState::default(); count], goal, remaining: 0 }));
        let (progress_sender, progress) = watch::channel(Ok(0));
        let start = |collection: String, update: fn(&mut FooState, Option<&WatchedObject>)| {
            let watcher = CollectionWatcher {
                state: Arc::clone(&state),
                progress_sender: progress_sender.clone(),
                update,
            };
            let client = client.clone();
            tokio::spawn(async move {
                let Err(error) = watcher.run(&client, &collection).await;
                drop(
                    watcher
                        .progress_sender
                        .send_replace(Err(format!("the watch of {collection} failed: {error}"))),
                );
            });
        };
        start(Foo::url_path(&(), Some("default")), |state, foo| {
            state.foo = foo.is_some();
            state.available = foo.and_then(|foo| foo.status.available_replicas);
        });
        start(Deployment::url_path(&(), Some("default")), |state, deployment| {
            state.deployment = deployment.is_some();
            state.replicas = deployment.and_then(|deployment| deployment.spec.replicas);
        });
        Ok(Self { state, progress, progress_sender })
    }

    /// Sets the goal. The returned future is ready when the goal is reached, or when a watch has failed.
    pub fn set_goal(&self, goal: Goal) -> impl Future<Output = Result<(), String>> + use<> {
        let mut state = self.state.lock();
        state.remaining = state.foos[goal.numbers.clone()].iter().filter(|foo| !foo.is(goal.target)).count();
        state.goal = goal;
        let remaining = state.remaining;
        self.progress_sender
            .send_if_modified(|report| report.as_mut().map(|report| *report = remaining).is_ok());
        let mut progress = self.progress.clone();
        async move {
            let reached = progress.wait_for(|remaining| !matches!(remaining, Ok(1..))).await;
            reached.map_err(|error| error.to_string())?.clone().map(drop)
        }
    }

    /// Returns the number of Foos that do not have the target state.
    pub fn remaining(&self) -> usize {
        self.state.lock().remaining
    }
}

/// The watch of one collection.
struct CollectionWatcher {
    state: Arc<Mutex<State>>,
    progress_sender: watch::Sender<Result<usize, String>>,
    /// Updates a Foo's state from an object; `None` for a deleted one.
    update: fn(&mut FooState, Option<&WatchedObject>),
}

impl CollectionWatcher {
    /// Watches until an error. A watch that ends normally is resumed.
    async fn run(&self, client: &Client, collection: &str) -> Result<std::convert::Infallible, kube::Error> {
        let mut version = String::new();
        loop {
            let request = Request::new(collection).watch(&WatchParams::default(), &version);
            let request = request.map_err(kube::Error::BuildRequest)?;
            let mut events = client.request_events::<WatchedObject>(request).await?.boxed();
            while let Some(event) = events.try_next().await? {
                version = match event {
                    WatchEvent::Added(object) | WatchEvent::Modified(object) => self.apply(object, true),
                    WatchEvent::Deleted(object) => self.apply(object, false),
                    WatchEvent::Bookmark(bookmark) => bookmark.metadata.resource_version,
                    WatchEvent::Error(status) => return Err(api_error(*status)),
                };
            }
        }
    }

    /// Updates the state from an object that exists or was deleted, and returns its resource version.
    fn apply(&self, object: WatchedObject, exists: bool) -> String {
        let number = object.metadata.name.strip_prefix("bench-").and_then(|number| number.parse().ok());
        if let Some(number) = number {
            let mut state = self.state.lock();
            let remaining = state.update(number, |foo| (self.update)(foo, exists.then_some(&object)));
            if let Some(remaining) = remaining {
                // The receiver is only woken when the goal is reached.
                self.progress_sender.send_if_modified(|report| {
                    report
                        .as_mut()
                        .is_ok_and(|report| std::mem::replace(report, remaining) > 0 && remaining == 0)
                });
            }
        }
        object.metadata.resource_version
    }
}

fn api_error(status: Status) -> kube::Error {
    kube::Error::Api(Box::new(status))
}

/// The fields of a Foo or a Deployment that are read.
#[derive(Clone, Deserialize)]
struct WatchedObject {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: ObjectStatus,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    resource_version: String,
}

#[derive(Clone, Default, Deserialize)]
struct Spec {
    replicas: Option<i32>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ObjectStatus {
    available_replicas: Option<i32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_foos_of_the_goal_are_counted_once_both_objects_have_the_target_state() {
        let goal = Goal { numbers: 0..1, target: TargetState::Replicas(2) };
        let mut state = State { foos: vec![FooState::default(); 2], goal, remaining: 1 };
        assert_eq!(state.update(0, |foo| foo.replicas = Some(2)), None, "its status is missing");
        assert_eq!(state.update(1, |foo| (foo.replicas, foo.available) = (Some(2), Some(2))), None);
        assert_eq!(state.update(0, |foo| foo.available = Some(2)), Some(0));
        assert_eq!(state.update(0, |foo| foo.available = Some(1)), Some(1), "it can lose the state again");
        assert_eq!(state.update(7, |_| {}), None, "the number is out of range");
    }

    #[test]
    fn a_foo_is_gone_when_its_deployment_is_gone_too() {
        let present = FooState { foo: true, deployment: true, ..FooState::default() };
        let goal = Goal { numbers: 0..1, target: TargetState::Gone };
        let mut state = State { foos: vec![present], goal, remaining: 1 };
        assert_eq!(state.update(0, |foo| foo.foo = false), None);
        assert_eq!(state.update(0, |foo| foo.deployment = false), Some(0));
    }
}
