//! A fake host for unit tests, which runs a plugin natively against objects in memory.
//!
//! ```
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use pilothouse_sdk::testing::Host;
//! use pilothouse_sdk::{
//!     Config, Context, Describe, Error, ObjectKey, Outcome, Plugin, Reconciler, Request, Verb, Watch, WatchRef, WriteRule,
//! };
//!
//! const CONFIG_MAPS: WatchRef<ConfigMap> = WatchRef::new("configmaps");
//!
//! #[derive(Default)]
//! struct Labeller;
//!
//! impl Describe for Labeller {
//!     fn describe(_config: &Config) -> Result<Plugin, Error> {
//!         Ok(Plugin::new("labeller", "0.1.0")
//!             .watch(Watch::of(CONFIG_MAPS).triggers_itself())
//!             .writes(WriteRule::of::<ConfigMap>(&[Verb::Update])))
//!     }
//! }
//!
//! impl Reconciler for Labeller {
//!     fn reconcile(&self, ctx: &Context<'_>, request: &Request) -> Result<Outcome, Error> {
//!         if let Some(mut map) = ctx.cache(CONFIG_MAPS).get(&request.key)? {
//!             map.metadata.labels.get_or_insert_default().insert("seen".into(), "yes".into());
//!             ctx.client().update(&map)?;
//!         }
//!         Ok(Outcome::Done)
//!     }
//! }
//!
//! let host = Host::<Labeller>::new();
//! let mut map = ConfigMap::default();
//! map.metadata.namespace = Some("default".into());
//! map.metadata.name = Some("web".into());
//! host.put(&map);
//! let key = ObjectKey::new("default", "web");
//! assert_eq!(host.reconcile(CONFIG_MAPS, &key).unwrap(), Outcome::Done);
//! let map: ConfigMap = host.get(&key).unwrap();
//! assert_eq!(map.metadata.labels.unwrap()["seen"], "yes");
//! assert_eq!(host.writes(), ["update v1 ConfigMap default/web"]);
//! ```
//!
//! Requests have the results that a Kubernetes API server would give: resource versions and conflicts, generations, finalizers, the
//! status subresource, JSON patches, merge patches and server-side apply, and the host's refusal of undeclared writes. The watches'
//! selectors, projections and indexes are evaluated, the plugin's own writes are visible at once, and [`Host::fail`] makes requests
//! fail. Where the real host ends the instance, as for the name of an unknown watch, the fake one panics.
//!
//! It has no schemas, defaults, admission or garbage collector, no subresources but `status`, treats lists as one value in a server-side
//! apply, and changes queue no work. To test what depends on these, use `pilothouse dev`.

mod cluster;
mod fake;
mod kinds;
mod patches;
mod select;

use std::borrow::Cow;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use self::cluster::Id;
use self::fake::{FakeHost, wire_error};
use crate::bindings::observe::exports::pilothouse::controller::observe as wit_observe;
use crate::bindings::pilothouse::controller::types as wit;
use crate::host::changes::Batch;
use crate::log::Level;
use crate::{
    ApiError, Change, Config, Context, Describe, Error, Indexer, Notification, ObjectKey, ObjectType,
    Observer, Outcome, Reason, Reconciler, Request, Resource, Verb,
};

thread_local! {
    /// The host of the test that runs on this thread.
    static INSTALLED: RefCell<Option<Rc<FakeHost>>> = const { RefCell::new(None) };
}

/// Returns the fake host of this thread.
pub(crate) fn installed() -> Option<Rc<FakeHost>> {
    INSTALLED.with_borrow(Clone::clone)
}

/// Returns the fake host of this thread, for a call of a host function.
pub(crate) fn current(function: &str) -> Rc<FakeHost> {
    installed().unwrap_or_else(|| {
        panic!("{function}: there is no host outside of a plugin; in a unit test, use pilothouse_sdk::testing::Host")
    })
}

/// A fake host with an in-memory cluster, for the plugin `P`. It serves the thread that created it until it is dropped.
pub struct Host<P> {
    plugin: RefCell<P>,
    fake: Rc<FakeHost>,
    previous: Option<Rc<FakeHost>>,
}

/// An Event that the plugin recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The key of the object that the Event is about.
    pub regarding: ObjectKey,
    /// Whether it is a warning.
    pub is_warning: bool,
    /// The reason, such as `Synced`.
    pub reason: String,
    /// The action, such as `Sync`.
    pub action: String,
    /// The note for people.
    pub note: String,
}

/// A key that the plugin added to the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queued {
    /// The target watch.
    pub watch: String,
    /// The key.
    pub key: ObjectKey,
    /// The delay; `None` for a key that was queued at once.
    pub after: Option<Duration>,
}

/// A line of the plugin's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// The level.
    pub level: Level,
    /// The text.
    pub message: String,
    /// The fields.
    pub fields: Vec<(String, String)>,
}

/// A call of a metrics function.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// The name.
    pub name: String,
    /// The labels.
    pub labels: Vec<(String, String)>,
    /// The value that was added, set or observed.
    pub value: f64,
}

