//! RFC 6901 pointers over JSON text: the value is found by skipping, no tree is built.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::scan::Cursor;

/// The raw text of the value at `pointer`. The text is well formed: what is behind the value is not looked at.
pub(super) fn find<'a>(json: &'a str, pointer: &str) -> Option<&'a str> {
    if pointer.is_empty() {
        return Some(json);
    }
    let tokens = pointer.strip_prefix('/')?;
    let mut place = Cursor::new(json);
    for token in tokens.split('/') {
        match step(place, &unescape(token)?) {
            Step::To(child) => place = child,
            Step::Nowhere => return None,
            Step::Unsure => return parse(json, tokens),
        }
    }
    let (start, mut end) = (place.at(), place);
    match end.value() {
        Some(()) => json.get(start..end.at()),
        None => parse(json, tokens),
    }
}

/// Where a token leads.
enum Step<'a> {
    To(Cursor<'a>),
    Nowhere,
    /// Only a parser can tell.
    Unsure,
}

/// From a value to a member or element of it, without looking at what comes after that.
fn step<'a>(mut place: Cursor<'a>, token: &str) -> Step<'a> {
    let mut found = None;
    let scanned = match place.first() {
        Some(b'{') => place.members(|cursor, name| {
            if name == token {
                found = Some(*cursor);
                // Nothing more is to be read.
                return None;
            }
            cursor.value()
        }),
        Some(b'[') => {
            let wanted = index(token);
            let mut position = 0;
            place.elements(|cursor| {
                if wanted == Some(position) {
                    found = Some(*cursor);
                    return None;
                }
                position += 1;
                cursor.value()
            })
        }
        _ => return Step::Nowhere,
    };
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
