//! `AdmissionReview`: the request to a webhook, and its answer, after `k8s.io/apiserver/pkg/admission/plugin/webhook/request`.

use k8s_openapi::ByteString;
use serde::Deserialize;
use serde_json::{Value, json};

use super::request::{Objects, WriteRequest};
use crate::registry::Endpoint;
use crate::status::{Cause, Details, Status};
use crate::user::User;

/// A version of `AdmissionReview`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReviewVersion {
    V1,
    V1beta1,
}

impl ReviewVersion {
    /// Returns the first of a webhook's `admissionReviewVersions` that this server knows.
    pub(super) fn first_known(versions: &Value) -> Option<Self> {
        versions.as_array().into_iter().flatten().find_map(|version| match version.as_str() {
            Some("v1") => Some(Self::V1),
            Some("v1beta1") => Some(Self::V1beta1),
            _ => None,
        })
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V1beta1 => "v1beta1",
        }
    }

    fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "admission.k8s.io/v1",
            Self::V1beta1 => "admission.k8s.io/v1beta1",
        }
    }
}

/// Builds the review of a write. The objects are in the version of `endpoint`.
pub(super) fn build(
    version: ReviewVersion,
    uid: &str,
    write: &WriteRequest<'_>,
    endpoint: &Endpoint,
    user: &User,
    options: &Value,
    objects: Objects<'_>,
) -> Value {
    let mut request = write.to_value(endpoint, user, options);
    request["uid"] = uid.into();
    request["object"] = objects.new.cloned().unwrap_or(Value::Null);
    request["oldObject"] = objects.old.cloned().unwrap_or(Value::Null);
    json!({"kind": "AdmissionReview", "apiVersion": version.api_version(), "request": request})
}

/// The decision of a webhook.
#[derive(Debug, PartialEq)]
pub(super) struct Decision {
    pub warnings: Vec<String>,
    /// The JSON patch of a webhook that allows the write, or its reason to deny it.
    pub outcome: Result<Option<Value>, Value>,
}

