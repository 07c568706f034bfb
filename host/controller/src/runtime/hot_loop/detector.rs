//! Detects for one key whether the writes of its reconciles trigger it again and again. Pure.
//!
//! A *round* is a reconcile that was triggered only by writes of this host's plugins, and that wrote to the same object again. A plugin that
//! converges has few rounds: its status write triggers one more reconcile, which writes nothing. A reconcile that anything else triggered,
//! too, is not a round, because it may have had a reason to write; it does not end a loop either.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use pilothouse_informer::ExponentialBackoff;
use pilothouse_model::{Notification, Object, ObjectKey};
use pilothouse_plugin::{HostMemory, HostMemoryCharge, HostMemoryKind};
use tokio::time::Instant;

use super::authors::{Authors, ObjectVersionHash};
use super::difference::{changing_fields, without_volatile_metadata};

/// The number of rounds after which a key is in a loop if its object returns to an earlier state.
pub(super) const MIN_ROUNDS: u32 = 10;
/// The number of rounds after which a key is in a loop whatever it writes: progress towards a goal has an end.
pub(super) const MAX_ROUNDS: u32 = 40;
/// After this time without a round, the count starts again.
pub(super) const WINDOW: Duration = Duration::from_secs(60);
/// The delay before the first round after a loop was found; it doubles with each round.
const FIRST_DELAY: Duration = Duration::from_secs(1);
/// The longest delay.
const MAX_DELAY: Duration = Duration::from_mins(5);
/// The number of events that are remembered between two reconciles. A loop causes fewer.
const MAX_EVENTS: usize = 8;
/// The number of states that are compared.
const MAX_STATES: usize = 3;
/// The size of a state that is compared, in bytes. A comparison needs many times as much memory.
const MAX_STATE_SIZE: usize = 256 << 10;

/// The loop detection of one key.
#[derive(Debug)]
pub(super) struct LoopDetector {
    /// The events that have queued the key since its last reconcile began.
    events: Vec<QueueingEvent>,
    /// Whether something other than an event has queued the key, or more than [`MAX_EVENTS`] events.
    has_other_cause: bool,
    /// What triggered the current or last reconcile.
    triggers: Triggers,
    /// The object that the current reconcile wrote last.
    wrote: Option<ObjectKey>,
    /// The resource version of the last write of any reconcile, if it is a number.
    last_written: Option<u64>,
    /// The object that the rounds have written.
    subject: Option<ObjectKey>,
    rounds: u32,
    /// The number of rounds that another plugin's writes have triggered.
    other_plugin_rounds: u32,
    other_plugin: Option<Arc<str>>,
    /// The latest states of the subject, kept only when a loop is near.
    states: VecDeque<StateSnapshot>,
    /// The account to which the states are charged.
    memory: HostMemory,
    /// When the last round ended.
    last_round: Instant,
    /// The number of delays since the loop was found; 0 outside of a loop.
    level: u32,
    /// When the current delay ends.
    due: Option<Instant>,
}

#[derive(Debug)]
struct QueueingEvent {
    version: ObjectVersionHash,
    /// The resource version as a number, if the event is about the subject.
    number: Option<u64>,
    object: Option<StateSnapshot>,
}

/// What triggered a reconcile.
#[derive(Debug, Default)]
struct Triggers {
    /// Empty if anything other than events triggered it, too.
    events: Vec<TriggeringEvent>,
}

#[derive(Debug)]
struct TriggeringEvent {
    version: ObjectVersionHash,
    /// The plugin that wrote the version, if that is known by now.
    author: Option<Arc<str>>,
    /// Whether an earlier reconcile has written after this version.
    is_answered: bool,
}

/// A state of an object, which may be outdated by now.
#[derive(Debug)]
struct StateSnapshot {
    object: Object,
    _charge: HostMemoryCharge,
}

/// Whose writes triggered a reconcile.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Cause {
    /// Only writes of the plugin itself.
    Own,
    /// A write of this other plugin.
    Plugin(Arc<str>),
    /// A write of this other plugin to which an earlier reconcile has reacted already, because the cache had it before the event came.
    Answered(Arc<str>),
    /// Anything else.
    Other,
}

