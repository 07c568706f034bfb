//! Parses an object of the common form in one pass.
//!
//! API servers write nearly all objects without escapes in names, without nulls in the metadata and with few top-level members. Such an
//! object is validated, and its metadata is found, in one pass over its bytes. Anything else, malformed text included, is left to the
//! general parser, which also words the errors. `tests/fast_path.rs` checks that both agree.

use super::reference::{OwnerHash, References};
use super::sharing::{NewObject, head_replacements_of};
use super::tail::{self, Tail};
use super::{ParseOptions, Transform};
use crate::ObjectKey;
use crate::object::Object;
use crate::object::json::Span;
use crate::object::json::scan::{Cursor, MAX_DEPTH, is_whitespace};
use crate::object::metadata::{FieldHints, MemberStarts, Metadata, StringField, StringMap};

/// The members of one object in document order, without an allocation: their names and the ranges of their values.
struct MemberSpans<'a, const N: usize> {
    members: [(&'a str, Span); N],
    len: usize,
}

impl<'a, const N: usize> MemberSpans<'a, N> {
    fn new() -> Self {
        Self { members: [("", Span::default()); N], len: 0 }
    }

    fn all(&self) -> &[(&'a str, Span)] {
        &self.members[..self.len]
    }

    /// Adds a member. Gives up on a duplicate name, and if there are more than `N` members.
    fn push(&mut self, name: &'a str, value: Span) -> Option<()> {
        if self.all().iter().any(|(known, _)| *known == name) {
            return None;
        }
        *self.members.get_mut(self.len)? = (name, value);
        self.len += 1;
        Some(())
    }

    fn get(&self, name: &str) -> Option<Span> {
        self.all().iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }
}

/// A bound of the nesting of an object that was parsed here: that of its values, and the object itself.
const MAX_VALUE_DEPTH: u32 = MAX_DEPTH + 2;

type TopMembers<'a> = MemberSpans<'a, 16>;
type MetadataMembers<'a> = MemberSpans<'a, 24>;

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
    let tail = compared.as_ref().map(|(span, _)| span.of(text));
    let api_version = type_text(text, &top, "apiVersion", options.api_version)?;
    let kind = type_text(text, &top, "kind", options.kind)?;
    let others = || {
        let others =
            top.all().iter().filter(|(name, _)| !matches!(*name, "apiVersion" | "kind" | "metadata"));
        others.filter(|(name, _)| transform.keeps_member(name))
    };
    let whole_metadata = top.get("metadata")?;

    let metadata_len = if transform.drop_managed_fields {
        let kept = metadata_members.all().iter().filter(|(name, _)| *name != "managedFields");
        kept.map(|(name, value)| name.len() + value.len() + 4).sum::<usize>().max(1) + 1
    } else {
        whole_metadata.len()
    };
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

/// Writes the metadata without the managed fields that are dropped, and returns the ranges of its members.
fn write_metadata(
    out: &mut Output,
    text: &str,
    members: &MetadataMembers<'_>,
    whole: Span,
    transform: &Transform,
) -> MetadataSpans {
    let mut spans = MetadataSpans::default();
    if !transform.drop_managed_fields {
        let moved = out.push(whole.of(text));
        for (name, value) in members.all() {
            spans.note(name, value.moved(whole, moved));
        }
        return spans;
    }
    let keeps = |name: &str| name != "managedFields";
    let (copied, others, compact) = split_compact(text, members, whole, keeps);
    let moved = out.push(copied.of(text));
    for (name, value) in compact {
        spans.note(name, value.moved(copied, moved));
    }
    let mut separator = if compact.is_empty() { "{" } else { "," };
    for (name, value) in others.iter().filter(|(name, _)| keeps(name)) {
        let value = out.member(std::mem::replace(&mut separator, ","), name, value.of(text));
        spans.note(name, value);
    }
    out.push(if separator == "{" { "{}" } else { "}" });
    spans
}

/// Members of an object: their names and the ranges of their values.
type Spans<'m, 'a> = &'m [(&'a str, Span)];

