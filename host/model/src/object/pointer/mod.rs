//! RFC 6901 pointers over JSON text: the value is found by skipping, no tree is built.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::metadata::Metadata;
use super::scan::Cursor;

/// The raw text of the value at `pointer`. The text is well formed.
pub(super) fn find<'a>(json: &'a str, pointer: &str) -> Option<&'a str> {
    if pointer.is_empty() {
        return Some(json);
    }
    let tokens = pointer.strip_prefix('/')?;
    match follow(Cursor::new(json), tokens) {
        Way::Ended(value) => Some(value),
        Way::Nowhere => None,
        Way::Unsure => parse(json, tokens),
    }
}

/// As [`find`], in a whole object, of which it is known where the metadata is and some members of that are.
pub(super) fn find_in<'a>(json: &'a str, metadata: &Metadata, pointer: &str) -> Option<&'a str> {
    match shortcut(json, metadata, pointer) {
        Way::Ended(value) => Some(value),
        Way::Nowhere => None,
        Way::Unsure => find(json, pointer),
    }
}

/// As [`find_in`] for each of several pointers, in their order. What has the same parent is found in one pass over that.
pub(super) fn find_all<'a, P: AsRef<str>>(
    json: &'a str,
    metadata: &Metadata,
    pointers: &[P],
) -> Vec<Option<&'a str>> {
    let mut found = vec![None; pointers.len()];
    for (first, pointer) in pointers.iter().map(AsRef::as_ref).enumerate() {
        // Of members at the top and of metadata it is known where they are, or nearly.
        let parent = parent_of(pointer).filter(|parent| !matches!(*parent, "" | "/metadata"));
        let Some(parent) = parent else {
            found[first] = find_in(json, metadata, pointer);
            continue;
        };
        let is_sibling = |other: &P| parent_of(other.as_ref()) == Some(parent);
        if pointers[..first].iter().any(is_sibling) {
            // It was found with that.
            continue;
        }
        let siblings = pointers[first..].iter().filter(|other| is_sibling(other)).count();
        if siblings > 1 && members(json, metadata, parent, pointers, &mut found) {
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

/// A pointer without its last token.
fn parent_of(pointer: &str) -> Option<&str> {
    pointer.rfind('/').map(|end| &pointer[..end])
}

/// The last token of a pointer with that parent.
fn name_in<'p>(parent: &str, pointer: &'p str) -> Option<&'p str> {
    pointer.strip_prefix(parent)?.strip_prefix('/').filter(|name| !name.contains('/'))
}

/// Finds those of the pointers that lead to members of one object; `false` where that takes a parser.
fn members<'a, P: AsRef<str>>(
    json: &'a str,
    metadata: &Metadata,
    parent: &str,
    pointers: &[P],
    found: &mut [Option<&'a str>],
) -> bool {
    let mut place = match place_in(json, metadata, parent) {
        Step::To(place) if place.first() == Some(b'{') => place,
        Step::Nowhere => return true,
        Step::To(_) | Step::Unsure => return false,
    };
    let mut names = pointers.iter().filter_map(|pointer| name_in(parent, pointer.as_ref()));
    let mut missing = names.clone().count();
    if names.any(|name| name.contains('~')) {
        return false;
    }
    let scanned = place.members(|cursor, known| {
        let start = cursor.at();
        cursor.pass()?;
        let value = cursor.text().get(start..cursor.at());
        for (found, pointer) in found.iter_mut().zip(pointers) {
            // Of a name that comes twice the first counts.
            let pointer = pointer.as_ref();
            if found.is_none() && pointer.ends_with(known) && name_in(parent, pointer) == Some(known) {
                *found = value;
                missing -= 1;
            }
        }
        // Nothing more is to be read when nothing more is to be found.
        (missing > 0).then_some(())
    });
    scanned.is_some() || missing == 0
}

fn shortcut<'a>(json: &'a str, metadata: &Metadata, pointer: &str) -> Way<'a> {
    if let Some(name) = pointer.strip_prefix("/metadata/")
        && let Some(value) = metadata.member(name).and_then(|place| place.get(json))
    {
        return Way::Ended(value);
    }
    match place_in(json, metadata, pointer) {
        Step::To(place) => whole(place),
        Step::Nowhere => Way::Nowhere,
        Step::Unsure => Way::Unsure,
    }
}