/// Requests that fail: see [`Host::fail`]. By default the next request of any verb and kind.
#[derive(Clone, Debug)]
pub struct Failure {
    error: wit::ApiError,
    verb: Option<Verb>,
    kind: Option<String>,
    times: u32,
}

impl Failure {
    /// The next request fails with this error.
    #[must_use]
    pub fn new(error: ApiError) -> Self {
        Self { error: wire_error(error), verb: None, kind: None, times: 1 }
    }

    /// Only requests with this verb fail. A server-side apply has the verb [`Verb::Patch`].
    #[must_use]
    pub fn verb(mut self, verb: Verb) -> Self {
        self.verb = Some(verb);
        self
    }

    /// Only requests for this kind fail: `Deployment`.
    #[must_use]
    pub fn kind(mut self, kind: impl Into<String>) -> Self {
        self.kind = Some(kind.into());
        self
    }

    /// As many requests fail.
    #[must_use]
    pub fn times(mut self, times: u32) -> Self {
        self.times = times;
        self
    }

    fn matches(&self, verb: &str, kind: &str) -> bool {
        self.times > 0
            && self.verb.is_none_or(|wanted| wanted.as_ref() == verb)
            && self.kind.as_deref().is_none_or(|wanted| wanted == kind)
    }
}

/// A change that [`Host::observe`] delivers. The objects are manifests.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ObservedChange {
    /// The name of the watch.
    pub watch: String,
    /// The object before the change; `None` for an addition.
    pub before: Option<Value>,
    /// The object after the change; `None` for a deletion.
    pub after: Option<Value>,
    /// Whether the addition replays an object that existed before.
    pub is_initial: bool,
    /// Whether the watch missed the deletion.
    pub is_final_state_unknown: bool,
}

impl<P: Describe + Default> Host<P> {
    /// Creates a host for a plugin without configuration.
    ///
    /// # Panics
    /// When the plugin refuses to be loaded.
    #[must_use]
    pub fn new() -> Self {
        Self::with_config(&json!({}))
    }

    /// Creates a host for a plugin with the `config` of a sidecar.
    ///
    /// # Panics
    /// When the plugin refuses to be loaded.
    #[must_use]
    pub fn with_config(config: &Value) -> Self {
        let config = config.to_string();
        let descriptor = Config::parse(&config).and_then(|config| P::describe(&config));
        let descriptor = descriptor.unwrap_or_else(|error| panic!("describe: {error}"));
        let descriptor = serde_json::to_value(descriptor).expect("the descriptor can be written as JSON");
        let fake = Rc::new(FakeHost::new(descriptor, config));
        let previous = INSTALLED.replace(Some(Rc::clone(&fake)));
        Self { plugin: RefCell::default(), fake, previous }
    }
}

impl<P: Describe + Default> Default for Host<P> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Indexer> Host<P> {
    /// Lets the plugin compute the values of its computed indexes.
    #[must_use]
    pub fn with_indexer(self) -> Self {
        let values = |index: &str, object: &crate::Object| P::default().values(index, object);
        *self.fake.indexer.borrow_mut() = Some(Rc::new(values));
        self
    }

    /// Returns what the plugin computes for an index.
    #[must_use]
    pub fn index_values<K: Resource>(&self, index: &str, object: &K) -> Vec<String> {
        let object = crate::host::objects::Object::new(manifest(object));
        P::default().values(index, &crate::Object::new(object))
    }
}

impl<P: Reconciler> Host<P> {
    /// Runs the plugin's reconcile once.
    ///
    /// # Errors
    /// Those of the plugin.
    pub fn reconcile<'n>(&self, watch: impl Into<Cow<'n, str>>, key: &ObjectKey) -> Result<Outcome, Error> {
        self.reconcile_request(&Request {
            watch: watch.into().into_owned(),
            key: key.clone(),
            reasons: vec![Reason::Updated],
            attempt: 0,
            extra: Vec::new(),
        })
    }

    /// Runs the plugin's reconcile once, with the reasons and the attempt of the request.
    ///
    /// # Errors
    /// Those of the plugin.
    pub fn reconcile_request(&self, request: &Request) -> Result<Outcome, Error> {
        self.plugin.borrow().reconcile(&Context::new(request), request)
    }
}

impl<P: Observer> Host<P> {
    /// Delivers changes to the plugin's observer, as one batch.
    ///
    /// # Errors
    /// Those of the plugin.
    ///
    /// # Panics
    /// When a change has no object.
    pub fn observe(&self, changes: &[ObservedChange]) -> Result<(), Error> {
        let notifications: Vec<_> = changes.iter().map(notification).collect();
        let batch = Batch(changes.iter().map(|one| (one.before.clone(), one.after.clone())).collect());
        let notifications: Vec<_> = (0..)
            .zip(&notifications)
            .map(|(position, one)| Notification::new(one, &batch, position))
            .collect();
        self.plugin.borrow_mut().observe(&Context::without_request(), &notifications)
    }
}

