//! The kinds that a scenario can name: those of its CRDs and the built-in ones.

use std::collections::BTreeMap;

use pilothouse_model::ResourceType;
use pilothouse_yaml::suggestion;
use serde_json::Value;

use super::text::quoted;

/// The most CRDs of a scenario.
pub const MAX_CRDS: usize = 100;

/// A kind of objects.
#[derive(Clone, Debug, PartialEq)]
pub struct KindInfo {
    /// The resource in the version that the scenario uses.
    pub resource: ResourceType,
    /// Whether the kind has the subresource `status`.
    pub has_status: bool,
    /// The structural schema of a custom resource.
    pub schema: Option<Value>,
}

/// All kinds that a scenario can name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kinds {
    known: Vec<KindInfo>,
    /// What stands for every kind that is not known; `None` if such a kind is an error.
    assumed: Option<Box<KindInfo>>,
}

/// Built-in kinds: group, version, kind, plural, whether namespaced, whether there is a subresource `status`.
const BUILT_IN: [(&str, &str, &str, &str, bool, bool); 38] = [
    ("", "v1", "ConfigMap", "configmaps", true, false),
    ("", "v1", "Endpoints", "endpoints", true, false),
    ("", "v1", "Event", "events", true, false),
    ("", "v1", "LimitRange", "limitranges", true, false),
    ("", "v1", "Namespace", "namespaces", false, true),
    ("", "v1", "Node", "nodes", false, true),
    ("", "v1", "PersistentVolume", "persistentvolumes", false, true),
    ("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", true, true),
    ("", "v1", "Pod", "pods", true, true),
    ("", "v1", "PodTemplate", "podtemplates", true, false),
    ("", "v1", "ReplicationController", "replicationcontrollers", true, true),
    ("", "v1", "ResourceQuota", "resourcequotas", true, true),
    ("", "v1", "Secret", "secrets", true, false),
    ("", "v1", "Service", "services", true, true),
    ("", "v1", "ServiceAccount", "serviceaccounts", true, false),
    ("apps", "v1", "ControllerRevision", "controllerrevisions", true, false),
    ("apps", "v1", "DaemonSet", "daemonsets", true, true),
    ("apps", "v1", "Deployment", "deployments", true, true),
    ("apps", "v1", "ReplicaSet", "replicasets", true, true),
    ("apps", "v1", "StatefulSet", "statefulsets", true, true),
    ("batch", "v1", "CronJob", "cronjobs", true, true),
    ("batch", "v1", "Job", "jobs", true, true),
    ("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", true, true),
    ("coordination.k8s.io", "v1", "Lease", "leases", true, false),
    ("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", true, false),
    ("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", true, true),
    ("networking.k8s.io", "v1", "Ingress", "ingresses", true, true),
    ("networking.k8s.io", "v1", "IngressClass", "ingressclasses", false, false),
    ("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", true, false),
    ("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", false, false),
    ("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", false, false),
    ("rbac.authorization.k8s.io", "v1", "Role", "roles", true, false),
    ("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings", true, false),
    ("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", false, false),
    ("storage.k8s.io", "v1", "StorageClass", "storageclasses", false, false),
    ("storage.k8s.io", "v1", "CSIDriver", "csidrivers", false, false),
    ("storage.k8s.io", "v1", "VolumeAttachment", "volumeattachments", false, true),
    ("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", false, true),
];

impl Kinds {
    /// Returns the built-in kinds.
    #[must_use]
    pub fn built_in() -> Self {
        let kinds = BUILT_IN.iter().map(|(group, version, kind, plural, namespaced, has_status)| KindInfo {
            resource: ResourceType {
                group: (*group).to_owned(),
                version: (*version).to_owned(),
                kind: (*kind).to_owned(),
                plural: (*plural).to_owned(),
                namespaced: *namespaced,
            },
            has_status: *has_status,
            schema: None,
        });
        Self { known: kinds.collect(), assumed: None }
    }

    /// Returns these kinds, and takes every other kind for a custom one. A scenario can so be checked before the plugins are loaded, whose CRDs define
    /// further kinds.
    #[must_use]
    pub fn assuming_others(self) -> Self {
        let resource = ResourceType {
            group: String::new(),
            version: String::new(),
            kind: "custom object".to_owned(),
            plural: String::new(),
            namespaced: true,
        };
        Self { assumed: Some(Box::new(KindInfo { resource, has_status: true, schema: None })), ..self }
    }

