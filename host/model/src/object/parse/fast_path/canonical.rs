//! Writes the canonical text of an object, and notes where its metadata is.

use super::super::Transform;
use super::members::MetadataMembers;
use super::plain_string;
use crate::ObjectKey;
use crate::object::json::Span;
use crate::object::metadata::{FieldHints, MemberStarts, Metadata, StringField, StringMap};

/// The canonical text that is being written.
pub(super) struct Output(pub(super) String);

impl Output {
    /// Appends `text` and returns its range.
    pub(super) fn push(&mut self, text: &str) -> Span {
        let start = self.0.len();
        self.0.push_str(text);
        Span::of_range(start, self.0.len())
    }

    /// Appends `separator` and a member, and returns the range of its value.
    pub(super) fn member(&mut self, separator: &str, name: &str, value: &str) -> Span {
        self.0.push_str(separator);
        self.0.push('"');
        self.0.push_str(name);
        self.0.push_str("\":");
        self.push(value)
    }
}

/// Returns the length of the metadata that [`write_metadata`] writes, if its members have no white space around their tokens.
pub(super) fn metadata_len(members: &MetadataMembers<'_>, whole: Span, transform: &Transform) -> usize {
    if transform.drop_managed_fields {
        let kept = members.all().iter().filter(|(name, _)| *name != "managedFields");
        kept.map(|(name, value)| name.len() + value.len() + 4).sum::<usize>().max(1) + 1
    } else {
        whole.len()
    }
}

/// Writes the metadata without the managed fields that are dropped, and returns the ranges of its members.
pub(super) fn write_metadata(
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

/// The ranges of the values of parsed metadata members in the canonical text.
#[derive(Default)]
pub(super) struct MetadataSpans {
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
    pub(super) fn metadata(
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
