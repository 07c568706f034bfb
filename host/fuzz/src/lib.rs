//! Fuzz targets for everything that reads untrusted bytes: from a plugin's author, an operator or an API server. No input may cause a panic,
//! exceed a limit, or produce an error of several lines.
//!
//! [`Target::run`] panics if an input does. `cargo xtask fuzz` searches for such inputs with libFuzzer. The tests of this crate replay the
//! corpus and small mutations of it without libFuzzer.

mod corpus;
mod edits;
mod imports;
mod loader;
mod predicate;
#[path = "../../apiserver/tests/requests/driver/mod.rs"]
mod requests;

use pilothouse_controller::descriptor::Descriptor;
use pilothouse_controller::sidecar::Sidecar;
use pilothouse_model::{
    FieldSelector, JsonPath, LabelSelector, Object, ObjectReader, ParseOptions, Transform,
};

pub use corpus::seeds;

/// A reader of untrusted bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A plugin's file `NAME.wasm`: loading it and reading its descriptor.
    Loader,
    /// A plugin's sidecar `NAME.yaml`.
    Sidecar,
    /// A descriptor, as `describe` returns it.
    Descriptor,
    /// A label selector and a field selector.
    Selector,
    /// A predicate in the first line, and the object that it is evaluated for.
    Predicate,
    /// A JSONPath in the first line, and the object that it is looked up in.
    JsonPath,
    /// An object of an API server. If there are several lines, the second is the next version of the first, and the third is a script of
    /// edits of the second.
    Object,
    /// The arguments of every import: bytes that are converted to a script for the plugin `hostile`.
    Imports,
    /// Requests to the embedded API server: bytes that are converted to a sequence of them.
    Requests,
}

impl Target {
    /// All targets.
    pub const ALL: [Self; 9] = [
        Self::Loader,
        Self::Sidecar,
        Self::Descriptor,
        Self::Selector,
        Self::Predicate,
        Self::JsonPath,
        Self::Object,
        Self::Imports,
        Self::Requests,
    ];

    /// Returns the name on the command line and of the corpus folder.
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
            Self::Requests => "requests",
        }
    }

    /// Returns the target with this name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|target| target.name() == name)
    }

    /// Runs the target on the input.
    ///
    /// # Panics
    /// If the target breaks a rule that holds for every input.
    pub fn run(self, input: &[u8]) {
        match self {
            Self::Loader => loader::run(input),
            Self::Sidecar => with_text(input, |text| {
                Sidecar::parse(text).err().into_iter().for_each(assert_one_line);
            }),
            Self::Descriptor => with_text(input, |text| {
                Descriptor::parse(text).err().into_iter().for_each(assert_one_line);
            }),
            Self::Selector => with_text(input, selector),
            Self::Predicate => with_text(input, predicate::run),
            Self::JsonPath => with_text(input, json_path),
            Self::Object => object(input),
            Self::Imports => imports::run(input),
            Self::Requests => requests::run(input),
        }
    }
}

/// Calls `run` if the input is UTF-8.
fn with_text(input: &[u8], run: impl FnOnce(&str)) {
    if let Ok(text) = std::str::from_utf8(input) {
        run(text);
    }
}

/// Asserts that an error is a single line, as a log and a status show it.
fn assert_one_line(error: impl std::fmt::Display) {
    let text = error.to_string();
    assert!(!text.contains(['\n', '\r']), "an error of several lines: {text:?}");
}

fn selector(text: &str) {
    match LabelSelector::parse(text) {
        Ok(selector) => drop(selector.matches(|key| Some(key.to_owned()))),
        Err(error) => assert_one_line(error),
    }
    match FieldSelector::parse(text) {
        Ok(selector) => drop(selector.matches(|path| path.to_owned().into())),
        Err(error) => assert_one_line(error),
    }
}

fn json_path(text: &str) {
    let (path, object) = text.split_once('\n').unwrap_or((text, OBJECT));
    let object = Object::from_json(object).unwrap_or_else(|_| Object::from_json(OBJECT).expect("an object"));
    match JsonPath::parse(path) {
        Ok(path) => drop(path.values(&object)),
        Err(error) => assert_one_line(error),
    }
}

const OBJECT: &str = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"b","labels":{"c.d/e":"f"}},"data":{"g":"h","i":["j",{"k":1}]}}"#;

/// The edit if there is no third line: the fourth member, mostly `spec`, is repeated at the end.
const DEFAULT_EDITS: &str = "\0\x03";

fn object(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Some((known, next)) = text.split_once('\n') {
        next_version(known, next);
        let (next, script) = next.split_once('\n').unwrap_or((next, DEFAULT_EDITS));
        let next = edits::edited(next, script.as_bytes());
        next_version(known, &next);
        // Also as the known version.
        next_version(&next, &next);
        shared_text(known, &next);
    }
    match Object::from_json(text) {
        Ok(object) => {
            // The canonical text parses to the same object.
            let again = Object::from_json(object.json()).expect("an object's own text is an object");
            assert_eq!(object.key(), again.key());
        }
        Err(error) => assert_one_line(error),
    }
}

/// Checks that a reader that knows the version `known` accepts and refuses `next` as a parser does.
fn next_version(known: &str, next: &str) {
    let transform = Transform::standard();
    let options = ParseOptions::default().with_transform(&transform);
    let Ok(stored) = Object::parse(known.as_bytes(), &options) else { return };
    let mut reader = ObjectReader::default();
    let _ = reader.read(known.as_bytes(), &options, |_| None);
    let read = reader.read(next.as_bytes(), &options, |_| Some(stored.clone()));
    let parsed = Object::parse(next.as_bytes(), &options);
    assert_eq!(read.as_ref().map(summary).ok(), parsed.as_ref().map(summary).ok());
    // Text after the object, as in a watch, changes nothing.
    let line = format!("{next}}}\n{next}");
    if let Some((version, len)) = reader.read_event_object(&line, &options, |_| Some(stored.clone())) {
        let alone =
            Object::parse(&line.as_bytes()[..len], &options).expect("the text that was read is an object");
        assert_eq!(summary(&version), summary(&alone));
    }
}

/// Checks that texts that are stored as copies of each other are read as a parser reads them.
fn shared_text(known: &str, next: &str) {
    // So much text in common that sharing it saves memory.
    let padded = |text: &str| {
        let members = text.trim_end().strip_suffix('}')?;
        Some(format!(r#"{members},"padding":"{}"}}"#, "shared ".repeat(100)))
    };
    let (Some(known), Some(next)) = (padded(known), padded(next)) else { return };
    let transform = Transform::standard();
    let options = ParseOptions::default().with_transform(&transform).with_shared_text(1);
    let mut reader = ObjectReader::default();
    let mut stored: Option<Object> = None;
    for text in [&known, &next, &next, &known, &next] {
        let read = reader.read(text.as_bytes(), &options, |_| stored.as_ref().map(Object::fresh_view));
        let parsed = Object::parse(text.as_bytes(), &options);
        assert_eq!(read.as_ref().map(summary).ok(), parsed.as_ref().map(summary).ok());
        // The first object stays the base of the second, which has no stored version.
        stored = if text == &known { None } else { read.ok() };
    }
}

/// Formats what an object's accessors return.
fn summary(object: &Object) -> String {
    let labels: Vec<_> = object.labels().chain(object.annotations()).collect();
    let versions =
        (object.uid(), object.resource_version(), object.generation(), object.deletion_timestamp());
    let types = (object.api_version(), object.kind(), object.key());
    format!("{} {types:?} {versions:?} {labels:?} {:?}", object.json(), object.owner_references())
}
