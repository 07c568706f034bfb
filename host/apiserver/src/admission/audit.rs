//! What ValidatingAdmissionPolicies add to the audit event of a request, after `dispatcher.go` in
//! `k8s.io/apiserver/pkg/admission/plugin/policy/validating`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::notes::Notes;
use super::policy::Binding;
use crate::go;

/// The annotation with a validation that failed.
const FAILURE: &str = "validation.policy.admission.k8s.io/validation_failure";
/// The longest value of an audit annotation in bytes, as in Kubernetes.
const MAX_VALUE_LENGTH: usize = 10 << 10;
/// The bytes that the values of the audit annotations of a policy may have together, which many parameters may give it.
const MAX_VALUES: usize = 1 << 20;

/// Records a failed validation of a binding whose actions contain `Audit`.
pub(super) fn record_failure(notes: &Notes, binding: &Binding, index: usize, message: &str) {
    let text = |text: &str| go::encoded_json(&Value::from(text)).trim_end().to_owned();
    let actions: Vec<String> = binding.actions.iter().map(|action| text(action.as_str())).collect();
    // Written by hand for the order of Kubernetes.
    let value = format!(
        "[{{\"message\":{},\"policy\":{},\"binding\":{},\"expressionIndex\":{index},\"validationActions\":[{}]}}]",
        text(message),
        text(&binding.policy),
        text(&binding.name),
        actions.join(",")
    );
    notes.annotate(FAILURE.to_owned(), value);
}

/// The values of the audit annotations of a policy by their keys: distinct ones, in the order of the bindings and their parameters.
#[derive(Default)]
pub(super) struct AnnotationValues {
    values: BTreeMap<String, (Vec<String>, BTreeSet<String>)>,
    size: usize,
}

impl AnnotationValues {
    /// Adds a value, which is cut if it is too long. Further ones are left out if all are too long together.
    pub(super) fn add(&mut self, key: String, mut value: String) {
        let end = (0..=MAX_VALUE_LENGTH.min(value.len())).rev().find(|end| value.is_char_boundary(*end));
        value.truncate(end.unwrap_or(0));
        if self.size + value.len() > MAX_VALUES {
            return;
        }
        let (values, known) = self.values.entry(key).or_default();
        if known.insert(value.clone()) {
            self.size += value.len();
            values.push(value);
        }
    }

    /// Records the annotations of the policy with this name.
    pub(super) fn publish(self, policy: &str, notes: &Notes) {
        for (key, (values, _)) in self.values {
            notes.annotate(format!("{policy}/{key}"), values.join(", "));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn failures_have_the_form_of_kubernetes() {
        let spec = json!({"policyName": "p", "validationActions": ["Warn", "Audit"]});
        let binding = Binding::parse(&json!({"metadata": {"name": "b"}, "spec": spec}));
        let notes = Notes::default();
        record_failure(&notes, &binding, 1, "a < \"b\"");
        let expected = r#"[{"message":"a \u003c \"b\"","policy":"p","binding":"b","expressionIndex":1,"validationActions":["Warn","Audit"]}]"#;
        assert_eq!(notes.take_annotations()[FAILURE], expected);
    }

    #[test]
    fn distinct_values_are_joined_and_bounded() {
        let mut values = AnnotationValues::default();
        for value in ["b", "a", "b"] {
            values.add("k".to_owned(), value.to_owned());
        }
        values.add("long".to_owned(), "ä".repeat(MAX_VALUE_LENGTH));
        for index in 0..200 {
            values.add("many".to_owned(), format!("{index}{}", "x".repeat(MAX_VALUE_LENGTH)));
        }
        assert!(values.size <= MAX_VALUES);
        values.values.remove("many");
        let notes = Notes::default();
        values.publish("p", &notes);
        let annotations = notes.take_annotations();
        assert_eq!(annotations["p/k"], "b, a");
        assert_eq!(annotations["p/long"].len(), MAX_VALUE_LENGTH);
    }
}
