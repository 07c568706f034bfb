//! Warns about what is allowed but probably a mistake.

use super::{Availability, CheckedWatch, rules};
use crate::config::descriptor::{Descriptor, Trigger};
use crate::config::sidecar::Sidecar;
use crate::name::PluginName;

pub(super) fn descriptor_warnings(
    descriptor: &Descriptor,
    sidecar: &Sidecar,
    name: &PluginName,
) -> Vec<String> {
    let mut warnings = Vec::new();
    if !descriptor.name.is_empty() && descriptor.name != name.as_str() {
        let (own, file) = (&descriptor.name, name.as_str());
        warnings.push(format!(
            "the descriptor names the plugin {own:?}, but the file name determines its name: {file:?}"
        ));
    }
    if sidecar.enabled == Some(false) {
        warnings.push("the sidecar has enabled: false, so the host does not run the plugin".to_owned());
    }
    if descriptor.stateful && sidecar.workers.is_some_and(|workers| workers > 1) {
        warnings.push("the sidecar's `workers` is ignored: a stateful plugin has one worker".to_owned());
    }
    let reconciles = descriptor.watches.iter().any(|watch| watch.trigger.is_some());
    if sidecar.rollout.probation.is_some() && !reconciles {
        warnings.push(
            "the sidecar's `rollout.probation` compares reconciles, and no watch has a trigger: a new version is rolled back only if it \
             backs off or if its last calls failed"
                .to_owned(),
        );
    }
    let is_divisible = !descriptor.stateful && !descriptor.watches.iter().any(|watch| watch.notify);
    if sidecar.rollout.canary.is_some() && !is_divisible {
        warnings.push(
            "the sidecar's `rollout.canary` makes the host refuse new versions: a stateful plugin, and one that observes, works for all keys; \
             leave it out"
                .to_owned(),
        );
    }
    if sidecar.grants.crds == Some(false) && !descriptor.crds.is_empty() {
        let crds = super::crd_names(descriptor).join(", ");
        warnings.push(format!(
            "the sidecar grants no CRDs, so the host does not apply {crds}: apply it yourself, or write `grants: {{crds: true}}` into {}.yaml",
            name.as_str()
        ));
    }
    warnings.extend(rules::warnings(descriptor, sidecar));
    warnings
}

/// Warns that the plugin's CRDs were not validated, because there is no embedded server.
pub(super) fn of_unvalidated_crds(names: &[String]) -> Option<String> {
    (!names.is_empty()).then(|| {
        format!(
            "the CRDs of the plugin ({}) were not validated, because this build has no embedded API server; check the plugin with a \
             build that has it",
            names.join(", ")
        )
    })
}

/// Warns if the plugin imports wasi:http but no request can be granted.
pub(super) fn http_warning(imports: &[String], descriptor: &Descriptor, sidecar: &Sidecar) -> Option<String> {
    if !imports.iter().any(|import| import.starts_with("wasi:http/outgoing-handler@")) {
        return None;
    }
    let requested = || descriptor.http.iter().map(|host| format!("{host:?}")).collect::<Vec<_>>().join(", ");
    match (descriptor.http.is_empty(), sidecar.grants.http.is_empty()) {
        (true, _) => Some(
            "the plugin imports wasi:http, but its descriptor's http names no host: every request is denied"
                .to_owned(),
        ),
        (false, true) => Some(format!(
            "the sidecar grants no host, so every HTTP request is denied; the plugin asks for {}: add the hosts that it may reach to grants.http",
            requested()
        )),
        (false, false) => None,
    }
}

