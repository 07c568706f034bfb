//! Which updates of PersistentVolumeClaims the built-in admission plugins forbid: those beyond a LimitRange, and expansions that the storage class
//! does not allow (`PersistentVolumeClaimResize`, after `k8s.io/kubernetes/plugin/pkg/admission/storage/persistentvolume/resize`).

use serde_json::Value;

use super::default_classes::STORAGE_CLASS;
use super::limit_ranges;
use crate::admission_plugins::AdmissionPlugin;
use crate::meta;
use crate::registry::Endpoint;
use crate::rest::verbs::update::UpdateTarget;
use crate::schema::quantity;
use crate::state::State;
use crate::status::Status;

/// Checks an update of a claim. Other objects pass.
///
/// # Errors
/// 403 if a LimitRange or the storage class forbids the update.
pub(super) fn check_update(
    state: &State,
    endpoint: &Endpoint,
    target: UpdateTarget,
    (old, new): (&Value, &Value),
) -> Result<(), Status> {
    if target != UpdateTarget::Object || !endpoint.is_core("persistentvolumeclaims") {
        return Ok(());
    }
    if meta::text(old, "deletionTimestamp").is_empty() {
        limit_ranges::check(state, endpoint, new)?;
    }
    if !state.plugins.acts(AdmissionPlugin::PersistentVolumeClaimResize) {
        return Ok(());
    }
    let allows_expansion = |class: &str| {
        let registry = state.registry();
        let classes = registry.endpoint("storage.k8s.io", "v1", "storageclasses");
        let class = classes.and_then(|classes| classes.resource.table.get("", class));
        class.is_some_and(|class| class.value()["allowVolumeExpansion"] == true)
    };
    check_expansion(old, new, allows_expansion)
        .map_err(|problem| Status::forbidden(endpoint.resource_ref(), meta::text(new, "name"), problem))
}

fn check_expansion(
    old: &Value,
    new: &Value,
    allows_expansion: impl FnOnce(&str) -> bool,
) -> Result<(), &'static str> {
    let size = |claim: &Value| quantity::nanos(&claim["spec"]["resources"]["requests"]["storage"]);
    if size(new) <= size(old) {
        return Ok(());
    }
    if old["status"]["phase"] != "Bound" {
        return Err("Only bound persistent volume claims can be expanded");
    }
    let (before, name) = (class_of_claim(old), class_of_claim(new));
    if name.is_empty() || name != before || !allows_expansion(name) {
        return Err(
            "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize",
        );
    }
    Ok(())
}

/// Returns the name of a claim's class; "" if it has none.
fn class_of_claim(claim: &Value) -> &str {
    let annotated = claim["metadata"]["annotations"][STORAGE_CLASS].as_str();
    annotated.or(claim["spec"]["storageClassName"].as_str()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_bound_claims_of_a_class_that_allows_it_can_be_expanded() {
        let claim = |size: &str, phase: &str, class: &str| {
            let resources = json!({"requests": {"storage": size}});
            json!({"spec": {"resources": resources, "storageClassName": class}, "status": {"phase": phase}})
        };
        let check = |old: &Value, new: &Value| check_expansion(old, new, |class| class == "large");
        let bound = claim("1Gi", "Bound", "large");
        assert_eq!(check(&bound, &claim("2Gi", "Bound", "large")), Ok(()));
        assert_eq!(check(&bound, &claim("1024Mi", "Bound", "large")), Ok(()));
        let pending = claim("1Gi", "Pending", "large");
        assert!(check(&pending, &claim("2Gi", "Pending", "large")).is_err_and(|text| text.contains("bound")));
        for class in ["", "small"] {
            let old = claim("1Gi", "Bound", class);
            assert!(check(&old, &claim("2Gi", "Bound", class)).is_err(), "{class}");
        }
        assert!(check(&bound, &claim("2Gi", "Bound", "small")).is_err());
        let annotated = |size: &str| {
            let mut claim = claim(size, "Bound", "");
            claim["metadata"] = json!({"annotations": {STORAGE_CLASS: "large"}});
            claim
        };
        assert_eq!(check(&annotated("1Gi"), &annotated("2Gi")), Ok(()));
    }
}
