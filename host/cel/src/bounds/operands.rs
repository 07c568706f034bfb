//! Splits the text of an expression at its outermost `&&` and `||`, so that the value of each part can be shown.

use super::tokens::{Token, Tokens};

/// The maximum nesting of operands that is split.
const MAX_LEVELS: usize = 8;

/// The operands of an expression, as parts of its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operands<'a> {
    /// An expression that is not split.
    One(&'a str),
    /// Operands of `&&`.
    All(Vec<Operands<'a>>),
    /// Operands of `||`.
    Any(Vec<Operands<'a>>),
}

impl<'a> Operands<'a> {
    /// Splits an expression that compiles. Conditionals and what is inside of calls and negations are not split. Text that is no
    /// expression may be split anywhere.
    #[must_use]
    pub fn of(text: &'a str) -> Self {
        split(text.trim(), MAX_LEVELS)
    }

    /// Returns the number of parts that are not split further.
    #[must_use]
    pub fn count(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::All(operands) | Self::Any(operands) => operands.iter().map(Self::count).sum(),
        }
    }
}

fn split(text: &str, levels: usize) -> Operands<'_> {
    let Some(outline) = Outline::of(text).filter(|_| levels > 0) else { return Operands::One(text) };
    // `||` binds weaker than `&&`.
    for operator in ["||", "&&"] {
        let positions: Vec<usize> =
            outline.logical.iter().copied().filter(|at| text[*at..].starts_with(operator)).collect();
        if positions.is_empty() {
            continue;
        }
        let starts = std::iter::once(0).chain(positions.iter().map(|at| at + operator.len()));
        let ends = positions.iter().copied().chain([text.len()]);
        let operands =
            starts.zip(ends).map(|(start, end)| split(text[start..end].trim(), levels - 1)).collect();
        return if operator == "||" { Operands::Any(operands) } else { Operands::All(operands) };
    }
    if outline.is_bracketed {
        let inner = split(text[1..text.len() - 1].trim(), levels - 1);
        if !matches!(inner, Operands::One(_)) {
            return inner;
        }
    }
    Operands::One(text)
}

/// What is outside of all brackets.
#[derive(Default)]
struct Outline {
    /// The offsets of `&&` and `||`.
    logical: Vec<usize>,
    /// Whether one pair of parentheses encloses the whole text.
    is_bracketed: bool,
}

impl Outline {
    /// Returns `None` for a conditional, and for text that is not in CEL's grammar.
    fn of(text: &str) -> Option<Self> {
        let mut outline = Self::default();
        let (mut depth, mut closed_at) = (0_usize, None);
        for token in Tokens::of(text) {
            let (position, token) = token.ok()?;
            match token {
                Token::Open => depth += 1,
                Token::Close => {
                    depth = depth.checked_sub(1)?;
                    if depth == 0 {
                        closed_at = closed_at.or(Some(position));
                    }
                }
                Token::Logical if depth == 0 => outline.logical.push(position),
                Token::Question if depth == 0 => return None,
                _ => {}
            }
        }
        outline.is_bracketed = text.starts_with('(') && closed_at.map(|at| at + 1) == Some(text.len());
        (depth == 0).then_some(outline)
    }
}

#[cfg(test)]
mod tests {
    use super::Operands::{All, Any, One};
    use super::*;

    #[test]
    fn an_expression_is_split_at_its_outermost_logical_operators() {
        for (text, expected) in [
            ("a", One("a")),
            (" a > 0 && b ", All(vec![One("a > 0"), One("b")])),
            ("a || b && c", Any(vec![One("a"), All(vec![One("b"), One("c")])])),
            ("(a || b) && c", All(vec![Any(vec![One("a"), One("b")]), One("c")])),
            ("((a && b))", All(vec![One("a"), One("b")])),
            ("(a)", One("(a)")),
            ("(a) == (b)", One("(a) == (b)")),
            ("!(a && b)", One("!(a && b)")),
            ("x.exists(i, i && b)", One("x.exists(i, i && b)")),
            ("a == '&& ||' || b == r\"\\\"", Any(vec![One("a == '&& ||'"), One("b == r\"\\\"")])),
            ("a ? b && c : d", One("a ? b && c : d")),
            ("(a ? b : c) && d", All(vec![One("(a ? b : c)"), One("d")])),
            ("'ä' == a && b", All(vec![One("'ä' == a"), One("b")])),
        ] {
            assert_eq!(Operands::of(text), expected, "{text}");
        }
        assert_eq!(Operands::of("(a || b) && c").count(), 3);
    }

    #[test]
    fn text_that_is_no_expression_is_not_split() {
        for text in ["", "a && 'b", "a)) && b", "((a && b", "a & b", "§ && a"] {
            assert_eq!(Operands::of(text), One(text), "{text}");
        }
        let deep = format!("{}a{}", "(".repeat(100), ")".repeat(100));
        assert_eq!(Operands::of(&deep), One(deep.as_str()));
    }
}
