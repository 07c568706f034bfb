//! Sends a plugin's writes, and makes sure that the outcome of each is known before its key is reconciled
//! again.
//!
//! A request cannot be recalled once it was sent, but its guest may be cut off and its version swapped out.
//! So each write has a task of its own, which continues without them and holds the key meanwhile. If the
//! response does not show the resulting object, a live get decides what the plugin's reads show. Nothing can
//! be found out about a creation with `generateName` whose response was lost, because the name was in the
//! response.

use std::time::Duration;

use bytes::Bytes;
use http::Method;
use pilothouse_model::{ObjectKey, ResourceType};
use pilothouse_plugin::{ApiError, HostMemoryCharge, HostMemoryKind, LogLevel};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use crate::client::fence::Fence;
use crate::client::in_flight::Flight;
use crate::client::{Discovery, Payload, Server, Written, created, deleted, object, written};
use crate::guest_host::GuestServices;
use crate::runtime::queue::Item;

/// How long a response is awaited: API servers give up a request after 60 s.
const ANSWER: Duration = Duration::from_secs(65);
/// The delay between a request without a response and the first live get: the server may still be working on
/// it.
const SETTLE: Duration = Duration::from_secs(1);
/// The maximum delay between two live gets.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// Sends the writes of one version of one plugin.
pub(crate) struct Writer {
    server: Server,
    discovery: Discovery,
    fence: Fence,
    guest: GuestServices,
}

/// One write.
pub(crate) struct Write {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) payload: Payload,
    pub(crate) resource: ResourceType,
    /// The object; without a name if the server generates one.
    pub(crate) key: ObjectKey,
    /// Whether the write is to a subresource.
    pub(crate) subresource: bool,
}

impl Writer {
    pub(crate) fn new(server: Server, discovery: Discovery, fence: Fence, guest: GuestServices) -> Self {
        Self { server, discovery, fence, guest }
    }

    /// Sends a write on behalf of `item`. Returns its outcome once the plugin's own reads show it.
    ///
    /// # Cancellation safety
    /// A request that was sent continues and holds the key. A request that was not sent yet is not sent.
    pub(crate) async fn send(&self, item: Option<&Item>, write: Write) -> Result<Written, ApiError> {
        let flight = item.map(|item| self.guest.queue.in_flight().begin(item));
        let (answer, answered) = oneshot::channel();
        let task = Task {
            server: self.server.clone(),
            discovery: self.discovery.clone(),
            fence: self.fence.clone(),
            guest: self.guest.clone(),
            item: item.cloned(),
            _charge: self.guest.host_memory.charge(HostMemoryKind::OwnWrites, write.payload.body.len()),
            write,
            _flight: flight,
        };
        tokio::spawn(task.run(answer));
        let stopping = |_| Err(ApiError::Unavailable("the process is stopping".to_owned()));
        answered.await.unwrap_or_else(stopping)
    }
}

type Answer = oneshot::Sender<Result<Written, ApiError>>;

struct Task {
    server: Server,
    discovery: Discovery,
    fence: Fence,
    guest: GuestServices,
    item: Option<Item>,
    write: Write,
    /// Holds the key until the task has ended.
    _flight: Option<Flight>,
    /// Charges the payload, which outlives the guest's call.
    _charge: HostMemoryCharge,
}

/// The outcome of a request.
enum Outcome {
    Answered(Result<Written, ApiError>),
    /// The write was carried out, but the response is of another kind than the object, as for the `scale`
    /// subresource.
    Elsewhere(Written),
    /// It is not known whether the write was carried out, or what the resulting object is.
    Unknown(ApiError),
}

/// The result of a live get.
enum Found {
    State(Written),
    /// It cannot be found out: the right is missing, or no running version needs to know.
    Nothing,
    NotYet(String),
}

impl Task {
    async fn run(self, answer: Answer) {
        // Checked last before sending: neither a version that was swapped out nor a guest that was cut off
        // sends anything more.
        if answer.is_closed() {
            return;
        }
        let Some(sending) = self.fence.enter() else {
            let replaced = ApiError::Unavailable("this version of the plugin has been replaced".to_owned());
            // The receiver may be gone, here and below.
            let _ = answer.send(Err(replaced));
            return;
        };
        // Taken before the write is sent: a response without a UID is about this object, or about one that is
        // unknown here.
        let uid = self.guest.writes.uid(&self.write.resource, &self.write.key);
        match self.request(&uid).await {
            Outcome::Answered(Ok(answer_of_none @ Written::Answer(..))) => {
                let _ = answer.send(Ok(answer_of_none));
            }
            Outcome::Answered(Ok(written)) => {
                self.record(&written, &uid).await;
                drop(sending);
                let _ = answer.send(Ok(written));
            }
            Outcome::Answered(Err(error)) => drop(answer.send(Err(error))),
            Outcome::Elsewhere(written) => {
                drop(sending);
                let found = self.look(&uid).await;
                self.settle(found, &uid, || drop(answer.send(Ok(written)))).await;
            }
            Outcome::Unknown(error) => {
                drop(sending);
                self.guest.metrics.unknown_writes.inc();
                self.say(&error);
                let _ = answer.send(Err(error));
                sleep(SETTLE).await;
                let found = self.look(&uid).await;
                self.settle(found, &uid, || {}).await;
            }
        }
    }

