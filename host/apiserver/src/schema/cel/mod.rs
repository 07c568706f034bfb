//! CEL rules of custom resources (`x-kubernetes-validations`).
//!
//! The rules of a node are compiled once, when the schema of the CRD is parsed. This module traverses objects as Kubernetes does: it correlates
//! old and new list items by their keys, and skips transition rules for items without a counterpart.
//!
//! The CRD of a plugin is text from its author. An evaluation therefore costs at most [`COST_LIMIT`](pilothouse_cel::COST_LIMIT) units, and all evaluations for one object
//! cost at most [`OBJECT_COST_LIMIT`]. Both are Kubernetes' limits. Failures are a part of the cost here, because an object can have one for each
//! of its items.

mod check;
mod evaluation;
mod rules;
mod values;

pub(super) use check::check_rules;
pub(super) use evaluation::{evaluate, evaluate_default};
pub(super) use rules::CelRules;
pub(crate) use rules::{MAX_RULES_LENGTH, rules_length};

/// The units that all rules together may cost for one object, the same as Kubernetes' `RuntimeCELCostBudget`.
pub(super) const OBJECT_COST_LIMIT: u64 = 10_000_000;
