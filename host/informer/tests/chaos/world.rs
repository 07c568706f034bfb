//! What the server keeps: objects, their history, and backups that it can fall back to.
//!
//! A time that was lost cannot be told from the one after it where both have the same version. A client can notice only
//! while the new time is still below the last version that it saw, so this world keeps below: after each backup the version
//! jumps, as it does on a real server, where other resources are written as well, and a server that was restored goes on
//! without the jump.

use std::collections::BTreeMap;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tokio::time::{Duration, Instant};

use super::faults::Counts;

/// Each time that is lost must end below where the one before it went on after its last backup: ten jumps of the one time
/// are less than one jump of the other.
const JUMPS: [u64; 5] = [10_000_000, 500_000, 25_000, 1_250, 0];
const MOST_BACKUPS: u32 = 10;
/// A server that lost everything begins so much earlier.
const LOSS: u64 = 1_000_000_000;

/// An object as the server has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) uid: u64,
    pub(crate) version: u64,
    pub(crate) app: u8,
}

pub(crate) type State = BTreeMap<String, Stored>;

/// A change; its version is the object's.
#[derive(Clone)]
pub(super) struct Event {
    pub(super) kind: &'static str,
    pub(super) name: String,
    pub(super) object: Stored,
}

/// The history after the version `compacted`, at which the state was `base`.
#[derive(Clone, Default)]
pub(super) struct History {
    pub(super) compacted: u64,
    base: State,
    events: Vec<Event>,
}

/// What a watch gets that asks for a version of a time that was lost: always the same from one server.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    Silent,
    Event,
    Bookmark,
    Gone,
    TooLarge,
}

pub(super) struct World {
    pub(super) rng: SmallRng,
    /// Chance of a fault, in percent, at each place where one can happen.
    pub(super) faults: u32,
    pub(super) streaming: bool,
    pub(super) manner: Manner,
    pub(super) objects: State,
    pub(super) history: History,
    /// The times that were lost.
    lost: Vec<History>,
    backup: Option<(State, History)>,
    backups: u32,
    jump: u64,
    /// Where the earliest time began.
    earliest: u64,
    uids: u64,
    pub(super) down_until: Option<Instant>,
    /// Errors of the server in a row that a watch got, without an event between them.
    errors_in_a_row: u32,
    pub(super) lists_started: u64,
    pub(super) lists_forced: u64,
    pub(super) probes_started: u64,
    pub(super) probes_forced: u64,
    /// The version up to which the watch under way has told the client everything.
    pub(super) told: u64,
    pub(super) counts: Counts,
}

impl History {
    pub(super) fn newest(&self) -> u64 {
        self.events.last().map_or(self.compacted, |event| event.object.version)
    }

    /// The events after a version.
    pub(super) fn after(&self, version: u64) -> &[Event] {
        &self.events[self.events.partition_point(|event| event.object.version <= version)..]
    }

    /// The versions that a list or a bookmark can have, from `oldest` on.
    pub(super) fn versions(&self, oldest: u64) -> Vec<u64> {
        let all = std::iter::once(self.compacted).chain(self.events.iter().map(|event| event.object.version));
        all.filter(|version| *version >= oldest).collect()
    }

    /// The state at a version, unless it is compacted or never was.
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

impl World {
    pub(super) fn new(seed: u64) -> Self {
        let mut rng = SmallRng::seed_from_u64(seed);
        let beginning = 1_000 * LOSS;
        Self {
            faults: rng.random_range(0..25),
            streaming: rng.random_range(0..2) == 0,
            manner: [Manner::Silent, Manner::Event, Manner::Bookmark, Manner::Gone, Manner::TooLarge]
                [rng.random_range(0..5)],
            rng,
            objects: State::new(),
            history: History { compacted: beginning, ..History::default() },
            lost: Vec::new(),
            backup: None,
            backups: 0,
            jump: 0,
            earliest: beginning,
            uids: 0,
            down_until: None,
            errors_in_a_row: 0,
            lists_started: 0,
            lists_forced: 1,
            probes_started: 0,
            probes_forced: 0,
            told: 0,
            counts: Counts::default(),
        }
    }

