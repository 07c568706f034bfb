//! The cost limit, and what is refused because its cost has no bound.

use serde_json::json;

use super::*;

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

/// With the flag `i`, every code point of a class is visited before any limit of size counts.
#[test]
fn the_work_to_compile_patterns_is_bounded_before_they_are_compiled() {
    let wide = r"[\\x01-\\u{10ffff}]";
    let literal = |count: usize| Expression::compile(&format!("'a'.matches('(?i){}')", wide.repeat(count)));
    assert!(literal(1).is_ok());
    assert_eq!(literal(2).err(), Some(CompileError::Patterns));
    assert_eq!(literal(200).err(), Some(CompileError::Patterns));
    let separate: Vec<_> = (0..2).map(|number| format!("'a'.matches('{number}(?i){wide}')")).collect();
    assert_eq!(Expression::compile(&separate.join(" || ")).err(), Some(CompileError::Patterns));
}

#[test]
fn the_work_to_compile_patterns_of_an_object_is_a_part_of_the_cost() {
    let pattern = |count: usize| format!("(?i){}", r"[\x01-\u{10ffff}]".repeat(count));
    let expression = compiled("'a'.matches(object.pattern)");
    let cost = |pattern: &str| {
        let mut budget = Budget::full();
        let result =
            expression.evaluate(vec![("object", from_json(json!({"pattern": pattern})))], &mut budget);
        (result, COST_LIMIT - budget.left())
    };
    let (found, small) = cost("a+");
    assert_eq!(found, Ok(Value::Bool(true)));
    let (found, wide) = cost(&pattern(1));
    assert_eq!(found, Ok(Value::Bool(true)));
    assert!(wide > small + 100_000, "{wide} after {small}");
    assert_eq!(cost(&pattern(230)).0, Err(EvaluationError::Cost));
    let (refused, large) = cost(r"(\w{100}){100}");
    assert!(matches!(refused, Err(EvaluationError::Pattern(_))), "{refused:?}");
    assert!(large >= 100_000, "{large}");
}

/// A refused pattern is an error, which another operand of `||` may outweigh; an exhausted budget is final.
#[test]
fn many_refused_patterns_exhaust_the_budget() {
    let refused: Vec<_> =
        (0..20).map(|number| format!(r"'a'.matches('{number}(\\w{{100}}){{100}}' + object.empty)")).collect();
    let text = format!("{} || true", refused.join(" || "));
    assert_eq!(evaluate(&compiled(&text), json!({"empty": ""})), Err(EvaluationError::Cost));
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
