//! The errors of expressions. Their texts never contain a value of an object, because they are logged, and the object may be a Secret.
//! Only [`EvaluationError::cel_message`] has them: it is for whoever wrote the object.

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

/// A text that may come from an object. It is not shown, except in [`EvaluationError::cel_message`].
#[derive(Clone, PartialEq, Eq)]
pub struct Hidden(pub(crate) String);

impl std::fmt::Debug for Hidden {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("…")
    }
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
    /// A map has no such key, or a value without members is indexed. Contains the key.
    #[error("a key is not in its map")]
    Key(Hidden),
    /// A map would have a key twice.
    #[error("a key is inserted into its map a second time")]
    DuplicateKey,
    /// A list has no such position. Contains the index.
    #[error("an index is outside of its list")]
    Index(Hidden),
    /// A list is indexed by a value of this type, which is no position.
    #[error("a value of the type {0} is no index of a list")]
    IndexType(&'static str),
    /// A list is indexed by a number that is not whole. Contains the number.
    #[error("an index is not a whole number")]
    IndexValue(Hidden),
    /// A macro goes through the elements of a value of this type, which has none. Contains the type's name in cel-go.
    #[error("a macro goes through the elements of a value that is neither a list nor a map")]
    NotIterable(&'static str),
    /// The same for a macro with two variables.
    #[error("a macro goes through the entries of a value that is neither a list nor a map")]
    NoRange(&'static str),
    /// A text is not the text of a value of this type, to which it is converted.
    #[error("a text cannot be converted to the type {0}")]
    Conversion(&'static str),
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
    /// A function of the caller failed. Contains its message.
    #[error("a function failed")]
    Host(Hidden),
    /// A value of the object nests too deeply to be converted.
    #[error("a value that it reads is nested too deeply")]
    Depth,
    /// The expression contains something that the interpreter does not implement.
    #[error("it contains something that this host cannot evaluate")]
    Unsupported,
}

impl EvaluationError {
    /// Returns the error of a function of the caller.
    pub fn of_host(message: impl Into<String>) -> Self {
        Self::Host(Hidden(message.into()))
    }

    /// Returns the message of cel-go for this error, or `None` if the error has no counterpart or another text there. It may contain a key or
    /// an index that comes from an object, so it must not be logged.
    pub fn cel_message(&self) -> Option<String> {
        Some(match self {
            Self::Member(key) | Self::Key(Hidden(key)) => format!("no such key: {key}"),
            Self::Index(Hidden(index)) => format!("index out of bounds: {index}"),
            Self::IndexType(name) => format!("unsupported index type '{name}' in list"),
            Self::IndexValue(Hidden(value)) => format!("unsupported index value {value} in list"),
            Self::NotIterable(name) => format!("got 'types.{name}', expected iterable type"),
            Self::NoRange(name) => format!("unsupported comprehension range type: types.{name}"),
            Self::Conversion(name) => format!("type conversion error from 'string' to '{name}'"),
            Self::Host(Hidden(message)) => message.clone(),
            Self::Types(_) => "no such overload".to_owned(),
            Self::Arithmetic => "integer overflow".to_owned(),
            Self::Division => "division by zero".to_owned(),
            Self::Remainder => "modulus by zero".to_owned(),
            _ => return None,
        })
    }
}
