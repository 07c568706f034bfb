//! The state of a world: the schedule, the views and reconciles of its host, and the record of what happened.

use pilothouse_controller::Randomness;

use super::clock::VirtualClock;
use super::hash::RollingHash;
use super::instances::Instances;
use super::mirror::Mirror;
use super::reconciles::Reconciles;
use super::schedule::Schedule;
use super::views::Views;
use crate::analysis::canonical::changes_only_times;
use crate::call_log::CallLog;
use crate::finding::divergence::event_text;
use crate::plan::Fault;
use crate::run::{Event, EventKind, ReconcileResult};

/// How long plugins alone may keep the world busy before it goes on as if it were at rest, in virtual milliseconds. A plugin that makes progress by
/// short timers is done by then.
const MAX_BUSY_TIME: u64 = 10 * 60 * 1000;
/// The same, in virtual milliseconds, after the first time in a run: then a plugin is known never to rest.
const MAX_BUSY_TIME_AGAIN: u64 = 60_000;

/// What the driver is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Reload,
    TakeStep(String),
    HoldControllers(u64),
    RequeueAll,
    WithholdReasons,
}

/// The state of one world.
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
    pub(super) views: Views,
    /// How many requests of plugins have no answer yet.
    pub(super) in_flight: u32,
    /// When something happened last that keeps the world from being at rest.
    last_activity: u64,
    /// When a step of an actor or a fault did that last, and no plugin.
    last_external_activity: u64,
    /// Whether nothing of that kind has happened since the world came to rest.
    is_resting: bool,
    /// When a plugin ended the last rest: the world was idle until then, and not busy.
    rest_ended_at: u64,
    /// When the world last went on as if it were at rest; `None` if it always came to rest.
    last_busy_timeout: Option<u64>,
    pub(super) reconciles: Reconciles,
    /// The instances of the plugins of this process and version.
    pub(super) instances: Instances,
}

impl State {
    pub(super) fn new(
        clock: VirtualClock,
        schedule: Schedule,
        mirror: Mirror,
        max_events: usize,
        calls: Option<CallLog>,
    ) -> Self {
        Self {
            clock,
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
            views: Views::default(),
            in_flight: 0,
            last_activity: 0,
            last_external_activity: 0,
            is_resting: false,
            rest_ended_at: 0,
            last_busy_timeout: None,
            reconciles: Reconciles::default(),
            instances: Instances::default(),
        }
    }

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

    /// Records that an actor or a fault did something that keeps the world from being at rest.
    pub(super) fn record_external_activity(&mut self) {
        self.is_resting = false;
        self.last_activity = self.now();
        self.last_external_activity = self.last_activity;
    }

    /// Records that a plugin, or the server because of it, did something that keeps the world from being at rest.
    pub(super) fn record_plugin_activity(&mut self) {
        self.last_activity = self.now();
        if std::mem::take(&mut self.is_resting) {
            self.rest_ended_at = self.last_activity;
        }
    }

    /// Notes that the world came to rest.
    pub(super) fn begin_rest(&mut self) {
        self.is_resting = true;
    }

    /// Returns when the world goes on as if it were at rest, because plugins alone keep it busy.
    pub(super) fn busy_deadline(&self) -> u64 {
        let ended = self.views.last_hold_before(|| self.now()).unwrap_or_default();
        let limit = if self.last_busy_timeout.is_some() { MAX_BUSY_TIME_AGAIN } else { MAX_BUSY_TIME };
        self.last_external_activity
            .max(self.rest_ended_at)
            .max(ended)
            .max(self.last_busy_timeout.unwrap_or_default())
            .saturating_add(limit)
    }

    /// Records that the world goes on as if it were at rest.
    pub(super) fn record_busy_timeout(&mut self) {
        self.last_busy_timeout = Some(self.now());
        self.record(EventKind::BusyTimeout);
    }

    /// Whether plugins have changed nothing but times in objects since the last step or fault, as far as [`MAX_BUSY_TIME_AGAIN`] goes back.
    pub(super) fn changes_only_times(&self) -> bool {
        let start = self.last_external_activity.max(self.now().saturating_sub(MAX_BUSY_TIME_AGAIN));
        let recent = self.events.iter().rev().take_while(|event| event.time > start);
        recent.into_iter().all(|event| match &event.kind {
            EventKind::Request(request) => !request.is_effective() || changes_only_times(request),
            _ => true,
        })
    }

    /// Whether a view of the host is late or old because of a fault.
    pub(super) fn is_held(&self) -> bool {
        self.views.is_held(|| self.now())
    }

    /// Lets the host list a resource again whose watch has ended.
    pub(super) fn end_watch(&mut self, resource: &str) {
        self.views.allow_relist(resource, self.now());
        // What the host lists now may make the plugin act.
        self.record_external_activity();
    }

    /// Returns when something happened last. The end of a delay is such a moment, because what was held back is delivered then.
    pub(super) fn quiet_since(&self) -> u64 {
        let ended = self.views.last_hold_before(|| self.now());
        self.last_activity.max(ended.unwrap_or_default())
    }

    /// Records that a deviation took effect.
    pub(super) fn record_deviation(&mut self, index: usize) {
        let deviation = self.schedule.deviation(index).clone();
        self.record_external_activity();
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
        self.views = Views::of_new_host(&past, self.now());
        self.reconciles.begin_host();
        self.instances = Instances::default();
        self.awaits_steps = false;
        self.in_flight = 0;
        self.record_external_activity();
        self.record(EventKind::HostStarted { past });
    }

    /// Returns the version of the past as of which a list is answered, or `None` for now. `list` is the path with its selectors.
    pub(super) fn version_of_first_list(&mut self, resource: &str, list: &str) -> Option<u64> {
        let now = self.now();
        let version_before = |changes| self.mirror.version_before(resource, changes);
        self.views.version_of_first_list(resource, list, now, version_before)
    }

    /// Ends the host: reconciles that run are abandoned.
    pub(super) fn end_host(&mut self) {
        let abandoned = self.reconciles.abandon();
        self.record(EventKind::HostEnded);
        for reconcile in abandoned {
            self.record(EventKind::ReconcileEnded { reconcile, result: ReconcileResult::Abandoned });
        }
    }
}
