//! Evaluates the macros that bind variables ([`crate::macros`]).

use std::cmp::Ordering;
use std::collections::HashMap;
use std::mem::discriminant;
use std::sync::Arc;

use kube_cel::cel::Value;
use kube_cel::cel::common::ast::IdedExpr;
use kube_cel::cel::objects::Map;

use crate::error::EvaluationError;
use crate::evaluate::{Evaluation, EvaluationResult};
use crate::macros::{BindingMacro, MacroKind};
use crate::type_values::go_name_of_type;
use crate::values::{from_key, optional, owned_key, size, sorted_keys, to_optional};

/// Two values for the variables of a macro: position and element of a list, or key and value of a map.
type Pair = (Value, Value);

impl<'e> Evaluation<'e> {
    pub(crate) fn binding_macro(&mut self, found: &BindingMacro<'e>) -> EvaluationResult {
        let target = self.evaluate(found.target)?;
        match found.kind {
            MacroKind::All => self.quantifier(found, &target, false),
            MacroKind::Exists => self.quantifier(found, &target, true),
            MacroKind::ExistsOne => {
                let mut count = 0_usize;
                for pair in self.pairs(&target)? {
                    count += usize::from(self.condition_with(found, found.body, pair)?);
                }
                Ok(Value::Bool(count == 1))
            }
            MacroKind::TransformList => {
                let mut list = Vec::new();
                for pair in self.filtered_pairs(found, &target)? {
                    list.push(self.with_pair(found, found.body, pair)?);
                }
                Ok(Value::List(Arc::new(list)))
            }
            MacroKind::TransformMap | MacroKind::TransformMapEntry => self.transform_to_map(found, &target),
            MacroKind::OptMap => {
                let value = self.of_optional(found, &target)?;
                Ok(to_optional(value))
            }
            MacroKind::OptFlatMap => {
                let value = self.of_optional(found, &target)?;
                Ok(value.unwrap_or_else(|| to_optional(None)))
            }
            MacroKind::SortBy => self.sort_by(found, &target),
        }
    }

    /// Returns the value of the macro's expression for the value of an optional; `None` if the optional has none.
    fn of_optional(
        &mut self,
        found: &BindingMacro<'e>,
        target: &Value,
    ) -> Result<Option<Value>, EvaluationError> {
        let inner = optional(target).ok_or(EvaluationError::Types("a macro of optionals"))?;
        let Some(value) = inner.value() else { return Ok(None) };
        let value = value.clone();
        self.with_variables(&[(found.variables.0, value)], found.body).map(Some)
    }

    /// Evaluates `exists` if `decisive` is true, `all` if it is false. As CEL defines it, an error is ignored if another element decides.
    fn quantifier(&mut self, found: &BindingMacro<'e>, target: &Value, decisive: bool) -> EvaluationResult {
        let mut undecided = Ok(Value::Bool(!decisive));
        for pair in self.pairs(target)? {
            match self.condition_with(found, found.body, pair) {
                Ok(value) if value == decisive => return Ok(Value::Bool(decisive)),
                Ok(_) => {}
                Err(EvaluationError::Cost) => return Err(EvaluationError::Cost),
                Err(error) => undecided = Err(error),
            }
        }
        undecided
    }

    fn transform_to_map(&mut self, found: &BindingMacro<'e>, target: &Value) -> EvaluationResult {
        let mut entries = HashMap::new();
        for pair in self.filtered_pairs(found, target)? {
            let key = pair.0.clone();
            let value = self.with_pair(found, found.body, pair)?;
            if found.kind == MacroKind::TransformMap {
                let key = owned_key(key)?;
                self.budget().charge_key(&key)?;
                entries.insert(key, value);
                continue;
            }
            let Value::Map(map) = value else { return Err(EvaluationError::Types("transformMapEntry()")) };
            // In the order of the keys, so that neither the cost nor the error depends on hashes.
            for key in sorted_keys(&map, self.budget())? {
                self.budget().charge(1)?;
                self.budget().charge_key(key)?;
                if entries.insert(key.clone(), map.map[key].clone()).is_some() {
                    return Err(EvaluationError::DuplicateKey);
                }
            }
        }
        Ok(Value::Map(Map { map: Arc::new(entries) }))
    }

