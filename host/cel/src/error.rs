//! The errors of expressions. Their texts never contain a value of an object, because they are logged, and the object may be a Secret.

use crate::bounds::ExpressionError;
use crate::budget::COST_LIMIT;

/// Why a text is not an expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// The text exceeds a bound.
    #[error(transparent)]
    Bounds(#[from] ExpressionError),
    /// The parser panicked.
    #[error("the parser failed: the text is malformed")]
    Malformed,
    /// The parser's message, in one line.
    #[error("{0}")]
    Syntax(String),
    /// The literal pattern of this function is unusable.
    #[error("the pattern of {0}() is not a regular expression, or is too large")]
    Pattern(String),
    /// The literal patterns exceed [`crate::MAX_PATTERNS_SIZE`].
    #[error("the patterns of the expression are too large together; use fewer")]
    Patterns,
}

/// Why an evaluation failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvaluationError {
    /// The budget is exceeded.
    #[error(
        "it costs more than {COST_LIMIT} units, the limit of one evaluation; decide in the plugin instead"
    )]
    Cost,
    /// Contains a name from the expression.
    #[error("there is no member {0:?}")]
    Member(String),
    /// Contains a name from the expression.
    #[error("unknown variable {0:?}")]
    Variable(String),
    /// A map has no such key.
    #[error("a key is not in its map")]
    Key,
    /// A map would have a key twice.
    #[error("a key is inserted into its map a second time")]
    DuplicateKey,
    /// A list has no such position.
    #[error("an index is outside of its list")]
    Index,
    /// The operator does not take values of these types.
    #[error("invalid operand types for {0}")]
    Types(&'static str),
    /// A number overflows.
    #[error("a number overflows")]
    Arithmetic,
    /// A number is divided by zero.
    #[error("a number is divided by zero")]
    Division,
    /// The remainder of a division by zero.
    #[error("the remainder of a division by zero")]
    Remainder,
    /// The function does not exist, or does not take these arguments.
    #[error("the function {0}() refuses its arguments")]
    Function(String),
    /// The pattern of this function is unusable.
    #[error("the pattern of {0}() is not a regular expression, or is too large")]
    Pattern(String),
    /// A value of the object nests too deeply to be converted.
    #[error("a value that it reads is nested too deeply")]
    Depth,
    /// The expression contains something that the interpreter does not implement.
    #[error("it contains something that this host cannot evaluate")]
    Unsupported,
}
