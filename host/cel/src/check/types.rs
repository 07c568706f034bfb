//! The types of the checker.

use std::fmt::{self, Write};
use std::sync::Arc;

/// The longest text of a type in bytes. A longer one is cut.
const MAX_TEXT: usize = 512;

/// The type of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// A value of any type. Its operations are checked when the expression is evaluated.
    Dyn,
    /// The type of an expression with an error, which was reported. Every operation accepts it.
    Error,
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool,
    /// A signed integer.
    Int,
    /// An unsigned integer.
    Uint,
    /// A number with a fraction.
    Double,
    /// A text.
    String,
    /// Binary data.
    Bytes,
    /// A point in time.
    Timestamp,
    /// A length of time.
    Duration,
    /// The type of a type such as `int`.
    Type(Arc<Type>),
    /// A list, with the type of its elements.
    List(Arc<Type>),
    /// A map, with the types of its keys and values.
    Map(Arc<(Type, Type)>),
    /// An optional value.
    Optional(Arc<Type>),
    /// A type of a library, such as `kubernetes.Quantity`.
    Library(&'static str),
    /// An object of the caller, whose members [`super::Objects`] knows.
    Object {
        /// Identifies the type.
        id: usize,
        /// The name in messages.
        name: Arc<str>,
    },
    /// A type parameter: in a declaration its number there, during a check the number of a variable that [`super::unify`] binds.
    Parameter(usize),
}

impl Type {
    /// Returns the type of lists of this type.
    pub fn list(element: Self) -> Self {
        Self::List(Arc::new(element))
    }

    /// Returns the type of maps from keys to values.
    pub fn map(key: Self, value: Self) -> Self {
        Self::Map(Arc::new((key, value)))
    }

    /// Returns the type of optional values of this type.
    pub fn optional(value: Self) -> Self {
        Self::Optional(Arc::new(value))
    }

    /// Whether any operation accepts a value of this type.
    pub(super) fn is_dyn_or_error(&self) -> bool {
        matches!(self, Self::Dyn | Self::Error)
    }

    /// Whether `null` is a value of this type.
    pub(super) fn is_nullable(&self) -> bool {
        matches!(
            self,
            Self::Null
                | Self::Optional(_)
                | Self::Object { .. }
                | Self::Library(_)
                | Self::Duration
                | Self::Timestamp
        )
    }
}

/// The text of cel-go, cut after [`MAX_TEXT`] bytes.
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Text(String::new());
        let is_complete = write_type(&mut text, self).is_ok();
        f.write_str(&text.0)?;
        if is_complete { Ok(()) } else { f.write_str("…") }
    }
}

/// A text of at most [`MAX_TEXT`] bytes.
struct Text(String);

impl Write for Text {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        if self.0.len() + part.len() > MAX_TEXT {
            return Err(fmt::Error);
        }
        self.0.push_str(part);
        Ok(())
    }
}

fn write_type(text: &mut Text, ty: &Type) -> fmt::Result {
    match ty {
        Type::Dyn | Type::Parameter(_) => text.write_str("dyn"),
        Type::Error => text.write_str("!error!"),
        Type::Null => text.write_str("null"),
        Type::Bool => text.write_str("bool"),
        Type::Int => text.write_str("int"),
        Type::Uint => text.write_str("uint"),
        Type::Double => text.write_str("double"),
        Type::String => text.write_str("string"),
        Type::Bytes => text.write_str("bytes"),
        Type::Timestamp => text.write_str("timestamp"),
        Type::Duration => text.write_str("duration"),
        Type::Library(name) => text.write_str(name),
        Type::Object { name, .. } => text.write_str(name),
        Type::Type(inner) => write_parameters(text, "type", &[inner]),
        Type::List(element) => write_parameters(text, "list", &[element]),
        Type::Optional(value) => write_parameters(text, "optional_type", &[value]),
        Type::Map(types) => write_parameters(text, "map", &[&types.0, &types.1]),
    }
}

fn write_parameters(text: &mut Text, name: &str, parameters: &[&Type]) -> fmt::Result {
    text.write_str(name)?;
    for (index, parameter) in parameters.iter().enumerate() {
        text.write_str(if index == 0 { "(" } else { ", " })?;
        write_type(text, parameter)?;
    }
    text.write_str(")")
}
