//! Manifests that a scenario contains or names.

use std::path::Path;

use pilothouse_model::ResourceType;
use serde_json::Value;
use serde_saphyr::Spanned;

use super::at;
use super::document::parse_yaml_documents;
use super::kinds::Kinds;
use super::object_reference::{DEFAULT_NAMESPACE, is_plain};
use super::text::quoted;
use crate::actor::{ActorWrite, Operation};

/// The member by which an entry names a file with manifests, relative to the scenario's folder.
const FILE: &str = "file";

/// The manifest of one object.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// The resource.
    pub resource: ResourceType,
    /// The namespace, "" for cluster-scoped objects.
    pub namespace: String,
    /// The name, "" with `generateName`.
    pub name: String,
    /// The object, with its namespace.
    pub object: Value,
}

impl Manifest {
    /// Checks the parts of an object that its URL consists of. A namespaced object without a namespace gets this one.
    ///
    /// # Errors
    /// Errors with one line if the kind is not known, or a name is missing or malformed.
    pub fn new(mut object: Value, namespace: &str, kinds: &Kinds) -> Result<Self, String> {
        if !object.is_object() {
            return Err(format!(
                "{} is not a manifest; write apiVersion, kind and metadata",
                quoted(&object.to_string())
            ));
        }
        let resource = kinds.of_manifest(&object)?.resource.clone();
        if !object["metadata"].is_object() {
            return Err(format!("a {} has no metadata; give it a name", resource.kind));
        }
        let metadata = &object["metadata"];
        let name = metadata["name"].as_str().unwrap_or_default().to_owned();
        if name.is_empty() && !metadata["generateName"].is_string() {
            return Err(format!("a {} has no metadata.name; give it one", resource.kind));
        }
        if !resource.namespaced {
            if metadata.get("namespace").is_some() {
                return Err(format!(
                    "{} {} is cluster-scoped; remove its namespace",
                    resource.kind,
                    quoted(&name)
                ));
            }
        } else if metadata.get("namespace").is_none() {
            object["metadata"]["namespace"] = namespace.into();
        }
        let metadata = &object["metadata"];
        let namespace = metadata["namespace"].as_str().unwrap_or_default().to_owned();
        let parts = [(&name, !name.is_empty()), (&namespace, resource.namespaced)];
        if parts.into_iter().any(|(part, is_needed)| is_needed && !is_plain(part)) {
            return Err(format!("{} {} has a malformed name or namespace", resource.kind, quoted(&name)));
        }
        Ok(Self { resource, namespace, name, object })
    }

    /// Returns the manifests of a file, also those in objects of the kind `List`.
    ///
    /// # Errors
    /// Errors with one line, which names the line of the text.
    pub fn all_of(text: &str, kinds: &Kinds) -> Result<Vec<Self>, String> {
        let mut manifests = Vec::new();
        for document in parse_yaml_documents::<Spanned<Value>>(text)? {
            for object in objects_of(document.value) {
                let manifest = Self::new(object, DEFAULT_NAMESPACE, kinds);
                manifests.push(manifest.map_err(|problem| at(document.referenced.line(), &problem))?);
            }
        }
        Ok(manifests)
    }

    /// Returns the write that creates or applies the object.
    pub(super) fn write(self, operation: fn(Value) -> Operation) -> ActorWrite {
        ActorWrite {
            step: 0,
            resource: self.resource,
            subresource: String::new(),
            namespace: self.namespace,
            name: self.name,
            operation: operation(self.object),
        }
    }

    /// Returns the position in the order in which objects are created: Namespaces come first.
    fn rank(&self) -> u8 {
        u8::from(self.resource.kind != "Namespace" || !self.resource.group.is_empty())
    }
}

/// Returns the objects of a YAML document: itself, the items of a `List`, or none if it is empty.
fn objects_of(document: Value) -> Vec<Value> {
    match document {
        Value::Null => Vec::new(),
        Value::Object(mut list) if list.get("kind").is_some_and(|kind| kind == "List") => {
            match list.remove("items") {
                Some(Value::Array(items)) => items,
                _ => Vec::new(),
            }
        }
        object => vec![object],
    }
}

