//! The pod of the chart's Deployment: what it runs, and whether it is hardened. Pure.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

/// The folder of a service account's token.
pub(super) const ACCOUNT_FOLDER: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// A pod with one container.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Pod {
    /// Program and arguments.
    pub(super) command: Vec<String>,
    pub(super) environment: BTreeMap<String, String>,
    pub(super) user: u32,
    pub(super) group: u32,
    /// Whether the container gets the service account's token.
    pub(super) has_token: bool,
    pub(super) mounts: Vec<Mount>,
}

/// A path of the container at which it has something other than a file of its image.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mount {
    pub(super) path: String,
    pub(super) source: Source,
}

/// What a container has at a mount.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// The files of a ConfigMap, or only the one of this name.
    ConfigMap { name: String, file: Option<String> },
    /// An empty folder in memory with this size in bytes.
    Memory { size: u64 },
}

impl Pod {
    /// Parses a pod's `spec`. `namespace` is that of the pod.
    ///
    /// # Errors
    /// Errors if the pod is not hardened, or has something that this test cannot provide.
    pub(super) fn parse(spec: &Value, namespace: &str) -> Result<Self> {
        let containers = spec["containers"].as_array().map(Vec::as_slice).unwrap_or_default();
        let [container] = containers else { bail!("the pod has {} containers", containers.len()) };
        ensure!(spec["initContainers"].is_null(), "the pod has init containers");
        require_hardening(&spec["securityContext"], &container["securityContext"])?;
        let mut command = texts(&container["command"]);
        ensure!(!command.is_empty(), "the container has no command");
        command.extend(texts(&container["args"]));
        let mut environment = BTreeMap::new();
        for variable in container["env"].as_array().into_iter().flatten() {
            let name = text(&variable["name"])?;
            let value = match variable["valueFrom"]["fieldRef"]["fieldPath"].as_str() {
                Some("metadata.namespace") => namespace.to_owned(),
                Some(path) => bail!("the variable {name} has the value of {path}"),
                None => text(&variable["value"]).with_context(|| format!("the variable {name}"))?,
            };
            environment.insert(name, value);
        }
        let id = |name: &str| {
            let id = spec["securityContext"][name].as_u64().and_then(|id| u32::try_from(id).ok());
            id.with_context(|| format!("securityContext.{name} of the pod is no ID"))
        };
        Ok(Self {
            command,
            environment,
            user: id("runAsUser")?,
            group: id("runAsGroup")?,
            has_token: spec["automountServiceAccountToken"] == true,
            mounts: mounts(spec, container)?,
        })
    }
}

/// Errors unless the container runs as a user without privileges and cannot write to its image.
fn require_hardening(pod: &Value, container: &Value) -> Result<()> {
    ensure!(pod["runAsNonRoot"] == true && pod["runAsUser"] != 0, "the pod may run as root");
    ensure!(pod["seccompProfile"]["type"] == "RuntimeDefault", "the pod has no seccomp profile");
    ensure!(container["allowPrivilegeEscalation"] == false, "the container may get more privileges");
    ensure!(container["readOnlyRootFilesystem"] == true, "the container may write to its image");
    let has_capabilities =
        texts(&container["capabilities"]["drop"]) != ["ALL"] || !container["capabilities"]["add"].is_null();
    ensure!(!has_capabilities, "the container has capabilities");
    ensure!(container["privileged"] != true, "the container is privileged");
    Ok(())
}

fn mounts(spec: &Value, container: &Value) -> Result<Vec<Mount>> {
    let mut mounts = Vec::new();
    for mount in container["volumeMounts"].as_array().into_iter().flatten() {
        let (name, path) = (text(&mount["name"])?, text(&mount["mountPath"])?);
        let mut volumes = spec["volumes"].as_array().into_iter().flatten();
        let volume = volumes.find(|volume| volume["name"] == name.as_str());
        let volume = volume.with_context(|| format!("the pod has no volume {name}"))?;
        let source = match (&volume["configMap"], &volume["emptyDir"]) {
            (map @ Value::Object(_), _) => Source::ConfigMap {
                name: text(&map["name"])?,
                file: mount["subPath"].as_str().map(str::to_owned),
            },
            (_, empty @ Value::Object(_)) => {
                ensure!(empty["medium"] == "Memory", "the volume {name} is not in memory");
                Source::Memory { size: bytes(&text(&empty["sizeLimit"])?)? }
            }
            _ => bail!("this test has no volumes like {volume}"),
        };
        mounts.push(Mount { path, source });
    }
    Ok(mounts)
}

