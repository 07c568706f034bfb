//! Compares the writes of a shadow with those of the running version in the same reconcile, and answers its calls. Does no I/O.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use pilothouse_plugin::{Failure, GuestResult, HostAnswer, HostCall, HostRequest, Outcome};
use serde_json::Value;

use crate::recording::first_difference;

/// What the running version did in one reconcile, and how far its shadow has come.
#[derive(Debug)]
pub(super) struct ShadowScript {
    /// The answers to each read, in order, by function and arguments. The last one stays.
    reads: BTreeMap<String, VecDeque<HostAnswer>>,
    /// The writes that the shadow has not made yet.
    writes: VecDeque<HostCall>,
    clock: VecDeque<Duration>,
    random: VecDeque<Vec<u8>>,
    state: State,
}

#[derive(Debug)]
enum State {
    /// All writes so far were equal.
    Following,
    /// A write differs, or there is no answer to one. Later answers would be invented.
    Ended(Comparison),
}

/// The result of comparing one reconcile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    /// Both versions made the same writes and returned the same.
    Agrees,
    /// A write or the result differs.
    Differs(Difference),
    /// The reconcile cannot be compared to its end.
    Skipped,
}

/// The first difference in a reconcile. It contains no content of objects, except what the error of a version repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Difference {
    /// What the running version did.
    pub(super) running: String,
    /// What the shadow did.
    pub(super) shadow: String,
    /// The place at which two writes differ, as a JSON pointer into their arguments; "" if the writes are of different objects.
    pub(super) place: String,
}

/// The answer to a read of a shadow.
#[derive(Debug)]
pub(super) enum ReadAnswer {
    /// The running version got this answer.
    Recorded(HostAnswer),
    /// The running version did not read this.
    Unknown,
    /// The comparison is over.
    Ended,
}

impl ShadowScript {
    /// Creates the script of a reconcile from the calls of the running version.
    pub(super) fn new(calls: Vec<HostCall>) -> Self {
        let mut script = Self {
            reads: BTreeMap::new(),
            writes: VecDeque::new(),
            clock: VecDeque::new(),
            random: VecDeque::new(),
            state: State::Following,
        };
        for call in calls {
            if call.request.is_write() {
                script.writes.push_back(call);
                continue;
            }
            let HostCall { request, answer } = call;
            match answer {
                HostAnswer::Abandoned => {}
                HostAnswer::Time(time) if matches!(request, HostRequest::WallClock) => {
                    script.clock.push_back(time);
                }
                HostAnswer::Random(bytes) => script.random.push_back(bytes),
                answer if is_read(&request) => {
                    script.reads.entry(name_of(&request)).or_default().push_back(answer);
                }
                _ => {}
            }
        }
        script
    }

    /// Answers a read.
    pub(super) fn read(&mut self, request: &HostRequest) -> ReadAnswer {
        if !matches!(self.state, State::Following) {
            return ReadAnswer::Ended;
        }
        let Some(answers) = self.reads.get_mut(&name_of(request)) else { return ReadAnswer::Unknown };
        let answer = if answers.len() > 1 { answers.pop_front() } else { answers.front().cloned() };
        answer.map_or(ReadAnswer::Unknown, ReadAnswer::Recorded)
    }

    /// Compares a write, and returns the answer that the running version got; `None` if the comparison is over.
    pub(super) fn write(&mut self, request: &HostRequest) -> Option<HostAnswer> {
        if !matches!(self.state, State::Following) {
            return None;
        }
        let Some(running) = self.writes.pop_front() else {
            return self.differs("makes no further write".to_owned(), description(request), String::new());
        };
        let (expected, found) = (running.request.arguments(), request.arguments());
        if running.request.function() == request.function() && expected == found {
            if matches!(running.answer, HostAnswer::Abandoned) {
                self.skip();
                return None;
            }
            return Some(running.answer);
        }
        let (left, right) = (description(&running.request), description(request));
        let place = if left == right { first_difference(&expected, &found) } else { None };
        let place = place.map(|place| place.pointer).unwrap_or_default();
        self.differs(left, right, place)
    }

    fn differs(&mut self, running: String, shadow: String, place: String) -> Option<HostAnswer> {
        self.state = State::Ended(Comparison::Differs(Difference { running, shadow, place }));
        None
    }

    /// Ends the comparison, because the shadow does something that has no answer.
    pub(super) fn skip(&mut self) {
        if matches!(self.state, State::Following) {
            self.state = State::Ended(Comparison::Skipped);
        }
    }