/// Where a pointer leads in a whole object.
fn place_in<'a>(json: &'a str, metadata: &Metadata, pointer: &str) -> Step<'a> {
    match split(pointer) {
        Some(("metadata", Some(further))) => {
            let known = split(further).and_then(|(name, further)| {
                let value = metadata.member(name)?.get(json)?;
                Some((Cursor::new(value), further))
            });
            match known {
                Some((place, None)) => Step::To(place),
                Some((place, Some(further))) => place_from(place, &further[1..]),
                None => Step::Unsure,
            }
        }
        // These are before the metadata, and an escaped name may be one of them.
        None | Some(("apiVersion" | "kind" | "metadata", _)) => Step::Unsure,
        Some((name, _)) if name.contains('~') => Step::Unsure,
        Some((name, None)) => child_of_top(json, metadata, name),
        Some((name, Some(further))) => place_inside(json, metadata, name, &further[1..]),
    }
}

/// From a member at the top, behind the metadata, to what is in it.
fn place_inside<'a>(json: &'a str, metadata: &Metadata, name: &str, tokens: &str) -> Step<'a> {
    let (first, further) = match tokens.split_once('/') {
        Some((first, further)) => (first, Some(further)),
        None => (tokens, None),
    };
    match (child_inside(json, metadata, name, first), further) {
        (Step::To(child), Some(further)) => place_from(child, further),
        (child, _) => child,
    }
}

fn child_inside<'a>(json: &'a str, metadata: &Metadata, name: &str, token: &str) -> Step<'a> {
    let is_plain = !token.contains('~');
    let mut place = Cursor::new(json);
    if is_plain
        && let Some(start) = metadata.farthest.member_of(name, token, json)
        && place.skip(start).is_some()
    {
        return Step::To(place);
    }
    let top = match child_of_top(json, metadata, name) {
        Step::To(top) => top,
        end => return end,
    };
    let child = place_from(top, token);
    if let Step::To(child) = &child
        && is_plain
        && top.first() == Some(b'{')
    {
        metadata.farthest.note_member(top.at(), child.at());
    }
    child
}

/// A member at the top, behind the metadata.
fn child_of_top<'a>(json: &'a str, metadata: &Metadata, name: &str) -> Step<'a> {
    let mut place = Cursor::new(json);
    if let Some(start) = metadata.farthest.value_of(name, json)
        && place.skip(start).is_some()
    {
        return Step::To(place);
    }
    let mut found = None;
    let (known_object, known_member) = metadata.farthest.member();
    let scanned = place.skip(metadata.behind.start()).and_then(|()| {
        place.further_members(|cursor, known| {
            if known != name && cursor.at() == known_object && known_member > known_object {
                // Whoever was there went past what is before that.
                cursor.skip(known_member - known_object)?;
                return cursor.leave();
            }
            named(cursor, known == name, &mut found)
        })
    });
    if let Some(child) = found {
        metadata.farthest.note(child.at());
    }
    step(found, scanned)
}

/// The raw text of one member of an object.
pub(super) fn member<'a>(json: &'a str, name: &str) -> Option<&'a str> {
    let way = match child_of(Cursor::new(json), name) {
        Step::To(place) => whole(place),
        Step::Nowhere => Way::Nowhere,
        Step::Unsure => Way::Unsure,
    };
    match way {
        Way::Ended(value) => Some(value),
        Way::Nowhere => None,
        Way::Unsure => child(json, name),
    }
}

/// The first token of a pointer, and the pointer from there if it goes on.
fn split(pointer: &str) -> Option<(&str, Option<&str>)> {
    let tokens = pointer.strip_prefix('/')?;
    Some(match tokens.find('/') {
        Some(end) => (&tokens[..end], Some(&tokens[end..])),
        None => (tokens, None),
    })
}

/// Where a pointer leads.
enum Way<'a> {
    Ended(&'a str),
    Nowhere,
    /// Only a parser can tell.
    Unsure,
}

