//! Discovery: finds the resource that serves a kind.

mod served;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared, WeakShared};
use parking_lot::Mutex;
use pilothouse_model::names::is_dns_subdomain;
use pilothouse_model::{GroupVersionKind, ResourceType};
use serde_json::Value;
use tokio::time::{Instant, timeout};

use super::{Server, ServerError};
use served::Known;
pub(crate) use served::Served;

/// How long a resource list remains valid for a plugin's requests: about as long as a person waits.
const COUNTS: Duration = Duration::from_secs(30);
/// The maximum age of a resource list for loading a version: all plugins loaded at a host's start share one.
const COUNTS_FOR_A_LOAD: Duration = Duration::from_secs(1);
/// How long a response is awaited.
const ANSWER: Duration = Duration::from_secs(30);
/// Limit in bytes for a resource list: the largest known lists have about 100 KiB.
const LARGEST: usize = 4 << 20;

/// Finds resource types by kind. Lists of served resources are cached for a short time. That a kind is not
/// served is not cached, because a CRD may have been applied since.
#[derive(Clone)]
pub(crate) struct Discovery {
    server: Server,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    known: Known,
    /// Lookups in flight, by API version. Callers that need the same list share one lookup.
    asked: HashMap<String, Question>,
    questions: u64,
}

struct Question {
    number: u64,
    answer: WeakShared<BoxFuture<'static, Answer>>,
}

type Answer = Result<Option<Arc<Served>>, Failure>;

#[derive(Clone)]
enum Failure {
    Server(ServerError),
    Answer(String),
}

/// How old the resource list may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Age {
    /// A cached list will do, for a request: if the list is outdated, the server answers 404.
    Known,
    /// A new list, for a version, which uses it for as long as it runs.
    New,
}

/// Why a kind could not be resolved.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DiscoveryError {
    /// The server does not serve the kind, at least not now.
    #[error(
        "the API server does not serve kind {kind:?} in {api_version:?}{}; apply its CustomResourceDefinition, or correct \
         apiVersion and kind", called(.plural)
    )]
    NotServed { api_version: String, kind: String, plural: Option<String> },
    /// The request failed.
    #[error("cannot find out whether {api_version:?} is served: {source}")]
    Server { api_version: String, source: ServerError },
    /// The response was not a resource list.
    #[error("the API server's resource list of {api_version:?} cannot be read: {problem}")]
    Answer { api_version: String, problem: String },
}

fn called(plural: &Option<String>) -> String {
    plural.as_ref().map(|plural| format!(" as the resource {plural:?}")).unwrap_or_default()
}

impl Discovery {
    pub(crate) fn new(server: Server) -> Self {
        Self { server, state: Arc::default() }
    }

    /// Returns the resource type of a kind in exactly this API version, and with this plural name if one is
    /// given.
    pub(crate) async fn resolve(
        &self,
        of: GroupVersionKind<'_>,
        plural: Option<&str>,
        age: Age,
    ) -> Result<ResourceType, DiscoveryError> {
        let known = self.known(&of.api_version(), age);
        if let Some(resource) = known.as_ref().and_then(|served| served.resource(of.kind(), plural)) {
            return Ok(resource.clone());
        }
        let served = self.ask(of.group(), of.version()).await?;
        let found = served.as_ref().and_then(|served| served.resource(of.kind(), plural));
        found.cloned().ok_or_else(|| not_served(of, plural))
    }

    /// Returns the resource to whose subresource a manifest of this type is sent: the one whose subresource
    /// has this type (`pods/eviction` takes a `policy/v1` Eviction), otherwise the kind's own.
    pub(crate) async fn parent(
        &self,
        of: GroupVersionKind<'_>,
        subresource: &str,
    ) -> Result<ResourceType, DiscoveryError> {
        // If the manifest's own group has no such subresource, the core group may; Kubernetes has no other
        // cases.
        for (group, version) in [(of.group(), of.version()), ("", "v1")] {
            let served = match self.known(&api_version(group, version), Age::Known) {
                Some(served) => Some(served),
                None => self.ask(group, version).await?,
            };
            if let Some(parent) = served.as_ref().and_then(|served| served.parent(of, subresource)) {
                return Ok(parent.clone());
            }
        }
        self.resolve(of, None, Age::Known).await
    }

    /// Whether a resource is namespaced; `None` if no version of the group serves it.
    pub(crate) async fn is_namespaced(&self, group: &str, plural: &str) -> Result<Option<bool>, ServerError> {
        for version in self.versions(group).await? {
            let served = match self.question(group, &version).await {
                Ok(served) => served,
                Err(Failure::Server(error)) => return Err(error),
                Err(Failure::Answer(_)) => None,
            };
            if let Some(resource) = served.as_ref().and_then(|served| served.plural(plural)) {
                return Ok(Some(resource.namespaced));
            }
        }
        Ok(None)
    }