    /// Returns the next time that the running version read from the wall clock; `None` if there is none.
    pub(super) fn wall_clock(&mut self) -> Option<Duration> {
        if self.clock.len() > 1 { self.clock.pop_front() } else { self.clock.front().copied() }
    }

    /// Fills the buffer with the random bytes that the running version got; `false` if it got none of this length.
    pub(super) fn random(&mut self, buffer: &mut [u8]) -> bool {
        let next = self.random.pop_front().filter(|bytes| bytes.len() == buffer.len());
        if let Some(bytes) = &next {
            buffer.copy_from_slice(bytes);
        }
        next.is_some()
    }

    /// Ends the comparison with the results of both versions.
    pub(super) fn finish(mut self, running: &GuestResult, shadow: &GuestResult) -> Comparison {
        if matches!(self.state, State::Following) {
            let (left, right) = (description_of_result(running), description_of_result(shadow));
            match self.writes.pop_front() {
                // A failed shadow may not have come to the write.
                Some(write) => {
                    self.differs(description(&write.request), right, String::new());
                }
                None if ResultKind::of(running) != ResultKind::of(shadow) => {
                    self.differs(left, right, String::new());
                }
                None => {}
            }
        }
        match self.state {
            State::Following => Comparison::Agrees,
            State::Ended(comparison) => comparison,
        }
    }
}

/// Whether the call reads objects.
fn is_read(request: &HostRequest) -> bool {
    matches!(
        request,
        HostRequest::CacheGet { .. }
            | HostRequest::CacheList { .. }
            | HostRequest::CacheByIndex { .. }
            | HostRequest::CacheIndexKeys { .. }
            | HostRequest::CacheIndexValues { .. }
            | HostRequest::CacheHasSynced { .. }
            | HostRequest::ClientGet { .. }
            | HostRequest::ClientList { .. }
    )
}

fn name_of(request: &HostRequest) -> String {
    format!("{} {}", request.function(), request.arguments())
}

/// Returns the function of a write and the object that it is about, such as `client.update apps/v1 Deployment shop/a`.
fn description(request: &HostRequest) -> String {
    let arguments = request.arguments();
    let object = arguments.get("manifest").unwrap_or(&arguments);
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let key = match (text("/key"), text("/metadata/namespace"), text("/metadata/name")) {
        ("", "", name) => name.to_owned(),
        ("", namespace, name) => format!("{namespace}/{name}"),
        (key, ..) => key.to_owned(),
    };
    let subresource = match arguments.get("subresource").and_then(Value::as_str) {
        None | Some("") => String::new(),
        Some(subresource) => format!("/{subresource}"),
    };
    let key = if key.is_empty() { text("/metadata/generateName").to_owned() + "…" } else { key };
    format!("{} {} {}{subresource} {key}", request.function(), text("/apiVersion"), text("/kind"))
}

/// What of a result is compared: not the text of an error.
#[derive(PartialEq)]
enum ResultKind {
    Done,
    RequeueAfter,
    Retry,
    Terminal,
    Fault,
    /// The result of another call than `reconcile`.
    Other(Value),
}

impl ResultKind {
    fn of(result: &GuestResult) -> Self {
        match result {
            GuestResult::Reconcile(Ok(Outcome::Done)) => Self::Done,
            GuestResult::Reconcile(Ok(Outcome::RequeueAfter(_))) => Self::RequeueAfter,
            GuestResult::Reconcile(Err(Failure::Retry(_))) => Self::Retry,
            GuestResult::Reconcile(Err(Failure::Terminal(_))) => Self::Terminal,
            GuestResult::Reconcile(Err(Failure::Fault(_))) => Self::Fault,
            other => Self::Other(other.to_json()),
        }
    }
}

