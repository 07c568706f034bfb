//! How a StatefulSet updates its Pods, the templates of their claims, and the Pods that follow from both.

use std::borrow::Cow;

use pilothouse_model::hash::HashSet;
use serde_json::{Value, json};

use super::{NOT_NEGATIVE, claim, items, names, push_invalid, text};
use crate::schema::field;
use crate::status::Causes;

pub(super) fn validate(spec: &Value, causes: &mut Causes) {
    const PATH: &str = "spec.updateStrategy.rollingUpdate";
    let strategy = &spec["updateStrategy"];
    let update = &strategy["rollingUpdate"];
    match text(strategy, "type") {
        "OnDelete" => {
            if !update.is_null() {
                let detail = "only allowed for updateStrategy 'RollingUpdate'";
                causes.push(field::invalid_shown(PATH, &as_go(update), detail));
            }
        }
        "RollingUpdate" => {
            if update["partition"].as_i64().is_some_and(|partition| partition < 0) {
                causes.push(field::invalid(
                    &field::child(PATH, "partition"),
                    &update["partition"],
                    NOT_NEGATIVE,
                ));
            }
        }
        // A strategy without a type was not defaulted yet.
        "" => {}
        _ => {
            let shown = format!("{{\"Type\":{},\"RollingUpdate\":{}}}", strategy["type"], as_go(update));
            let detail = "must be 'RollingUpdate' or 'OnDelete'";
            causes.push(field::invalid_shown("spec.updateStrategy", &shown, detail));
        }
    }
    let policy = &spec["persistentVolumeClaimRetentionPolicy"];
    for name in ["whenDeleted", "whenScaled"] {
        let supported = ["Retain", "Delete"];
        if policy[name].as_str().is_some_and(|value| !supported.contains(&value)) {
            let path = field::child("spec.persistentVolumeClaimRetentionPolicy", name);
            causes.push(field::not_supported(&path, &policy[name], &supported));
        }
    }
}

/// Checks the templates of the claims. Those of a stored StatefulSet cannot change and may be invalid.
pub(super) fn validate_claims(spec: &Value, causes: &mut Causes) {
    for (index, template) in items(&spec["volumeClaimTemplates"]).iter().enumerate() {
        let at = field::child(&field::index("spec.volumeClaimTemplates", index), "spec");
        claim::validate_spec(&template["spec"], &at, causes);
    }
}

/// Checks the name of the Service, which the names of the Pods contain.
pub(super) fn validate_service_name(spec: &Value, causes: &mut Causes) {
    let name = text(spec, "serviceName");
    if !name.is_empty() {
        push_invalid(causes, "spec.serviceName", name, names::label_errors(name));
    }
}

/// Returns the template of the Pods with the volumes of their claims, which replace others of the same name, and without the names that the
/// controller sets.
pub(super) fn completed_template(spec: &Value) -> Cow<'_, Value> {
    let (template, claims) = (&spec["template"], items(&spec["volumeClaimTemplates"]));
    let has_names = ["subdomain", "hostname"].iter().any(|name| !text(&template["spec"], name).is_empty());
    if (claims.is_empty() && !has_names) || !template["spec"].is_object() {
        return Cow::Borrowed(template);
    }
    let mut completed = template.clone();
    let pod = completed["spec"].as_object_mut().expect("it is an object");
    for name in ["subdomain", "hostname"] {
        pod.remove(name);
    }
    if !claims.is_empty() {
        let mut found = HashSet::default();
        let names = claims.iter().map(|claim| text(&claim["metadata"], "name"));
        let mut volumes: Vec<Value> = names
            .filter(|name| found.insert(*name))
            .map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}}))
            .collect();
        let others = items(&template["spec"]["volumes"]).iter();
        volumes.extend(others.filter(|volume| !found.contains(text(volume, "name"))).cloned());
        pod.insert("volumes".to_owned(), volumes.into());
    }
    Cow::Owned(completed)
}

/// Returns the settings of rolling updates as messages show them.
fn as_go(update: &Value) -> String {
    if update.is_null() {
        return "null".to_owned();
    }
    let partition = update["partition"].as_i64().unwrap_or(0);
    format!("{{\"Partition\":{partition},\"MaxUnavailable\":{}}}", update["maxUnavailable"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_become_volumes_of_the_template() {
        let spec = json!({
            "volumeClaimTemplates": [{"metadata": {"name": "data"}}],
            "template": {"spec": {"hostname": "h", "volumes": [{"name": "data", "emptyDir": {}}, {"name": "other"}]}},
        });
        assert_eq!(
            completed_template(&spec)["spec"],
            json!({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}, {"name": "other"}]})
        );
        assert!(matches!(completed_template(&json!({"template": {"spec": {}}})), Cow::Borrowed(_)));
    }

    #[test]
    fn claims_are_volumes_and_names_of_the_host_are_replaced() {
        let claim = |name: &str| json!({"metadata": {"name": name}});
        let spec = json!({
            "template": {"spec": {
                "hostname": "A_B", "subdomain": "A_B",
                "volumes": [{"name": "d", "emptyDir": {}}, {"name": "v", "emptyDir": {}}],
            }},
            "volumeClaimTemplates": [claim("d"), claim("e"), claim("d")],
        });
        let of_claim = |name: &str| json!({"name": name, "persistentVolumeClaim": {"claimName": name}});
        assert_eq!(
            *completed_template(&spec),
            json!({"spec": {"volumes": [of_claim("d"), of_claim("e"), {"name": "v", "emptyDir": {}}]}})
        );
        assert_eq!(*completed_template(&json!({})), Value::Null);
    }
}