    async fn request(&self, uid: &str) -> Outcome {
        let Write { method, path, payload, resource, key, .. } = &self.write;
        let request = self.server.request(method.clone(), path, Some(payload.clone()));
        match timeout(ANSWER, request).await {
            Ok(Ok(body)) => self.read(&body, uid),
            Ok(Err(error)) if error.leaves_outcome_open() => Outcome::Unknown(error.into_api_error()),
            Ok(Err(error)) => {
                if error.is_of_no_resource() {
                    self.discovery.forget(&resource.group, &resource.version);
                }
                Outcome::Answered(Err(error.into_api_error()))
            }
            Err(_) => Outcome::Unknown(ApiError::Unavailable(format!(
                "no answer about {resource} {key} in {} s",
                ANSWER.as_secs()
            ))),
        }
    }

    fn read(&self, body: &Bytes, uid: &str) -> Outcome {
        let Write { method, resource, key, subresource, .. } = &self.write;
        if *method == Method::POST {
            return match created(body, resource.clone(), *subresource) {
                Ok(written) => Outcome::Answered(Ok(written)),
                Err(error) => Outcome::Unknown(error),
            };
        }
        if *method == Method::DELETE {
            return Outcome::Answered(Ok(match deleted(body, resource.clone(), key) {
                Written::Deleted(resource, key, told) if told.is_empty() => {
                    Written::Deleted(resource, key, uid.to_owned())
                }
                written => written,
            }));
        }
        match written(body, resource.clone()) {
            Ok(Written::Object(_, object)) if object.kind() != resource.kind => {
                Outcome::Elsewhere(Written::Object(resource.clone(), object))
            }
            Ok(written) => Outcome::Answered(Ok(written)),
            Err(error) => Outcome::Unknown(error),
        }
    }

    /// Retries the live get until the outcome is known. Calls `then` after the first result, which is in
    /// `found`.
    async fn settle(&self, mut found: Found, uid: &str, then: impl FnOnce()) {
        if let Found::State(state) = &found {
            self.record(state, uid).await;
        }
        then();
        let mut wait = SETTLE;
        while let Found::NotYet(problem) = found {
            let (plugin, Write { resource, key, .. }) = (&self.guest.name, &self.write);
            tracing::debug!(%plugin, %resource, %key, "not known yet what became of a write: {problem}");
            sleep(wait).await;
            wait = (wait * 2).min(LOOK_AGAIN);
            found = self.look(uid).await;
            if let Found::State(state) = &found {
                self.record(state, uid).await;
            }
        }
    }

    async fn look(&self, uid: &str) -> Found {
        let Write { resource, key, .. } = &self.write;
        let writes = &self.guest.writes;
        if key.name().is_empty() || writes.views().is_none() || !writes.covers(resource, key) {
            return Found::Nothing;
        }
        match timeout(ANSWER, self.server.get(&resource.object_path(key))).await {
            Ok(Ok(Some(body))) => match object(&body, resource) {
                Ok(object) => Found::State(Written::Object(resource.clone(), object)),
                Err(error) => Found::NotYet(error.to_string()),
            },
            Ok(Ok(None)) => Found::State(Written::Deleted(resource.clone(), key.clone(), uid.to_owned())),
            Ok(Err(error)) if error.is_passing() => Found::NotYet(error.to_string()),
            Ok(Err(error)) => {
                self.guest.log.host(
                    LogLevel::Warn,
                    format_args!("cannot look what became of a write to {resource}: {error}"),
                    &[("key", key)],
                );
                Found::Nothing
            }
            Err(_) => Found::NotYet(format!("no answer in {} s", ANSWER.as_secs())),
        }
    }

    /// Records the new state for the plugin's reads.
    async fn record(&self, written: &Written, uid: &str) {
        self.guest.hot_loops.wrote(self.item.as_ref(), written);
        match self.guest.writes.views() {
            Some(views) => views.record(written, uid).await,
            None => self.guest.writes.record(written, uid),
        }
    }

    fn say(&self, error: &ApiError) {
        let Write { method, resource, key, .. } = &self.write;
        let follows = if key.name().is_empty() {
            "the server was to name it, so nothing can be looked up"
        } else {
            "a live get decides before the key is reconciled again"
        };
        let reconciling = self.item.as_ref().map(|item| item.key.to_string()).unwrap_or_default();
        self.guest.log.host(
            LogLevel::Warn,
            format_args!(
                "it is not known whether a {method} of {resource} was carried out: {error}; {follows}"
            ),
            &[("key", key), ("reconciling", &reconciling)],
        );
    }
}

#[cfg(test)]
mod tests;