/// Reads the answer of a webhook.
///
/// # Errors
/// Why the answer is invalid, in the words of kube-apiserver.
pub(super) fn parse(
    answer: &[u8],
    version: ReviewVersion,
    uid: &str,
    is_mutating: bool,
) -> Result<Decision, String> {
    let review: Value = serde_json::from_slice(answer).map_err(|error| error.to_string())?;
    let response = &review["response"];
    if !response.is_object() {
        return Err("webhook response was absent".to_owned());
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let is_v1 = version == ReviewVersion::V1;
    if is_v1 && response["uid"] != uid {
        return Err(format!("expected response.uid={uid:?}, got {:?}", text(&response["uid"])));
    }
    let (api_version, kind) = (text(&review["apiVersion"]), text(&review["kind"]));
    if is_v1 && (api_version != version.api_version() || kind != "AdmissionReview") {
        return Err(format!(
            "expected webhook response of admission.k8s.io/{}, Kind=AdmissionReview, got {api_version}, Kind={kind}",
            version.as_str()
        ));
    }
    let patch = patch_of(response, is_v1, is_mutating)?;
    let warnings = response["warnings"].as_array().into_iter().flatten();
    Ok(Decision {
        warnings: warnings.filter_map(Value::as_str).map(str::to_owned).collect(),
        outcome: if response["allowed"] == true { Ok(patch) } else { Err(response["status"].clone()) },
    })
}

fn patch_of(response: &Value, is_v1: bool, is_mutating: bool) -> Result<Option<Value>, String> {
    let present = |name: &str| response.get(name).filter(|value| !value.is_null());
    let bytes = match present("patch") {
        Some(patch) => ByteString::deserialize(patch).map_err(|error| format!("response.patch: {error}"))?.0,
        None => Vec::new(),
    };
    let patch_type = present("patchType");
    if !is_mutating {
        if !is_v1 {
            return Ok(None);
        }
        return match (bytes.is_empty(), patch_type) {
            (false, _) => Err("validating webhook may not return response.patch".to_owned()),
            (true, Some(_)) => Err("validating webhook may not return response.patchType".to_owned()),
            (true, None) => Ok(None),
        };
    }
    match (bytes.is_empty(), patch_type) {
        (true, Some(_)) if is_v1 => {
            return Err("webhook returned response.patchType but not response.patch".to_owned());
        }
        (false, None) if is_v1 => {
            return Err("webhook returned response.patch but not response.patchType".to_owned());
        }
        (false, Some(kind)) if kind != "JSONPatch" => return Err(format!("unsupported patch type {kind}")),
        _ => {}
    }
    if bytes.is_empty() {
        return Ok(None);
    }
    let patch: Value = serde_json::from_slice(&bytes).map_err(|error| format!("response.patch: {error}"))?;
    Ok(patch.as_array().is_none_or(|operations| !operations.is_empty()).then_some(patch))
}

/// Returns the status of a write that a webhook denied. `status` is the webhook's, or null.
pub(super) fn denial(webhook: &str, status: &Value) -> Status {
    let denied_by = format!("admission webhook {webhook:?} denied the request");
    let text = |name: &str| status[name].as_str().unwrap_or_default();
    let message = match (text("message"), text("reason")) {
        ("", "") => format!("{denied_by} without explanation"),
        ("", reason) => format!("{denied_by}: {reason}"),
        (message, _) => format!("{denied_by}: {message}"),
    };
    // A denial is never a success, whatever the webhook says.
    let code = status["code"].as_u64().and_then(|code| u16::try_from(code).ok());
    let code = code.filter(|code| (400..600).contains(code)).unwrap_or(400);
    Status::denied(code, text("reason"), message, details(&status["details"]))
}

fn details(details: &Value) -> Option<Details> {
    if !details.is_object() {
        return None;
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let causes = details["causes"].as_array().into_iter().flatten().map(|cause| Cause {
        field: text(&cause["field"]),
        reason: text(&cause["reason"]),
        message: text(&cause["message"]),
    });
    Some(Details {
        name: text(&details["name"]),
        group: text(&details["group"]),
        kind: text(&details["kind"]),
        uid: text(&details["uid"]),
        causes: causes.collect(),
        retry_after_seconds: details["retryAfterSeconds"]
            .as_u64()
            .and_then(|seconds| u32::try_from(seconds).ok())
            .unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(response: &Value) -> Vec<u8> {
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
            .to_string()
            .into_bytes()
    }

    fn parse_v1(response: &Value, is_mutating: bool) -> Result<Decision, String> {
        parse(&answer(response), ReviewVersion::V1, "u", is_mutating)
    }

    /// `[{"op":"add","path":"/a","value":1}]`
    const PATCH: &str = "W3sib3AiOiJhZGQiLCJwYXRoIjoiL2EiLCJ2YWx1ZSI6MX1d";

    #[test]
    fn allowed_answer_has_its_patch_and_warnings() {
        let response =
            json!({"uid": "u", "allowed": true, "patch": PATCH, "patchType": "JSONPatch", "warnings": ["w"]});
        let decision = parse_v1(&response, true).expect("valid");
        assert_eq!(decision.warnings, ["w"]);
        assert_eq!(decision.outcome, Ok(Some(json!([{"op": "add", "path": "/a", "value": 1}]))));
        let decision = parse_v1(&json!({"uid": "u", "allowed": true}), false).expect("valid");
        assert_eq!(decision.outcome, Ok(None));
    }

    #[test]
    fn invalid_answers_have_the_errors_of_kube_apiserver() {
        for (response, is_mutating, problem) in [
            (json!(null), false, "webhook response was absent"),
            (json!({"uid": "v", "allowed": true}), false, "expected response.uid=\"u\", got \"v\""),
            (
                json!({"uid": "u", "allowed": true, "patch": PATCH}),
                true,
                "webhook returned response.patch but not response.patchType",
            ),
            (
                json!({"uid": "u", "allowed": true, "patchType": "JSONPatch"}),
                true,
                "webhook returned response.patchType but not response.patch",
            ),
            (
                json!({"uid": "u", "allowed": true, "patch": PATCH, "patchType": "Merge"}),
                true,
                "unsupported patch type \"Merge\"",
            ),
            (
                json!({"uid": "u", "allowed": true, "patch": PATCH, "patchType": "JSONPatch"}),
                false,
                "validating webhook may not return response.patch",
            ),
        ] {
            assert_eq!(parse_v1(&response, is_mutating), Err(problem.to_owned()), "{response}");
        }
        let other = json!({"apiVersion": "v1", "kind": "Pod", "response": {"uid": "u"}}).to_string();
        let problem = parse(other.as_bytes(), ReviewVersion::V1, "u", false).expect_err("another kind");
        assert!(problem.ends_with("got v1, Kind=Pod"), "{problem}");
        assert!(parse(b"<html>", ReviewVersion::V1, "u", false).is_err());
    }

    #[test]
    fn v1beta1_needs_neither_uid_nor_patch_type() {
        let response = json!({"response": {"allowed": true, "patch": PATCH}}).to_string();
        let decision = parse(response.as_bytes(), ReviewVersion::V1beta1, "u", true).expect("valid");
        assert!(matches!(decision.outcome, Ok(Some(_))), "{decision:?}");
    }

    #[test]
    fn denial_has_the_code_reason_and_message_of_the_webhook() {
        let status = denial("a.b.c", &json!({"code": 403, "reason": "Forbidden", "message": "no"}));
        assert_eq!(
            (status.code, status.message.as_str()),
            (403, "admission webhook \"a.b.c\" denied the request: no")
        );
        assert_eq!(status.to_value()["reason"], "Forbidden");
        let status = denial("a", &json!({"reason": "TeaTime", "details": {"causes": [{"field": "f"}]}}));
        assert_eq!(status.message, "admission webhook \"a\" denied the request: TeaTime");
        assert_eq!((status.code, &status.to_value()["reason"]), (400, &json!("TeaTime")));
        assert_eq!(status.to_value()["details"]["causes"][0]["field"], "f");
        let status = denial("a", &json!({"code": 200}));
        assert_eq!((status.code, status.message.ends_with("without explanation")), (400, true));
    }
}