/// Splits the members of `object` after the first ones that are kept and that have no white space around their tokens, so that they can be
/// copied at once. Returns the range of the latter with the bracket before them, the other members, and the latter.
fn split_compact<'m, 'a>(
    text: &str,
    members: &'m MetadataMembers<'a>,
    object: Span,
    keeps: impl Fn(&str) -> bool,
) -> (Span, Spans<'m, 'a>, Spans<'m, 'a>) {
    let (start, mut end) = (object.start(), object.start());
    let is_compact = |(name, value): &&(&str, Span)| {
        let name_start = Span::of_slice(text, name).start();
        // A bracket or a comma and a quote come before the name, a quote and a colon after it.
        let is_compact = name_start == end + 2 && value.start() == name_start + name.len() + 2 && keeps(name);
        if is_compact {
            end = value.end();
        }
        is_compact
    };
    let count = members.all().iter().take_while(is_compact).count();
    let (compact, others) = members.all().split_at(count);
    (Span::of_range(start, end), others, compact)
}

/// Returns whether the object's non-empty types, and nothing else, come before its metadata.
fn has_preamble(top: &TopMembers<'_>) -> bool {
    let [(first, _), (second, _), ("metadata", _), ..] = top.all() else { return false };
    let is_present = |name| top.get(name).is_some_and(|raw| raw.len() > "\"\"".len());
    [*first, *second].iter().all(|name| matches!(*name, "apiVersion" | "kind"))
        && is_present("apiVersion")
        && is_present("kind")
}

/// Validates one object and collects its members.
struct Scanner<'a, 'f, 'c> {
    metadata: MetadataMembers<'a>,
    owners: OwnerHash,
    transform: &'f Transform,
    shares_text: bool,
    references: &'f mut References<'c>,
}

/// The top-level members of an object, the range of those that were validated by comparison, and the object's length.
type Scanned<'a> = (TopMembers<'a>, Option<(Span, Tail)>, usize);

