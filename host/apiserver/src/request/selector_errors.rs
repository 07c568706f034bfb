//! The messages of kube-apiserver about malformed selectors.
//!
//! Selectors are parsed by `pilothouse_model`, whose messages address the authors of plugins. Clients of the server get those of
//! `k8s.io/apimachinery/pkg/labels` and `…/fields`, which this module finds with a parser that follows the same grammar.

use std::collections::BTreeSet;

use crate::schema::{field, label_value_errors, qualified_name_errors};

/// The operators between a key and its values, as messages list them.
const OPERATORS: &str = "in, notin, =, ==, !=, gt, lt";

/// A token of a label selector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    /// A key, a value, or the word `in` or `notin`.
    Word(&'a str),
    /// An operator, a comma or a parenthesis.
    Symbol(&'a str),
    End,
}

impl<'a> Token<'a> {
    /// Returns the text by which messages name the token.
    fn text(self) -> &'a str {
        match self {
            Self::Word(text) | Self::Symbol(text) => text,
            Self::End => "",
        }
    }
}

/// Returns the message about a label selector, or `None` if it is well-formed.
pub(super) fn of_labels(selector: &str) -> Option<String> {
    let mut parser = Parser { rest: selector };
    loop {
        match parser.peek() {
            Token::End => return None,
            Token::Word(_) | Token::Symbol("!") => {}
            other => {
                return Some(format!(
                    "found '{}', expected: !, identifier, or 'end of string'",
                    other.text()
                ));
            }
        }
        if let Err(problem) = parser.requirement() {
            return Some(format!("unable to parse requirement: {problem}"));
        }
        match parser.next() {
            Token::End => return None,
            Token::Symbol(",") => match parser.peek() {
                Token::Word(_) | Token::Symbol("!") => {}
                other => return Some(format!("found '{}', expected: identifier after ','", other.text())),
            },
            other => return Some(format!("found '{}', expected: ',' or 'end of string'", other.text())),
        }
    }
}

/// Returns the message about a field selector, or `None` if it is well-formed.
pub(super) fn of_fields(selector: &str) -> Option<String> {
    let mut terms = split_terms(selector);
    terms.sort_unstable();
    terms.into_iter().filter(|term| !term.is_empty()).find_map(|term| {
        let operator = term.find("!=").map(|at| (at, 2)).into_iter().chain(term.find('=').map(|at| (at, 1)));
        let Some((at, length)) = operator.min() else {
            return Some(format!("invalid selector: '{selector}'; can't understand '{term}'"));
        };
        let value = &term[at + length..];
        // `==` is one operator.
        let value = if length == 1 { value.strip_prefix('=').unwrap_or(value) } else { value };
        value_problem(value).map(|problem| format!("invalid field selector: {problem}"))
    })
}

/// Splits a field selector at its commas, except those after a backslash.
fn split_terms(selector: &str) -> Vec<&str> {
    let mut is_escaped = false;
    selector
        .split(|c| {
            let ends = c == ',' && !is_escaped;
            is_escaped = c == '\\' && !is_escaped;
            ends
        })
        .collect()
}

/// Returns what is wrong with the value of a field.
fn value_problem(value: &str) -> Option<String> {
    let mut characters = value.chars();
    while let Some(c) = characters.next() {
        match c {
            '\\' => match characters.next() {
                Some('\\' | ',' | '=') => {}
                Some(other) => return Some(format!("invalid escape sequence: \\{other}")),
                None => return Some("invalid escape sequence: \\".to_owned()),
            },
            // Go prints the number of the character.
            ',' | '=' => return Some(format!("unescaped character in value: {}", u32::from(c))),
            _ => {}
        }
    }
    None
}

