//! No expression within the bounds overflows a small stack.

use proptest::prelude::*;

use super::*;

proptest! {
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
