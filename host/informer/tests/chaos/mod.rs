//! An API server that keeps the guarantees of the Kubernetes API and breaks everything else: it cuts connections, delays and
//! repeats data, and loses its state when it is restored from a backup or starts empty.
//!
//! Its behaviour follows from its seed. It counts the lists that its faults force, so that a test can distinguish a reflector that
//! recovers from one that hides its faults by listing again.

mod body_writer;
mod faults;
mod state;
mod watch_body;

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
pub(crate) use state::{ServerObject, State};

use body_writer::BodyWriter;
use state::{LostHistoryReply, ServerState};

/// A handle to the server. Cloning makes another handle.
#[derive(Clone)]
pub(crate) struct Server {
    state: Arc<Mutex<ServerState>>,
    /// Notifies the watches of every change and every restart.
    newest: watch::Sender<()>,
}

/// The numbers of requests that the client sent, and of those that the server's faults forced.
#[derive(Debug)]
pub(crate) struct Requests {
    pub(crate) lists: u64,
    pub(crate) forced_lists: u64,
    pub(crate) probes: u64,
    pub(crate) forced_probes: u64,
}

/// The kind of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Request {
    List,
    StreamingList,
    Watch,
    /// A list of one item, after a watch that sent nothing or a connection that was lost.
    Probe,
}

