//! The JSON Schemas in `docs/` of the files that users write: tests compare them with the types.

use serde_json::Value;

/// Asserts that `docs/FILE` is the schema of the type. With `PILOTHOUSE_UPDATE_SCHEMA=1` the file is written instead of compared.
#[cfg(feature = "developer-tools")]
#[track_caller]
pub(crate) fn assert_matches<T: schemars::JsonSchema>(file: &str, title: &str) {
    assert_is_published(file, title, schemars::schema_for!(T).to_value());
}

/// Asserts that `docs/FILE` is this schema. With `PILOTHOUSE_UPDATE_SCHEMA=1` the file is written instead of compared.
#[track_caller]
pub(crate) fn assert_is_published(file: &str, title: &str, mut schema: Value) {
    let path = format!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/{}"), file);
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
