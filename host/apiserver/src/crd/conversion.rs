//! Validation of a CRD's `spec.conversion`.

use serde_json::Value;

use crate::schema::field;
use crate::status::Cause;
use crate::webhooks::Destination;

/// The versions of `ConversionReview` that this server knows.
const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];

/// Whether the conversion of a CRD is a webhook with a malformed `caBundle`, with which the CRD does not become established.
pub(super) fn has_invalid_bundle(crd: &Value) -> bool {
    Destination::bundle_problem(&crd["spec"]["conversion"]["webhook"]["clientConfig"]).is_some()
}

/// Whether the condition `Established` of a CRD's status is true.
pub(super) fn is_established(status: &Value) -> bool {
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    conditions.any(|condition| condition["type"] == "Established" && condition["status"] == "True")
}

/// Adds what is wrong with the conversion of a CRD. As in Kubernetes, the `caBundle` may be malformed unless the CRD is established with a
/// valid one. `old` is the stored CRD on updates.
pub(super) fn validate(crd: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let checks_bundle = old.is_some_and(|old| is_established(&old["status"]) && !has_invalid_bundle(old));
    validate_conversion(&crd["spec"]["conversion"], checks_bundle, causes);
}

fn validate_conversion(conversion: &Value, checks_bundle: bool, causes: &mut Vec<Cause>) {
    const CLIENT_CONFIG: &str = "spec.conversion.webhookClientConfig";
    const VERSIONS: &str = "spec.conversion.conversionReviewVersions";
    let client_config = &conversion["webhook"]["clientConfig"];
    match conversion["strategy"].as_str().unwrap_or("None") {
        "None" => {
            if !client_config.is_null() {
                let detail = "should not be set when strategy is not set to Webhook";
                causes.push(field::forbidden(CLIENT_CONFIG, detail));
            }
        }
        "Webhook" => {
            if client_config.is_null() {
                causes.push(field::required(CLIENT_CONFIG, "required when strategy is set to Webhook"));
            } else if let Err(problem) = Destination::check_address(client_config) {
                causes.push(field::invalid(CLIENT_CONFIG, client_config, &problem));
            }
            if checks_bundle && let Some(problem) = Destination::bundle_problem(client_config) {
                let at = field::child(CLIENT_CONFIG, "caBundle");
                causes.push(field::invalid(&at, &client_config["caBundle"], &problem));
            }
            let versions = &conversion["webhook"]["conversionReviewVersions"];
            let listed = versions.as_array().map_or(&[][..], Vec::as_slice);
            if listed.is_empty() {
                causes.push(field::required(VERSIONS, "must specify at least one version"));
            } else if !listed.iter().any(|version| REVIEW_VERSIONS.iter().any(|known| version == known)) {
                let detail = "must include at least one of v1, v1beta1";
                causes.push(field::invalid(VERSIONS, versions, detail));
            }
        }
        _ => {
            let strategies = ["None", "Webhook"];
            let strategy = &conversion["strategy"];
            causes.push(field::not_supported("spec.conversion.strategy", strategy, &strategies));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn webhook_needs_a_destination_and_a_known_review_version() {
        let fields = |conversion: Value| {
            let mut causes = Vec::new();
            validate_conversion(&conversion, true, &mut causes);
            causes.into_iter().map(|cause| cause.field).collect::<Vec<_>>()
        };
        let config = json!({"url": "https://127.0.0.1:1/convert"});
        let webhook = |config: &Value, versions: Value| json!({"strategy": "Webhook", "webhook": {"clientConfig": config, "conversionReviewVersions": versions}});
        assert!(fields(json!({"strategy": "None"})).is_empty());
        assert!(fields(webhook(&config, json!(["v2", "v1"]))).is_empty());
        let (client, versions) =
            ("spec.conversion.webhookClientConfig", "spec.conversion.conversionReviewVersions");
        assert_eq!(fields(json!({"strategy": "Webhook"})), [client, versions]);
        assert_eq!(fields(webhook(&json!({"url": "http://a"}), json!(["v1"]))), [client]);
        assert_eq!(fields(webhook(&config, json!(["v2"]))), [versions]);
        let malformed = json!({"url": "https://a", "caBundle": "eA=="});
        assert_eq!(
            fields(webhook(&malformed, json!(["v1"]))),
            ["spec.conversion.webhookClientConfig.caBundle"]
        );
        assert_eq!(fields(json!({"strategy": "Other"})), ["spec.conversion.strategy"]);
        assert_eq!(fields(json!({"strategy": "None", "webhook": {"clientConfig": config}})), [client]);
    }
}
