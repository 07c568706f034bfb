//! Functions that the caller of an evaluation adds to those of the library.

use kube_cel::cel::Value;

use crate::budget::Budget;
use crate::error::EvaluationError;

/// Functions that an expression can call beside those of the library, in the form `name(argument, …)`.
pub trait HostFunctions {
    /// Calls a function; `None` if there is none of this name with so many arguments. The implementation charges what it costs.
    fn call(
        &self,
        name: &str,
        arguments: &[Value],
        budget: &mut Budget,
    ) -> Option<Result<Value, EvaluationError>>;

    /// Calls a method of a value of the caller, `target.name(argument, …)`; `None` if there is none. The implementation charges what it costs.
    fn call_method(
        &self,
        _name: &str,
        _target: &Value,
        _arguments: &[Value],
        _budget: &mut Budget,
    ) -> Option<Result<Value, EvaluationError>> {
        None
    }
}

/// No functions beside those of the library.
pub(crate) struct NoFunctions;

impl HostFunctions for NoFunctions {
    fn call(&self, _: &str, _: &[Value], _: &mut Budget) -> Option<Result<Value, EvaluationError>> {
        None
    }
}
