//! What Kubernetes adds to the library: optionals, further macros, conversions as in cel-go, and functions of the host.

use super::*;

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
        let _ = compiled(&many).evaluate(vec![], &mut Budget::new(units));
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
