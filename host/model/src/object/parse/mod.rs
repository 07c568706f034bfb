//! Parses the server's bytes into the canonical text and its metadata.
//!
//! There are three parsers with the same results. [`parse_general`] below accepts every object and words all errors. [`fast_path`] handles
//! nearly all objects in one pass. [`version_diff`] compares a new version with the stored one. Each of the latter two gives up with `None`
//! on text that it cannot handle, malformed text included. The tests in `tests/` compare their results.

mod edited_metadata;
mod fast_path;
mod managed_fields;
mod reader;
mod reference;
mod sharing;
mod tail;
#[cfg(test)]
mod tests;
mod transform;
mod version_diff;

pub use reader::ObjectReader;
pub use transform::{Projection, Transform};

use super::Object;
use super::json::members::Members;
use super::metadata::Metadata;
use super::pointer;
use reference::References;
use transform::{write_member, write_string};

/// The deepest nesting of values, including the object itself: the limit of Kubernetes' JSON decoder. No API server sends deeper objects,
/// and they would only endanger consumers that parse recursively.
const MAX_DEPTH: usize = 10_000;

/// Why bytes were refused as an object.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectError {
    /// The text is not one well-formed JSON object.
    #[error("not a well-formed JSON object: {0}")]
    Json(#[from] serde_json::Error),
    /// The bytes are not UTF-8.
    #[error("not UTF-8: {0}")]
    Utf8(#[from] std::str::Utf8Error),
    /// `metadata.name` is absent or empty.
    #[error("the object has no metadata.name")]
    NoName,
    /// Neither the object nor its list has a type.
    #[error("the object {name:?} has no {field}, and no list or watch supplies one")]
    NoType {
        /// `apiVersion` or `kind`.
        field: &'static str,
        /// The object's name.
        name: String,
    },
    /// A member of the metadata has the wrong type.
    #[error("{path} is not {expected}: {found}")]
    Field {
        /// The path of the field, such as `metadata.labels`.
        path: &'static str,
        /// The expected type.
        expected: &'static str,
        /// The start of the text that was found.
        found: String,
    },
    /// Values are nested deeper than any API server accepts.
    #[error("the object's values are nested more than {MAX_DEPTH} deep")]
    TooDeep,
    /// The text is 4 GiB or more.
    #[error("the object has {0} bytes; the limit is 4 GiB")]
    TooLarge(usize),
}

impl ObjectError {
    pub(super) fn field(path: &'static str, expected: &'static str, found: &str) -> Self {
        // Error messages are a single line.
        let found = found.chars().map(|char| if char.is_control() { ' ' } else { char });
        Self::Field { path, expected, found: found.take(80).collect() }
    }
}

/// Options of [`Object::parse`](super::Object::parse). By default, an object must have its own type, and nothing is removed from it.
///
/// ```
/// use pilothouse_model::{ParseOptions, Transform};
///
/// let transform = Transform::standard();
/// let options = ParseOptions::default().with_type("v1", "Pod").with_transform(&transform);
/// assert_eq!((options.api_version, options.kind), ("v1", "Pod"));
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ParseOptions<'a> {
    /// The `apiVersion` of an object that has none, as in a list of a built-in type. If this is empty too, that is an error.
    pub api_version: &'a str,
    /// The `kind` of an object that has none. If this is empty too, that is an error.
    pub kind: &'a str,
    /// What is removed from the object.
    pub transform: &'a Transform,
    /// After how many objects with the same owners an [`ObjectReader`] stores the text of a further one as copies from another one's. That
    /// takes less memory. The text is then written anew for each [view](crate::PackedObject) that reads it. `None`, the default, is never.
    pub shares_text_after: Option<u32>,
}

impl<'a> ParseOptions<'a> {
    /// Sets the type of objects that have none: [`api_version`](Self::api_version) and [`kind`](Self::kind).
    #[inline]
    #[must_use]
    pub fn with_type(self, api_version: &'a str, kind: &'a str) -> Self {
        Self { api_version, kind, ..self }
    }

    /// Sets what is removed from the object: [`transform`](Self::transform).
    #[inline]
    #[must_use]
    pub fn with_transform(self, transform: &'a Transform) -> Self {
        Self { transform, ..self }
    }

    /// Sets after how many objects texts are stored as copies from others: [`shares_text_after`](Self::shares_text_after).
    #[inline]
    #[must_use]
    pub fn with_shared_text(self, after: impl Into<Option<u32>>) -> Self {
        Self { shares_text_after: after.into(), ..self }
    }
}

impl Default for ParseOptions<'_> {
    #[inline]
    fn default() -> Self {
        static KEEP_ALL: Transform = Transform {
            drop_managed_fields: false,
            drop_last_applied: false,
            projection: super::Projection::Full,
            keep: Vec::new(),
        };
        Self { api_version: "", kind: "", transform: &KEEP_ALL, shares_text_after: None }
    }
}

/// Parses an object: on the fast path, or else with the general parser.
pub(super) fn parse(bytes: &[u8], options: &ParseOptions<'_>) -> Result<Object, ObjectError> {
    let text = to_text(bytes)?;
    if let Some(parsed) = fast_path::parse(text, options, &mut References::none(&mut |_| None)) {
        return Ok(parsed.object);
    }
    let (json, metadata) = parse_general(text, options)?;
    Ok(Object::plain(json, metadata))
}

