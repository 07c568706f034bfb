//! What the parts of one world share: the server, the schedule, and the record of what happened.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use pilothouse_apiserver::{ApiServer, Commit};
use pilothouse_controller::Randomness;
use serde_json::Value;
use tokio::sync::Notify;

use super::clock::VirtualClock;
use super::hash::RollingHash;
use super::instances::Instances;
use super::mirror::{Change, Mirror};
use super::request::ObjectRequest;
use super::schedule::Schedule;
use crate::call_log::CallLog;
use crate::finding::divergence::event_text;
use crate::plan::Fault;
use crate::run::{Author, Event, EventKind, PAST_LAG, RELIST_BACKOFF, ReconcileResult, RequestEvent};

/// The shared part of a world. Cheap to clone.
#[derive(Clone)]
pub(super) struct Shared(Arc<Inner>);

struct Inner {
    server: ApiServer,
    clock: VirtualClock,
    state: Mutex<State>,
    changed: Notify,
    steps_taken: Notify,
}

/// What the driver is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Reload,
    TakeStep(String),
    HoldControllers(u64),
    RequeueAll,
    WithholdReasons,
}

/// How the first lists of a resource are answered after a restart into the past.
struct PastLists {
    /// How many changes the past lacks.
    changes: u32,
    /// The version, and until when the API server that answers is behind; `None` before the first list.
    version: Option<(u64, u64)>,
    /// The lists that were answered, as paths with selectors. A later list of the same informer is not its first one.
    listed: BTreeSet<String>,
}

/// The mutable part.
pub(super) struct State {
    clock: VirtualClock,
    pub(super) schedule: Schedule,
    pub(super) mirror: Mirror,
    pub(super) events: Vec<Event>,
    pub(super) hashes: Vec<u64>,
    pub(super) hash: RollingHash,
    /// The calls of the run, if they are wanted.
    pub(super) calls: Option<CallLog>,
    max_events: usize,
    /// Which host runs, from 1.
    pub(super) host: u32,
    /// The host's process has ended: nothing that it does has an effect any more. `Some` holds the resources whose first list the next
    /// host gets from the past.
    pub(super) crash: Option<Vec<(String, u32)>>,
    pub(super) commands: Vec<Command>,
    /// Whether a request waits until the step of an actor is taken that comes before it.
    pub(super) awaits_steps: bool,
    /// How often the plugins were reloaded.
    pub(super) reloads: u32,
    /// Whether plugins do not learn why a key is reconciled, in this host and in all later ones.
    pub(super) withholds_reasons: bool,
    /// The sources of randomness of all hosts so far.
    pub(super) randomness: Vec<Randomness>,
    /// The resources whose first lists are answered from the past.
    past: BTreeMap<String, PastLists>,
    /// Until when the watches of a resource deliver nothing, in virtual milliseconds.
    pub(super) holds: BTreeMap<String, u64>,
    /// The resources whose watch has ended, and when the host may list them again.
    pub(super) relists: BTreeMap<String, u64>,
    /// The resources that the host has not listed again since, and until when it will have at the latest.
    unlisted: BTreeMap<String, u64>,
    /// How many requests of plugins have no answer yet.
    pub(super) in_flight: u32,
    /// When something happened last that keeps the world from being at rest.
    pub(super) last_activity: u64,
    /// The UIDs of the objects in the host's caches, by resource and key.
    cached_uids: BTreeMap<(String, String), String>,
    /// The reconciles that run, by plugin, watch and key.
    reconciles: BTreeMap<(String, String, String), u64>,
    /// The instances of the plugins of this process and version.
    pub(super) instances: Instances,
    next_reconcile: u64,
    /// The keys whose last reconcile failed and is repeated, with the time at which it ended, by plugin, watch and key.
    pub(super) failing: BTreeMap<(String, String, String), u64>,
}

/// The longest time in virtual milliseconds after which the host repeats a failed reconcile.
const MAX_RETRY: u64 = 20 * 60 * 1000;