fn text(value: &Value) -> Result<String> {
    value.as_str().map(str::to_owned).with_context(|| format!("expected a text, found {value}"))
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Parses a quantity in Ki, Mi or Gi.
fn bytes(quantity: &str) -> Result<u64> {
    let unit = |suffix: &str, shift: u32| {
        let number: u64 = quantity.strip_suffix(suffix)?.parse().ok()?;
        number.checked_mul(1 << shift)
    };
    let parsed = unit("Ki", 10).or_else(|| unit("Mi", 20)).or_else(|| unit("Gi", 30));
    parsed.with_context(|| format!("{quantity:?} is no size in Ki, Mi or Gi"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spec() -> Value {
        json!({
            "automountServiceAccountToken": true,
            "securityContext": {
                "runAsNonRoot": true, "runAsUser": 7, "runAsGroup": 8, "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [{
                "command": ["pilothouse"],
                "args": ["run", "--cache-dir=/cache"],
                "env": [
                    {"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
                    {"name": "A", "value": "b"},
                ],
                "securityContext": {
                    "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]},
                },
                "volumeMounts": [
                    {"name": "config", "mountPath": "/etc/pilothouse"},
                    {"name": "sidecars", "mountPath": "/plugins/a.yaml", "subPath": "a.yaml"},
                    {"name": "cache", "mountPath": "/cache"},
                ],
            }],
            "volumes": [
                {"name": "config", "configMap": {"name": "host"}},
                {"name": "sidecars", "configMap": {"name": "host-sidecars"}},
                {"name": "cache", "emptyDir": {"medium": "Memory", "sizeLimit": "256Mi"}},
            ],
        })
    }

    #[test]
    fn a_pod_has_its_command_variables_and_mounts() {
        let pod = Pod::parse(&spec(), "shop").expect("a pod");
        assert_eq!(pod.command, ["pilothouse", "run", "--cache-dir=/cache"]);
        let environment = [("A", "b"), ("POD_NAMESPACE", "shop")];
        let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(pod.environment, BTreeMap::from(environment));
        assert_eq!((pod.user, pod.group, pod.has_token), (7, 8, true));
        let map = |name: &str, file: Option<&str>| Source::ConfigMap {
            name: name.to_owned(),
            file: file.map(str::to_owned),
        };
        let expected = [
            ("/etc/pilothouse", map("host", None)),
            ("/plugins/a.yaml", map("host-sidecars", Some("a.yaml"))),
            ("/cache", Source::Memory { size: 256 << 20 }),
        ];
        let expected = expected.map(|(path, source)| Mount { path: path.to_owned(), source });
        assert_eq!(pod.mounts, expected);
    }

    #[test]
    fn a_pod_that_is_not_hardened_is_refused() {
        let container = "/containers/0/securityContext";
        for (pointer, value) in [
            ("/securityContext/runAsNonRoot".to_owned(), json!(false)),
            ("/securityContext/runAsUser".to_owned(), json!(0)),
            ("/securityContext/seccompProfile".to_owned(), Value::Null),
            (format!("{container}/allowPrivilegeEscalation"), json!(true)),
            (format!("{container}/readOnlyRootFilesystem"), Value::Null),
            (format!("{container}/capabilities"), json!({"drop": ["NET_RAW"]})),
            (format!("{container}/capabilities"), json!({"drop": ["ALL"], "add": ["NET_RAW"]})),
        ] {
            let mut spec = spec();
            *spec.pointer_mut(&pointer).expect("a member") = value;
            assert!(Pod::parse(&spec, "shop").is_err(), "{pointer}");
        }
    }

    #[test]
    fn volumes_that_the_test_cannot_provide_are_refused() {
        for volume in [
            json!({"name": "cache", "hostPath": {"path": "/"}}),
            json!({"name": "cache", "emptyDir": {}}),
            json!({"name": "cache", "emptyDir": {"medium": "Memory", "sizeLimit": "1G"}}),
            json!({"name": "other", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}),
        ] {
            let mut spec = spec();
            spec["volumes"][2] = volume.clone();
            assert!(Pod::parse(&spec, "shop").is_err(), "{volume}");
        }
    }
}
