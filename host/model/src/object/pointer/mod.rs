//! Looks up RFC 6901 pointers in JSON text by skipping values, without a tree.
//!
//! A lookup starts as near to the value as the object's [`Metadata`] allows: at a metadata field whose range is kept, at the end of the
//! metadata, or at a hint that an earlier lookup left.

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use super::json::scan::Cursor;
use super::metadata::Metadata;

/// The result of a lookup that scans the text: a value's raw text, or a cursor at its start.
enum Lookup<T> {
    Found(T),
    Absent,
    /// The metadata and its hints are not enough, or a name has escapes: the text must be searched from its beginning.
    Inconclusive,
}

impl<'a> Lookup<&'a str> {
    /// Returns the value that a search of the whole text has found.
    fn found(self) -> Option<&'a str> {
        match self {
            Self::Found(value) => Some(value),
            // A search of the whole text is inconclusive for malformed text only.
            Self::Absent | Self::Inconclusive => None,
        }
    }
}

impl<'a> Lookup<Cursor<'a>> {
    /// Returns the raw text of the value at the cursor.
    fn value(self) -> Lookup<&'a str> {
        match self {
            Self::Found(cursor) => {
                let (start, mut end) = (cursor.at(), cursor);
                let value = end.skip_value().and_then(|()| cursor.text().get(start..end.at()));
                value.map_or(Lookup::Inconclusive, Lookup::Found)
            }
            Self::Absent => Lookup::Absent,
            Self::Inconclusive => Lookup::Inconclusive,
        }
    }

    /// The result of a scan that ends early at the value that it looks for.
    fn of_scan(found: Option<Cursor<'a>>, scanned: Option<()>) -> Self {
        match (found, scanned) {
            (Some(child), _) => Self::Found(child),
            (None, Some(())) => Self::Absent,
            (None, None) => Self::Inconclusive,
        }
    }
}

/// Returns the raw text of the value at `pointer` in well-formed text.
pub(super) fn find<'a>(json: &'a str, pointer: &str) -> Option<&'a str> {
    if pointer.is_empty() {
        return Some(json);
    }
    let tokens = pointer.strip_prefix('/')?;
    resolve(Cursor::new(json), tokens).value().found()
}

/// As [`find`], in an object with this metadata.
pub(super) fn find_in<'a>(json: &'a str, metadata: &Metadata, pointer: &str) -> Option<&'a str> {
    match value_in(json, metadata, pointer) {
        Lookup::Found(value) => Some(value),
        Lookup::Absent => None,
        Lookup::Inconclusive => find(json, pointer),
    }
}

/// As [`find_in`] for each of several pointers, in their order. Pointers with the same parent are found in one pass over that parent.
pub(super) fn find_all<'a, P: AsRef<str>>(
    json: &'a str,
    metadata: &Metadata,
    pointers: &[P],
) -> Vec<Option<&'a str>> {
    let mut found = vec![None; pointers.len()];
    for (first, pointer) in pointers.iter().map(AsRef::as_ref).enumerate() {
        // Single lookups of top-level members and metadata fields are fast, thanks to their kept ranges and hints.
        let parent = parent_of(pointer).filter(|parent| !matches!(*parent, "" | "/metadata"));
        let Some(parent) = parent else {
            found[first] = find_in(json, metadata, pointer);
            continue;
        };
        let is_sibling = |other: &P| parent_of(other.as_ref()) == Some(parent);
        if pointers[..first].iter().any(is_sibling) {
            // Found together with that sibling.
            continue;
        }
        let siblings = pointers[first..].iter().filter(|other| is_sibling(other)).count();
        if siblings > 1 && find_siblings(json, metadata, parent, pointers, &mut found) {
            continue;
        }
        for (value, other) in
            found.iter_mut().zip(pointers).skip(first).filter(|(_, other)| is_sibling(other))
        {
            *value = find_in(json, metadata, other.as_ref());
        }
    }
    found
}

/// Returns a pointer without its last token.
fn parent_of(pointer: &str) -> Option<&str> {
    pointer.rfind('/').map(|end| &pointer[..end])
}

/// Returns the last token of a pointer with this parent.
fn name_in<'p>(parent: &str, pointer: &'p str) -> Option<&'p str> {
    pointer.strip_prefix(parent)?.strip_prefix('/').filter(|name| !name.contains('/'))
}

