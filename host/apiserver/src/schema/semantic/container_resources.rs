//! The resources that containers and Pods request.

use serde_json::Value;

use super::{NOT_NEGATIVE, entries, quantity, quota};
use crate::schema::field;
use crate::status::Causes;

const HUGE_PAGES: &str = "hugepages-";
const ONE: i128 = 1_000_000_000;

/// Checks the limits and requests at `path`, whose names `validate_name` checks.
pub(super) fn validate(
    resources: &Value,
    path: &str,
    validate_name: fn(&str, &str, &mut Causes),
    causes: &mut Causes,
) {
    let (mut has_basic, mut has_huge_pages) = (false, false);
    let (limits, at_limits) = (&resources["limits"], field::child(path, "limits"));
    for list in ["limits", "requests"] {
        let at_list = field::child(path, list);
        for (name, amount) in entries(resources.get(list)) {
            let at = field::key(&at_list, name);
            validate_name(name, &at, causes);
            validate_amount(name, amount, &at, causes);
            if list == "requests" {
                match limits.get(name) {
                    Some(limit) => compare_with_limit(name, amount, limit, &at_list, causes),
                    None if !is_overcommitable(name) => {
                        let detail = "Limit must be set for non overcommitable resources";
                        causes.push(field::required(&at_limits, detail));
                    }
                    None => {}
                }
            }
            if let Some(size) = name.strip_prefix(HUGE_PAGES) {
                has_huge_pages = true;
                validate_pages(amount, size, &at, causes);
            }
            has_basic |= ["cpu", "memory"].contains(&name.as_str());
        }
    }
    if has_huge_pages && !has_basic {
        causes.push(field::forbidden(path, "HugePages require cpu or memory"));
    }
}

/// Checks the amount of a resource.
fn validate_amount(name: &str, amount: &Value, at: &str, causes: &mut Causes) {
    let nanos = quantity::nanos(amount).unwrap_or(0);
    if nanos < 0 {
        causes.push(field::invalid(at, amount, NOT_NEGATIVE));
    }
    if quota::is_integer(name) && nanos % ONE != 0 {
        causes.push(field::invalid(at, amount, "must be an integer"));
    }
}

fn compare_with_limit(name: &str, amount: &Value, limit: &Value, at: &str, causes: &mut Causes) {
    let (requested, allowed) = (quantity::nanos(amount), quantity::nanos(limit));
    let relation = if requested != allowed && !is_overcommitable(name) {
        "equal to"
    } else if requested > allowed {
        "less than or equal to"
    } else {
        return;
    };
    let limit = quantity::canonical(limit).unwrap_or_default();
    causes.push(field::invalid(at, amount, &format!("must be {relation} {name} limit of {limit}")));
}

/// Whether the containers of a Node may request less than they use at most.
pub(super) fn is_overcommitable(name: &str) -> bool {
    (!name.contains('/') || name.contains("kubernetes.io/")) && !name.starts_with(HUGE_PAGES)
}

/// Checks that an amount consists of whole pages.
fn validate_pages(amount: &Value, size: &str, at: &str, causes: &mut Causes) {
    let units = |nanos: i128| nanos / ONE;
    let page = quantity::nanos(&size.into()).filter(|nanos| *nanos > 0 && nanos % ONE == 0).map(units);
    let amount_units = quantity::nanos(amount).map_or(0, |nanos| units(nanos.saturating_add(ONE - 1)));
    if page.is_none_or(|page| amount_units % page != 0) {
        let shown = quantity::canonical(amount).unwrap_or_default();
        let detail = format!("{shown} is not positive integer multiple of {HUGE_PAGES}{size}");
        causes.push(field::invalid(at, amount, &detail));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn problems(limits: &Value, requests: &Value) -> Vec<String> {
        let mut causes = Causes::default();
        let resources = json!({"limits": limits, "requests": requests});
        validate(&resources, "r", quota::validate_container_resource, &mut causes);
        causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
    }

    #[test]
    fn names_and_amounts_are_checked() {
        assert_eq!(problems(&json!({"cpu": "1", "example.com/gpu": 1}), &json!({"cpu": "500m"})), [""; 0]);
        let unknown = [
            "r.requests[foo]: Invalid value: \"foo\": must be a standard resource type or fully qualified",
            "r.requests[foo]: Invalid value: \"foo\": must be a standard resource for containers",
        ];
        assert_eq!(problems(&Value::Null, &json!({"foo": "1"})), unknown);
        let negative = ["r.limits[cpu]: Invalid value: \"-1\": must be greater than or equal to 0"];
        assert_eq!(problems(&json!({"cpu": "-1"}), &Value::Null), negative);
        let fraction = ["r.limits[example.com/gpu]: Invalid value: \"500m\": must be an integer"];
        assert_eq!(problems(&json!({"example.com/gpu": "500m"}), &Value::Null), fraction);
    }

    #[test]
    fn extended_resources_are_not_overcommitted() {
        assert_eq!(
            problems(&Value::Null, &json!({"example.com/gpu": "1"})),
            ["r.limits: Required value: Limit must be set for non overcommitable resources"]
        );
        assert_eq!(
            problems(&json!({"example.com/gpu": "2"}), &json!({"example.com/gpu": "1"})),
            ["r.requests: Invalid value: \"1\": must be equal to example.com/gpu limit of 2"]
        );
        assert_eq!(
            problems(&json!({"cpu": "1"}), &json!({"cpu": "2"})),
            ["r.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1"]
        );
    }

    #[test]
    fn huge_pages_are_whole_pages_beside_other_resources() {
        let pages = |amount: &str| json!({"hugepages-2Mi": amount, "cpu": "1"});
        assert_eq!(problems(&pages("4Mi"), &Value::Null), [""; 0]);
        assert_eq!(
            problems(&pages("3Mi"), &Value::Null),
            [
                "r.limits[hugepages-2Mi]: Invalid value: \"3Mi\": 3Mi is not positive integer multiple of hugepages-2Mi"
            ]
        );
        assert_eq!(
            problems(&json!({"hugepages-2Mi": "2Mi"}), &Value::Null),
            ["r: Forbidden: HugePages require cpu or memory"]
        );
        assert_eq!(problems(&json!({"hugepages-0": "2Mi", "cpu": "1"}), &Value::Null).len(), 1);
    }
}
