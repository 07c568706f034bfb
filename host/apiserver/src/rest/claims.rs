//! Which updates of PersistentVolumeClaims the built-in admission plugins forbid: those beyond a LimitRange, and expansions that the storage class
//! does not allow (`PersistentVolumeClaimResize`, after `k8s.io/kubernetes/plugin/pkg/admission/storage/persistentvolume/resize`).

use serde_json::Value;

use super::limit_ranges;
use super::update::UpdateTarget;
use crate::meta;
use crate::registry::Endpoint;
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
    let class = |claim: &Value| claim["spec"]["storageClassName"].as_str().unwrap_or_default().to_owned();
    let name = class(new);
    if name.is_empty() || name != class(old) || !allows_expansion(&name) {
        return Err(
            "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize",
        );
    }
    Ok(())
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
    }
}
