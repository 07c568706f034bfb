//! The secrets that a Pod uses, and which of them its service account allows.

use pilothouse_model::hash::HashSet;
use serde_json::Value;

use super::items;
use crate::meta;

/// Where a volume names a secret.
const OF_VOLUMES: [&str; 10] = [
    "/azureFile/secretName",
    "/cephfs/secretRef/name",
    "/cinder/secretRef/name",
    "/csi/nodePublishSecretRef/name",
    "/flexVolume/secretRef/name",
    "/iscsi/secretRef/name",
    "/rbd/secretRef/name",
    "/scaleIO/secretRef/name",
    "/secret/secretName",
    "/storageos/secretRef/name",
];

/// Whether a Pod refers to any secret by name.
pub(super) fn is_any_used(spec: &Value) -> bool {
    let is_name = |value: Option<&Value>| value.and_then(Value::as_str).is_some_and(|name| !name.is_empty());
    let pulls = items(&spec["imagePullSecrets"]).iter().any(|secret| is_name(secret.get("name")));
    let in_volumes = items(&spec["volumes"]).iter().any(|volume| {
        OF_VOLUMES.iter().any(|pointer| is_name(volume.pointer(pointer)))
            || items(&volume["projected"]["sources"])
                .iter()
                .any(|source| is_name(source.pointer("/secret/name")))
    });
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    let mut containers = lists.iter().flat_map(|list| items(&spec[*list]));
    pulls
        || in_volumes
        || containers.any(|container| used_by(container).any(|(_, secret)| !secret.is_empty()))
}

/// Checks that a Pod uses only secrets that its account lists.
///
/// # Errors
/// A text that names the first other one.
pub(super) fn check_pod(account: &Value, pod: &Value) -> Result<(), String> {
    let (spec, name) = (&pod["spec"], meta::text(account, "name"));
    let allowed = names(&account["secrets"]);
    for volume in items(&spec["volumes"]).iter().filter(|volume| !volume["secret"].is_null()) {
        let secret = volume["secret"]["secretName"].as_str().unwrap_or_default();
        if !allowed.contains(secret) {
            return Err(not_listed(&format!("volume with secret.secretName=\"{secret}\""), name));
        }
    }
    check_containers("init container", &spec["initContainers"], &allowed, name)?;
    check_containers("container", &spec["containers"], &allowed, name)?;
    let pulled = names(&account["imagePullSecrets"]);
    for (index, secret) in items(&spec["imagePullSecrets"]).iter().enumerate() {
        let secret = secret["name"].as_str().unwrap_or_default();
        if !pulled.contains(secret) {
            return Err(format!(
                "imagePullSecrets[{index}].name=\"{secret}\" is not allowed because service account {name} does not reference that \
                 imagePullSecret"
            ));
        }
    }
    Ok(())
}

/// Checks that the ephemeral containers of a Pod use only secrets that its account lists.
///
/// # Errors
/// A text that names the first other one.
pub(super) fn check_ephemeral(account: &Value, pod: &Value) -> Result<(), String> {
    let containers = &pod["spec"]["ephemeralContainers"];
    check_containers(
        "ephemeral container",
        containers,
        &names(&account["secrets"]),
        meta::text(account, "name"),
    )
}

fn check_containers(
    kind: &str,
    containers: &Value,
    allowed: &HashSet<&str>,
    account: &str,
) -> Result<(), String> {
    for container in items(containers) {
        let name = container["name"].as_str().unwrap_or_default();
        if let Some((by, secret)) = used_by(container).find(|(_, secret)| !allowed.contains(secret)) {
            let subject = format!("{kind} {name} with {by} referencing secret.secretName=\"{secret}\"");
            return Err(not_listed(&subject, account));
        }
    }
    Ok(())
}

/// Returns the secrets that the environment of a container refers to, each with the reference as messages show it.
fn used_by(container: &Value) -> impl Iterator<Item = (String, &str)> {
    let variables = items(&container["env"]).iter().filter_map(|variable| {
        let secret = variable["valueFrom"].get("secretKeyRef").filter(|reference| !reference.is_null())?;
        let by = format!("envVar {}", variable["name"].as_str().unwrap_or_default());
        Some((by, secret["name"].as_str().unwrap_or_default()))
    });
    let sources = items(&container["envFrom"]).iter().filter_map(|source| {
        let secret = source.get("secretRef").filter(|reference| !reference.is_null())?;
        Some(("envFrom".to_owned(), secret["name"].as_str().unwrap_or_default()))
    });
    variables.chain(sources)
}

fn names(secrets: &Value) -> HashSet<&str> {
    items(secrets).iter().filter_map(|secret| secret["name"].as_str()).collect()
}

fn not_listed(subject: &str, account: &str) -> String {
    format!("{subject} is not allowed because service account {account} does not reference that secret")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_listed_secrets_are_allowed() {
        let account = json!({
            "metadata": {"name": "robot"}, "secrets": [{"name": "a"}], "imagePullSecrets": [{"name": "p"}],
        });
        let problem = |spec: Value| check_pod(&account, &json!({"spec": spec})).err();
        let from =
            |name: &str| json!([{"name": "X", "valueFrom": {"secretKeyRef": {"name": name, "key": "k"}}}]);
        assert_eq!(problem(json!({"containers": [{"name": "c", "env": from("a")}]})), None);
        let because = "is not allowed because service account robot does not reference that secret";
        let cases = [
            (json!({"volumes": [{"secret": {"secretName": "b"}}]}), "volume with secret.secretName=\"b\""),
            (
                json!({"initContainers": [{"name": "i", "env": from("b")}]}),
                "init container i with envVar X referencing secret.secretName=\"b\"",
            ),
            (
                json!({"containers": [{"name": "c", "envFrom": [{"secretRef": {"name": "b"}}]}]}),
                "container c with envFrom referencing secret.secretName=\"b\"",
            ),
        ];
        for (spec, subject) in cases {
            assert_eq!(problem(spec), Some(format!("{subject} {because}")));
        }
        assert_eq!(
            problem(json!({"imagePullSecrets": [{"name": "p"}, {"name": "a"}]})),
            Some(format!(
                "imagePullSecrets[1].name=\"a\" {}",
                because.replace("that secret", "that imagePullSecret")
            ))
        );
        let pod = json!({"spec": {"ephemeralContainers": [{"name": "e", "env": from("b")}]}});
        let subject = "ephemeral container e with envVar X referencing secret.secretName=\"b\"";
        assert_eq!(check_ephemeral(&account, &pod), Err(format!("{subject} {because}")));
    }

    #[test]
    fn secrets_are_found_wherever_a_pod_names_them() {
        for spec in [
            json!({"imagePullSecrets": [{"name": "s"}]}),
            json!({"volumes": [{"secret": {"secretName": "s"}}]}),
            json!({"volumes": [{"csi": {"nodePublishSecretRef": {"name": "s"}}}]}),
            json!({"volumes": [{"projected": {"sources": [{"secret": {"name": "s"}}]}}]}),
            json!({"ephemeralContainers": [{"envFrom": [{"secretRef": {"name": "s"}}]}]}),
        ] {
            assert!(is_any_used(&spec), "{spec}");
        }
        assert!(!is_any_used(&json!({"volumes": [{"configMap": {"name": "s"}}], "imagePullSecrets": [{}]})));
    }
}
