//! Compares Events (`events.k8s.io/v1`) with what a scenario expects. Pure.

use serde_json::Value;

use super::cluster::Resource;
use super::scenario::EventExpectation;

/// Whether the Event is as expected. `resource` is that of the expected object, if the scenario names one.
pub(super) fn is_as_expected(
    expected: &EventExpectation,
    resource: Option<&Resource>,
    event: &Value,
) -> bool {
    let is_equal = |expected: &Option<String>, member: &str| {
        expected.as_ref().is_none_or(|expected| event[member].as_str() == Some(expected.as_str()))
    };
    let has_note = expected.note.as_ref().is_none_or(|part| {
        let note = event["note"].as_str().unwrap_or_default();
        note.contains(part.as_str())
    });
    let is_about = expected.object.as_ref().is_none_or(|object| {
        let regarding = &event["regarding"];
        let text = |member: &str| regarding[member].as_str().unwrap_or_default();
        resource.is_some_and(|resource| {
            let namespace = if resource.is_namespaced { object.namespace() } else { "" };
            text("kind") == resource.kind && text("name") == object.name && text("namespace") == namespace
        })
    });
    is_equal(&expected.severity, "type") && is_equal(&expected.reason, "reason") && has_note && is_about
}

/// Returns a line about an Event.
pub(super) fn line_of(event: &Value) -> String {
    let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (namespace, name) = (text("/regarding/namespace"), text("/regarding/name"));
    let slash = if namespace.is_empty() { "" } else { "/" };
    format!(
        "{} {}, about {}/{namespace}{slash}{name}: {}",
        text("/type"),
        text("/reason"),
        text("/regarding/kind"),
        text("/note")
    )
}

#[cfg(test)]
mod tests {
    use pilothouse_apiserver::ApiServer;
    use serde_json::json;

    use super::super::cluster::Cluster;
    use super::super::object_reference::ObjectReference;
    use super::*;

    async fn resource_of(object: &ObjectReference) -> Resource {
        let mut cluster = Cluster::new(kube::Client::new(ApiServer::builder().build().service(), "default"));
        cluster.resource(object).await.expect("no error").expect("served")
    }

    #[tokio::test]
    async fn what_is_given_must_be_equal() {
        let event = json!({
            "type": "Warning", "reason": "Failed", "note": "cannot create it",
            "regarding": {"kind": "ConfigMap", "namespace": "shop", "name": "a"},
        });
        assert_eq!(line_of(&event), "Warning Failed, about ConfigMap/shop/a: cannot create it");
        let object = ObjectReference::parse("configmap/shop/a").expect("a reference");
        let resource = resource_of(&object).await;
        let expected = |object: Option<&ObjectReference>, [severity, reason, note]: [Option<&str>; 3]| {
            EventExpectation {
                object: object.cloned(),
                severity: severity.map(str::to_owned),
                reason: reason.map(str::to_owned),
                note: note.map(str::to_owned),
            }
        };
        let all = [Some("Warning"), Some("Failed"), Some("create")];
        for good in [expected(None, [None; 3]), expected(None, all), expected(Some(&object), all)] {
            assert!(is_as_expected(&good, Some(&resource), &event), "{good:?}");
        }
        let other = ObjectReference::parse("configmap/a").expect("a reference");
        for bad in [
            expected(None, [Some("Normal"), None, None]),
            expected(None, [None, Some("Fail"), None]),
            expected(None, [None, None, Some("delete")]),
            expected(Some(&other), all),
        ] {
            assert!(!is_as_expected(&bad, Some(&resource), &event), "{bad:?}");
        }
        assert!(!is_as_expected(&expected(Some(&object), all), None, &event), "the kind is not served");
    }
}
