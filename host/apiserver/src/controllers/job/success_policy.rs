//! `spec.successPolicy` of a Job, after `success_policy.go` in `k8s.io/kubernetes/pkg/controller/job`.

use serde_json::Value;

use super::super::object::items;
use super::indexes::Indexes;

/// Returns the message of the first rule that the succeeded indexes meet.
pub(super) fn met_rule(policy: &Value, succeeded: &Indexes, completions: i64) -> Option<String> {
    if succeeded.is_empty() {
        return None;
    }
    let mut rules = items(&policy["rules"]).iter();
    let position = rules.position(|rule| {
        let count = rule["succeededCount"].as_i64();
        let Some(text) = rule["succeededIndexes"].as_str() else {
            return count.is_some_and(|count| succeeded.len() >= count);
        };
        let required = Indexes::parse_below(text, completions);
        let overlap = required.overlap(succeeded);
        !required.is_empty() && (overlap == required.len() || count.is_some_and(|count| overlap >= count))
    })?;
    Some(format!("Matched rules at index {position}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rule_is_met_by_its_indexes_by_a_number_of_them_or_by_a_number_of_any() {
        let met = |rules: Value, succeeded: &str| {
            met_rule(&json!({"rules": rules}), &Indexes::parse(succeeded), 10).is_some()
        };
        let leader = json!([{"succeededIndexes": "0,2-3"}]);
        assert!(met(leader.clone(), "0-3") && !met(leader.clone(), "0-2") && !met(leader, ""));
        let some = json!([{"succeededIndexes": "0-4", "succeededCount": 2}]);
        assert!(met(some.clone(), "1,4") && !met(some, "4-9"));
        let any = json!([{"succeededCount": 3}]);
        assert!(met(any.clone(), "1,5-6") && !met(any, "5-6"));
        assert!(!met(json!([{"succeededIndexes": "10-12"}]), "0-9"), "indexes beyond the completions");
        assert_eq!(met_rule(&Value::Null, &Indexes::parse("0-9"), 10), None);
    }

    #[test]
    fn message_names_the_rule() {
        let policy = json!({"rules": [{"succeededIndexes": "7"}, {"succeededCount": 1}]});
        let message = met_rule(&policy, &Indexes::parse("0"), 10);
        assert_eq!(message.as_deref(), Some("Matched rules at index 1"));
    }
}
