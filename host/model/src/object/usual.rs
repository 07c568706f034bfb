//! Reading an object of the usual form in one pass.
//!
//! Servers write nearly all objects without escapes in names, without nulls in metadata and with few members at the top.
//! Such an object is validated, and its metadata found, in one pass over its bytes. Anything else, malformed text
//! included, is left to `parse`'s general way, which also words the errors. Both ways must agree: `tests/agreement.rs`
//! holds them together.

use super::metadata::{Metadata, Pairs, Span, Text};
use super::parse::ParseOptions;
use super::scan::Cursor;
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

/// What `parse` does, for objects of the usual form; `None` for others.
pub(super) fn parse(text: &str, options: &ParseOptions<'_>) -> Option<(Box<str>, Metadata)> {
    let (json, metadata, len) = parse_first(text, options)?;
    let is_alone = text.as_bytes()[len..].iter().all(|byte| matches!(byte, b' ' | b'\n' | b'\t' | b'\r'));
    is_alone.then_some((json, metadata))
}

/// The object that `text` starts with, and its length; `None` as for `parse`, and when it has no end.
pub(super) fn parse_first(text: &str, options: &ParseOptions<'_>) -> Option<(Box<str>, Metadata, usize)> {
    if options.transform.drop_last_applied || u32::try_from(text.len()).is_err() {
        return None;
    }
    let (top, meta, len) = scan(text)?;
    let api_version = type_text(text, &top, "apiVersion", options.api_version)?;
    let kind = type_text(text, &top, "kind", options.kind)?;
    let drops_managed = options.transform.drop_managed_fields;
    let keeps = |name: &str| !(drops_managed && name == "managedFields");
    let others = || {
        let others =
            top.all().iter().filter(|(name, _)| !matches!(*name, "apiVersion" | "kind" | "metadata"));
        others.filter(|(name, _)| options.transform.keeps(name))
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
    let mut out = Out(String::with_capacity(fixed + api_version.len() + kind.len() + meta_len + others_len));

    out.push("{\"apiVersion\":\"");
    let api_version = out.push(api_version);
    out.push("\",\"kind\":\"");
    let kind = out.push(kind);
    out.push("\",\"metadata\":");
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
    for (name, value) in others() {
        out.member(",", name, value.of(text));
    }
    out.push("}");
    let json = out.0.into_boxed_str();
    let metadata = found.metadata(&json, api_version, kind)?;
    Some((json, metadata, len))
}

fn scan(text: &str) -> Option<(Top<'_>, Meta<'_>, usize)> {
    let mut cursor = Cursor::new(text);
    let mut top = Top::new();
    let mut meta = Meta::new();
    cursor.members(|cursor, name| {
        let start = cursor.at();
        match name {
            "metadata" => read_metadata(cursor, &mut meta)?,
            _ => cursor.value()?,
        }
        top.push(name, cursor.since(start))
    })?;
    Some((top, meta, cursor.at()))
}

fn read_metadata<'a>(cursor: &mut Cursor<'a>, meta: &mut Meta<'a>) -> Option<()> {
    cursor.members(|cursor, name| {
        let start = cursor.at();
        match name {
            "labels" | "annotations" => read_strings(cursor)?,
            "ownerReferences" => cursor.elements(read_owner)?,
            _ => cursor.value()?,
        }
        meta.push(name, cursor.since(start))
    })
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
fn plain(raw: &str) -> Option<&str> {
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

    fn metadata(&self, json: &str, api_version: Span, kind: Span) -> Option<Metadata> {
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
        Some(Metadata {
            key: ObjectKey::new(text(self.namespace)?.of(json), name),
            api_version: Text::Inside(api_version),
            kind: Text::Inside(kind),
            uid: Text::Inside(text(self.uid)?),
            resource_version: Text::Inside(text(self.resource_version)?),
            deletion_timestamp: Text::Inside(text(self.deletion_timestamp)?),
            generation,
            labels: Pairs::at(self.labels.unwrap_or_default()),
            annotations: Pairs::at(self.annotations.unwrap_or_default()),
            owners: self.owners.unwrap_or_default(),
        })
    }
}
