//! Conditions on an object, written in CEL.

use pilothouse_cel::check::check_condition;
use pilothouse_cel::syntax::{calls, first_unknown, has_struct, is_in_namespace, is_name};
use pilothouse_cel::{Budget, Expression, Value, from_json, is_missing_from_library};

/// The only variable.
const OBJECT: &str = "object";

/// An expression that is true for the expected object.
#[derive(Debug)]
pub(super) struct Condition {
    text: String,
    expression: Expression,
}

impl Condition {
    /// Compiles an expression.
    ///
    /// # Errors
    /// Errors with one line if it is not valid, or uses something else than the object and the libraries of Kubernetes.
    pub(super) fn compile(text: &str) -> Result<Self, String> {
        let expression = Expression::compile(text).map_err(|error| error.to_string())?;
        let root = expression.root();
        if let Some(name) = first_unknown(root, &mut vec![OBJECT]) {
            return Err(format!("unknown variable {name:?}; the only variable is {OBJECT}"));
        }
        if has_struct(root) {
            return Err("a message literal (NAME{...}) is not supported".to_owned());
        }
        for call in calls(root).into_iter().filter(|call| !is_in_namespace(call)) {
            let name = call.func_name.as_str();
            if is_name(name) && is_missing_from_library(name) {
                return Err(format!(
                    "unknown function {name}(); available are the CEL libraries of Kubernetes"
                ));
            }
        }
        check_condition(&expression, text, &[OBJECT], &[])
            .map_err(|problem| format!("the condition {text:?}: {problem}"))?;
        Ok(Self { text: text.to_owned(), expression })
    }

    /// Checks the object.
    ///
    /// # Errors
    /// Errors with one line that says why the condition does not hold.
    pub(super) fn check(&self, object: &serde_json::Value) -> Result<(), String> {
        let variables = vec![(OBJECT, from_json(object.clone()))];
        match self.expression.evaluate(variables, &mut Budget::full()) {
            Ok(Value::Bool(true)) => Ok(()),
            Ok(Value::Bool(false)) => Err(format!("{} is false", self.text)),
            Ok(other) => Err(format!("{} is of the type {}, not a boolean", self.text, other.type_of())),
            Err(error) => Err(format!("{}: {error}", self.text)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_condition_is_true_false_or_an_error() {
        let object = json!({"spec": {"replicas": 3, "hosts": ["a", "b"]}});
        let check = |text: &str| Condition::compile(text).expect(text).check(&object);
        assert_eq!(check("object.spec.replicas == 3"), Ok(()));
        assert_eq!(check("object.spec.hosts.all(host, host != 'c') && !has(object.status)"), Ok(()));
        assert_eq!(check("object.spec.replicas > 3"), Err("object.spec.replicas > 3 is false".to_owned()));
        let absent = check("object.status.ready").expect_err("it is absent");
        assert!(absent.contains("object.status.ready: ") && absent.contains("status"), "{absent}");
        let number = check("object.spec.replicas").expect_err("it is a number");
        assert!(number.contains("not a boolean"), "{number}");
    }

    #[test]
    fn what_cannot_be_evaluated_is_refused() {
        for (text, expected) in [
            ("object.spec ==", ""),
            ("objekt.spec == 1", "unknown variable \"objekt\"; the only variable is object"),
            ("generationChanged()", "unknown function generationChanged()"),
        ] {
            let error = Condition::compile(text).expect_err(text);
            assert!(error.contains(expected) && !error.contains('\n'), "{text}: {error}");
        }
    }
}