/// Finds the values of all pointers with this parent, which is an object. Returns `false` if each must be found on its own.
fn find_siblings<'a, P: AsRef<str>>(
    json: &'a str,
    metadata: &Metadata,
    parent: &str,
    pointers: &[P],
    found: &mut [Option<&'a str>],
) -> bool {
    let mut parent_cursor = match resolve_in(json, metadata, parent) {
        Lookup::Found(cursor) if cursor.first() == Some(b'{') => cursor,
        Lookup::Absent => return true,
        Lookup::Found(_) | Lookup::Inconclusive => return false,
    };
    let mut names = pointers.iter().filter_map(|pointer| name_in(parent, pointer.as_ref()));
    let mut missing = names.clone().count();
    if names.any(|name| name.contains('~')) {
        return false;
    }
    let scanned = parent_cursor.members(|cursor, member| {
        let start = cursor.at();
        cursor.skip_value()?;
        let value = cursor.text().get(start..cursor.at());
        for (found, pointer) in found.iter_mut().zip(pointers) {
            // The first of duplicate names counts.
            let pointer = pointer.as_ref();
            if found.is_none() && pointer.ends_with(member) && name_in(parent, pointer) == Some(member) {
                *found = value;
                missing -= 1;
            }
        }
        // End the scan when all values are found.
        (missing > 0).then_some(())
    });
    scanned.is_some() || missing == 0
}

fn value_in<'a>(json: &'a str, metadata: &Metadata, pointer: &str) -> Lookup<&'a str> {
    if let Some(name) = pointer.strip_prefix("/metadata/")
        && let Some(value) = metadata.member_span(name).and_then(|span| span.get(json))
    {
        return Lookup::Found(value);
    }
    resolve_in(json, metadata, pointer).value()
}

/// Resolves a pointer in an object with this metadata.
fn resolve_in<'a>(json: &'a str, metadata: &Metadata, pointer: &str) -> Lookup<Cursor<'a>> {
    match split(pointer) {
        Some(("metadata", Some(rest))) => {
            let field = split(rest).and_then(|(name, rest)| {
                let value = metadata.member_span(name)?.get(json)?;
                Some((Cursor::new(value), rest))
            });
            match field {
                Some((cursor, None)) => Lookup::Found(cursor),
                Some((cursor, Some(rest))) => resolve(cursor, &rest[1..]),
                None => Lookup::Inconclusive,
            }
        }
        // These members come before the end of the metadata, and an escaped name may be one of them.
        None | Some(("apiVersion" | "kind" | "metadata", _)) => Lookup::Inconclusive,
        Some((name, _)) if name.contains('~') => Lookup::Inconclusive,
        Some((name, None)) => top_level(json, metadata, name),
        Some((name, Some(rest))) => resolve_below_top_level(json, metadata, name, &rest[1..]),
    }
}

/// Resolves `tokens` in the top-level member `name`, which comes after the metadata.
fn resolve_below_top_level<'a>(
    json: &'a str,
    metadata: &Metadata,
    name: &str,
    tokens: &str,
) -> Lookup<Cursor<'a>> {
    let (first, rest) = match tokens.split_once('/') {
        Some((first, rest)) => (first, Some(rest)),
        None => (tokens, None),
    };
    match (nested(json, metadata, name, first), rest) {
        (Lookup::Found(child), Some(rest)) => resolve(child, rest),
        (child, _) => child,
    }
}

/// Finds a member or element of the top-level member `name`, which comes after the metadata.
fn nested<'a>(json: &'a str, metadata: &Metadata, name: &str, token: &str) -> Lookup<Cursor<'a>> {
    let is_plain = !token.contains('~');
    let mut cursor = Cursor::new(json);
    if is_plain
        && let Some(start) = metadata.hints.find_nested(name, token, json)
        && cursor.skip_bytes(start).is_some()
    {
        return Lookup::Found(cursor);
    }
    let parent = match top_level(json, metadata, name) {
        Lookup::Found(parent) => parent,
        other => return other,
    };
    let child = resolve(parent, token);
    if let Lookup::Found(child) = &child
        && is_plain
        && parent.first() == Some(b'{')
    {
        metadata.hints.note_nested(parent.at(), child.at());
    }
    child
}

/// Finds a top-level member after the metadata.
fn top_level<'a>(json: &'a str, metadata: &Metadata, name: &str) -> Lookup<Cursor<'a>> {
    let mut cursor = Cursor::new(json);
    if let Some(start) = metadata.hints.find_top_level(name, json)
        && cursor.skip_bytes(start).is_some()
    {
        return Lookup::Found(cursor);
    }
    let mut found = None;
    let (hint_object, hint_member) = metadata.hints.nested_offsets();
    let scanned = cursor.skip_bytes(metadata.after_metadata.start()).and_then(|()| {
        cursor.remaining_members(|cursor, member| {
            if member != name && cursor.at() == hint_object && hint_member > hint_object {
                // An earlier lookup has found a member of this object, so the text before that member need not be scanned.
                cursor.skip_bytes(hint_member - hint_object)?;
                return cursor.skip_rest_of_container();
            }
            skip_unless_found(cursor, member == name, &mut found)
        })
    });
    if let Some(child) = found {
        metadata.hints.note_top_level(child.at());
    }
    Lookup::of_scan(found, scanned)
}

