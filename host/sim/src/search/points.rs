//! The points of a run at which a deviation can take effect.

use std::collections::{BTreeMap, BTreeSet};

use super::past::History;
use crate::plan::Moment;
use crate::run::{Author, Event, EventKind, ReconcileResult, RequestEvent, Run};

/// How many occurrences of one request, or of one resource's events, are used.
const MAX_OCCURRENCES: usize = 24;
/// How many different delays are used.
const MAX_TIMERS: usize = 16;

/// A request of the plugin.
#[derive(Clone, Debug)]
pub struct RequestPoint {
    /// When.
    pub moment: Moment,
    /// The resource, without the subresource.
    pub resource: String,
    /// Whether it writes.
    pub is_write: bool,
    /// Whether the object existed before.
    pub has_object: bool,
    /// The index of the event.
    pub index: usize,
}

/// An HTTP request of the plugin.
#[derive(Clone, Debug)]
pub struct HttpPoint {
    /// When.
    pub moment: Moment,
    /// The host.
    pub host: String,
    /// Whether the method is one that changes something.
    pub is_write: bool,
}

/// An event of a watch.
#[derive(Clone, Debug)]
pub struct EventPoint {
    /// The resource.
    pub resource: String,
    /// Which of the resource's events.
    pub occurrence: u32,
    /// The index of the event.
    pub index: usize,
}

impl EventPoint {
    /// Returns when.
    #[must_use]
    pub fn moment(&self) -> Moment {
        Moment::Event { resource: self.resource.clone(), occurrence: self.occurrence }
    }
}

/// A rest.
#[derive(Clone, Debug)]
pub struct RestPoint {
    /// Which rest.
    pub occurrence: u32,
    /// How many changes each watched resource had had.
    pub changes: BTreeMap<String, u32>,
}

/// All points of a run.
#[derive(Clone, Debug, Default)]
pub struct Points {
    /// The plugin's requests.
    pub requests: Vec<RequestPoint>,
    /// Its HTTP requests.
    pub http: Vec<HttpPoint>,
    /// The events of its watches.
    pub events: Vec<EventPoint>,
    /// The rests.
    pub rests: Vec<RestPoint>,
    /// The changes of all resources.
    pub history: History,
    /// The watched resources.
    pub watched: Vec<String>,
    /// The actors that write.
    pub actors: Vec<String>,
    /// The delays after which the plugin wanted a key again, in milliseconds.
    pub timers: Vec<u64>,
}

impl Points {
    /// Finds the points of a run without faults.
    #[must_use]
    pub fn of(run: &Run) -> Self {
        let mut collector = Collector::default();
        for (index, event) in run.events.iter().enumerate() {
            collector.add(index, event);
        }
        collector.finish()
    }

    /// Keeps a bounded number of occurrences of each kind, the first and the last among them.
    fn thin_out(&mut self) {
        self.requests = thinned(std::mem::take(&mut self.requests), |point| match &point.moment {
            Moment::Request { verb, resource, .. } => (verb.clone(), resource.clone()),
            _ => Default::default(),
        });
        self.http = thinned(std::mem::take(&mut self.http), |point| (point.host.clone(), point.is_write));
        self.events = thinned(std::mem::take(&mut self.events), |point| point.resource.clone());
        self.rests = thinned(std::mem::take(&mut self.rests), |_| ());
    }

    /// Returns the first event of the resource after an index.
    #[must_use]
    pub fn event_after(&self, resource: &str, index: usize) -> Option<&EventPoint> {
        self.events.iter().find(|event| event.resource == resource && event.index > index)
    }
}

/// Collects the points of a run, event by event.
#[derive(Default)]
struct Collector {
    points: Points,
    /// The requests of plugins so far, by verb and resource.
    requests: BTreeMap<(String, String), u32>,
    /// The HTTP requests so far, by method and host.
    http: BTreeMap<(String, String), u32>,
    /// The delivered events so far, by resource.
    delivered: BTreeMap<String, u32>,
    /// The changes so far, by resource.
    changes: BTreeMap<String, u32>,
    watched: BTreeSet<String>,
    actors: BTreeSet<String>,
    timers: BTreeSet<u64>,
}

impl Collector {
    fn add(&mut self, index: usize, event: &Event) {
        match &event.kind {
            EventKind::Request(request) => self.add_request(index, event.host, request),
            EventKind::Delivered { resource, change, .. } => self.add_delivery(index, resource, change),
            // A request without an answer did not reach a service.
            EventKind::Http { method, url, status: Some(_), .. } => self.add_http(method, url),
            EventKind::Rest { occurrence } => {
                let changes = self.changes.clone();
                self.points.rests.push(RestPoint { occurrence: *occurrence, changes });
            }
            EventKind::ReconcileEnded { result: ReconcileResult::Requeue(delay), .. } => {
                self.timers.insert(*delay);
            }
            _ => {}
        }
    }

