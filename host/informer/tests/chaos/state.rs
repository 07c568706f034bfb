//! The server's state: objects, their history, and a backup that it can be restored from.
//!
//! After a restore, a history is lost and a new one begins (an epoch). The two cannot be distinguished where they have the same
//! versions. A client can detect the restore only while the new history is below the last version that it saw, so this server
//! stays below: after each backup the version jumps, as on a real server, where other resources are written, too, and a restored
//! server continues without the jump.

use std::collections::BTreeMap;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tokio::time::{Duration, Instant};

use super::faults::Counts;

/// The version jump after a backup, for each epoch. Each history must stay below the versions at which the previous one
/// continued after its last backup, so ten jumps of one epoch are less than one jump of the epoch before.
const JUMPS: [u64; 5] = [10_000_000, 500_000, 25_000, 1_250, 0];
const MAX_BACKUPS: u32 = 10;
/// A server that lost everything starts this many versions earlier.
const LOSS: u64 = 1_000_000_000;

/// An object as the server has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerObject {
    pub(crate) uid: u64,
    pub(crate) version: u64,
    pub(crate) app: u8,
}

pub(crate) type State = BTreeMap<String, ServerObject>;

/// A change. Its version is the object's version.
#[derive(Clone)]
pub(super) struct Event {
    pub(super) kind: &'static str,
    pub(super) name: String,
    pub(super) object: ServerObject,
}

/// The history after the version `compacted`, at which the state was `base`.
#[derive(Clone, Default)]
pub(super) struct History {
    pub(super) compacted: u64,
    base: State,
    events: Vec<Event>,
}

/// The reply to a watch from a version of a lost history. One server always replies alike.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum LostHistoryReply {
    Silent,
    Event,
    Bookmark,
    Gone,
    TooLarge,
}

pub(super) struct ServerState {
    pub(super) rng: SmallRng,
    /// Probability of a fault in percent, wherever one can happen.
    pub(super) faults: u32,
    pub(super) streaming: bool,
    pub(super) lost_history_reply: LostHistoryReply,
    pub(super) objects: State,
    pub(super) history: History,
    /// The histories that were lost in restarts.
    lost_histories: Vec<History>,
    backup: Option<(State, History)>,
    backups: u32,
    jump: u64,
    /// The first version of the earliest history.
    earliest_version: u64,
    uids: u64,
    pub(super) down_until: Option<Instant>,
    /// Consecutive server errors that a watch got, without an event in between.
    errors_in_a_row: u32,
    pub(super) lists_started: u64,
    pub(super) forced_lists: u64,
    pub(super) probes_started: u64,
    pub(super) forced_probes: u64,
    /// The version up to which the current watch has sent everything to the client.
    pub(super) last_sent: u64,
    pub(super) counts: Counts,
}

impl History {
    pub(super) fn newest(&self) -> u64 {
        self.events.last().map_or(self.compacted, |event| event.object.version)
    }

    /// Returns the events after a version.
    pub(super) fn after(&self, version: u64) -> &[Event] {
        &self.events[self.events.partition_point(|event| event.object.version <= version)..]
    }

    /// Returns the versions that a list or a bookmark can have, from `oldest` on.
    pub(super) fn versions(&self, oldest: u64) -> Vec<u64> {
        let all = std::iter::once(self.compacted).chain(self.events.iter().map(|event| event.object.version));
        all.filter(|version| *version >= oldest).collect()
    }

    /// Returns the state at a version; `None` if it is compacted or never existed.
    pub(super) fn state_at(&self, version: u64) -> Option<State> {
        let is_events = self.events.binary_search_by_key(&version, |event| event.object.version).is_ok();
        if version != self.compacted && !is_events {
            return None;
        }
        let mut state = self.base.clone();
        for event in self.events.iter().take_while(|event| event.object.version <= version) {
            match event.kind {
                "DELETED" => drop(state.remove(&event.name)),
                _ => drop(state.insert(event.name.clone(), event.object.clone())),
            }
        }
        Some(state)
    }
}

