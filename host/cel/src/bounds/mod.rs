//! Limits of CEL expressions, checked on the text before it is parsed.
//!
//! The CEL parser, the expression tree, and everything that walks or drops that tree recurse once per level of nesting, and the parser's
//! look-ahead doubles with each doubled prefix operator (`!!(!!(…`). An expression within these limits needs little stack, memory and time.

mod operands;
pub(crate) mod tokens;

pub use operands::Operands;
use tokens::{Token, Tokens};

/// The longest expression in bytes.
pub const MAX_LENGTH: usize = 8192;
/// The most tokens of an expression: names, literals, operators and brackets.
pub const MAX_TOKENS: usize = 2048;
/// The most brackets and conditionals that are open at the same time.
pub const MAX_OPEN: usize = 24;
/// The most levels of nesting: brackets, conditionals, prefixes, and operators or members in a row.
pub const MAX_DEPTH: usize = 64;
/// The most places with two or more prefix operators in a row.
pub const MAX_DOUBLED_PREFIXES: usize = 4;

/// Why an expression was refused before it was parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem} at byte {position}; {remedy}")]
pub struct ExpressionError {
    problem: String,
    /// The offset in bytes, from 1.
    position: usize,
    remedy: &'static str,
}

const SHORTEN: &str = "shorten the expression, or decide in the plugin";

/// Checks that the text is safe to parse as CEL, in time linear in its length.
///
/// # Errors
/// If the text exceeds a limit, or contains a character or literal that is not in CEL's grammar.
pub fn check(text: &str) -> Result<(), ExpressionError> {
    let error = |problem: String, position, remedy| Err(ExpressionError { problem, position, remedy });
    if text.len() > MAX_LENGTH {
        return error(format!("it is longer than {MAX_LENGTH} bytes"), MAX_LENGTH + 1, SHORTEN);
    }
    let mut nesting = Nesting::default();
    let mut count = 0;
    for token in Tokens::of(text) {
        let (position, token) = token.map_err(|(position, problem)| ExpressionError {
            problem: problem.to_owned(),
            position: position + 1,
            remedy: "write it as CEL defines it",
        })?;
        count += 1;
        if count > MAX_TOKENS {
            return error(format!("there are more than {MAX_TOKENS} tokens"), position + 1, SHORTEN);
        }
        if let Err(problem) = nesting.push(token) {
            return error(problem, position + 1, SHORTEN);
        }
    }
    Ok(())
}

/// The brackets and operators that are open at a point of the text.
#[derive(Default)]
struct Nesting {
    /// The levels around the innermost one.
    outer: Vec<Level>,
    innermost: Level,
    /// The sum of the bracket depths of `outer`.
    outer_depth: usize,
    /// The sum of the conditionals of `outer`.
    outer_conditionals: usize,
    /// Prefix operators directly before this point.
    prefixes: usize,
    doubled_prefixes: usize,
}

/// The text inside one pair of brackets: items separated by commas. An item consists of conditionals, of logical operators, and between
/// those of sums of operands. Each count is an upper bound of what it adds to the depth of the expression.
#[derive(Clone, Copy, Default)]
struct Level {
    /// The largest depth of the previous items.
    items: usize,
    /// Conditionals of this item. Each is in the last branch of the previous one.
    conditionals: usize,
    /// `&&` and `||` of this item, which the parser puts into a balanced tree.
    logical_operators: usize,
    /// The largest depth of the previous sums of this item.
    sums: usize,
    /// Binary operators of this sum. The first operand is below all of them.
    operators: usize,
    /// The largest depth of the previous operands of this sum.
    operands: usize,
    /// Members, calls, indexes and prefixes of this operand.
    steps: usize,
    /// The largest depth of the closed brackets of this operand.
    closed: usize,
}

impl Level {
    fn logical_depth(self) -> usize {
        self.logical_operators.checked_ilog2().map_or(0, |log| log as usize + 1)
    }

    /// Returns the depth of a bracket that opens at this point.
    fn bracket_depth(self) -> usize {
        self.conditionals + self.logical_depth() + self.operators + self.steps
    }

    fn operand_depth(self) -> usize {
        self.operands.max(self.steps + self.closed)
    }

    fn sum_depth(self) -> usize {
        self.sums.max(self.operators + self.operand_depth())
    }

    fn depth(self) -> usize {
        self.items.max(self.conditionals + self.logical_depth() + self.sum_depth())
    }

    fn end_operand(&mut self) {
        *self = Self { operands: self.operand_depth(), steps: 0, closed: 0, ..*self };
    }

    fn end_sum(&mut self) {
        *self = Self { sums: self.sum_depth(), operators: 0, operands: 0, steps: 0, closed: 0, ..*self };
    }
}

impl Nesting {
    /// Adds a token.
    ///
    /// # Errors
    /// The limit that is exceeded.
    fn push(&mut self, token: Token) -> Result<(), String> {
        let prefixes = std::mem::take(&mut self.prefixes);
        let innermost = &mut self.innermost;
        match token {
            Token::Open => {
                innermost.steps += 1;
                self.outer_depth += innermost.bracket_depth();
                self.outer_conditionals += innermost.conditionals;
                self.outer.push(std::mem::take(innermost));
            }
            // The parser refuses a bracket that nothing opens.
            Token::Close => {
                if let Some(mut level) = self.outer.pop() {
                    self.outer_depth -= level.bracket_depth();
                    self.outer_conditionals -= level.conditionals;
                    level.closed = level.closed.max(innermost.depth());
                    *innermost = level;
                }
            }
            Token::Comma => *innermost = Level { items: innermost.depth(), ..Level::default() },
            Token::Colon => innermost.end_sum(),
            Token::Logical => {
                innermost.end_sum();
                innermost.logical_operators += 1;
            }
            Token::Question => {
                innermost.end_sum();
                innermost.conditionals += 1;
            }
            Token::Prefix => {
                // This may be a binary minus.
                innermost.end_operand();
                innermost.operators += 1;
                self.prefixes = prefixes + 1;
                self.doubled_prefixes += usize::from(self.prefixes == 2);
            }
            Token::Operator => {
                innermost.end_operand();
                innermost.operators += 1;
            }
            Token::Dot => innermost.steps += 1,
            Token::Operand | Token::Optional => {}
        }
        if self.outer.len() + self.outer_conditionals + self.innermost.conditionals > MAX_OPEN {
            return Err(format!("more than {MAX_OPEN} brackets and conditionals are open"));
        }
        if self.outer_depth + self.innermost.depth() > MAX_DEPTH {
            return Err(format!("the expression nests deeper than {MAX_DEPTH} levels"));
        }
        if self.doubled_prefixes > MAX_DOUBLED_PREFIXES {
            return Err(format!("there are more than {MAX_DOUBLED_PREFIXES} doubled prefixes such as !!"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