    fn add_request(&mut self, index: usize, host: u32, request: &RequestEvent) {
        if request.changed {
            *self.changes.entry(request.resource.clone()).or_default() += 1;
            self.points.history.add(request);
        }
        match &request.author {
            // What exists before the first host starts is no step.
            Author::Actor(name) if host > 0 => {
                self.actors.insert(name.clone());
            }
            Author::Actor(_) | Author::Controller | Author::Host => {}
            Author::Plugin(_) => {
                let (verb, resource) = (request.verb.clone(), request.resource_path());
                let occurrence = count(&mut self.requests, (verb.clone(), resource.clone()));
                self.points.requests.push(RequestPoint {
                    moment: Moment::Request { verb, resource, occurrence },
                    resource: request.resource.clone(),
                    is_write: request.is_write(),
                    has_object: request.before.is_some(),
                    index,
                });
            }
        }
    }

    fn add_delivery(&mut self, index: usize, resource: &str, change: &str) {
        self.watched.insert(resource.to_owned());
        if change != "LISTED" {
            let resource = resource.to_owned();
            let occurrence = count(&mut self.delivered, resource.clone());
            self.points.events.push(EventPoint { resource, occurrence, index });
        }
    }

    fn add_http(&mut self, method: &str, url: &str) {
        let (method, host) = (method.to_owned(), host_of(url));
        let is_write = is_write_method(&method);
        let occurrence = count(&mut self.http, (method.clone(), host.clone()));
        let moment = Moment::Http { method, host: host.clone(), occurrence };
        self.points.http.push(HttpPoint { moment, host, is_write });
    }

    fn finish(self) -> Points {
        let mut points = self.points;
        points.watched = self.watched.into_iter().collect();
        points.actors = self.actors.into_iter().collect();
        points.timers = self.timers.into_iter().take(MAX_TIMERS).collect();
        points.thin_out();
        points
    }
}

/// Counts one more occurrence. Returns its number, from 1.
fn count<K: Ord>(occurrences: &mut BTreeMap<K, u32>, key: K) -> u32 {
    let occurrence = occurrences.entry(key).or_default();
    *occurrence += 1;
    *occurrence
}

/// Whether HTTP requests with this method change something.
#[must_use]
pub fn is_write_method(method: &str) -> bool {
    !matches!(method, "GET" | "HEAD" | "OPTIONS")
}

/// Returns the host of a URL, without the port, as the moments of HTTP requests name it.
#[must_use]
pub fn host_of(url: &str) -> String {
    let uri: Option<http::Uri> = url.parse().ok();
    uri.and_then(|uri| uri.host().map(str::to_owned)).unwrap_or_default()
}

fn thinned<T, K: Ord>(items: Vec<T>, key: impl Fn(&T) -> K) -> Vec<T> {
    let mut totals: BTreeMap<K, usize> = BTreeMap::new();
    for item in &items {
        *totals.entry(key(item)).or_default() += 1;
    }
    let mut positions: BTreeMap<K, usize> = BTreeMap::new();
    let mut kept = Vec::new();
    for item in items {
        let (key, total) = (key(&item), totals[&key(&item)]);
        let position = positions.entry(key).or_default();
        let (here, next) = (*position * MAX_OCCURRENCES / total, (*position + 1) * MAX_OCCURRENCES / total);
        if total <= MAX_OCCURRENCES || here != next {
            kept.push(item);
        }
        *position += 1;
    }
    kept
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::RunBuilder;

    #[test]
    fn points_are_counted_as_moments_are() {
        let mut run = RunBuilder::new();
        run.rest();
        run.actor("user", "create", "foos.example.com", "a/x", Some(json!({})));
        run.deliver("foos.example.com", "a/x", "ADDED");
        run.start("a/x");
        run.write("create", "configmaps", "a/x", Some(json!({})));
        run.write("create", "configmaps", "a/y", Some(json!({})));
        run.end(ReconcileResult::Requeue(500));
        run.rest();
        let points = Points::of(&run.finish());
        let second =
            Moment::Request { verb: "create".to_owned(), resource: "configmaps".to_owned(), occurrence: 2 };
        assert_eq!(points.requests[1].moment, second);
        assert_eq!((points.events.len(), points.actors.len(), points.timers), (1, 1, vec![500]));
        assert_eq!(points.rests[1].changes["foos.example.com"], 1);
        assert_eq!(points.rests[0].changes.len(), 0);
    }

    #[test]
    fn http_requests_that_were_answered_are_points() {
        let mut run = RunBuilder::new();
        for (method, url, status) in [
            ("POST", "https://cloud:8443/a", Some(201)),
            ("GET", "https://cloud/a?b=c", Some(200)),
            ("POST", "https://denied/a", None),
            ("POST", "https://cloud/b", Some(500)),
        ] {
            let (method, url) = (method.to_owned(), url.to_owned());
            run.push(EventKind::Http { reconcile: None, method, url, status });
        }
        let points = Points::of(&run.finish());
        let at = |method: &str, occurrence| Moment::Http {
            method: method.to_owned(),
            host: "cloud".to_owned(),
            occurrence,
        };
        let found: Vec<_> = points.http.into_iter().map(|point| (point.moment, point.is_write)).collect();
        assert_eq!(found, [(at("POST", 1), true), (at("GET", 1), false), (at("POST", 2), true)]);
    }

    #[test]
    fn many_occurrences_are_thinned_out_evenly() {
        let kept = thinned((0..1000).collect(), |_| ());
        assert_eq!(kept.len(), MAX_OCCURRENCES);
        assert_eq!(kept.last(), Some(&999));
    }
}