/// Reads the files that a scenario names.
pub(super) struct FileReader<'a> {
    /// The scenario's file.
    pub(super) file: &'a Path,
    pub(super) read: &'a dyn Fn(&Path) -> Result<String, String>,
}

impl FileReader<'_> {
    /// Returns the objects of an entry: the manifest itself, or those in the file that it names.
    pub(super) fn objects(&self, entry: &Value) -> Result<Vec<Value>, String> {
        let name = match entry {
            Value::String(name) => Some(name.as_str()),
            Value::Object(members) if members.len() == 1 => members.get(FILE).and_then(Value::as_str),
            _ => None,
        };
        let Some(name) = name else { return Ok(vec![entry.clone()]) };
        let path = self.file.parent().unwrap_or(Path::new("")).join(name);
        let located = |problem: String| format!("file {}: {problem}", path.display());
        let text = (self.read)(&path).map_err(located)?;
        let mut objects = Vec::new();
        for document in parse_yaml_documents(&text).map_err(located)? {
            objects.extend(objects_of(document));
        }
        if objects.is_empty() {
            return Err(located("it has no manifest; give it one, or remove the entry".to_owned()));
        }
        Ok(objects)
    }

    /// Returns the manifests of an entry, Namespaces first.
    pub(super) fn manifests(&self, entry: &Value, kinds: &Kinds) -> Result<Vec<Manifest>, String> {
        let objects = self.objects(entry)?.into_iter();
        let manifests: Result<Vec<_>, _> =
            objects.map(|object| Manifest::new(object, DEFAULT_NAMESPACE, kinds)).collect();
        let mut manifests = manifests?;
        manifests.sort_by_key(Manifest::rank);
        Ok(manifests)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_namespaced_object_gets_a_namespace() {
        let kinds = Kinds::built_in();
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}});
        let manifest = Manifest::new(pod, "shop", &kinds).expect("valid");
        assert_eq!(
            (manifest.namespace.as_str(), &manifest.object["metadata"]["namespace"]),
            ("shop", &json!("shop"))
        );
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}});
        let manifest = Manifest::new(node.clone(), "shop", &kinds).expect("valid");
        assert_eq!((manifest.namespace.as_str(), &manifest.object), ("", &node));
    }

    #[test]
    fn the_manifests_of_a_file_are_those_of_its_documents_and_lists() {
        let text = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\n# nothing\n---\n\
                    apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Node, metadata: {name: node}}\n";
        let manifests = Manifest::all_of(text, &Kinds::built_in()).expect("manifests");
        assert_eq!(
            manifests.iter().map(|manifest| manifest.name.as_str()).collect::<Vec<_>>(),
            ["a", "node"]
        );
    }

    #[test]
    fn the_error_of_a_manifest_names_its_line() {
        let kinds = Kinds::built_in();
        let good = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\n";
        let error = |bad: &str| Manifest::all_of(&format!("{good}{bad}"), &kinds).expect_err(bad);
        let nameless = error("apiVersion: v1\nkind: Pod\nmetadata: {}\n");
        assert!(nameless.starts_with("line 5: a Pod has no metadata.name"), "{nameless}");
        let malformed = error("apiVersion: v1\nkind: [Pod\n");
        assert!(malformed.contains("line ") && !malformed.contains('\n'), "{malformed}");
    }

    #[test]
    fn malformed_manifests_are_refused() {
        let kinds = Kinds::built_in();
        for (object, expected) in [
            (json!(1), "is not a manifest"),
            (json!({"apiVersion": "v1", "kind": "Pod"}), "has no metadata"),
            (json!({"apiVersion": "v1", "kind": "Pod", "metadata": {}}), "has no metadata.name"),
            (json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "../a"}}), "malformed"),
            (
                json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "namespace": "x"}}),
                "cluster-scoped",
            ),
            (
                json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": 5}}),
                "malformed",
            ),
        ] {
            let error = Manifest::new(object, "default", &kinds).expect_err(expected);
            assert!(error.contains(expected), "{error}");
        }
    }
}