fn json(name: &str, object: &ServerObject, with_type: bool) -> String {
    let ServerObject { uid, version, app } = object;
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
        Self { state: Arc::new(Mutex::new(ServerState::new(seed))), newest: watch::Sender::new(()) }
    }

    /// Makes some random changes, and sometimes a compaction, a backup or a restart.
    pub(crate) fn advance(&self) {
        self.state.lock().advance();
        self.newest.send_replace(());
    }

    pub(crate) fn stop_faults(&self) {
        let mut server = self.state.lock();
        server.faults = 0;
        server.down_until = None;
    }

    pub(crate) fn objects(&self) -> State {
        self.state.lock().objects.clone()
    }

    /// Returns the states that the server ever had at a version: none if it is compacted, several if histories were lost.
    pub(crate) fn states_at(&self, version: u64) -> Vec<State> {
        self.state.lock().states_at(version)
    }

    pub(crate) fn requests(&self) -> Requests {
        let server = self.state.lock();
        Requests {
            lists: server.lists_started,
            forced_lists: server.forced_lists,
            probes: server.probes_started,
            forced_probes: server.forced_probes,
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        self.state.lock().counts.clone()
    }

    /// Counts the next list as forced by the server.
    fn force_list(&self) {
        self.state.lock().forced_lists += 1;
    }

    fn count(&self, fault: &'static str) {
        self.state.lock().counts.count(fault);
    }

    fn draws_fault(&self) -> bool {
        self.state.lock().draws_fault()
    }

    fn random_below(&self, below: u32) -> u32 {
        self.state.lock().random_below(below)
    }

    /// Refuses a request during an outage or, at random, with an error.
    fn maybe_refuse(&self, request: Request) -> Result<(), Failure> {
        let mut server = self.state.lock();
        let (fault, failure) = if server.is_down() {
            ("request: connection refused", Failure::new(FailureKind::ConnectionRefused, "down"))
        } else if server.draws_fault() {
            match server.random_below(5) {
                0 => ("request: 429", Failure::response(429, Some("2"), b"")),
                1 => ("request: connection reset", Failure::new(FailureKind::Connection, "reset")),
                2 => ("request: 500", status(500, "InternalError")),
                3 => ("request: 503", status(503, "ServiceUnavailable")),
                _ => ("request: connection refused", Failure::new(FailureKind::ConnectionRefused, "refused")),
            }
        } else {
            return Ok(());
        };
        server.counts.count(fault);
        // Once its watch is idle, the client probes whether the server was restored; a failed probe is repeated.
        server.forced_probes +=
            u64::from(failure.kind != FailureKind::TooManyRequests || request == Request::Probe);
        match request {
            Request::List | Request::StreamingList => server.forced_lists += 1,
            Request::Watch if failure.kind == FailureKind::Server => server.record_watch_error(),
            // A failed watch does not force a list, and neither does a failed probe.
            Request::Watch | Request::Probe => {}
        }
        Err(failure)
    }

    /// Picks the version that a list shows: one not older than requested, or any that is not compacted for version 0. A refusal
    /// forces another list.
    fn pick_version(&self, requested: Option<&str>) -> Result<u64, Failure> {
        let mut server = self.state.lock();
        let oldest = match requested {
            None => return Ok(server.history.newest()),
            Some("0") => server.history.compacted,
            Some(version) => {
                let version: u64 = version.parse().expect("the server's own version");
                let refusal = if version > server.history.newest() {
                    assert!(server.epoch() > 0, "a version that the server never gave: {version}");
                    Some(("list: version of a lost history", too_large()))
                } else if !server.draws_fault() {
                    None
                } else if server.random_below(2) == 0 {
                    Some(("list: 410", status(410, "Expired")))
                } else {
                    Some(("list: too large resource version", too_large()))
                };
                if let Some((fault, failure)) = refusal {
                    server.counts.count(fault);
                    server.forced_lists += 1;
                    return Err(failure);
                }
                version
            }
        };
        let versions = server.history.versions(oldest);
        let at = server.random_below(u32::try_from(versions.len()).expect("small")) as usize;
        Ok(versions[at])
    }

    /// Returns the version and the first item of a page.
    fn read_token(&self, token: &str) -> Result<(u64, usize), Failure> {
        let (version, start) = token.split_once('/').expect("the server's own token");
        let version: u64 = version.parse().expect("a version");
        if self.draws_fault() || self.state.lock().history.state_at(version).is_none() {
            self.count("list: 410 of a token");
            self.force_list();
            return Err(status(410, "Expired"));
        }
        Ok((version, start.parse().expect("a position")))
    }

    /// Sends chunks that are split at random positions, some after a pause.
    fn list_body(&self, text: &str, cut: bool) -> ByteStream {
        let (sender, receiver) = mpsc::unbounded_channel();
        let end = if cut {
            self.random_below(u32::try_from(text.len()).expect("small")) as usize
        } else {
            text.len()
        };
        let mut chunks: Vec<(u64, Bytes)> = Vec::new();
        let mut at = 0;
        while at < end {
            let size = 1 + self.random_below(400) as usize;
            let pause = if self.random_below(10) == 0 { u64::from(self.random_below(5)) } else { 0 };
            chunks.push((pause, Bytes::copy_from_slice(&text.as_bytes()[at..end.min(at + size)])));
            at += size;
        }
        if chunks.iter().any(|(pause, _)| *pause > 0) {
            self.count("list: slow body");
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

    fn watch_body(&self) -> (BodyWriter, ByteStream) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (BodyWriter::new(self.clone(), sender), UnboundedReceiverStream::new(receiver).boxed())
    }
}

#[async_trait]
impl ListWatch for Server {
    async fn list(&self, params: &ListParams) -> Result<ByteStream, Failure> {
        let is_probe = params.limit == Some(1) && params.continue_token.is_none();
        if is_probe {
            self.state.lock().probes_started += 1;
        } else if params.continue_token.is_none() {
            self.state.lock().lists_started += 1;
        }
        self.maybe_refuse(if is_probe { Request::Probe } else { Request::List })?;
        let (version, start) = match &params.continue_token {
            Some(token) => self.read_token(token)?,
            None => (self.pick_version(params.resource_version.as_deref())?, 0),
        };
        let state = self.state.lock().history.state_at(version).expect("a version that is not compacted");
        let limit = params.limit.map_or(usize::MAX, |limit| limit as usize);
        let items: Vec<_> =
            state.iter().skip(start).take(limit).map(|(name, object)| json(name, object, false)).collect();
        let next = start + items.len();
        let token = if next < state.len() { format!("{version}/{next}") } else { String::new() };
        let text = format!(
            r#"{{"kind":"PodList","metadata":{{"resourceVersion":"{version}","continue":"{token}"}},"items":[{}]}}"#,
            items.join(",")
        );
        let cut = self.draws_fault();
        if cut {
            self.count("list: cut");
            self.state.lock().forced_probes += 1;
            if !is_probe {
                self.force_list();
            }
        } else if is_probe && version < self.state.lock().last_sent {
            // The answer shows the client that the server was restored.
            self.force_list();
        }
        Ok(self.list_body(&text, cut))
    }

    async fn watch(&self, params: &WatchParams) -> Result<ByteStream, Failure> {
        let (writer, body) = self.watch_body();
        if params.send_initial_events {
            self.state.lock().lists_started += 1;
            if !self.state.lock().streaming {
                self.count("streaming list: not supported");
                self.force_list();
                return Err(status(422, "Invalid"));
            }
            self.maybe_refuse(Request::StreamingList)?;
            let version = self.pick_version(params.resource_version.as_deref())?;
            tokio::spawn(self.clone().serve_watch(version, self.initial_events(version), writer));
            return Ok(body);
        }
        self.maybe_refuse(Request::Watch)?;
        let version = params.resource_version.as_deref().expect("a watch has a version");
        let version: u64 = version.parse().expect("the server's own version");
        self.state.lock().last_sent = version;
        let lost_history_reply = {
            let server = self.state.lock();
            (version > server.history.newest()).then_some(server.lost_history_reply)
        };
        match lost_history_reply {
            None => drop(tokio::spawn(self.clone().serve_watch(version, String::new(), writer))),
            Some(LostHistoryReply::TooLarge) => {
                self.count("watch of a lost history: 504");
                self.force_list();
                return Err(too_large());
            }
            Some(reply) => drop(tokio::spawn(self.clone().serve_watch_of_lost_history(reply, writer))),
        }
        Ok(body)
    }
}