impl Shared {
    pub(super) fn new(
        server: ApiServer,
        clock: VirtualClock,
        schedule: Schedule,
        mirror: Mirror,
        max_events: usize,
        calls: Option<CallLog>,
    ) -> Self {
        let state = State {
            clock: clock.clone(),
            schedule,
            mirror,
            events: Vec::new(),
            hashes: Vec::new(),
            hash: RollingHash::default(),
            calls,
            max_events,
            host: 0,
            crash: None,
            commands: Vec::new(),
            awaits_steps: false,
            reloads: 0,
            withholds_reasons: false,
            randomness: Vec::new(),
            past: BTreeMap::new(),
            holds: BTreeMap::new(),
            relists: BTreeMap::new(),
            unlisted: BTreeMap::new(),
            in_flight: 0,
            last_activity: 0,
            cached_uids: BTreeMap::new(),
            reconciles: BTreeMap::new(),
            instances: Instances::default(),
            next_reconcile: 1,
            failing: BTreeMap::new(),
        };
        Self(Arc::new(Inner {
            server,
            clock,
            state: Mutex::new(state),
            changed: Notify::new(),
            steps_taken: Notify::new(),
        }))
    }

    pub(super) fn server(&self) -> &ApiServer {
        &self.0.server
    }

    pub(super) fn clock(&self) -> &VirtualClock {
        &self.0.clock
    }

    /// Locks the state. Changes that the server's controllers made meanwhile are recorded first.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        let mut state = self.0.state.lock();
        let commits = self.0.server.take_commits();
        state.record_commits(commits, &Author::Controller);
        state
    }

    /// Returns what the server committed since the last call, as the work of a request that was just processed.
    pub(super) fn take_commits(&self) -> Vec<Change> {
        let commits = self.0.server.take_commits();
        if commits.is_empty() {
            return Vec::new();
        }
        let mut state = self.0.state.lock();
        commits.into_iter().map(|commit| state.mirror.apply(commit)).collect()
    }

    /// Wakes the driver.
    pub(super) fn wake_driver(&self) {
        self.0.changed.notify_one();
    }

    /// Lets the requests go on that waited for steps of actors.
    pub(super) fn release_requests(&self) {
        if std::mem::take(&mut self.0.state.lock().awaits_steps) {
            self.0.steps_taken.notify_waiters();
        }
    }

    /// Waits until the driver has let actors take the steps that come before a request. Cancelling it has no effect on the steps.
    pub(super) async fn steps_taken(&self) {
        let mut taken = pin!(self.0.steps_taken.notified());
        taken.as_mut().enable();
        if self.0.state.lock().awaits_steps {
            taken.await;
        }
    }

    /// Notes that a request of a plugin is not in flight any more.
    pub(super) fn end_request(&self) {
        let mut state = self.0.state.lock();
        state.in_flight = state.in_flight.saturating_sub(1);
    }

    /// Waits until the driver has something to do.
    pub(super) async fn woken(&self) {
        self.0.changed.notified().await;
    }
}

impl State {
    pub(super) fn now(&self) -> u64 {
        self.clock.now_ms()
    }

    /// Whether the record is as long as it may become.
    pub(super) fn is_full(&self) -> bool {
        self.events.len() >= self.max_events
    }

    /// Records an event.
    pub(super) fn record(&mut self, kind: EventKind) {
        if self.is_full() {
            return;
        }
        let event = Event { time: self.now(), host: self.host, kind };
        self.hash.add_value(&event);
        self.log_call(|| format!("{}: {:?}", event_text(&event), event.kind));
        self.events.push(event);
        self.hashes.push(self.hash.value());
    }

    /// Ends the record with the number of random draws, which must be equal in equal runs. Returns it.
    pub(super) fn record_draws(&mut self, of_server: u64) -> u64 {
        let draws = of_server + self.randomness.iter().map(Randomness::draws).sum::<u64>();
        self.hash.add_value(&draws);
        self.log_call(|| format!("the run ends after {draws} random draws"));
        draws
    }

    /// Adds what was just added to the hash to the log of calls, if there is one.
    pub(super) fn log_call(&mut self, text: impl FnOnce() -> String) {
        if let Some(calls) = &mut self.calls {
            calls.push(self.hash.value(), text());
        }
    }