/// Parses the object that `text` starts with, and returns its length in `text` too; see [`super::Object::parse_prefix`].
pub(super) fn parse_prefix(text: &str, options: &ParseOptions<'_>) -> Option<(Object, usize)> {
    let parsed = fast_path::parse_prefix(text, options, &mut References::none(&mut |_| None))?;
    Some((parsed.object, parsed.len))
}

/// Validates that the bytes are UTF-8 and less than 4 GiB.
fn to_text(bytes: &[u8]) -> Result<&str, ObjectError> {
    if u32::try_from(bytes.len()).is_err() {
        return Err(ObjectError::TooLarge(bytes.len()));
    }
    // simdutf8 is several times as fast as the standard library, but does not say where the error is.
    match simdutf8::basic::from_utf8(bytes) {
        Ok(text) => Ok(text),
        Err(_) => Ok(std::str::from_utf8(bytes)?),
    }
}

/// The general parser: parses any object with `serde_json`, and words the errors.
fn parse_general(text: &str, options: &ParseOptions<'_>) -> Result<(Box<str>, Metadata), ObjectError> {
    let source: Members<'_> = serde_json::from_str(text)?;
    let (json, metadata) = canonicalize(text, &source, options)?;
    if metadata.key.name().is_empty() { Err(ObjectError::NoName) } else { Ok((json, metadata)) }
}

/// Parses the body of a response, which need not have metadata or a name; see [`super::Object::parse_response`].
pub(super) fn parse_response(
    bytes: &[u8],
    options: &ParseOptions<'_>,
) -> Result<(Box<str>, Metadata), ObjectError> {
    let text = to_text(bytes)?;
    let mut source: Members<'_> = serde_json::from_str(text)?;
    if source.get("metadata").is_none_or(|raw| raw == "null") {
        source.0.retain(|(name, _)| name != "metadata");
        source.0.push(("metadata".into(), "{}"));
    }
    canonicalize(text, &source, options)
}

fn canonicalize(
    text: &str,
    source: &Members<'_>,
    options: &ParseOptions<'_>,
) -> Result<(Box<str>, Metadata), ObjectError> {
    if is_too_deep(text) {
        return Err(ObjectError::TooDeep);
    }
    let json = canonical_json(text.len(), source, options)?;
    let top: Members<'_> = serde_json::from_str(&json)?;
    let metadata = Metadata::read(&json, &top)?;
    Ok((json, metadata))
}

/// Returns whether the values of well-formed text nest deeper than [`MAX_DEPTH`].
fn is_too_deep(text: &str) -> bool {
    // Nearly all texts have fewer brackets than that in total.
    if memchr::memchr2_iter(b'{', b'[', text.as_bytes()).nth(MAX_DEPTH).is_none() {
        return false;
    }
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    text.bytes().any(|byte| {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_string,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            _ => {}
        }
        depth > MAX_DEPTH
    })
}

/// Writes the type, the metadata and the other members in canonical order, without what the transform removes. `len` is the length of the
/// source.
fn canonical_json(
    len: usize,
    source: &Members<'_>,
    options: &ParseOptions<'_>,
) -> Result<Box<str>, ObjectError> {
    let mut out = String::with_capacity(len + options.api_version.len() + options.kind.len() + 32);
    let mut first = true;
    out.push('{');
    write_type(&mut out, &mut first, source, "apiVersion", options.api_version)?;
    write_type(&mut out, &mut first, source, "kind", options.kind)?;
    if let Some(raw) = source.get("metadata") {
        if options.transform.keeps_metadata() {
            write_member(&mut out, &mut first, "metadata", raw);
        } else {
            let metadata: Members<'_> =
                serde_json::from_str(raw).map_err(|_| ObjectError::field("metadata", "an object", raw))?;
            out.push_str(",\"metadata\":");
            options.transform.write_metadata(&mut out, &metadata);
        }
    }
    for (name, raw) in &source.0 {
        let is_written = matches!(&**name, "apiVersion" | "kind" | "metadata");
        if !is_written && options.transform.keeps_member(name) {
            write_member(&mut out, &mut first, name, raw);
        }
    }
    out.push('}');
    Ok(out.into_boxed_str())
}

fn write_type(
    out: &mut String,
    first: &mut bool,
    source: &Members<'_>,
    field: &'static str,
    default: &str,
) -> Result<(), ObjectError> {
    match source.get(field) {
        Some(raw) if raw != "\"\"" && raw != "null" => write_member(out, first, field, raw),
        _ if default.is_empty() => {
            let name = source.get("metadata").and_then(|raw| pointer::find(raw, "/name")).unwrap_or("");
            return Err(ObjectError::NoType { field, name: name.trim_matches('"').to_owned() });
        }
        _ => {
            let mut quoted = String::with_capacity(default.len() + 2);
            write_string(&mut quoted, default);
            write_member(out, first, field, &quoted);
        }
    }
    Ok(())
}
