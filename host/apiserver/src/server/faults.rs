//! Fault injection: failing, delaying or distorting requests on purpose.

use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::request::{ObjectPath, Verb};
use crate::status::Status;

/// The faults that tests injected. Each one fails or delays the next requests that match it.
#[derive(Debug, Default)]
pub struct Faults {
    active: Mutex<Vec<Fault>>,
}

/// Selects the requests that a fault applies to. A field that is `None` matches every request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matcher {
    /// The verb.
    pub verb: Option<Verb>,
    /// The plural name, such as `pods`.
    pub plural: Option<String>,
    /// The API group, empty for core.
    pub group: Option<String>,
    /// The namespace.
    pub namespace: Option<String>,
    /// The object's name.
    pub name: Option<String>,
}

#[derive(Debug)]
struct Fault {
    matcher: Matcher,
    /// The number of requests that the fault still applies to; `None` for no limit.
    remaining: Option<u32>,
    effect: Effect,
}

#[derive(Clone, Debug)]
enum Effect {
    Fail(Status),
    FailAfterwards(Status),
    Delay(Duration),
    /// The request is never answered. If the flag is set, it is executed.
    Hang(bool),
    /// A list shows the state at this revision.
    ListAt(u64),
}

/// How a fault changes the execution of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AfterFault {
    /// Execute the request and answer with this status.
    Respond(Status),
    /// Execute the request and never answer.
    Hang,
    /// Answer a list with the state at this revision.
    ListAt(u64),
}

/// The most faults that are active at the same time.
const MAX_ACTIVE: usize = 1000;

/// Waits until the server ends, instead of answering a request.
pub(super) async fn hang(shutdown: &CancellationToken) -> Status {
    shutdown.cancelled().await;
    Status::with_code(503, "injected fault: the server ended before the request was answered", 0)
}

impl Matcher {
    /// Returns a matcher for requests with a verb for a resource, such as `(Verb::List, "pods")`, in any group.
    #[must_use]
    pub fn of(verb: Verb, plural: &str) -> Self {
        Self { verb: Some(verb), plural: Some(plural.to_owned()), ..Self::default() }
    }

    fn matches(&self, verb: Verb, path: &ObjectPath) -> bool {
        fn is_match(expected: Option<&String>, actual: &str) -> bool {
            expected.is_none_or(|expected| expected == actual)
        }
        self.verb.is_none_or(|expected| expected == verb)
            && is_match(self.plural.as_ref(), &path.plural)
            && is_match(self.group.as_ref(), &path.group)
            && is_match(self.namespace.as_ref(), path.namespace.as_deref().unwrap_or_default())
            && is_match(self.name.as_ref(), path.name.as_deref().unwrap_or_default())
    }
}

impl Faults {
    /// Answers the next `count` matching requests with `status`.
    ///
    /// If several faults match a request, the one injected first applies.
    pub fn fail(&self, matcher: Matcher, count: u32, status: Status) {
        self.inject(matcher, Some(count), Effect::Fail(status));
    }

    /// Answers the next `count` matching requests with an HTTP status code, its usual reason, and, unless it is 0,
    /// `Retry-After` in seconds.
    pub fn fail_with_code(&self, matcher: Matcher, count: u32, code: u16, retry_after_seconds: u32) {
        let status = Status::with_code(code, "injected fault", retry_after_seconds);
        self.fail(matcher, count, status);
    }

    /// Executes the next `count` matching requests but answers them with `status`, like a server or proxy that times
    /// out although the request took effect.
    pub fn fail_afterwards(&self, matcher: Matcher, count: u32, status: Status) {
        self.inject(matcher, Some(count), Effect::FailAfterwards(status));
    }

    /// Answers the next matching list or watch with 410, as if the history no longer reached back to its revision.
    pub fn expire(&self, matcher: Matcher) {
        self.fail(matcher, 1, Status::expired("too old resource version: injected fault"));
    }

    /// Delays the next `count` matching requests, or all of them if `count` is `None`, before they are processed.
    pub fn delay(&self, matcher: Matcher, count: Option<u32>, delay: Duration) {
        self.inject(matcher, count, Effect::Delay(delay));
    }

    /// Never answers the next `count` matching requests, as if the answer was lost on its way. The requests are executed if
    /// `executed` is true.
    pub fn hang(&self, matcher: Matcher, count: u32, executed: bool) {
        self.inject(matcher, Some(count), Effect::Hang(executed));
    }

    /// Answers the next `count` matching lists with the state at `revision`, as a cache that lags behind does. If the history no
    /// longer reaches back to it, they are answered with 410.
    pub fn list_at(&self, matcher: Matcher, count: u32, revision: u64) {
        self.inject(Matcher { verb: Some(Verb::List), ..matcher }, Some(count), Effect::ListAt(revision));
    }

    /// Removes all faults.
    pub fn clear(&self) {
        self.active.lock().clear();
    }

    /// Whether no further fault can be injected over HTTP.
    pub(super) fn is_full(&self) -> bool {
        self.active.lock().len() >= MAX_ACTIVE
    }

    /// Returns the active faults, for `GET /debug/faults`.
    pub(super) fn to_value(&self) -> Value {
        self.active.lock().iter().map(Fault::to_value).collect()
    }

    fn inject(&self, matcher: Matcher, remaining: Option<u32>, effect: Effect) {
        if remaining != Some(0) {
            self.active.lock().push(Fault { matcher, remaining, effect });
        }
    }

