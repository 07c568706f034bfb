//! Compares text with the files in `tests/snapshots`, which record the public surfaces.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/snapshots");
const UPDATE: &str = "PILOTHOUSE_UPDATE_SNAPSHOTS";

/// Asserts that a file in `tests/snapshots` has this text, apart from spaces at the ends of lines. With `PILOTHOUSE_UPDATE_SNAPSHOTS=1`,
/// writes the file instead.
#[track_caller]
pub(crate) fn assert_matches(name: &str, text: &str) {
    let text: String = text.lines().map(|line| format!("{}\n", line.trim_end())).collect();
    let path = Path::new(FOLDER).join(name);
    if std::env::var_os(UPDATE).is_some() {
        fs::create_dir_all(FOLDER).expect("created");
        fs::write(&path, text).expect("written");
        return;
    }
    let recorded = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        recorded == text,
        "tests/snapshots/{name} differs:\n{}If the change is intended, run {UPDATE}=1 cargo test -p pilothouse --test cli surfaces, review \
         the file, and add an entry to CHANGELOG.md.",
        difference(&recorded, &text)
    );
}

/// Returns the lines of `recorded`, marked with `-`, and those of `found`, marked with `+`. Equal lines at the beginning and at the end are left
/// out.
fn difference(recorded: &str, found: &str) -> String {
    let recorded: Vec<&str> = recorded.lines().collect();
    let found: Vec<&str> = found.lines().collect();
    let begin = recorded.iter().zip(&found).take_while(|(old, new)| old == new).count();
    let ends = recorded[begin..].iter().rev().zip(found[begin..].iter().rev());
    let end = ends.take_while(|(old, new)| old == new).count();
    let marked = |mark: char, lines: &[&str]| -> String {
        lines[begin..lines.len() - end].iter().map(|line| format!("{mark} {line}\n")).collect()
    };
    marked('-', &recorded) + &marked('+', &found)
}

/// Returns the members of JSON documents with their types, a line each. A member that some objects lack is marked with `?`. The members of
/// the objects in `maps` are data, such as the kinds of memory in use, and are left out.
pub(crate) fn json_shape(documents: &[Value], maps: &[&str]) -> String {
    let mut lines = String::new();
    let documents: Vec<&Value> = documents.iter().collect();
    describe("", &documents, maps, &mut lines);
    lines
}

fn describe(path: &str, values: &[&Value], maps: &[&str], lines: &mut String) {
    if !path.is_empty() {
        let types: BTreeSet<&str> = values.iter().map(|value| type_name(value)).collect();
        let types: Vec<&str> = types.into_iter().collect();
        *lines += &format!("{path}: {}\n", types.join(" | "));
    }
    if maps.contains(&path) {
        return;
    }
    let member_path = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    let objects: Vec<_> = values.iter().filter_map(|value| value.as_object()).collect();
    let names: BTreeSet<&String> = objects.iter().flat_map(|object| object.keys()).collect();
    for name in names {
        let members: Vec<&Value> = objects.iter().filter_map(|object| object.get(name)).collect();
        let mark = if members.len() < objects.len() { "?" } else { "" };
        describe(&(member_path(name) + mark), &members, maps, lines);
    }
    let items: Vec<&Value> = values.iter().filter_map(|value| value.as_array()).flatten().collect();
    if !items.is_empty() {
        describe(&format!("{path}[]"), &items, maps, lines);
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[test]
fn the_difference_leaves_out_equal_lines_at_both_ends() {
    assert_eq!(difference("a\nb\nc\n", "a\nx\ny\nc\n"), "- b\n+ x\n+ y\n");
    assert_eq!(difference("a\na\n", "a\n"), "- a\n");
    assert_eq!(difference("", "a\n"), "+ a\n");
}

#[test]
fn a_shape_has_each_member_once_with_all_its_types() {
    let documents = [serde_json::json!({
        "items": [{"name": "a", "size": 1}, {"name": null}],
        "empty": [],
        "counts": {"x": 1, "y": 2},
    })];
    let expected = "counts: object\nempty: array\nitems: array\nitems[]: object\nitems[].name: null | string\n\
                    items[].size?: number\n";
    assert_eq!(json_shape(&documents, &["counts"]), expected);
}