    /// Notes that something happened that keeps the world from being at rest.
    pub(super) fn touch(&mut self) {
        self.last_activity = self.now();
    }

    /// Whether a view of the host is late or old because of a fault.
    pub(super) fn is_held(&self) -> bool {
        let now = self.now();
        self.holds.values().chain(self.unlisted.values()).any(|until| *until > now)
            || !self.relists.is_empty()
    }

    /// Lets the host list a resource again whose watch has ended.
    pub(super) fn end_watch(&mut self, resource: &str) {
        self.relists.remove(resource);
        self.unlisted.insert(resource.to_owned(), self.now().saturating_add(RELIST_BACKOFF));
        // What the host lists now may make the plugin act.
        self.touch();
    }

    /// Notes that the host has listed a resource.
    pub(super) fn record_list(&mut self, resource: &str, namespace: &str) {
        self.unlisted.remove(resource);
        self.forget_cached(resource, namespace);
    }

    /// Returns when something happened last. The end of a delay is such a moment, because what was held back is delivered then.
    pub(super) fn quiet_since(&self) -> u64 {
        let now = self.now();
        let ended = self.holds.values().copied().filter(|until| *until <= now).max();
        self.last_activity.max(ended.unwrap_or_default())
    }

    /// Records that a deviation took effect.
    pub(super) fn record_deviation(&mut self, index: usize) {
        let deviation = self.schedule.deviation(index).clone();
        self.touch();
        self.record(EventKind::Deviated { index, deviation });
    }

    /// Applies a fault that concerns the host or the world as a whole. Returns `false` for one that concerns a request or a watch.
    pub(super) fn apply_to_host(&mut self, index: usize) -> bool {
        let fault = self.schedule.fault(index).clone();
        let command = match fault {
            Fault::CrashBefore | Fault::CrashAfter => {
                self.record_deviation(index);
                self.crash(Vec::new());
                return true;
            }
            Fault::Restart { past } => {
                self.record_deviation(index);
                self.crash(past);
                return true;
            }
            Fault::Reload => Command::Reload,
            Fault::TakeStep { actor } => Command::TakeStep(actor),
            Fault::HoldControllers(ms) => Command::HoldControllers(ms),
            Fault::RequeueAll => Command::RequeueAll,
            Fault::WithholdReasons => {
                self.withholds_reasons = true;
                Command::WithholdReasons
            }
            Fault::Refuse(_)
            | Fault::Interfere
            | Fault::LoseAnswer
            | Fault::DelayRequest(_)
            | Fault::HoldWatch(_)
            | Fault::DropWatch(_) => return false,
        };
        self.record_deviation(index);
        self.commands.push(command);
        true
    }

    /// Ends the host's process.
    pub(super) fn crash(&mut self, past: Vec<(String, u32)>) {
        if self.crash.is_none() {
            self.crash = Some(past);
        }
    }

    /// Starts the next host.
    pub(super) fn begin_host(&mut self) {
        let past = self.crash.take().unwrap_or_default();
        self.host += 1;
        self.holds.clear();
        self.relists.clear();
        self.unlisted.clear();
        self.cached_uids.clear();
        self.reconciles.clear();
        self.instances = Instances::default();
        self.failing.clear();
        self.awaits_steps = false;
        self.in_flight = 0;
        let lists = |changes| PastLists { changes, version: None, listed: BTreeSet::new() };
        self.past = past.iter().map(|(resource, changes)| (resource.clone(), lists(*changes))).collect();
        // The fault is not over before the first lists were answered.
        let until = self.now().saturating_add(PAST_LAG);
        self.holds.extend(past.iter().map(|(resource, _)| (resource.clone(), until)));
        self.touch();
        self.record(EventKind::HostStarted { past });
    }