    pub(super) fn draw(&mut self, below: u32) -> u32 {
        self.rng.random_range(0..below)
    }

    pub(super) fn hits(&mut self) -> bool {
        let faults = self.faults;
        self.draw(100) < faults
    }

    /// Which of the times is the present one.
    pub(super) fn time(&self) -> usize {
        self.lost.len()
    }

    pub(super) fn is_down(&self) -> bool {
        self.down_until.is_some_and(|until| until > Instant::now())
    }

    /// The states that were ever the one at this version.
    pub(super) fn states_at(&self, version: u64) -> Vec<State> {
        self.lost.iter().chain([&self.history]).filter_map(|history| history.state_at(version)).collect()
    }

    /// Some random changes, sometimes a compaction of the history, a backup or a restart.
    pub(super) fn live(&mut self) {
        for _ in 0..self.rng.random_range(1..6) {
            self.change();
        }
        if self.draw(10) == 0 {
            self.history =
                History { compacted: self.history.newest(), base: self.objects.clone(), events: Vec::new() };
        }
        if self.draw(8) == 0 && self.backups < MOST_BACKUPS && self.lost.len() < JUMPS.len() {
            self.backup = Some((self.objects.clone(), self.history.clone()));
            self.backups += 1;
            self.jump = JUMPS[self.lost.len()];
        }
        if self.hits() && self.draw(4) == 0 {
            self.restart();
        }
    }

    fn change(&mut self) {
        let name = format!("p{}", self.draw(8));
        let app = u8::try_from(self.draw(2)).expect("small");
        match self.objects.get(&name).cloned() {
            Some(object) if self.draw(3) == 0 => self.record("DELETED", &name, object),
            Some(object) => self.record("MODIFIED", &name, Stored { app, ..object }),
            None => {
                self.uids += 1;
                self.record("ADDED", &name, Stored { uid: self.uids, version: 0, app });
            }
        }
    }

    fn record(&mut self, kind: &'static str, name: &str, mut object: Stored) {
        object.version = self.history.newest() + std::mem::take(&mut self.jump) + 1;
        match kind {
            "DELETED" => drop(self.objects.remove(name)),
            _ => drop(self.objects.insert(name.to_owned(), object.clone())),
        }
        self.history.events.push(Event { kind, name: name.to_owned(), object });
    }

    /// All connections end. The state is kept, put back from a backup, or lost.
    fn restart(&mut self) {
        self.down_until = Some(Instant::now() + Duration::from_secs(self.rng.random_range(1..20)));
        match (self.draw(4), self.backup.take()) {
            // The last jump is none, so that a backup made after it cannot be told from what came then.
            (0, Some((objects, history))) if self.lost.len() + 1 < JUMPS.len() => {
                self.counts.note("restart: from a backup");
                self.objects = objects;
                self.lose(history);
            }
            (1, _) => {
                self.counts.note("restart: state lost");
                self.earliest -= LOSS;
                self.objects.clear();
                self.lose(History { compacted: self.earliest, ..History::default() });
            }
            (_, backup) => {
                self.counts.note("restart: state kept");
                self.backup = backup;
            }
        }
    }

    fn lose(&mut self, history: History) {
        self.lost.push(std::mem::replace(&mut self.history, history));
        self.backup = None;
        self.jump = 0;
    }

    /// A watch was answered 500 or 503, or got such an event: after three in a row the client lists.
    pub(super) fn watch_got_an_error(&mut self) {
        self.errors_in_a_row += 1;
        if self.errors_in_a_row > 3 {
            self.errors_in_a_row = 0;
            self.lists_forced += 1;
        }
    }

    pub(super) fn watch_got_an_event(&mut self) {
        self.errors_in_a_row = 0;
    }
}
