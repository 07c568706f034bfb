//! From the server's bytes to the canonical text.

use super::familiar::Familiar;
use super::members::Members;
use super::metadata::Metadata;
use super::transform::{Transform, write_member, write_string};
use super::usual;

/// How deep values may nest, the object itself included: what the JSON decoder of Kubernetes accepts. What is deeper comes from no API server
/// and would only be a trap for those who read objects with a recursive parser.
const MAX_DEPTH: usize = 10_000;

/// Why bytes are not an object.
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
    /// Neither the object nor its list says what type it is.
    #[error("the object {name:?} has no {field}, and it was not in a list that would tell it")]
    NoType {
        /// `apiVersion` or `kind`.
        field: &'static str,
        /// The object's name.
        name: String,
    },
    /// A member of the metadata has the wrong type.
    #[error("{path} is not {expected}: {found}")]
    Field {
        /// Where.
        path: &'static str,
        /// What belongs there.
        expected: &'static str,
        /// The start of what was there.
        found: String,
    },
    /// Values are nested more deeply than any API server accepts.
    #[error("the object's values are nested more than {MAX_DEPTH} deep")]
    TooDeep,
    /// The text is 4 GiB or more.
    #[error("the object has {0} bytes, more than can be kept")]
    TooLarge(usize),
}

impl ObjectError {
    pub(super) fn field(path: &'static str, expected: &'static str, found: &str) -> Self {
        // It is told in one line.
        let found = found.chars().map(|char| if char.is_control() { ' ' } else { char });
        Self::Field { path, expected, found: found.take(80).collect() }
    }
}

/// How an object is read.
#[derive(Clone, Copy, Debug)]
pub struct ParseOptions<'a> {
    /// The `apiVersion` that is put in when the text has none ("" for an error instead).
    pub api_version: &'a str,
    /// The `kind` that is put in when the text has none ("" for an error instead).
    pub kind: &'a str,
    /// What is taken out.
    pub transform: &'a Transform,
}

impl Default for ParseOptions<'_> {
    fn default() -> Self {
        static KEEP_ALL: Transform = Transform {
            drop_managed_fields: false,
            drop_last_applied: false,
            projection: super::Projection::Full,
            keep: Vec::new(),
        };
        Self { api_version: "", kind: "", transform: &KEEP_ALL }
    }
}

pub(super) fn parse(bytes: &[u8], options: &ParseOptions<'_>) -> Result<(Box<str>, Metadata), ObjectError> {
    let text = text(bytes)?;
    if let Some(read) = usual::parse(text, options, &mut Familiar::nothing(&mut |_| None)) {
        return Ok((read.json, read.metadata));
    }
    parse_any(text, options)
}

/// The bytes as text, if there are not too many.
pub(super) fn text(bytes: &[u8]) -> Result<&str, ObjectError> {
    if u32::try_from(bytes.len()).is_err() {
        return Err(ObjectError::TooLarge(bytes.len()));
    }
    // Several times as fast as the standard library's, which words the error.
    match simdutf8::basic::from_utf8(bytes) {
        Ok(text) => Ok(text),
        Err(_) => Ok(std::str::from_utf8(bytes)?),
    }
}

/// The general way: any object, and the errors.
pub(super) fn parse_any(text: &str, options: &ParseOptions<'_>) -> Result<(Box<str>, Metadata), ObjectError> {
    let source: Members<'_> = serde_json::from_str(text)?;
    let (json, metadata) = read(text, &source, options)?;
    if metadata.key.name().is_empty() { Err(ObjectError::NoName) } else { Ok((json, metadata)) }
}

/// The same without the rule that an object has a name.
pub(super) fn parse_answer(
    bytes: &[u8],
    options: &ParseOptions<'_>,
) -> Result<(Box<str>, Metadata), ObjectError> {
    let text = text(bytes)?;
    let mut source: Members<'_> = serde_json::from_str(text)?;
    if source.get("metadata").is_none_or(|raw| raw == "null") {
        source.0.retain(|(name, _)| name != "metadata");
        source.0.push(("metadata".into(), "{}"));
    }
    read(text, &source, options)
}

fn read(
    text: &str,
    source: &Members<'_>,
    options: &ParseOptions<'_>,
) -> Result<(Box<str>, Metadata), ObjectError> {
    if is_too_deep(text) {
        return Err(ObjectError::TooDeep);
    }
    let json = canonical(text.len(), source, options)?;
    let top: Members<'_> = serde_json::from_str(&json)?;
    let metadata = Metadata::read(&json, &top)?;
    Ok((json, metadata))
}

/// Whether values of a well-formed text nest more than [`MAX_DEPTH`] deep.
fn is_too_deep(text: &str) -> bool {
    // Nearly all texts have fewer brackets than that, whatever their depth.
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

fn canonical(len: usize, source: &Members<'_>, options: &ParseOptions<'_>) -> Result<Box<str>, ObjectError> {
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
        let written = matches!(&**name, "apiVersion" | "kind" | "metadata");
        if !written && options.transform.keeps(name) {
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
            let name =
                source.get("metadata").and_then(|raw| super::pointer::find(raw, "/name")).unwrap_or("");
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
