//! Selections from values without members, and messages about keys and indexes.

use super::*;

#[test]
fn a_selection_from_a_value_without_members_is_an_error() {
    let message = |text: &str| {
        let error = ours(text).expect_err(text);
        error.cel_message().unwrap_or_else(|| panic!("{text}: {error}"))
    };
    for text in [
        "object.none.x",
        "object.n.x",
        "object.s.x == 1",
        "object.yes.x",
        "object.none.x.y",
        "!object.none.x",
    ] {
        assert_eq!(message(text), "no such key: x", "{text}");
    }
    assert_eq!(message("object.list.x"), "unsupported index type 'string' in list");
    assert_eq!(message("has(object.list.x)"), "unsupported index type 'string' in list");
    for text in [
        "!has(object.none.x) && !has(object.n.x) && !has(object.s.x)",
        "!object.none.?x.hasValue() && !object.?none.?x.hasValue()",
        "object.none.x || true",
    ] {
        assert_eq!(ours(text), Ok(Value::Bool(true)), "{text}");
    }
    for text in ["object.none.x == false", "!object.list.x", "!has(object.list.x)"] {
        assert_eq!(ours_as_library(text), Ok(Value::Bool(true)), "{text}");
    }
}

#[test]
fn only_the_message_of_cel_go_has_the_key_or_the_index() {
    for (text, message) in [
        ("object.map[object.s]", "no such key: text"),
        ("object.s[object.s]", "no such key: text"),
        ("object.list[object.n]", "index out of bounds: 3"),
        ("object.list[-1]", "index out of bounds: -1"),
        ("object.list[object.f]", "unsupported index value 1.5 in list"),
        ("object.list[object.s]", "unsupported index type 'string' in list"),
        ("object.n.all(x, true)", "got 'types.Int', expected iterable type"),
        ("int(object.s)", "type conversion error from 'string' to 'int'"),
        ("object.n + object.s", "no such overload"),
    ] {
        let error = ours(text).expect_err(text);
        assert_eq!(error.cel_message().as_deref(), Some(message), "{text}");
        let shown = format!("{error} {error:?}");
        assert!(
            !shown.contains("text\"") && !shown.contains("-1") && !shown.contains("1.5"),
            "{text}: {shown}"
        );
    }
}
