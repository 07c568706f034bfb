//! The CRD of the kind `Plugin`, generated from the types of sidecars and of the status.

use serde_json::{Value, json};

use super::object::ImageMembers;
use super::object_status::PluginObjectStatus;
use super::structural::structural;
use super::{GROUP, KIND, PLURAL, VERSION};
use crate::config::sidecar;

/// Returns the manifest of the CRD, as in `deploy/chart/files/plugins.pilothouse.dev.yaml`.
#[must_use]
pub fn plugin_crd() -> Value {
    let column = |name: &str, ty: &str, path: &str, priority: u8| json!({"name": name, "type": ty, "jsonPath": path, "priority": priority});
    let status_of = |condition: &str| format!(".status.conditions[?(@.type==\"{condition}\")].status");
    let version = json!({
        "name": VERSION,
        "served": true,
        "storage": true,
        "subresources": {"status": {}},
        "additionalPrinterColumns": [
            column("Running", "string", &status_of("Running"), 0),
            column("Ready", "string", &status_of("Ready"), 0),
            column("Reason", "string", ".status.conditions[?(@.type==\"Running\")].reason", 0),
            column("Version", "string", ".status.version", 0),
            column("Verified", "string", &status_of("Verified"), 1),
            column("Image", "string", ".spec.image", 1),
            column("Error", "string", ".status.lastError", 1),
            column("Age", "date", ".metadata.creationTimestamp", 0),
        ],
        "schema": {"openAPIV3Schema": {
            "type": "object",
            "description": "A plugin that Pilothouse runs.",
            "required": ["spec"],
            "properties": {
                "apiVersion": {"type": "string"},
                "kind": {"type": "string"},
                "metadata": {"type": "object"},
                "spec": spec_schema(),
                "status": status_schema(),
            },
            "x-kubernetes-validations": [{
                "rule": "size(self.metadata.name) <= 63 && !self.metadata.name.contains('.')",
                "message": "metadata.name is the plugin's name: at most 63 lower-case letters, digits and '-'",
            }],
        }},
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{PLURAL}.{GROUP}")},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"kind": KIND, "listKind": format!("{KIND}List"), "plural": PLURAL, "singular": "plugin"},
            "versions": [version],
        },
    })
}

fn spec_schema() -> Value {
    let mut spec = structural(&sidecar::schema());
    let image = structural(&schemars::schema_for!(ImageMembers).to_value());
    if let (Some(members), Some(more)) = (spec["properties"].as_object_mut(), image["properties"].as_object())
    {
        members.extend(more.clone());
    }
    spec["description"] = "The members of a sidecar, and the image.".into();
    spec["required"] = json!(["image"]);
    for (path, keywords) in [
        (
            "/properties/image",
            json!({"minLength": 1, "x-kubernetes-validations": [
                {"rule": "self.matches('^(oci://)?[^/@]+/[^@]+(@sha256:[0-9a-f]{64})?$')",
                 "message": "write REGISTRY/REPOSITORY:TAG or REGISTRY/REPOSITORY@sha256:DIGEST"},
                {"rule": "self.matches('(:[A-Za-z0-9_][A-Za-z0-9_.-]*|@sha256:[0-9a-f]{64})$')",
                 "message": "no tag is assumed: write REGISTRY/REPOSITORY:TAG, or a digest after @"},
            ]}),
        ),
        ("/properties/poll", json!({"maxLength": 16, "pattern": "^[0-9]+[smh]$"})),
        ("/properties/workers", json!({"minimum": 1, "maximum": 64})),
        (
            "/properties/serviceAccount",
            json!({"maxLength": 317, "pattern": "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?/[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$"}),
        ),
        (
            "/properties/grants/properties/http",
            json!({"x-kubernetes-validations": [
                {"rule": "self.all(host, host.size() > 0 && !host.contains('@'))",
                 "message": "write a host such as api.example.com, or its URL without a user"},
            ]}),
        ),
        (
            "/properties/grants/properties/watches/items/properties/namespaces/items",
            json!({"maxLength": 63, "pattern": r"^(\*|[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)$"}),
        ),
    ] {
        refine(&mut spec, path, keywords);
    }
    spec
}

