//! A compiled expression.

use std::panic::catch_unwind;

use kube_cel::cel::common::ast::IdedExpr;
use kube_cel::cel::parser::Parser;
use kube_cel::cel::{ParseErrors, Value};

use crate::bounds;
use crate::budget::Budget;
use crate::error::{CompileError, EvaluationError};
use crate::evaluate::{Evaluation, Mode, Selection};
use crate::host_functions::{HostFunctions, NoFunctions};
use crate::patterns::Patterns;
use crate::syntax::{calls, uses_variable};

/// The stack that the parser gets. It recurses, and needs most of this for the deepest text that [`bounds`] allows when it is compiled
/// without optimisation.
const PARSER_STACK: usize = 16 << 20;

/// Parses a text, which [`bounds::check`] has accepted; `None` if the parser panics, as it does at some malformed texts.
pub(crate) fn parse(text: &str) -> Option<Result<IdedExpr, ParseErrors>> {
    stacker::grow(PARSER_STACK, || catch_unwind(|| Parser::new().enable_optional_syntax(true).parse(text)))
        .ok()
}

/// A compiled expression.
pub struct Expression {
    root: IdedExpr,
    patterns: Patterns,
    mode: Mode,
}

impl Expression {
    /// Compiles a text. Variables and functions are not checked ([`crate::syntax`]).
    ///
    /// # Errors
    /// The text exceeds a bound ([`crate::bounds`]), has a syntax error, or a literal pattern that is no regular expression or is too large.
    pub fn compile(text: &str) -> Result<Self, CompileError> {
        bounds::check(text)?;
        let root = parse(text).ok_or(CompileError::Malformed)?.map_err(|error| {
            CompileError::Syntax(error.to_string().split_whitespace().collect::<Vec<_>>().join(" "))
        })?;
        let patterns = Patterns::of(&calls(&root))?;
        Ok(Self { root, patterns, mode: Mode::default() })
    }

    /// Sets what a selection from a value without members is. The default is the error of cel-go.
    #[must_use]
    pub fn with_selection(self, selection: Selection) -> Self {
        Self { mode: Mode { selection, ..self.mode }, ..self }
    }

    /// Allows the expression to construct objects, such as `Object.spec{replicas: 1}`. The caller checks the names of their types.
    #[must_use]
    pub fn constructing_objects(self) -> Self {
        Self { mode: Mode { constructs_objects: true, ..self.mode }, ..self }
    }

    /// Returns an upper bound of the bytes that the compiled patterns of the expression take. The work to compile them counts, too, as for
    /// [`MAX_PATTERNS_SIZE`](crate::MAX_PATTERNS_SIZE).
    pub fn patterns_size(&self) -> usize {
        self.patterns.size()
    }

    /// Returns the root of the syntax tree.
    pub fn root(&self) -> &IdedExpr {
        &self.root
    }

    /// Whether the expression refers to a variable of this name.
    pub fn uses_variable(&self, name: &str) -> bool {
        uses_variable(&self.root, name)
    }

    /// Returns the expression's value, with the functions of the library only.
    ///
    /// # Errors
    /// The expression failed, or cost more than the budget.
    pub fn evaluate(
        &self,
        variables: Vec<(&str, Value)>,
        budget: &mut Budget,
    ) -> Result<Value, EvaluationError> {
        self.evaluate_with(variables, &NoFunctions, budget)
    }

    /// Returns the expression's value. `functions` are called before those of the library.
    ///
    /// # Errors
    /// The expression failed, or cost more than the budget.
    pub fn evaluate_with(
        &self,
        variables: Vec<(&str, Value)>,
        functions: &dyn HostFunctions,
        budget: &mut Budget,
    ) -> Result<Value, EvaluationError> {
        Evaluation::new(variables, &self.patterns, functions, budget)
            .with_mode(self.mode)
            .evaluate(self.root())
    }
}

impl std::fmt::Debug for Expression {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Expression").field("root", self.root()).finish_non_exhaustive()
    }
}
