use super::*;

/// An object with a few members; that with the id 1 is its member `inner`.
struct Example;

impl Objects for Example {
    fn member(&self, id: usize, name: &str) -> Option<Type> {
        Some(match (id, name) {
            (0, "name") => Type::String,
            (0, "count") => Type::Int,
            (0, "ratio") => Type::Double,
            (0, "tags") => Type::list(Type::String),
            (0, "labels") => Type::map(Type::String, Type::String),
            (0, "anything") => Type::Dyn,
            (0, "at") => Type::Timestamp,
            (0, "inner" | "optional") | (1, "again") => Type::Object { id: 1, name: "selfType.inner".into() },
            (0, "items") => Type::list(Type::Object { id: 1, name: "selfType.inner".into() }),
            (1, "port") => Type::Int,
            _ => return None,
        })
    }
}

fn check_text(text: &str) -> Result<Option<Type>, String> {
    let expression = Expression::compile(text).expect("an expression");
    let this = Type::Object { id: 0, name: "selfType".into() };
    check(&expression, text, &[("self", this.clone()), ("oldSelf", this)], &Example)
}

/// Returns position and text of each error, without the lines.
fn errors(text: &str) -> Vec<String> {
    let report = check_text(text).expect_err(text);
    let errors = report.lines().filter_map(|line| line.strip_prefix("ERROR: <input>:"));
    errors.map(str::to_owned).collect()
}

#[test]
fn rules_of_real_crds_have_the_type_bool() {
    for rule in [
        "self.name == 'x' && self.count > 1",
        "self.count < 2.5 || 1u < self.count",
        "size(self.tags) == self.tags.size()",
        "self.tags.all(tag, tag.startsWith('a') && tag in ['a', 'b'])",
        "self.tags.exists_one(tag, tag == self.name)",
        "self.tags.map(tag, size(tag)).sum() > 3",
        "self.tags.map(tag, tag != '', tag + 'x').filter(tag, tag.matches('^x')).size() == 0",
        "self.labels.all(key, self.labels[key] != '')",
        "'a' in self.labels && has(self.labels.a) && self.labels.a == 'b'",
        "!has(self.inner) || self.inner.port in [1, 2, 3]",
        "self.inner == null || self.inner == oldSelf.inner",
        "self.items.exists(a, self.items.exists(b, a == b))",
        "type(self.anything) == int ? self.anything > 1 : self.anything.matches('x')",
        "self.anything.a.b[0] == 'x'",
        "type(self.at) == google.protobuf.Timestamp",
        "self.at < timestamp('2024-01-01T00:00:00Z') + duration('1h')",
        "self.at.getFullYear() == 2024 && duration('1h').getHours() == 1",
        "quantity('1Gi').isGreaterThan(quantity('1Mi')) && sign(quantity('1').add(2)) == 1",
        "isURL(self.name) && url(self.name).getHost() == 'x'",
        "ip(self.name).family() == 4 && ip.isCanonical(self.name) && cidr('10.0.0.0/8').containsIP(self.name)",
        "format.dns1123Label().validate(self.name).hasValue()",
        "!format.named('uuid').hasValue() || semver('1.0.0').isLessThan(semver('2.0.0'))",
        "sets.intersects(self.tags, ['a']) && self.tags.isSorted()",
        "'%s-%d'.format([self.name, self.count]) == 'a-1'",
        "'%s'.format([[1, 'a']]) == 'a'",
        "string(self.count) + self.name == 'x' && int('1') == 1 && double(1) == 1.0",
        "[1, 2].map(x, [x]).flatten() == [1, 2] && {}.size() == 0 && [] == []",
        "[[], ['a']] == [['b'], []]",
        "self.tags.all(tag, self.tags.exists(other, other == tag)) ? true : false",
        "(self.count - 1) * 2 / 3 % 4 == -self.count",
        "dyn(self.count) == 'x'",
        "self.tags.transformList(i, tag, tag).size() > 0",
        "self.tags.all(i, tag, i >= 0 && tag.startsWith('a')) && self.labels.exists(key, value, key == value)",
        "self.tags.transformList(i, tag, i > 0, size(tag)).sum() > 1",
        "self.labels.transformMap(key, value, size(value)).exists(key, key.startsWith('a'))",
        "self.tags.transformMapEntry(i, tag, {tag: i})['a'] == 1",
        "self.items.sortBy(item, item.port)[0].port == 1",
        "self.?name.orValue('x') == 'x' && self.?inner.port.hasValue()",
        "self.labels[?'a'].optMap(value, value + 'b').orValue('') == 'b'",
        "self.tags[?0].optFlatMap(tag, self.labels[?tag]) == optional.none()",
        "[?self.?name, 'b'].size() == 2 && {?'a': self.?count}.size() == 1",
        "self.anything.?a[?0].?b.orValue(1) == 1",
        "b'a' < b'b'",
        "optional.of(self.name).orValue('x') == 'x'",
    ] {
        assert_eq!(check_text(rule), Ok(Some(Type::Bool)), "{rule}");
    }
    assert_eq!(check_text("self.tags[0]"), Ok(Some(Type::String)));
    assert_eq!(check_text("self.anything"), Ok(Some(Type::Dyn)));
    assert_eq!(check_text("[]"), Ok(Some(Type::list(Type::Parameter(0)))));
}

