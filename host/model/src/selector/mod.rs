//! Label and field selectors, with the grammars of `k8s.io/apimachinery/pkg/labels` and `k8s.io/apimachinery/pkg/fields`.

mod field;
mod label;
#[cfg(test)]
mod tests;

pub use field::{FieldRequirement, FieldSelector};
pub use label::{LabelRequirement, LabelSelector, Operator};

/// Why a selector was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("selector {selector:?}: {problem} at column {column}; {remedy}")]
#[non_exhaustive]
pub struct SelectorError {
    /// The whole selector as it was given.
    pub selector: String,
    /// What is wrong.
    pub problem: String,
    /// Where the problem is, in characters from 1.
    pub column: usize,
    /// How to write a selector.
    pub remedy: &'static str,
}