/// Returns the raw text of one member of an object.
pub(super) fn member<'a>(json: &'a str, name: &str) -> Option<&'a str> {
    child(Cursor::new(json), name).value().found()
}

/// Returns the first token of a pointer, and the rest of the pointer if there are more tokens.
fn split(pointer: &str) -> Option<(&str, Option<&str>)> {
    let tokens = pointer.strip_prefix('/')?;
    Some(match tokens.find('/') {
        Some(end) => (&tokens[..end], Some(&tokens[end..])),
        None => (tokens, None),
    })
}

/// Resolves the tokens of a pointer from the value at the cursor.
fn resolve<'a>(mut cursor: Cursor<'a>, tokens: &str) -> Lookup<Cursor<'a>> {
    for token in tokens.split('/') {
        let Some(token) = unescape(token) else { return Lookup::Absent };
        match child(cursor, &token) {
            Lookup::Found(child) => cursor = child,
            other => return other,
        }
    }
    Lookup::Found(cursor)
}

/// Finds a member or element of the value at the cursor. The text after that is not read, so that a lookup reads no text more than a few
/// times, however deep it goes.
fn child<'a>(cursor: Cursor<'a>, token: &str) -> Lookup<Cursor<'a>> {
    match cursor.first() {
        Some(b'{') => match member_with_plain_name(cursor, token) {
            Lookup::Inconclusive => member_with_any_name(cursor, token),
            conclusive => conclusive,
        },
        Some(b'[') => element(cursor, token),
        _ => Lookup::Absent,
    }
}

/// Finds a member of the object at the cursor. Inconclusive if a name before it has escapes.
fn member_with_plain_name<'a>(mut cursor: Cursor<'a>, token: &str) -> Lookup<Cursor<'a>> {
    let (start, mut found) = (cursor.at(), None);
    let scanned = cursor.members(|cursor, name| skip_unless_found(cursor, name == token, &mut found));
    count_scanned(start, &cursor);
    Lookup::of_scan(found, scanned)
}

/// Finds a member of the object at the cursor, and decodes the names before it.
fn member_with_any_name<'a>(mut cursor: Cursor<'a>, token: &str) -> Lookup<Cursor<'a>> {
    let (start, mut found) = (cursor.at(), None);
    let scanned = cursor
        .members_with_escapes(|cursor, name| skip_unless_found(cursor, is_name(name, token), &mut found));
    count_scanned(start, &cursor);
    Lookup::of_scan(found, scanned)
}

/// Whether the JSON text of a member's name, which may have escapes, stands for `token`.
fn is_name(json: &str, token: &str) -> bool {
    if json.contains('\\') {
        serde_json::from_str::<String>(json).is_ok_and(|name| name == token)
    } else {
        json.trim_matches('"') == token
    }
}

/// Finds an element of the array at the cursor.
fn element<'a>(mut cursor: Cursor<'a>, token: &str) -> Lookup<Cursor<'a>> {
    let (start, wanted) = (cursor.at(), index(token));
    let (mut position, mut found) = (0, None);
    let scanned = cursor.elements(|cursor| {
        let is_wanted = wanted == Some(position);
        position += 1;
        skip_unless_found(cursor, is_wanted, &mut found)
    });
    count_scanned(start, &cursor);
    Lookup::of_scan(found, scanned)
}

/// Counts the text between `start` and the cursor for tests.
#[cfg_attr(not(test), expect(unused_variables, reason = "only tests count"))]
fn count_scanned(start: usize, cursor: &Cursor<'_>) {
    #[cfg(test)]
    tests::count_scanned(cursor.at() - start);
}

/// Skips a value; if it is the wanted one, stores its position and ends the scan instead.
fn skip_unless_found<'a>(
    cursor: &mut Cursor<'a>,
    is_wanted: bool,
    found: &mut Option<Cursor<'a>>,
) -> Option<()> {
    if is_wanted {
        *found = Some(*cursor);
        return None;
    }
    cursor.skip_value()
}

/// Parses the index of an array element: digits without leading zeros.
fn index(token: &str) -> Option<usize> {
    let is_well_formed = token == "0" || !token.starts_with('0');
    if is_well_formed { token.parse().ok() } else { None }
}

/// Decodes a token: `~1` is `/` and `~0` is `~`. `None` for any other `~`.
fn unescape(token: &str) -> Option<Cow<'_, str>> {
    if !token.contains('~') {
        return Some(Cow::Borrowed(token));
    }
    let mut out = String::with_capacity(token.len());
    let mut chars = token.chars();
    while let Some(char) = chars.next() {
        match (char, char == '~') {
            (_, true) => match chars.next()? {
                '0' => out.push('~'),
                '1' => out.push('/'),
                _ => return None,
            },
            (char, false) => out.push(char),
        }
    }
    Some(Cow::Owned(out))
}
