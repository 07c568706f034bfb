//! The reflector's decisions, without I/O: an input goes in, deltas and the next action come out.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_model::{Deletion, Delta, Object, Replacement};
use tokio::time::Instant;

use super::backoff::Backoff;
use super::phase::{AfterWait, InitialEvents, PartialList, Phase, WatchState};
use super::streaming::Streaming;
use super::version_order::{VersionOrder, VersionStep};
use crate::decode::{ListPage, WatchEvent};
use crate::failure::{Failure, FailureKind, RequestName};
use crate::list_watch::{ListParams, WatchParams};
use crate::options::InformerOptions;

/// A watch that ends sooner and without progress counts as a failure ("very short watch", as in client-go).
const VERY_SHORT_WATCH: Duration = Duration::from_secs(1);
/// How many times a watch is resumed after an internal server error without progress, before a relist.
const INTERNAL_ERROR_RESUMES: u32 = 3;

/// Something that happened: an input of the [`StateMachine`].
#[derive(Debug)]
pub(crate) enum Input {
    Start,
    /// The wait is over.
    Elapsed,
    /// A complete page of a list was read.
    Page {
        page: ListPage,
        items: Vec<Object>,
    },
    /// The response head of a watch arrived.
    Opened,
    Event(WatchEvent),
    /// The watch ended, by the server's timeout or by a cut connection. Both are handled alike, since only complete events
    /// were used.
    Ended,
    /// The request failed, or its body could not be decoded.
    Failed(Failure),
    /// The first watch after a lost connection has sent nothing for the verification timeout.
    VerificationDue,
}

/// What the driver does next. Every action except `Read` drops the current request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Continue to read the watch.
    Read,
    List(ListParams),
    Watch(WatchParams),
    Wait(Duration),
}

/// The state that the driver publishes in the informer's status.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReportedState {
    pub(crate) last_version: Option<String>,
    pub(crate) error: Option<Arc<Failure>>,
    pub(crate) failures: u64,
}

/// The reflector's state machine; see the table in the [module documentation](super).
#[derive(Debug)]
pub(crate) struct StateMachine {
    pub(super) phase: Phase,
    page_size: u32,
    pub(super) max_list_items: usize,
    pub(super) streaming: Streaming,
    /// The server answered that the version is too old or too new, or its versions went back. Only a consistent read helps
    /// then.
    pub(super) version_unavailable: bool,
    pub(super) order: VersionOrder,
    /// The idle time after which the server is verified. Set when a connection was lost, refused or reset, since the server may
    /// have been restored from a backup meanwhile; cleared when an event or a list shows the server's state.
    pub(super) verification_idle_timeout: Option<Duration>,
    /// Consecutive internal errors without progress.
    internal_errors: u32,
    pub(super) backoff: Backoff,
    pub(super) reported: ReportedState,
    watch_name: Arc<RequestName>,
}

impl StateMachine {
    pub(crate) fn new(options: &InformerOptions, seed: u64, watch_name: Arc<RequestName>) -> Self {
        Self {
            phase: Phase::Idle,
            page_size: options.page_size,
            max_list_items: options.max_list_items,
            streaming: Streaming::new(options.streaming_list),
            version_unavailable: false,
            order: VersionOrder::default(),
            verification_idle_timeout: None,
            internal_errors: 0,
            backoff: Backoff::new(seed),
            reported: ReportedState::default(),
            watch_name,
        }
    }

    pub(crate) fn reported(&self) -> &ReportedState {
        &self.reported
    }

    /// Whether the current watch still sends the initial events of a streaming list.
    pub(crate) fn is_streaming(&self) -> bool {
        matches!(self.phase, Phase::Streaming(_))
    }

    /// Continues from a previous state machine that had seen this version and counted these failures.
    pub(crate) fn resume_after(&mut self, version: Option<String>, failures: u64) {
        self.reported.last_version = version;
        self.reported.failures = failures;
    }

