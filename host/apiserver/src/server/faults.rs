use std::time::Duration;

use parking_lot::Mutex;

use crate::request::{ObjectPath, Verb};
use crate::status::Status;

/// Faults that tests inject: each answers, or delays, the next requests that match it.
#[derive(Debug, Default)]
pub struct Faults {
    armed: Mutex<Vec<Fault>>,
}

/// Which requests a fault is for. Empty parts match everything.
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
    /// How many requests it is still for; none for all.
    left: Option<u32>,
    effect: Effect,
}

#[derive(Clone, Debug)]
enum Effect {
    Fail(Status),
    FailAfterwards(Status),
    Delay(Duration),
}

impl Matcher {
    /// Requests with a verb for a resource, such as `(Verb::List, "pods")`, in whichever group.
    #[must_use]
    pub fn of(verb: Verb, plural: &str) -> Self {
        Self { verb: Some(verb), plural: Some(plural.to_owned()), ..Self::default() }
    }

    fn matches(&self, verb: Verb, path: &ObjectPath) -> bool {
        fn fits(wanted: Option<&String>, found: &str) -> bool {
            wanted.is_none_or(|wanted| wanted == found)
        }
        self.verb.is_none_or(|wanted| wanted == verb)
            && fits(self.plural.as_ref(), &path.plural)
            && fits(self.group.as_ref(), &path.group)
            && fits(self.namespace.as_ref(), path.namespace.as_deref().unwrap_or_default())
            && fits(self.name.as_ref(), path.name.as_deref().unwrap_or_default())
    }
}

impl Faults {
    /// Answers the next `count` matching requests with `status`. Several faults that match are met in the order in
    /// which they were armed.
    pub fn fail(&self, matcher: Matcher, count: u32, status: Status) {
        self.arm(matcher, Some(count), Effect::Fail(status));
    }

    /// Answers the next `count` matching requests with an HTTP status code, its usual reason, and, unless it is 0,
    /// `Retry-After` in seconds.
    pub fn fail_with_code(&self, matcher: Matcher, count: u32, code: u16, retry_after_seconds: u32) {
        let status = Status::with_code(code, "injected fault", retry_after_seconds);
        self.fail(matcher, count, status);
    }

    /// Carries out the next `count` matching requests, and answers with `status` all the same, as a server or a proxy does
    /// that gives up too early.
    pub fn fail_afterwards(&self, matcher: Matcher, count: u32, status: Status) {
        self.arm(matcher, Some(count), Effect::FailAfterwards(status));
    }

    /// Answers the next matching list or watch with 410, as if the history no longer reached back so far.
    pub fn expire(&self, matcher: Matcher) {
        self.fail(matcher, 1, Status::expired("too old resource version: injected fault"));
    }

    /// Delays the next `count` matching requests, or all of them if it is none, before they are looked at.
    pub fn delay(&self, matcher: Matcher, count: Option<u32>, delay: Duration) {
        self.arm(matcher, count, Effect::Delay(delay));
    }

    /// Disarms all faults.
    pub fn clear(&self) {
        self.armed.lock().clear();
    }

    fn arm(&self, matcher: Matcher, left: Option<u32>, effect: Effect) {
        if left != Some(0) {
            self.armed.lock().push(Fault { matcher, left, effect });
        }
    }

    /// Lets a request meet the first fault that matches it. `Ok` says to carry it out, and what to answer instead of what
    /// came of it.
    pub(crate) async fn meet(&self, verb: Verb, path: &ObjectPath) -> Result<Option<Status>, Status> {
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
        let mut armed = self.armed.lock();
        let at = armed.iter().position(|fault| fault.matcher.matches(verb, path))?;
        let fault = &mut armed[at];
        let effect = fault.effect.clone();
        if let Some(left) = &mut fault.left {
            *left -= 1;
            if *left == 0 {
                armed.remove(at);
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
    async fn a_fault_is_met_as_often_as_it_says() {
        let faults = Faults::default();
        faults.fail_with_code(Matcher::of(Verb::List, "pods"), 2, 429, 3);
        assert_eq!(faults.meet(Verb::Watch, &pods()).await, Ok(None));
        for _ in 0..2 {
            let status = faults.meet(Verb::List, &pods()).await.expect_err("the fault");
            assert_eq!((status.code, status.reason, status.retry_after()), (429, "TooManyRequests", Some(3)));
        }
        assert_eq!(faults.meet(Verb::List, &pods()).await, Ok(None));
    }

    #[tokio::test(start_paused = true)]
    async fn a_delay_lasts_until_it_is_cleared() {
        let faults = Faults::default();
        faults.delay(Matcher::default(), None, Duration::from_secs(5));
        let before = tokio::time::Instant::now();
        for _ in 0..2 {
            assert_eq!(faults.meet(Verb::Get, &pods()).await, Ok(None));
        }
        assert_eq!(before.elapsed(), Duration::from_secs(10));
        faults.clear();
        assert!(faults.take(Verb::Get, &pods()).is_none());
    }
}
