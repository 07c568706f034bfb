//! One key whose reconciles write: whether what they write starts them again. Pure.
//!
//! A *round* is a reconcile that nothing but writes of plugins of this host has started, and that wrote again, to the same
//! object. A plugin that comes to rest has few: one that writes the status is started by that, and writes no more.
//! A reconcile that anything else has started, too, is no round and ends nothing: it may have had a reason to write.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use pilothouse_model::{Notification, Object, ObjectKey};
use pilothouse_plugin::{HostMemory, HostMemoryCharge, HostMemoryKind};
use tokio::time::Instant;

use super::authors::{Authors, Version};
use super::difference::{essence, flipping};

/// Rounds after which a key is in a loop whose object goes back to an earlier state.
pub(super) const FLIPS: u32 = 10;
/// Rounds after which it is in one whatever it writes: steps towards something have an end.
pub(super) const ROUNDS: u32 = 40;
/// Without a round for this long, a count starts anew.
pub(super) const WINDOW: Duration = Duration::from_secs(60);
/// The wait before the next round of a loop; it doubles with each.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// The longest wait.
const LONGEST_WAIT: Duration = Duration::from_mins(5);
/// Events that are remembered between two reconciles. More are more than a loop makes.
const WAKES: usize = 8;
/// States that are compared.
const STATES: usize = 3;

/// What is known of one key.
#[derive(Debug)]
pub(super) struct Chain {
    /// The events that have queued the key since its last reconcile began.
    wakes: Vec<Wake>,
    /// Whether something has queued it that no write of a plugin explains.
    woken_otherwise: bool,
    /// What has started the reconcile that runs, or that ran last.
    cause: Cause,
    /// What that reconcile has written last.
    wrote: Option<ObjectKey>,
    /// The version of the last write of all, where versions are numbers.
    latest: Option<u64>,
    /// What the rounds have written.
    subject: Option<ObjectKey>,
    rounds: u32,
    /// Rounds that another plugin's writes have started.
    answers: u32,
    rival: Option<Arc<str>>,
    /// The latest states of the object, kept only when a loop is near.
    states: VecDeque<KeptState>,
    /// What the states are charged to.
    memory: HostMemory,
    last: Instant,
    /// Waits since the loop was found; 0 outside of one.
    level: u32,
    /// When the wait is over.
    due: Option<Instant>,
}

#[derive(Debug)]
struct Wake {
    version: Version,
    /// The same as a number, of what the rounds have written.
    number: Option<u64>,
    object: Option<KeptState>,
}

/// A state of an object, which may be superseded by now.
#[derive(Debug)]
struct KeptState {
    object: Object,
    _charge: HostMemoryCharge,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Cause {
    Own,
    Plugin(Arc<str>),
    /// A write of another plugin that this one has answered already: its cache had it before the event came.
    Answered(Arc<str>),
    Other,
}

/// A loop that goes on.
#[derive(Clone, Debug)]
pub(crate) struct HotLoop {
    /// The object that is written again and again.
    pub(crate) subject: ObjectKey,
    /// Its latest state, where the plugin watches it.
    pub(crate) object: Option<Object>,
    /// JSON pointers to up to two fields that change.
    pub(crate) fields: Vec<String>,
    /// The other plugin whose writes this one answers.
    pub(crate) rival: Option<Arc<str>>,
    pub(crate) rounds: u32,
    /// The wait before the next round.
    pub(crate) wait: Duration,
    /// Whether it has only just been found.
    pub(crate) is_new: bool,
}

impl Chain {
    pub(super) fn new(now: Instant, memory: HostMemory) -> Self {
        Self {
            wakes: Vec::new(),
            woken_otherwise: false,
            cause: Cause::Other,
            wrote: None,
            latest: None,
            subject: None,
            rounds: 0,
            answers: 0,
            rival: None,
            states: VecDeque::new(),
            memory,
            last: now,
            level: 0,
            due: None,
        }
    }

    /// The reconcile that runs has written to an object.
    pub(super) fn wrote(&mut self, key: &ObjectKey, resource_version: &str) {
        self.wrote = Some(key.clone());
        self.latest = resource_version.parse().ok();
    }

    /// An event has queued the key.
    pub(super) fn woken(&mut self, version: Version, notification: &Notification) {
        if self.wakes.len() >= WAKES {
            self.woken_otherwise = true;
            return;
        }
        let is_of_it = self.subject.as_ref() == Some(notification.key());
        let is_near = is_of_it && self.count() + 4 >= FLIPS;
        let object = if is_near { self.kept(notification.object()) } else { None };
        let number = if is_of_it { notification.object().resource_version().parse().ok() } else { None };
        self.wakes.push(Wake { version, number, object });
    }