    /// Adds the kind that a CRD defines, in its stored version.
    ///
    /// # Errors
    /// Errors with one line if the object is no CRD or lacks a field, or if there are too many.
    pub fn add_crd(&mut self, crd: &Value) -> Result<(), String> {
        if crd["kind"] != "CustomResourceDefinition" {
            return Err(format!(
                "kind {} is not CustomResourceDefinition; list other objects under objects",
                crd["kind"]
            ));
        }
        if self.known.len() >= BUILT_IN.len() + MAX_CRDS {
            return Err(format!(
                "there are more than {MAX_CRDS} CRDs; leave out those that the plugin does not use"
            ));
        }
        let text = |value: &Value, field: &str| {
            value.as_str().map(str::to_owned).ok_or_else(|| format!("the CRD has no {field}; give it one"))
        };
        let spec = &crd["spec"];
        let versions = spec["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
        let stored = versions
            .iter()
            .find(|version| version["storage"] == true)
            .ok_or("the CRD has no version with storage: true; give it one")?;
        let info = KindInfo {
            resource: ResourceType {
                group: text(&spec["group"], "spec.group")?,
                version: text(&stored["name"], "name of the stored version")?,
                kind: text(&spec["names"]["kind"], "spec.names.kind")?,
                plural: text(&spec["names"]["plural"], "spec.names.plural")?,
                namespaced: spec["scope"] != "Cluster",
            },
            has_status: stored["subresources"]["status"].is_object(),
            schema: stored["schema"].get("openAPIV3Schema").cloned(),
        };
        let same = |known: &KindInfo| {
            known.resource.group == info.resource.group && known.resource.kind == info.resource.kind
        };
        self.known.retain(|known| !same(known));
        self.known.push(info);
        Ok(())
    }

    /// Returns all kinds.
    pub fn iter(&self) -> impl Iterator<Item = &KindInfo> {
        self.known.iter()
    }

    /// Finds a kind by its API group, "" for core, and its name.
    #[must_use]
    pub fn find(&self, group: &str, kind: &str) -> Option<&KindInfo> {
        self.known.iter().find(|info| info.resource.group == group && info.resource.kind == kind)
    }

    /// Finds a kind by `Kind`, if only one group has it, or by `Kind.group`.
    ///
    /// # Errors
    /// Errors with one line if there is none, or several.
    pub fn resolve(&self, name: &str) -> Result<&KindInfo, String> {
        let (kind, group) = match name.split_once('.') {
            Some((kind, group)) => (kind, Some(group)),
            None => (name, None),
        };
        let is_it = |info: &&KindInfo| {
            info.resource.kind == kind && group.is_none_or(|group| info.resource.group == group)
        };
        let found: Vec<&KindInfo> = self.known.iter().filter(is_it).collect();
        match found.as_slice() {
            [one] => Ok(one),
            [] => {
                if let Some(assumed) = &self.assumed {
                    return Ok(assumed);
                }
                let known = self.known.iter().map(|info| info.resource.kind.as_str());
                let remedy = suggestion(kind, known).map_or_else(
                    || "list its CRD under crds".to_owned(),
                    |close| format!("did you mean {close}? A custom kind needs its CRD under crds"),
                );
                Err(format!("unknown kind {}; {remedy}", quoted(name)))
            }
            several => {
                let names: Vec<_> = several.iter().map(|info| full_name(&info.resource)).collect();
                Err(format!("kind {} is ambiguous; write {}", quoted(name), names.join(" or ")))
            }
        }
    }

    /// Finds the kind of a manifest.
    ///
    /// # Errors
    /// Errors with one line if the manifest has no kind, or one that the scenario does not know.
    pub fn of_manifest(&self, manifest: &Value) -> Result<&KindInfo, String> {
        let field = |name: &str| {
            manifest[name].as_str().ok_or_else(|| format!("a manifest has no {name}; give it one"))
        };
        let (api_version, kind) = (field("apiVersion")?, field("kind")?);
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        self.find(group, kind).or(self.assumed.as_deref()).ok_or_else(|| {
            let groups = self.known.iter().filter(|info| info.resource.kind == kind);
            let known: Vec<_> = groups.map(|info| info.resource.api_version()).collect();
            if known.is_empty() {
                self.resolve(kind).err().unwrap_or_default()
            } else {
                format!(
                    "no kind {kind} in apiVersion {}; write {}, or list its CRD under crds",
                    quoted(api_version),
                    known.join(" or ")
                )
            }
        })
    }

    /// Returns the resources by their names in the notation of [`crate::run`]: `plural.group`, or `plural`.
    #[must_use]
    pub fn by_run_name(&self) -> BTreeMap<String, &KindInfo> {
        self.known.iter().map(|info| (run_name(&info.resource), info)).collect()
    }
}

/// Returns the name of a resource in the notation of [`crate::run`]: `plural.group`, or `plural` in the core group.
#[must_use]
pub fn run_name(resource: &ResourceType) -> String {
    if resource.group.is_empty() {
        resource.plural.clone()
    } else {
        format!("{}.{}", resource.plural, resource.group)
    }
}

/// Returns `Kind.group`, or `Kind` in the core group.
fn full_name(resource: &ResourceType) -> String {
    if resource.group.is_empty() {
        resource.kind.clone()
    } else {
        format!("{}.{}", resource.kind, resource.group)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn crd(group: &str, kind: &str) -> Value {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "spec": {
                "group": group, "scope": "Namespaced", "names": {"kind": kind, "plural": format!("{}s", kind.to_lowercase())},
                "versions": [
                    {"name": "v1alpha1", "storage": false},
                    {"name": "v1", "storage": true, "subresources": {"status": {}}, "schema": {"openAPIV3Schema": {"type": "object"}}},
                ],
            },
        })
    }

