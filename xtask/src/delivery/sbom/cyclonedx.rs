//! Writes CycloneDX 1.6 as JSON.

use serde_json::{Value, json};

use super::tree::{PackageId, Tree};

/// A package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Component {
    pub(super) name: String,
    pub(super) version: String,
    /// The package URL, by which scanners find known weaknesses.
    pub(super) purl: String,
    /// An SPDX expression.
    pub(super) licence: Option<String>,
    pub(super) repository: Option<String>,
    /// Sum of the archive in the registry.
    pub(super) sha256: Option<String>,
}

impl Component {
    /// Returns a component that is no package of cargo's.
    pub(super) fn generic(name: &str, version: &str, licence: &str) -> Self {
        Self {
            name: name.to_owned(),
            version: version.to_owned(),
            purl: format!("pkg:generic/{name}@{version}"),
            licence: Some(licence.to_owned()),
            repository: None,
            sha256: None,
        }
    }

    fn to_json(&self, kind: &str) -> Value {
        let mut json = json!({
            "type": kind,
            "bom-ref": self.purl,
            "name": self.name,
            "version": self.version,
            "purl": self.purl,
        });
        if let Some(licence) = &self.licence {
            json["licenses"] = json!([{"expression": licence}]);
        }
        if let Some(sum) = &self.sha256 {
            json["hashes"] = json!([{"alg": "SHA-256", "content": sum}]);
        }
        if let Some(address) = &self.repository {
            json["externalReferences"] = json!([{"type": "vcs", "url": address}]);
        }
        json
    }
}

/// What a document says.
pub(super) struct Document<'a> {
    pub(super) created: &'a str,
    pub(super) program: Component,
    pub(super) components: Vec<Component>,
    pub(super) tree: &'a Tree,
    /// How the program was built.
    pub(super) properties: &'a [(&'a str, &'a str)],
}

impl Document<'_> {
    /// Returns the document. It has no serial number, which would be different for each build.
    pub(super) fn to_json(&self) -> String {
        let reference = |id: &PackageId| format!("pkg:cargo/{}@{}", id.name, id.version);
        let dependencies = self.tree.edges().map(|(package, dependencies)| {
            let dependencies: Vec<String> = dependencies.iter().map(reference).collect();
            json!({"ref": reference(package), "dependsOn": dependencies})
        });
        let properties = self.properties.iter().map(|(name, value)| json!({"name": name, "value": value}));
        let document = json!({
            "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
            "bomFormat": "CycloneDX",
            "specVersion": "1.6",
            "version": 1,
            "metadata": {
                "timestamp": self.created,
                "component": self.program.to_json("application"),
                "properties": properties.collect::<Vec<Value>>(),
            },
            "components": self.components.iter().map(|component| component.to_json("library")).collect::<Vec<Value>>(),
            "dependencies": dependencies.collect::<Vec<Value>>(),
        });
        format!("{document:#}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn component(name: &str, sha256: Option<&str>) -> Component {
        Component {
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            purl: format!("pkg:cargo/{name}@1.0.0"),
            licence: Some("MIT OR Apache-2.0".to_owned()),
            repository: Some(format!("https://example.com/{name}")),
            sha256: sha256.map(str::to_owned),
        }
    }

    fn document() -> String {
        let tree = Tree::parse("0 app v1.0.0 (/src)\n1 a v1.0.0\n").expect("a tree");
        let components =
            vec![component("a", Some("01ff")), Component::generic("glibc", "2.36", "LGPL-2.1-or-later")];
        let properties = [("pilothouse:target", "x86_64-unknown-linux-gnu")];
        let program = component("app", None);
        Document {
            created: "2026-11-01T00:00:00Z",
            program,
            components,
            tree: &tree,
            properties: &properties,
        }
        .to_json()
    }

    #[test]
    fn the_document_lists_packages_with_licence_sum_and_dependencies() {
        let json: Value = serde_json::from_str(&document()).expect("JSON");
        assert_eq!((&json["bomFormat"], &json["specVersion"]), (&json!("CycloneDX"), &json!("1.6")));
        assert_eq!(json["metadata"]["component"]["name"], "app");
        assert_eq!(json["metadata"]["component"]["hashes"], Value::Null);
        assert_eq!(
            json["components"][0],
            json!({
                "type": "library",
                "bom-ref": "pkg:cargo/a@1.0.0",
                "name": "a",
                "version": "1.0.0",
                "purl": "pkg:cargo/a@1.0.0",
                "licenses": [{"expression": "MIT OR Apache-2.0"}],
                "hashes": [{"alg": "SHA-256", "content": "01ff"}],
                "externalReferences": [{"type": "vcs", "url": "https://example.com/a"}],
            })
        );
        assert_eq!(json["components"][1]["purl"], "pkg:generic/glibc@2.36");
        assert_eq!(
            json["dependencies"],
            json!([
                {"ref": "pkg:cargo/a@1.0.0", "dependsOn": []},
                {"ref": "pkg:cargo/app@1.0.0", "dependsOn": ["pkg:cargo/a@1.0.0"]},
            ])
        );
    }

    #[test]
    fn every_reference_is_that_of_a_component() {
        let json: Value = serde_json::from_str(&document()).expect("JSON");
        let components = json["components"].as_array().expect("a list").iter();
        let known: Vec<&Value> = components
            .chain([&json["metadata"]["component"]])
            .map(|component| &component["bom-ref"])
            .collect();
        for dependency in json["dependencies"].as_array().expect("a list") {
            assert!(known.contains(&&dependency["ref"]), "{dependency}");
        }
    }

    #[test]
    fn two_documents_of_the_same_packages_are_identical() {
        assert_eq!(document(), document());
    }
}
