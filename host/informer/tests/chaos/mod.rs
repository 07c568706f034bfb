//! An API server that keeps its promises and breaks everything else: connections, order of arrival, patience.
//!
//! All that it does follows from its seed. It counts the lists that its faults force, so that a test can tell a reflector
//! that recovers from one that hides its faults by listing again.

mod feed;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use parking_lot::Mutex;
use pilothouse_informer::{ByteStream, Failure, FailureKind, ListParams, ListWatch, WatchParams};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::UnboundedReceiverStream;

/// An object as the server has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) uid: u64,
    pub(crate) version: u64,
    pub(crate) app: u8,
}

#[derive(Clone)]
struct Event {
    kind: &'static str,
    name: String,
    object: Stored,
}

struct World {
    rng: SmallRng,
    /// Chance of a fault, in percent, at each place where one can happen.
    faults: u32,
    streaming: bool,
    objects: BTreeMap<String, Stored>,
    /// The events after version `compacted`, one for each version.
    history: Vec<Event>,
    /// The state at version `compacted`.
    base: BTreeMap<String, Stored>,
    compacted: u64,
    uids: u64,
    down_until: Option<tokio::time::Instant>,
    lists_started: u64,
    lists_forced: u64,
}

/// Cloning makes another handle.
#[derive(Clone)]
pub(crate) struct Server {
    world: Arc<Mutex<World>>,
    /// The newest version: watches wait for it to move.
    version: watch::Sender<u64>,
}

impl World {
    fn version(&self) -> u64 {
        self.compacted + self.history.len() as u64
    }

    fn hits(&mut self) -> bool {
        let faults = self.faults;
        self.rng.random_range(0..100) < faults
    }

    fn state_at(&self, version: u64) -> BTreeMap<String, Stored> {
        let mut state = self.base.clone();
        let events = usize::try_from(version.saturating_sub(self.compacted)).expect("small");
        for event in self.history.iter().take(events) {
            match event.kind {
                "DELETED" => drop(state.remove(&event.name)),
                _ => drop(state.insert(event.name.clone(), event.object.clone())),
            }
        }
        state
    }

    fn record(&mut self, kind: &'static str, name: &str, mut object: Stored) {
        object.version = self.version() + 1;
        match kind {
            "DELETED" => drop(self.objects.remove(name)),
            _ => drop(self.objects.insert(name.to_owned(), object.clone())),
        }
        self.history.push(Event { kind, name: name.to_owned(), object });
    }
}

