//! A finished span.

use super::ids::{SpanContext, SpanId};

/// Limit in bytes for the text of an attribute.
pub(crate) const MAX_TEXT: usize = 256;

/// One finished span. Contains names, versions and codes, but no content of objects and no text that a plugin wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The span and its trace.
    pub context: SpanContext,
    /// The parent, which is in the same trace; `None` for the root of a trace.
    pub parent: Option<SpanId>,
    /// The name.
    pub name: &'static str,
    /// The kind.
    pub kind: SpanKind,
    /// When it began, in nanoseconds since the Unix epoch.
    pub start: u64,
    /// When it ended, in nanoseconds since the Unix epoch.
    pub end: u64,
    /// The attributes, each once.
    pub attributes: Vec<Attribute>,
    /// Spans that led to this one.
    pub links: Vec<SpanContext>,
    /// Whether what it describes failed.
    pub is_error: bool,
}

/// The kind of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// Work within the host.
    Internal,
    /// A request that the host sent.
    Client,
    /// A message that the host received.
    Consumer,
}

/// A name and a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// The name.
    pub name: &'static str,
    /// The value.
    pub value: AttributeValue,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttributeValue {
    /// A text of at most 256 bytes.
    Text(String),
    /// A number.
    Number(i64),
}

impl Attribute {
    /// Creates an attribute with a text, which is cut if it is too long.
    pub(crate) fn text(name: &'static str, text: &str) -> Self {
        let text = text[..text.floor_char_boundary(MAX_TEXT)].to_owned();
        Self { name, value: AttributeValue::Text(text) }
    }

    /// Creates an attribute with a number.
    pub(crate) fn number(name: &'static str, number: impl Into<i64>) -> Self {
        Self { name, value: AttributeValue::Number(number.into()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let cut = |text: &str| match Attribute::text("a", text).value {
            AttributeValue::Text(text) => text.len(),
            AttributeValue::Number(_) => 0,
        };
        assert_eq!((cut("short"), cut(&"x".repeat(300)), cut(&"ä€".repeat(100))), (5, 256, 255));
    }
}