struct Parser<'a> {
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Token<'a> {
        self.token().0
    }

    fn next(&mut self) -> Token<'a> {
        let (token, rest) = self.token();
        self.rest = rest;
        token
    }

    /// Returns the first token and the text after it.
    fn token(&self) -> (Token<'a>, &'a str) {
        let text = self.rest.trim_start_matches([' ', '\t', '\r', '\n']);
        let is_symbol = |c: char| "=!(),><".contains(c);
        let Some(first) = text.chars().next().filter(|c| *c != '\0') else { return (Token::End, "") };
        if is_symbol(first) {
            let length = if text.starts_with("==") || text.starts_with("!=") { 2 } else { 1 };
            return (Token::Symbol(&text[..length]), &text[length..]);
        }
        let end = text.find(|c: char| is_symbol(c) || " \t\r\n\0".contains(c)).unwrap_or(text.len());
        (Token::Word(&text[..end]), &text[end..])
    }

    fn requirement(&mut self) -> Result<(), String> {
        let mut first = self.next();
        let is_negated = first == Token::Symbol("!");
        if is_negated {
            first = self.next();
        }
        let Token::Word(key) = first else {
            return Err(format!("found '{}', expected: identifier", first.text()));
        };
        let problems = qualified_name_errors(key);
        if !problems.is_empty() {
            let cause = field::invalid("", &key.into(), &problems.join("; "));
            return Err(format!("{}: {}", cause.field, cause.message));
        }
        if is_negated || matches!(self.peek(), Token::End | Token::Symbol(",")) {
            return Ok(());
        }
        let operator = self.next();
        let values = match operator.text() {
            "in" | "notin" => self.values()?,
            "=" | "==" | "!=" | ">" | "<" => BTreeSet::from([self.exact_value()?]),
            other => return Err(format!("found '{other}', expected: {OPERATORS}")),
        };
        let compares = matches!(operator.text(), ">" | "<");
        check_values(key, &values, compares)
    }

    fn exact_value(&mut self) -> Result<&'a str, String> {
        match self.peek() {
            Token::End | Token::Symbol(",") => Ok(""),
            Token::Word(value) => {
                self.next();
                Ok(value)
            }
            other => Err(format!("found '{}', expected: identifier", other.text())),
        }
    }

    /// Parses a list in parentheses, whose values may be empty.
    fn values(&mut self) -> Result<BTreeSet<&'a str>, String> {
        match self.next() {
            Token::Symbol("(") => {}
            other => return Err(format!("found '{}' expected: '('", other.text())),
        }
        match self.peek() {
            Token::Word(_) | Token::Symbol("," | ")") => {}
            other => return Err(format!("found '{}', expected: ',', ')' or identifier", other.text())),
        }
        let mut values = BTreeSet::new();
        loop {
            match self.peek() {
                Token::Word(value) => {
                    self.next();
                    values.insert(value);
                    if !matches!(self.peek(), Token::Symbol("," | ")")) {
                        return Err(format!("found '{}', expected: ',' or ')'", self.peek().text()));
                    }
                }
                Token::Symbol(",") => {
                    values.insert("");
                }
                Token::Symbol(")") => {
                    values.insert("");
                    self.next();
                    return Ok(values);
                }
                other => return Err(format!("found '{}', expected: ',', or identifier", other.text())),
            }
            if self.next() == Token::Symbol(")") {
                return Ok(values);
            }
        }
    }
}

/// Checks the values of a requirement, which Kubernetes numbers in their order.
fn check_values(key: &str, values: &BTreeSet<&str>, compares: bool) -> Result<(), String> {
    let mut problems = Vec::new();
    if compares {
        for (index, value) in values.iter().enumerate().filter(|(_, value)| value.parse::<i64>().is_err()) {
            let detail = "for 'Gt', 'Lt' operators, the value must be an integer";
            problems.push(field::invalid(&field::index("values", index), &(*value).into(), detail));
        }
    }
    for (index, value) in values.iter().enumerate() {
        let errors = label_value_errors(value);
        if !errors.is_empty() {
            let path = field::key(&field::index("values", index), key);
            problems.push(field::invalid(&path, &(*value).into(), &errors.join("; ")));
        }
    }
    let mut texts: Vec<String> =
        problems.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
    match texts.len() {
        0 => Ok(()),
        1 => Err(texts.remove(0)),
        _ => Err(format!("[{}]", texts.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages of kube-apiserver 1.36.
    #[test]
    fn messages_about_label_selectors_are_those_of_kubernetes() {
        for (selector, message) in [
            ("x in 1", "unable to parse requirement: found '1' expected: '('"),
            ("a!b", "unable to parse requirement: found '!', expected: in, notin, =, ==, !=, gt, lt"),
            (",", "found ',', expected: !, identifier, or 'end of string'"),
            ("===", "found '==', expected: !, identifier, or 'end of string'"),
            ("!a=b", "found '=', expected: ',' or 'end of string'"),
            ("a,", "found '', expected: identifier after ','"),
            ("a in (", "unable to parse requirement: found '', expected: ',', ')' or identifier"),
            (
                "a>x",
                "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must \
                 be an integer",
            ),
        ] {
            assert_eq!(of_labels(selector).as_deref(), Some(message), "{selector}");
        }
        let bad_values = of_labels("a in (-,-b)").expect("an error");
        assert!(
            bad_values
                .starts_with("unable to parse requirement: [values[0][a]: Invalid value: \"-\": a valid")
        );
        assert!(bad_values.contains("), values[1][a]: Invalid value: \"-b\": a valid"), "{bad_values}");
        let bad_key = of_labels("a/b/c=1").expect("an error");
        assert!(
            bad_key.starts_with(
                "unable to parse requirement: <nil>: Invalid value: \"a/b/c\": a valid label key"
            )
        );
    }

    #[test]
    fn well_formed_selectors_have_no_message() {
        for selector in [
            "",
            "a",
            "!a",
            "a=",
            "a==b,c!=d",
            "a in (x,,y)",
            "a notin ()",
            "in in (in, notin)",
            "a>1",
            " a = b ",
        ] {
            assert_eq!(of_labels(selector), None, "{selector}");
        }
        for selector in ["", "a=b", "a==b,c!=d", "a=b\\,c\\=d\\\\", "a="] {
            assert_eq!(of_fields(selector), None, "{selector}");
        }
    }

    #[test]
    fn messages_about_field_selectors_are_those_of_kubernetes() {
        for (selector, message) in [
            ("a", "invalid selector: 'a'; can't understand 'a'"),
            ("a=b\\c", "invalid field selector: invalid escape sequence: \\c"),
            ("a=b\\", "invalid field selector: invalid escape sequence: \\"),
            ("a=b=c", "invalid field selector: unescaped character in value: 61"),
        ] {
            assert_eq!(of_fields(selector).as_deref(), Some(message), "{selector}");
        }
    }
}