/// Returns the warnings about a watch.
pub(super) fn watch_warnings(checked: &CheckedWatch) -> Vec<String> {
    let mut warnings = Vec::new();
    let CheckedWatch { watch, served, .. } = checked;
    let name = &watch.name;
    // Only for kinds whose server tracks `metadata.generation`: a ConfigMap or a Pod would never pass
    // generationChanged().
    let counts_generations = watch.api_version != "v1";
    if watch.trigger == Some(Trigger::Itself) && watch.predicate.is_empty() && counts_generations {
        warnings.push(format!(
            "watch {name:?} has no predicate: every status write triggers a reconcile; generationChanged() would leave those out"
        ));
    }
    if watch.trigger.is_none() && !watch.notify && watch.indexes.is_empty() {
        warnings.push(format!(
            "watch {name:?} has neither trigger nor notify nor an index: it only fills the cache, for reads by key"
        ));
    }
    if *served == Availability::Unverified {
        warnings.push(format!(
            "watch {name:?}: only a cluster knows whether it serves kind {:?} in {:?}; give --kubeconfig to ask one",
            watch.kind, watch.api_version
        ));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::{Value, json};

    use super::*;

    fn warning_of(members: &Value, served: Availability) -> String {
        let mut watch = json!({"name": "w", "apiVersion": "apps/v1", "kind": "Deployment"});
        watch.as_object_mut().expect("an object").extend(members.as_object().expect("members").clone());
        let watch = serde_json::from_value(watch).expect("a watch");
        watch_warnings(&CheckedWatch { watch, served, namespaced: None }).join("\n")
    }

    #[test]
    fn each_suspicious_watch_has_its_warning() {
        assert!(warning_of(&json!({"trigger": "self"}), Availability::Yes).contains("no predicate"));
        assert_eq!(warning_of(&json!({"trigger": "self", "predicate": "true"}), Availability::Yes), "");
        assert_eq!(warning_of(&json!({"apiVersion": "v1", "trigger": "self"}), Availability::Yes), "");
        assert!(warning_of(&json!({}), Availability::Yes).contains("only fills the cache"));
        assert_eq!(warning_of(&json!({"notify": true}), Availability::Yes), "");
        assert_eq!(warning_of(&json!({"indexes": [{"name": "i", "owner": true}]}), Availability::Yes), "");
        assert!(warning_of(&json!({"notify": true}), Availability::Unverified).contains("--kubeconfig"));
        let both = warning_of(&json!({"trigger": "self"}), Availability::Unverified);
        assert!(both.contains("no predicate") && both.contains("--kubeconfig"), "{both}");
    }

    #[test]
    fn a_plugin_that_can_send_no_http_request_is_warned() {
        let warning = |import: &str, requested: &str, sidecar: &str| {
            let descriptor = json!({"apiVersion": "x", "kind": "Plugin", "http": serde_json::from_str::<Value>(requested).expect("JSON")});
            let descriptor = serde_json::from_value(descriptor).expect("a descriptor");
            let sidecar = Sidecar::parse(sidecar).expect("a sidecar");
            http_warning(&[import.to_owned()], &descriptor, &sidecar).unwrap_or_default()
        };
        let http = "wasi:http/outgoing-handler@0.2.4";
        assert!(warning(http, "[]", "").contains("names no host"));
        assert!(warning(http, r#"["a.example.com"]"#, "").contains("the plugin asks for \"a.example.com\""));
        assert_eq!(warning(http, r#"["a.example.com"]"#, "grants: {http: [a.example.com]}"), "");
        assert_eq!(warning("wasi:http/types@0.2.4", "[]", ""), "");
    }

    #[test]
    fn another_name_an_unmatchable_rule_a_withheld_crd_and_a_disabled_plugin_cause_warnings() {
        let descriptor = serde_json::from_value(json!({
            "apiVersion": crate::config::descriptor::API_VERSION, "kind": "Plugin", "name": "other", "stateful": true,
            "writes": [{"apiGroups": [""], "resources": ["pods"]}],
            "crds": [{"kind": "CustomResourceDefinition", "metadata": {"name": "foos.example.com"}}],
        }));
        let sidecar = "enabled: false\nworkers: 2\ngrants: {crds: false}\nrollout: {probation: 5m, canary: {percent: 10}}\n";
        let sidecar = Sidecar::parse(sidecar).expect("a sidecar");
        let name = PluginName::of_file(Path::new("mine.wasm")).expect("a name");
        let warnings = descriptor_warnings(&descriptor.expect("a descriptor"), &sidecar, &name);
        let expected = [
            "\"other\"",
            "enabled: false",
            "stateful",
            "no watch has a trigger",
            "refuse new versions",
            "does not apply foos.example.com",
            "allows nothing",
        ];
        assert_eq!(warnings.len(), expected.len(), "{warnings:?}");
        for (warning, part) in warnings.iter().zip(expected) {
            assert!(warning.contains(part), "{warning}");
        }
    }
}
