use serde_json::{Value, json};

use super::*;

fn needed(
    descriptor: &Descriptor,
    watches: &[CheckedWatch],
    sidecar: &Sidecar,
    grant_crds: bool,
) -> Vec<RequiredPermission> {
    super::needed(descriptor, watches, sidecar, &Scopes::default(), grant_crds)
}

fn checked(members: &Value, resource: Option<&str>) -> CheckedWatch {
    let mut watch = json!({"name": "w"});
    watch.as_object_mut().expect("an object").extend(members.as_object().expect("members").clone());
    watch["resource"] = json!(resource);
    let watch = serde_json::from_value(watch).expect("a watch");
    CheckedWatch { watch, served: Availability::Unverified, namespaced: None }
}

fn deployments(namespaces: &[&str]) -> CheckedWatch {
    let members = json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespaces": namespaces});
    checked(&members, Some("deployments"))
}

fn descriptor(members: &Value) -> Descriptor {
    let mut descriptor = json!({"apiVersion": crate::config::descriptor::API_VERSION, "kind": "Plugin"});
    descriptor.as_object_mut().expect("an object").extend(members.as_object().expect("members").clone());
    serde_json::from_value(descriptor).expect("a descriptor")
}

fn texts(permissions: &[RequiredPermission]) -> Vec<String> {
    let text = |permission: &RequiredPermission| {
        let RequiredPermission {
            service_account, group, resource, verb, namespace, names, needed_for, ..
        } = permission;
        let who = service_account.as_ref().map(|account| format!("{account} ")).unwrap_or_default();
        let names = if names.is_empty() { String::new() } else { format!(" {names:?}") };
        format!("{needed_for}: {who}{verb} {resource}.{group}{names} in {namespace:?}")
    };
    permissions.iter().map(text).collect()
}

fn sidecar(text: &str) -> Sidecar {
    Sidecar::parse(text).expect("a sidecar")
}

#[test]
fn watches_writes_crds_and_events_need_permissions() {
    let descriptor = descriptor(&json!({
        "writes": [{"apiGroups": [""], "resources": ["pods", "pods/status"], "verbs": ["patch"]}],
        "crds": [{"kind": "CustomResourceDefinition", "metadata": {"name": "foos.example.com"}}],
    }));
    let permissions = needed(&descriptor, &[deployments(&["shop"])], &sidecar("grants: {crds: true}"), false);
    let crd = "customresourcedefinitions.apiextensions.k8s.io [\"foos.example.com\"]";
    assert_eq!(
        texts(&permissions),
        [
            "watch w: list deployments.apps in \"shop\"",
            "watch w: watch deployments.apps in \"shop\"",
            "writes[0]: patch pods. in \"\"",
            "writes[0]: patch pods/status. in \"\"",
            &format!("crds: get {crd} in \"\""),
            &format!("crds: create {crd} in \"\""),
            &format!("crds: patch {crd} in \"\""),
            "events: create events.events.k8s.io in \"\"",
            "events: patch events.events.k8s.io in \"\"",
        ]
    );
}

#[test]
fn crds_that_the_host_does_not_apply_need_no_permissions() {
    let descriptor = descriptor(&json!({"crds": [{"kind": "CustomResourceDefinition"}]}));
    let needs = |text, granted| {
        needed(&descriptor, &[], &sidecar(text), granted)
            .iter()
            .any(|permission| permission.needed_for == "crds")
    };
    assert!(!needs("", false) && needs("", true));
    assert!(needs("grants: {crds: true}", false) && !needs("grants: {crds: false}", true));
}

