//! The operations of a document, with the parameters that kubectl looks for before it uses them.

use serde_json::{Map, Value, json};

use super::{Served, components};

const JSON: &str = "application/json";
const PATCHES: [&str; 4] = [
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
];

/// All paths of what is served.
pub(super) fn paths(served: &[Served<'_>]) -> Map<String, Value> {
    let mut paths = Map::new();
    for one in served {
        if components::name(one).is_some() {
            resource(one, &mut paths);
        }
    }
    paths
}

fn resource(served: &Served<'_>, paths: &mut Map<String, Value>) {
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
    for (name, present) in [("status", served.status), ("scale", served.scale)] {
        if !present {
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

/// The operations on one kind, which for a scale subresource is not the resource's own.
struct Operations<'a> {
    served: &'a Served<'a>,
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

    fn operation(&self, action: &str, parameters: &[Value], answer: &Value) -> Map<String, Value> {
        let fields = json!({
            "parameters": parameters,
            "responses": {"200": {"description": "OK", "content": {JSON: {"schema": answer}}}},
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
        .map(|(name, ty)| query(name, ty));
        let list = components::list_name(self.served).unwrap_or_default();
        Value::Object(self.operation("list", &parameters, &components::reference(&list)))
    }

    fn get(&self) -> Value {
        Value::Object(self.operation("get", &[], &self.schema()))
    }

    fn write(&self, action: &str, verb: &str) -> Value {
        let parameters =
            ["dryRun", "fieldManager", "fieldValidation", "pretty"].map(|name| query(name, "string"));
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
            .map(|name| query(name, "string"))
            .to_vec();
        parameters.push(query("force", "boolean"));
        let mut operation = self.operation("patch", &parameters, &self.schema());
        let custom = self.served.is_custom;
        let types = PATCHES.iter().filter(|ty| !(custom && ty.contains("strategic")));
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
        .map(|(name, ty)| query(name, ty));
        let status = components::reference("io.k8s.apimachinery.pkg.apis.meta.v1.Status");
        let options = components::reference("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions");
        let mut operation = self.operation(action, &parameters, &status);
        operation.insert("requestBody".into(), json!({"content": {JSON: {"schema": options}}}));
        Value::Object(operation)
    }
}

fn query(name: &str, ty: &str) -> Value {
    json!({"name": name, "in": "query", "schema": {"type": ty, "uniqueItems": true}})
}

fn path_parameter(name: &str) -> Value {
    json!({"name": name, "in": "path", "required": true, "schema": {"type": "string", "uniqueItems": true}})
}