    /// A worker has the key. How long it has to wait, if the reconcile would be another round of a loop.
    ///
    /// Only now it is asked who made the versions: an event may come before the answer to its write, but never after
    /// the end of the reconcile that waits for that answer.
    pub(super) fn begin(
        &mut self,
        plugin: &str,
        authors: &Authors,
        woken_otherwise: bool,
        now: Instant,
    ) -> Option<Duration> {
        self.woken_otherwise |= woken_otherwise;
        let cause = self.resolve(plugin, authors);
        if self.level > 0 && cause != Cause::Other {
            let due = *self.due.get_or_insert(now + wait(self.level));
            if due > now {
                return Some(due - now);
            }
        }
        for object in self.wakes.drain(..).filter_map(|wake| wake.object) {
            if self.states.len() == STATES {
                self.states.pop_front();
            }
            self.states.push_back(object);
        }
        (self.woken_otherwise, self.due, self.wrote) = (false, None, None);
        self.cause = cause;
        None
    }

    /// The state, if there is room for it. Half of the plugin's host memory is left to what its work needs: without states a loop is
    /// found later, by its length.
    fn kept(&self, object: &Object) -> Option<KeptState> {
        let bytes = object.unpacked_size();
        if self.memory.used().saturating_add(bytes) > self.memory.limit() / 2 {
            return None;
        }
        let charge = self.memory.try_charge(HostMemoryKind::OwnWrites, bytes).ok()?;
        Some(KeptState { object: object.clone(), _charge: charge })
    }

    fn resolve(&self, plugin: &str, authors: &Authors) -> Cause {
        if self.woken_otherwise || self.wakes.is_empty() {
            return Cause::Other;
        }
        let mut cause = Cause::Own;
        for wake in &self.wakes {
            match authors.of(wake.version) {
                None => return Cause::Other,
                Some(author) if *author == *plugin => {}
                Some(author) if !self.has_answered(wake) => cause = Cause::Plugin(author),
                Some(author) if cause == Cause::Own => cause = Cause::Answered(author),
                Some(_) => {}
            }
        }
        cause
    }

    /// Whether a write of its own came after the version that woke it.
    fn has_answered(&self, wake: &Wake) -> bool {
        wake.number.zip(self.latest).is_some_and(|(told, latest)| told < latest)
    }

    /// The reconcile has ended; the loop that it is a round of.
    pub(super) fn end(&mut self, now: Instant) -> Option<HotLoop> {
        if now.saturating_duration_since(self.last) > WINDOW + wait(self.level) {
            self.rest();
        }
        let Some(wrote) = self.wrote.take() else {
            match &self.cause {
                // That there is nothing to do now says nothing; but what counted as its own round was an answer.
                Cause::Answered(rival) => {
                    self.rival = Some(Arc::clone(rival));
                    if self.rounds > 0 {
                        self.rounds -= 1;
                        self.answers += 1;
                    }
                }
                // Its own writes wake it between two rounds with a rival.
                Cause::Own if self.answers > 0 => {}
                _ => self.rest(),
            }
            return None;
        };
        if self.subject.as_ref() != Some(&wrote) {
            self.rest();
            self.subject = Some(wrote.clone());
        }
        match &self.cause {
            Cause::Other => return None,
            Cause::Own | Cause::Answered(_) => self.rounds += 1,
            Cause::Plugin(rival) => {
                self.rival = Some(Arc::clone(rival));
                self.answers += 1;
            }
        }
        self.last = now;
        if self.count() < FLIPS {
            return None;
        }
        let states: Vec<_> = self.states.iter().map(|state| essence(&state.object)).collect();
        let flips = matches!(states.as_slice(), [first, _, last] if first == last);
        if !flips && self.count() < ROUNDS && self.level == 0 {
            return None;
        }
        self.level += 1;
        Some(HotLoop {
            subject: wrote,
            object: self.states.back().map(|state| state.object.clone()),
            fields: flipping(&states),
            rival: self.rival.clone().filter(|_| self.answers >= self.rounds),
            rounds: self.count(),
            wait: wait(self.level),
            is_new: self.level == 1,
        })
    }

    /// Whether the key is in a loop.
    pub(super) fn is_hot(&self) -> bool {
        self.level > 0
    }

    /// Whether nothing has come of it for so long that nothing needs to be known of it.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.last) > WINDOW + wait(self.level)
    }

    fn count(&self) -> u32 {
        self.rounds.max(self.answers)
    }

    fn rest(&mut self) {
        (self.rounds, self.answers, self.level, self.rival) = (0, 0, 0, None);
        self.states.clear();
    }
}

fn wait(level: u32) -> Duration {
    match level {
        0 => Duration::ZERO,
        level => FIRST_WAIT.saturating_mul(1 << (level - 1).min(16)).min(LONGEST_WAIT),
    }
}
