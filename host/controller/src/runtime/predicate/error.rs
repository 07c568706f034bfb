//! Why an evaluation failed. No text has a value of an object in it: objects may be Secrets, and the text is logged.

use super::budget::COST_LIMIT;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Failure {
    #[error(
        "it costs more than {COST_LIMIT} units, the limit of one evaluation; decide in the plugin instead"
    )]
    Cost,
    /// A name that is written in the expression.
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
    #[error("the pattern of {0}() is not a regular expression, or is too large a one")]
    Pattern(String),
    #[error("the predicate gave a value of the type {0}, not a boolean")]
    NotBoolean(String),
    #[error("it has something that this host does not evaluate")]
    Unsupported,
}