    /// Returns the version of the past as of which a list is answered, or `None` for now. `list` is the path with its selectors. The first
    /// lists of all informers of a resource show the same past, until the API server that answers them has caught up.
    pub(super) fn version_of_first_list(&mut self, resource: &str, list: &str) -> Option<u64> {
        let now = self.now();
        let past = self.past.get_mut(resource)?;
        if !past.listed.insert(list.to_owned()) {
            return None;
        }
        if past.version.is_none() {
            let until = now.saturating_add(PAST_LAG);
            past.version = Some((self.mirror.version_before(resource, past.changes)?, until));
            self.holds.insert(resource.to_owned(), until);
        }
        past.version.filter(|(_, until)| now < *until).map(|(version, _)| version)
    }

    /// Ends the host: reconciles that run are abandoned.
    pub(super) fn end_host(&mut self) {
        let abandoned: Vec<_> = std::mem::take(&mut self.reconciles).into_values().collect();
        self.record(EventKind::HostEnded);
        for reconcile in abandoned {
            self.record(EventKind::ReconcileEnded { reconcile, result: ReconcileResult::Abandoned });
        }
    }

    /// Whether a plugin reconciles a key.
    pub(super) fn is_reconciling(&self, plugin: &str) -> bool {
        self.reconciles.keys().any(|(running, ..)| running == plugin)
    }

    /// Returns the identifier of a reconcile that begins.
    pub(super) fn begin_reconcile(&mut self, plugin: &str, watch: &str, key: &str) -> u64 {
        let reconcile = self.next_reconcile;
        self.next_reconcile += 1;
        self.reconciles.insert((plugin.to_owned(), watch.to_owned(), key.to_owned()), reconcile);
        reconcile
    }

    /// Returns the reconcile that runs for a key.
    pub(super) fn reconcile(&self, plugin: &str, watch: &str, key: &str) -> Option<u64> {
        self.reconciles.get(&(plugin.to_owned(), watch.to_owned(), key.to_owned())).copied()
    }

    /// Returns the reconcile that runs, if it is the only one.
    pub(super) fn only_reconcile(&self) -> Option<u64> {
        let mut running = self.reconciles.values().copied();
        running.next().filter(|_| running.next().is_none())
    }

    /// Ends the reconcile of a key, and returns it. `is_repeated`: it failed, and the host repeats it later.
    pub(super) fn end_reconcile(
        &mut self,
        plugin: &str,
        watch: &str,
        key: &str,
        is_repeated: bool,
    ) -> Option<u64> {
        let key = (plugin.to_owned(), watch.to_owned(), key.to_owned());
        let reconcile = self.reconciles.remove(&key);
        if is_repeated {
            self.failing.insert(key, self.now());
        } else {
            self.failing.remove(&key);
        }
        reconcile
    }

    /// Returns the time by which the host has repeated the reconciles whose last failure was at `time` or before; `None` if there are none.
    pub(super) fn retry_of_failures_until(&self, time: u64) -> Option<u64> {
        let failed = self.failing.values().filter(|failed| **failed <= time).max()?;
        Some(failed.saturating_add(MAX_RETRY))
    }

    /// Records that an object of a list or of a watch reached the host.
    pub(super) fn record_delivery(&mut self, resource: &str, delivery: Delivery) {
        let Delivery { change, key, uid, version } = delivery;
        let cached = (resource.to_owned(), key.clone());
        match change.as_str() {
            "DELETED" => drop(self.cached_uids.remove(&cached)),
            _ => drop(self.cached_uids.insert(cached, uid.clone())),
        }
        self.touch();
        let resource = resource.to_owned();
        self.record(EventKind::Delivered { resource, change, key, uid, version });
    }

    /// Forgets what the host had in its cache, because a list replaces it.
    fn forget_cached(&mut self, resource: &str, namespace: &str) {
        let prefix = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
        self.cached_uids.retain(|(of, key), _| of != resource || !key.starts_with(&prefix));
    }

    /// Records commits that no request of a plugin or an actor caused.
    pub(super) fn record_commits(&mut self, commits: Vec<Commit>, author: &Author) {
        for commit in commits {
            let change = self.mirror.apply(commit);
            self.record_commit(change, author);
        }
    }