fn follow<'a>(place: Cursor<'a>, tokens: &str) -> Way<'a> {
    match place_from(place, tokens) {
        Step::To(place) => whole(place),
        Step::Nowhere => Way::Nowhere,
        Step::Unsure => Way::Unsure,
    }
}

fn place_from<'a>(mut place: Cursor<'a>, tokens: &str) -> Step<'a> {
    for token in tokens.split('/') {
        let Some(token) = unescape(token) else { return Step::Nowhere };
        match child_of(place, &token) {
            Step::To(child) => place = child,
            end => return end,
        }
    }
    Step::To(place)
}

/// The value at a place.
fn whole(place: Cursor<'_>) -> Way<'_> {
    let (start, mut end) = (place.at(), place);
    let value = end.pass().and_then(|()| place.text().get(start..end.at()));
    value.map_or(Way::Unsure, Way::Ended)
}

/// Where a token leads.
enum Step<'a> {
    To(Cursor<'a>),
    Nowhere,
    /// Only a parser can tell.
    Unsure,
}

/// From a value to a member or element of it, without looking at what comes after that.
fn child_of<'a>(mut place: Cursor<'a>, token: &str) -> Step<'a> {
    let mut found = None;
    let scanned = match place.first() {
        Some(b'{') => place.members(|cursor, name| named(cursor, name == token, &mut found)),
        Some(b'[') => {
            let wanted = index(token);
            let mut position = 0;
            place.elements(|cursor| {
                let is_wanted = wanted == Some(position);
                position += 1;
                named(cursor, is_wanted, &mut found)
            })
        }
        _ => return Step::Nowhere,
    };
    step(found, scanned)
}

/// Goes past a value, or ends the scan where it is the wanted one.
fn named<'a>(cursor: &mut Cursor<'a>, is_wanted: bool, found: &mut Option<Cursor<'a>>) -> Option<()> {
    if is_wanted {
        *found = Some(*cursor);
        // Nothing more is to be read.
        return None;
    }
    cursor.pass()
}

fn step<'a>(found: Option<Cursor<'a>>, scanned: Option<()>) -> Step<'a> {
    match (found, scanned) {
        (Some(child), _) => Step::To(child),
        (None, Some(())) => Step::Nowhere,
        (None, None) => Step::Unsure,
    }
}

/// An element's position: digits, without zeros before them.
fn index(token: &str) -> Option<usize> {
    let is_well_formed = token == "0" || !token.starts_with('0');
    if is_well_formed { token.parse().ok() } else { None }
}

/// As [`find`], by a parser: for names with escapes, and for what is nested deeper than a scan goes.
pub(super) fn parse<'a>(json: &'a str, tokens: &str) -> Option<&'a str> {
    let mut value = json;
    for token in tokens.split('/') {
        value = child(value, &unescape(token)?)?;
    }
    Some(value)
}

/// `~1` is `/` and `~0` is `~`; any other `~` is malformed.
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

fn child<'a>(json: &'a str, token: &str) -> Option<&'a str> {
    let mut deserializer = serde_json::Deserializer::from_str(json);
    match json.as_bytes().first()? {
        b'{' | b'[' => Child(token).deserialize(&mut deserializer).ok().flatten(),
        _ => None,
    }
}

/// Finds one member or element, and skips the rest.
struct Child<'t>(&'t str);

impl<'de> DeserializeSeed<'de> for Child<'_> {
    type Value = Option<&'de str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Child<'_> {
    type Value = Option<&'de str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or a list")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(matches) = map.next_key_seed(Matches(self.0))? {
            if matches && found.is_none() {
                found = Some(map.next_value::<&'de RawValue>()?.get());
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let wanted = index(self.0);
        let mut found = None;
        let mut position = 0;
        while let Some(value) = seq.next_element::<&'de RawValue>()? {
            if wanted == Some(position) {
                found = Some(value.get());
            }
            position += 1;
        }
        Ok(found)
    }
}

/// Whether a member's name is the wanted one.
struct Matches<'t>(&'t str);

impl<'de> DeserializeSeed<'de> for Matches<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Matches<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<bool, E> {
        Ok(text == self.0)
    }
}
