//! Logical junctors: schemas that combine others: `allOf`, `anyOf`, `oneOf` and `not`.

use serde_json::Value;

use super::super::field;
use super::super::node::{NodeId, SchemaRef, ValueValidations};
use super::Validator;
use crate::status::Causes;

impl Validator {
    /// Checks `allOf`, `anyOf`, `oneOf` and `not`.
    pub(super) fn junctors(
        &mut self,
        new: &Value,
        old: Option<&Value>,
        validations: &ValueValidations,
        schema: SchemaRef<'_>,
        path: &str,
    ) {
        let built_in = self.built_in;
        let run = |id: &NodeId| {
            let mut branch = Validator::new(built_in);
            branch.node(new, old, schema.resolve(*id), path);
            branch
        };
        // As in Kubernetes, these errors have the path only in their message.
        let composite = |detail: &str| field::invalid("", &Value::from(""), &format!("\"{path}\" {detail}"));
        let mut failure = ClosestFailure::default();
        if !validations.any_of.is_empty()
            && !validations.any_of.iter().any(|id| failure.is_valid_or_failed(run(id)))
        {
            self.causes.push(composite("must validate at least one schema (anyOf)"));
            self.causes.append(&mut failure.causes);
        }
        if !validations.one_of.is_empty() {
            let mut failure = ClosestFailure::default();
            let valid = validations.one_of.iter().filter(|id| failure.is_valid_or_failed(run(id))).count();
            if valid == 0 {
                self.causes
                    .push(composite("must validate one and only one schema (oneOf). Found none valid"));
                self.causes.append(&mut failure.causes);
            } else if valid > 1 {
                let detail = format!(
                    "must validate one and only one schema (oneOf). Found {valid} valid alternatives"
                );
                self.causes.push(composite(&detail));
            }
        }
        let mut failures = 0;
        for id in &validations.all_of {
            let mut causes = run(id).causes;
            failures += usize::from(!causes.is_empty());
            self.causes.append(&mut causes);
        }
        if failures > 0 {
            let none = if failures == validations.all_of.len() { ". None validated" } else { "" };
            self.causes.push(composite(&format!("must validate all the schemas (allOf){none}")));
        }
        if validations.not.as_ref().is_some_and(|id| run(id).causes.is_empty()) {
            self.causes.push(composite("must not validate the schema (not)"));
        }
    }
}

/// What is wrong in the failed branch in which most checks were made, in the first one if several are equal.
#[derive(Default)]
struct ClosestFailure {
    causes: Causes,
    checks: usize,
}

impl ClosestFailure {
    /// Returns whether the branch is valid, and otherwise takes account of its failure.
    fn is_valid_or_failed(&mut self, branch: Validator) -> bool {
        let is_valid = branch.causes.is_empty();
        if !is_valid && (self.causes.is_empty() || branch.checks > self.checks) {
            *self = Self { causes: branch.causes, checks: branch.checks };
        }
        is_valid
    }
}
