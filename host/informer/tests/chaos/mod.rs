//! An API server that keeps its promises and breaks everything else: connections, order of arrival, patience, and its
//! memory, when it is restored from a backup or loses all that it had.
//!
//! All that it does follows from its seed. It counts the lists that its faults force, so that a test can tell a reflector
//! that recovers from one that hides its faults by listing again.

mod faults;
mod feed;
mod wire;
mod world;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use parking_lot::Mutex;
use pilothouse_informer::{ByteStream, Failure, FailureKind, ListParams, ListWatch, WatchParams};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::UnboundedReceiverStream;

pub(crate) use faults::{Counts, FAULTS};
pub(crate) use world::{State, Stored};

use wire::Wire;
use world::{Manner, World};

/// Cloning makes another handle.
#[derive(Clone)]
pub(crate) struct Server {
    world: Arc<Mutex<World>>,
    /// Moves with every change, and with every restart: what watches wait for.
    newest: watch::Sender<()>,
}

/// Requests that the client made, and those that the server's faults forced.
#[derive(Debug)]
pub(crate) struct Requests {
    pub(crate) lists: u64,
    pub(crate) forced_lists: u64,
    pub(crate) probes: u64,
    pub(crate) forced_probes: u64,
}

/// What is asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Request {
    List,
    StreamingList,
    Watch,
    /// A list of one item, after a watch that said nothing or a connection that was lost.
    Probe,
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

