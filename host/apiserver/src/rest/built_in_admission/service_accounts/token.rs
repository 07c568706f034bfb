//! The volume with the token of a Pod's service account.

use serde_json::{Value, json};

use super::items;
use crate::identifiers::Identifiers;

/// The beginning of the volume's name.
const PREFIX: &str = "kube-api-access-";
/// Where containers find the token.
const PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// The seconds for which a token is valid: an hour and 7 seconds, by which kube-apiserver recognises the tokens that it mounts.
const EXPIRATION: u32 = 3607;

/// Mounts the token in all containers that have no other volume in its place. A volume with the name of a token volume is used.
pub(super) fn mount(identifiers: &Identifiers, spec: &mut Value) {
    let volumes = items(&spec["volumes"]).iter();
    let existing = volumes.filter_map(|volume| volume["name"].as_str()).find(|name| name.starts_with(PREFIX));
    let existing = existing.map(str::to_owned);
    let name = existing.clone().unwrap_or_else(|| identifiers.generate_name(PREFIX));
    let mut is_mounted = false;
    for list in ["initContainers", "containers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            if items(&container["volumeMounts"]).iter().any(|mount| mount["mountPath"] == PATH) {
                continue;
            }
            push(container, "volumeMounts", json!({"mountPath": PATH, "name": name, "readOnly": true}));
            is_mounted = true;
        }
    }
    if is_mounted && existing.is_none() {
        push(spec, "volumes", json!({"name": name, "projected": {"defaultMode": 420, "sources": sources()}}));
    }
}

fn sources() -> Value {
    let namespace =
        json!({"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}, "path": "namespace"});
    json!([
        {"serviceAccountToken": {"expirationSeconds": EXPIRATION, "path": "token"}},
        {"configMap": {"items": [{"key": "ca.crt", "path": "ca.crt"}], "name": "kube-root-ca.crt"}},
        {"downwardAPI": {"items": [namespace]}},
    ])
}

fn push(object: &mut Value, field: &str, item: Value) {
    match object.get_mut(field).and_then(Value::as_array_mut) {
        Some(list) => list.push(item),
        None => object[field] = json!([item]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mounted(mut spec: Value) -> Value {
        mount(&Identifiers::from_seed(1), &mut spec);
        spec
    }

    #[test]
    fn every_container_without_a_mount_gets_the_token() {
        let own = json!({"volumeMounts": [{"name": "own", "mountPath": PATH}]});
        let spec = mounted(json!({"initContainers": [{}], "containers": [{}, own]}));
        let name = spec["volumes"][0]["name"].as_str().expect("a volume");
        assert!(name.starts_with(PREFIX) && name.len() == PREFIX.len() + 5, "{name}");
        for pointer in ["/initContainers/0", "/containers/0"] {
            let mounts = &spec.pointer(pointer).expect("a container")["volumeMounts"];
            assert_eq!(*mounts, json!([{"mountPath": PATH, "name": name, "readOnly": true}]));
        }
        assert_eq!(spec["containers"][1], own);
        assert_eq!(
            spec["volumes"][0]["projected"]["sources"][0]["serviceAccountToken"]["expirationSeconds"],
            3607
        );
    }

    #[test]
    fn existing_token_volume_is_used() {
        let spec = mounted(json!({"containers": [{}], "volumes": [{"name": "kube-api-access-mine"}]}));
        assert_eq!(spec["volumes"], json!([{"name": "kube-api-access-mine"}]));
        assert_eq!(spec["containers"][0]["volumeMounts"][0]["name"], "kube-api-access-mine");
    }

    #[test]
    fn no_volume_is_added_that_no_container_mounts() {
        let spec = json!({"containers": [{"volumeMounts": [{"name": "own", "mountPath": PATH}]}]});
        assert_eq!(mounted(spec.clone()), spec);
    }
}