impl ServerState {
    pub(super) fn new(seed: u64) -> Self {
        let mut rng = SmallRng::seed_from_u64(seed);
        let beginning = 1_000 * LOSS;
        Self {
            faults: rng.random_range(0..25),
            streaming: rng.random_range(0..2) == 0,
            lost_history_reply: [
                LostHistoryReply::Silent,
                LostHistoryReply::Event,
                LostHistoryReply::Bookmark,
                LostHistoryReply::Gone,
                LostHistoryReply::TooLarge,
            ][rng.random_range(0..5)],
            rng,
            objects: State::new(),
            history: History { compacted: beginning, ..History::default() },
            lost_histories: Vec::new(),
            backup: None,
            backups: 0,
            jump: 0,
            earliest_version: beginning,
            uids: 0,
            down_until: None,
            errors_in_a_row: 0,
            lists_started: 0,
            forced_lists: 1,
            probes_started: 0,
            forced_probes: 0,
            last_sent: 0,
            counts: Counts::default(),
        }
    }

    pub(super) fn random_below(&mut self, below: u32) -> u32 {
        self.rng.random_range(0..below)
    }

    pub(super) fn draws_fault(&mut self) -> bool {
        let faults = self.faults;
        self.random_below(100) < faults
    }

    /// Returns the number of the present epoch.
    pub(super) fn epoch(&self) -> usize {
        self.lost_histories.len()
    }

    pub(super) fn is_down(&self) -> bool {
        self.down_until.is_some_and(|until| until > Instant::now())
    }

    /// Returns the states that the server ever had at this version.
    pub(super) fn states_at(&self, version: u64) -> Vec<State> {
        self.lost_histories
            .iter()
            .chain([&self.history])
            .filter_map(|history| history.state_at(version))
            .collect()
    }

    /// Makes some random changes, and sometimes a compaction, a backup or a restart.
    pub(super) fn advance(&mut self) {
        for _ in 0..self.rng.random_range(1..6) {
            self.change();
        }
        if self.random_below(10) == 0 {
            self.history =
                History { compacted: self.history.newest(), base: self.objects.clone(), events: Vec::new() };
        }
        if self.random_below(8) == 0 && self.backups < MAX_BACKUPS && self.lost_histories.len() < JUMPS.len()
        {
            self.backup = Some((self.objects.clone(), self.history.clone()));
            self.backups += 1;
            self.jump = JUMPS[self.lost_histories.len()];
        }
        if self.draws_fault() && self.random_below(4) == 0 {
            self.restart();
        }
    }

    fn change(&mut self) {
        let name = format!("p{}", self.random_below(8));
        let app = u8::try_from(self.random_below(2)).expect("small");
        match self.objects.get(&name).cloned() {
            Some(object) if self.random_below(3) == 0 => self.record("DELETED", &name, object),
            Some(object) => self.record("MODIFIED", &name, ServerObject { app, ..object }),
            None => {
                self.uids += 1;
                self.record("ADDED", &name, ServerObject { uid: self.uids, version: 0, app });
            }
        }
    }

    fn record(&mut self, kind: &'static str, name: &str, mut object: ServerObject) {
        object.version = self.history.newest() + std::mem::take(&mut self.jump) + 1;
        match kind {
            "DELETED" => drop(self.objects.remove(name)),
            _ => drop(self.objects.insert(name.to_owned(), object.clone())),
        }
        self.history.events.push(Event { kind, name: name.to_owned(), object });
    }

    /// Ends all connections. The state is kept, restored from a backup, or lost.
    fn restart(&mut self) {
        self.down_until = Some(Instant::now() + Duration::from_secs(self.rng.random_range(1..20)));
        match (self.random_below(4), self.backup.take()) {
            // The last jump is zero, so a history after that backup could not be distinguished from the restored one.
            (0, Some((objects, history))) if self.lost_histories.len() + 1 < JUMPS.len() => {
                self.counts.count("restart: from a backup");
                self.objects = objects;
                self.start_epoch(history);
            }
            (1, _) => {
                self.counts.count("restart: state lost");
                self.earliest_version -= LOSS;
                self.objects.clear();
                self.start_epoch(History { compacted: self.earliest_version, ..History::default() });
            }
            (_, backup) => {
                self.counts.count("restart: state kept");
                self.backup = backup;
            }
        }
    }

    fn start_epoch(&mut self, history: History) {
        self.lost_histories.push(std::mem::replace(&mut self.history, history));
        self.backup = None;
        self.jump = 0;
    }

    /// Records that a watch was answered with 500 or 503, or got such an event. The client relists after more than three in a row.
    pub(super) fn record_watch_error(&mut self) {
        self.errors_in_a_row += 1;
        if self.errors_in_a_row > 3 {
            self.errors_in_a_row = 0;
            self.forced_lists += 1;
        }
    }

    pub(super) fn record_watch_event(&mut self) {
        self.errors_in_a_row = 0;
    }
}