    /// Records commits that were applied to the mirror already.
    pub(super) fn record_own_commits(&mut self, commits: Vec<Change>, author: &Author) {
        commits.into_iter().for_each(|commit| self.record_commit(commit, author));
    }

    /// Records a commit that was applied to the mirror already.
    fn record_commit(&mut self, commit: Change, author: &Author) {
        let verb = match (&commit.before, &commit.after) {
            (None, _) => "create",
            (_, None) => "delete",
            _ => "update",
        };
        if *author != Author::Host {
            self.touch();
        }
        self.record(EventKind::Request(Box::new(RequestEvent {
            author: author.clone(),
            step: None,
            reconcile: None,
            verb: verb.to_owned(),
            resource: commit.resource,
            subresource: String::new(),
            namespace: commit.namespace,
            name: commit.name,
            body: None,
            status: Some(200),
            reason: String::new(),
            answered: true,
            before: commit.before,
            after: commit.after,
            changed: true,
            cached_uid: None,
        })));
    }

    /// Records a request with the commits that it caused. The first one of the object itself is the request's own.
    pub(super) fn record_request(&mut self, request: SentRequest<'_>, commits: Vec<Change>) {
        let SentRequest { author, step, reconcile, about, body, answer, answered } = request;
        let of = about.resource();
        let (mut own, mut others) = (None, Vec::new());
        for commit in commits {
            let is_own = commit.resource == of
                && commit.namespace == about.namespace
                && (about.name.is_empty() || commit.name == about.name);
            if is_own && own.is_none() { own = Some(commit) } else { others.push(commit) }
        }
        let name = own.as_ref().map_or_else(|| about.name.clone(), |commit| commit.name.clone());
        let key = key(&about.namespace, &name);
        let is_plugin = matches!(author, Author::Plugin(_));
        let cached_uid = self.cached_uids.get(&(of.clone(), key.clone())).cloned();
        let cached_uid = cached_uid.filter(|_| is_plugin && about.is_write());
        let current = || self.mirror.object(&of, &about.namespace, &name).cloned();
        let (before, after, changed) = match own {
            Some(commit) => (commit.before, commit.after, true),
            None if about.is_write() => (None, current(), false),
            None => (None, None, false),
        };
        if let Some(uid) = after.as_ref().and_then(|object| object["metadata"]["uid"].as_str())
            && is_plugin
            && answered
            && self.cached_uids.contains_key(&(of.clone(), key.clone()))
        {
            // The plugin reads its own writes.
            self.cached_uids.insert((of.clone(), key), uid.to_owned());
        }
        if about.is_write() {
            self.touch();
        }
        self.record(EventKind::Request(Box::new(RequestEvent {
            author,
            step,
            reconcile,
            verb: about.verb.to_owned(),
            resource: of,
            subresource: about.subresource.clone(),
            namespace: about.namespace.clone(),
            name,
            body,
            status: answer.as_ref().map(|answer| answer.status),
            reason: answer.map(|answer| answer.reason).unwrap_or_default(),
            answered,
            before,
            after,
            changed,
            cached_uid,
        })));
        for commit in others {
            self.record_commit(commit, &Author::Controller);
        }
    }
}

/// A request that was sent to the server, or refused on the way.
pub(super) struct SentRequest<'a> {
    pub(super) author: Author,
    /// Which step of the actor it is, from 1; `None` if no actor with a list of steps sent it.
    pub(super) step: Option<u32>,
    pub(super) reconcile: Option<u64>,
    pub(super) about: &'a ObjectRequest,
    pub(super) body: Option<Value>,
    /// `None` if it did not reach the server.
    pub(super) answer: Option<Answer>,
    /// Whether the sender received the answer.
    pub(super) answered: bool,
}

/// The server's answer.
#[derive(Clone, Debug, Default)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) reason: String,
    pub(super) message: String,
}

/// An object of a list or of a watch.
pub(super) struct Delivery {
    pub(super) change: String,
    pub(super) key: String,
    pub(super) uid: String,
    pub(super) version: u64,
}

/// Returns a key, `namespace/name` or `name`.
pub(super) fn key(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
}