fn notification(change: &ObservedChange) -> wit_observe::Notification {
    let key = change.after.as_ref().or(change.before.as_ref()).map(cluster::key_of);
    wit_observe::Notification {
        watch: change.watch.clone(),
        change: match (&change.before, &change.after) {
            (None, _) => Change::Added,
            (Some(_), Some(_)) => Change::Updated,
            (Some(_), None) => Change::Deleted,
        },
        key: key.expect("a change has an object before or after it"),
        initial: change.is_initial,
        final_state_unknown: change.is_final_state_unknown,
    }
}

impl<P> Host<P> {
    /// Creates or replaces an object in the cluster, as another client would, and returns it as stored. UID, status and finalizers are
    /// stored as given. A resource version is ignored, so this never conflicts.
    ///
    /// # Panics
    /// When the object has no name.
    pub fn put<K: Resource>(&self, object: &K) -> K {
        parsed(self.put_json(manifest(object)))
    }

    /// Like [`put`](Self::put), without a Rust type.
    ///
    /// # Panics
    /// When the object has no type or no name.
    pub fn put_json(&self, object: Value) -> Value {
        let Id { api_version, kind, key } = Id::of(&object);
        let is_complete = !(api_version.is_empty() || kind.is_empty() || key.name.is_empty());
        assert!(is_complete, "an object needs apiVersion, kind and metadata.name: {object}");
        self.fake.cluster.borrow_mut().put(object)
    }

    /// Returns an object of the cluster.
    #[must_use]
    pub fn get<K: Resource>(&self, key: &ObjectKey) -> Option<K> {
        self.get_json(&ObjectType::of::<K>(), key).map(parsed)
    }

    /// Like [`get`](Self::get), without a Rust type.
    #[must_use]
    pub fn get_json(&self, object_type: &ObjectType, key: &ObjectKey) -> Option<Value> {
        self.fake.cluster.borrow().find(&id_of(object_type, key)).cloned()
    }

    /// Deletes an object as `kubectl delete` does: an object with finalizers only gets a deletion timestamp.
    ///
    /// # Panics
    /// When the object does not exist.
    pub fn delete<K: Resource>(&self, key: &ObjectKey) {
        self.delete_json(&ObjectType::of::<K>(), key);
    }

    /// Like [`delete`](Self::delete), without a Rust type.
    ///
    /// # Panics
    /// When the object does not exist.
    pub fn delete_json(&self, object_type: &ObjectType, key: &ObjectKey) {
        let deleted = self.fake.cluster.borrow_mut().delete(&id_of(object_type, key), "", "");
        assert!(deleted.is_ok(), "{object_type} {key} does not exist");
    }

    /// Makes requests of the plugin fail. A failed request changes nothing.
    pub fn fail(&self, failure: Failure) {
        self.fake.failures.borrow_mut().push(failure);
    }

    /// Sets the time that the plugin reads from [`clock`](crate::clock).
    pub fn set_time(&self, time: Timestamp) {
        self.fake.time.set(Some(time));
    }

    /// Calls a part of the plugin with a context outside of a reconcile.
    pub fn with_context<T>(&self, work: impl FnOnce(&Context<'_>) -> T) -> T {
        work(&Context::without_request())
    }

    /// The plugin's descriptor.
    #[must_use]
    pub fn descriptor(&self) -> &Value {
        &self.fake.descriptor
    }

    /// The writes that succeeded: `create v1 ConfigMap default/web`, `apply apps/v1 Deployment default/web status`.
    #[must_use]
    pub fn writes(&self) -> Vec<String> {
        self.fake.recorded.borrow().writes.clone()
    }

    /// The Events that the plugin recorded.
    #[must_use]
    pub fn events(&self) -> Vec<Event> {
        self.fake.recorded.borrow().events.clone()
    }

    /// The keys that the plugin added to the queue.
    #[must_use]
    pub fn queued(&self) -> Vec<Queued> {
        self.fake.recorded.borrow().queued.clone()
    }

    /// The lines of the plugin's log.
    #[must_use]
    pub fn log(&self) -> Vec<LogLine> {
        self.fake.recorded.borrow().log.clone()
    }

    /// The calls of metrics functions.
    #[must_use]
    pub fn metrics(&self) -> Vec<Metric> {
        self.fake.recorded.borrow().metrics.clone()
    }
}

impl<P> Drop for Host<P> {
    fn drop(&mut self) {
        let previous = self.previous.take();
        INSTALLED.with_borrow_mut(|installed| {
            if installed.as_ref().is_some_and(|installed| Rc::ptr_eq(installed, &self.fake)) {
                *installed = previous;
            }
        });
    }
}

fn id_of(object_type: &ObjectType, key: &ObjectKey) -> Id {
    let ObjectType { api_version, kind } = object_type.clone();
    Id { api_version, kind, key: key.clone() }
}

fn manifest<K: Resource>(object: &K) -> Value {
    serde_json::to_value(object).expect("the object can be written as JSON")
}

fn parsed<K: Resource>(object: Value) -> K {
    let text = object.to_string();
    serde_json::from_value(object).unwrap_or_else(|error| {
        panic!("{text} cannot be read as {}: {error}", std::any::type_name::<K>());
    })
}

#[cfg(test)]
mod tests;
