//! The error of everything that this crate does. Its text says what failed, on what, why, and what to do.

use std::fmt;

/// What kind of problem it is. Decides whether another attempt can help, and is the label of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Problem {
    /// A reference, a file of the operator or an argument is invalid.
    Invalid,
    /// No connection, or one that broke.
    Unreachable,
    /// The registry did not respond in time.
    Timeout,
    /// The registry responded with 429 or an error of its own.
    Busy,
    /// The registry refuses the credentials, or asks for some.
    Denied,
    /// The registry does not have it.
    NotFound,
    /// The registry named a host that this client does not contact.
    ForbiddenHost,
    /// A response is larger than its limit.
    TooLarge,
    /// The content does not have its digest or its size.
    Altered,
    /// The artifact is no plugin in a known layout.
    Layout,
    /// The response violates the protocol.
    Protocol,
    /// The cache on disk cannot be read or written.
    Cache,
    /// The signatures do not satisfy the policy.
    Unverified,
}

impl Problem {
    /// All kinds.
    pub const ALL: [Self; 13] = [
        Self::Invalid,
        Self::Unreachable,
        Self::Timeout,
        Self::Busy,
        Self::Denied,
        Self::NotFound,
        Self::ForbiddenHost,
        Self::TooLarge,
        Self::Altered,
        Self::Layout,
        Self::Protocol,
        Self::Cache,
        Self::Unverified,
    ];

    /// The value of a metric's label.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::Unreachable => "unreachable",
            Self::Timeout => "timeout",
            Self::Busy => "busy",
            Self::Denied => "denied",
            Self::NotFound => "not-found",
            Self::ForbiddenHost => "forbidden-host",
            Self::TooLarge => "too-large",
            Self::Altered => "altered",
            Self::Layout => "layout",
            Self::Protocol => "protocol",
            Self::Cache => "cache",
            Self::Unverified => "unverified",
        }
    }
}

/// Why something about a registry or an artifact failed.
#[derive(Clone, PartialEq, Eq)]
pub struct RegistryError {
    problem: Problem,
    text: String,
}

impl RegistryError {
    /// Creates an error. The text names the object, the reason and the remedy.
    pub(crate) fn new(problem: Problem, text: impl Into<String>) -> Self {
        Self { problem, text: text.into() }
    }

    /// The kind of the problem.
    #[must_use]
    pub fn problem(&self) -> Problem {
        self.problem
    }

    /// Whether the same attempt may succeed later without a change by an operator.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(self.problem, Problem::Unreachable | Problem::Timeout | Problem::Busy)
    }

    /// Puts text before the error's.
    #[must_use]
    pub fn in_context(self, context: impl fmt::Display) -> Self {
        Self { problem: self.problem, text: format!("{context}: {}", self.text) }
    }
}

impl fmt::Display for RegistryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for RegistryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.problem, self.text)
    }
}

impl std::error::Error for RegistryError {}

/// Limits text of a server for an error message: one line of printable characters.
pub(crate) fn excerpt(text: &str) -> String {
    const LONGEST: usize = 200;
    let plain: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(LONGEST).collect();
    plain.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_listed_once_with_a_label_of_its_own() {
        let mut labels = Problem::ALL.map(Problem::label).to_vec();
        labels.sort_unstable();
        labels.dedup();
        assert_eq!(labels.len(), Problem::ALL.len());
        // Without a wildcard, so that a new kind is added to the list above.
        for problem in Problem::ALL {
            match problem {
                Problem::Invalid | Problem::Unreachable | Problem::Timeout | Problem::Busy => {}
                Problem::Denied | Problem::NotFound | Problem::ForbiddenHost | Problem::TooLarge => {}
                Problem::Altered | Problem::Layout | Problem::Protocol | Problem::Cache => {}
                Problem::Unverified => {}
            }
        }
    }

    #[test]
    fn only_problems_that_may_pass_are_transient() {
        for (problem, transient) in [
            (Problem::Timeout, true),
            (Problem::Busy, true),
            (Problem::Altered, false),
            (Problem::Denied, false),
        ] {
            assert_eq!(RegistryError::new(problem, "x").is_transient(), transient, "{problem:?}");
        }
    }

    #[test]
    fn text_of_a_server_is_one_short_line() {
        assert_eq!(excerpt("a\n\u{1b}[31mb"), "a  [31mb");
        assert_eq!(excerpt(&"x".repeat(10_000)).len(), 200);
    }
}