fn status_schema() -> Value {
    let mut status = structural(&schemars::schema_for!(PluginObjectStatus).to_value());
    let list =
        json!({"maxItems": 16, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]});
    refine(&mut status, "/properties/conditions", list);
    refine(
        &mut status,
        "/properties/conditions/items/properties/lastTransitionTime",
        json!({"format": "date-time"}),
    );
    // A host writes at most 1,024 bytes. The room is for hosts of later versions.
    for path in ["/properties/lastError", "/properties/conditions/items/properties/message"] {
        refine(&mut status, path, json!({"maxLength": 32_768}));
    }
    status
}

/// Adds keywords to the schema at a path.
fn refine(schema: &mut Value, path: &str, keywords: Value) {
    if let (Some(Value::Object(found)), Value::Object(keywords)) = (schema.pointer_mut(path), keywords) {
        found.extend(keywords);
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_model::Object;

    use super::*;
    use crate::config::limits;

    const PATH: &str =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/chart/files/plugins.pilothouse.dev.yaml");

    /// With `PILOTHOUSE_UPDATE_SCHEMA=1` the file is written instead of compared.
    #[test]
    fn the_published_schema_of_plugin_objects_matches_the_types() {
        let yaml = serde_saphyr::to_string(&plugin_crd()).expect("YAML");
        let text = format!(
            "# Generated: PILOTHOUSE_UPDATE_SCHEMA=1 cargo test -p pilothouse-controller --lib schema\n{yaml}"
        );
        if std::env::var_os("PILOTHOUSE_UPDATE_SCHEMA").is_some() {
            std::fs::write(PATH, &text).expect("written");
        }
        let published = std::fs::read_to_string(PATH).expect("the chart has the CRD");
        assert!(
            published == text,
            "{PATH} is not up to date: run PILOTHOUSE_UPDATE_SCHEMA=1 cargo test -p pilothouse-controller --lib schema"
        );
        // The chart inserts what follows this line.
        assert_eq!(published.matches("\nspec:\n").count(), 1);
        let read: Value = serde_saphyr::from_str(&published).expect("YAML");
        assert_eq!(read, plugin_crd());
    }

    #[test]
    fn the_spec_has_the_members_of_a_sidecar_and_the_image() {
        let (spec, sidecar) = (spec_schema(), sidecar::schema());
        let names = |schema: &Value| -> std::collections::BTreeSet<String> {
            schema["properties"].as_object().expect("members").keys().cloned().collect()
        };
        let mut expected = names(&sidecar);
        expected.extend(["image".to_owned(), "poll".to_owned()]);
        assert_eq!(names(&spec), expected);
        assert_eq!(
            spec["properties"]["limits"]["properties"].as_object().map(serde_json::Map::len),
            Some(limits::LIMITS.len())
        );
        assert_eq!(spec["properties"]["workers"]["maximum"], 64);
        assert_eq!(spec["properties"]["config"]["x-kubernetes-preserve-unknown-fields"], true);
    }

    /// Asserts that a schema is structural and that every text and every list has a limit.
    fn check(schema: &Value, path: &str) {
        let preserves = schema["x-kubernetes-preserve-unknown-fields"] == true;
        let ty = schema["type"].as_str().unwrap_or_default();
        assert!(
            ["object", "array", "string", "integer", "boolean"].contains(&ty),
            "{path} has the type {ty:?}"
        );
        match ty {
            "string" => assert!(schema["maxLength"].is_u64() || schema["enum"].is_array(), "{path}"),
            "array" => assert!(schema["maxItems"].is_u64(), "{path}"),
            "object" => assert!(preserves || schema["properties"].is_object(), "{path}"),
            _ => {}
        }
        for keyword in ["$ref", "$defs", "default", "const", "additionalProperties", "title", "$schema"] {
            assert!(schema[keyword].is_null(), "{path} has {keyword}");
        }
        for (name, value) in schema["properties"].as_object().into_iter().flatten() {
            check(value, &format!("{path}.{name}"));
        }
        if schema["items"].is_object() {
            check(&schema["items"], &format!("{path}[]"));
        }
    }

    #[test]
    fn the_schemas_of_spec_and_status_are_structural_and_bounded() {
        check(&spec_schema(), "spec");
        check(&status_schema(), "status");
        let namespaces = "/properties/grants/properties/watches/items/properties/namespaces/items/pattern";
        for path in ["/properties/image/x-kubernetes-validations", namespaces] {
            assert!(spec_schema().pointer(path).is_some(), "{path}");
        }
    }

    #[tokio::test]
    async fn the_api_server_accepts_the_crd_and_refuses_hostile_objects() {
        let api = pilothouse_apiserver::ApiServer::builder().build();
        let server = crate::client::ApiClient::new(kube::Client::new(api.service(), "default"));
        crate::client::apply_crds(&server, None, &[plugin_crd()], &mut Vec::new()).await.expect("accepted");
        let path = "/apis/pilothouse.dev/v1alpha1/namespaces/default/plugins?fieldValidation=Strict";
        let create = async |name: &str, spec: Value| {
            let object = json!({"apiVersion": "pilothouse.dev/v1alpha1", "kind": KIND, "metadata": {"name": name}, "spec": spec});
            let payload = crate::client::Payload::json(object.to_string());
            server.request(http::Method::POST, path, Some(payload)).await.map_err(|error| error.to_string())
        };
        let zeros = "0".repeat(64);
        let (digest, both) = (format!("r.example/p@sha256:{zeros}"), format!("r.example/p:1@sha256:{zeros}"));
        for (name, image) in [
            ("a", "r.example/team/p:1"),
            ("b", "oci://localhost:5000/p:v1.2"),
            ("c", digest.as_str()),
            ("d", both.as_str()),
        ] {
            let spec = json!({"image": image, "workers": 4, "config": {"deep": [{"a": 1}]}, "rollout": {"probation": "5m"}});
            let created = create(name, spec).await.expect(image);
            let created = Object::from_json(created).expect("an object");
            assert_eq!(created.field("/spec/config"), Some(r#"{"deep":[{"a":1}]}"#));
        }
        let image = "r.example/p:1";
        let long = "x".repeat(64);
        for (name, spec, part) in [
            ("e", json!({}), "spec.image"),
            ("e", json!({"image": "r.example/p"}), "no tag is assumed"),
            ("e", json!({"image": "p:1"}), "write REGISTRY/REPOSITORY"),
            ("e", json!({"image": "x".repeat(2000)}), "image"),
            ("e", json!({"image": image, "worker": 1}), "unknown field"),
            ("e", json!({"image": image, "workers": 65}), "spec.workers"),
            ("e", json!({"image": image, "workers": "4"}), "spec.workers"),
            ("e", json!({"image": image, "serviceAccount": "../../x"}), "spec.serviceAccount"),
            ("e", json!({"image": image, "poll": "often"}), "spec.poll"),
            ("e", json!({"image": image, "grants": {"http": ["user@a.example.com"]}}), "without a user"),
            (
                "e",
                json!({"image": image, "grants": {"http": vec!["a.example.com"; 300]}}),
                "spec.grants.http",
            ),
            (
                "e",
                json!({"image": image, "grants": {"watches": [{"apiGroups": [""], "resources": ["pods"], "namespaces": ["a/b"]}]}}),
                "namespaces[0]",
            ),
            ("a.b", json!({"image": image}), "the plugin's name"),
            (long.as_str(), json!({"image": image}), "the plugin's name"),
        ] {
            let error = create(name, spec).await.expect_err(part);
            assert!(error.contains(part), "{part}: {error}");
        }
    }
}
