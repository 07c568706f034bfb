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

fn shortcut<'a>(json: &'a str, metadata: &Metadata, pointer: &str) -> Way<'a> {
    match split(pointer) {
        Some(("metadata", Some(further))) => {
            let known = split(further).and_then(|(name, further)| {
                let value = metadata.member(name)?.get(json)?;
                Some((value, further))
            });
            match known {
                Some((value, None)) => Way::Ended(value),
                Some((value, Some(further))) => follow(Cursor::new(value), &further[1..]),
                None => Way::Unsure,
            }
        }
        // These are before the metadata, and an escaped name may be one of them.
        None | Some(("apiVersion" | "kind" | "metadata", _)) => Way::Unsure,
        Some((name, _)) if name.contains('~') => Way::Unsure,
        Some((name, further)) => match (child_of_top(json, metadata, name), further) {
            (Step::To(place), Some(further)) => follow(place, &further[1..]),
            (Step::To(place), None) => whole(place),
            (Step::Nowhere, _) => Way::Nowhere,
            (Step::Unsure, _) => Way::Unsure,
        },
    }
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
    let scanned = place
        .skip(metadata.behind.start())
        .and_then(|()| place.further_members(|cursor, known| named(cursor, known == name, &mut found)));
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

fn follow<'a>(mut place: Cursor<'a>, tokens: &str) -> Way<'a> {
    for token in tokens.split('/') {
        let Some(token) = unescape(token) else { return Way::Nowhere };
        match child_of(place, &token) {
            Step::To(child) => place = child,
            Step::Nowhere => return Way::Nowhere,
            Step::Unsure => return Way::Unsure,
        }
    }
    whole(place)
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