    /// Sorts a list by the values of the macro's expression, which must be of one type that has an order. Equal elements keep their order.
    fn sort_by(&mut self, found: &BindingMacro<'e>, target: &Value) -> EvaluationResult {
        let Value::List(list) = target else { return Err(EvaluationError::Types("sortBy()")) };
        self.budget().charge_elements(list.len())?;
        let mut keyed = Vec::with_capacity(list.len());
        let mut bytes = 0_usize;
        for element in list.iter() {
            let key = self.with_variables(&[(found.variables.0, element.clone())], found.body)?;
            if !is_sortable(&key)
                || keyed.first().is_some_and(|(first, _)| discriminant(first) != discriminant(&key))
            {
                return Err(EvaluationError::Types("sortBy()"));
            }
            bytes = bytes.saturating_add(size(&key, self.budget())?);
            keyed.push((key, element.clone()));
        }
        self.budget().charge_sort(keyed.len(), bytes)?;
        // The keys are of one type and are ordered, so this is a total order.
        keyed.sort_by(|(left, _), (right, _)| order(left, right));
        Ok(Value::List(Arc::new(keyed.into_iter().map(|(_, element)| element).collect())))
    }

    /// Returns the pairs for which the filter is true.
    fn filtered_pairs(
        &mut self,
        found: &BindingMacro<'e>,
        target: &Value,
    ) -> Result<Vec<Pair>, EvaluationError> {
        let pairs = self.pairs(target)?;
        let Some(filter) = found.filter else { return Ok(pairs) };
        let mut kept = Vec::new();
        for pair in pairs {
            if self.condition_with(found, filter, pair.clone())? {
                kept.push(pair);
            }
        }
        Ok(kept)
    }

    /// Returns the pairs of a list or a map. Those of a map are in the order of the keys, so that nothing depends on hashes.
    fn pairs(&mut self, target: &Value) -> Result<Vec<Pair>, EvaluationError> {
        match target {
            Value::List(list) => {
                self.budget().charge_elements(list.len())?;
                let positions = (0_i64..).map(Value::Int);
                Ok(positions.zip(list.iter().cloned()).collect())
            }
            Value::Map(map) => {
                self.budget().charge_elements(map.map.len())?;
                let keys = sorted_keys(map, self.budget())?;
                Ok(keys.into_iter().map(|key| (from_key(key), map.map[key].clone())).collect())
            }
            other => Err(EvaluationError::NoRange(go_name_of_type(other))),
        }
    }

    fn condition_with(
        &mut self,
        found: &BindingMacro<'e>,
        expression: &'e IdedExpr,
        pair: Pair,
    ) -> Result<bool, EvaluationError> {
        match self.with_pair(found, expression, pair)? {
            Value::Bool(value) => Ok(value),
            _ => Err(EvaluationError::Types("a condition")),
        }
    }

    fn with_pair(
        &mut self,
        found: &BindingMacro<'e>,
        expression: &'e IdedExpr,
        (first, second): Pair,
    ) -> EvaluationResult {
        let (name, other) = found.variables;
        match other {
            Some(other) => self.with_variables(&[(name, first), (other, second)], expression),
            None => self.with_variables(&[(name, second)], expression),
        }
    }
}

/// Whether a list can be sorted by values as this one.
fn is_sortable(value: &Value) -> bool {
    match value {
        Value::Float(value) => !value.is_nan(),
        Value::Int(_)
        | Value::UInt(_)
        | Value::Bool(_)
        | Value::String(_)
        | Value::Bytes(_)
        | Value::Duration(_)
        | Value::Timestamp(_) => true,
        _ => false,
    }
}

/// Compares two keys of one type that [`is_sortable`] accepts.
fn order(left: &Value, right: &Value) -> Ordering {
    match (left, right) {
        (Value::Bytes(left), Value::Bytes(right)) => left.cmp(right),
        _ => left.partial_cmp(right).unwrap_or(Ordering::Equal),
    }
}
