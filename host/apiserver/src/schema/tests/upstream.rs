//! Rules whose tests name the Kubernetes source that they follow.

use serde_json::{Value, json};

use super::super::Schema;
use super::semantic::fields;

/// Returns an update of the status of an object with this specification.
fn status_problems(group: &str, kind: &str, spec: &Value, status: &Value) -> Vec<String> {
    let with = |status: &Value| json!({"metadata": {"name": "a"}, "spec": spec, "status": status});
    fields(group, kind, &with(status), Some(&with(&json!({}))))
}

/// `validateTolerations` of `pkg/apis/node/validation/validation.go`.
#[test]
fn tolerations_of_a_runtime_class_differ() {
    let class = |tolerations: Value| json!({"handler": "h", "scheduling": {"tolerations": tolerations}});
    let toleration = json!({"key": "a", "operator": "Exists"});
    let other = json!({"key": "a", "operator": "Exists", "effect": "NoExecute"});
    let found = |tolerations: Value| fields("node.k8s.io", "RuntimeClass", &class(tolerations), None);
    assert_eq!(found(json!([toleration, other])), [""; 0]);
    assert_eq!(found(json!([toleration, other, toleration])), ["scheduling.tolerations[2] Duplicate"]);
    assert_eq!(
        found(json!([{"operator": "Equal", "value": "x"}])),
        ["scheduling.tolerations[0].operator Invalid"]
    );
}

/// `validateHorizontalPodAutoscalerSpec` and `ValidateAPIVersion` of `pkg/apis/autoscaling/validation/validation.go`, with the options of
/// `validationOptionsForHorizontalPodAutoscaler` of `pkg/registry/autoscaling/horizontalpodautoscaler/strategy.go`.
#[test]
fn versions_in_autoscalers_have_a_group_unless_they_may_lack_it() {
    let autoscaler = |version: &str, kind: &str, described: &str| {
        let object = json!({"apiVersion": described, "kind": "K", "name": "n"});
        let target = json!({"type": "Value", "value": "1"});
        json!({"metadata": {"name": "a"}, "spec": {
            "maxReplicas": 1, "scaleTargetRef": {"apiVersion": version, "kind": kind, "name": "t"},
            "metrics": [{"type": "Object", "object": {"describedObject": object, "metric": {"name": "m"}, "target": target}}],
        }})
    };
    let found = |new: &Value, old: Option<&Value>| fields("autoscaling", "HorizontalPodAutoscaler", new, old);
    const VERSION: &str = "spec.scaleTargetRef.apiVersion Invalid";
    const DESCRIBED: &str = "spec.metrics[0].object.describedObject.apiVersion Invalid";
    assert_eq!(found(&autoscaler("apps/v1", "Deployment", "v1"), None), [""; 0]);
    assert_eq!(found(&autoscaler("v1", "Deployment", "v1"), None), [VERSION]);
    assert_eq!(found(&autoscaler("", "ReplicationController", ""), None), [""; 0]);
    assert_eq!(found(&autoscaler("a/b/c", "ReplicationController", "a/b/c"), None), [VERSION, DESCRIBED]);
    let stored = autoscaler("v1", "Deployment", "a/b/c");
    assert_eq!(found(&stored, Some(&stored)), [""; 0], "what is stored may stay");
    assert_eq!(found(&autoscaler("v1", "Other", "a/b/c"), Some(&stored)), [VERSION]);
}

/// `validateScalingPolicy` of `pkg/apis/autoscaling/validation/validation.go`.
#[test]
fn absent_numbers_of_scaling_policies_are_zero() {
    let autoscaler = json!({"spec": {
        "minReplicas": 1, "maxReplicas": -1, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "t"},
        "behavior": {"scaleUp": {"policies": [{"type": "Pods"}]}},
    }});
    assert_eq!(
        fields("autoscaling", "HorizontalPodAutoscaler", &autoscaler, None),
        [
            "spec.maxReplicas Invalid",
            "spec.maxReplicas Invalid",
            "spec.behavior.scaleUp.policies[0].value Invalid",
            "spec.behavior.scaleUp.policies[0].periodSeconds Invalid",
        ]
    );
}