    /// Makes one transition; see the table in the [module documentation](super). Appends deltas in order.
    pub(crate) fn step(&mut self, input: Input, now: Instant, deltas: &mut Vec<Delta>) -> Action {
        let phase = std::mem::replace(&mut self.phase, Phase::Idle);
        if let Input::Failed(failure) = &input {
            self.record_failure(failure.clone());
        }
        match (phase, input) {
            (Phase::Idle, _) => self.start_list(now),
            (Phase::Waiting(next), _) => self.after_wait(next, now),
            (Phase::Listing(listing), Input::Page { page, items }) => {
                self.on_page(listing, page, items, now, deltas)
            }
            (Phase::Listing(listing), Input::Failed(failure)) => self.list_failed(listing, &failure, now),
            (Phase::Listing(listing), _) => {
                let params = listing.params.clone();
                self.phase = Phase::Listing(listing);
                Action::List(params)
            }
            (Phase::Streaming(initial_events), Input::Event(event)) => {
                self.initial_event(initial_events, event, now, deltas)
            }
            (Phase::Streaming(_), Input::Failed(failure)) => self.streaming_failed(&failure, now),
            (Phase::Streaming(_), Input::Ended) => self.streaming_ended(now),
            (Phase::Streaming(initial_events), _) => {
                self.phase = Phase::Streaming(initial_events);
                Action::Read
            }
            (Phase::Watching(watching), Input::Event(event)) => {
                self.on_watch_event(watching, event, now, deltas)
            }
            (Phase::Watching(watching), Input::Ended) => self.watch_ended(&watching, now),
            (Phase::Watching(watching), Input::Failed(failure)) => {
                self.watch_failed(&watching, &failure, now)
            }
            (Phase::Watching(_), Input::VerificationDue) => self.start_verification(),
            (Phase::Watching(watching), _) => {
                // The watch was opened.
                self.reported.error = None;
                self.phase = Phase::Watching(WatchState { opened_at: Some(now), ..watching });
                Action::Read
            }
            (Phase::Verifying, Input::Page { page, .. }) => {
                self.on_verification_page(&page.resource_version, now)
            }
            (Phase::Verifying, Input::Failed(failure)) => self.verification_failed(&failure, now),
            (Phase::Verifying, _) => self.verify(),
        }
    }

    /// Returns the version that the next list requests: `0` (any version) for the first list, then the last version seen. `None`, a
    /// consistent read, only after that was refused. client-go's `relistResourceVersion` makes the same choice.
    fn list_version(&self) -> Option<String> {
        if self.version_unavailable {
            return None;
        }
        Some(self.reported.last_version.clone().unwrap_or_else(|| "0".to_owned()))
    }

    pub(super) fn start_list(&mut self, now: Instant) -> Action {
        if !self.streaming.is_due(now) {
            return self.plain_list();
        }
        self.phase = Phase::Streaming(InitialEvents::default());
        Action::Watch(WatchParams {
            resource_version: self.list_version(),
            timeout_seconds: self.backoff.watch_timeout(),
            send_initial_events: true,
        })
    }

    pub(super) fn plain_list(&mut self) -> Action {
        let resource_version = self.list_version();
        let limit = resource_version.is_none().then_some(self.page_size);
        self.list(ListParams { resource_version, limit, continue_token: None })
    }

    fn list(&mut self, params: ListParams) -> Action {
        self.phase = Phase::Listing(PartialList::new(params.clone()));
        Action::List(params)
    }

    fn after_wait(&mut self, next: AfterWait, now: Instant) -> Action {
        match next {
            AfterWait::List => self.start_list(now),
            AfterWait::Watch => self.resume(),
            AfterWait::Page(listing) => {
                let params = listing.params.clone();
                self.phase = Phase::Listing(listing);
                Action::List(params)
            }
        }
    }

    fn on_page(
        &mut self,
        mut listing: PartialList,
        page: ListPage,
        items: Vec<Object>,
        now: Instant,
        deltas: &mut Vec<Delta>,
    ) -> Action {
        if let Err(problem) = listing.check_page(&page, items.len(), self.max_list_items) {
            let request = Arc::new(RequestName { verb: "list", ..(*self.watch_name).clone() });
            let failure = Failure::new(FailureKind::Malformed, problem).in_request(&request);
            tracing::warn!("{failure}");
            self.record_failure(failure);
            return self.back_off(AfterWait::List, now);
        }
        if listing.items.is_empty() {
            listing.items = items;
        } else {
            listing.items.extend(items);
        }
        let version = listing.version.get_or_insert(page.resource_version).clone();
        if let Some(token) = page.next {
            // The continue token carries the version. The limit is repeated if the first page had one.
            let limit = listing.params.limit;
            listing.params = ListParams { resource_version: None, limit, continue_token: Some(token) };
            let params = listing.params.clone();
            self.phase = Phase::Listing(listing);
            return Action::List(params);
        }
        self.replace(listing.items, version, deltas);
        self.resume()
    }

    pub(super) fn replace(&mut self, items: Vec<Object>, version: String, deltas: &mut Vec<Delta>) {
        self.order.resolve(&version);
        self.internal_errors = 0;
        self.verification_idle_timeout = None;
        self.version_unavailable = false;
        self.reported.error = None;
        self.reported.last_version = Some(version.clone());
        deltas.push(Delta::Replaced(Replacement { items, resource_version: version }));
    }

    fn list_failed(&mut self, listing: PartialList, failure: &Failure, now: Instant) -> Action {
        match failure.kind {
            FailureKind::Expired if listing.params.continue_token.is_some() => {
                // The continue token has expired: fall back to one unpaged list.
                self.list(ListParams::default())
            }
            FailureKind::Expired | FailureKind::TooLargeResourceVersion if !self.version_unavailable => {
                self.version_unavailable = true;
                self.start_list(now)
            }
            FailureKind::TooManyRequests => self.wait_retry_after(AfterWait::Page(listing), failure, now),
            _ => self.back_off(AfterWait::List, now),
        }
    }

