//! The paths of a document, with the query parameters whose presence kubectl checks before it sends them.

use serde_json::{Map, Value, json};

use super::{ServedResource, components};

const JSON: &str = "application/json";
const PATCH_MEDIA_TYPES: [&str; 4] = [
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
];

/// Returns the paths of the served resources.
pub(super) fn paths(served: &[ServedResource<'_>]) -> Map<String, Value> {
    let mut paths = Map::new();
    for resource in served {
        if components::name(resource).is_some() {
            add_resource(resource, &mut paths);
        }
    }
    paths
}

fn add_resource(served: &ServedResource<'_>, paths: &mut Map<String, Value>) {
    let root = format!("/{}", super::path(served.group, served.version));
    let (collection, scope) = if served.namespaced {
        (format!("{root}/namespaces/{{namespace}}/{}", served.plural), vec![path_parameter("namespace")])
    } else {
        (format!("{root}/{}", served.plural), Vec::new())
    };
    let operations = Operations { served, kind: served.kind };
    if served.create_only {
        paths.insert(collection, json!({"post": operations.write("post", "create"), "parameters": scope}));
        return;
    }
    paths.insert(
        collection.clone(),
        json!({
            "get": operations.list(),
            "post": operations.write("post", "create"),
            "delete": operations.delete("deletecollection"),
            "parameters": scope.clone(),
        }),
    );
    if served.namespaced {
        paths.insert(format!("{root}/{}", served.plural), json!({"get": operations.list()}));
    }
    let mut named = scope;
    named.push(path_parameter("name"));
    let object = format!("{collection}/{{name}}");
    paths.insert(
        object.clone(),
        json!({
            "get": operations.get(),
            "put": operations.write("put", "update"),
            "patch": operations.patch(),
            "delete": operations.delete("delete"),
            "parameters": named.clone(),
        }),
    );
    for (name, is_served) in [("status", served.has_status), ("scale", served.has_scale)] {
        if !is_served {
            continue;
        }
        let kind = if name == "scale" { "Scale" } else { served.kind };
        let operations = Operations { served, kind };
        paths.insert(
            format!("{object}/{name}"),
            json!({
                "get": operations.get(),
                "put": operations.write("put", "update"),
                "patch": operations.patch(),
                "parameters": named.clone(),
            }),
        );
    }
}

/// Builds the operations on one kind: the resource's own, or `Scale` for the scale subresource.
struct Operations<'a> {
    served: &'a ServedResource<'a>,
    kind: &'a str,
}

impl Operations<'_> {
    fn schema(&self) -> Value {
        let name = if self.kind == self.served.kind {
            components::name(self.served)
        } else {
            components::built_in("autoscaling", "v1", self.kind)
        };
        components::reference(&name.unwrap_or_default())
    }

    fn gvk(&self) -> Value {
        if self.kind == self.served.kind {
            components::gvk(self.served, self.kind)
        } else {
            json!({"group": "autoscaling", "kind": self.kind, "version": "v1"})
        }
    }

    fn operation(&self, action: &str, parameters: &[Value], response: &Value) -> Map<String, Value> {
        let fields = json!({
            "parameters": parameters,
            "responses": {"200": {"description": "OK", "content": {JSON: {"schema": response}}}},
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": self.gvk(),
        });
        fields.as_object().cloned().unwrap_or_default()
    }

    fn list(&self) -> Value {
        let parameters = [
            ("allowWatchBookmarks", "boolean"),
            ("continue", "string"),
            ("fieldSelector", "string"),
            ("labelSelector", "string"),
            ("limit", "integer"),
            ("resourceVersion", "string"),
            ("resourceVersionMatch", "string"),
            ("sendInitialEvents", "boolean"),
            ("timeoutSeconds", "integer"),
            ("watch", "boolean"),
        ]
        .map(|(name, ty)| query_parameter(name, ty));
        let list_name = components::list_name(self.served).unwrap_or_default();
        Value::Object(self.operation("list", &parameters, &components::reference(&list_name)))
    }

    fn get(&self) -> Value {
        Value::Object(self.operation("get", &[], &self.schema()))
    }

    fn write(&self, action: &str, verb: &str) -> Value {
        let parameters = ["dryRun", "fieldManager", "fieldValidation", "pretty"]
            .map(|name| query_parameter(name, "string"));
        let mut operation = self.operation(action, &parameters, &self.schema());
        operation.insert("description".into(), format!("{verb} a {}", self.kind).into());
        operation.insert(
            "requestBody".into(),
            json!({"content": {JSON: {"schema": self.schema()}}, "required": true}),
        );
        Value::Object(operation)
    }

    fn patch(&self) -> Value {
        let mut parameters = ["dryRun", "fieldManager", "fieldValidation", "pretty"]
            .map(|name| query_parameter(name, "string"))
            .to_vec();
        parameters.push(query_parameter("force", "boolean"));
        let mut operation = self.operation("patch", &parameters, &self.schema());
        let custom = self.served.is_custom;
        let types = PATCH_MEDIA_TYPES.iter().filter(|ty| !(custom && ty.contains("strategic")));
        let content: Map<String, Value> =
            types.map(|ty| ((*ty).to_owned(), json!({"schema": {"type": "object"}}))).collect();
        operation.insert("description".into(), format!("patch a {}", self.kind).into());
        operation.insert("requestBody".into(), json!({"content": content, "required": true}));
        Value::Object(operation)
    }

    fn delete(&self, action: &str) -> Value {
        let parameters = [
            ("dryRun", "string"),
            ("gracePeriodSeconds", "integer"),
            ("orphanDependents", "boolean"),
            ("propagationPolicy", "string"),
        ]
        .map(|(name, ty)| query_parameter(name, ty));
        let status = components::reference("io.k8s.apimachinery.pkg.apis.meta.v1.Status");
        let options = components::reference("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions");
        let mut operation = self.operation(action, &parameters, &status);
        operation.insert("requestBody".into(), json!({"content": {JSON: {"schema": options}}}));
        Value::Object(operation)
    }
}

fn query_parameter(name: &str, ty: &str) -> Value {
    json!({"name": name, "in": "query", "schema": {"type": ty, "uniqueItems": true}})
}

fn path_parameter(name: &str) -> Value {
    json!({"name": name, "in": "path", "required": true, "schema": {"type": "string", "uniqueItems": true}})
}