    async fn versions(&self, group: &str) -> Result<Vec<String>, ServerError> {
        if group.is_empty() {
            return Ok(vec!["v1".to_owned()]);
        }
        if !is_dns_subdomain(group) {
            return Ok(Vec::new());
        }
        let body = self.server.get_within(&format!("/apis/{group}"), LARGEST).await?;
        Ok(body.map(|body| served::versions(&body)).unwrap_or_default())
    }

    /// Returns the kinds of an API version, sorted; none if the server does not serve it.
    pub(crate) async fn kinds(&self, of: GroupVersionKind<'_>) -> Result<Vec<String>, DiscoveryError> {
        let served = self.ask(of.group(), of.version()).await?;
        Ok(served.map(|served| served.kinds()).unwrap_or_default())
    }

    /// Removes the cached list of an API version that has turned out to be outdated.
    pub(crate) fn forget(&self, group: &str, version: &str) {
        let api_version = api_version(group, version);
        let mut state = self.state.lock();
        state.known.forget(&api_version);
        // The response of a lookup in flight may be outdated, too.
        state.asked.remove(&api_version);
    }

    /// Removes the cached lists of the CRDs' API versions, after the CRDs were applied or deleted.
    pub(crate) fn forget_crds(&self, crds: &[Value]) {
        for crd in crds {
            let group = crd.pointer("/spec/group").and_then(Value::as_str).unwrap_or_default();
            let versions = crd.pointer("/spec/versions").and_then(Value::as_array);
            for version in versions.into_iter().flatten().filter_map(|version| version["name"].as_str()) {
                self.forget(group, version);
            }
        }
    }

    fn known(&self, api_version: &str, age: Age) -> Option<Arc<Served>> {
        let most = if age == Age::Known { COUNTS } else { COUNTS_FOR_A_LOAD };
        self.state.lock().known.get(api_version, most, Instant::now())
    }

    /// Looks up the list on the server. Cancellation safe: other callers keep waiting for the shared lookup.
    async fn ask(&self, group: &str, version: &str) -> Result<Option<Arc<Served>>, DiscoveryError> {
        let api_version = || api_version(group, version);
        let answer = self.question(group, version).await;
        answer.map_err(|failure| match failure {
            Failure::Server(source) => DiscoveryError::Server { api_version: api_version(), source },
            Failure::Answer(problem) => DiscoveryError::Answer { api_version: api_version(), problem },
        })
    }

    fn question(&self, group: &str, version: &str) -> Shared<BoxFuture<'static, Answer>> {
        let api_version = api_version(group, version);
        let mut state = self.state.lock();
        let under_way = state.asked.get(&api_version).and_then(|question| question.answer.upgrade());
        if let Some(answer) = under_way.filter(|answer| answer.peek().is_none()) {
            return answer;
        }
        // Removes lookups that nobody waits for any more.
        state.asked.retain(|_, question| question.answer.upgrade().is_some());
        state.questions += 1;
        let number = state.questions;
        let (server, group, version) = (self.server.clone(), group.to_owned(), version.to_owned());
        let (shared, key) = (Arc::clone(&self.state), api_version.clone());
        let asking = async move {
            let answer = fetch(&server, &group, &version).await;
            let mut state = shared.lock();
            // Not cached if it was invalidated meanwhile.
            if state.asked.get(&key).is_some_and(|question| question.number == number) {
                state.asked.remove(&key);
                match &answer {
                    Ok(Some(served)) => state.known.put(key, Arc::clone(served), Instant::now()),
                    Ok(None) => state.known.forget(&key),
                    Err(_) => {}
                }
            }
            answer
        };
        let answer = asking.boxed().shared();
        if let Some(weak) = answer.downgrade() {
            state.asked.insert(api_version, Question { number, answer: weak });
        }
        answer
    }
}

fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

fn not_served(of: GroupVersionKind<'_>, plural: Option<&str>) -> DiscoveryError {
    DiscoveryError::NotServed {
        api_version: of.api_version(),
        kind: of.kind().to_owned(),
        plural: plural.map(str::to_owned),
    }
}

async fn fetch(server: &Server, group: &str, version: &str) -> Answer {
    let path = match group {
        "" => format!("/api/{version}"),
        group => format!("/apis/{group}/{version}"),
    };
    let asking = server.get_within(&path, LARGEST);
    let late = |_| Err(ServerError::Transport(format!("no answer in {} s", ANSWER.as_secs())));
    match timeout(ANSWER, asking).await.unwrap_or_else(late) {
        Ok(Some(body)) => {
            let served = Served::parse(&body, group, version).map_err(Failure::Answer)?;
            Ok(Some(Arc::new(served)))
        }
        Ok(None) => Ok(None),
        Err(error) => Err(Failure::Server(error)),
    }
}
