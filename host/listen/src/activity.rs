//! What the requests of a connection are doing, and when the connection is closed because of that.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::ResponseTimeouts;

/// How long a connection that is being closed may take to send what is left.
const CLOSE_GRACE: Duration = Duration::from_secs(5);

/// The requests of one connection.
pub(crate) struct Activity {
    idle_timeout: Duration,
    response: Option<ResponseTimeouts>,
    state: Mutex<State>,
}

struct State {
    /// The number of requests whose response has not been passed to the transport.
    open: usize,
    /// When the last request ended, or when the connection began.
    idle_since: Instant,
    /// When the first request must have arrived; `None` once it has.
    first_request: Option<Instant>,
    /// When the connection was told to close.
    closing_since: Option<Instant>,
    /// The responses that are being sent, if they have timeouts.
    responses: BTreeMap<u64, Deadlines>,
    last_response: u64,
}

/// When a response has taken too long.
#[derive(Clone, Copy, Default)]
struct Deadlines {
    /// For the next part; `None` while the client waits for the server.
    part: Option<Instant>,
    /// For the whole response; `None` for one without an end.
    whole: Option<Instant>,
}

/// What to do with a connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Nothing before this time.
    Keep { until: Instant },
    /// Complete what is in progress and accept no further requests.
    Close,
    /// End the connection, for this reason.
    Abort(&'static str),
}

impl Activity {
    /// Returns the activity of a connection whose first request must arrive before `first_request`.
    pub(crate) fn new(
        idle_timeout: Duration,
        response: Option<ResponseTimeouts>,
        first_request: Instant,
    ) -> Arc<Self> {
        let state = State {
            open: 0,
            idle_since: Instant::now(),
            first_request: Some(first_request),
            closing_since: None,
            responses: BTreeMap::new(),
            last_response: 0,
        };
        Arc::new(Self { idle_timeout, response, state: Mutex::new(state) })
    }

    /// Records that a request arrived.
    pub(crate) fn begin(self: &Arc<Self>) -> OpenRequest {
        let mut state = self.state();
        state.open += 1;
        state.first_request = None;
        OpenRequest { activity: Arc::clone(self), response: None }
    }

    /// Decides whether the connection stays open.
    pub(crate) fn next_action(&self, now: Instant) -> Action {
        let mut state = self.state();
        if let Some(first_request) = state.first_request {
            if first_request <= now {
                return Action::Abort("no request arrived in time");
            }
            return Action::Keep { until: first_request };
        }
        if state.open == 0 {
            let (since, closing_since) = (state.idle_since, state.closing_since);
            let end = match closing_since {
                Some(closing_since) => since.max(closing_since) + CLOSE_GRACE,
                None => since + self.idle_timeout,
            };
            return match closing_since {
                _ if now < end => Action::Keep { until: end },
                Some(_) => Action::Abort("the client did not take the end of a response in time"),
                None => {
                    state.closing_since = Some(now);
                    Action::Close
                }
            };
        }
        let deadlines = state.responses.values().flat_map(|deadlines| [deadlines.part, deadlines.whole]);
        let earliest = deadlines.flatten().min();
        if earliest.is_some_and(|deadline| deadline <= now) {
            return Action::Abort("the client did not take a response in time");
        }
        // What begins after now ends after the shortest timeout.
        let shortest = self
            .response
            .map_or(self.idle_timeout, |response| response.part.min(response.whole).min(self.idle_timeout));
        let next = now + shortest;
        Action::Keep { until: earliest.map_or(next, |earliest| earliest.min(next)) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that is being handled or answered. Dropping it ends it.
pub(crate) struct OpenRequest {
    activity: Arc<Activity>,
    /// The number of the response, once it is being sent and if it has timeouts.
    response: Option<u64>,
}

impl OpenRequest {
    /// Records that the response is ready to be sent.
    pub(crate) fn respond(&mut self, is_endless: bool) {
        let Some(timeouts) = self.activity.response else { return };
        let now = Instant::now();
        let mut state = self.activity.state();
        state.last_response += 1;
        let deadlines = Deadlines {
            part: Some(now + timeouts.part),
            whole: (!is_endless).then_some(now + timeouts.whole),
        };
        let number = state.last_response;
        state.responses.insert(number, deadlines);
        self.response = Some(number);
    }

    /// Records whether the client has yet to take the part of the body that was last passed to the transport.
    pub(crate) fn set_waits_for_client(&self, waits: bool) {
        let (Some(timeouts), Some(number)) = (self.activity.response, self.response) else { return };
        let part = waits.then(|| Instant::now() + timeouts.part);
        if let Some(deadlines) = self.activity.state().responses.get_mut(&number) {
            deadlines.part = part;
        }
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        let mut state = self.activity.state();
        if let Some(number) = self.response {
            state.responses.remove(&number);
        }
        state.open -= 1;
        if state.open == 0 {
            state.idle_since = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESPONSE: ResponseTimeouts =
        ResponseTimeouts { part: Duration::from_secs(30), whole: Duration::from_secs(120) };

    fn activity(response: Option<ResponseTimeouts>) -> Arc<Activity> {
        Activity::new(Duration::from_secs(60), response, Instant::now() + Duration::from_secs(10))
    }

    /// Lets time pass, and returns whether the connection stays open.
    async fn stays_open(activity: &Activity, seconds: u64) -> bool {
        tokio::time::advance(Duration::from_secs(seconds)).await;
        matches!(activity.next_action(Instant::now()), Action::Keep { .. })
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_without_a_request_is_aborted() {
        let activity = activity(None);
        assert!(stays_open(&activity, 9).await);
        assert!(!stays_open(&activity, 1).await);
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_is_closed_and_aborted_if_that_takes_long() {
        let activity = activity(None);
        let request = activity.begin();
        assert!(stays_open(&activity, 3600).await, "a request is in progress");
        drop(request);
        assert!(stays_open(&activity, 59).await);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(activity.next_action(Instant::now()), Action::Close);
        // A request that arrived meanwhile.
        let request = activity.begin();
        assert!(stays_open(&activity, 59).await);
        drop(request);
        assert!(stays_open(&activity, 4).await);
        assert!(!stays_open(&activity, 1).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_response_must_end_in_time_even_if_each_part_is_taken() {
        for (is_endless, is_open) in [(false, false), (true, true)] {
            let activity = activity(Some(RESPONSE));
            let mut request = activity.begin();
            request.respond(is_endless);
            for _ in 0..4 {
                assert!(stays_open(&activity, 29).await);
                request.set_waits_for_client(false);
                request.set_waits_for_client(true);
            }
            assert_eq!(stays_open(&activity, 4).await, is_open);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn each_part_must_be_taken_in_time() {
        let activity = activity(Some(RESPONSE));
        let mut request = activity.begin();
        request.respond(true);
        request.set_waits_for_client(false);
        assert!(stays_open(&activity, 3600).await, "the client waits for the server");
        request.set_waits_for_client(true);
        assert!(stays_open(&activity, 29).await);
        assert!(!stays_open(&activity, 1).await);
    }

    #[tokio::test(start_paused = true)]
    async fn the_next_check_is_never_later_than_a_deadline_that_begins_meanwhile() {
        let activity = activity(Some(RESPONSE));
        let mut request = activity.begin();
        let Action::Keep { until } = activity.next_action(Instant::now()) else { panic!("open") };
        tokio::time::advance(Duration::from_secs(1)).await;
        request.respond(false);
        assert!(until <= Instant::now() + RESPONSE.part);
    }
}
