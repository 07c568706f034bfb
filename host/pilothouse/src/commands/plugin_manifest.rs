//! Manifests of objects of the kind `Plugin`, which `rbac` and `size` accept like files of plugins.

use std::path::Path;

use pilothouse_controller::sidecar::Sidecar;
use pilothouse_registry::PluginEntry;
use pilothouse_yaml::{FieldPath, Places};
use serde_json::{Map, Value};

use crate::{CommandError, input_file};

/// The maximum size of a file with manifests in bytes.
const MAX_MANIFESTS: u64 = 16 << 20;

/// Whether a file has manifests, and no plugin.
pub(super) fn is_manifest(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml")
}

/// Returns the plugins of the objects in a file: an object of the kind `Plugin`, or a list of these.
///
/// # Errors
/// Errors if the file cannot be read, or has an object of another kind or without an image.
pub(super) fn read(path: &Path) -> Result<Vec<PluginEntry>, CommandError> {
    let usage_error =
        |problem: String| -> CommandError { CommandError::Usage(format!("{}: {problem}", path.display())) };
    let text = input_file::read_text(path, MAX_MANIFESTS).map_err(usage_error)?;
    let document: Value = pilothouse_yaml::from_str(&text).map_err(usage_error)?;
    let root = FieldPath::default();
    let objects = match document["items"].as_array() {
        Some(items) => {
            let of_item =
                |(index, item): (usize, &Value)| (root.clone().member("items").element(index), item.clone());
            items.iter().enumerate().map(of_item).collect()
        }
        None => vec![(root, document)],
    };
    let read = |(place, object): (FieldPath, Value)| -> Result<PluginEntry, CommandError> {
        let entry = entry(object).map_err(usage_error)?;
        check_sidecar(&entry, place, &text).map_err(usage_error)?;
        Ok(entry)
    };
    objects.into_iter().map(read).collect()
}

/// Checks the members of a spec that are those of a sidecar. `object` is where the text has the object.
fn check_sidecar(entry: &PluginEntry, object: FieldPath, text: &str) -> Result<(), String> {
    let Err(error) = Sidecar::parse_members(entry.sidecar.as_ref().unwrap_or(&Map::new())) else {
        return Ok(());
    };
    let spec = FieldPath::of_members("spec");
    let member = object.join(&spec).join(&error.member().unwrap_or_default());
    let place = Places::of(text).and_then(|places| places.find(&member));
    let place = place.map(|place| format!("{place}: ")).unwrap_or_default();
    Err(format!("{place}the object {:?}: {}", entry.name, error.below(&spec)))
}

/// Returns the plugin of an object. The members of its spec are those of a sidecar, and those about the image.
fn entry(mut object: Value) -> Result<PluginEntry, String> {
    const REMEDY: &str = "give the manifest of an object of the kind Plugin (pilothouse.dev/v1alpha1)";
    if object["kind"] != "Plugin" {
        return Err(format!("it is of the kind {}; {REMEDY}, or a .wasm file", object["kind"]));
    }
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    if name.is_empty() {
        return Err(format!("metadata.name is missing; {REMEDY}"));
    }
    let mut spec: Map<String, Value> = match object["spec"].take() {
        Value::Object(spec) => spec,
        _ => return Err(format!("spec of {name} is missing; {REMEDY}")),
    };
    let mut text = |member: &str| match spec.remove(member) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(format!("spec.{member} of {name} is no text; {REMEDY}")),
    };
    let (image, poll) = (text("image")?, text("poll")?);
    let image = image.ok_or_else(|| format!("spec.image of {name} is missing; {REMEDY}"))?;
    Ok(PluginEntry { name, image, poll, sidecar: Some(spec), sidecar_problem: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(text: &str) -> Result<Vec<PluginEntry>, String> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("p.yaml");
        std::fs::write(&path, text).expect("written");
        read(&path).map_err(|error| {
            let (CommandError::Failure(text) | CommandError::Usage(text)) = error;
            text
        })
    }

    #[test]
    fn an_object_and_a_list_of_objects_name_plugins_with_their_sidecars() {
        let object = "{apiVersion: pilothouse.dev/v1alpha1, kind: Plugin, metadata: {name: a, namespace: n}, \
                      spec: {image: r.example/a:1, poll: 5m, workers: 2, serviceAccount: n/robot}}";
        let found = entries(object).expect("a plugin");
        assert_eq!((found[0].name.as_str(), found[0].image.as_str()), ("a", "r.example/a:1"));
        assert_eq!(found[0].poll.as_deref(), Some("5m"));
        let sidecar = Value::Object(found[0].sidecar.clone().expect("a sidecar"));
        assert_eq!(sidecar, serde_json::json!({"workers": 2, "serviceAccount": "n/robot"}));
        assert_eq!(entries(&format!("{{kind: List, items: [{object}]}}")).expect("a plugin"), found);
    }

    #[test]
    fn an_error_of_a_spec_has_its_place_and_its_path() {
        let object = "kind: Plugin\nmetadata: {name: a}\nspec:\n  image: r.example/a:1\n";
        let error = entries(&format!("{object}  workers: 0\n")).expect_err("out of range");
        assert!(
            error.contains(": line 5 column 3: the object \"a\": spec.workers: 0 is not between"),
            "{error}"
        );
        let error =
            entries(&format!("{object}  grants:\n    writes: [{{verb: []}}]\n")).expect_err("unknown");
        assert!(
            error.contains(": line 6 column 15: the object \"a\": spec.grants.writes[0].verb: unknown field"),
            "{error}"
        );
        let list = "kind: List\nitems:\n- kind: Plugin\n  metadata: {name: b}\n  spec: {image: r.example/a:1, wrokers: 1}\n";
        let error = entries(list).expect_err("unknown");
        assert!(
            error.contains(": line 5 column 32: the object \"b\": spec.wrokers: unknown field"),
            "{error}"
        );
    }

    #[test]
    fn other_manifests_are_refused_with_a_remedy() {
        for (text, part) in [
            ("{kind: Pod, metadata: {name: a}}", "it is of the kind \"Pod\""),
            ("{kind: Plugin, spec: {image: a}}", "metadata.name is missing"),
            ("{kind: Plugin, metadata: {name: a}}", "spec of a is missing"),
            ("{kind: Plugin, metadata: {name: a}, spec: {workers: 1}}", "spec.image of a is missing"),
            ("{kind: Plugin, metadata: {name: a}, spec: {image: 1}}", "spec.image of a is no text"),
        ] {
            let error = entries(text).expect_err("refused");
            assert!(error.contains(part) && error.contains("kind Plugin"), "{error}");
        }
    }
}
