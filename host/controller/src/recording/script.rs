//! Follows the calls of a recorded reconcile: compares each call of a replay with the recorded one, and returns the recorded answer. Does no
//! I/O.

use std::collections::VecDeque;
use std::time::Duration;

use pilothouse_plugin::{HostAnswer, HostRequest};
use serde_json::Value;

use super::format::{RecordedCall, RecordedReconcile};
use super::secrets::{compare, contains_hash};

/// The calls of one recorded reconcile, and how far a replay has come.
#[derive(Debug)]
pub(super) struct Script {
    /// The calls that are compared.
    calls: Vec<RecordedCall>,
    /// The number of those that the replay has made.
    position: usize,
    wall_clock: Clock,
    monotonic_clock: Clock,
    random: VecDeque<Vec<u8>>,
    state: State,
    /// Whether the replay received random bytes that are not recorded.
    pub(super) drew_random: bool,
    /// Whether an answer contained a hash in place of a Secret's value.
    pub(super) read_hashes: bool,
    /// How many texts of the arguments so far could not be compared, because the recording has only their hashes.
    pub(super) uncompared_values: u64,
}

/// How the comparison goes.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum State {
    /// All calls so far were equal.
    Following,
    /// The recorded call was abandoned, so there is no answer. The comparison is over.
    Ended,
    /// A call differs. `recorded` is `None` after the last recorded call.
    Differs {
        /// How many calls were equal before.
        position: usize,
        /// The recorded call.
        recorded: Option<RecordedCall>,
        /// The function and the arguments in the replay.
        replayed: (&'static str, Value),
    },
    /// The recording is damaged.
    Damaged {
        /// How many calls were equal before.
        position: usize,
        /// What is wrong.
        problem: String,
    },
}

/// The times that a clock has shown. After the last one, the clock stands still.
#[derive(Debug)]
struct Clock {
    times: VecDeque<Duration>,
    now: Duration,
}

impl Clock {
    fn read(&mut self) -> Duration {
        if let Some(time) = self.times.pop_front() {
            self.now = time;
        }
        self.now
    }
}

impl Script {
    /// Creates the script of a reconcile. `now` is the time of the wall clock if none is recorded.
    ///
    /// # Errors
    /// Returns what is wrong with the recorded time or random bytes.
    pub(super) fn new(reconcile: &RecordedReconcile, now: Duration) -> Result<Self, String> {
        let clock = |now| Clock { times: VecDeque::new(), now };
        let mut script = Self {
            calls: Vec::new(),
            position: 0,
            wall_clock: clock(now),
            monotonic_clock: clock(Duration::ZERO),
            random: VecDeque::new(),
            state: State::Following,
            drew_random: false,
            read_hashes: false,
            uncompared_values: 0,
        };
        for call in &reconcile.calls {
            match call.function.as_str() {
                "wall-clock" => script.wall_clock.times.push_back(time(&call.answer)?),
                "monotonic-clock" => script.monotonic_clock.times.push_back(time(&call.answer)?),
                "random" => script.random.push_back(random(&call.answer)?),
                _ => script.calls.push(call.clone()),
            }
        }
        Ok(script)
    }

    /// Returns the answer to the replay's next call; `None` if there is none, because a call differs or the comparison is over.
    pub(super) fn answer(&mut self, request: &HostRequest) -> Option<HostAnswer> {
        if self.state != State::Following {
            return None;
        }
        let (function, arguments) = (request.function(), request.arguments());
        let position = self.position;
        let equal = self.calls.get(position).filter(|recorded| recorded.function == function);
        let equal = equal.and_then(|recorded| Some((recorded, compare(&recorded.arguments, &arguments)?)));
        let Some((recorded, uncompared_values)) = equal else {
            let recorded = self.calls.get(position).cloned();
            self.state = State::Differs { position, recorded, replayed: (function, arguments) };
            return None;
        };
        self.position += 1;
        self.uncompared_values += uncompared_values;
        self.read_hashes |= contains_hashes(&recorded.answer);
        match HostAnswer::from_json(&recorded.answer) {
            Ok(HostAnswer::Abandoned) => {
                self.state = State::Ended;
                None
            }
            Ok(answer) => Some(answer),
            Err(problem) => {
                self.damaged(format!("the answer of {function}: {problem}"));
                None
            }
        }
    }

    /// Records that the answer of the last call does not have the type that its function returns.
    pub(super) fn wrong_answer(&mut self, request: &HostRequest) {
        self.damaged(format!("the answer of {} is of another function", request.function()));
    }

    fn damaged(&mut self, problem: String) {
        self.state = State::Damaged { position: self.position.saturating_sub(1), problem };
    }

    /// Returns the time of the wall clock.
    pub(super) fn wall_clock(&mut self) -> Duration {
        self.wall_clock.read()
    }

    /// Returns the time of the monotonic clock.
    pub(super) fn monotonic_clock(&mut self) -> Duration {
        self.monotonic_clock.read()
    }

    /// Fills the buffer with the recorded bytes; `false` if there are none of this length.
    pub(super) fn random(&mut self, buffer: &mut [u8]) -> bool {
        let is_recorded = self.random.front().is_some_and(|bytes| bytes.len() == buffer.len());
        if let Some(bytes) = self.random.pop_front().filter(|_| is_recorded) {
            buffer.copy_from_slice(&bytes);
        }
        self.drew_random |= !is_recorded;
        is_recorded
    }

    /// Returns how the comparison went.
    pub(super) fn state(&self) -> &State {
        &self.state
    }

