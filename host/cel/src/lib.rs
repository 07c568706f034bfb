//! CEL expressions of plugins and CRDs: bounded before they are parsed, and metered while they run.
//!
//! An [`Expression`] is compiled once. Each evaluation has a [`Budget`], which bounds its time and its memory. The library `kube-cel` parses the
//! text and provides the functions; its interpreter is not used, because it can be neither metered nor stopped
//! (docs/decisions/0013-metered-expressions.md).

pub mod bounds;
mod budget;
pub mod check;
mod conversions;
mod error;
mod evaluate;
mod evaluate_macros;
mod expression;
mod functions;
mod host_functions;
mod macros;
mod objects;
mod pattern_work;
mod patterns;
pub mod syntax;
mod syntax_errors;
#[cfg(test)]
mod tests;
mod type_values;
mod values;

pub use budget::{Budget, COST_LIMIT};
pub use error::{CompileError, EvaluationError, Hidden};
pub use evaluate::Selection;
pub use expression::Expression;
pub use functions::{base64_bytes, duration, is_missing_from_library, timestamp};
pub use host_functions::HostFunctions;
pub use kube_cel::cel::Value;
pub use kube_cel::cel::common::ast;
pub use kube_cel::cel::objects::{Key, Map, Opaque};
pub use objects::ObjectValue;
pub use pattern_work::pattern_work;
pub use patterns::MAX_PATTERNS_SIZE;
pub use syntax_errors::syntax_errors;
pub use values::{from_json, to_optional};
