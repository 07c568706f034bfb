//! Regular expressions of CEL: the functions that search with one, and the limits of compiling and searching.

use std::collections::BTreeMap;

use kube_cel::cel::Value;
use kube_cel::cel::common::ast::{CallExpr, Expr, LiteralValue};
use regex::{Regex, RegexBuilder};

use crate::budget::Budget;
use crate::error::{CompileError, EvaluationError};
use crate::pattern_work::pattern_work;

/// The names of the functions that take a pattern.
const PATTERN_FUNCTIONS: [&str; 3] = ["matches", "find", "findAll"];

/// The bytes that the compiled literal patterns of one expression may take. The work to compile them counts, too: two code points that are
/// visited ([`pattern_work`]) as a byte.
pub const MAX_PATTERNS_SIZE: usize = 1 << 20;

/// A compiled regular expression.
#[derive(Debug)]
struct Pattern {
    regex: Regex,
    /// An upper bound of the bytes that the compiled form takes, or the work to compile it if that counts for more.
    size: usize,
    /// The cost per ten bytes of text.
    factor: u64,
}

impl Pattern {
    /// Maximum compiled sizes in bytes, each with the cost per ten bytes of text.
    const SIZES: [(usize, u64); 2] = [(16 << 10, 30), (256 << 10, 1000)];
    /// The maximum length of a pattern in bytes.
    const MAX_LENGTH: usize = 4096;
    /// The cost of compiling a pattern during an evaluation, without its work.
    const SMALL_COST: u64 = 20_000;
    /// The cost of compiling a pattern that takes more than the smallest size, or that is refused.
    const LARGE_COST: u64 = 100_000;

    /// Compiles a pattern. `work_size` is its [`work_size`].
    fn new(text: &str, work_size: usize) -> Option<Self> {
        let compiled = |(size, factor): (usize, u64)| {
            let regex =
                RegexBuilder::new(text).size_limit(size).dfa_size_limit(1 << 20).nest_limit(50).build();
            regex.ok().map(|regex| Self { regex, size: size.max(work_size), factor })
        };
        if text.len() > Self::MAX_LENGTH { None } else { Self::SIZES.into_iter().find_map(compiled) }
    }

    /// Compiles a pattern that is no literal.
    fn compile_charged(text: &str, name: &str, budget: &mut Budget) -> Result<Self, EvaluationError> {
        let refused = || EvaluationError::Pattern(name.to_owned());
        budget.charge(Self::SMALL_COST)?;
        if text.len() > Self::MAX_LENGTH {
            return Err(refused());
        }
        let work = pattern_work(text);
        budget.charge(work / 10)?;
        let compiled = Self::new(text, 0);
        if compiled.as_ref().is_none_or(|pattern| pattern.size > Self::SIZES[0].0) {
            budget.charge(Self::LARGE_COST - Self::SMALL_COST)?;
        }
        compiled.ok_or_else(refused)
    }

    /// Returns the cost of one search in a text of this many bytes.
    fn cost(&self, bytes: usize) -> u64 {
        (bytes as u64 / 10 + 1).saturating_mul(self.factor)
    }

    /// Returns at most `limit` matches. Each search may read all of the text after the last match, however short the next match is, so each
    /// one is charged. The caller has charged the first one.
    fn find_all(&self, text: &str, limit: usize, budget: &mut Budget) -> Result<Value, EvaluationError> {
        let mut found = Vec::new();
        for next in self.regex.find_iter(text).take(limit) {
            found.push(Value::from(next.as_str()));
            if found.len() < limit {
                budget.charge(self.cost(text.len() - next.end()))?;
            }
        }
        Ok(Value::from(found))
    }
}

/// The patterns that are literals in an expression, compiled with it.
#[derive(Debug)]
pub(crate) struct Patterns(BTreeMap<String, Pattern>);

impl Patterns {
    /// Compiles the patterns that are literals in these calls.
    ///
    /// # Errors
    /// A pattern is not a regular expression, or is too large, or they are too large together.
    pub(crate) fn of(calls: &[&CallExpr]) -> Result<Self, CompileError> {
        let mut patterns = Self(BTreeMap::new());
        for (call, text) in calls.iter().filter_map(|call| Some((call, literal_pattern(call)?))) {
            if patterns.0.contains_key(text) {
                continue;
            }
            let refused = || CompileError::Pattern(call.func_name.clone());
            if text.len() > Pattern::MAX_LENGTH {
                return Err(refused());
            }
            let work_size = work_size(text);
            if patterns.size().saturating_add(work_size) > MAX_PATTERNS_SIZE {
                return Err(CompileError::Patterns);
            }
            let pattern = Pattern::new(text, work_size).ok_or_else(refused)?;
            patterns.0.insert(text.to_owned(), pattern);
            if patterns.size() > MAX_PATTERNS_SIZE {
                return Err(CompileError::Patterns);
            }
        }
        Ok(patterns)
    }

    /// Returns what counts towards [`MAX_PATTERNS_SIZE`].
    pub(crate) fn size(&self) -> usize {
        self.0.values().map(|pattern| pattern.size).sum()
    }
}

/// Calls one of [`PATTERN_FUNCTIONS`].
pub(crate) fn call_pattern_function(
    name: &str,
    text: &str,
    pattern: &str,
    rest: &[Value],
    patterns: &Patterns,
    budget: &mut Budget,
) -> Result<Value, EvaluationError> {
    let compiled;
    let pattern = match patterns.0.get(pattern) {
        Some(literal) => literal,
        None => {
            compiled = Pattern::compile_charged(pattern, name, budget)?;
            &compiled
        }
    };
    budget.charge(pattern.cost(text.len()))?;
    match (name, rest) {
        ("matches", [_]) => Ok(Value::Bool(pattern.regex.is_match(text))),
        ("find", [_]) => {
            Ok(pattern.regex.find(text).map_or_else(|| Value::from(""), |found| Value::from(found.as_str())))
        }
        ("findAll", [_]) => pattern.find_all(text, usize::MAX, budget),
        ("findAll", [_, Value::Int(limit)]) => {
            pattern.find_all(text, usize::try_from(*limit).unwrap_or(usize::MAX), budget)
        }
        _ => Err(EvaluationError::Function(name.to_owned())),
    }
}

/// Returns the work to compile a pattern, as it counts towards [`MAX_PATTERNS_SIZE`].
fn work_size(pattern: &str) -> usize {
    usize::try_from(pattern_work(pattern) / 2).unwrap_or(usize::MAX)
}

/// Returns the pattern of a call if it is a literal: `'text'.matches('pattern')` or `matches('text', 'pattern')`.
fn literal_pattern(call: &CallExpr) -> Option<&str> {
    if !PATTERN_FUNCTIONS.contains(&call.func_name.as_str()) {
        return None;
    }
    match &call.args.get(usize::from(call.target.is_none()))?.expr {
        Expr::Literal(LiteralValue::String(text)) => Some(text.inner()),
        _ => None,
    }
}
