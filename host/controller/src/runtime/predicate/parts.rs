//! Evaluates the parts of a predicate for a cached object, to show why it is true or false.
//!
//! The change that the object came with is not known any more, so parts that compare states or read `event` have no value here.

use pilothouse_cel::bounds::Operands;
use pilothouse_cel::syntax::calls;
use pilothouse_model::{Notification, Object};

use super::Predicate;
use crate::explain::{PredicatePart, PredicateSituation, PredicateValue};

/// The maximum number of parts that are evaluated one by one. Each costs as much as one evaluation of the predicate.
const MAX_PARTS: usize = 16;

impl Predicate {
    /// Whether the value depends on more than the newest state of the object.
    fn depends_on_change(&self) -> bool {
        let Some(compiled) = &self.0 else { return false };
        let expression = &compiled.expression;
        // Functions without arguments compare the old state with the new one; there are no others.
        let compares =
            calls(expression.root()).iter().any(|call| call.target.is_none() && call.args.is_empty());
        compares || expression.uses_variable("old") || expression.uses_variable("event")
    }
}

/// Returns the value of a predicate for an object, and that of each of its parts.
pub(crate) fn explain(text: &str, object: &Object) -> PredicateSituation {
    let change = Notification::Added { object: object.clone(), initial: false };
    let mut operands = Operands::of(text);
    if operands.count() > MAX_PARTS {
        operands = Operands::One(text);
    }
    let mut parts = Vec::new();
    let value = value_of(&operands, &change, &mut parts);
    PredicateSituation { text: text.to_owned(), value, parts }
}

fn value_of(
    operands: &Operands<'_>,
    change: &Notification,
    parts: &mut Vec<PredicatePart>,
) -> PredicateValue {
    let (operands, decisive) = match operands {
        Operands::One(text) => {
            let value = part(text, change);
            parts.push(PredicatePart { text: (*text).to_owned(), value });
            return value;
        }
        Operands::All(operands) => (operands, PredicateValue::False),
        Operands::Any(operands) => (operands, PredicateValue::True),
    };
    let values: Vec<_> = operands.iter().map(|operand| value_of(operand, change, parts)).collect();
    // As in CEL, an operand that decides makes errors of the others irrelevant.
    let by_weight = [decisive, PredicateValue::DependsOnChange, PredicateValue::Fails];
    let heaviest = by_weight.into_iter().find(|value| values.contains(value));
    heaviest.unwrap_or(match decisive {
        PredicateValue::False => PredicateValue::True,
        _ => PredicateValue::False,
    })
}

fn part(text: &str, change: &Notification) -> PredicateValue {
    let Ok(predicate) = Predicate::compile(text) else { return PredicateValue::Fails };
    if predicate.depends_on_change() {
        return PredicateValue::DependsOnChange;
    }
    match predicate.admits(change) {
        Ok(true) => PredicateValue::True,
        Ok(false) => PredicateValue::False,
        Err(_) => PredicateValue::Fails,
    }
}

#[cfg(test)]
mod tests {
    use super::PredicateValue::{DependsOnChange, Fails, False, True};
    use super::*;

    #[test]
    fn each_part_has_a_value_and_they_give_that_of_the_whole() {
        let object = Object::from_json(
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","resourceVersion":"8","generation":2},"spec":{"replicas":0}}"#,
        )
        .expect("an object");
        for (text, whole, parts) in [
            ("", True, &[True][..]),
            ("object.spec.replicas > 0", False, &[False][..]),
            ("object.spec.replicas == 0 && object.metadata.name == 'a'", True, &[True, True][..]),
            ("generationChanged() && object.spec.replicas > 0", False, &[DependsOnChange, False][..]),
            (
                "generationChanged() && object.spec.replicas == 0",
                DependsOnChange,
                &[DependsOnChange, True][..],
            ),
            ("old == null || object.spec.replicas == 0", True, &[DependsOnChange, True][..]),
            (
                "event == 'deleted' || object.spec.replicas > 0",
                DependsOnChange,
                &[DependsOnChange, False][..],
            ),
            ("object.spec.nothing > 1 && object.spec.replicas > 0", False, &[Fails, False][..]),
            ("object.spec.nothing > 1 || object.spec.replicas > 0", Fails, &[Fails, False][..]),
            (
                "(object.spec.replicas > 0 || labelsChanged()) && true",
                DependsOnChange,
                &[False, DependsOnChange, True][..],
            ),
        ] {
            let explained = explain(text, &object);
            let values: Vec<_> = explained.parts.iter().map(|part| part.value).collect();
            assert_eq!((explained.value, &values[..]), (whole, parts), "{text}");
        }
    }

    #[test]
    fn a_predicate_of_many_parts_is_evaluated_as_a_whole() {
        let object = Object::from_json(
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","resourceVersion":"8"}}"#,
        )
        .expect("an object");
        let text = vec!["object.metadata.name == 'a'"; MAX_PARTS + 1].join(" && ");
        let explained = explain(&text, &object);
        assert_eq!((explained.value, explained.parts.len()), (PredicateValue::True, 1));
    }
}