    #[test]
    fn kinds_of_crds_are_found_in_their_stored_version() {
        let mut kinds = Kinds::built_in();
        kinds.add_crd(&crd("example.com", "Zoo")).expect("a CRD");
        let zoo = kinds.resolve("Zoo").expect("known");
        assert_eq!((zoo.resource.to_string().as_str(), zoo.has_status), ("zoos.v1.example.com", true));
        assert_eq!(zoo.schema, Some(json!({"type": "object"})));
        assert_eq!(run_name(&zoo.resource), "zoos.example.com");
        assert_eq!(run_name(&kinds.resolve("Pod").expect("built in").resource), "pods");
        assert_eq!(kinds.of_manifest(&json!({"apiVersion": "example.com/v1", "kind": "Zoo"})), Ok(zoo));
        assert!(kinds.by_run_name().contains_key("deployments.apps"));
    }

    #[test]
    fn a_kind_of_two_groups_needs_its_group() {
        let mut kinds = Kinds::built_in();
        kinds.add_crd(&crd("serving.example.com", "Service")).expect("a CRD");
        let error = kinds.resolve("Service").expect_err("ambiguous");
        assert_eq!(error, "kind \"Service\" is ambiguous; write Service or Service.serving.example.com");
        assert!(kinds.resolve("Service.serving.example.com").is_ok());
    }

    #[test]
    fn other_kinds_are_assumed_only_on_request() {
        let zoo = json!({"apiVersion": "example.com/v1", "kind": "Zoo"});
        let strict = Kinds::built_in();
        assert!(strict.resolve("Zoo").is_err() && strict.of_manifest(&zoo).is_err());
        let lenient = strict.clone().assuming_others();
        let assumed = lenient.resolve("Zoo.example.com").expect("assumed");
        assert!(assumed.resource.namespaced && assumed.has_status && assumed.schema.is_none());
        assert_eq!(lenient.of_manifest(&zoo), Ok(assumed));
        assert_eq!(lenient.resolve("Pod"), strict.resolve("Pod"));
    }

    #[test]
    fn errors_suggest_a_remedy() {
        let kinds = Kinds::built_in();
        for (error, expected) in [
            (kinds.resolve("Deploymnt").map(|_| ()), "did you mean Deployment?"),
            (kinds.resolve("Zoo").map(|_| ()), "list its CRD under crds"),
            (kinds.of_manifest(&json!({"kind": "Pod"})).map(|_| ()), "a manifest has no apiVersion"),
            (
                kinds.of_manifest(&json!({"apiVersion": "v1", "kind": "Deployment"})).map(|_| ()),
                "write apps/v1",
            ),
            (Kinds::default().add_crd(&json!({"kind": "Pod"})), "list other objects under objects"),
            (Kinds::default().add_crd(&json!({"kind": "CustomResourceDefinition"})), "storage: true"),
        ] {
            let error = error.expect_err(expected);
            assert!(error.contains(expected) && !error.contains('\n'), "{error}");
        }
    }
}
