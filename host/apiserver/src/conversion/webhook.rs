//! Conversion webhooks of CRDs, after `k8s.io/apiextensions-apiserver/pkg/apiserver/conversion/webhook_converter.go`.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::schema::labels_and_annotations_causes;
use crate::status::Status;
use crate::webhooks::{Destination, WebhookClient};

/// The time that a conversion may take, as in Kubernetes.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The webhook that converts the objects of a CRD between its versions.
pub(crate) struct ConversionWebhook {
    /// Where it is, or why it cannot be called.
    destination: Result<Destination, String>,
    /// The version of `ConversionReview` that it knows, if this server does, too.
    review_version: Option<&'static str>,
    client: Arc<WebhookClient>,
}

impl ConversionWebhook {
    /// Reads the `spec.conversion` of a CRD; `None` if its strategy is not `Webhook`.
    pub(crate) fn parse(conversion: &Value, client: &Arc<WebhookClient>) -> Option<Self> {
        let webhook = &conversion["webhook"];
        let versions = webhook["conversionReviewVersions"].as_array().into_iter().flatten();
        (conversion["strategy"] == "Webhook").then(|| Self {
            destination: Destination::parse(&webhook["clientConfig"]),
            review_version: versions.filter_map(Value::as_str).find_map(|version| match version {
                "v1" => Some("apiextensions.k8s.io/v1"),
                "v1beta1" => Some("apiextensions.k8s.io/v1beta1"),
                _ => None,
            }),
            client: Arc::clone(client),
        })
    }

    /// Converts objects, which have their `apiVersion` and `kind`, to the API version `desired`.
    ///
    /// # Errors
    /// 500 if the webhook fails or returns something else than the objects in that version.
    pub(crate) async fn convert(&self, objects: &[Value], desired: &str) -> Result<Vec<Value>, Status> {
        let failed = |problem: String| {
            let text =
                |field: &str| objects.first().and_then(|object| object[field].as_str()).unwrap_or_default();
            let (api_version, kind) = (text("apiVersion"), text("kind"));
            Status::unclassified(format!(
                "conversion webhook for {api_version}, Kind={kind} failed: {problem}"
            ))
        };
        let results = self.request(objects, desired).await.map_err(failed)?;
        let accepted =
            objects.iter().zip(results).map(|(original, result)| accept(original, result, desired));
        accepted.collect::<Result<_, _>>().map_err(failed)
    }

    async fn request(&self, objects: &[Value], desired: &str) -> Result<Vec<Value>, String> {
        let destination = self.destination.as_ref().map_err(Clone::clone)?;
        let version =
            self.review_version.ok_or("the webhook knows neither ConversionReview v1 nor v1beta1")?;
        let uid = self.client.new_review_uid();
        let review = json!({
            "kind": "ConversionReview", "apiVersion": version,
            "request": {"uid": uid, "desiredAPIVersion": desired, "objects": objects},
        });
        let answer = self.client.post(destination, TIMEOUT, Bytes::from(review.to_string())).await?;
        parse(&answer, version, &uid, objects.len())
    }
}

/// Reads the answer of a webhook.
fn parse(answer: &[u8], version: &str, uid: &str, count: usize) -> Result<Vec<Value>, String> {
    let mut review: Value = serde_json::from_slice(answer).map_err(|error| error.to_string())?;
    if !review.is_object() {
        return Err("no response provided".to_owned());
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (api_version, kind) = (text(&review["apiVersion"]), text(&review["kind"]));
    let response = &mut review["response"];
    if !response.is_object() {
        return Err("no response provided".to_owned());
    }
    if api_version != version || kind != "ConversionReview" {
        return Err(format!(
            "expected webhook response of {version}, Kind=ConversionReview, got {api_version}, Kind={kind}"
        ));
    }
    if response["uid"] != uid {
        return Err(format!("expected response.uid={uid:?}, got {:?}", text(&response["uid"])));
    }
    let result = &response["result"];
    if result["status"] != "Success" {
        let message = text(&result["message"]);
        let status = text(&result["status"]);
        return Err(if message.is_empty() {
            format!("response.result.status was '{status}', not 'Success'")
        } else {
            message
        });
    }
    let Value::Array(objects) = response["convertedObjects"].take() else {
        return Err(format!("the webhook returned no objects, expected {count}"));
    };
    if objects.len() != count {
        return Err(format!("the webhook returned {} objects, expected {count}", objects.len()));
    }
    Ok(objects)
}

/// Checks a converted object. Its metadata is that of the original, except for labels and annotations.
fn accept(original: &Value, mut converted: Value, desired: &str) -> Result<Value, String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let found = text(&converted["apiVersion"]);
    if found != desired {
        return Err(format!(
            "returned invalid converted object: invalid apiVersion {found}, expected {desired}"
        ));
    }
    for (what, pointer) in [
        ("kind", "/kind"),
        ("name", "/metadata/name"),
        ("namespace", "/metadata/namespace"),
        ("UID", "/metadata/uid"),
    ] {
        let value = |object: &Value| object.pointer(pointer).map(text).unwrap_or_default();
        let (before, after) = (value(original), value(&converted));
        if before != after {
            return Err(format!(
                "returned invalid converted object: must have the same {what}: {before} != {after}"
            ));
        }
    }
    let invalid = |problem: String| format!("returned invalid metadata in the converted object: {problem}");
    let Value::Object(mut returned) = converted["metadata"].take() else {
        return Err(invalid("metadata is no object".to_owned()));
    };
    let mut metadata = original["metadata"].as_object().cloned().unwrap_or_default();
    for field in ["labels", "annotations"] {
        let Some(value) = returned.remove(field).filter(|value| !value.is_null()) else {
            metadata.remove(field);
            continue;
        };
        if !value.as_object().is_some_and(|texts| texts.values().all(Value::is_string)) {
            return Err(invalid(format!("metadata.{field} is no map of strings")));
        }
        if metadata.get(field) != Some(&value) {
            metadata.insert(field.to_owned(), value);
        }
    }
    if original["metadata"].as_object() != Some(&metadata)
        && let Some(cause) = labels_and_annotations_causes(&metadata).into_iter().next()
    {
        return Err(invalid(format!("{}: {}", cause.field, cause.message)));
    }
    converted["metadata"] = metadata.into();
    Ok(converted)
}

