//! The evaluation compared with that of the library, and where it differs on purpose.

use kube_cel::KubeCelExt;
use kube_cel::cel::{Context, Program};
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn by_library(text: &str) -> Option<Value> {
    let root = Context::default().with_all();
    let mut context = root.new_inner_scope();
    context.add_variable_from_value("object", from_json(sample()));
    Program::compile(text).expect(text).execute(&context).ok()
}

/// Expressions that this interpreter and the library evaluate alike. Where the library gives no value, neither does this one.
const COMMON: &[&str] = &[
    "object.n + 1 - 2 * 3 / 2 % 4",
    "-object.n < 0 && -object.f < 0.0 && -1 != 1",
    "object.f * 2.0 + 1.0 >= 4.0",
    "object.s + '!' == 'text!' && b'a' + b'b' == b'ab'",
    "object.list + [4]",
    "object.list[0] == 1 && object.map['a'] == 1 && object['s'] == 'text'",
    "object.list[5] == 1",
    "object.list[-1] == 1",
    "object.map['z'] == 1",
    "object.nothing == 1",
    "object.nothing == 1 || true",
    "true || object.nothing == 1",
    "object.nothing == 1 && false",
    "false && object.nothing",
    "object.nothing == 1 || object.nothing == 2",
    "object.n || true",
    "true || object.n",
    "object.n.deep == false && !has(object.n.deep)",
    "has(object.map.b.c) && !has(object.map.z)",
    "object.none == null",
    "object.yes ? object.n : object.nothing",
    "object.n ? 1 : 2",
    "!object.n",
    "2 in object.list && 'a' in object.map && !('z' in object.map) && !(9 in object.list)",
    "1 in object.n",
    "object.list.all(i, i > 0) && object.list.exists(i, i == 2) && object.list.exists_one(i, i == 2)",
    "object.list.map(i, i * 2)",
    "object.list.map(i, i > 1, i * 2)",
    "object.list.filter(i, i != 2)",
    "object.list.map(i, object.names.map(n, n + string(i)))",
    "object.map.all(k, k == 'a' || k == 'b')",
    "object.n.all(i, i > 0)",
    "object.list.all(i, object.nothing == i)",
    "[object.n, 'x', [1], {'a': 1, 2: 'b', true: null}]",
    "{[1]: 2}",
    "size(object.list) + object.s.size() + size(object.map)",
    "size(object.n)",
    "object.s.startsWith('te') && object.s.endsWith('xt') && object.s.contains('ex')",
    "startsWith(object.s, 'te') && contains(object.s, 'x')",
    "object.s.startsWith(1)",
    "object.s.matches('^t.*t$') && matches(object.s, 'ex') && !object.s.matches('^x')",
    "object.s.find('[a-f]') == 'e' && object.s.findAll('t', 1) == ['t']",
    "object.s.findAll('t')",
    "object.s.upperAscii().lowerAscii().replace('t', 'tt').split('e')",
    "object.names.join('-') + object.s.substring(1, 2) + object.s.charAt(0)",
    "object.names.sort()",
    "object.list.sum() == 6 && object.list.isSorted() && object.list.max() == 3",
    "object.s.indexOf('x') == 2 && object.names.indexOf('a') == 1",
    "'%s is %d'.format([object.s, object.n])",
    "quantity('1Gi').isGreaterThan(quantity('1Mi')) && isQuantity('1k')",
    "duration('1h') > duration('1m') && timestamp('2026-01-01T00:00:00Z') < timestamp('2026-01-02T00:00:00Z')",
    "timestamp('2026-01-01T00:00:00Z') + duration('1h') - timestamp('2026-01-01T00:00:00Z')",
    "timestamp('2026-01-01T00:00:00Z').getFullYear() == 2026",
    "string(object.n) + string(object.f) == '31.5' && int('3') == object.n && double('1.5') == object.f",
    "int('x')",
    "9223372036854775807 + 1",
    "1 / 0",
    "1 % 0",
    "-9223372036854775808 / -1",
    "1 + 'a'",
    "'a' < 1",
    "null < null",
    "[1] < [2]",
    "[1, [2]] == [1, [2]] && {'a': [1]} == {'a': [1]} && [1] != [2] && {'a': 1} != {'b': 1}",
    "1 < 2.5 && 2u > 1 && 1.5 <= 2u",
    "sets.contains(object.names, ['a']) && !sets.contains(object.names, ['a', 'z'])",
    "sets.intersects(object.names, ['z', 'a']) && !sets.intersects(object.names, ['z'])",
    "sets.equivalent(object.names, ['a', 'b', 'a']) && !sets.equivalent(object.names, ['a'])",
    "sets.contains(object.names, 'a')",
    "math.greatest(1, 3) == 3 && math.abs(-2) == 2",
    "base64.encode(b'abc') == 'YWJj' && base64.decode('YWJj') == b'abc'",
    "jsonpatch.escapeKey('a/b~c') == 'a~1b~0c'",
    "optional.of(object.n).orValue(0) + optional.none().orValue(1)",
    "optional.of(object.n).hasValue() && !optional.none().hasValue()",
    "optional.none().or(optional.of(4)).value() == 4",
    "optional.none().value() == 4",
    "object.n.hasValue()",
];

