//! The metrics of the server, with the names that kube-apiserver gives them.

use std::sync::Arc;

use http::StatusCode;
use parking_lot::Mutex;
use pilothouse_model::hash::HashSet;
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use tokio::time::Instant;

use crate::registry::Endpoint;
use crate::request::{ObjectPath, Verb};
use crate::respond::{self, ApiResponse, ResponseBody};
use crate::state::State;
use crate::status::Status;

/// The content type of the metrics.
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The most resources with series of their own. Custom resources beyond them are counted together as `other`.
const MAX_RESOURCES: usize = 500;

/// The upper bounds in seconds of the buckets of request durations, a subset of those of kube-apiserver.
const SECONDS: [f64; 11] = [0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.5, 5.0, 15.0, 60.0];

type Durations = Family<RequestLabels, Histogram, fn() -> Histogram>;

/// What a request was about.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    verb: &'static str,
    group: String,
    version: String,
    resource: String,
    subresource: String,
    /// `cluster`, `namespace` or `resource`.
    scope: &'static str,
}

/// What a request was about, and how it ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    verb: &'static str,
    group: String,
    version: String,
    resource: String,
    subresource: String,
    scope: &'static str,
    code: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResourceLabels {
    /// `deployments.apps`, or `pods` in the core group.
    resource: String,
}

/// Counts requests, and the open watches.
#[derive(Default)]
pub(super) struct Metrics {
    requests: Family<ResultLabels, Counter>,
    durations: DurationFamily,
    long_running: Family<RequestLabels, Gauge>,
    /// The resources with series of their own: group, version, plural name and subresource.
    resources: Mutex<HashSet<[String; 4]>>,
}

/// The durations of requests by their labels.
struct DurationFamily(Durations);

impl Default for DurationFamily {
    fn default() -> Self {
        Self(Family::new_with_constructor((|| Histogram::new(SECONDS)) as fn() -> Histogram))
    }
}

/// A request for a resource that has begun.
pub(super) struct RequestTimer {
    labels: RequestLabels,
    begun: Instant,
}

/// Decrements the number of open watches when it is dropped.
struct OpenWatch(Gauge);

impl Drop for OpenWatch {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Metrics {
    /// Begins to measure a request for a resource that is served.
    pub(super) fn begin(&self, endpoint: &Endpoint, verb: Verb, path: &ObjectPath) -> RequestTimer {
        RequestTimer { labels: self.labels(endpoint, verb, path), begun: Instant::now() }
    }

    /// Counts a request whose response is complete, or whose watch begins. Returns the response.
    pub(super) fn end(
        &self,
        timer: RequestTimer,
        answer: Result<ApiResponse, Status>,
    ) -> Result<ApiResponse, Status> {
        let RequestTimer { labels, begun } = timer;
        let code = answer.as_ref().map_or_else(|status| status.code, |answer| answer.status().as_u16());
        self.requests.get_or_create(&with_code(labels.clone(), code)).inc();
        if labels.verb != "WATCH" {
            self.durations.0.get_or_create(&labels).observe(begun.elapsed().as_secs_f64());
            return answer;
        }
        answer.map(|answer| {
            let gauge = (*self.long_running.get_or_create(&labels)).clone();
            gauge.inc();
            answer.map(|body| body.holding(OpenWatch(gauge)))
        })
    }

    fn labels(&self, endpoint: &Endpoint, verb: Verb, path: &ObjectPath) -> RequestLabels {
        let scope = match (&path.name, &path.namespace) {
            (Some(_), _) => "resource",
            (None, Some(_)) => "namespace",
            (None, None) => "cluster",
        };
        // A subresource that is not served could be any text.
        let subresource = path.subresource.clone().filter(|name| endpoint.require_subresource(name).is_ok());
        let resource =
            [path.group.clone(), path.version.clone(), path.plural.clone(), subresource.unwrap_or_default()];
        let other = || [String::new(), String::new(), "other".to_owned(), String::new()];
        let [group, version, resource, subresource] =
            if self.has_series(&resource) { resource } else { other() };
        RequestLabels { verb: verb_label(verb), group, version, resource, subresource, scope }
    }

    /// Whether a resource has series of its own. The first ones get them.
    fn has_series(&self, resource: &[String; 4]) -> bool {
        let mut resources = self.resources.lock();
        if resources.contains(resource) {
            return true;
        }
        resources.len() < MAX_RESOURCES && resources.insert(resource.clone())
    }

    /// Returns the response to `/metrics`.
    pub(super) fn answer(&self, state: &State) -> Result<ApiResponse, Status> {
        let mut registry = Registry::default();
        let help = "Requests by verb, resource and code";
        registry.register("apiserver_request", help, self.requests.clone());
        let help = "Time from the arrival of a request to its response in seconds, without watches";
        registry.register("apiserver_request_duration_seconds", help, self.durations.0.clone());
        let help = "Open watches";
        registry.register("apiserver_longrunning_requests", help, self.long_running.clone());
        let help = "Stored objects by resource";
        registry.register("apiserver_storage_objects", help, stored_objects(state));
        let mut body = String::new();
        text::encode(&mut body, &registry).map_err(Status::internal)?;
        Ok(respond::with_body(StatusCode::OK, CONTENT_TYPE, ResponseBody::full(body)))
    }
}

/// Counts the stored objects of each resource, of at most [`MAX_RESOURCES`].
fn stored_objects(state: &State) -> Family<ResourceLabels, Gauge> {
    let objects = Family::<ResourceLabels, Gauge>::default();
    let endpoints: Vec<Arc<Endpoint>> = state.registry().preferred_endpoints();
    let stored = endpoints.iter().filter(|endpoint| !endpoint.resource.strategy.is_review);
    for endpoint in stored.take(MAX_RESOURCES) {
        let labels = ResourceLabels { resource: endpoint.resource_ref().group_resource() };
        let count = i64::try_from(endpoint.resource.table.count(None)).unwrap_or(i64::MAX);
        objects.get_or_create(&labels).set(count);
    }
    objects
}

fn with_code(labels: RequestLabels, code: u16) -> ResultLabels {
    let RequestLabels { verb, group, version, resource, subresource, scope } = labels;
    ResultLabels { verb, group, version, resource, subresource, scope, code }
}

/// Returns the verb as kube-apiserver's metrics name it.
fn verb_label(verb: Verb) -> &'static str {
    match verb {
        Verb::Get => "GET",
        Verb::List => "LIST",
        Verb::Watch => "WATCH",
        Verb::Create => "POST",
        Verb::Update => "PUT",
        Verb::Patch => "PATCH",
        Verb::Delete => "DELETE",
        Verb::DeleteCollection => "DELETECOLLECTION",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_beyond_the_limit_have_no_series() {
        let metrics = Metrics::default();
        let resource = |index: usize| ["g".into(), "v1".into(), format!("r{index}"), String::new()];
        for index in 0..MAX_RESOURCES {
            assert!(metrics.has_series(&resource(index)));
        }
        assert!(!metrics.has_series(&resource(MAX_RESOURCES)));
        assert!(metrics.has_series(&resource(0)));
    }
}
