//! Fault injection: failing or delaying requests on purpose.

use std::time::Duration;

use parking_lot::Mutex;

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

    /// Removes all faults.
    pub fn clear(&self) {
        self.active.lock().clear();
    }

    fn inject(&self, matcher: Matcher, remaining: Option<u32>, effect: Effect) {
        if remaining != Some(0) {
            self.active.lock().push(Fault { matcher, remaining, effect });
        }
    }

    /// Applies the first fault that matches a request.
    ///
    /// `Ok(None)`: execute the request. `Ok(Some(status))`: execute it, but answer with `status`. `Err(status)`: answer
    /// with `status` without executing it.
    pub(crate) async fn apply(&self, verb: Verb, path: &ObjectPath) -> Result<Option<Status>, Status> {
        match self.take(verb, path) {
            None => Ok(None),
            Some(Effect::Fail(status)) => Err(status),
            Some(Effect::FailAfterwards(status)) => Ok(Some(status)),
            Some(Effect::Delay(delay)) => {
                tokio::time::sleep(delay).await;
                Ok(None)
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn pods() -> ObjectPath {
        ObjectPath { version: "v1".into(), plural: "pods".into(), ..ObjectPath::default() }
    }

    #[tokio::test]
    async fn fault_applies_to_the_given_number_of_requests() {
        let faults = Faults::default();
        faults.fail_with_code(Matcher::of(Verb::List, "pods"), 2, 429, 3);
        assert_eq!(faults.apply(Verb::Watch, &pods()).await, Ok(None));
        for _ in 0..2 {
            let status = faults.apply(Verb::List, &pods()).await.expect_err("the fault");
            assert_eq!((status.code, status.reason, status.retry_after()), (429, "TooManyRequests", Some(3)));
        }
        assert_eq!(faults.apply(Verb::List, &pods()).await, Ok(None));
    }

    #[tokio::test(start_paused = true)]
    async fn delay_without_a_count_applies_until_cleared() {
        let faults = Faults::default();
        faults.delay(Matcher::default(), None, Duration::from_secs(5));
        let before = tokio::time::Instant::now();
        for _ in 0..2 {
            assert_eq!(faults.apply(Verb::Get, &pods()).await, Ok(None));
        }
        assert_eq!(before.elapsed(), Duration::from_secs(10));
        faults.clear();
        assert!(faults.take(Verb::Get, &pods()).is_none());
    }
}
