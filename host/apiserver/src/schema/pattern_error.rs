//! The messages of Go's `regexp/syntax` about patterns.

/// Returns the message about a pattern that does not compile, from the text of the library's error.
pub(super) fn go_message(pattern: &str, error: &str) -> String {
    let mut lines = error.lines();
    let problem = error.rsplit("error: ").next().unwrap_or(error).trim();
    // The second line after the title has a caret below the problem, if the pattern has one line.
    let caret = lines.nth(2).and_then(|line| line.find('^')).and_then(|column| column.checked_sub(4));
    let start = caret.and_then(|column| pattern.char_indices().nth(column)).map_or(0, |(start, _)| start);
    let rest = &pattern[start..];
    let first = |count: usize| rest.chars().take(count).collect::<String>();
    let (description, fragment) = match problem {
        "unclosed group" => ("missing closing )", pattern.to_owned()),
        "unopened group" => ("unexpected )", pattern.to_owned()),
        "unclosed character class" => ("missing closing ]", rest.to_owned()),
        "repetition operator missing expression" => ("missing argument to repetition operator", first(1)),
        "unrecognized escape sequence" => ("invalid escape sequence", first(2)),
        "incomplete escape sequence, reached end of pattern prematurely" => {
            ("trailing backslash at end of expression", String::new())
        }
        "invalid character class range, the start must be <= the end" => {
            ("invalid character class range", rest.split(']').next().unwrap_or(rest).to_owned())
        }
        look_around if look_around.starts_with("look-around") => {
            ("invalid or unsupported Perl syntax", first(if rest.starts_with("(?<") { 4 } else { 3 }))
        }
        other => return format!("error parsing regexp: {other}"),
    };
    format!("error parsing regexp: {description}: `{fragment}`")
}

#[cfg(test)]
mod tests {
    use super::go_message;

    #[test]
    fn messages_are_those_of_go() {
        for (pattern, expected) in [
            ("(", "missing closing ): `(`"),
            ("a)", "unexpected ): `a)`"),
            ("x[ab", "missing closing ]: `[ab`"),
            ("*", "missing argument to repetition operator: `*`"),
            (r"a\q", r"invalid escape sequence: `\q`"),
            (r"a\", "trailing backslash at end of expression: ``"),
            ("[b-a]", "invalid character class range: `b-a`"),
            ("a(?=b)", "invalid or unsupported Perl syntax: `(?=`"),
        ] {
            let error = regex::Regex::new(pattern).expect_err("a malformed pattern").to_string();
            assert_eq!(go_message(pattern, &error), format!("error parsing regexp: {expected}"));
        }
    }
}
