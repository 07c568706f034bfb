//! The approval of CRDs in the groups of the Kubernetes project (k8s.io, kubernetes.io and their subdomains), after
//! `k8s.io/apiextensions-apiserver/pkg/apihelpers`.

use serde_json::Value;

use crate::schema::field;
use crate::status::Cause;

/// The annotation with the URL of the approval.
const ANNOTATION: &str = "api-approved.kubernetes.io";
/// The type of the condition.
pub(super) const CONDITION: &str = "KubernetesAPIApprovalPolicyConformant";

/// Whether a CRD is approved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Approval {
    /// The annotation has the URL of the approval.
    Approved,
    /// The annotation says that the CRD is not approved.
    Bypassed,
    /// The annotation is neither.
    Invalid,
    /// There is no annotation.
    Missing,
}

/// Returns the status, reason and message of the condition [`CONDITION`]; `None` for a CRD that needs no approval.
pub(super) fn condition(crd: &Value) -> Option<(&'static str, &'static str, String)> {
    let group = crd["spec"]["group"].as_str().unwrap_or_default();
    is_protected(group).then(|| {
        let (status, reason) = match approval(crd) {
            Approval::Approved => ("True", "ApprovedAnnotation"),
            Approval::Bypassed => ("False", "UnapprovedAnnotation"),
            Approval::Invalid => ("False", "InvalidAnnotation"),
            Approval::Missing => ("False", "MissingAnnotation"),
        };
        (status, reason, message(crd))
    })
}

/// Adds what is wrong with the annotation. An update may leave it as wrong as it was.
pub(super) fn validate(crd: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let path = field::key("metadata.annotations", ANNOTATION);
    let group = crd["spec"]["group"].as_str().unwrap_or_default();
    let state = approval(crd);
    if !is_protected(group) || old.is_some_and(|old| approval(old) == state) {
        return;
    }
    match state {
        Approval::Approved | Approval::Bypassed => {}
        Approval::Invalid => causes.push(field::invalid(&path, &Value::from(annotation(crd)), &message(crd))),
        Approval::Missing => causes.push(field::required(&path, &message(crd))),
    }
}

fn is_protected(group: &str) -> bool {
    ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|domain| group == *domain || group.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.')))
}

fn annotation(crd: &Value) -> &str {
    crd["metadata"]["annotations"][ANNOTATION].as_str().unwrap_or_default()
}

fn approval(crd: &Value) -> Approval {
    let text = annotation(crd);
    let is_url = |text: &str| {
        text.parse::<http::Uri>().is_ok_and(|uri| uri.scheme().is_some() && uri.authority().is_some())
    };
    match text {
        "" => Approval::Missing,
        _ if text.starts_with("unapproved") => Approval::Bypassed,
        _ if is_url(text) => Approval::Approved,
        _ => Approval::Invalid,
    }
}

fn message(crd: &Value) -> String {
    const PULL_REQUEST: &str = "https://github.com/kubernetes/enhancements/pull/1111";
    let text = annotation(crd);
    match approval(crd) {
        Approval::Approved => format!("approved in {text}"),
        Approval::Bypassed => format!("not approved: {text:?}"),
        Approval::Missing => {
            format!("protected groups must have approval annotation {ANNOTATION:?}, see {PULL_REQUEST}")
        }
        Approval::Invalid => format!(
            "protected groups must have approval annotation {ANNOTATION:?} with either a URL or a reason starting with \
             \"unapproved\", see {PULL_REQUEST}"
        ),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn crd(group: &str, annotation: &str) -> Value {
        json!({"metadata": {"annotations": {ANNOTATION: annotation}}, "spec": {"group": group}})
    }

    #[test]
    fn condition_reports_the_approval_of_protected_groups_only() {
        assert_eq!(condition(&crd("example.com", "")), None);
        assert_eq!(condition(&crd("notk8s.io", "")), None);
        let condition = |text: &str| condition(&crd("x.k8s.io", text)).expect("a protected group");
        let url = "https://github.com/kubernetes-sigs/gateway-api/pull/1";
        assert_eq!(condition(url), ("True", "ApprovedAnnotation", format!("approved in {url}")));
        let bypassed = r#"not approved: "unapproved, experimental""#.to_owned();
        assert_eq!(condition("unapproved, experimental"), ("False", "UnapprovedAnnotation", bypassed));
        assert_eq!(condition("yes").1, "InvalidAnnotation");
        assert_eq!(condition("").1, "MissingAnnotation");
    }

    #[test]
    fn wrong_annotation_is_refused_unless_it_was_as_wrong_before() {
        let problems = |text: &str, old: Option<&str>| {
            let mut causes = Vec::new();
            let old = old.map(|old| crd("k8s.io", old));
            validate(&crd("k8s.io", text), old.as_ref(), &mut causes);
            causes.into_iter().map(|cause| cause.reason).collect::<Vec<_>>()
        };
        assert_eq!(problems("", None), ["FieldValueRequired"]);
        assert_eq!(problems("yes", None), ["FieldValueInvalid"]);
        assert_eq!(problems("unapproved", None), [""; 0]);
        assert_eq!(problems("", Some("")), [""; 0]);
        assert_eq!(problems("", Some("unapproved")), ["FieldValueRequired"]);
    }
}