#[test]
fn expressions_have_the_same_value_as_in_the_library() {
    for text in COMMON.iter().copied() {
        let ours = ours_as_library(text);
        assert_eq!(ours.clone().ok(), by_library(text), "{text}: {ours:?}");
    }
}

/// The library reads every whole number of an object as a uint, which never equals an int.
#[test]
fn whole_numbers_of_objects_are_ints_and_equal_to_numbers_of_other_types() {
    for text in [
        "object.n == 3",
        "3 in object.list",
        "object.n + 1 == 4",
        "object.list == [1, 2, 3]",
        "1 == 1.0",
        "1u == 1",
    ] {
        assert_eq!(ours(text), Ok(Value::Bool(true)), "{text}");
    }
}

/// The library counts bytes.
#[test]
fn the_size_of_a_text_is_the_number_of_its_code_points() {
    for text in ["'äöüß!'.size() == 5", "size('日本') == 2", "''.size() == 0", "b'abc'.size() == 3"] {
        assert_eq!(ours(text), Ok(Value::Bool(true)), "{text}");
    }
    let long = json!("x".repeat(100_000));
    assert!(cost("object.size() == 100000", &long) >= 10_000, "counting reads the text");
}

/// To the library, no optional equals another one.
#[test]
fn optionals_are_equal_if_their_values_are() {
    for text in [
        "optional.of(object.n) == optional.of(3)",
        "optional.of(1) != optional.of(2)",
        "optional.of(1) != optional.none()",
        "optional.none() == optional.none()",
    ] {
        assert_eq!(ours(text), Ok(Value::Bool(true)), "{text}");
    }
}

/// A text that is equal for values that differ only in the order of their elements, because the library iterates over maps in the order of
/// their hashes.
fn unordered(value: &Value) -> String {
    let mut parts: Vec<String> = match value {
        Value::List(list) => list.iter().map(unordered).collect(),
        Value::Map(map) => {
            map.map.iter().map(|(key, value)| format!("{key:?}: {}", unordered(value))).collect()
        }
        other => return format!("{other:?}"),
    };
    parts.sort();
    format!("{:?} of {}", value.type_of(), parts.join(", "))
}

/// The result, cost and error of an evaluation do not depend on hashes.
#[test]
fn macros_iterate_over_maps_in_the_order_of_their_keys() {
    let keys: Vec<String> = (0..20).map(|number| format!("'k{number:02}'")).collect();
    let map = keys.iter().rev().map(|key| format!("{key}: 1")).collect::<Vec<_>>().join(", ");
    assert_eq!(ours(&format!("{{{map}}}.map(key, key)")), ours(&format!("[{}]", keys.join(", "))));
}

fn value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        (-5..5_i64).prop_map(|number| number.to_string()),
        "[ab]{0,2}".prop_map(|text| format!("'{text}'")),
        Just("true".to_owned()),
        Just("false".to_owned()),
        Just("null".to_owned()),
        Just("object.n".to_owned()),
        Just("object.s".to_owned()),
        Just("object.list".to_owned()),
        Just("object.map".to_owned()),
        Just("object.gone".to_owned()),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        let operator = prop::sample::select(vec![
            "+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=", "in", "&&", "||",
        ]);
        let function = prop::sample::select(vec![
            "size()",
            "startsWith('a')",
            "contains('a')",
            "matches('a+')",
            "upperAscii()",
            "split('a')",
            "sum()",
            "max()",
            "indexOf('a')",
            "replace('a', 'b')",
            "join()",
            "a",
            "all(x, x == 1)",
            "map(x, [x])",
            "filter(x, x != 1)",
            "exists(x, x)",
            "exists_one(x, x == 2)",
        ]);
        prop_oneof![
            (inner.clone(), operator, inner.clone())
                .prop_map(|(left, operator, right)| format!("({left} {operator} {right})")),
            (inner.clone(), function).prop_map(|(target, function)| format!("({target}).{function}")),
            (inner.clone(), inner.clone(), inner.clone()).prop_map(|(a, b, c)| format!("({a} ? {b} : {c})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a})[{b}]")),
            prop::collection::vec(inner.clone(), 0..3).prop_map(|items| format!("[{}]", items.join(", "))),
            inner.prop_map(|inner| format!("!({inner})")),
        ]
    })
}

proptest! {
    #[test]
    fn random_expressions_have_the_same_value_as_in_the_library(text in value()) {
        // The library also sums texts, and joins elements that are not texts.
        prop_assume!(!text.contains("sum()") && !text.contains("join()"));
        // The library also adds the keys of a map to a list, for which CEL has no operator.
        prop_assume!(!(text.contains(" + ") && text.contains("object.map")));
        prop_assume!(bounds::check(&text).is_ok());
        let ours = ours_as_library(&text);
        prop_assert_eq!(ours.ok().as_ref().map(unordered), by_library(&text).as_ref().map(unordered));
    }
}
