//! The evaluation compared with that of the library, its cost limit, and its use of the stack.

use kube_cel::KubeCelExt;
use kube_cel::cel::{Context, Program};
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn sample() -> serde_json::Value {
    json!({
        "n": 3, "f": 1.5, "s": "text", "list": [1, 2, 3], "names": ["b", "a"], "none": null, "yes": true,
        "map": {"a": 1, "b": {"c": "d"}},
    })
}

fn compiled(text: &str) -> Expression {
    Expression::compile(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn evaluate(expression: &Expression, object: serde_json::Value) -> Result<Value, EvaluationError> {
    expression.evaluate(vec![("object", from_json(object))], &|_| None, &mut Budget::full())
}

fn ours(text: &str) -> Result<Value, EvaluationError> {
    evaluate(&compiled(text), sample())
}

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
fn timestamps_are_converted_from_and_to_seconds() {
    for text in [
        "timestamp(1767225600) == timestamp('2026-01-01T00:00:00Z')",
        "timestamp(-1) == timestamp('1969-12-31T23:59:59Z')",
        "int(timestamp('2026-01-01T01:00:00.5+01:00')) == 1767225600",
        "int(timestamp(-62135596800)) == -62135596800 && int(timestamp(253402300799)) == 253402300799",
        "timestamp(timestamp(0)) == timestamp('1970-01-01T00:00:00Z')",
        "timestamp(0) + duration('1h') == timestamp(3600)",
    ] {
        assert_eq!(ours(text).ok(), Some(Value::Bool(true)), "{text}");
    }
    for text in ["timestamp(253402300800)", "timestamp(-62135596801)", "timestamp(1.5)", "timestamp(true)"] {
        assert!(ours(text).is_err(), "{text}");
    }
}

#[test]
fn expressions_have_the_same_value_as_in_the_library() {
    for text in COMMON.iter().copied() {
        assert_eq!(ours(text).ok(), by_library(text), "{text}: {:?}", ours(text));
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

#[test]
fn optional_syntax_has_a_value_only_if_all_its_parts_exist() {
    for text in [
        "object.?n == optional.of(3) && object.?nothing == optional.none()",
        "object.?map.b.c.orValue('') == 'd' && !object.?map.z.c.hasValue() && !object.?nothing.b.c.hasValue()",
        "has(object.?map.a) && !has(object.?map.z) && !has(object.?nothing.z)",
        "object.map[?'a'].orValue(0) == 1 && !object.map[?'z'].hasValue() && object.?map['a'].value() == 1",
        "object.list[?0].value() == 1 && !object.list[?3].hasValue() && !object.list[?-1].hasValue()",
        "object.?list[?1].orValue(0) == 2 && !object.?nothing[?1].hasValue() && !object.?list[9].hasValue()",
        "!object.none.?a.hasValue() && !object.n.?a.hasValue()",
        "[?object.?n, ?object.?nothing, 4] == [3, 4]",
        "{?'a': object.?n, ?'b': object.?nothing, 'c': 1} == {'a': 3, 'c': 1}",
        "object.?n.optMap(v, v + 1).orValue(0) == 4 && !object.?nothing.optMap(v, v + 1).hasValue()",
        "object.?map.optFlatMap(m, m[?'a']).value() == 1 && !object.?map.optFlatMap(m, m[?'z']).hasValue()",
        "object.?n.optMap(v, object.?f.optMap(w, v > w).orValue(false)).value()",
        "!object.n[?0].hasValue() && !object.s[?0].hasValue() && !object.none[?0].hasValue() && object.list[?1.0].value() == 2",
        "object.list.first().value() == 1 && object.list.last() == optional.of(3) && ![].first().hasValue()",
        "[optional.of(1), optional.none()].unwrapOpt() == [1] && optional.unwrap([optional.of(2)]) == [2]",
        "object.yes ? object.?n.hasValue() : object[?'n'].hasValue()",
        "!optional.ofNonZeroValue(0).hasValue() && optional.ofNonZeroValue(1).hasValue()",
    ] {
        assert_eq!(ours(text), Ok(Value::Bool(true)), "{text}");
    }
    for text in [
        "[?object.n]",
        "{?'a': object.n}",
        "object.n.optMap(v, v)",
        "object.list[?'a']",
        "object.list[?1.5]",
        "object.?list.b",
        "[1].unwrapOpt()",
        "object.?nothing.value()",
    ] {
        assert!(ours(text).is_err(), "{text}: {:?}", ours(text));
    }
}

#[test]
fn macros_of_two_variables_bind_position_and_element_or_key_and_value() {
    for text in [
        "object.list.all(i, v, v == i + 1) && object.map.exists(k, v, k == 'a' && v == 1)",
        "object.list.existsOne(i, v, i == 1 && v == 2) && !object.list.exists_one(i, v, v > 1)",
        "object.list.all(i, v, v / (1 - i) > 0 || true)",
        "object.list.exists(i, v, 1 / i > 5 || v == 3)",
        "!object.list.all(i, v, 1 / i > 5)",
        "object.list.transformList(i, v, i * v) == [0, 2, 6]",
        "object.list.transformList(i, v, v > 1, i) == [1, 2]",
        "object.names.transformMap(i, v, v + string(i)) == {0: 'b0', 1: 'a1'}",
        "object.map.transformMap(k, v, k == 'a', v) == {'a': 1}",
        "object.map.transformList(k, v, k) == ['a', 'b']",
        "object.names.transformMapEntry(i, v, {v: i}) == {'b': 0, 'a': 1}",
        "object.names.transformMapEntry(i, v, i > 0, {v: i}) == {'a': 1}",
        "{}.all(k, v, false) && ![].exists(i, v, true) && [].transformMap(i, v, v) == {}",
        "object.list.all(i, v, object.names.exists(j, w, w != '' && i + j >= 0 && v > 0))",
    ] {
        assert_eq!(ours(text), Ok(Value::Bool(true)), "{text}: {:?}", ours(text));
    }
    assert_eq!(ours("['a', 'a'].transformMapEntry(i, v, {v: i})"), Err(EvaluationError::DuplicateKey));
    for text in
        ["object.n.all(i, v, true)", "object.list.all(i, v, v)", "object.list.transformMapEntry(i, v, v)"]
    {
        assert!(ours(text).is_err(), "{text}");
    }
    for text in ["all(i, v, true)", "object.list.all(i, i, true)", "object.list.all(i, v, true, true)"] {
        assert!(ours(text).is_err(), "{text}: no macro");
    }
}

#[test]
fn lists_are_sorted_by_keys_of_one_type() {
    for text in [
        "object.names.sortBy(n, n) == ['a', 'b'] && object.list.sortBy(v, -v) == [3, 2, 1]",
        "[{'a': 2}, {'a': 1, 'b': 1}, {'a': 1}].sortBy(m, m.a) == [{'a': 1, 'b': 1}, {'a': 1}, {'a': 2}]",
        "[].sortBy(x, x) == [] && [b'b', b'a'].sortBy(x, x) == [b'a', b'b'] && [true, false].sortBy(x, x)[1]",
        "['2h', '1m'].sortBy(x, duration(x)) == ['1m', '2h']",
        "b'a' < b'b' && b'b' >= b'ab' && !(b'' > b'')",
    ] {
        assert_eq!(ours(text), Ok(Value::Bool(true)), "{text}: {:?}", ours(text));
    }
    // Enough elements for an algorithm that panics if the order is not total.
    let many: Vec<_> = (0..200).map(|number| format!("'k{}'", number * 7919 % 1000)).collect();
    let many = format!("[{}].sortBy(x, x)", many.join(", "));
    for units in (0..6000).step_by(97) {
        let _ = compiled(&many).evaluate(vec![], &|_| None, &mut Budget::new(units));
    }
    assert_eq!(ours(&format!("{many}.isSorted()")), Ok(Value::Bool(true)));
    let with_nan: Vec<_> = (0..60).map(|number| format!("{}.0", number * 37 % 61)).collect();
    assert!(ours(&format!("[{}, 0.0 / 0.0].sortBy(x, x)", with_nan.join(", "))).is_err());
    for text in
        ["[1, 2.0].sortBy(x, x)", "[[1]].sortBy(x, x)", "object.map.sortBy(x, x)", "[1].sortBy(x, null)"]
    {
        assert!(ours(text).is_err(), "{text}");
    }
}

#[test]
fn macros_of_two_variables_and_of_optionals_stop_at_the_cost_limit() {
    let long = "'0123456789'.replace('', '0123456789').replace('', '0123456789').replace('', '0123456789').split('')";
    for text in [
        format!("{long}.all(i, a, {long}.all(j, b, i >= 0))"),
        format!("{long}.transformList(i, a, {long}).size() == 1"),
        format!("{long}.transformMap(i, a, {long}.sortBy(x, x)).size() == 1"),
        format!("{long}.transformMapEntry(i, a, {{i: {long}}}).size() == 1"),
        format!("{long}.all(i, a, {long}.map(x, optional.of(x)).unwrapOpt() != [])"),
        format!("{long}.all(i, a, optional.of({long}).optMap(l, l.sortBy(x, x)).hasValue())"),
    ] {
        assert_eq!(ours(&text), Err(EvaluationError::Cost), "{text:.100}");
    }
}

#[test]
fn values_are_converted_as_in_cel_go() {
    for text in [
        "string(true) == 'true' && string(object.f) == '1.5' && string(1e6) == '1e+06' && string(b'abc') == 'abc'",
        "string(timestamp('2026-01-02T03:04:05.120Z')) == '2026-01-02T03:04:05.12Z'",
        "string(timestamp('2026-01-02T03:04:05+02:00')) == '2026-01-02T03:04:05+02:00'",
        "string(duration('1h')) == '3600s' && string(duration('-1.5s')) == '-1.5s' && string(duration('1ns')) == '0.000000001s'",
        "bool('True') && !bool('0') && bool(object.yes) && bytes(b'a') == b'a'",
        "duration(duration('1s')) == duration('1s') && int(duration('90s')) == 90000000000",
        "'%s %s'.format([timestamp('2026-01-02T03:04:05Z'), duration('90s')]) == '2026-01-02T03:04:05Z 90s'",
        "'%s %s %.1f %d%% %s'.format([1.0, b'abc', 1.0, 5, true]) == '1 abc 1.0 5% true'",
    ] {
        assert_eq!(ours(text), Ok(Value::Bool(true)), "{text}: {:?}", ours(text));
    }
    for text in ["bool('yes')", "string(b'\\xff')", "bool(1)", "string(null)"] {
        assert!(ours(text).is_err(), "{text}: {:?}", ours(text));
    }
}

#[test]
fn types_are_values() {
    for text in [
        "type(object.n) == int && type(object.s) == string && type(object.f) == double && type(1u) == uint",
        "type(object.list) == list && type(object.map) == map && type(object.none) == null_type && type(b'') == bytes",
        "type(object.yes) == bool && type(type(1)) == type && type(object.n) != type(object.s)",
        "type(duration('1s')) == google.protobuf.Duration && type(timestamp('2026-01-01T00:00:00Z')) == google.protobuf.Timestamp",
        "type(ip('10.0.0.1')) == net.IP && type(quantity('1')) == kubernetes.Quantity && type(cidr('10.0.0.0/8')) == net.CIDR",
        "type(url('http://a')) == kubernetes.URL && type(semver('1.0.0')) == kubernetes.Semver",
        "type(format.uuid()) == kubernetes.NamedFormat && type(optional.none()) == optional_type",
        "dyn(1.0) in {1: 'a'} && {1: 'a'}[dyn(1.0)] == 'a' && !(dyn(1.5) in {1: 'a'}) && !([1] in {1: 'a'})",
        "dyn(object.n) == 3 && dyn(object.n) != 'x' && [dyn(1), dyn('a')].size() == 2",
        "[1, 'a'].map(x, type(x)) == [int, string]",
    ] {
        assert_eq!(ours(text), Ok(Value::Bool(true)), "{text}: {:?}", ours(text));
    }
    assert!(ours("net.nothing == 1").is_err());
}

fn nested_all(levels: usize) -> String {
    let head: String = (0..levels).map(|level| format!("[1,2,3,4,5,6,7,8,9,0].all(x{level},")).collect();
    head + "true" + &")".repeat(levels)
}

#[test]
fn an_evaluation_stops_at_its_cost_limit() {
    let doubled = |start: &str, step: &str| start.to_owned() + &step.repeat(28);
    let long = "'0123456789'.replace('', '0123456789').replace('', '0123456789').replace('', '0123456789')";
    for text in [
        nested_all(9),
        doubled("['0123456789']", ".map(x, x + x)"),
        doubled("[[1]]", ".map(x, x + x)"),
        doubled("[1]", ".map(x, [x, x])")
            + " == 1 || "
            + &doubled("[1]", ".map(x, [x, x])")
            + ".flatten(99) == 1",
        doubled("[1]", ".map(x, [x, x])") + " == " + &doubled("[1]", ".map(x, [x, x])"),
        doubled("'01234567890123456789'", ".replace('', 'abcdefgh')"),
        "'a'".to_owned() + &".split('').join('aaaaaaaa')".repeat(14) + " == ''",
        doubled("'0123456789'", ".replace('', '0123456789')") + ".split('') == []",
        format!("{long}.indexOf({long}) == 1"),
        format!("{long}.lastIndexOf({long} + 'x') == 1"),
        format!("{long}.matches('(a|b|ab)*c\\\\w+')"),
        format!("{long}.split('').distinct() == []"),
        format!("{long}.split('').map(x, {long}.split('')) == []"),
        format!("{long}.split('').map(x, '{}').size() == 1", "literal".repeat(200)),
        format!("{long}.split('').all(x, {long}.contains(x))"),
        format!("{long}.split('').all(x, '%s%s'.format([{long}, {long}]) != x)"),
        format!("{long}.split('').all(x, b'a' + bytes({long}) != b'')"),
        format!("{long}.split('').all(x, !x.matches('z' + x))"),
        format!("[optional.of({long})].all(o, {long}.split('').all(x, o.or(1) == o))"),
        format!("[optional.of({long})].all(o, {long}.split('').all(x, o == o))"),
        format!("sets.intersects({long}.split(''), {long}.split('').map(x, x + x + 'a'))"),
        format!("{long}.split('').all(x, base64.encode(bytes({long})) != x)"),
        format!("[{long}].all(long, long.split('').all(x, !(long in {{'a': 1}})))"),
        format!("[{long}].all(long, long.split('').all(x, {{long: 1}}.size() == 1))"),
        format!("[{{{long}: 1}}].all(m, {long}.split('').all(x, m == m))"),
    ] {
        assert_eq!(ours(&text), Err(EvaluationError::Cost), "{text:.100}");
    }
}

/// Returns the units that an evaluation costs.
fn cost(text: &str, object: &serde_json::Value) -> u64 {
    let mut budget = Budget::full();
    let variables = vec![("object", from_json(object.clone()))];
    compiled(text)
        .evaluate(variables, &|_| None, &mut budget)
        .unwrap_or_else(|error| panic!("{text:.100}: {error}"));
    COST_LIMIT - budget.left()
}

/// A map hashes a key for each access, and a macro over a map sorts its keys before the first element.
#[test]
fn sorting_and_hashing_keys_of_maps_is_a_part_of_the_cost() {
    let many: serde_json::Map<String, serde_json::Value> =
        (0..1000).map(|number| (format!("key-{number}"), json!(1))).collect();
    let found = cost("object.exists(key, true)", &json!(many));
    assert!(found >= 1000 * 10 / 2, "a thousand keys are sorted in ten rounds: {found}");
    let long = "x".repeat(100_000);
    let object = json!({"long": long.as_str(), "map": {"a": 1, (long.as_str()): 2}});
    for text in [
        "object.long in object.map",
        "object.map[object.long] == 2",
        "{object.long: 1}.size() == 1",
        "object.map == object.map",
    ] {
        assert!(cost(text, &object) >= 10_000, "{text}: {}", cost(text, &object));
    }
    let found = cost("object.map.exists(key, key == 'a')", &object);
    assert!((2000..3000).contains(&found), "{found}");
    let field = format!("has(object.{})", "f".repeat(8000));
    assert!(cost(&field, &object) >= 800);
}

/// With this pattern, each search reads the rest of the text and finds its first character.
#[test]
fn each_search_of_find_all_is_a_part_of_the_cost() {
    let find_all = |length: usize, limit: &str| {
        let text = format!("object.s.findAll('[A-Z]*[a-z]|[A-Z]'{limit}).size() > 0");
        evaluate(&compiled(&text), json!({"s": "A".repeat(length)}))
    };
    assert_eq!(find_all(10_000, ""), Err(EvaluationError::Cost));
    assert_eq!(find_all(10_000, ", 1000"), Err(EvaluationError::Cost));
    assert_eq!(find_all(10_000, ", 10"), Ok(Value::Bool(true)));
    assert_eq!(find_all(300, ""), Ok(Value::Bool(true)));
}

#[test]
fn logical_operators_do_not_ignore_an_exceeded_cost_limit() {
    let cost = nested_all(9);
    for text in [
        format!("{cost} || true"),
        format!("true && ({cost} || true)"),
        format!("[1].all(x, {cost} || true)"),
        format!("[1].exists(x, !({cost}) || true)"),
        format!("{cost} ? true : false"),
    ] {
        assert_eq!(ours(&text), Err(EvaluationError::Cost), "{text:.60}");
    }
}

#[test]
fn calls_with_unbounded_cost_or_a_panic_in_the_library_are_refused() {
    for text in [
        "'%.70000f'.format([1.0])",
        "'%.999999999e'.format([1.0])",
        "[{'a': 1}].join(',')",
        "['a', 'b'].sum()",
        "object.s.matches(object.s + '(')",
        "url('http://' + 'aaaaaaaa'.replace('', '0123456789').replace('', '0123456789').replace('', '0123456789')) == null",
    ] {
        assert!(
            matches!(ours(text), Err(EvaluationError::Function(_) | EvaluationError::Pattern(_))),
            "{text}: {:?}",
            ours(text)
        );
    }
    for text in ["Foo{a: 1} == 1", "lists.range(1000000000).size() > 1", "object.gone(1)", "gone == 1"] {
        assert!(ours(text).is_err(), "{text}");
    }
    for text in ["'a'.matches('(\\\\w{100}){100}')", "'a'.matches('(')"] {
        assert_eq!(
            Expression::compile(text).err(),
            Some(CompileError::Pattern("matches".to_owned())),
            "{text}"
        );
    }
}

#[test]
fn the_patterns_of_an_expression_are_bounded_together() {
    let patterns = |count: usize| {
        let matches: Vec<_> = (0..count).map(|number| format!("'a'.matches('a{number}')")).collect();
        Expression::compile(&matches.join(" || "))
    };
    assert!(patterns(64).is_ok_and(|expression| expression.patterns_size() == MAX_PATTERNS_SIZE));
    assert_eq!(patterns(65).err(), Some(CompileError::Patterns));
    let same = vec!["'a'.matches('a')"; 100].join(" || ");
    assert!(Expression::compile(&same).is_ok(), "equal patterns are compiled once");
}

/// The variable of a macro is no namespace, and a namespace is no variable.
#[test]
fn functions_of_namespaces_are_known() {
    let unknown = |text: &str| {
        let expression = compiled(text);
        syntax::first_unknown(expression.root(), &mut vec!["object"]).map(str::to_owned)
    };
    assert_eq!(unknown("sets.contains(object.list, [1]) && math.abs(-1) == 1"), None);
    assert_eq!(unknown("sets.size() == 1"), Some("sets".to_owned()));
    assert_eq!(unknown("lists.range(3).size() == 3"), Some("lists".to_owned()));
    assert_eq!(unknown("sets.contains(subject, [1])"), Some("subject".to_owned()));
}

/// Typical predicates stay far below the limit: this one costs a few hundred units for each of a thousand elements.
#[test]
fn a_predicate_over_a_large_object_is_within_the_limit() {
    let items: Vec<_> =
        (0..1000).map(|number| json!({"name": format!("item-{number}"), "ready": true})).collect();
    let text = "object.items.all(i, i.ready && i.name.matches('^item-[0-9]+$') && i.name.startsWith('item')) && \
                object.items.filter(i, i.name.endsWith('7')).map(i, i.name + '!').size() == 100";
    assert_eq!(evaluate(&compiled(text), json!({"items": items})), Ok(Value::Bool(true)));
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
        prop_assert_eq!(ours(&text).ok().as_ref().map(unordered), by_library(&text).as_ref().map(unordered));
    }

    /// Neither the parser nor the evaluation overflows a small stack.
    #[test]
    fn random_tokens_within_the_bounds_do_not_overflow_the_stack(
        tokens in prop::collection::vec(prop::sample::select(vec![
            "(", "[", "{", "!", "!!", "-", "--", "a", ".a", ".f(", "size(", "?", ":", ",", "+", "==", "&&", "||", ")", "]", "}", "1",
            "'s'", " in ", "object", ".all(x,", "{1:", "x", "a?", "a.b{", "1+(", "true?", ").a",
            ".?a", "[?", "{?", ",?", ".all(i,v,", ".optMap(x,", ".sortBy(x,", ".transformMap(k,v,",
        ]), 0..400),
        repeat in 1..20_usize,
    ) {
        let mut text = String::new();
        for token in tokens.iter().cycle().take(tokens.len() * repeat) {
            let longer = format!("{text}{token}");
            if bounds::check(&longer).is_err() {
                break;
            }
            text = longer;
        }
        let thread = std::thread::Builder::new().stack_size(512 << 10).spawn(move || {
            if let Ok(compiled) = Expression::compile(&text) {
                drop(evaluate(&compiled, sample()));
            }
        });
        prop_assert!(thread.expect("a thread").join().is_ok());
    }
}

/// Each kind of nesting, as deep as the bounds allow.
#[test]
fn the_deepest_expressions_fit_on_a_small_stack() {
    let nested = |open: &str, inner: &str, close: &str| -> String {
        (0..200).fold(inner.to_owned(), |text, _| {
            let deeper = format!("{open}{text}{close}");
            if bounds::check(&deeper).is_ok() { deeper } else { text }
        })
    };
    let all = [
        nested("(", "true", ")"),
        nested("!(", "true", ")"),
        nested("!!(", "true", ")"),
        nested("[", "1", "]"),
        nested("{1:", "1", "}"),
        nested("[1].all(x,", "true", ")"),
        nested("[1].map(x, true, ", "1", ")"),
        nested("[1].all(i, x, ", "true", ")"),
        nested("[1].transformList(i, x, true, ", "1", ")"),
        nested("[1].transformMapEntry(i, x, {1: ", "1", "})"),
        nested("optional.of(1).optMap(x, ", "1", ")"),
        nested("optional.of(1).optFlatMap(x, ", "optional.of(1)", ")"),
        nested("[1].sortBy(x, ", "1", ")"),
        nested("[?", "optional.of(1)", "].first()"),
        nested("", "object", ".?a"),
        nested("", "object.?list", "[?0]"),
        nested("true?(", "true", "):false"),
        nested("", "object", ".a"),
        nested("", "1", "+1"),
        nested("1-", "1", ""),
        nested("", "object", "[0]"),
        nested("", "'a'", ".trim()"),
        nested("true ? true : ", "true", ""),
        nested("!", "true", ""),
        nested("1+1+1+1+(", "1", ")"),
        nested("", "[1]", ".map(x, [x])"),
        nested("(", "1", "+1)+1"),
        nested("(", "object", ".a).a"),
        nested("[1].map(x, 1+", "1", "+1)"),
    ];
    let thread = std::thread::Builder::new().stack_size(512 << 10).spawn(move || {
        for text in all {
            let _ = evaluate(&compiled(&text), sample());
        }
    });
    assert!(thread.expect("a thread").join().is_ok());
}

/// Doubles a number; refuses other values.
struct Double;

impl crate::HostFunctions for Double {
    fn call(
        &self,
        name: &str,
        arguments: &[Value],
        budget: &mut Budget,
    ) -> Option<Result<Value, EvaluationError>> {
        match (name, arguments) {
            ("double", [Value::Int(number)]) => Some(budget.charge(100).map(|()| Value::Int(number * 2))),
            ("double", [_]) => Some(Err(EvaluationError::Function(name.to_owned()))),
            _ => None,
        }
    }
}

#[test]
fn host_functions_take_arguments_and_are_charged() {
    let evaluate =
        |text: &str, units: u64| compiled(text).evaluate_with(Vec::new(), &Double, &mut Budget::new(units));
    assert_eq!(evaluate("[1, 2].map(n, double(n)) == [2, 4]", 1000), Ok(Value::Bool(true)));
    assert_eq!(evaluate("double('a')", 1000), Err(EvaluationError::Function("double".to_owned())));
    assert_eq!(evaluate("double(1)", 50), Err(EvaluationError::Cost));
    assert_eq!(evaluate("size('abc')", 1000), Ok(Value::Int(3)), "the library is still there");
    assert!(evaluate("triple(1)", 1000).is_err());
}