    /// Applies the first fault that matches a request.
    ///
    /// `Ok(None)`: execute the request. `Err(status)`: answer with `status` without executing it.
    pub(crate) async fn apply(
        &self,
        verb: Verb,
        path: &ObjectPath,
        shutdown: &CancellationToken,
    ) -> Result<Option<AfterFault>, Status> {
        match self.take(verb, path) {
            None => Ok(None),
            Some(Effect::Fail(status)) => Err(status),
            Some(Effect::FailAfterwards(status)) => Ok(Some(AfterFault::Respond(status))),
            Some(Effect::Hang(true)) => Ok(Some(AfterFault::Hang)),
            Some(Effect::Hang(false)) => Err(hang(shutdown).await),
            Some(Effect::ListAt(revision)) => Ok(Some(AfterFault::ListAt(revision))),
            Some(Effect::Delay(delay)) => tokio::select! {
                biased;
                status = hang(shutdown) => Err(status),
                () = tokio::time::sleep(delay) => Ok(None),
            },
        }
    }

    fn take(&self, verb: Verb, path: &ObjectPath) -> Option<Effect> {
        let mut active = self.active.lock();
        let index = active.iter().position(|fault| fault.matcher.matches(verb, path))?;
        let fault = &mut active[index];
        let effect = fault.effect.clone();
        if let Some(remaining) = &mut fault.remaining {
            *remaining -= 1;
            if *remaining == 0 {
                active.remove(index);
            }
        }
        Some(effect)
    }
}

impl Fault {
    fn to_value(&self) -> Value {
        let Matcher { verb, plural, group, namespace, name } = &self.matcher;
        let effect = match &self.effect {
            Effect::Fail(status) | Effect::FailAfterwards(status) => json!({
                "code": status.code,
                "afterwards": matches!(self.effect, Effect::FailAfterwards(_)),
                "retryAfterSeconds": status.retry_after().unwrap_or(0),
            }),
            Effect::Delay(delay) => {
                json!({"delayMillis": u64::try_from(delay.as_millis()).unwrap_or(u64::MAX)})
            }
            Effect::Hang(executed) => json!({"hang": true, "afterwards": executed}),
            Effect::ListAt(revision) => json!({"staleLists": true, "resourceVersion": revision.to_string()}),
        };
        json!({
            "verb": verb.map(Verb::as_str), "group": group, "resource": plural, "namespace": namespace, "name": name,
            "remaining": self.remaining, "effect": effect,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pods() -> ObjectPath {
        ObjectPath { version: "v1".into(), plural: "pods".into(), ..ObjectPath::default() }
    }

    async fn apply(faults: &Faults, verb: Verb) -> Result<Option<AfterFault>, Status> {
        faults.apply(verb, &pods(), &CancellationToken::new()).await
    }

    #[tokio::test]
    async fn fault_applies_to_the_given_number_of_requests() {
        let faults = Faults::default();
        faults.fail_with_code(Matcher::of(Verb::List, "pods"), 2, 429, 3);
        assert_eq!(apply(&faults, Verb::Watch).await, Ok(None));
        for _ in 0..2 {
            let status = apply(&faults, Verb::List).await.expect_err("the fault");
            assert_eq!((status.code, status.reason, status.retry_after()), (429, "TooManyRequests", Some(3)));
        }
        assert_eq!(apply(&faults, Verb::List).await, Ok(None));
    }

    #[tokio::test(start_paused = true)]
    async fn delay_without_a_count_applies_until_cleared() {
        let faults = Faults::default();
        faults.delay(Matcher::default(), None, Duration::from_secs(5));
        let before = tokio::time::Instant::now();
        for _ in 0..2 {
            assert_eq!(apply(&faults, Verb::Get).await, Ok(None));
        }
        assert_eq!(before.elapsed(), Duration::from_secs(10));
        faults.clear();
        assert!(faults.take(Verb::Get, &pods()).is_none());
    }

    #[tokio::test]
    async fn hanging_request_waits_until_the_server_ends() {
        let faults = Faults::default();
        faults.hang(Matcher::default(), 1, false);
        let (shutdown, path) = (CancellationToken::new(), pods());
        let mut waiting = std::pin::pin!(faults.apply(Verb::Get, &path, &shutdown));
        assert!(futures::poll!(&mut waiting).is_pending());
        shutdown.cancel();
        assert_eq!(waiting.await.expect_err("the end").code, 503);
        faults.hang(Matcher::default(), 1, true);
        assert_eq!(apply(&faults, Verb::Create).await, Ok(Some(AfterFault::Hang)));
    }

    #[tokio::test(start_paused = true)]
    async fn delay_ends_with_the_server() {
        let faults = Faults::default();
        faults.delay(Matcher::default(), Some(1), Duration::from_secs(600));
        let shutdown = CancellationToken::new();
        shutdown.cancel();
        let before = tokio::time::Instant::now();
        let status = faults.apply(Verb::Get, &pods(), &shutdown).await.expect_err("the end");
        assert_eq!((status.code, before.elapsed()), (503, Duration::ZERO));
    }

    #[tokio::test]
    async fn stale_state_is_for_lists_only() {
        let faults = Faults::default();
        faults.list_at(Matcher::default(), 1, 7);
        assert_eq!(apply(&faults, Verb::Get).await, Ok(None));
        assert_eq!(faults.to_value()[0]["effect"]["resourceVersion"], "7");
        assert_eq!(apply(&faults, Verb::List).await, Ok(Some(AfterFault::ListAt(7))));
        assert_eq!(faults.to_value(), json!([]));
    }
}
