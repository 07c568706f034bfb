//! The JSON Schemas in `docs/` of the files that users write: tests compare them with the types.

use schemars::JsonSchema;

/// Asserts that `docs/FILE` is the schema of the type. With `PILOTHOUSE_UPDATE_SCHEMA=1` the file is written instead of compared.
#[track_caller]
pub(crate) fn assert_matches<T: JsonSchema>(file: &str, title: &str) {
    let path = format!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/{}"), file);
    let mut schema = schemars::schema_for!(T).to_value();
    schema["title"] = title.into();
    let text = format!("{schema:#}\n");
    if std::env::var_os("PILOTHOUSE_UPDATE_SCHEMA").is_some() {
        std::fs::write(&path, &text).expect("written");
    }
    let published = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("docs/{file}: {error}"));
    assert!(
        published == text,
        "docs/{file} is not up to date: run PILOTHOUSE_UPDATE_SCHEMA=1 cargo test -p pilothouse --bin pilothouse schema"
    );
}
