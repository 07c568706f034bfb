//! Discovery: finds the resource that serves a kind.

mod resource_lists;
mod served;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared, WeakShared};
use parking_lot::Mutex;
use pilothouse_model::hash::HashMap;
use pilothouse_model::names::is_dns_subdomain;
use pilothouse_model::{GroupVersionKind, ResourceType};
use serde_json::Value;
use tokio::time::{Instant, timeout};

use super::{ApiClient, RequestError};
pub use resource_lists::ResourceLists;
use served::ListCache;
pub(crate) use served::ServedResources;

/// How long a resource list remains valid for a plugin's requests: about as long as a person waits.
const CACHE_TTL: Duration = Duration::from_secs(30);
/// The maximum age of a resource list for loading a version: all plugins loaded at a host's start share one.
const LOAD_CACHE_TTL: Duration = Duration::from_secs(1);
/// How long a response is awaited.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);
/// Limit in bytes for a resource list: the largest known lists have about 100 KiB.
const MAX_LIST_SIZE: usize = 4 << 20;

/// Finds resource types by kind. Lists of served resources are cached for a short time. That a kind is not
/// served is not cached, because a CRD may have been applied since.
#[derive(Clone)]
pub(crate) struct Discovery {
    server: ApiClient,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    cache: ListCache,
    /// Lookups in flight, by API version. Callers that need the same list share one lookup.
    pending: HashMap<String, PendingLookup>,
    lookup_count: u64,
    /// The lists of other hosts; `None` to parse every list.
    shared_lists: Option<ResourceLists>,
}

struct PendingLookup {
    number: u64,
    response: WeakShared<BoxFuture<'static, LookupResult>>,
}

type LookupResult = Result<Option<Arc<ServedResources>>, LookupError>;

#[derive(Clone)]
enum LookupError {
    Request(RequestError),
    InvalidList(String),
}

/// How old the resource list may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freshness {
    /// A cached list will do, for a request: if the list is outdated, the server answers 404.
    Cached,
    /// A new list, for a version, which uses it for as long as it runs.
    Fresh,
}

/// Why a kind could not be resolved.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DiscoveryError {
    /// The server does not serve the kind, at least not now.
    #[error(
        "the API server does not serve kind {kind:?} in {api_version:?}{}; apply its CustomResourceDefinition, or correct \
         apiVersion and kind", plural_suffix(.plural)
    )]
    NotServed { api_version: String, kind: String, plural: Option<String> },
    /// The request failed.
    #[error("cannot find out whether {api_version:?} is served: {source}")]
    Request { api_version: String, source: RequestError },
    /// The response was not a resource list.
    #[error("the API server's resource list of {api_version:?} cannot be read: {problem}")]
    InvalidList { api_version: String, problem: String },
}

fn plural_suffix(plural: &Option<String>) -> String {
    plural.as_ref().map(|plural| format!(" as the resource {plural:?}")).unwrap_or_default()
}

impl Discovery {
    pub(crate) fn new(server: ApiClient) -> Self {
        Self { server, state: Arc::default() }
    }

    /// Shares parsed lists with other hosts.
    pub(crate) fn share_lists(&self, lists: ResourceLists) {
        self.state.lock().shared_lists = Some(lists);
    }

