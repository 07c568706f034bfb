//! Validation of the `auditAnnotations` of a policy.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::shared::{Checker, items};
use crate::admission::environment::{Environment, ResultType};
use crate::schema::{field, qualified_name_errors};

/// The most audit annotations of a policy.
const MAX_ANNOTATIONS: usize = 20;

/// The longest `valueExpression` in bytes.
const MAX_EXPRESSION_LENGTH: usize = 5 * 1024;

/// Checks the audit annotations of a policy, whose expressions can refer to what `environment` has.
pub(super) fn validate(checker: &mut Checker, policy: &Value, environment: &Environment) {
    const PATH: &str = "spec.auditAnnotations";
    let annotations = items(&policy["spec"]["auditAnnotations"]);
    if annotations.len() > MAX_ANNOTATIONS {
        let detail = format!("must not have more than {MAX_ANNOTATIONS} auditAnnotations");
        checker.add(field::invalid(PATH, &as_go(annotations), &detail));
    }
    let name = policy["metadata"]["name"].as_str().unwrap_or_default();
    let mut keys = BTreeSet::new();
    for (index, annotation) in annotations.iter().enumerate() {
        let path = field::index(PATH, index);
        let key_path = field::child(&path, "key");
        let key = annotation["key"].as_str().unwrap_or_default();
        if name.is_empty() {
            checker.add(field::invalid(&key_path, &key.into(), "requires metadata.name be non-empty"));
        } else {
            checker.name(&key_path, &format!("{name}/{key}").into(), qualified_name_errors);
        }
        validate_expression(checker, &path, &annotation["valueExpression"], environment);
        if !keys.insert(key) {
            checker.add(field::duplicate(&key_path, &key.into()));
        }
    }
}

fn validate_expression(checker: &mut Checker, path: &str, expression: &Value, environment: &Environment) {
    let path = field::child(path, "valueExpression");
    if !checker.required(&path, expression, "valueExpression is not specified") {
        return;
    }
    if expression.as_str().is_some_and(|text| text.trim().len() > MAX_EXPRESSION_LENGTH) {
        let detail = format!("must not exceed {MAX_EXPRESSION_LENGTH} bytes in length");
        checker.add(field::required(&path, &detail));
    } else {
        checker.expression(&path, expression, (environment, ResultType::Annotation));
    }
}

/// Returns the annotations as messages show them: with the names of Go's fields.
fn as_go(annotations: &[Value]) -> Value {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let annotations = annotations.iter().map(|annotation| {
        json!({"Key": text(&annotation["key"]), "ValueExpression": text(&annotation["valueExpression"])})
    });
    annotations.collect()
}
