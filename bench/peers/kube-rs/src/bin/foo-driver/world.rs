//! What the driver sees: one watch of Foos and one of Deployments, of which it decodes four fields.

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

/// The name of the Foo with this number, and of its Deployment.
pub fn name(number: usize) -> String {
    format!("bench-{number}")
}

/// What a phase waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The Deployment says so many replicas, and the Foo's status says that so many are available.
    Replicas(i32),
    /// Neither the Foo nor its Deployment is there.
    Gone,
}

/// Which Foos are to be how.
pub struct Goal {
    pub numbers: Range<usize>,
    pub wanted: Wanted,
}

/// What is known of one Foo.
#[derive(Clone, Copy, Default)]
struct Known {
    foo: bool,
    available: Option<i32>,
    deployment: bool,
    replicas: Option<i32>,
}

impl Known {
    fn is(&self, wanted: Wanted) -> bool {
        match wanted {
            Wanted::Replicas(count) => self.replicas == Some(count) && self.available == Some(count),
            Wanted::Gone => !self.foo && !self.deployment,
        }
    }
}

/// What is known, and how much of it is not yet as it is wanted.
struct State {
    known: Vec<Known>,
    goal: Goal,
    missing: usize,
}

impl State {
    /// Changes what is known of a Foo, and returns how many are missing when that changes it.
    fn note(&mut self, number: usize, change: impl FnOnce(&mut Known)) -> Option<usize> {
        let known = self.known.get_mut(number)?;
        let before = known.is(self.goal.wanted);
        change(known);
        let after = known.is(self.goal.wanted);
        if before == after || !self.goal.numbers.contains(&number) {
            return None;
        }
        self.missing = if after { self.missing - 1 } else { self.missing + 1 };
        Some(self.missing)
    }
}

/// The Foos and their Deployments, as the watches tell.
pub struct World {
    state: Arc<Mutex<State>>,
    /// How many Foos are not as wanted; or why a watch broke.
    progress: watch::Receiver<Result<usize, String>>,
    report: watch::Sender<Result<usize, String>>,
}

impl World {
    /// Starts both watches.
    pub async fn watch(client: &Client, count: usize) -> Result<Self, kube::Error> {
        let goal = Goal { numbers: 0..0, wanted: Wanted::Gone };
        let state = Arc::new(Mutex::new(State { known: vec![Known::default(); count], goal, missing: 0 }));
        let (report, progress) = watch::channel(Ok(0));
        let follow = |collection: String, note: fn(&mut Known, Option<&Seen>)| {
            let observer = Observer { state: Arc::clone(&state), report: report.clone(), note };
            let client = client.clone();
            tokio::spawn(async move {
                let Err(why) = observer.follow(&client, &collection).await;
                drop(observer.report.send_replace(Err(format!("the watch of {collection} broke: {why}"))));
            });
        };
        follow(Foo::url_path(&(), Some("default")), |known, foo| {
            known.foo = foo.is_some();
            known.available = foo.and_then(|foo| foo.status.available_replicas);
        });
        follow(Deployment::url_path(&(), Some("default")), |known, deployment| {
            known.deployment = deployment.is_some();
            known.replicas = deployment.and_then(|deployment| deployment.spec.replicas);
        });
        Ok(Self { state, progress, report })
    }

    /// Sets what is waited for; the future is ready when it is so.
    pub fn aim(&self, goal: Goal) -> impl Future<Output = Result<(), String>> + use<> {
        let mut state = self.state.lock();
        state.missing =
            state.known[goal.numbers.clone()].iter().filter(|known| !known.is(goal.wanted)).count();
        state.goal = goal;
        let missing = state.missing;
        self.report.send_if_modified(|report| report.as_mut().map(|report| *report = missing).is_ok());
        let mut progress = self.progress.clone();
        async move {
            let reached = progress.wait_for(|missing| !matches!(missing, Ok(1..))).await;
            reached.map_err(|error| error.to_string())?.clone().map(drop)
        }
    }

    /// How many Foos are not as wanted.
    pub fn missing(&self) -> usize {
        self.state.lock().missing
    }
}

/// One watch.
struct Observer {
    state: Arc<Mutex<State>>,
    report: watch::Sender<Result<usize, String>>,
    note: fn(&mut Known, Option<&Seen>),
}

impl Observer {
    /// Watches until something fails. A watch that the server ends in order is continued where it was.
    async fn follow(
        &self,
        client: &Client,
        collection: &str,
    ) -> Result<std::convert::Infallible, kube::Error> {
        let mut version = String::new();
        loop {
            let request = Request::new(collection).watch(&WatchParams::default(), &version);
            let request = request.map_err(kube::Error::BuildRequest)?;
            let mut events = client.request_events::<Seen>(request).await?.boxed();
            while let Some(event) = events.try_next().await? {
                let seen = match event {
                    WatchEvent::Added(seen) | WatchEvent::Modified(seen) => self.told(seen, true),
                    WatchEvent::Deleted(seen) => self.told(seen, false),
                    WatchEvent::Bookmark(bookmark) => bookmark.metadata.resource_version,
                    WatchEvent::Error(status) => return Err(broken(*status)),
                };
                version = seen;
            }
        }
    }

    /// Takes note of an object that is there, or is there no more, and returns its resource version.
    fn told(&self, seen: Seen, there: bool) -> String {
        let number = seen.metadata.name.strip_prefix("bench-").and_then(|number| number.parse().ok());
        if let Some(number) = number {
            let mut state = self.state.lock();
            if let Some(missing) = state.note(number, |known| (self.note)(known, there.then_some(&seen))) {
                // Whoever waits is woken at the end only.
                self.report.send_if_modified(|report| {
                    report.as_mut().is_ok_and(|report| std::mem::replace(report, missing) > 0 && missing == 0)
                });
            }
        }
        seen.metadata.resource_version
    }
}

fn broken(status: Status) -> kube::Error {
    kube::Error::Api(Box::new(status))
}

/// What is read of a Foo or a Deployment.
#[derive(Clone, Deserialize)]
struct Seen {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Observed,
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
struct Observed {
    available_replicas: Option<i32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_foo_is_as_wanted_when_both_objects_are_and_others_do_not_count() {
        let goal = Goal { numbers: 0..1, wanted: Wanted::Replicas(2) };
        let mut state = State { known: vec![Known::default(); 2], goal, missing: 1 };
        assert_eq!(state.note(0, |known| known.replicas = Some(2)), None, "its status is missing");
        assert_eq!(state.note(1, |known| (known.replicas, known.available) = (Some(2), Some(2))), None);
        assert_eq!(state.note(0, |known| known.available = Some(2)), Some(0));
        assert_eq!(state.note(0, |known| known.available = Some(1)), Some(1), "it may be lost again");
        assert_eq!(state.note(7, |_| {}), None, "a Foo that nobody asked for");
    }

    #[test]
    fn a_foo_is_gone_when_its_deployment_is_gone_too() {
        let there = Known { foo: true, deployment: true, ..Known::default() };
        let goal = Goal { numbers: 0..1, wanted: Wanted::Gone };
        let mut state = State { known: vec![there], goal, missing: 1 };
        assert_eq!(state.note(0, |known| known.foo = false), None);
        assert_eq!(state.note(0, |known| known.deployment = false), Some(0));
    }
}