/// A loop that was found and continues.
#[derive(Clone, Debug)]
pub(crate) struct HotLoop {
    /// The object that is written again and again.
    pub(crate) subject: ObjectKey,
    /// The object's latest state, if the plugin watches it.
    pub(crate) object: Option<Object>,
    /// JSON pointers to up to two fields that change.
    pub(crate) fields: Vec<String>,
    /// The other plugin that takes part in the loop.
    pub(crate) other_plugin: Option<Arc<str>>,
    pub(crate) rounds: u32,
    /// The delay before the next round.
    pub(crate) delay: Duration,
    /// Whether the loop was found in this round.
    pub(crate) is_new: bool,
}

impl LoopDetector {
    pub(super) fn new(now: Instant, memory: HostMemory) -> Self {
        Self {
            events: Vec::new(),
            has_other_cause: false,
            triggers: Triggers::default(),
            wrote: None,
            last_written: None,
            subject: None,
            rounds: 0,
            other_plugin_rounds: 0,
            other_plugin: None,
            states: VecDeque::new(),
            memory,
            last_round: now,
            level: 0,
            due: None,
        }
    }

    /// Records that the current reconcile has written to an object.
    pub(super) fn record_write(&mut self, key: &ObjectKey, resource_version: &str) {
        self.wrote = Some(key.clone());
        self.last_written = resource_version.parse().ok();
    }

    /// Records an event that has queued the key.
    pub(super) fn record_event(&mut self, version: ObjectVersionHash, notification: &Notification) {
        if self.events.len() >= MAX_EVENTS {
            self.has_other_cause = true;
            return;
        }
        let is_of_subject = self.subject.as_ref() == Some(notification.key());
        let is_near_loop = is_of_subject && self.count() + 4 >= MIN_ROUNDS;
        let object = if is_near_loop { self.snapshot(notification.object()) } else { None };
        let number = if is_of_subject { notification.object().resource_version().parse().ok() } else { None };
        self.events.push(QueueingEvent { version, number, object });
    }

    /// Called when a worker has taken the key. Returns the remaining delay if the reconcile would be another round of a loop.
    ///
    /// The authors of the versions are looked up here and at the end, because an event may come before the response to its write. It never
    /// comes after the end of the reconcile that waits for that response.
    pub(super) fn begin(
        &mut self,
        plugin: &str,
        authors: &Authors,
        has_other_cause: bool,
        now: Instant,
    ) -> Option<Duration> {
        self.has_other_cause |= has_other_cause;
        let mut triggers = self.queued_triggers();
        triggers.look_up_authors(authors);
        if self.level > 0 && triggers.cause(plugin) != Cause::Other {
            let due = *self.due.get_or_insert(now + delay(self.level));
            if due > now {
                return Some(due - now);
            }
        }
        for object in self.events.drain(..).filter_map(|event| event.object) {
            if self.states.len() == MAX_STATES {
                self.states.pop_front();
            }
            self.states.push_back(object);
        }
        (self.has_other_cause, self.due, self.wrote) = (false, None, None);
        self.triggers = triggers;
        None
    }

    /// Returns what has queued the key since its last reconcile began.
    fn queued_triggers(&self) -> Triggers {
        if self.has_other_cause {
            return Triggers::default();
        }
        let triggering = |event: &QueueingEvent| TriggeringEvent {
            version: event.version,
            author: None,
            is_answered: event
                .number
                .zip(self.last_written)
                .is_some_and(|(number, written)| number < written),
        };
        Triggers { events: self.events.iter().map(triggering).collect() }
    }

    /// Returns the remaining delay of the next round; 0 if nothing is delayed.
    pub(super) fn remaining_delay(&self, now: Instant) -> Duration {
        self.due.map_or(Duration::ZERO, |due| due.saturating_duration_since(now))
    }

