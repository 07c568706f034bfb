//! What the acceptance plugin does in the container: each verb on objects of two kinds, as examples/acceptance/README.md specifies it.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

/// The namespace of the scripts and of the objects that they write.
const NAMESPACE: &str = "default";

/// An object that the plugin writes: API version, kind and name.
#[derive(Clone, Copy)]
struct Target(&'static str, &'static str, &'static str);

const CONFIG_MAP: Target = Target("v1", "ConfigMap", "container-map");
const DEPLOYMENT: Target = Target("apps/v1", "Deployment", "container-web");

/// An operation of the plugin, which the data of a ConfigMap describes.
#[derive(Debug)]
pub(super) struct Script {
    op: &'static str,
    /// The other data of the ConfigMap.
    arguments: Value,
    /// The result that the plugin logs.
    expected: String,
}

/// Returns the grants of the plugin's sidecar: of the subresources, those verbs that [`scripts`] uses.
pub(super) fn grants() -> Value {
    let rule = |group: &str, resource: &str, verbs: &[&str]| json!({"apiGroups": [group], "resources": [resource], "verbs": verbs});
    json!({
        "watches": [{"apiGroups": ["*"], "resources": ["*"]}],
        "writes": [
            rule("", "configmaps", &["*"]),
            rule("apps", "deployments", &["*"]),
            rule("apps", "deployments/status", &["get", "update", "patch"]),
            rule("apps", "deployments/scale", &["get", "patch"]),
        ],
    })
}

/// Returns operations that use each permission of [`grants`], in their order.
pub(super) fn scripts() -> Vec<Script> {
    let map = CONFIG_MAP.object(json!({"data": {"value": "one"}}));
    let labels = json!({"app": "web"});
    let deployment = DEPLOYMENT.object(json!({"spec": {
        "replicas": 1,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "nginx"}]}},
    }}));
    let mut scripts = write(CONFIG_MAP, &map, &json!({"data": {"value": "two"}}));
    scripts.push(delete(CONFIG_MAP));
    scripts.extend(write(DEPLOYMENT, &deployment, &json!({"spec": {"paused": true}})));
    let patch = |subresource: &str, body: Value| {
        DEPLOYMENT.with(json!({"e": "merge", "f": subresource, "body": body.to_string()}))
    };
    let name = DEPLOYMENT.2;
    scripts.extend([
        Script::new("client-get", DEPLOYMENT.with(json!({"e": "status", "f": "/kind"})), "Deployment"),
        Script::new("update", json!({"a": "status", "body": deployment.to_string()}), name),
        Script::new("patch", patch("status", json!({"status": {"observedGeneration": 1}})), name),
        Script::new("client-get", DEPLOYMENT.with(json!({"e": "scale", "f": "/kind"})), "Scale"),
        Script::new("patch", patch("scale", json!({"spec": {"replicas": 0}})), name),
    ]);
    scripts.push(delete(DEPLOYMENT));
    scripts
}

/// Returns operations that create, read, list, update and patch an object.
fn write(target: Target, object: &Value, patch: &Value) -> Vec<Script> {
    let Target(api_version, kind, name) = target;
    let list =
        json!({"a": api_version, "b": kind, "c": NAMESPACE, "e": format!("metadata.name={name}"), "f": "0"});
    let merge = json!({"e": "merge", "f": "", "body": patch.to_string()});
    vec![
        Script::new("create", json!({"body": object.to_string()}), name),
        Script::new("client-get", target.with(json!({"e": "", "f": "/metadata/name"})), name),
        Script::new("client-list", list, &format!("{NAMESPACE}/{name}")),
        Script::new("update", json!({"body": object.to_string()}), name),
        Script::new("patch", target.with(merge), name),
    ]
}

fn delete(target: Target) -> Script {
    Script::new("delete", target.with(json!({"e": "background", "f": "", "g": ""})), "deleted")
}

impl Target {
    /// Returns the object with these members besides its metadata.
    fn object(self, mut members: Value) -> Value {
        let Self(api_version, kind, name) = self;
        members["apiVersion"] = api_version.into();
        members["kind"] = kind.into();
        members["metadata"] =
            json!({"name": name, "namespace": NAMESPACE, "labels": {"test": "acceptance-item"}});
        members
    }

    /// Returns the arguments of an operation on the object, with further ones.
    fn with(self, mut further: Value) -> Value {
        let Self(api_version, kind, name) = self;
        for (argument, text) in [("a", api_version), ("b", kind), ("c", NAMESPACE), ("d", name)] {
            further[argument] = text.into();
        }
        further
    }
}

impl Script {
    fn new(op: &'static str, arguments: Value, expected: &str) -> Self {
        Self { op, arguments, expected: expected.to_owned() }
    }

    /// Returns the ConfigMap that makes the plugin perform this, and its path.
    pub(super) fn config_map(&self, number: usize) -> (String, Value) {
        let mut data = self.arguments.clone();
        data["op"] = self.op.into();
        let metadata = json!({
            "name": format!("script-{number}"), "namespace": NAMESPACE, "labels": {"test": "acceptance"},
        });
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data});
        (format!("/api/v1/namespaces/{NAMESPACE}/configmaps"), object)
    }

    /// Returns whether the plugin has performed this, according to its log after the first `seen` results.
    ///
    /// # Errors
    /// Errors if the result is another one.
    pub(super) fn is_done(&self, log: &str, seen: usize) -> Result<bool> {
        let results = results(log);
        let Some((_, value)) = results.iter().skip(seen).find(|(op, _)| op == self.op) else {
            return Ok(false);
        };
        ensure!(
            *value == self.expected,
            "the acceptance plugin's {} with {} returned {value}, not {}",
            self.op,
            self.arguments,
            self.expected
        );
        Ok(true)
    }
}

/// Returns the operations in a plugin's log, lines of JSON, with their results.
pub(super) fn results(log: &str) -> Vec<(String, String)> {
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let results = lines.filter(|line| line["message"] == "result").filter_map(|line| {
        let field = |name: &str| {
            let mut fields = line["fields"].as_array().into_iter().flatten();
            let field = fields.find(|field| field[0] == name)?;
            field[1].as_str().map(str::to_owned)
        };
        Some((field("op")?, field("value")?))
    });
    results.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_done_once_its_result_is_logged() {
        let line = |op: &str, value: &str| {
            json!({"message": "result", "fields": [["op", op], ["value", value]]}).to_string()
        };
        let script = Script::new("create", json!({}), "a");
        let log = format!("{}\nno JSON\n{}\n", line("create", "b"), line("patch", "a"));
        assert_eq!(results(&log).len(), 2);
        assert!(script.is_done(&log, 0).is_err(), "another result");
        assert!(!script.is_done(&log, 1).expect("not yet"));
        let log = format!("{log}{}\n{{\"message\":\"result\"}}\n", line("create", "a"));
        assert!(script.is_done(&log, 1).expect("the result"));
    }

    #[test]
    fn each_verb_of_the_grants_has_a_script() {
        let scripts = scripts();
        for kind in ["ConfigMap", "Deployment"] {
            for op in ["create", "client-get", "client-list", "update", "patch", "delete"] {
                let uses = |script: &&Script| script.op == op && script.arguments.to_string().contains(kind);
                assert!(scripts.iter().any(|script| uses(&script)), "{op} {kind}");
            }
        }
        let (path, object) = scripts[0].config_map(7);
        assert_eq!(
            (path.as_str(), &object["metadata"]["name"]),
            ("/api/v1/namespaces/default/configmaps", &json!("script-7"))
        );
        assert_eq!(object["data"]["op"], "create");
    }
}