    /// Returns the resource type of a kind in exactly this API version, and with this plural name if one is
    /// given.
    pub(crate) async fn resolve(
        &self,
        of: GroupVersionKind<'_>,
        plural: Option<&str>,
        freshness: Freshness,
    ) -> Result<ResourceType, DiscoveryError> {
        let known = self.cached(&of.api_version(), freshness);
        if let Some(resource) = known.as_ref().and_then(|served| served.resource(of.kind(), plural)) {
            return Ok(resource.clone());
        }
        let served = self.look_up(of.group(), of.version()).await?;
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
            let served = match self.cached(&api_version(group, version), Freshness::Cached) {
                Some(served) => Some(served),
                None => self.look_up(group, version).await?,
            };
            if let Some(parent) = served.as_ref().and_then(|served| served.parent(of, subresource)) {
                return Ok(parent.clone());
            }
        }
        self.resolve(of, None, Freshness::Cached).await
    }

    /// Whether a resource is namespaced; `None` if no version of the group serves it.
    pub(crate) async fn is_namespaced(
        &self,
        group: &str,
        plural: &str,
    ) -> Result<Option<bool>, RequestError> {
        for version in self.versions(group).await? {
            let served = match self.shared_lookup(group, &version).await {
                Ok(served) => served,
                Err(LookupError::Request(error)) => return Err(error),
                Err(LookupError::InvalidList(_)) => None,
            };
            if let Some(resource) = served.as_ref().and_then(|served| served.plural(plural)) {
                return Ok(Some(resource.namespaced));
            }
        }
        Ok(None)
    }

    async fn versions(&self, group: &str) -> Result<Vec<String>, RequestError> {
        if group.is_empty() {
            return Ok(vec!["v1".to_owned()]);
        }
        if !is_dns_subdomain(group) {
            return Ok(Vec::new());
        }
        let body = self.server.get_with_limit(&format!("/apis/{group}"), MAX_LIST_SIZE).await?;
        Ok(body.map(|body| served::versions(&body)).unwrap_or_default())
    }

    /// Returns the kinds of an API version, sorted; none if the server does not serve it.
    pub(crate) async fn kinds(&self, of: GroupVersionKind<'_>) -> Result<Vec<String>, DiscoveryError> {
        let served = self.look_up(of.group(), of.version()).await?;
        Ok(served.map(|served| served.kinds()).unwrap_or_default())
    }

    /// Removes the cached list of an API version that has turned out to be outdated.
    pub(crate) fn invalidate(&self, group: &str, version: &str) {
        let api_version = api_version(group, version);
        let mut state = self.state.lock();
        state.cache.invalidate(&api_version);
        // The response of a lookup in flight may be outdated, too.
        state.pending.remove(&api_version);
    }

    /// Removes the cached lists of the CRDs' API versions, after the CRDs were applied or deleted.
    pub(crate) fn invalidate_crds(&self, crds: &[Value]) {
        for crd in crds {
            let group = crd.pointer("/spec/group").and_then(Value::as_str).unwrap_or_default();
            let versions = crd.pointer("/spec/versions").and_then(Value::as_array);
            for version in versions.into_iter().flatten().filter_map(|version| version["name"].as_str()) {
                self.invalidate(group, version);
            }
        }
    }

    fn cached(&self, api_version: &str, freshness: Freshness) -> Option<Arc<ServedResources>> {
        let max_age = if freshness == Freshness::Cached { CACHE_TTL } else { LOAD_CACHE_TTL };
        self.state.lock().cache.get(api_version, max_age, Instant::now())
    }

    /// Looks up the list on the server. Cancellation safe: other callers keep waiting for the shared lookup.
    async fn look_up(
        &self,
        group: &str,
        version: &str,
    ) -> Result<Option<Arc<ServedResources>>, DiscoveryError> {
        let api_version = || api_version(group, version);
        let response = self.shared_lookup(group, version).await;
        response.map_err(|failure| match failure {
            LookupError::Request(source) => DiscoveryError::Request { api_version: api_version(), source },
            LookupError::InvalidList(problem) => {
                DiscoveryError::InvalidList { api_version: api_version(), problem }
            }
        })
    }

    fn shared_lookup(&self, group: &str, version: &str) -> Shared<BoxFuture<'static, LookupResult>> {
        let api_version = api_version(group, version);
        let mut state = self.state.lock();
        let in_flight = state.pending.get(&api_version).and_then(|lookup| lookup.response.upgrade());
        if let Some(response) = in_flight.filter(|response| response.peek().is_none()) {
            return response;
        }
        // Removes lookups that nobody waits for any more.
        state.pending.retain(|_, lookup| lookup.response.upgrade().is_some());
        state.lookup_count += 1;
        let number = state.lookup_count;
        let (server, group, version) = (self.server.clone(), group.to_owned(), version.to_owned());
        let (shared, key) = (Arc::clone(&self.state), api_version.clone());
        let lists = state.shared_lists.clone();
        let request = async move {
            let response = fetch(&server, &group, &version, lists.as_ref()).await;
            let mut state = shared.lock();
            // Not cached if it was invalidated meanwhile.
            if state.pending.get(&key).is_some_and(|lookup| lookup.number == number) {
                state.pending.remove(&key);
                match &response {
                    Ok(Some(served)) => state.cache.insert(key, Arc::clone(served), Instant::now()),
                    Ok(None) => state.cache.invalidate(&key),
                    Err(_) => {}
                }
            }
            response
        };
        let response = request.boxed().shared();
        if let Some(weak) = response.downgrade() {
            state.pending.insert(api_version, PendingLookup { number, response: weak });
        }
        response
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

async fn fetch(
    server: &ApiClient,
    group: &str,
    version: &str,
    lists: Option<&ResourceLists>,
) -> LookupResult {
    let path = match group {
        "" => format!("/api/{version}"),
        group => format!("/apis/{group}/{version}"),
    };
    let request = server.get_with_limit(&path, MAX_LIST_SIZE);
    let late = |_| Err(RequestError::Transport(format!("no response in {} s", RESPONSE_TIMEOUT.as_secs())));
    match timeout(RESPONSE_TIMEOUT, request).await.unwrap_or_else(late) {
        Ok(Some(body)) => {
            let parse = || ServedResources::parse(&body, group, version).map(Arc::new);
            let served = match lists {
                Some(lists) => lists.parsed(&api_version(group, version), &body, parse),
                None => parse(),
            };
            served.map(Some).map_err(LookupError::InvalidList)
        }
        Ok(None) => Ok(None),
        Err(error) => Err(LookupError::Request(error)),
    }
}