impl<'a> Scanner<'a, '_, '_> {
    /// Returns the top-level members, the range of those after the metadata if they were validated by comparison (then they are not among
    /// the former), and the object's length.
    fn object(&mut self, text: &'a str) -> Option<Scanned<'a>> {
        let mut cursor = Cursor::new(text);
        let mut top = TopMembers::new();
        let mut tail = None;
        cursor.members(|cursor, name| {
            let start = cursor.at();
            if name != "metadata" {
                cursor.value()?;
                return top.push(name, cursor.since(start));
            }
            self.metadata(cursor)?;
            top.push(name, cursor.since(start))?;
            let only_types =
                top.all().iter().all(|(name, _)| matches!(*name, "apiVersion" | "kind" | "metadata"));
            if only_types && self.transform.keeps_all_members() {
                tail = self.tail(cursor);
            }
            Some(())
        })?;
        Some((top, tail, cursor.at()))
    }

    fn metadata(&mut self, cursor: &mut Cursor<'a>) -> Option<()> {
        cursor.members(|cursor, name| {
            let start = cursor.at();
            match name {
                "labels" => {
                    self.same_as_stored(cursor, |known| known.labels.span())
                        .or_else(|| read_string_map(cursor))?;
                }
                "annotations" => {
                    self.same_as_stored(cursor, |known| known.annotations.span())
                        .or_else(|| read_string_map(cursor))?;
                }
                "ownerReferences" => {
                    self.same_as_stored(cursor, |known| known.owner_references)
                        .or_else(|| cursor.elements(read_owner))?;
                    self.owners = OwnerHash::of(cursor.since(start).of(cursor.text()));
                }
                "managedFields" if self.transform.drop_managed_fields => {
                    self.references.read_managed_fields(cursor, self.owners)?;
                }
                _ => cursor.value()?,
            }
            self.metadata.push(name, cursor.since(start))
        })
    }

    /// Reads a value that is the same in the stored version.
    fn same_as_stored(&mut self, cursor: &mut Cursor<'a>, span: impl Fn(&Metadata) -> Span) -> Option<()> {
        let known = self.stored(cursor)?;
        let value = span(known.metadata()).of(known.json());
        // Only such a value ends with its own last byte, whatever follows.
        let is_delimited = value.ends_with(['}', ']']);
        is_delimited.then(|| cursor.literal(value))?
    }

    /// Returns the stored version. Looks it up if that has not been done and the name has been read.
    fn stored(&mut self, cursor: &Cursor<'a>) -> Option<&Object> {
        if self.references.was_looked_up() {
            return self.references.stored();
        }
        let text = |name| self.metadata.get(name).and_then(|raw| plain_string(raw.of(cursor.text())));
        self.references.look_up(text("namespace").unwrap_or_default(), text("name")?)
    }

    /// Reads all members after the metadata by comparing them with a known object. No other member may follow: the names of the compared
    /// members are not collected, so a duplicate of one of them would not be noticed.
    fn tail(&mut self, cursor: &mut Cursor<'a>) -> Option<(Span, Tail)> {
        self.stored(cursor);
        let known = self.references.known(self.owners)?;
        let tail = tail::compare(known, cursor.rest(), self.shares_text)?;
        if cursor.rest().as_bytes().get(tail.len()) != Some(&b'}') {
            return None;
        }
        let start = cursor.at();
        cursor.skip_bytes(tail.len())?;
        Some((cursor.since(start), tail))
    }
}

/// Reads a map of strings without duplicate names.
pub(super) fn read_string_map(cursor: &mut Cursor<'_>) -> Option<()> {
    let mut names = MemberSpans::<32>::new();
    cursor.members(|cursor, name| {
        names.push(name, Span::default())?;
        cursor.string()
    })
}

/// Reads an owner reference that has each member that [`OwnerReference`](crate::OwnerReference) needs, without duplicates.
fn read_owner(cursor: &mut Cursor<'_>) -> Option<()> {
    let mut members = MemberSpans::<12>::new();
    cursor.members(|cursor, name| {
        members.push(name, Span::default())?;
        match name {
            "apiVersion" | "kind" | "name" | "uid" => cursor.plain_string().map(|_| ()),
            "controller" => cursor.boolean(),
            _ => cursor.value(),
        }
    })?;
    ["apiVersion", "kind", "name", "uid"].iter().all(|name| members.get(name).is_some()).then_some(())
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

/// The canonical text that is being written.
struct Output(String);

impl Output {
    /// Appends `text` and returns its range.
    fn push(&mut self, text: &str) -> Span {
        let start = self.0.len();
        self.0.push_str(text);
        Span::of_range(start, self.0.len())
    }

    /// Appends `separator` and a member, and returns the range of its value.
    fn member(&mut self, separator: &str, name: &str, value: &str) -> Span {
        self.0.push_str(separator);
        self.0.push('"');
        self.0.push_str(name);
        self.0.push_str("\":");
        self.push(value)
    }
}

/// The ranges of the values of parsed metadata members in the canonical text.
#[derive(Default)]
struct MetadataSpans {
    name: Option<Span>,
    namespace: Option<Span>,
    uid: Option<Span>,
    resource_version: Option<Span>,
    deletion_timestamp: Option<Span>,
    generation: Option<Span>,
    labels: Option<Span>,
    annotations: Option<Span>,
    owner_references: Option<Span>,
}

impl MetadataSpans {
    fn note(&mut self, name: &str, value: Span) {
        let field = match name {
            "name" => &mut self.name,
            "namespace" => &mut self.namespace,
            "uid" => &mut self.uid,
            "resourceVersion" => &mut self.resource_version,
            "deletionTimestamp" => &mut self.deletion_timestamp,
            "generation" => &mut self.generation,
            "labels" => &mut self.labels,
            "annotations" => &mut self.annotations,
            "ownerReferences" => &mut self.owner_references,
            _ => return,
        };
        *field = Some(value);
    }

    /// Returns the metadata. `key` is cloned if it is the object's key, which saves an allocation.
    fn metadata(
        &self,
        json: &str,
        api_version: Span,
        kind: Span,
        after_metadata: Span,
        key: Option<&ObjectKey>,
    ) -> Option<Metadata> {
        let text = |span: Option<Span>| match span {
            None => Some(Span::default()),
            Some(raw) => plain_string(raw.of(json)).map(|_| raw.without_quotes()),
        };
        let name = text(self.name)?.of(json);
        if name.is_empty() {
            return None;
        }
        let generation = match self.generation {
            None => 0,
            Some(raw) => raw.of(json).parse().ok()?,
        };
        let namespace = text(self.namespace)?.of(json);
        let key = key.filter(|key| key.namespace() == namespace && key.name() == name);
        Some(Metadata {
            key: key.cloned().unwrap_or_else(|| ObjectKey::new(namespace, name)),
            after_metadata,
            members: MemberStarts::default(),
            hints: FieldHints::default(),
            api_version: StringField::InText(api_version),
            kind: StringField::InText(kind),
            uid: StringField::InText(text(self.uid)?),
            resource_version: StringField::InText(text(self.resource_version)?),
            deletion_timestamp: StringField::InText(text(self.deletion_timestamp)?),
            generation,
            generation_start: self.generation.map_or(0, |raw| u32::try_from(raw.start()).unwrap_or_default()),
            labels: StringMap::at(self.labels.unwrap_or_default()),
            annotations: StringMap::at(self.annotations.unwrap_or_default()),
            owner_references: self.owner_references.unwrap_or_default(),
        })
    }
}
