//! The host functions over the fake cluster.

mod cache;
mod client;
mod names;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use self::names::{name_problem, namespace_problem};
use super::cluster::Cluster;
use super::cluster::errors::{conflict, other};
use super::{Event, Failure, LogLine, Metric, Queued};
use crate::bindings::pilothouse::controller::types as wit;
use crate::log::Level;
use crate::{ApiError, Object, ObjectKey};

/// The most objects of a page.
const MAX_PAGE_SIZE: u32 = 500;

/// Computes the values of an index.
pub(super) type IndexFunction = dyn Fn(&str, &Object) -> Vec<String>;

/// What the plugin did.
#[derive(Default)]
pub(super) struct Recorded {
    pub(super) writes: Vec<String>,
    pub(super) events: Vec<Event>,
    pub(super) queued: Vec<Queued>,
    pub(super) log: Vec<LogLine>,
    pub(super) metrics: Vec<Metric>,
}

/// The fake host of one test. No borrow of a cell is held while the plugin runs.
pub(crate) struct FakeHost {
    pub(super) descriptor: Value,
    pub(super) config: String,
    pub(super) cluster: RefCell<Cluster>,
    pub(super) failures: RefCell<Vec<Failure>>,
    pub(super) recorded: RefCell<Recorded>,
    pub(super) indexer: RefCell<Option<Rc<IndexFunction>>>,
    pub(super) time: Cell<Option<Timestamp>>,
}

impl FakeHost {
    pub(super) fn new(descriptor: Value, config: String) -> Self {
        let crds = descriptor["crds"].as_array().cloned().unwrap_or_default();
        Self {
            descriptor,
            config,
            cluster: RefCell::new(Cluster::new(crds)),
            failures: RefCell::default(),
            recorded: RefCell::default(),
            indexer: RefCell::default(),
            time: Cell::new(None),
        }
    }

    fn own_name(&self) -> &str {
        self.descriptor["name"].as_str().unwrap_or_default()
    }

    pub(crate) fn config(&self) -> String {
        self.config.clone()
    }

    pub(crate) fn time(&self) -> Option<Timestamp> {
        self.time.get()
    }

    fn watch(&self, name: &str) -> &Value {
        let watches = self.descriptor["watches"].as_array().map(Vec::as_slice).unwrap_or_default();
        watches.iter().find(|watch| watch["name"] == name).unwrap_or_else(|| {
            panic!("unknown watch {name:?}: the descriptor declares {}", names_of(watches));
        })
    }

    pub(crate) fn has_watch(&self, watch: &str) -> bool {
        self.watch(watch).is_object()
    }

    pub(crate) fn enqueue(&self, function: &str, watch: &str, key: &ObjectKey, milliseconds: Option<u32>) {
        if let Some(problem) = namespace_problem(&key.namespace).or_else(|| name_problem(&key.name)) {
            panic!("{function} takes keys of objects: {problem}");
        }
        if self.watch(watch)["trigger"] != "self" {
            let watches = self.descriptor["watches"].as_array().into_iter().flatten();
            let targets: Vec<_> = watches.filter(|watch| watch["trigger"] == "self").cloned().collect();
            panic!(
                "watch {watch:?} is not a target (its trigger isn't self): targets are {}",
                names_of(&targets)
            );
        }
        let after = milliseconds.map(|milliseconds| Duration::from_millis(milliseconds.into()));
        let queued = Queued { watch: watch.to_owned(), key: key.clone(), after };
        self.recorded.borrow_mut().queued.push(queued);
    }

    pub(crate) fn publish(
        &self,
        regarding: &ObjectKey,
        is_warning: bool,
        reason: &str,
        action: &str,
        note: &str,
    ) {
        let [reason, action, note] = [reason, action, note].map(str::to_owned);
        let event = Event { regarding: regarding.clone(), is_warning, reason, action, note };
        self.recorded.borrow_mut().events.push(event);
    }

    pub(crate) fn log(&self, level: Level, message: &str, fields: &[wit::Pair]) {
        let line = LogLine { level, message: message.to_owned(), fields: pairs(fields) };
        self.recorded.borrow_mut().log.push(line);
    }

    pub(crate) fn metric(&self, name: &str, labels: &[wit::Pair], value: f64) {
        let metric = Metric { name: name.to_owned(), labels: pairs(labels), value };
        self.recorded.borrow_mut().metrics.push(metric);
    }
}

fn pairs(pairs: &[wit::Pair]) -> Vec<(String, String)> {
    pairs.iter().map(|pair| (pair.key.clone(), pair.value.clone())).collect()
}

/// Returns the names of what the descriptor declares, for messages.
fn names_of(declared: &[Value]) -> String {
    let names: Vec<_> = declared.iter().filter_map(|one| one["name"].as_str()).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

fn page_size(limit: u32) -> usize {
    if limit == 0 { MAX_PAGE_SIZE as usize } else { limit.min(MAX_PAGE_SIZE) as usize }
}

/// Returns the error of the contract that the SDK converts to this one.
pub(super) fn wire_error(error: ApiError) -> wit::ApiError {
    match error {
        ApiError::NotFound(message) => wit::ApiError::NotFound(message),
        ApiError::AlreadyExists(message) => wit::ApiError::AlreadyExists(message),
        ApiError::Conflict { message, resource_version } => {
            conflict(&message, &resource_version.unwrap_or_default())
        }
        ApiError::Invalid(causes) => wit::ApiError::Invalid(causes),
        ApiError::Forbidden(message) => wit::ApiError::Forbidden(message),
        ApiError::Denied(rule) => wit::ApiError::Denied(rule),
        ApiError::TooManyRequests { retry_after_ms } => wit::ApiError::TooManyRequests(retry_after_ms),
        ApiError::Unavailable(message) => wit::ApiError::Unavailable(message),
        ApiError::Other { code, reason, message } => other(code, &reason, &message),
        error @ (ApiError::Decode(_) | ApiError::Encode(_)) => other(500, "", &error.to_string()),
    }
}