fn too_large() -> Failure {
    Failure::response(504, None, br#"{"reason":"Timeout","message":"Too large resource version"}"#)
}

impl Server {
    pub(crate) fn new(seed: u64) -> Self {
        Self { world: Arc::new(Mutex::new(World::new(seed))), newest: watch::Sender::new(()) }
    }

    /// Some random changes, and what else may happen to a server.
    pub(crate) fn live(&self) {
        self.world.lock().live();
        self.newest.send_replace(());
    }

    pub(crate) fn stop_faults(&self) {
        let mut world = self.world.lock();
        world.faults = 0;
        world.down_until = None;
    }

    pub(crate) fn objects(&self) -> State {
        self.world.lock().objects.clone()
    }

    /// The states that the server ever had at a version: none when it is compacted, several when times were lost.
    pub(crate) fn states_at(&self, version: u64) -> Vec<State> {
        self.world.lock().states_at(version)
    }

    pub(crate) fn requests(&self) -> Requests {
        let world = self.world.lock();
        Requests {
            lists: world.lists_started,
            forced_lists: world.lists_forced,
            probes: world.probes_started,
            forced_probes: world.probes_forced,
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        self.world.lock().counts.clone()
    }

    /// The next list is one that this server has forced.
    fn force_list(&self) {
        self.world.lock().lists_forced += 1;
    }

    fn note(&self, fault: &'static str) {
        self.world.lock().counts.note(fault);
    }

    fn hits(&self) -> bool {
        self.world.lock().hits()
    }

    fn draw(&self, below: u32) -> u32 {
        self.world.lock().draw(below)
    }

    /// An outage or an error before anything is read.
    fn refuse(&self, request: Request) -> Result<(), Failure> {
        let mut world = self.world.lock();
        let (fault, failure) = if world.is_down() {
            ("request: connection refused", Failure::new(FailureKind::ConnectionRefused, "down"))
        } else if world.hits() {
            match world.draw(5) {
                0 => ("request: 429", Failure::response(429, Some("2"), b"")),
                1 => ("request: connection reset", Failure::new(FailureKind::Connection, "reset")),
                2 => ("request: 500", status(500, "InternalError")),
                3 => ("request: 503", status(503, "ServiceUnavailable")),
                _ => ("request: connection refused", Failure::new(FailureKind::ConnectionRefused, "refused")),
            }
        } else {
            return Ok(());
        };
        world.counts.note(fault);
        // The client asks whether the server was restored, once its watch is silent; a probe that fails is made again.
        world.probes_forced +=
            u64::from(failure.kind != FailureKind::TooManyRequests || request == Request::Probe);
        match request {
            Request::List | Request::StreamingList => world.lists_forced += 1,
            Request::Watch if failure.kind == FailureKind::Server => world.watch_got_an_error(),
            // A watch is not started over with a list, nor is one that follows a probe.
            Request::Watch | Request::Probe => {}
        }
        Err(failure)
    }

    /// Which state a list shows: one not older than what was asked for, and any that is kept for version 0. A refusal
    /// forces another list.
    fn pick_version(&self, asked: Option<&str>) -> Result<u64, Failure> {
        let mut world = self.world.lock();
        let oldest = match asked {
            None => return Ok(world.history.newest()),
            Some("0") => world.history.compacted,
            Some(version) => {
                let version: u64 = version.parse().expect("the server's own version");
                let refusal = if version > world.history.newest() {
                    assert!(world.time() > 0, "a version that the server never gave: {version}");
                    Some(("list: version of a time that was lost", too_large()))
                } else if !world.hits() {
                    None
                } else if world.draw(2) == 0 {
                    Some(("list: 410", status(410, "Expired")))
                } else {
                    Some(("list: too large resource version", too_large()))
                };
                if let Some((fault, failure)) = refusal {
                    world.counts.note(fault);
                    world.lists_forced += 1;
                    return Err(failure);
                }
                version
            }
        };
        let versions = world.history.versions(oldest);
        let at = world.draw(u32::try_from(versions.len()).expect("small")) as usize;
        Ok(versions[at])
    }

    /// The version and the place where a page starts.
    fn read_token(&self, token: &str) -> Result<(u64, usize), Failure> {
        let (version, start) = token.split_once('/').expect("the server's own token");
        let version: u64 = version.parse().expect("a version");
        if self.hits() || self.world.lock().history.state_at(version).is_none() {
            self.note("list: 410 of a token");
            self.force_list();
            return Err(status(410, "Expired"));
        }
        Ok((version, start.parse().expect("a place")))
    }

    /// Sends chunks cut at random places, some after a pause.
    fn list_body(&self, text: &str, cut: bool) -> ByteStream {
        let (sender, receiver) = mpsc::unbounded_channel();
        let end =
            if cut { self.draw(u32::try_from(text.len()).expect("small")) as usize } else { text.len() };
        let mut chunks: Vec<(u64, Bytes)> = Vec::new();
        let mut at = 0;
        while at < end {
            let size = 1 + self.draw(400) as usize;
            let pause = if self.draw(10) == 0 { u64::from(self.draw(5)) } else { 0 };
            chunks.push((pause, Bytes::copy_from_slice(&text.as_bytes()[at..end.min(at + size)])));
            at += size;
        }
        if chunks.iter().any(|(pause, _)| *pause > 0) {
            self.note("list: slow body");
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

    fn watch_body(&self) -> (Wire, ByteStream) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Wire::new(self.clone(), sender), UnboundedReceiverStream::new(receiver).boxed())
    }
}

#[async_trait]
impl ListWatch for Server {
    async fn list(&self, params: &ListParams) -> Result<ByteStream, Failure> {
        let is_probe = params.limit == Some(1) && params.continue_token.is_none();
        if is_probe {
            self.world.lock().probes_started += 1;
        } else if params.continue_token.is_none() {
            self.world.lock().lists_started += 1;
        }
        self.refuse(if is_probe { Request::Probe } else { Request::List })?;
        let (version, start) = match &params.continue_token {
            Some(token) => self.read_token(token)?,
            None => (self.pick_version(params.resource_version.as_deref())?, 0),
        };
        let state = self.world.lock().history.state_at(version).expect("a version that is kept");
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
            self.note("list: cut");
            self.world.lock().probes_forced += 1;
            if !is_probe {
                self.force_list();
            }
        } else if is_probe && version < self.world.lock().told {
            // The answer shows the client that the server was restored.
            self.force_list();
        }
        Ok(self.list_body(&text, cut))
    }

    async fn watch(&self, params: &WatchParams) -> Result<ByteStream, Failure> {
        let (wire, body) = self.watch_body();
        if params.send_initial_events {
            self.world.lock().lists_started += 1;
            if !self.world.lock().streaming {
                self.note("streaming list: not supported");
                self.force_list();
                return Err(status(422, "Invalid"));
            }
            self.refuse(Request::StreamingList)?;
            let version = self.pick_version(params.resource_version.as_deref())?;
            tokio::spawn(self.clone().feed(version, self.initial_events(version), wire));
            return Ok(body);
        }
        self.refuse(Request::Watch)?;
        let version = params.resource_version.as_deref().expect("a watch has a version");
        let version: u64 = version.parse().expect("the server's own version");
        self.world.lock().told = version;
        let manner = {
            let world = self.world.lock();
            (version > world.history.newest()).then_some(world.manner)
        };
        match manner {
            None => drop(tokio::spawn(self.clone().feed(version, String::new(), wire))),
            Some(Manner::TooLarge) => {
                self.note("watch of a lost time: 504");
                self.force_list();
                return Err(too_large());
            }
            Some(manner) => drop(tokio::spawn(self.clone().feed_from_a_lost_time(manner, wire))),
        }
        Ok(body)
    }
}
