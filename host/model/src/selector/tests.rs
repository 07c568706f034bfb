//! Parsing, matching and writing selectors.

use std::borrow::Cow;
use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn matches(selector: &str, pairs: &[(&str, &str)]) -> bool {
    let labels = labels(pairs);
    LabelSelector::parse(selector).expect(selector).matches(|key| labels.get(key))
}

#[test]
fn label_operators_compare_presence_and_value() {
    let web = [("app", "web"), ("tier", "3")];
    for (selector, expected) in [
        ("", true),
        ("app=web", true),
        ("app==web", true),
        ("app=db", false),
        ("app!=db", true),
        ("other!=db", true),
        ("app in (db, web)", true),
        ("app notin (db,web)", false),
        ("other notin (db)", true),
        ("app", true),
        ("!app", false),
        ("!other", true),
        ("tier>2", true),
        ("tier<3", false),
        ("app>1", false),
        ("app=web,tier in (3,4),!gone", true),
        ("in in (a)", false),
        ("app=", false),
    ] {
        assert_eq!(matches(selector, &web), expected, "{selector}");
    }
    assert!(matches("app=", &[("app", "")]));
    assert!(matches("app in (,a)", &[("app", "")]));
}

#[test]
fn the_error_for_a_malformed_label_selector_names_the_column_and_the_remedy() {
    for (selector, column, problem) in [
        ("app=web,", 9, "a label key is missing"),
        ("app in web", 8, "a list in parentheses is missing"),
        ("app in (a", 10, "not closed"),
        ("a=b c=d", 5, "is not expected"),
        ("-a=b", 1, "not a label key"),
        ("UP.x/a=b", 1, "not a DNS name"),
        ("a=-b", 3, "not a label value"),
        ("a>x", 3, "not an integer"),
        ("a~b", 1, "not a label key"),
        ("a ~ b", 3, "is no operator"),
        (",", 1, "a label key is missing"),
    ] {
        let error = LabelSelector::parse(selector).expect_err(selector);
        assert_eq!(error.column, column, "{selector}: {error}");
        assert!(error.problem.contains(problem), "{selector}: {error}");
        assert!(error.to_string().contains("write key=value"), "{error}");
    }
}

#[test]
fn a_label_selector_of_a_manifest_is_read() {
    let value = serde_json::json!({
        "matchLabels": {"app": "web"},
        "matchExpressions": [
            {"key": "tier", "operator": "NotIn", "values": ["x", "y"]}, {"key": "gone", "operator": "DoesNotExist"}
        ]
    });
    let selector = LabelSelector::from_json(&value).expect("well formed");
    assert_eq!(selector.to_string(), "app=web,!gone,tier notin (x,y)");
    let bad = serde_json::json!({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["x"]}]});
    assert!(LabelSelector::from_json(&bad).expect_err("bad").to_string().contains("matchExpressions[0]"));
}

#[test]
fn a_field_selector_compares_unescaped_values() {
    let selector = FieldSelector::parse(r"metadata.name=a\,b,status.phase!=Running").expect("well formed");
    let fields = labels(&[("metadata.name", "a,b")]);
    let value = |path: &str| Cow::Owned(fields.get(path).cloned().unwrap_or_default());
    assert!(selector.matches(value));
    assert_eq!(selector.to_string(), r"metadata.name=a\,b,status.phase!=Running");
}

#[test]
fn the_error_for_a_malformed_field_selector_names_the_column() {
    for (selector, column, problem) in [
        ("metadata.name", 1, "no operator"),
        ("a=b,=c", 5, "no path"),
        ("a=b=c", 1, "unescaped"),
        (r"a=\x", 1, "escapes"),
        (r"a=b\", 1, "lone backslash"),
    ] {
        let error = FieldSelector::parse(selector).expect_err(selector);
        assert_eq!(error.column, column, "{error}");
        assert!(error.problem.contains(problem), "{error}");
    }
}

fn requirement() -> impl Strategy<Value = LabelRequirement> {
    let value = "[a-z0-9]{0,3}";
    let operators = prop_oneof![Just(Operator::In), Just(Operator::NotIn)];
    let sets = ("[a-z]{1,3}", operators, proptest::collection::btree_set(value, 1..4))
        .prop_map(|(key, operator, values)| LabelRequirement { key, operator, values });
    let presence = ("[a-z]{1,3}", any::<bool>()).prop_map(|(key, there)| LabelRequirement {
        key,
        operator: if there { Operator::Exists } else { Operator::DoesNotExist },
        values: Default::default(),
    });
    let order =
        ("[a-z]{1,3}", any::<bool>(), any::<i32>()).prop_map(|(key, above, bound)| LabelRequirement {
            key,
            operator: if above { Operator::GreaterThan } else { Operator::LessThan },
            values: [bound.to_string()].into(),
        });
    prop_oneof![sets, presence, order]
}

proptest! {
    #[test]
    fn printed_label_selectors_parse_back(requirements in proptest::collection::vec(requirement(), 0..5)) {
        let selector = LabelSelector::new(requirements);
        prop_assert_eq!(LabelSelector::parse(&selector.to_string()), Ok(selector));
    }

    #[test]
    fn printed_field_selectors_parse_back(
        terms in proptest::collection::vec(("[a-z.]{1,8}", any::<bool>(), "[a-z,=\\\\ !é]{0,6}"), 0..4)
    ) {
        let text: Vec<String> = terms.iter().map(|(path, equal, value)| {
            let value = value.replace('\\', r"\\").replace(',', r"\,").replace('=', r"\=");
            format!("{path}{}{value}", if *equal { "=" } else { "!=" })
        }).collect();
        let selector = FieldSelector::parse(&text.join(",")).expect("well formed");
        prop_assert_eq!(FieldSelector::parse(&selector.to_string()), Ok(selector));
    }

    #[test]
    fn parsing_any_text_does_not_panic(text in "\\PC{0,40}") {
        let _ = LabelSelector::parse(&text);
        let _ = FieldSelector::parse(&text);
    }
}
