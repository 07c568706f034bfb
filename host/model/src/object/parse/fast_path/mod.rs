//! Parses an object of the common form in one pass.
//!
//! API servers write nearly all objects without escapes in names, without nulls in the metadata and with few top-level members. Such an
//! object is validated, and its metadata is found, in one pass over its bytes. Anything else, malformed text included, is left to the
//! general parser, which also words the errors. `tests/fast_path.rs` checks that both agree.

mod canonical;
mod members;
mod scanner;

use super::ParseOptions;
use super::reference::{OwnerHash, References};
use super::sharing::{NewObject, head_replacements_of};
use crate::object::Object;
use crate::object::json::Span;
use crate::object::json::scan::{MAX_DEPTH, is_whitespace};
use crate::object::metadata::{FieldHints, MemberStarts};
use canonical::{Output, metadata_len, write_metadata};
use members::{MetadataMembers, TopMembers};
use scanner::Scanner;
pub(super) use scanner::read_string_map;

/// A bound of the nesting of an object that was parsed here: that of its values, and the object itself.
const MAX_VALUE_DEPTH: u32 = MAX_DEPTH + 2;

/// An object that was parsed from the start of a text.
pub(super) struct ParsedObject {
    pub(super) object: Object,
    /// The length of the object in the source, in bytes.
    pub(super) len: usize,
    /// The owners whose sample this object becomes, if it resembles no remembered object.
    pub(super) sample_of: Option<OwnerHash>,
    /// The lengths of the text before the metadata in the source and in the canonical text, if the types, and nothing else, come before it in both.
    pub(super) preamble_lens: Option<(usize, usize)>,
}

/// Parses a text that is an object of the common form; `None` for others.
pub(super) fn parse(
    text: &str,
    options: &ParseOptions<'_>,
    references: &mut References<'_>,
) -> Option<ParsedObject> {
    parse_prefix(text, options, references).filter(|parsed| parsed.is_all_of(text))
}

impl ParsedObject {
    /// Returns whether only white space follows the object in the source.
    pub(super) fn is_all_of(&self, text: &str) -> bool {
        text.as_bytes()[self.len..].iter().all(|byte| is_whitespace(*byte))
    }
}

/// Parses the object that `text` starts with; `None` as for [`parse`], and if `text` ends before the object does.
pub(super) fn parse_prefix(
    text: &str,
    options: &ParseOptions<'_>,
    references: &mut References<'_>,
) -> Option<ParsedObject> {
    let transform = options.transform;
    if transform.drop_last_applied || u32::try_from(text.len()).is_err() {
        return None;
    }
    let mut scanner = Scanner {
        metadata: MetadataMembers::new(),
        owners: OwnerHash::default(),
        transform,
        shares_text: options.shares_text_after.is_some(),
        references,
    };
    let (top, compared, len) = scanner.object(text)?;
    let Scanner { metadata: metadata_members, owners, shares_text, .. } = scanner;
    // The members after the metadata, if they were validated by comparison with a known object.
    let tail = compared.as_ref().map(|(span, _)| span.of(text));
    let api_version = type_text(text, &top, "apiVersion", options.api_version)?;
    let kind = type_text(text, &top, "kind", options.kind)?;
    let others = || {
        let others =
            top.all().iter().filter(|(name, _)| !matches!(*name, "apiVersion" | "kind" | "metadata"));
        others.filter(|(name, _)| transform.keeps_member(name))
    };
    let whole_metadata = top.get("metadata")?;

    let metadata_len = metadata_len(&metadata_members, whole_metadata, transform);
    let fixed = r#"{"apiVersion":"","kind":"","metadata":}"#.len();
    let others_len: usize = others().map(|(name, value)| name.len() + value.len() + 4).sum();
    let others_len = others_len + tail.filter(|_| !shares_text).map_or(0, str::len);
    let capacity = fixed + api_version.len() + kind.len() + metadata_len + others_len;
    let mut out = Output(String::with_capacity(capacity));

    out.push("{\"apiVersion\":\"");
    let api_version = out.push(api_version);
    out.push("\",\"kind\":\"");
    let kind = out.push(kind);
    out.push("\",\"metadata\":");
    let preamble_lens = has_preamble(&top).then_some((whole_metadata.start(), out.0.len()));
    let spans = write_metadata(&mut out, text, &metadata_members, whole_metadata, transform);
    let metadata_end = out.0.len();
    let mut members = MemberStarts::within(MAX_VALUE_DEPTH);
    for (name, value) in others() {
        members.push(out.0.len());
        out.member(",", name, value.of(text));
    }
    let end = out.0.len() + tail.map_or(0, str::len);

    let mut metadata =
        spans.metadata(&out.0, api_version, kind, Span::of_range(metadata_end, end), references.key())?;
    // How the text is made from that of the known object, if the two may share it.
    let recipe = match (&compared, options.shares_text_after) {
        (Some((span, compared)), Some(after)) => {
            let (known, resembling) = references.note_resembling(owners)?;
            let may_be_base = known.is_base() || resembling.is_some_and(|count| count >= after);
            let new = NewObject { head: [&out.0, "", ""], tail: span.of(text), metadata: &metadata };
            new.recipe(known, || head_replacements_of(known, &out.0, &metadata), compared, may_be_base)
        }
        _ => None,
    };
    (metadata.members, metadata.hints) = match compared {
        Some((_, compared)) => compared.moved_to(metadata_end),
        None => (members, FieldHints::default()),
    };
    let sample_of = (tail.is_none() && references.stored().is_none()).then_some(owners);
    let object = match (recipe, tail) {
        (Some((base, recipe)), Some(tail)) => {
            Object::from_base(base, &recipe, &[&out.0, tail, "}"], metadata)?
        }
        (_, tail) => {
            out.push(tail.unwrap_or_default());
            out.push("}");
            Object::plain(out.0.into_boxed_str(), metadata)
        }
    };
    Some(ParsedObject { object, len, sample_of, preamble_lens })
}

/// Returns whether the object's non-empty types, and nothing else, come before its metadata.
fn has_preamble(top: &TopMembers<'_>) -> bool {
    let [(first, _), (second, _), ("metadata", _), ..] = top.all() else { return false };
    let is_present = |name| top.get(name).is_some_and(|raw| raw.len() > "\"\"".len());
    [*first, *second].iter().all(|name| matches!(*name, "apiVersion" | "kind"))
        && is_present("apiVersion")
        && is_present("kind")
}

/// Returns `apiVersion` or `kind`: the object's own, or the default if it has none.
fn type_text<'a>(text: &'a str, top: &TopMembers<'_>, field: &str, default: &'a str) -> Option<&'a str> {
    let own = match top.get(field) {
        Some(raw) => plain_string(raw.of(text))?,
        None => "",
    };
    if !own.is_empty() {
        return Some(own);
    }
    let is_plain = default.bytes().all(|byte| byte >= 0x20 && byte != b'"' && byte != b'\\');
    (is_plain && !default.is_empty()).then_some(default)
}

/// Returns the content of a JSON string without escapes; `None` for any other value.
pub(super) fn plain_string(raw: &str) -> Option<&str> {
    let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
    memchr::memchr(b'\\', inner.as_bytes()).is_none().then_some(inner)
}
