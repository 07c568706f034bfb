//! Bounds of CEL expressions, checked on the text before a parser sees it.
//!
//! The parser, the expression it makes, and everything that walks or drops that expression recurse once per level of nesting, and the
//! parser's look-ahead doubles with each doubled prefix operator (`!!(!!(…`). A text within these bounds needs little stack, memory and time.

mod tokens;

use tokens::{Token, Tokens};

/// Bytes of an expression.
pub const MAX_LENGTH: usize = 8192;
/// Names, literals, operators and brackets of an expression.
pub const MAX_TOKENS: usize = 2048;
/// Brackets and conditionals that are open at the same time.
pub const MAX_OPEN: usize = 24;
/// Levels of nesting: brackets, conditionals, prefixes, and operators or members in a row.
pub const MAX_DEPTH: usize = 64;
/// Places with two or more prefix operators in a row.
pub const MAX_DOUBLED_PREFIXES: usize = 4;

/// Why an expression is refused before it is parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem} at byte {position}; {remedy}")]
pub struct ExpressionError {
    problem: String,
    /// From 1.
    position: usize,
    remedy: &'static str,
}

const SHORTEN: &str = "shorten the expression, or decide in the plugin";

/// Checks that the text may be given to a CEL parser. Linear in its length.
///
/// # Errors
/// The text exceeds a bound, or has a character or literal that CEL does not have.
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
        if let Err(problem) = nesting.take(token) {
            return error(problem, position + 1, SHORTEN);
        }
    }
    Ok(())
}

/// What is open at a point of the text.
#[derive(Default)]
struct Nesting {
    /// The levels around the innermost one.
    outer: Vec<Level>,
    here: Level,
    /// The sum over `outer` of how deep its brackets are, and of its conditionals.
    outer_depth: usize,
    outer_conditionals: usize,
    /// Prefix operators directly before this point.
    prefixes: usize,
    doubled_prefixes: usize,
}

/// What stands between two brackets: items with commas between them, of which each has conditionals, junctions and, between those, sums
/// of operands. Each count is an upper bound of what it adds to the depth of the expression.
#[derive(Clone, Copy, Default)]
struct Level {
    /// The depth of the items before this one.
    items: usize,
    /// Conditionals of this item: the next is in the last branch of the one before.
    conditionals: usize,
    /// `&&` and `||` of this item, of which the parser makes a balanced tree.
    junctions: usize,
    /// The depth of the sums before this one in this item.
    sums: usize,
    /// Binary operators of this sum: the first operand is below all of them.
    operators: usize,
    /// The depth of the operands before this one in this sum.
    operands: usize,
    /// Members, calls, indexes and prefixes of this operand.
    steps: usize,
    /// The depth of the brackets of this operand that are closed.
    closed: usize,
}

impl Level {
    fn junction_depth(self) -> usize {
        self.junctions.checked_ilog2().map_or(0, |log| log as usize + 1)
    }

    /// How deep a bracket that opens here is.
    fn path(self) -> usize {
        self.conditionals + self.junction_depth() + self.operators + self.steps
    }

    fn operand(self) -> usize {
        self.operands.max(self.steps + self.closed)
    }

    fn sum(self) -> usize {
        self.sums.max(self.operators + self.operand())
    }

    fn depth(self) -> usize {
        self.items.max(self.conditionals + self.junction_depth() + self.sum())
    }

    fn end_operand(&mut self) {
        *self = Self { operands: self.operand(), steps: 0, closed: 0, ..*self };
    }

    fn end_sum(&mut self) {
        *self = Self { sums: self.sum(), operators: 0, operands: 0, steps: 0, closed: 0, ..*self };
    }
}

impl Nesting {
    fn take(&mut self, token: Token) -> Result<(), String> {
        let prefixes = std::mem::take(&mut self.prefixes);
        let here = &mut self.here;
        match token {
            Token::Open => {
                here.steps += 1;
                self.outer_depth += here.path();
                self.outer_conditionals += here.conditionals;
                self.outer.push(std::mem::take(here));
            }
            // One too many is the parser's to refuse.
            Token::Close => {
                if let Some(mut level) = self.outer.pop() {
                    self.outer_depth -= level.path();
                    self.outer_conditionals -= level.conditionals;
                    level.closed = level.closed.max(here.depth());
                    *here = level;
                }
            }
            Token::Comma => *here = Level { items: here.depth(), ..Level::default() },
            Token::Colon => here.end_sum(),
            Token::Junction => {
                here.end_sum();
                here.junctions += 1;
            }
            Token::Question => {
                here.end_sum();
                here.conditionals += 1;
            }
            Token::Prefix => {
                // It may be a binary minus.
                here.end_operand();
                here.operators += 1;
                self.prefixes = prefixes + 1;
                self.doubled_prefixes += usize::from(self.prefixes == 2);
            }
            Token::Operator => {
                here.end_operand();
                here.operators += 1;
            }
            Token::Dot => here.steps += 1,
            Token::Operand => {}
        }
        if self.outer.len() + self.outer_conditionals + self.here.conditionals > MAX_OPEN {
            return Err(format!("more than {MAX_OPEN} brackets and conditionals are open"));
        }
        if self.outer_depth + self.here.depth() > MAX_DEPTH {
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
