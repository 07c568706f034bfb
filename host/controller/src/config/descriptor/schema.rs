//! The JSON Schema that is published for plugin authors, generated from the descriptor types.

use super::Descriptor;

/// The schema of a descriptor, as in `docs/plugin.schema.json`.
#[must_use]
pub fn schema() -> serde_json::Value {
    let mut schema = schemars::schema_for!(Descriptor).to_value();
    schema["title"] = "Pilothouse plugin descriptor (pilothouse.dev/v1alpha1)".into();
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/plugin.schema.json");

    /// With `PILOTHOUSE_UPDATE_SCHEMA=1` the file is written instead of compared.
    #[test]
    fn the_published_schema_matches_the_types() {
        let text = format!("{:#}\n", schema());
        if std::env::var_os("PILOTHOUSE_UPDATE_SCHEMA").is_some() {
            std::fs::write(PATH, &text).expect("written");
        }
        let published = std::fs::read_to_string(PATH).expect("docs/plugin.schema.json is there");
        assert!(
            published == text,
            "docs/plugin.schema.json is not up to date: run \
             PILOTHOUSE_UPDATE_SCHEMA=1 cargo test -p pilothouse-controller published_schema"
        );
    }

    #[test]
    fn the_schema_lists_the_fields_of_a_watch() {
        let schema = schema();
        let watch = &schema["$defs"]["Watch"]["properties"];
        for member in ["apiVersion", "labelSelector", "trigger", "predicate", "indexes"] {
            assert!(watch[member].is_object(), "{member}");
        }
    }
}