#[test]
fn no_permission_exceeds_the_sidecars_grants() {
    let descriptor = descriptor(&json!({"writes": [
        {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["update", "delete"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["delete"]},
    ]}));
    let sidecar = sidecar(
        "grants:\n  watches: [{apiGroups: [apps], resources: ['*'], namespaces: [shop]}]\n  writes:\n    - {apiGroups: [apps], \
         resources: ['*'], verbs: [update], namespaces: [shop]}\n",
    );
    let secrets = checked(&json!({"apiVersion": "v1", "kind": "Secret"}), Some("secrets"));
    let permissions = needed(&descriptor, &[deployments(&[]), secrets], &sidecar, false);
    assert_eq!(
        texts(&permissions),
        [
            "watch w: list deployments.apps in \"shop\"",
            "watch w: watch deployments.apps in \"shop\"",
            "writes[0]: update deployments.apps in \"shop\"",
            "outcome of writes[0]: get deployments.apps in \"shop\"",
            "events: create events.events.k8s.io in \"shop\"",
            "events: patch events.events.k8s.io in \"shop\"",
        ]
    );
}

#[test]
fn a_service_account_reads_and_writes_while_the_host_caches_and_reviews() {
    let rule = json!({"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["update"], "namespaces": ["shop"]});
    let descriptor = descriptor(&json!({"writes": [rule]}));
    let permissions =
        needed(&descriptor, &[deployments(&["shop"])], &sidecar("serviceAccount: bots/a"), false);
    assert_eq!(
        texts(&permissions),
        [
            "watch w: list deployments.apps in \"shop\"",
            "watch w: watch deployments.apps in \"shop\"",
            "watch w: bots/a list deployments.apps in \"shop\"",
            "watch w: bots/a watch deployments.apps in \"shop\"",
            "writes[0]: bots/a update deployments.apps in \"shop\"",
            "outcome of writes[0]: bots/a get deployments.apps in \"shop\"",
            "serviceAccount: impersonate serviceaccounts. [\"a\"] in \"bots\"",
            "serviceAccount: create subjectaccessreviews.authorization.k8s.io in \"\"",
            "events: create events.events.k8s.io in \"shop\"",
            "events: patch events.events.k8s.io in \"shop\"",
        ]
    );
}

/// Returns the gets of a plugin with this watch and these write rules.
fn gets(watch: CheckedWatch, writes: &Value, sidecar_text: &str) -> Vec<String> {
    let descriptor = descriptor(&json!({"writes": writes}));
    let mut permissions = needed(&descriptor, &[watch], &sidecar(sidecar_text), false);
    permissions.retain(|permission| permission.verb == "get");
    texts(&permissions)
}

#[test]
fn get_is_needed_only_for_what_is_both_watched_and_written() {
    let rule = |group: &str, resource: &str, verb: &str, namespaces: &[&str]| json!([{"apiGroups": [group], "resources": [resource], "verbs": [verb], "namespaces": namespaces}]);
    let shop = ["outcome of writes[0]: get deployments.apps in \"shop\""];
    // What a plugin only watches, or only writes, is not followed by a get.
    assert!(gets(deployments(&[]), &json!([]), "").is_empty());
    for unwatched in [rule("apps", "replicasets", "update", &[]), rule("", "deployments", "update", &[])] {
        assert!(gets(deployments(&[]), &unwatched, "").is_empty(), "{unwatched}");
    }
    assert!(gets(deployments(&[]), &rule("apps", "deployments", "list", &[]), "").is_empty());
    for (resource, verb) in [
        ("deployments", "create"),
        ("deployments/status", "update"),
        ("*", "patch"),
        ("*/status", "patch"),
        ("deployments", "delete"),
        ("*/scale", "*"),
    ] {
        assert_eq!(gets(deployments(&["shop"]), &rule("apps", resource, verb, &[]), ""), shop);
        assert_eq!(gets(deployments(&[]), &rule("*", resource, verb, &["shop"]), ""), shop);
        assert!(gets(deployments(&["shop"]), &rule("apps", resource, verb, &["bank"]), "").is_empty());
    }
    // The sidecar narrows both.
    let narrow = "grants:\n  watches: [{apiGroups: [apps], resources: [deployments], namespaces: [shop]}]\n";
    assert_eq!(gets(deployments(&[]), &rule("apps", "deployments", "update", &[]), narrow), shop);
    let reading = "grants: {writes: [{apiGroups: [apps], resources: [deployments], verbs: [list]}]}";
    assert!(gets(deployments(&[]), &rule("apps", "deployments", "*", &[]), reading).is_empty());
}

#[test]
fn get_is_not_needed_again_where_a_rule_has_it() {
    let writes = json!([
        {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["update"], "namespaces": ["shop"]},
        {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get"]},
    ]);
    assert_eq!(gets(deployments(&[]), &writes, ""), ["writes[1]: get deployments.apps in \"\""]);
    let all = json!([{"apiGroups": ["apps"], "resources": ["*"], "verbs": ["*"]}]);
    assert!(gets(deployments(&[]), &all, "").is_empty(), "the rule has all verbs");
}

#[test]
fn the_outcome_of_writes_to_a_watch_of_one_object_needs_get_on_only_that_object() {
    let members = json!({"apiVersion": "v1", "kind": "Node", "fieldSelector": "metadata.name=n1"});
    let nodes = || CheckedWatch { namespaced: Some(false), ..checked(&members, Some("nodes")) };
    let writes = json!([{"apiGroups": [""], "resources": ["nodes"], "verbs": ["patch"]}]);
    assert_eq!(gets(nodes(), &writes, ""), ["outcome of writes[0]: get nodes. [\"n1\"] in \"\""]);
    let limited =
        json!([{"apiGroups": [""], "resources": ["nodes"], "verbs": ["patch"], "namespaces": ["shop"]}]);
    assert!(gets(nodes(), &limited, "").is_empty(), "a rule with namespaces grants nothing on nodes");
}

#[test]
fn a_watch_of_one_object_needs_a_permission_on_only_that_object() {
    let members = json!({"apiVersion": "v1", "kind": "Node", "fieldSelector": "metadata.name=n1"});
    let nodes = CheckedWatch { namespaced: Some(false), ..checked(&members, Some("nodes")) };
    let permissions = needed(&descriptor(&json!({})), &[nodes], &Sidecar::default(), false);
    assert_eq!(texts(&permissions)[0], "watch w: list nodes. [\"n1\"] in \"\"");
    // Events about cluster-scoped objects.
    assert_eq!(texts(&permissions)[2], "events: create events.events.k8s.io in \"default\"");
}

#[test]
fn an_unknown_kind_gets_a_guessed_plural_and_is_marked() {
    let watches = [checked(&json!({"apiVersion": "example.com/v1", "kind": "Policy"}), None)];
    let permissions = needed(&descriptor(&json!({})), &watches, &Sidecar::default(), false);
    assert!(permissions[0].is_guess && permissions[0].resource == "policies", "{permissions:?}");
}
