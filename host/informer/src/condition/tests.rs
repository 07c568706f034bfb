//! Tests of conditions, and generators of conditions and changes for other tests.

use pilothouse_model::Object;
use proptest::prelude::*;

use super::*;

/// An object of few values, so that random conditions hold now and then. `irregular` selects one of the states that a condition cannot read.
fn object(generation: u8, labels: &[(u8, u8)], phase: Option<u8>, irregular: u8) -> Object {
    let mut pairs: Vec<String> =
        labels.iter().map(|(key, value)| format!(r#""l{key}":"v{value}""#)).collect();
    let mut status = phase.map_or_else(|| "{}".to_owned(), |phase| format!(r#"{{"phase":"v{phase}"}}"#));
    match irregular {
        1 => status = r#"{"phase":"v0","phase":"v1"}"#.to_owned(),
        2 => pairs.push(r#""l9":"v\u0030""#.to_owned()),
        3 => status = r#""v0""#.to_owned(),
        4 => status = r#"{"phase":"v\u0030"}"#.to_owned(),
        5 => status = r#"{"phase":3}"#.to_owned(),
        6 => status = format!(r#"{{"phase":{}1{}}}"#, "[".repeat(200), "]".repeat(200)),
        _ => {}
    }
    let labels = match (irregular, pairs.is_empty()) {
        (7, _) => r#","labels":null"#.to_owned(),
        (_, true) => String::new(),
        _ => format!(r#","labels":{{{}}}"#, pairs.join(",")),
    };
    let (namespace, name) = (generation % 2, generation % 3);
    let text = format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"n{name}","namespace":"v{namespace}","uid":"u","generation":{generation},"resourceVersion":"{}"{labels}}},"status":{status}}}"#,
        u16::from(generation) * 100 + u16::from(irregular)
    );
    Object::from_json(&text).expect(&text)
}

pub(crate) fn any_object() -> impl Strategy<Value = Object> {
    let labels = proptest::collection::btree_map(0..3_u8, 0..3_u8, 0..3);
    let irregular = prop_oneof![3 => Just(0), 1 => 1..8_u8];
    (0..4_u8, labels, proptest::option::of(0..3_u8), irregular).prop_map(
        |(generation, labels, phase, irregular)| {
            object(generation, &labels.into_iter().collect::<Vec<_>>(), phase, irregular)
        },
    )
}

pub(crate) fn any_notification() -> impl Strategy<Value = Notification> {
    (any_object(), any_object(), 0..4_u8).prop_map(|(old, new, kind)| match kind {
        0 => Notification::Added { object: new, initial: false },
        1 => Notification::Deleted { last: new, final_state_unknown: false },
        2 => Notification::Updated { old: new.clone(), new },
        _ => Notification::Updated { old, new },
    })
}

fn any_path() -> impl Strategy<Value = FieldPath> {
    prop_oneof![
        4 => (0..3_u8).prop_map(|key| FieldPath::label(&format!("l{key}")).expect("a short key")),
        1 => Just(&["status", "phase"][..]).prop_map(|names| FieldPath::members(names).expect("a short path")),
        1 => Just(&["status", "more", "nested"][..]).prop_map(|names| FieldPath::members(names).expect("a short path")),
        1 => Just(&["metadata", "namespace"][..]).prop_map(|names| FieldPath::members(names).expect("a short path")),
    ]
}

pub(crate) fn any_condition() -> impl Strategy<Value = Condition> {
    let term = prop_oneof![
        1 => any::<bool>().prop_map(Condition::constant),
        1 => Just(Condition::unknown()),
        4 => (0..3_usize).prop_map(|part| Condition::changed(MetadataPart::ALL[part])),
        2 => (0..4_usize).prop_map(|kind| Condition::event(EventKind::ALL[kind])),
        4 => (any_path(), 0..3_u8).prop_map(|(path, value)| Condition::field_equals(path, format!("v{value}"))),
        2 => any_path().prop_map(Condition::field_exists),
    ];
    term.prop_recursive(4, 12, 3, |inner| {
        prop_oneof![
            1 => inner.clone().prop_map(Condition::negated),
            2 => proptest::collection::vec(inner.clone(), 0..4).prop_map(Condition::all),
            2 => proptest::collection::vec(inner, 0..4).prop_map(Condition::any),
        ]
    })
}

fn added(text: &str) -> Notification {
    Notification::Added { object: Object::from_json(text).expect(text), initial: false }
}

fn pod(metadata: &str, rest: &str) -> Notification {
    added(&format!(r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"a"{metadata}}}{rest}}}"#))
}

fn label(key: &str) -> FieldPath {
    FieldPath::label(key).expect("a short key")
}