#[test]
fn errors_are_those_of_cel_go() {
    for (rule, expected) in [
        ("self.name == 1", "1:11: found no matching overload for '_==_' applied to '(string, int)'"),
        ("self.nam == 'x'", "1:5: undefined field 'nam'"),
        ("has(self.nam)", "1:4: undefined field 'nam'"),
        ("self.inner.port.a == 1", "1:16: type 'int' does not support field selection"),
        ("slef.name == 'x'", "1:1: undeclared reference to 'slef' (in container '')"),
        ("nosuch(self.name)", "1:7: undeclared reference to 'nosuch' (in container '')"),
        ("self.name.nosuch()", "1:17: undeclared reference to 'nosuch' (in container '')"),
        (
            "self.name.startsWith(1)",
            "1:21: found no matching overload for 'startsWith' applied to 'string.(int)'",
        ),
        ("self.name", ""),
        ("self.name && true", "1:5: expected type 'bool' but found 'string'"),
        ("self.tags.all(tag, tag)", "1:20: expected type 'bool' but found 'string'"),
        (
            "self.tags.all(tag, tag > 1)",
            "1:24: found no matching overload for '_>_' applied to '(string, int)'",
        ),
        (
            "self.count.all(x, true)",
            "1:5: expression of type 'int' cannot be range of a comprehension (must be list, map, or dynamic)",
        ),
        ("[1, 'a'].size() == 2", "1:5: expected type 'int' but found 'string'"),
        ("{'a': 1, 'b': 'c'}.size() == 2", "1:15: expected type 'int' but found 'string'"),
        (
            "self.tags + 1 == self.tags",
            "1:11: found no matching overload for '_+_' applied to '(list(string), int)'",
        ),
        (
            "self.labels[1] == 'x'",
            "1:12: found no matching overload for '_[_]' applied to '(map(string, string), int)'",
        ),
        (
            "self.tags == null",
            "1:11: found no matching overload for '_==_' applied to '(list(string), null)'",
        ),
        ("!self.count", "1:1: found no matching overload for '!_' applied to '(int)'"),
        (
            "(1 == 1) ? 'a' : 2",
            "1:10: found no matching overload for '_?_:_' applied to '(bool, string, int)'",
        ),
        (
            "self.inner == self",
            "1:12: found no matching overload for '_==_' applied to '(selfType.inner, selfType)'",
        ),
        ("1 in self.tags", "1:3: found no matching overload for '@in' applied to '(int, list(string))'"),
        (
            "self.ratio % 2.0 == 1.0",
            "1:12: found no matching overload for '_%_' applied to '(double, double)'",
        ),
    ] {
        if expected.is_empty() {
            assert!(check_text(rule).is_ok());
        } else {
            assert_eq!(errors(rule), expected.lines().collect::<Vec<_>>(), "{rule}");
        }
    }
}

