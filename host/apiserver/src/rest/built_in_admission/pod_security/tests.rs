//! Tests of the messages of checks, and of the policy versions from which each check applies.

use serde_json::{Value, json};

use super::levels::Policy;
use super::pod::Pod;
use super::{details, evaluate};

/// Returns what a Pod with one container `c` and these fields violates at a level such as `restricted:v1.30`.
fn violations(level: &str, spec: &Value, container: &Value) -> String {
    let (level, version) = level.split_once(':').expect("a level and a version");
    let (policy, causes) = Policy::of(|label| match label.strip_prefix("pod-security.kubernetes.io/") {
        Some("enforce") => Some(level.to_owned()),
        Some("enforce-version") => Some(version.to_owned()),
        _ => None,
    });
    assert!(causes.is_empty(), "{causes:?}");
    let mut spec = spec.clone();
    let mut container = container.clone();
    container["name"] = "c".into();
    spec["containers"] = json!([container]);
    details(&evaluate(policy.enforce, Pod { metadata: &json!({}), spec: &spec }))
}

#[test]
fn each_check_of_baseline_has_its_message() {
    let at = |name: &str, value: Value| json!({"securityContext": {name: value}});
    for (spec, container, expected) in [
        (json!({}), json!({}), ""),
        (
            at("appArmorProfile", json!({"type": "Unconfined"})),
            json!({}),
            "forbidden AppArmor profile (pod must not set AppArmor profile type to \"Unconfined\")",
        ),
        (
            json!({}),
            json!({"livenessProbe": {"httpGet": {"host": "127.0.0.1"}}, "lifecycle": {"preStop": {"tcpSocket": {"host": "a"}}}}),
            "probe or lifecycle host (container \"c\" uses probe or lifecycle hosts \"127.0.0.1\", \"a\")",
        ),
        (
            json!({}),
            at("procMount", json!("Unmasked")),
            "procMount (container \"c\" must not set securityContext.procMount to \"Unmasked\")",
        ),
        (
            at("seLinuxOptions", json!({"type": "x", "user": "u"})),
            at("seLinuxOptions", json!({"role": "r"})),
            "seLinuxOptions (pod and container \"c\" set forbidden securityContext.seLinuxOptions: type \"x\"; user may not \
             be set; role may not be set)",
        ),
        (
            json!({}),
            at("seccompProfile", json!({"type": "Unconfined"})),
            "seccompProfile (container \"c\" must not set securityContext.seccompProfile.type to \"Unconfined\")",
        ),
        (
            at("sysctls", json!([{"name": "kernel.msgmax"}, {"name": "net.ipv4.tcp_rmem"}])),
            json!({}),
            "forbidden sysctls (kernel.msgmax)",
        ),
        (
            at("windowsOptions", json!({"hostProcess": true})),
            json!({}),
            "hostProcess (pod must not set securityContext.windowsOptions.hostProcess=true)",
        ),
    ] {
        assert_eq!(violations("baseline:latest", &spec, &container), expected);
    }
}

#[test]
fn restricted_takes_the_place_of_checks_of_baseline() {
    let fine = json!({
        "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
        "volumes": [{"name": "v", "hostPath": {"path": "/"}}, {"name": "i", "image": {}}],
    });
    let container = json!({"securityContext": {
        "allowPrivilegeEscalation": false, "runAsUser": 0, "capabilities": {"drop": ["ALL"], "add": ["KILL"]}}});
    assert_eq!(
        violations("restricted:v1.30", &fine, &container),
        "unrestricted capabilities (container \"c\" must not include \"KILL\" in securityContext.capabilities.add), restricted \
         volume types (volume \"v\" uses restricted volume type \"hostPath\"), runAsUser=0 (container \"c\" must not set \
         runAsUser=0)"
    );
    assert_eq!(
        violations("restricted:v1.21", &fine, &container),
        "restricted volume types (volume \"v\" uses restricted volume type \"hostPath\")"
    );
}

#[test]
fn a_user_namespace_relaxes_checks_since_1_35() {
    let own = json!({"hostUsers": false});
    let unmasked = json!({"securityContext": {"procMount": "Unmasked", "runAsUser": 0}});
    assert_eq!(violations("baseline:latest", &own, &unmasked), "");
    assert!(violations("baseline:v1.34", &own, &unmasked).starts_with("procMount ("));
    let restricted = violations("restricted:v1.35", &own, &unmasked);
    assert!(restricted.contains("procMount (") && !restricted.contains("runAs"), "{restricted}");
}
