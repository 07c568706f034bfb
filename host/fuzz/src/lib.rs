//! What must hold whatever bytes come from a plugin's author, an operator or an API server: nothing panics, nothing runs beyond its limit,
//! and a refusal is one line.
//!
//! [`Target::run`] panics where it does not hold. `cargo xtask fuzz` looks for such inputs with libFuzzer; the tests of this crate replay
//! the corpus, and small changes of it, without.

mod corpus;
mod edits;
mod imports;
mod loader;
mod predicate;

use pilothouse_controller::descriptor::Descriptor;
use pilothouse_controller::sidecar::Sidecar;
use pilothouse_model::{
    FieldSelector, JsonPath, LabelSelector, Object, ObjectReader, ParseOptions, Transform,
};

pub use corpus::seeds;

/// Something that reads foreign bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The file `NAME.wasm`, up to its descriptor.
    Loader,
    /// The file `NAME.yaml`.
    Sidecar,
    /// What `describe` returns.
    Descriptor,
    /// A label selector and a field selector.
    Selector,
    /// A predicate in the first line, and the object that it is evaluated for.
    Predicate,
    /// A JSONPath in the first line, and the object that it is looked up in.
    JsonPath,
    /// An object of an API server; of two lines, the second is a version after the first, and a third says what is edited in that.
    Object,
    /// The arguments of every import: bytes that are made into a script for the plugin `hostile`.
    Imports,
}

impl Target {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Loader,
        Self::Sidecar,
        Self::Descriptor,
        Self::Selector,
        Self::Predicate,
        Self::JsonPath,
        Self::Object,
        Self::Imports,
    ];

    /// As the command line and the corpus' folders call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Loader => "loader",
            Self::Sidecar => "sidecar",
            Self::Descriptor => "descriptor",
            Self::Selector => "selector",
            Self::Predicate => "predicate",
            Self::JsonPath => "json_path",
            Self::Object => "object",
            Self::Imports => "imports",
        }
    }

    /// The target of that name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|target| target.name() == name)
    }

    /// Gives the input to the target.
    ///
    /// # Panics
    /// Where the target does not do what it must for every input.
    pub fn run(self, input: &[u8]) {
        match self {
            Self::Loader => loader::run(input),
            Self::Sidecar => of_text(input, |text| {
                Sidecar::parse(text).err().into_iter().for_each(is_one_line);
            }),
            Self::Descriptor => of_text(input, |text| {
                Descriptor::parse(text).err().into_iter().for_each(is_one_line);
            }),
            Self::Selector => of_text(input, selector),
            Self::Predicate => of_text(input, predicate::run),
            Self::JsonPath => of_text(input, json_path),
            Self::Object => object(input),
            Self::Imports => imports::run(input),
        }
    }
}

fn of_text(input: &[u8], run: impl FnOnce(&str)) {
    if let Ok(text) = std::str::from_utf8(input) {
        run(text);
    }
}

/// A log and a status show it so.
fn is_one_line(error: impl std::fmt::Display) {
    let text = error.to_string();
    assert!(!text.contains(['\n', '\r']), "an error of several lines: {text:?}");
}

fn selector(text: &str) {
    match LabelSelector::parse(text) {
        Ok(selector) => drop(selector.matches(|key| Some(key.to_owned()))),
        Err(error) => is_one_line(error),
    }
    match FieldSelector::parse(text) {
        Ok(selector) => drop(selector.matches(|path| path.to_owned().into())),
        Err(error) => is_one_line(error),
    }
}

fn json_path(text: &str) {
    let (path, object) = text.split_once('\n').unwrap_or((text, OBJECT));
    let object = Object::from_json(object).unwrap_or_else(|_| Object::from_json(OBJECT).expect("an object"));
    match JsonPath::parse(path) {
        Ok(path) => drop(path.values(&object)),
        Err(error) => is_one_line(error),
    }
}

const OBJECT: &str = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"b","labels":{"c.d/e":"f"}},"data":{"g":"h","i":["j",{"k":1}]}}"#;

/// The edit of a version without a third line: its fourth member, most often `spec`, is repeated at its end.
const EDITS: &str = "\0\x03";

fn object(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Some((known, next)) = text.split_once('\n') {
        successor(known, next);
        let (next, script) = next.split_once('\n').unwrap_or((next, EDITS));
        let next = edits::edited(next, script.as_bytes());
        successor(known, &next);
        // As the version that is known, too.
        successor(&next, &next);
    }
    match Object::from_json(text) {
        Ok(object) => {
            // What was read once reads as the same again.
            let again = Object::from_json(object.json()).expect("an object's own text is an object");
            assert_eq!(object.key(), again.key());
        }
        Err(error) => is_one_line(error),
    }
}

/// A reader that knows an earlier version reads, and refuses, what one that knows nothing does.
fn successor(known: &str, next: &str) {
    let options = ParseOptions { transform: &Transform::standard(), ..ParseOptions::default() };
    let Ok(stored) = Object::parse(known.as_bytes(), &options) else { return };
    let mut reader = ObjectReader::default();
    let _ = reader.read(known.as_bytes(), &options, |_| None);
    let read = reader.read(next.as_bytes(), &options, |_| Some(stored.clone()));
    let parsed = Object::parse(next.as_bytes(), &options);
    assert_eq!(read.as_ref().map(facts).ok(), parsed.as_ref().map(facts).ok());
    // What a version is followed by in a watch is none of it.
    let line = format!("{next}}}\n{next}");
    if let Some((version, len)) = reader.read_version(&line, &options, |_| Some(stored.clone())) {
        let alone = Object::parse(&line.as_bytes()[..len], &options).expect("what was read is an object");
        assert_eq!(facts(&version), facts(&alone));
    }
}

/// What is read of an object once.
fn facts(object: &Object) -> String {
    let labels: Vec<_> = object.labels().chain(object.annotations()).collect();
    let versions =
        (object.uid(), object.resource_version(), object.generation(), object.deletion_timestamp());
    let types = (object.api_version(), object.kind(), object.key());
    format!("{} {types:?} {versions:?} {labels:?} {:?}", object.json(), object.owner_references())
}
