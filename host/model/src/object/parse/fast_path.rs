//! Reading an object of the usual form in one pass.
//!
//! Servers write nearly all objects without escapes in names, without nulls in metadata and with few members at the top.
//! Such an object is validated, and its metadata found, in one pass over its bytes. Anything else, malformed text
//! included, is left to `parse`'s general way, which also words the errors. Both ways must agree: `tests/agreement.rs`
//! holds them together.

use super::familiar::{Familiar, Owners};
use super::follow::{Names, follow};
use super::metadata::{Farthest, Metadata, Pairs, Span, Text};
use super::parse::ParseOptions;
use super::scan::{Cursor, is_white};
use super::{Object, Transform};
use crate::ObjectKey;

/// Members of one object in their order, in place: names, and where the values are.
struct Members<'a, const N: usize> {
    members: [(&'a str, Span); N],
    len: usize,
}

impl<'a, const N: usize> Members<'a, N> {
    fn new() -> Self {
        Self { members: [("", Span::default()); N], len: 0 }
    }

    fn all(&self) -> &[(&'a str, Span)] {
        &self.members[..self.len]
    }

    /// Gives up on a name that is there already, and when there is no room.
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

type Top<'a> = Members<'a, 16>;
type Meta<'a> = Members<'a, 24>;

/// An object of the usual form.
pub(super) struct Read {
    pub(super) json: Box<str>,
    pub(super) metadata: Metadata,
    /// How much of the text it is.
    pub(super) len: usize,
    /// Where it belongs when it was like nothing that is remembered.
    pub(super) unlike: Option<Owners>,
    /// Where the metadata starts in the text and in `json`, when the types, and nothing else, were before it in both.
    pub(super) head: Option<(usize, usize)>,
}

/// What `parse` does, for objects of the usual form; `None` for others.
pub(super) fn parse(text: &str, options: &ParseOptions<'_>, familiar: &mut Familiar<'_>) -> Option<Read> {
    parse_first(text, options, familiar).filter(|read| read.is_alone(text))
}

impl Read {
    /// Whether nothing but white space is behind it in the text.
    pub(super) fn is_alone(&self, text: &str) -> bool {
        text.as_bytes()[self.len..].iter().all(|byte| is_white(*byte))
    }
}

/// The object that `text` starts with; `None` as for `parse`, and when it has no end.
pub(super) fn parse_first(
    text: &str,
    options: &ParseOptions<'_>,
    familiar: &mut Familiar<'_>,
) -> Option<Read> {
    let transform = options.transform;
    if transform.drop_last_applied || u32::try_from(text.len()).is_err() {
        return None;
    }
    let mut scan = Scan { meta: Meta::new(), owners: Owners::default(), transform, familiar };
    let (top, tail, len) = scan.object(text)?;
    let Scan { meta, owners, .. } = scan;
    let api_version = type_text(text, &top, "apiVersion", options.api_version)?;
    let kind = type_text(text, &top, "kind", options.kind)?;
    let drops_managed = transform.drop_managed_fields;
    let keeps = |name: &str| !(drops_managed && name == "managedFields");
    let others = || {
        let others =
            top.all().iter().filter(|(name, _)| !matches!(*name, "apiVersion" | "kind" | "metadata"));
        others.filter(|(name, _)| transform.keeps(name))
    };
    let whole_meta = top.get("metadata")?;

    let meta_len = if drops_managed {
        let kept = meta.all().iter().filter(|(name, _)| keeps(name));
        kept.map(|(name, value)| name.len() + value.len() + 4).sum::<usize>().max(1) + 1
    } else {
        whole_meta.len()
    };
    let fixed = r#"{"apiVersion":"","kind":"","metadata":}"#.len();
    let others_len: usize = others().map(|(name, value)| name.len() + value.len() + 4).sum();
    let others_len = others_len + tail.map_or(0, Span::len);
    let mut out = Out(String::with_capacity(fixed + api_version.len() + kind.len() + meta_len + others_len));

    out.push("{\"apiVersion\":\"");
    let api_version = out.push(api_version);
    out.push("\",\"kind\":\"");
    let kind = out.push(kind);
    out.push("\",\"metadata\":");
    let head = is_typed(&top).then_some((whole_meta.start(), out.0.len()));
    let mut found = Found::default();
    if drops_managed {
        let mut before = "{";
        for (name, value) in meta.all().iter().filter(|(name, _)| keeps(name)) {
            let value = out.member(std::mem::replace(&mut before, ","), name, value.of(text));
            found.note(name, value);
        }
        out.push(if before == "{" { "{}" } else { "}" });
    } else {
        let moved = out.push(whole_meta.of(text));
        for (name, value) in meta.all() {
            found.note(name, value.moved(whole_meta, moved));
        }
    }
    let behind_metadata = out.0.len();
    if let Some(tail) = tail {
        out.push(tail.of(text));
    }
    for (name, value) in others() {
        out.member(",", name, value.of(text));
    }
    out.push("}");
    let json = out.0.into_boxed_str();
    let metadata = found.metadata(&json, api_version, kind, behind_metadata, familiar.key())?;
    let unlike = (tail.is_none() && familiar.known().is_none()).then_some(owners);
    Some(Read { json, metadata, len, unlike, head })
}

/// Whether the object's own types are before its metadata, and nothing else.
fn is_typed(top: &Top<'_>) -> bool {
    let [(first, _), (second, _), ("metadata", _), ..] = top.all() else { return false };
    let is_told = |name| top.get(name).is_some_and(|raw| raw.len() > "\"\"".len());
    [*first, *second].iter().all(|name| matches!(*name, "apiVersion" | "kind"))
        && is_told("apiVersion")
        && is_told("kind")
}

struct Scan<'a, 'f, 'c> {
    meta: Meta<'a>,
    owners: Owners,
    transform: &'f Transform,
    familiar: &'f mut Familiar<'c>,
}

impl<'a> Scan<'a, '_, '_> {
    /// The members at the top, and their text behind the metadata instead where that could be followed; and the object's length.
    fn object(&mut self, text: &'a str) -> Option<(Top<'a>, Option<Span>, usize)> {
        let mut cursor = Cursor::new(text);
        let mut top = Top::new();
        let mut tail = None;
        cursor.members(|cursor, name| {
            let start = cursor.at();
            if name != "metadata" {
                cursor.value()?;
                return top.push(name, cursor.since(start));
            }
            self.metadata(cursor)?;
            top.push(name, cursor.since(start))?;
            let only_type =
                top.all().iter().all(|(name, _)| matches!(*name, "apiVersion" | "kind" | "metadata"));
            if only_type && self.transform.keeps_members() {
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
                    self.same(cursor, |known| known.labels.place()).or_else(|| read_strings(cursor))?;
                }
                "annotations" => {
                    self.same(cursor, |known| known.annotations.place()).or_else(|| read_strings(cursor))?;
                }
                "ownerReferences" => {
                    self.same(cursor, |known| known.owners).or_else(|| cursor.elements(read_owner))?;
                    self.owners = Owners::of(cursor.since(start).of(cursor.text()));
                }
                "managedFields" if self.transform.drop_managed_fields => {
                    self.familiar.managed_fields(cursor, self.owners)?;
                }
                _ => cursor.value()?,
            }
            self.meta.push(name, cursor.since(start))
        })
    }

    /// Reads a value that is the same in the version that the caller has.
    fn same(&mut self, cursor: &mut Cursor<'a>, place: impl Fn(&Metadata) -> Span) -> Option<()> {
        let known = self.stored(cursor)?;
        let value = place(&known.0.metadata).of(known.json());
        // It must end by itself.
        let is_whole = value.ends_with(['}', ']']);
        is_whole.then(|| cursor.same(value))?
    }

    fn stored(&mut self, cursor: &Cursor<'a>) -> Option<&Object> {
        if self.familiar.known().is_some() {
            return self.familiar.known();
        }
        let text = |name| self.meta.get(name).and_then(|raw| plain(raw.of(cursor.text())));
        self.familiar.stored(text("namespace").unwrap_or_default(), text("name")?)
    }

    /// All members behind the metadata, where they are as in an object that is known and no others follow: the names of the tail are not
    /// collected, so a name behind it could not be recognised as a repetition.
    fn tail(&mut self, cursor: &mut Cursor<'a>) -> Option<Span> {
        self.stored(cursor);
        let known = self.familiar.known().or_else(|| self.familiar.example(self.owners))?;
        let len = follow(known.behind_metadata(), cursor.rest(), Names::Same)?;
        if cursor.rest().as_bytes().get(len) != Some(&b'}') {
            return None;
        }
        let start = cursor.at();
        cursor.skip(len)?;
        Some(cursor.since(start))
    }
}

/// A map of strings, no name twice.
fn read_strings(cursor: &mut Cursor<'_>) -> Option<()> {
    let mut names = Members::<32>::new();
    cursor.members(|cursor, name| {
        names.push(name, Span::default())?;
        cursor.string()
    })
}

/// An owner reference: the members that [`OwnerReference`](super::OwnerReference) needs, each once.
fn read_owner(cursor: &mut Cursor<'_>) -> Option<()> {
    let mut members = Members::<12>::new();
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

/// The text of `apiVersion` or `kind`: the object's own, or what is put in where it has none.
fn type_text<'a>(text: &'a str, top: &Top<'_>, field: &str, default: &'a str) -> Option<&'a str> {
    let own = match top.get(field) {
        Some(raw) => plain(raw.of(text))?,
        None => "",
    };
    let chosen = if own.is_empty() { default } else { own };
    let is_plain = chosen.bytes().all(|byte| byte >= 0x20 && byte != b'"' && byte != b'\\');
    (is_plain && !chosen.is_empty()).then_some(chosen)
}