    /// Returns the state if it is not too large and there is room for it. Half of the plugin's host memory is reserved for its work: without states, a loop is
    /// found later, after [`MAX_ROUNDS`].
    fn snapshot(&self, object: &Object) -> Option<StateSnapshot> {
        let bytes = object.unpacked_size();
        if bytes > MAX_STATE_SIZE || self.memory.used().saturating_add(bytes) > self.memory.limit() / 2 {
            return None;
        }
        let charge = self.memory.try_charge(HostMemoryKind::OwnWrites, bytes).ok()?;
        Some(StateSnapshot { object: object.clone(), _charge: charge })
    }

    /// Called when the reconcile has ended. Returns the loop if the reconcile was a round of one.
    pub(super) fn end(&mut self, plugin: &str, authors: &Authors, now: Instant) -> Option<HotLoop> {
        self.triggers.look_up_authors(authors);
        let cause = std::mem::take(&mut self.triggers).cause(plugin);
        if self.is_expired(now) {
            self.reset();
        }
        let Some(wrote) = self.wrote.take() else {
            match cause {
                // Nothing was written because an earlier reconcile had already reacted to the other plugin's write. That one was counted as an
                // own round; it counts as one with the other plugin.
                Cause::Answered(other_plugin) => {
                    self.other_plugin = Some(other_plugin);
                    if self.rounds > 0 {
                        self.rounds -= 1;
                        self.other_plugin_rounds += 1;
                    }
                }
                // The plugin's own writes trigger a reconcile between two rounds with the other plugin.
                Cause::Own if self.other_plugin_rounds > 0 => {}
                _ => self.reset(),
            }
            return None;
        };
        if self.subject.as_ref() != Some(&wrote) {
            self.reset();
            self.subject = Some(wrote.clone());
        }
        match cause {
            Cause::Other => return None,
            Cause::Own | Cause::Answered(_) => self.rounds += 1,
            Cause::Plugin(other_plugin) => {
                self.other_plugin = Some(other_plugin);
                self.other_plugin_rounds += 1;
            }
        }
        self.last_round = now;
        if self.count() < MIN_ROUNDS {
            return None;
        }
        let states: Vec<_> =
            self.states.iter().filter_map(|state| without_volatile_metadata(&state.object)).collect();
        let has_returned = matches!(states.as_slice(), [first, _, last] if first == last);
        if !has_returned && self.count() < MAX_ROUNDS && self.level == 0 {
            return None;
        }
        self.level += 1;
        Some(HotLoop {
            subject: wrote,
            object: self.states.back().map(|state| state.object.clone()),
            fields: changing_fields(&states),
            other_plugin: self.other_plugin.clone().filter(|_| self.other_plugin_rounds >= self.rounds),
            rounds: self.count(),
            delay: delay(self.level),
            is_new: self.level == 1,
        })
    }

    /// Whether the key is in a loop.
    pub(super) fn is_in_loop(&self) -> bool {
        self.level > 0
    }

    /// Whether the last round is so long ago that the count starts again.
    pub(super) fn is_expired(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.last_round) > WINDOW + delay(self.level)
    }

    fn count(&self) -> u32 {
        self.rounds.max(self.other_plugin_rounds)
    }

    fn reset(&mut self) {
        (self.rounds, self.other_plugin_rounds, self.level, self.other_plugin) = (0, 0, 0, None);
        self.states.clear();
    }
}

impl Triggers {
    /// Looks up the authors that were not known the last time.
    fn look_up_authors(&mut self, authors: &Authors) {
        for event in self.events.iter_mut().filter(|event| event.author.is_none()) {
            event.author = authors.author_of(event.version);
        }
    }

    fn cause(&self, plugin: &str) -> Cause {
        if self.events.is_empty() {
            return Cause::Other;
        }
        let mut cause = Cause::Own;
        for event in &self.events {
            match &event.author {
                None => return Cause::Other,
                Some(author) if **author == *plugin => {}
                Some(author) if !event.is_answered => cause = Cause::Plugin(Arc::clone(author)),
                Some(author) if cause == Cause::Own => cause = Cause::Answered(Arc::clone(author)),
                Some(_) => {}
            }
        }
        cause
    }
}

/// The delay before the next round of a loop.
fn delay(level: u32) -> Duration {
    match level {
        0 => Duration::ZERO,
        level => ExponentialBackoff::new(FIRST_DELAY, MAX_DELAY).delay(level - 1),
    }
}
