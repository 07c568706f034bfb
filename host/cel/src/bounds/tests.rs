//! Expressions within and beyond each limit.

use super::*;

/// Returns the error for `text`, "" if there is none.
fn refusal(text: &str) -> String {
    check(text).err().map(|error| error.to_string()).unwrap_or_default()
}

#[test]
fn ordinary_expressions_are_within_the_limits() {
    for text in [
        "",
        "object.spec.replicas > old.spec.replicas && !labelsChanged()",
        "object.items.all(i, i.name.matches('^a(b|c)[[[[[[[((((((((((((((((((((((((((((\"+$')) // ((((((((((((((((((((((((((((((",
        r#"r'\(' + """a"b""" + b"\x00" + br'\' != '' "#,
        "a ? b : c ? d : e",
        "a.?b.?c.?d.?e[?0][?1].?f.?g.?h.?i.?j.?k.?l.?m.?n.?o.?p.?q.?r.?s.?t.?u.?v.?w.?x.?y.?z == {?1: a, ?2: b}",
        "[?a, ?b, ?c, ?d, ?e, ?f, ?g, ?h, ?i, ?j, ?k, ?l, ?m, ?n, ?o, ?p, ?q, ?r, ?s, ?t, ?u, ?v, ?w, ?x]",
        "[1, -2, 0x1F, 3u, 1.5e-3, .5].exists(x, x in {1: 2}) && !!true",
        "object.`a-b/c` == '\\u00e4\\377'",
    ] {
        assert_eq!(refusal(text), "", "{text}");
    }
    let alternatives = vec!["object.metadata.name == 'x'"; 200].join(" || ");
    assert_eq!(refusal(&alternatives), "");
    let one_of = vec!["(has(self.spec.a) ? 1 : 0)"; 40].join(" + ") + " == 1";
    assert_eq!(refusal(&one_of), "");
    let sizes = vec!["self.spec.template.names.size()"; 40].join(" + ") + " < 100";
    assert_eq!(refusal(&sizes), "", "operands of a sum nest beside each other");
}

#[test]
fn an_expression_beyond_a_limit_is_refused_before_it_is_parsed() {
    for (text, limit) in [
        ("(".repeat(1000), "24 brackets"),
        ("a.f(".repeat(30), "24 brackets"),
        ("[".repeat(25), "24 brackets"),
        ("{1:".repeat(25), "24 brackets"),
        ("a?b:".repeat(25) + "a", "24 brackets and conditionals"),
        ("(a?b:".repeat(13), "24 brackets and conditionals"),
        ("a[?".repeat(25), "24 brackets"),
        ("object".to_owned() + &".?a".repeat(65), "deeper than 64"),
        ("object".to_owned() + &".a".repeat(2000), "deeper than 64"),
        ("a".to_owned() + &"+a".repeat(65), "deeper than 64"),
        ("a".to_owned() + &"==a".repeat(65), "deeper than 64"),
        ("(a".to_owned() + &"+a".repeat(35) + "+(a" + &"+a".repeat(35), "deeper than 64"),
        ("((a)".to_owned() + &"+a".repeat(40) + ")" + &"+a".repeat(40), "deeper than 64"),
        ("(a".to_owned() + &".a".repeat(40) + ")" + &".a".repeat(40), "deeper than 64"),
        ("a".to_owned() + &".f(1)".repeat(70), "deeper than 64"),
        ("!".repeat(200) + "a", "deeper than 64"),
        ("!!(".repeat(5), "doubled prefixes"),
        ("!(! ".repeat(6), "doubled prefixes"),
        ("- -f(".repeat(5), "doubled prefixes"),
        ("a,".repeat(1025), "2048 tokens"),
        (" ".repeat(8193), "8192 bytes"),
        ("'a".to_owned(), "string is not closed"),
        ("'a\n'".to_owned(), "string is not closed"),
        (r"'\q'".to_owned(), "an escape that CEL does not have"),
        (r"'\u12'".to_owned(), "an escape that CEL does not have"),
        ("\"\"\"((((\"".to_owned(), "string is not closed"),
        ("`a".to_owned(), "not closed"),
        ("a @ b".to_owned(), "a character that CEL does not have"),
        ("a = b".to_owned(), "a character that CEL does not have"),
    ] {
        let error = refusal(&text);
        assert!(error.contains(limit), "{text:.40}: {error}");
        assert!(error.contains("; "), "a remedy: {error}");
    }
}

#[test]
fn nesting_ends_with_the_closing_bracket() {
    let group = "(".repeat(24) + "a" + &")".repeat(24);
    assert_eq!(refusal(&vec![group; 10].join(" && ")), "");
    assert_eq!(refusal(")))))"), "", "the parser refuses it");
}
