//! The error of an evaluation.

use super::budget::COST_LIMIT;

/// Why an evaluation failed. Its text never contains a value of an object, because it is logged, and the object may be a Secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum EvaluationError {
    #[error(
        "it costs more than {COST_LIMIT} units, the limit of one evaluation; decide in the plugin instead"
    )]
    Cost,
    /// Contains a name from the expression.
    #[error("there is no member {0:?}")]
    Member(String),
    #[error("a key is not in its map")]
    Key,
    #[error("an index is outside of its list")]
    Index,
    #[error("{0} does not take values of these types")]
    Types(&'static str),
    #[error("a number overflows, or is divided by zero")]
    Arithmetic,
    #[error("the function {0}() refuses its arguments")]
    Function(String),
    #[error("the pattern of {0}() is not a regular expression, or is too large")]
    Pattern(String),
    #[error("the predicate has a value of the type {0}, not a boolean")]
    NotBoolean(String),
    #[error("it contains something that this host cannot evaluate")]
    Unsupported,
}
