//! Which PersistentVolume a claim gets, after `k8s.io/component-helpers/storage/volume`.

use pilothouse_model::LabelSelector;
use serde_json::Value;

use super::super::object::{has_labels, is_deleting, items};
use super::{annotation, refers_to};
use crate::meta;
use crate::schema::quantity::nanos;

const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

/// Returns the name of the class of a claim or a volume; "" for none.
pub(in super::super) fn class(object: &Value) -> &str {
    let class = annotation(object, CLASS_ANNOTATION).or_else(|| object["spec"]["storageClassName"].as_str());
    class.unwrap_or_default()
}

/// Returns the smallest volume that satisfies a claim, or the one that refers to it. If the claim waits for its first consumer, no other
/// volume is selected.
pub(super) fn find<'a>(claim: &Value, volumes: &'a [Value], waits_for_consumer: bool) -> Option<&'a Value> {
    let selector = match &claim["spec"]["selector"] {
        Value::Null => None,
        selector => Some(LabelSelector::from_json(selector).ok()?),
    };
    let fits = |volume: &&Value| {
        !is_deleting(volume) && is_large_enough(volume, claim) && has_mode_of(volume, claim)
    };
    if let Some(volume) = volumes.iter().filter(fits).find(|volume| refers_to(volume, claim)) {
        return Some(volume);
    }
    if waits_for_consumer {
        return None;
    }
    volumes
        .iter()
        .filter(fits)
        .filter(|volume| volume["spec"]["claimRef"].is_null() && volume["status"]["phase"] == "Available")
        .filter(|volume| class(volume) == class(claim) && has_access_modes(volume, claim))
        .filter(|volume| selector.as_ref().is_none_or(|selector| has_labels(volume, selector)))
        .min_by_key(|volume| (capacity(volume), meta::text(volume, "name").to_owned()))
}

/// Returns why a volume that a claim names cannot be bound to it.
pub(super) fn mismatch(volume: &Value, claim: &Value) -> Option<&'static str> {
    if !is_large_enough(volume, claim) {
        Some("requested PV is too small")
    } else if class(volume) != class(claim) {
        Some("storageClassName does not match")
    } else if attributes_class(volume) != attributes_class(claim) {
        Some("volumeAttributesClassName does not match")
    } else if mode(volume) != mode(claim) {
        Some("incompatible volumeMode")
    } else if !has_access_modes(volume, claim) {
        Some("incompatible accessMode")
    } else {
        None
    }
}

fn capacity(volume: &Value) -> i128 {
    nanos(&volume["spec"]["capacity"]["storage"]).unwrap_or(0)
}

fn is_large_enough(volume: &Value, claim: &Value) -> bool {
    capacity(volume) >= nanos(&claim["spec"]["resources"]["requests"]["storage"]).unwrap_or(0)
}

fn has_mode_of(volume: &Value, claim: &Value) -> bool {
    mode(volume) == mode(claim) && attributes_class(volume) == attributes_class(claim)
}

fn mode(object: &Value) -> &str {
    object["spec"]["volumeMode"].as_str().unwrap_or("Filesystem")
}

fn attributes_class(object: &Value) -> &str {
    object["spec"]["volumeAttributesClassName"].as_str().unwrap_or_default()
}

fn has_access_modes(volume: &Value, claim: &Value) -> bool {
    let offered = items(&volume["spec"]["accessModes"]);
    items(&claim["spec"]["accessModes"]).iter().all(|wanted| offered.contains(wanted))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn volume(name: &str, storage: &str, spec: &Value) -> Value {
        let mut volume = json!({
            "metadata": {"name": name, "labels": {"disk": name}},
            "spec": {"capacity": {"storage": storage}, "accessModes": ["ReadWriteOnce", "ReadOnlyMany"]},
            "status": {"phase": "Available"},
        });
        for (field, value) in spec.as_object().into_iter().flatten() {
            volume["spec"][field] = value.clone();
        }
        volume
    }

    fn claim(spec: &Value) -> Value {
        let mut claim = json!({
            "metadata": {"name": "c", "namespace": "n", "uid": "u"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}},
        });
        for (field, value) in spec.as_object().into_iter().flatten() {
            claim["spec"][field] = value.clone();
        }
        claim
    }

    fn found(claim: &Value, volumes: &[Value]) -> String {
        find(claim, volumes, false).map_or_else(String::new, |volume| meta::text(volume, "name").to_owned())
    }

    #[test]
    fn smallest_sufficient_volume_is_selected() {
        let none = json!({});
        let volumes =
            [volume("large", "8Gi", &none), volume("small", "1Gi", &none), volume("right", "2048Mi", &none)];
        assert_eq!(found(&claim(&none), &volumes), "right");
        assert_eq!(found(&claim(&none), &volumes[..1]), "large");
        assert_eq!(found(&claim(&none), &volumes[1..2]), "");
    }

    #[test]
    fn volume_has_the_class_the_modes_and_the_labels_of_the_claim() {
        let volumes = [
            volume("a", "2Gi", &json!({"storageClassName": "fast"})),
            volume("b", "3Gi", &json!({"volumeMode": "Block"})),
            volume("c", "4Gi", &json!({})),
        ];
        assert_eq!(found(&claim(&json!({"storageClassName": "fast"})), &volumes), "a");
        assert_eq!(found(&claim(&json!({"volumeMode": "Block"})), &volumes), "b");
        assert_eq!(found(&claim(&json!({})), &volumes), "c");
        assert_eq!(found(&claim(&json!({"accessModes": ["ReadWriteMany"]})), &volumes), "");
        assert_eq!(found(&claim(&json!({"selector": {"matchLabels": {"disk": "a"}}})), &volumes), "");
        assert_eq!(mismatch(&volumes[0], &claim(&json!({}))), Some("storageClassName does not match"));
        assert_eq!(mismatch(&volumes[2], &claim(&json!({}))), None);
    }

    #[test]
    fn volume_that_refers_to_the_claim_comes_first() {
        let reference = |uid: &str| json!({"claimRef": {"namespace": "n", "name": "c", "uid": uid}});
        let volumes = [volume("free", "2Gi", &json!({})), volume("own", "9Gi", &reference(""))];
        assert_eq!(found(&claim(&json!({})), &volumes), "own");
        assert_eq!(find(&claim(&json!({})), &volumes[..1], true), None, "it waits for its first consumer");
        assert_eq!(found(&claim(&json!({})), &[volume("earlier", "2Gi", &reference("w"))]), "");
    }
}