fn field(names: &[&str]) -> FieldPath {
    FieldPath::members(names).expect("a short path")
}

#[test]
fn parts_count_as_changed_unless_an_update_leaves_them_the_same() {
    let [first, second] = [1, 2].map(|generation| object(generation, &[(0, 0), (1, 1)], None, 0));
    let update = |old: &Object, new: &Object| Notification::Updated { old: old.clone(), new: new.clone() };
    let generation = Condition::changed(MetadataPart::Generation);
    assert_eq!(generation.evaluate(&update(&first, &second)), ConditionValue::True);
    assert_eq!(generation.evaluate(&update(&first, &first)), ConditionValue::False);
    let labels = Condition::changed(MetadataPart::Labels);
    assert_eq!(
        labels.evaluate(&update(&first, &object(1, &[(1, 1), (0, 0)], None, 0))),
        ConditionValue::True
    );
    assert_eq!(labels.evaluate(&update(&first, &second)), ConditionValue::False);
    for notification in [
        Notification::Added { object: first.clone(), initial: false },
        Notification::Deleted { last: first.clone(), final_state_unknown: true },
    ] {
        for part in MetadataPart::ALL {
            assert_eq!(Condition::changed(part).evaluate(&notification), ConditionValue::True);
        }
    }
    for (notification, kind) in [
        (update(&first, &first), EventKind::Resync),
        (update(&first, &second), EventKind::Updated),
        (Notification::tombstone(first.clone()), EventKind::Deleted),
    ] {
        assert_eq!(Condition::event(kind).evaluate(&notification), ConditionValue::True);
        assert_eq!(Condition::event(EventKind::Added).evaluate(&notification), ConditionValue::False);
    }
}