impl std::fmt::Debug for ConversionWebhook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConversionWebhook").field("destination", &self.destination).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn original() -> Value {
        json!({
            "apiVersion": "example.com/v1", "kind": "Foo",
            "metadata": {"name": "a", "namespace": "n", "uid": "u", "finalizers": ["x/y"], "labels": {"a": "b"}},
        })
    }

    #[test]
    fn only_labels_and_annotations_of_the_metadata_are_converted() {
        let mut converted = original();
        converted["apiVersion"] = json!("example.com/v2");
        converted["spec"] = json!({"x": 1});
        converted["metadata"]["labels"] = json!({"c": "d"});
        converted["metadata"]["finalizers"] = json!([]);
        let accepted = accept(&original(), converted, "example.com/v2").expect("valid");
        assert_eq!(accepted["metadata"]["labels"], json!({"c": "d"}));
        assert_eq!(accepted["metadata"]["finalizers"], json!(["x/y"]));
        assert_eq!(accepted["spec"], json!({"x": 1}));
    }

    #[test]
    fn converted_object_keeps_its_identity() {
        for (pointer, value, problem) in [
            ("/apiVersion", "example.com/v3", "invalid apiVersion example.com/v3, expected example.com/v2"),
            ("/kind", "Bar", "must have the same kind: Foo != Bar"),
            ("/metadata/name", "b", "must have the same name: a != b"),
            ("/metadata/namespace", "m", "must have the same namespace: n != m"),
            ("/metadata/uid", "v", "must have the same UID: u != v"),
        ] {
            let mut converted = original();
            converted["apiVersion"] = json!("example.com/v2");
            *converted.pointer_mut(pointer).expect("a member") = json!(value);
            let error = accept(&original(), converted, "example.com/v2").expect_err("another identity");
            assert!(error.ends_with(problem), "{error}");
        }
    }

    #[test]
    fn converted_metadata_with_malformed_labels_is_refused() {
        // The name of a new object with a `generateName` is not known yet.
        let original =
            json!({"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"generateName": "a-"}});
        let problem = |metadata: Value| {
            let converted = json!({"apiVersion": "example.com/v2", "kind": "Foo", "metadata": metadata});
            accept(&original, converted, "example.com/v2").err()
        };
        for metadata in [json!(null), json!("x"), json!([1])] {
            let problem = problem(metadata).expect("no object");
            assert!(problem.ends_with("metadata is no object"), "{problem}");
        }
        for labels in [json!("x"), json!({"a": 1}), json!({"a": null}), json!(["a"])] {
            let problem = problem(json!({"labels": labels})).expect("no map of strings");
            assert!(problem.ends_with("metadata.labels is no map of strings"), "{problem}");
        }
        let invalid = problem(json!({"labels": {"not valid": "x"}})).expect("the name is invalid");
        assert!(invalid.contains("metadata.labels: "), "{invalid}");
        assert_eq!(problem(json!({"labels": {"a": "b"}, "annotations": null})), None);
    }

    #[test]
    fn invalid_answers_are_refused() {
        let version = "apiextensions.k8s.io/v1";
        let answer = |response: &Value| {
            json!({"apiVersion": version, "kind": "ConversionReview", "response": response}).to_string()
        };
        let success = json!({"status": "Success"});
        for (response, problem) in [
            (json!(null), "no response provided"),
            (json!({"uid": "v"}), "expected response.uid=\"u\", got \"v\""),
            (json!({"uid": "u", "result": {"status": "Failure", "message": "broken"}}), "broken"),
            (
                json!({"uid": "u", "result": {"status": "Failure"}}),
                "response.result.status was 'Failure', not 'Success'",
            ),
            (
                json!({"uid": "u", "result": success, "convertedObjects": []}),
                "the webhook returned 0 objects, expected 1",
            ),
        ] {
            assert_eq!(parse(answer(&response).as_bytes(), version, "u", 1), Err(problem.to_owned()));
        }
        let valid = json!({"uid": "u", "result": success, "convertedObjects": [{}]});
        assert_eq!(parse(answer(&valid).as_bytes(), version, "u", 1), Ok(vec![json!({})]));
    }
}