#[test]
fn errors_of_optionals_macros_and_literals_are_those_of_cel_go() {
    for (rule, expected) in [
        (
            "self.count.optMap(t, t)",
            "1:18: found no matching overload for 'hasValue' applied to 'int.()'\n1:18: found no matching overload for 'value' applied to 'int.()'",
        ),
        (
            "self.?name.optFlatMap(t, 1)",
            "1:22: found no matching overload for '_?_:_' applied to '(bool, int, optional_type(dyn))'",
        ),
        (
            "self.count.all(i, v, true)",
            "1:5: expression of type 'int' cannot be range of a comprehension (must be list, map, or dynamic)",
        ),
        ("self.tags.all(i, v, v)", "1:21: expected type 'bool' but found 'string'"),
        (
            "self.tags.transformMapEntry(i, v, v)",
            "1:28: found no matching overload for 'cel.@mapInsert' applied to '(map(dyn, dyn), string)'",
        ),
        (
            "self.tags.sortBy(t, {'a': t})",
            "1:17: found no matching overload for '@sortByAssociatedKeys' applied to 'list(string).(list(map(string, string)))'",
        ),
        (
            "self.count.sortBy(t, t)",
            "1:18: expression of type 'int' cannot be range of a comprehension (must be list, map, or dynamic)\n\
             1:18: found no matching overload for '@sortByAssociatedKeys' applied to 'int.(list(!error!))'",
        ),
        ("self.tags.all(i, i, true)", "1:18: duplicate variable name: i"),
        ("self.tags.all(1, v, true)", "1:15: argument must be a simple name"),
        ("self.tags.sortBy(1, 2)", "1:18: argument is not an identifier"),
        ("self.tags.optMap(1, true)", "1:18: optMap() variable name must be a simple identifier"),
        (
            "self.tags.all(i, v, true, true)",
            "1:14: undeclared reference to 'all' (in container '')\n1:15: undeclared reference to 'i' (in container '')\n\
             1:18: undeclared reference to 'v' (in container '')",
        ),
        ("[?self.count]", "1:7: expected type 'optional_type(int)' but found 'int'"),
        ("{?'a': self.count}", "1:12: expected type 'optional_type(int)' but found 'int'"),
        (
            "self.tags[?'a']",
            "1:10: found no matching overload for '_[?_]' applied to '(list(string), string)'",
        ),
        ("self.count.?a", "1:11: type 'int' does not support field selection"),
        ("self.?nam", "1:5: undefined field 'nam'"),
        (
            "self.tags[?0].optMap(t, t + 1)",
            "1:27: found no matching overload for '_+_' applied to '(string, int)'",
        ),
        ("duration('1y') > self.at - self.at", "1:10: invalid duration argument"),
        ("self.at > timestamp('2026-01-01')", "1:21: invalid timestamp argument"),
        ("[self.count, self.anything].size() == 2", "1:18: expected type 'int' but found 'dyn'"),
        ("[self.anything, self.count].size() == 2", "1:21: expected type 'dyn' but found 'int'"),
        (
            "{'a': 1, 'b': 'c', 'd': 2.0}.size() == 3",
            "1:15: expected type 'int' but found 'string'\n1:25: expected type 'int' but found 'double'",
        ),
        (
            "[[1, 'a'], ['b']].size() == 2",
            "1:6: expected type 'int' but found 'string'\n1:12: expected type 'list(dyn)' but found 'list(string)'",
        ),
        (
            "quantity('1').sign() == 1",
            "1:19: found no matching overload for 'sign' applied to 'kubernetes.Quantity.()'",
        ),
        (
            "'a'.sortBy(x, x).size() == 1",
            "1:1: sortBy can only be applied to a list, identifier, comprehension, call or select expression",
        ),
    ] {
        assert_eq!(errors(rule), expected.lines().collect::<Vec<_>>(), "{rule}");
    }
}

#[test]
fn each_error_is_reported_once_at_its_position() {
    let rule = "self.a == 1\n  && !!(self.tags.filter(x, x == 1).size() > -1) && -1 == self.b";
    let expected = [
        "1:5: undefined field 'a'",
        "2:31: found no matching overload for '_==_' applied to '(string, int)'",
        "2:63: undefined field 'b'",
    ];
    assert_eq!(errors(rule), expected);
    let text = check_text("self == 1").expect_err("an error");
    let expected = "ERROR: <input>:1:6: found no matching overload for '_==_' applied to '(selfType, int)'\n \
                    | self == 1\n | .....^";
    assert_eq!(text, expected);
}

#[test]
fn a_type_that_grows_with_each_step_stops_the_check() {
    let mut text = "[1]".to_owned();
    for step in 0..14 {
        text.push_str(&format!(".map(x{step}, {{x{step}: x{step}}})"));
    }
    let result = check_text(&text);
    assert!(matches!(result, Ok(None)) || result.is_err_and(|text| text.len() < 1 << 20));
    let expression = Expression::compile("self.name == 1").expect("an expression");
    let this = Type::Object { id: 0, name: "selfType".into() };
    assert_eq!(check_within(&expression, "self.name == 1", &[("self", this)], &Example, 3), Ok(None));
}

#[test]
fn a_condition_is_bool_or_of_any_type() {
    let functions = [("objects", Type::list(Type::Dyn)), ("object", Type::Dyn), ("exists", Type::Bool)];
    let condition = |text: &str| {
        let expression = Expression::compile(text).expect("an expression");
        check_condition(&expression, text, &["after"], &functions)
    };
    for text in [
        "objects('Pod').size() == 1",
        "objects('Pod').exists(p, p.spec.n == 2) && exists('Pod', 'a')",
        "after.spec.ready",
        "object('Pod', 'a').spec.ready",
        "after == null ? true : after.spec.ready",
    ] {
        assert_eq!(condition(text), Ok(()), "{text}");
    }
    for (text, ty) in [
        ("objects('Pod').size()", "int"),
        ("objects('Pod')", "list(dyn)"),
        ("'a' + 'b'", "string"),
        ("after == null ? 1 : 2", "int"),
    ] {
        let problem = condition(text).expect_err(text);
        assert!(problem.contains(&format!("type {ty},")), "{text}: {problem}");
    }
    assert_eq!(condition("1 + 'a'"), Ok(()), "a type error is reported where the expression is evaluated");
}