    pub(super) fn resume(&mut self) -> Action {
        self.phase = Phase::Watching(WatchState { opened_at: None, progressed: false, received_any: false });
        Action::Watch(WatchParams {
            resource_version: self.reported.last_version.clone(),
            timeout_seconds: self.backoff.watch_timeout(),
            send_initial_events: false,
        })
    }

    fn on_watch_event(
        &mut self,
        mut watching: WatchState,
        event: WatchEvent,
        now: Instant,
        deltas: &mut Vec<Delta>,
    ) -> Action {
        let version = match &event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object) => {
                object.resource_version()
            }
            WatchEvent::Bookmark { resource_version, .. } => resource_version,
            WatchEvent::Error(failure) => {
                self.record_failure(failure.clone());
                return self.watch_refused(failure, now);
            }
        };
        match self.order.classify(self.reported.last_version.as_deref(), version) {
            VersionStep::Backward => {
                self.suspect_restore(version);
                return self.back_off(AfterWait::List, now);
            }
            VersionStep::Repeat => {}
            VersionStep::Forward => {
                watching.progressed = true;
                self.internal_errors = 0;
                let last = self.reported.last_version.get_or_insert_default();
                last.clear();
                last.push_str(version);
            }
        }
        watching.received_any = true;
        self.verification_idle_timeout = None;
        deltas.extend(match event {
            WatchEvent::Added(object) => Some(Delta::Added(object)),
            WatchEvent::Modified(object) => Some(Delta::Updated(object)),
            WatchEvent::Deleted(object) => Some(Delta::Deleted(Deletion::observed(object))),
            WatchEvent::Bookmark { .. } | WatchEvent::Error(_) => None,
        });
        self.phase = Phase::Watching(watching);
        Action::Read
    }

    fn watch_ended(&mut self, watching: &WatchState, now: Instant) -> Action {
        let lasted = watching.opened_at.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        if watching.progressed || lasted >= VERY_SHORT_WATCH {
            self.resume()
        } else {
            self.back_off(AfterWait::Watch, now)
        }
    }

    fn watch_failed(&mut self, watching: &WatchState, failure: &Failure, now: Instant) -> Action {
        match failure.kind {
            // The connection is dead, or the server waits until it reaches the requested version.
            FailureKind::TimedOut if watching.opened_at.is_some() && !watching.received_any => self.verify(),
            // Treated like a watch that the server ended. A watch that was never opened counts as very short.
            FailureKind::Connection | FailureKind::TimedOut => self.watch_ended(watching, now),
            _ => self.watch_refused(failure, now),
        }
    }

    /// Decides how to continue after a failed watch: an error status, an ERROR event, or a refused connection.
    fn watch_refused(&mut self, failure: &Failure, now: Instant) -> Action {
        match failure.kind {
            FailureKind::TooManyRequests => self.wait_retry_after(AfterWait::Watch, failure, now),
            FailureKind::ConnectionRefused => self.back_off(AfterWait::Watch, now),
            FailureKind::Server if self.internal_errors < INTERNAL_ERROR_RESUMES => {
                self.internal_errors += 1;
                self.back_off(AfterWait::Watch, now)
            }
            // 410 (Expired), and failures that a resumed watch would meet again.
            _ => {
                self.internal_errors = 0;
                self.back_off(AfterWait::List, now)
            }
        }
    }

    /// Handles a version lower than the last: the server may have been restored from a backup; see [`VersionOrder`].
    pub(super) fn suspect_restore(&mut self, version: &str) {
        let last = self.reported.last_version.as_deref();
        self.order.suspect(last);
        self.version_unavailable = true;
        let message = format!(
            "the server went back from resource version {} to {version}, as after a restore from a backup",
            last.unwrap_or_default()
        );
        let failure =
            Failure::new(FailureKind::TooLargeResourceVersion, message).in_request(&self.watch_name);
        tracing::warn!("{failure}");
        self.record_failure(failure);
    }

    pub(super) fn back_off(&mut self, next: AfterWait, now: Instant) -> Action {
        self.phase = Phase::Waiting(next);
        Action::Wait(self.backoff.next(now))
    }

    pub(super) fn wait_retry_after(&mut self, next: AfterWait, failure: &Failure, now: Instant) -> Action {
        match failure.retry_after.and_then(Backoff::bounded_retry_after) {
            Some(wait) => {
                self.phase = Phase::Waiting(next);
                Action::Wait(wait)
            }
            None => self.back_off(next, now),
        }
    }

    pub(super) fn record_failure(&mut self, failure: Failure) {
        self.schedule_verification(&failure);
        self.reported.failures += 1;
        self.reported.error = Some(Arc::new(failure));
    }
}