/// What is between the quotes of a string without escapes.
pub(super) fn plain(raw: &str) -> Option<&str> {
    let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
    (!inner.as_bytes().contains(&b'\\')).then_some(inner)
}

/// The canonical text as it grows.
struct Out(String);

impl Out {
    fn push(&mut self, text: &str) -> Span {
        let start = self.0.len();
        self.0.push_str(text);
        Span::of_range(start, self.0.len())
    }

    /// Returns where the value is.
    fn member(&mut self, before: &str, name: &str, value: &str) -> Span {
        self.0.push_str(before);
        self.0.push('"');
        self.0.push_str(name);
        self.0.push_str("\":");
        self.push(value)
    }
}

/// Where the members of the metadata that are read are, in the canonical text.
#[derive(Default)]
struct Found {
    name: Option<Span>,
    namespace: Option<Span>,
    uid: Option<Span>,
    resource_version: Option<Span>,
    deletion_timestamp: Option<Span>,
    generation: Option<Span>,
    labels: Option<Span>,
    annotations: Option<Span>,
    owners: Option<Span>,
}

impl Found {
    fn note(&mut self, name: &str, value: Span) {
        let place = match name {
            "name" => &mut self.name,
            "namespace" => &mut self.namespace,
            "uid" => &mut self.uid,
            "resourceVersion" => &mut self.resource_version,
            "deletionTimestamp" => &mut self.deletion_timestamp,
            "generation" => &mut self.generation,
            "labels" => &mut self.labels,
            "annotations" => &mut self.annotations,
            "ownerReferences" => &mut self.owners,
            _ => return,
        };
        *place = Some(value);
    }

    /// `key` is taken if it is the object's.
    fn metadata(
        &self,
        json: &str,
        api_version: Span,
        kind: Span,
        behind_metadata: usize,
        key: Option<&ObjectKey>,
    ) -> Option<Metadata> {
        let text = |place: Option<Span>| match place {
            None => Some(Span::default()),
            Some(raw) => plain(raw.of(json)).map(|_| raw.inner()),
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
            behind: Span::of_range(behind_metadata, json.len() - 1),
            farthest: Farthest::default(),
            api_version: Text::Inside(api_version),
            kind: Text::Inside(kind),
            uid: Text::Inside(text(self.uid)?),
            resource_version: Text::Inside(text(self.resource_version)?),
            deletion_timestamp: Text::Inside(text(self.deletion_timestamp)?),
            generation,
            generation_at: self.generation.map_or(0, |raw| u32::try_from(raw.start()).unwrap_or_default()),
            labels: Pairs::at(self.labels.unwrap_or_default()),
            annotations: Pairs::at(self.annotations.unwrap_or_default()),
            owners: self.owners.unwrap_or_default(),
        })
    }
}
