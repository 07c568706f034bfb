//! The decisions that are remembered for a while. Time is an argument.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

/// How long a permission is remembered. One that is revoked stays effective for about that long.
const ALLOWED_FOR: Duration = Duration::from_secs(60);
/// How long a refusal is remembered. One that is lifted stays effective for about that long.
const REFUSED_FOR: Duration = Duration::from_secs(10);
/// The maximum number of permissions, and of refusals.
const MAX_DECISIONS: usize = 128;
/// The maximum size of a path whose decision is remembered, in bytes.
const MAX_PATH_SIZE: usize = 256;

/// What the API server is asked.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Question {
    /// The client's token. A credential: it is neither logged nor shown.
    pub(super) token: String,
    /// The method in lower case, as in RBAC rules.
    pub(super) verb: String,
    pub(super) path: String,
}

/// What the API server decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// The request may be answered.
    Allowed,
    /// The token belongs to nobody.
    Unauthenticated,
    /// The token's user may not read the path.
    Forbidden { user: String },
}

/// The remembered decisions. A permission that has ended is remembered, too: its question is asked again before unknown ones. Permissions and refusals are kept apart, so that refused requests cannot displace permissions.
#[derive(Default)]
pub(super) struct Decisions {
    allowed: Bounded,
    refused: Bounded,
}

/// Decisions with the times at which they end.
#[derive(Default)]
struct Bounded(HashMap<Question, (Decision, Instant)>);

impl Decisions {
    pub(super) fn get(&self, question: &Question, now: Instant) -> Option<Decision> {
        self.allowed.get(question, now).or_else(|| self.refused.get(question, now))
    }

    /// Returns whether the last decision about a question was a permission, which may have ended.
    pub(super) fn was_allowed(&self, question: &Question) -> bool {
        self.allowed.0.contains_key(question)
    }

    pub(super) fn insert(&mut self, question: Question, decision: Decision, now: Instant) {
        if question.path.len() > MAX_PATH_SIZE {
            return;
        }
        match decision {
            Decision::Allowed => {
                self.refused.0.remove(&question);
                self.allowed.insert(question, decision, now, ALLOWED_FOR);
            }
            Decision::Unauthenticated | Decision::Forbidden { .. } => {
                self.allowed.0.remove(&question);
                self.refused.insert(question, decision, now, REFUSED_FOR);
            }
        }
    }
}

impl Bounded {
    fn get(&self, question: &Question, now: Instant) -> Option<Decision> {
        self.0.get(question).filter(|(_, end)| now < *end).map(|(decision, _)| decision.clone())
    }

    fn insert(&mut self, question: Question, decision: Decision, now: Instant, lifetime: Duration) {
        if self.0.len() >= MAX_DECISIONS && !self.0.contains_key(&question) {
            let oldest = self.0.iter().min_by_key(|(_, (_, end))| *end).map(|(question, _)| question.clone());
            oldest.and_then(|question| self.0.remove(&question));
        }
        self.0.insert(question, (decision, now + lifetime));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(token: &str) -> Question {
        Question { token: token.to_owned(), verb: "get".to_owned(), path: "/metrics".to_owned() }
    }

    #[test]
    fn decisions_end_and_refusals_end_earlier() {
        let mut decisions = Decisions::default();
        let start = Instant::now();
        let forbidden = Decision::Forbidden { user: "u".to_owned() };
        decisions.insert(question("good"), Decision::Allowed, start);
        decisions.insert(question("bad"), forbidden.clone(), start);
        assert_eq!(decisions.get(&question("good"), start), Some(Decision::Allowed));
        assert_eq!(decisions.get(&question("bad"), start), Some(forbidden));
        let other_path = Question { path: "/api/plugins".to_owned(), ..question("good") };
        assert_eq!(decisions.get(&other_path, start), None, "a decision is about one path");
        let later = start + REFUSED_FOR;
        assert_eq!(decisions.get(&question("bad"), later), None);
        assert_eq!(decisions.get(&question("good"), later), Some(Decision::Allowed));
        assert_eq!(decisions.get(&question("good"), start + ALLOWED_FOR), None);
        assert!(decisions.was_allowed(&question("good")) && !decisions.was_allowed(&question("bad")));
    }

    #[test]
    fn a_later_decision_replaces_an_earlier_one() {
        let mut decisions = Decisions::default();
        let start = Instant::now();
        decisions.insert(question("a"), Decision::Allowed, start);
        decisions.insert(question("a"), Decision::Unauthenticated, start);
        assert_eq!(decisions.get(&question("a"), start), Some(Decision::Unauthenticated));
        assert!(!decisions.was_allowed(&question("a")));
    }

    #[test]
    fn refusals_are_bounded_and_do_not_displace_permissions() {
        let mut decisions = Decisions::default();
        let start = Instant::now();
        decisions.insert(question("good"), Decision::Allowed, start);
        for number in 0..10 * MAX_DECISIONS {
            decisions.insert(question(&number.to_string()), Decision::Unauthenticated, start);
        }
        assert_eq!(decisions.refused.0.len(), MAX_DECISIONS);
        assert_eq!(decisions.get(&question("good"), start), Some(Decision::Allowed));
        let long = Question { path: "/".repeat(MAX_PATH_SIZE + 1), ..question("good") };
        decisions.insert(long.clone(), Decision::Allowed, start);
        assert_eq!(decisions.get(&long, start), None, "a long path is not remembered");
    }
}