/// `ValidatePodDisruptionBudgetStatusUpdate` of `pkg/apis/policy/validation/validation.go`.
#[test]
fn status_of_a_budget_has_no_negative_numbers_and_valid_conditions() {
    let status = json!({"disruptionsAllowed": -1, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": -1, "conditions": [{"type": "A"}]});
    assert_eq!(
        status_problems("policy", "PodDisruptionBudget", &json!({}), &status),
        [
            "status.conditions[0].status NotSupported",
            "status.conditions[0].lastTransitionTime Required",
            "status.conditions[0].reason Required",
            "status.disruptionsAllowed Invalid",
            "status.expectedPods Invalid",
        ]
    );
}

/// `ValidateIngressLoadBalancerStatus` of `pkg/apis/networking/validation/validation.go`.
#[test]
fn status_of_an_ingress_has_addresses_and_names() {
    let spec = json!({"defaultBackend": {"service": {"name": "s", "port": {"number": 1}}}});
    let status = json!({"loadBalancer": {"ingress": [{"ip": "x", "hostname": "A_"}, {"hostname": "1.2.3.4"}, {"ip": "1.2.3.4"}]}});
    assert_eq!(
        status_problems("networking.k8s.io", "Ingress", &spec, &status),
        [
            "status.loadBalancer.ingress[0].ip Invalid",
            "status.loadBalancer.ingress[0].hostname Invalid",
            "status.loadBalancer.ingress[1].hostname Invalid",
        ]
    );
}

/// `validatePodIPs` and `validateHostIPs` of `pkg/apis/core/validation/validation.go`.
#[test]
fn pods_have_one_address_of_each_family() {
    let spec = json!({"containers": [{"name": "c", "image": "i"}]});
    let ips = |list: [&str; 2]| json!(list.map(|ip| json!({"ip": ip})));
    let found = |pod: [&str; 2], host: [&str; 2]| {
        let status = json!({"podIP": pod[0], "podIPs": ips(pod), "hostIP": host[0], "hostIPs": ips(host)});
        status_problems("", "Pod", &spec, &status)
    };
    assert_eq!(found(["1.2.3.4", "::1"], ["::2", "1.2.3.4"]), [""; 0]);
    assert_eq!(
        found(["1.2.3.4", "1.2.3.5"], ["::1", "::2"]),
        ["status.podIPs Invalid", "status.hostIPs Invalid"]
    );
}

/// `validateIngressClassParametersReference` of `pkg/apis/networking/validation/validation.go`.
#[test]
fn parameters_of_an_ingress_class_have_a_scope() {
    let found = |parameters: Value| {
        let class = json!({"spec": {"controller": "a.b/c", "parameters": parameters}});
        fields("networking.k8s.io", "IngressClass", &class, None)
    };
    assert_eq!(found(json!({"kind": "K", "name": "n"})), [""; 0], "the default scope is Cluster");
    assert_eq!(
        found(json!({"kind": "K", "name": "n", "scope": "Namespace"})),
        ["spec.parameters.namespace Required"]
    );
    assert_eq!(
        found(json!({"kind": "", "name": "a/b", "namespace": "x"})),
        [
            "spec.parameters.kind Required",
            "spec.parameters.name Invalid",
            "spec.parameters.namespace Forbidden"
        ]
    );
    assert_eq!(
        found(json!({"kind": "K", "name": "n", "scope": "X"})),
        ["spec.parameters.scope NotSupported"]
    );
}

/// `validateAllowedTopologies` of `pkg/apis/storage/validation/validation.go`.
#[test]
fn topologies_of_a_storage_class_differ() {
    let term = |values: [&str; 2]| json!({"matchLabelExpressions": [{"key": "a", "values": values}]});
    let found = |terms: Value| {
        let class = json!({"provisioner": "p", "allowedTopologies": terms});
        fields("storage.k8s.io", "StorageClass", &class, None)
    };
    assert_eq!(found(json!([term(["b", "c"]), term(["b", "d"])])), [""; 0]);
    let twice = found(json!([term(["b", "c"]), term(["c", "b"])]));
    assert_eq!(twice, ["allowedTopologies[1].matchLabelExpressions Duplicate"]);
}

/// `validateOwnerReference` of `k8s.io/apimachinery/pkg/api/validation/objectmeta.go`.
#[test]
fn owners_have_a_version() {
    let owner = |version: &str| json!({"apiVersion": version, "kind": "K", "name": "n", "uid": "u"});
    let found = |version: &str| {
        let object = json!({"metadata": {"name": "a", "ownerReferences": [owner(version)]}});
        fields("", "ConfigMap", &object, None)
    };
    for version in ["v1", "a/b", "/b"] {
        assert_eq!(found(version), [""; 0], "{version}");
    }
    for version in ["a/b/c", "a/"] {
        assert_eq!(found(version), ["metadata.ownerReferences.apiVersion Invalid"], "{version}");
    }
}

/// `validateEphemeralVolumeSource` and `ValidateTemplateObjectMeta` of `pkg/apis/core/validation/validation.go`.
#[test]
fn claims_of_ephemeral_volumes_are_validated() {
    let found = |template: Value| {
        let volume = json!({"name": "v", "ephemeral": {"volumeClaimTemplate": template}});
        let pod = json!({"spec": {"volumes": [volume], "containers": [{"name": "c", "image": "i"}]}});
        fields("", "Pod", &pod, None)
    };
    let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    assert_eq!(found(json!({"metadata": {"labels": {"a": "b"}}, "spec": spec})), [""; 0]);
    const AT: &str = "spec.volumes[0].ephemeral.volumeClaimTemplate";
    assert_eq!(
        found(json!({"metadata": {"name": "x", "labels": {"a b": "c"}}, "spec": {}})),
        [
            format!("{AT}.metadata.labels Invalid"),
            format!("{AT}.metadata.name Forbidden"),
            format!("{AT}.spec.accessModes Required"),
            format!("{AT}.spec.resources[storage] Required"),
        ]
    );
}

/// `ValidateMatchLabelKeysAndMismatchLabelKeys` of `pkg/apis/core/validation/validation.go`.
#[test]
fn label_selectors_have_no_key_of_match_label_keys() {
    let found = |selector: Value| {
        let constraint = json!({
            "maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule", "matchLabelKeys": ["a"], "labelSelector": selector,
        });
        let pod = json!({"spec": {"topologySpreadConstraints": [constraint], "containers": [{"name": "c", "image": "i"}]}});
        fields("", "Pod", &pod, None)
    };
    let merged = json!({"key": "a", "operator": "In", "values": ["x"]});
    assert_eq!(found(json!({"matchExpressions": [merged]})), [""; 0], "as it is merged into new Pods");
    for selector in [
        json!({"matchLabels": {"a": "y"}, "matchExpressions": [merged]}),
        json!({"matchExpressions": [{"key": "a", "operator": "Exists"}, merged]}),
    ] {
        assert_eq!(found(selector), ["spec.topologySpreadConstraints[0][0] Invalid"]);
    }
}

/// `SetDefaults_NodeStatus` of `pkg/apis/core/v1/defaults.go`.
#[test]
fn pods_can_have_the_capacity_of_a_node_by_default() {
    let schema = Schema::builtin("", "v1", "Node").expect("a built-in kind");
    let allocatable = |status: Value| {
        let mut node =
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}, "status": status});
        schema.apply_defaults(&mut node).expect("the defaults fit");
        node["status"]["allocatable"].clone()
    };
    assert_eq!(allocatable(json!({"capacity": {"cpu": "2"}})), json!({"cpu": "2"}));
    assert_eq!(
        allocatable(json!({"capacity": {"cpu": "2"}, "allocatable": {"cpu": "1"}})),
        json!({"cpu": "1"})
    );
    assert_eq!(allocatable(json!({})), Value::Null);
}