#[test]
fn a_missing_field_is_an_error_unless_only_its_existence_is_asked_for() {
    let pod = pod(r#","labels":{"app":"web"}"#, r#","spec":{"nodeName":"n","list":[1]}"#);
    for (path, state) in [
        (label("app"), FieldState::Text("web".into())),
        (label("tier"), FieldState::Missing),
        (field(&["spec", "nodeName"]), FieldState::Text("n".into())),
        (field(&["spec", "list"]), FieldState::Other),
        (field(&["spec", "other"]), FieldState::Missing),
        (field(&["spec", "other", "more"]), FieldState::NoParent),
        (field(&["status", "phase"]), FieldState::NoParent),
        (field(&["status"]), FieldState::Missing),
        (field(&["metadata", "labels", "app"]), FieldState::Text("web".into())),
        (field(&["metadata", "labels"]), FieldState::Other),
        (field(&["metadata", "name"]), FieldState::Text("a".into())),
        (field(&["metadata", "namespace"]), FieldState::Missing),
    ] {
        assert_eq!(path.read(pod.object()), state, "{path:?}");
        let [equals, exists] = match &state {
            FieldState::Text(_) => [ConditionValue::False, ConditionValue::True],
            FieldState::Other => [ConditionValue::False, ConditionValue::True],
            FieldState::Missing => [ConditionValue::Error, ConditionValue::False],
            _ => [ConditionValue::Error, ConditionValue::Error],
        };
        assert_eq!(Condition::field_equals(path.clone(), "x").evaluate(&pod), equals, "{path:?}");
        assert_eq!(Condition::field_exists(path.clone()).evaluate(&pod), exists, "{path:?}");
    }
    let web = Condition::field_equals(label("app"), "web");
    assert_eq!(web.evaluate(&pod), ConditionValue::True);
    assert_eq!(web.negated().evaluate(&pod), ConditionValue::False);
}

/// What only a JSON parser reads exactly is unknown, so that the change is delivered and the subscriber decides.
#[test]
fn fields_that_only_a_parser_reads_exactly_are_unknown() {
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let long = "x".repeat(5000);
    let large: String = (0..7000).map(|i| format!(r#""label-{i}":"x","#)).collect();
    let status = field(&["status", "phase"]);
    for (case, notification, path) in [
        ("an escaped label key", pod(r#","labels":{"\u0061pp":"a"}"#, ""), label("app")),
        ("an escaped label value", pod(r#","labels":{"app":"\u0061"}"#, ""), label("app")),
        ("labels that are null", pod(r#","labels":null"#, ""), label("app")),
        ("too many labels", pod(&format!(r#","labels":{{{large}"app":"a"}}"#), ""), label("app")),
        ("an escaped text", pod("", r#","status":{"phase":"\u0061"}"#), status.clone()),
        ("a long text", pod("", &format!(r#","status":{{"phase":"{long}"}}"#)), status.clone()),
        ("a deeply nested value", pod("", &format!(r#","status":{{"phase":{deep}}}"#)), status.clone()),
        ("a member of a text", pod("", r#","status":"x""#), status.clone()),
        ("a member of a list", pod("", r#","status":[{"phase":"x"}]"#), status.clone()),
        ("a large object", pod("", &format!(r#","x":{{{large}"y":"z"}}"#)), status),
    ] {
        for condition in [Condition::field_equals(path.clone(), "a"), Condition::field_exists(path.clone())] {
            assert_eq!(condition.evaluate(&notification), ConditionValue::Unknown, "{case}");
            assert_eq!(condition.negated().evaluate(&notification), ConditionValue::Unknown, "{case}");
        }
    }
}

#[test]
fn an_error_is_ignored_if_another_operand_decides_and_an_unknown_operand_ends_the_evaluation() {
    let notification = pod("", "");
    let [yes, no] = [true, false].map(Condition::constant);
    let error = Condition::field_equals(field(&["spec"]), "x");
    let unknown = Condition::unknown();
    let all =
        |operands: &[&Condition]| Condition::all(operands.iter().copied().cloned()).evaluate(&notification);
    let any =
        |operands: &[&Condition]| Condition::any(operands.iter().copied().cloned()).evaluate(&notification);
    assert_eq!(all(&[&error, &yes]), ConditionValue::Error);
    assert_eq!(all(&[&yes, &error, &no]), ConditionValue::False);
    assert_eq!(all(&[&no, &unknown]), ConditionValue::False);
    assert_eq!(all(&[&unknown, &no]), ConditionValue::Unknown);
    assert_eq!(all(&[&error, &unknown, &no]), ConditionValue::Unknown);
    assert_eq!(any(&[&error, &no]), ConditionValue::Error);
    assert_eq!(any(&[&error, &yes]), ConditionValue::True);
    assert_eq!(any(&[&yes, &unknown]), ConditionValue::True);
    assert_eq!(any(&[&unknown, &yes]), ConditionValue::Unknown);
    assert_eq!((all(&[]), any(&[])), (ConditionValue::True, ConditionValue::False));
}

#[test]
fn a_condition_with_too_many_terms_is_unknown() {
    let terms = |count: usize| (0..count).map(|i| Condition::field_exists(label(&format!("l{i}"))));
    assert_ne!(Condition::any(terms(MAX_TERMS)), Condition::unknown());
    assert_eq!(Condition::any(terms(MAX_TERMS + 1)), Condition::unknown());
    let halves =
        [Condition::any(terms(MAX_TERMS / 2 + 1)), Condition::any(terms(MAX_TERMS / 2 + 1)).negated()];
    assert_eq!(Condition::all(halves), Condition::unknown());
}

#[test]
fn more_fields_than_are_read_of_one_change_are_unknown() {
    let notification = pod(r#","labels":{}"#, "");
    let facts = ChangeFacts::of(&notification);
    for i in 0..facts::MAX_FIELDS {
        let exists = Condition::field_exists(label(&format!("l{i}")));
        assert_eq!(exists.root().evaluate(&facts), ConditionValue::False);
    }
    assert_eq!(Condition::field_exists(label("further")).root().evaluate(&facts), ConditionValue::Unknown);
    assert_eq!(Condition::field_exists(label("l0")).root().evaluate(&facts), ConditionValue::False);
}

#[test]
fn paths_that_are_too_long_or_ambiguous_are_refused() {
    for names in [&[][..], &["a", ""], &["spec", "0"], &["a"; 9]] {
        assert_eq!(FieldPath::members(names), None, "{names:?}");
    }
    assert_eq!(FieldPath::members(&[&"x".repeat(300)]), None);
    assert_eq!(FieldPath::label(&"x".repeat(300)), None);
    let escaped = pod("", r#","a/b":{"c~d":"x"}"#);
    assert_eq!(field(&["a/b", "c~d"]).read(escaped.object()), FieldState::Text("x".into()));
}

proptest! {
    #[test]
    fn a_negated_condition_has_the_opposite_value(condition in any_condition(), change in any_notification()) {
        let expected = match condition.evaluate(&change) {
            ConditionValue::True => ConditionValue::False,
            ConditionValue::False => ConditionValue::True,
            other => other,
        };
        prop_assert_eq!(condition.negated().evaluate(&change), expected);
    }

    #[test]
    fn a_condition_that_is_always_decided_has_no_error(condition in any_condition(), change in any_notification()) {
        let is_decided = matches!(condition.evaluate(&change), ConditionValue::True | ConditionValue::False);
        prop_assert!(is_decided || !condition.is_always_decided());
    }
}
