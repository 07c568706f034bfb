//! Fields of objects that conditions compare, and what is found there without a JSON parser.

use std::sync::Arc;

use pilothouse_model::Object;

/// The longest path in bytes.
const MAX_PATH: usize = 256;
/// The most members of a path.
const MAX_MEMBERS: usize = 8;
/// The longest text that is compared, in bytes.
const MAX_TEXT: usize = 4096;
/// The largest map or list that is known to be a valid value, in bytes. It cannot nest as deeply as a JSON parser refuses.
const MAX_CONTAINER: usize = 128;
/// The size of the labels or annotations above which they are not read.
const MAX_STRING_MAP: usize = 64 << 10;
/// The size of an object above which no field outside of the metadata is looked up.
const MAX_OBJECT: usize = 64 << 10;

/// The location of a field. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FieldPath(Arc<Location>);

#[derive(Debug, PartialEq, Eq, Hash)]
enum Location {
    Label(String),
    /// A JSON pointer.
    Pointer(String),
}

/// What an object has at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FieldState {
    /// A string.
    Text(String),
    /// A value of another type.
    Other,
    /// The map that would contain the field does not.
    Missing,
    /// An earlier member of the path is missing.
    NoParent,
    /// Only a JSON parser can tell.
    Unknown,
}

impl FieldPath {
    /// Returns the path of a label; `None` if the key is too long.
    #[must_use]
    pub fn label(key: &str) -> Option<Self> {
        (key.len() <= MAX_PATH).then(|| Self(Arc::new(Location::Label(key.to_owned()))))
    }

    /// Returns the path of a field by the names of its members, such as `spec` and `nodeName`. `None` if there is none or too many of
    /// them, if they are too long, or if one could also be a position in a list.
    #[must_use]
    pub fn members(names: &[&str]) -> Option<Self> {
        let is_valid = |name: &&str| !name.is_empty() && !name.bytes().all(|byte| byte.is_ascii_digit());
        if names.is_empty() || names.len() > MAX_MEMBERS || !names.iter().all(is_valid) {
            return None;
        }
        if let ["metadata", "labels", key] = names {
            return Self::label(key);
        }
        let pointer: String = names
            .iter()
            .flat_map(|name| ["/".to_owned(), name.replace('~', "~0").replace('/', "~1")])
            .collect();
        (pointer.len() <= MAX_PATH).then(|| Self(Arc::new(Location::Pointer(pointer))))
    }

    /// Returns what the object has at this path.
    pub(crate) fn read(&self, object: &Object) -> FieldState {
        match &*self.0 {
            Location::Label(key) => label(object, key),
            Location::Pointer(pointer) => field(object, pointer),
        }
    }
}

fn label(object: &Object, key: &str) -> FieldState {
    let Some(raw) = object.field("/metadata/labels") else { return FieldState::NoParent };
    if !raw.starts_with('{') || raw.len() > MAX_STRING_MAP || raw.contains('\\') {
        return FieldState::Unknown;
    }
    object.label(key).map_or(FieldState::Missing, |value| FieldState::Text(value.into_owned()))
}

fn field(object: &Object, pointer: &str) -> FieldState {
    // Known without the text, which may be compressed.
    if pointer == "/metadata/name" && !object.name().is_empty() {
        return FieldState::Text(object.name().to_owned());
    }
    if pointer == "/metadata/namespace" && !object.namespace().is_empty() {
        return FieldState::Text(object.namespace().to_owned());
    }
    if object.unpacked_size() > MAX_OBJECT && !pointer.starts_with("/metadata/") {
        return FieldState::Unknown;
    }
    let is_string_map = matches!(pointer, "/metadata/labels" | "/metadata/annotations");
    match object.field(pointer) {
        // These maps were validated when the object was parsed.
        Some(raw) if is_string_map && raw.starts_with('{') && raw.len() <= MAX_STRING_MAP => {
            FieldState::Other
        }
        Some(raw) => present(raw),
        None => absent(object, pointer),
    }
}

fn present(raw: &str) -> FieldState {
    match raw.as_bytes() {
        [b'"', text @ .., b'"'] if text.len() <= MAX_TEXT && !text.contains(&b'\\') => {
            FieldState::Text(raw[1..raw.len() - 1].to_owned())
        }
        [b'{' | b'[', ..] if raw.len() <= MAX_CONTAINER => FieldState::Other,
        [b'"' | b'{' | b'[', ..] => FieldState::Unknown,
        _ => FieldState::Other,
    }
}

/// Returns which member of the path is missing.
fn absent(object: &Object, pointer: &str) -> FieldState {
    let mut state = FieldState::Missing;
    let mut rest = pointer;
    while let Some((parent, _)) = rest.rsplit_once('/').filter(|(parent, _)| !parent.is_empty()) {
        match object.field(parent) {
            Some(raw) if raw.starts_with('{') => return state,
            // A member of what is not a map.
            Some(_) => return FieldState::Unknown,
            None => state = FieldState::NoParent,
        }
        rest = parent;
    }
    state
}