fn json(name: &str, object: &Stored, with_type: bool) -> String {
    let Stored { uid, version, app } = object;
    let kind = if with_type { r#""kind":"Pod","apiVersion":"v1","# } else { "" };
    format!(
        r#"{{{kind}"metadata":{{"name":"{name}","namespace":"ns","uid":"u{uid}","resourceVersion":"{version}","labels":{{"app":"app{app}"}}}},"spec":{{"text":"}}\"{{["}}}}"#
    )
}

fn status(code: u16, reason: &str) -> Failure {
    Failure::response(code, None, format!(r#"{{"code":{code},"reason":"{reason}"}}"#).as_bytes())
}

impl Server {
    pub(crate) fn new(seed: u64) -> Self {
        let mut rng = SmallRng::seed_from_u64(seed);
        let world = World {
            faults: rng.random_range(0..25),
            streaming: rng.random_range(0..2) == 0,
            rng,
            objects: BTreeMap::new(),
            history: Vec::new(),
            base: BTreeMap::new(),
            compacted: 1,
            uids: 0,
            down_until: None,
            lists_started: 0,
            lists_forced: 1,
        };
        Self { world: Arc::new(Mutex::new(world)), version: watch::Sender::new(1) }
    }

    /// Some random changes, sometimes a compaction of the history, sometimes a restart.
    pub(crate) fn live(&self) {
        let mut world = self.world.lock();
        for _ in 0..world.rng.random_range(1..6) {
            let name = format!("p{}", world.rng.random_range(0..8));
            let app = world.rng.random_range(0..2);
            match world.objects.get(&name).cloned() {
                Some(object) if world.rng.random_range(0..3) == 0 => world.record("DELETED", &name, object),
                Some(object) => world.record("MODIFIED", &name, Stored { app, ..object }),
                None => {
                    world.uids += 1;
                    let uid = world.uids;
                    world.record("ADDED", &name, Stored { uid, version: 0, app });
                }
            }
        }
        if world.rng.random_range(0..10) == 0 {
            world.base = world.objects.clone();
            world.compacted = world.version();
            world.history.clear();
        }
        if world.hits() && world.rng.random_range(0..4) == 0 {
            let outage = Duration::from_secs(world.rng.random_range(1..20));
            world.down_until = Some(tokio::time::Instant::now() + outage);
        }
        let version = world.version();
        drop(world);
        self.version.send_replace(version);
    }

    pub(crate) fn stop_faults(&self) {
        let mut world = self.world.lock();
        world.faults = 0;
        world.down_until = None;
    }

    pub(crate) fn objects(&self) -> BTreeMap<String, Stored> {
        self.world.lock().objects.clone()
    }

    /// The state at a version, or `None` when it is compacted.
    pub(crate) fn state_at(&self, version: u64) -> Option<BTreeMap<String, Stored>> {
        let world = self.world.lock();
        (version >= world.compacted).then(|| world.state_at(version))
    }

    /// Lists that were asked for, and lists that the faults forced.
    pub(crate) fn lists(&self) -> (u64, u64) {
        let world = self.world.lock();
        (world.lists_started, world.lists_forced)
    }

    /// The next list is one that this server has forced.
    fn force_list(&self) {
        self.world.lock().lists_forced += 1;
    }

    fn hits(&self) -> bool {
        self.world.lock().hits()
    }

    fn draw(&self, below: u32) -> u32 {
        self.world.lock().rng.random_range(0..below)
    }

    /// An outage or an error before anything is read. None of them makes a watch start over with a list.
    fn refuse(&self) -> Result<(), Failure> {
        let mut world = self.world.lock();
        if world.down_until.is_some_and(|until| until > tokio::time::Instant::now()) {
            return Err(Failure::new(FailureKind::ConnectionRefused, "down"));
        }
        if world.hits() {
            return Err(match world.rng.random_range(0..3) {
                0 => Failure::response(429, Some("2"), b""),
                1 => Failure::new(FailureKind::Connection, "reset"),
                _ => Failure::new(FailureKind::ConnectionRefused, "refused"),
            });
        }
        Ok(())
    }

    /// Which state a list shows: one not older than what was asked for, and any that is kept for version 0.
    fn pick_version(&self, asked: Option<&str>) -> Result<u64, Failure> {
        let mut world = self.world.lock();
        let newest = world.version();
        let oldest = match asked {
            None => return Ok(newest),
            Some("0") => world.compacted,
            Some(version) => {
                let version: u64 = version.parse().expect("the server's own version");
                assert!(version <= newest, "a version that the server never gave: {version}");
                if world.hits() {
                    return Err(if world.rng.random_range(0..2) == 0 {
                        status(410, "Expired")
                    } else {
                        Failure::response(504, None, br#"{"message":"Too large resource version"}"#)
                    });
                }
                version.max(world.compacted)
            }
        };
        Ok(world.rng.random_range(oldest..=newest))
    }

    /// Sends chunks cut at random places, some after a pause.
    fn body(&self, text: &str, cut: bool) -> ByteStream {
        let (sender, receiver) = mpsc::unbounded_channel();
        let end = if cut {
            usize::try_from(self.draw(u32::try_from(text.len()).expect("small"))).expect("small")
        } else {
            text.len()
        };
        let mut chunks: Vec<(u64, Bytes)> = Vec::new();
        let mut at = 0;
        while at < end {
            let size = 1 + self.draw(400) as usize;
            let pause = if self.draw(10) == 0 { u64::from(self.draw(5)) } else { 0 };
            chunks.push((pause, Bytes::copy_from_slice(&text.as_bytes()[at..end.min(at + size)])));
            at += size;
        }
        tokio::spawn(async move {
            for (pause, chunk) in chunks {
                tokio::time::sleep(Duration::from_secs(pause)).await;
                if sender.send(Ok(chunk)).is_err() {
                    return;
                }
            }
            if cut {
                let _ = sender.send(Err(Failure::new(FailureKind::Connection, "cut")));
            }
        });
        UnboundedReceiverStream::new(receiver).boxed()
    }
}

#[async_trait]
impl ListWatch for Server {
    async fn list(&self, params: &ListParams) -> Result<ByteStream, Failure> {
        if params.continue_token.is_none() {
            self.world.lock().lists_started += 1;
        }
        self.refuse().inspect_err(|_| self.force_list())?;
        // A token is the version and the place where the page starts.
        let (version, start) = match &params.continue_token {
            Some(token) => {
                let (version, start) = token.split_once('/').expect("the server's own token");
                let version: u64 = version.parse().expect("a version");
                if self.world.lock().compacted > version || self.hits() {
                    self.force_list();
                    return Err(status(410, "Expired"));
                }
                (version, start.parse().expect("a place"))
            }
            None => {
                let picked = self.pick_version(params.resource_version.as_deref());
                (picked.inspect_err(|_| self.force_list())?, 0)
            }
        };
        let state = self.world.lock().state_at(version);
        let limit = params.limit.map_or(usize::MAX, |limit| limit as usize);
        let items: Vec<_> =
            state.iter().skip(start).take(limit).map(|(name, object)| json(name, object, false)).collect();
        let next = start + items.len();
        let token = if next < state.len() { format!("{version}/{next}") } else { String::new() };
        let text = format!(
            r#"{{"kind":"PodList","metadata":{{"resourceVersion":"{version}","continue":"{token}"}},"items":[{}]}}"#,
            items.join(",")
        );
        let cut = self.hits();
        if cut {
            self.force_list();
        }
        Ok(self.body(&text, cut))
    }

    async fn watch(&self, params: &WatchParams) -> Result<ByteStream, Failure> {
        if params.send_initial_events {
            self.world.lock().lists_started += 1;
            if !self.world.lock().streaming {
                self.force_list();
                return Err(status(422, "Invalid"));
            }
        }
        let started_list = params.send_initial_events;
        self.refuse().inspect_err(|_| {
            if started_list {
                self.force_list();
            }
        })?;
        let (sender, receiver) = mpsc::unbounded_channel();
        let (version, initial) = if started_list {
            let picked = self.pick_version(params.resource_version.as_deref());
            let version = picked.inspect_err(|_| self.force_list())?;
            (version, self.initial_events(version))
        } else {
            let version = params.resource_version.as_deref().expect("a watch has a version");
            (version.parse().expect("the server's own version"), String::new())
        };
        tokio::spawn(self.clone().feed(version, initial, sender));
        Ok(UnboundedReceiverStream::new(receiver).boxed())
    }
}