fn description_of_result(result: &GuestResult) -> String {
    match result {
        GuestResult::Reconcile(Ok(Outcome::Done)) => "returns done".to_owned(),
        GuestResult::Reconcile(Ok(Outcome::RequeueAfter(_))) => "returns requeue-after".to_owned(),
        GuestResult::Reconcile(Err(Failure::Retry(problem))) => format!("returns retry: {problem}"),
        GuestResult::Reconcile(Err(Failure::Terminal(problem))) => format!("returns terminal: {problem}"),
        GuestResult::Reconcile(Err(Failure::Fault(fault))) => format!("returns fault: {fault}"),
        other => format!("returns {}", other.to_json()),
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_model::{Object, ObjectKey};

    use super::*;

    fn object() -> Object {
        let text = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"n"}}"#;
        Object::from_json(text).expect("an object")
    }

    fn get(answer: Option<Object>) -> HostCall {
        let request = HostRequest::CacheGet { watch: "maps".to_owned(), key: ObjectKey::new("n", "a") };
        HostCall { request, answer: HostAnswer::Object(answer) }
    }

    fn update(value: &str) -> HostRequest {
        let manifest = format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"a","namespace":"n"}},"data":{{"k":"{value}"}}}}"#
        );
        HostRequest::ClientUpdate { manifest, subresource: String::new() }
    }

    fn written(value: &str) -> HostCall {
        HostCall { request: update(value), answer: HostAnswer::Object(Some(object())) }
    }

    fn done() -> GuestResult {
        GuestResult::Reconcile(Ok(Outcome::Done))
    }

    fn differs(running: &str, shadow: &str, place: &str) -> Comparison {
        let [running, shadow, place] = [running, shadow, place].map(str::to_owned);
        Comparison::Differs(Difference { running, shadow, place })
    }

    #[test]
    fn equal_writes_get_the_answers_of_the_running_version() {
        let mut script = ShadowScript::new(vec![written("1"), written("2")]);
        assert!(matches!(script.write(&update("1")), Some(HostAnswer::Object(Some(_)))));
        assert!(script.write(&update("2")).is_some());
        assert_eq!(script.finish(&done(), &done()), Comparison::Agrees);
    }

    #[test]
    fn the_first_differing_write_ends_the_comparison() {
        let mut script = ShadowScript::new(vec![written("1"), written("2")]);
        assert!(script.write(&update("other")).is_none());
        assert!(script.write(&update("2")).is_none(), "later answers would be invented");
        assert!(matches!(script.read(&get(None).request), ReadAnswer::Ended));
        let name = "client.update v1 ConfigMap n/a";
        assert_eq!(script.finish(&done(), &done()), differs(name, name, "/manifest/data/k"));
    }

    #[test]
    fn missing_and_additional_writes_differ() {
        let name = "client.update v1 ConfigMap n/a";
        let script = ShadowScript::new(vec![written("1")]);
        assert_eq!(script.finish(&done(), &done()), differs(name, "returns done", ""));
        let mut script = ShadowScript::new(Vec::new());
        assert!(script.write(&update("1")).is_none());
        assert_eq!(script.finish(&done(), &done()), differs("makes no further write", name, ""));
    }

    #[test]
    fn results_are_compared_without_the_text_of_errors() {
        let retry = |text: &str| GuestResult::Reconcile(Err(Failure::Retry(text.to_owned())));
        let compare = |running, shadow| ShadowScript::new(Vec::new()).finish(&running, &shadow);
        assert_eq!(compare(retry("a"), retry("b")), Comparison::Agrees);
        assert_eq!(compare(done(), retry("b: c")), differs("returns done", "returns retry: b: c", ""));
    }

    #[test]
    fn reads_get_the_answers_of_the_running_version_in_order() {
        let mut script = ShadowScript::new(vec![get(None), get(Some(object()))]);
        let request = get(None).request;
        let mut found = || match script.read(&request) {
            ReadAnswer::Recorded(HostAnswer::Object(object)) => object.is_some(),
            other => panic!("{other:?}"),
        };
        assert_eq!([found(), found(), found()], [false, true, true], "the last one stays");
        let other = HostRequest::CacheHasSynced { watch: "maps".to_owned() };
        assert!(matches!(script.read(&other), ReadAnswer::Unknown));
    }

    #[test]
    fn a_write_without_an_answer_is_not_compared() {
        let abandoned = HostCall { request: update("1"), answer: HostAnswer::Abandoned };
        let mut script = ShadowScript::new(vec![abandoned]);
        assert!(script.write(&update("1")).is_none());
        assert_eq!(script.finish(&done(), &done()), Comparison::Skipped);
    }

    #[test]
    fn times_and_random_bytes_are_those_of_the_running_version() {
        let time = |seconds| HostCall {
            request: HostRequest::WallClock,
            answer: HostAnswer::Time(Duration::from_secs(seconds)),
        };
        let random =
            HostCall { request: HostRequest::Random { length: 2 }, answer: HostAnswer::Random(vec![1, 2]) };
        let mut script = ShadowScript::new(vec![time(1), random, time(2)]);
        let mut seconds = || script.wall_clock().map(|time| time.as_secs());
        assert_eq!([seconds(), seconds(), seconds()], [Some(1), Some(2), Some(2)]);
        let mut buffer = [0; 2];
        assert!(script.random(&mut buffer) && !script.random(&mut [0; 2]));
        assert_eq!(buffer, [1, 2]);
        assert_eq!(ShadowScript::new(Vec::new()).wall_clock(), None);
    }
}