    /// Returns how many calls were equal.
    pub(super) fn position(&self) -> usize {
        self.position
    }

    /// Returns the recorded call that the replay has not made, if any.
    pub(super) fn remaining(&self) -> Option<&RecordedCall> {
        self.calls.get(self.position)
    }
}

/// Whether any text in the tree contains a hash of a Secret's value.
fn contains_hashes(value: &Value) -> bool {
    match value {
        Value::String(text) => contains_hash(text),
        Value::Array(items) => items.iter().any(contains_hashes),
        Value::Object(members) => members.values().any(contains_hashes),
        _ => false,
    }
}

fn time(answer: &Value) -> Result<Duration, String> {
    match HostAnswer::from_json(answer)? {
        HostAnswer::Time(time) => Ok(time),
        _ => Err("the answer of a clock is no time".to_owned()),
    }
}

fn random(answer: &Value) -> Result<Vec<u8>, String> {
    match HostAnswer::from_json(answer)? {
        HostAnswer::Random(bytes) => Ok(bytes),
        _ => Err("the answer of random has no bytes".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_model::ObjectKey;
    use serde_json::json;

    use super::*;

    fn call(function: &str, arguments: Value, answer: Value) -> RecordedCall {
        RecordedCall { function: function.to_owned(), arguments, answer }
    }

    fn get_call(name: &str, answer: Value) -> RecordedCall {
        call("cache.get", json!({"watch": "maps", "key": format!("n/{name}")}), answer)
    }

    fn get(name: &str) -> HostRequest {
        HostRequest::CacheGet { watch: "maps".to_owned(), key: ObjectKey::new("n", name) }
    }

    fn script(calls: Vec<RecordedCall>) -> Script {
        let reconcile = RecordedReconcile {
            time: "2026-01-02T03:04:05Z".to_owned(),
            microseconds: 1,
            watch: "maps".to_owned(),
            namespace: "n".to_owned(),
            name: "a".to_owned(),
            reasons: Vec::new(),
            attempt: 0,
            extra: Vec::new(),
            calls,
            result: json!("done"),
        };
        Script::new(&reconcile, Duration::from_secs(9)).expect("a script")
    }

    #[test]
    fn equal_calls_get_the_recorded_answers_in_order() {
        let mut script = script(vec![
            get_call("a", json!({"object": null})),
            get_call("a", json!({"misuse": "unknown watch"})),
        ]);
        assert!(matches!(script.answer(&get("a")), Some(HostAnswer::Object(None))));
        assert!(matches!(script.answer(&get("a")), Some(HostAnswer::Misuse(_))));
        assert_eq!((script.state(), script.position(), script.remaining()), (&State::Following, 2, None));
    }

    #[test]
    fn the_first_differing_call_ends_the_comparison() {
        let recorded = get_call("a", json!({"object": null}));
        for (other, expected) in [
            (get("b"), ("cache.get", json!({"watch": "maps", "key": "n/b"}))),
            (
                HostRequest::CacheHasSynced { watch: "maps".to_owned() },
                ("cache.has-synced", json!({"watch": "maps"})),
            ),
        ] {
            let mut script = script(vec![recorded.clone()]);
            assert!(script.answer(&other).is_none());
            let recorded = Some(recorded.clone());
            assert_eq!(script.state(), &State::Differs { position: 0, recorded, replayed: expected });
            assert!(script.answer(&get("a")).is_none(), "later calls are not compared");
        }
    }

    #[test]
    fn a_call_after_the_last_one_differs() {
        let mut script = script(Vec::new());
        assert!(script.answer(&get("a")).is_none());
        assert!(matches!(script.state(), State::Differs { recorded: None, .. }));
    }

    #[test]
    fn an_abandoned_call_ends_the_comparison_without_a_difference() {
        let mut script = script(vec![get_call("a", json!("abandoned")), get_call("b", json!("nothing"))]);
        assert!(script.answer(&get("a")).is_none());
        assert_eq!(script.state(), &State::Ended);
    }

    #[test]
    fn a_damaged_answer_is_reported() {
        let mut script = script(vec![get_call("a", json!({"object": 1}))]);
        assert!(script.answer(&get("a")).is_none());
        assert!(matches!(script.state(), State::Damaged { position: 0, .. }), "{script:?}");
    }

    #[test]
    fn clocks_show_the_recorded_times_and_then_stand_still() {
        let time = |seconds: u64| json!({"nanoseconds": seconds * 1_000_000_000});
        let mut script = script(vec![
            call("wall-clock", json!({}), time(5)),
            call("monotonic-clock", json!({}), time(1)),
            call("wall-clock", json!({}), time(6)),
        ]);
        let seconds: Vec<_> = (0..3).map(|_| script.wall_clock().as_secs()).collect();
        assert_eq!((seconds, script.monotonic_clock().as_secs()), (vec![5, 6, 6], 1));
        assert_eq!(super::tests::script(Vec::new()).wall_clock().as_secs(), 9, "the time of the reconcile");
        assert_eq!(script.remaining(), None, "clocks are not compared");
    }

    #[test]
    fn random_bytes_are_those_of_the_recording_if_it_has_them() {
        let mut script = script(vec![call("random", json!({"length": 2}), json!({"random": [1, 2]}))]);
        let mut buffer = [0; 2];
        assert!(script.random(&mut buffer));
        assert_eq!((buffer, script.drew_random), ([1, 2], false));
        assert!(!script.random(&mut buffer));
        assert!(script.drew_random);
    }
}
