//! Predicates: CEL expressions that decide whether a change queues keys, as controller-runtime's `predicate.Predicate` does.
//!
//! Variables: `object` (the newest state), `old` (the previous state; null except on updates), `event` ("added", "updated", "deleted",
//! "resync"). Functions: `generationChanged()`, `labelsChanged()`, `annotationsChanged()`, each true for additions and deletions, and those
//! of Kubernetes' CEL libraries.

mod change_functions;
mod condition;
#[cfg(test)]
mod condition_tests;
pub(crate) mod parts;
mod read_set;
mod suspension;

pub use pilothouse_cel::COST_LIMIT;
use pilothouse_cel::ast::IdedExpr;
use pilothouse_cel::syntax::{
    calls, first_unknown, has_struct, is_in_namespace, is_name, unknown_in_namespace,
};
use pilothouse_cel::{
    Budget, CompileError, EvaluationError, Expression, Value, from_json, is_missing_from_library,
};
use pilothouse_informer::condition::{Condition, ConditionValue, EventKind};
use pilothouse_model::{Notification, Object};

use change_functions::ChangeFunctions;
use condition::{CHANGE_FUNCTIONS, Translation};
use read_set::ReadSet;
pub(crate) use suspension::PredicateSuspension;

/// A compiled predicate. The empty text is true for every change.
pub struct Predicate(Option<Compiled>);

struct Compiled {
    expression: Expression,
    /// What can be evaluated of the expression without CEL. Where it is true or false, so is the expression.
    condition: Condition,
    /// The fields of `object` that the expression reads; `None` if it does not use the variable.
    object: Option<ReadSet>,
    /// The fields of `old` that the expression reads.
    old: Option<ReadSet>,
}

/// Why a text is not a predicate, or could not be evaluated. Never contains a value of an object.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct PredicateError {
    text: String,
    is_over_cost_limit: bool,
}

impl PredicateError {
    fn new(text: String) -> Self {
        Self { text, is_over_cost_limit: false }
    }

    /// Whether the evaluation cost more than [`COST_LIMIT`].
    pub(crate) fn is_over_cost_limit(&self) -> bool {
        self.is_over_cost_limit
    }
}

impl From<CompileError> for PredicateError {
    fn from(error: CompileError) -> Self {
        Self::new(error.to_string())
    }
}

impl From<EvaluationError> for PredicateError {
    fn from(error: EvaluationError) -> Self {
        Self { is_over_cost_limit: error == EvaluationError::Cost, ..Self::new(error.to_string()) }
    }
}

const VARIABLES: [&str; 3] = ["object", "old", "event"];

impl Predicate {
    /// Compiles a predicate.
    ///
    /// # Errors
    /// The text exceeds a bound on its size, has a syntax error, or uses an unknown variable or function. The error names it.
    pub fn compile(text: &str) -> Result<Self, PredicateError> {
        if text.trim().is_empty() {
            return Ok(Self(None));
        }
        let expression = Expression::compile(text)?;
        let root = expression.root();
        if let Some(name) = first_unknown(root, &mut VARIABLES.to_vec()) {
            return Err(unknown_name(root, name));
        }
        if has_struct(root) {
            return Err(PredicateError::new("a message literal (NAME{...}) is not supported".to_owned()));
        }
        for call in calls(root).into_iter().filter(|call| !is_in_namespace(call)) {
            let name = call.func_name.as_str();
            if is_name(name) && !is_change_function(name) && is_missing_from_library(name) {
                return Err(PredicateError::new(format!(
                    "unknown function {name}(); available are generationChanged(), labelsChanged(), annotationsChanged() and the \
                     CEL libraries of Kubernetes"
                )));
            }
        }
        let [object, old] = ["object", "old"].map(|name| ReadSet::of(root, name));
        let condition = Translation { object: object.as_ref() }.condition(root);
        Ok(Self(Some(Compiled { expression, condition, object, old })))
    }

    /// Returns the size of the compiled literal patterns ([`Expression::patterns_size`]).
    pub(crate) fn patterns_size(&self) -> usize {
        self.0.as_ref().map_or(0, |compiled| compiled.expression.patterns_size())
    }

    /// Whether the evaluation may run the CEL interpreter, so that it may take more than some nanoseconds.
    pub(crate) fn needs_interpreter(&self) -> bool {
        self.0.as_ref().is_some_and(|compiled| !compiled.condition.is_always_decided())
    }

    /// Returns what can be evaluated of the predicate without CEL. The predicate refuses every change for which the condition is false.
    pub(crate) fn condition(&self) -> Condition {
        self.0.as_ref().map_or_else(|| Condition::constant(true), |compiled| compiled.condition.clone())
    }

    /// Whether the change passes the predicate, if that can be decided without CEL.
    pub(crate) fn decide(&self, notification: &Notification) -> Option<bool> {
        let Some(compiled) = &self.0 else { return Some(true) };
        match compiled.condition.evaluate(notification) {
            ConditionValue::True => Some(true),
            ConditionValue::False => Some(false),
            ConditionValue::Error | ConditionValue::Unknown => None,
        }
    }

    /// Whether the change passes the predicate.
    ///
    /// # Errors
    /// The expression failed, cost more than [`COST_LIMIT`], or was not a boolean. The caller treats the change as admitted and logs the
    /// error, as the descriptor's `predicate` promises.
    pub fn admits(&self, notification: &Notification) -> Result<bool, PredicateError> {
        self.decide(notification).map_or_else(|| self.interpret(notification), Ok)
    }

    /// Whether the change passes the predicate, evaluated with CEL.
    ///
    /// # Errors
    /// As [`admits`](Self::admits).
    pub(crate) fn interpret(&self, notification: &Notification) -> Result<bool, PredicateError> {
        let mut budget = Budget::full();
        self.0.as_ref().map_or(Ok(true), |compiled| compiled.interpret(notification, &mut budget))
    }
}

impl Compiled {
    fn interpret(&self, notification: &Notification, budget: &mut Budget) -> Result<bool, PredicateError> {
        let old = match notification {
            Notification::Updated { old, .. } => Some(old),
            _ => None,
        };
        let mut variables = vec![("event", Value::from(event_name(EventKind::of(notification))))];
        if let Some(read_set) = &self.object {
            variables.push(("object", object_value(notification.object(), read_set, budget)?));
        }
        if let Some(read_set) = &self.old {
            let value = old.map(|old| object_value(old, read_set, budget)).transpose()?;
            variables.push(("old", value.unwrap_or(Value::Null)));
        }
        let functions = ChangeFunctions::new(old, notification.object());
        match self.expression.evaluate_with(variables, &functions, budget)? {
            Value::Bool(admitted) => Ok(admitted),
            other => Err(PredicateError::new(format!(
                "the predicate has a value of the type {}, not a boolean",
                other.type_of()
            ))),
        }
    }
}

/// Returns the error about a name that is no variable: it may be a namespace that lacks the function.
fn unknown_name(root: &IdedExpr, name: &str) -> PredicateError {
    for call in calls(root) {
        if let Some((namespace, functions)) = unknown_in_namespace(call).filter(|(found, _)| *found == name) {
            let (function, functions) = (&call.func_name, functions.join(", "));
            return PredicateError::new(format!(
                "unknown function {namespace}.{function}(); the functions of {namespace} are {functions}"
            ));
        }
    }
    PredicateError::new(format!("unknown variable {name:?}; the variables are object, old and event"))
}

/// Returns what is read of an object. The conversion is a part of the evaluation's cost.
fn object_value(object: &Object, read_set: &ReadSet, budget: &mut Budget) -> Result<Value, EvaluationError> {
    read_set.extract(object, budget).map(from_json)
}

/// Returns the value of the variable `event`.
fn event_name(kind: EventKind) -> &'static str {
    match kind {
        EventKind::Added => "added",
        EventKind::Updated => "updated",
        EventKind::Resync => "resync",
        EventKind::Deleted => "deleted",
    }
}

fn is_change_function(name: &str) -> bool {
    CHANGE_FUNCTIONS.iter().any(|(known, _)| *known == name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(generation: u32, label: &str) -> Object {
        let text = format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"a","resourceVersion":"{generation}{label}",
            "generation":{generation},"labels":{{"app":"{label}"}}}},"spec":{{"replicas":{generation}}}}}"#
        );
        Object::from_json(text).expect("an object")
    }

    fn updated(old: Object, new: Object) -> Notification {
        Notification::Updated { old, new }
    }

    fn admits(predicate: &str, notification: &Notification) -> bool {
        Predicate::compile(predicate).expect(predicate).admits(notification).expect(predicate)
    }

    #[test]
    fn a_predicate_compares_the_old_and_the_new_state() {
        let change = updated(object(1, "x"), object(2, "x"));
        for (predicate, expected) in [
            ("", true),
            ("generationChanged()", true),
            ("labelsChanged()", false),
            ("annotationsChanged()", false),
            ("event == 'updated'", true),
            ("object.spec.replicas > old.spec.replicas", true),
            ("has(object.metadata.labels) && object.metadata.labels.app == 'y'", false),
            ("labelsChanged() || object.metadata.name.startsWith('a')", true),
        ] {
            assert_eq!(admits(predicate, &change), expected, "{predicate}");
        }
        let resync = updated(object(1, "x"), object(1, "x"));
        assert!(admits("event == 'resync' && !generationChanged()", &resync));
    }

    #[test]
    fn additions_and_deletions_count_as_changed_and_have_no_old_state() {
        let added = Notification::Added { object: object(1, "x"), initial: false };
        let deleted = Notification::Deleted { last: object(1, "x"), final_state_unknown: false };
        for (notification, event) in [(added, "added"), (deleted, "deleted")] {
            let predicate =
                format!("generationChanged() && labelsChanged() && old == null && event == '{event}'");
            assert!(admits(&predicate, &notification), "{event}");
        }
    }

    #[test]
    fn converting_a_large_object_is_a_part_of_the_cost() {
        let items = vec![r#"{"":0}"#; 100_000].join(",");
        let text = format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"a","resourceVersion":"1"}},"items":[{items}]}}"#
        );
        let object = Object::from_json(text).expect("an object");
        let added = Notification::Added { object, initial: false };
        let whole = Predicate::compile("object == null || true").expect("compiles");
        assert!(whole.admits(&added).is_err_and(|error| error.to_string().contains("costs more than")));
        assert!(admits("object.metadata.name == 'a'", &added), "what is not read costs nothing");
    }

    /// Returns what an evaluation with CEL costs.
    fn cost(predicate: &str, notification: &Notification) -> u64 {
        let mut budget = Budget::full();
        let predicate = Predicate::compile(predicate).expect(predicate);
        let _ = predicate.0.expect("a text").interpret(notification, &mut budget).expect("within the limit");
        COST_LIMIT - budget.left()
    }

    #[test]
    fn a_change_function_charges_the_texts_that_it_compares_and_compares_once() {
        const SIZE: usize = 200_000;
        let update = |part: &str, value: &str| {
            let object = |version: u32, value: &str| {
                let text = format!(
                    r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"a","resourceVersion":"{version}",
                    "{part}":{{"a":"{value}"}}}}}}"#
                );
                Object::from_json(text).expect("an object")
            };
            updated(object(1, value), object(2, &format!("{value}x")))
        };
        for (function, part) in [("labelsChanged()", "labels"), ("annotationsChanged()", "annotations")] {
            let (small, large) = (update(part, ""), update(part, &"x".repeat(SIZE)));
            let list = format!("[{}]", vec!["0"; 50].join(","));
            let often = format!("{list}.all(a, {list}.all(b, {function}))");
            for predicate in [function, &often] {
                let charged = cost(predicate, &large) - cost(predicate, &small);
                let both = 2 * SIZE as u64 / 10;
                assert!((both - 2..both + 2).contains(&charged), "{predicate}: {charged} of {both}");
            }
        }
    }

    #[test]
    fn a_lookup_that_finds_nothing_is_a_part_of_the_cost() {
        const SIZE: usize = 100_000;
        let added = |size: usize| {
            let text = format!(
                r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"a","resourceVersion":"1"}},"text":"{}","last":1}}"#,
                "x".repeat(size)
            );
            let object = Object::from_json(text).expect("an object");
            Notification::Added { object, initial: false }
        };
        let (small, large) = (added(1), added(SIZE));
        for (predicate, lookups) in [
            ("has(object.metadata.generation)", 1),
            ("has(object.last)", 1),
            ("has(object.a) || has(object.b) || has(object.c) || true", 3),
            ("object.metadata.name == 'a'", 0),
        ] {
            let charged = cost(predicate, &large) - cost(predicate, &small);
            let whole = SIZE as u64 / 100;
            assert!(charged >= lookups * (whole - 1), "{predicate}: {charged}");
            assert!(lookups > 0 || charged == 0, "{predicate}: {charged}");
        }
    }

    #[test]
    fn a_value_that_is_nested_too_deeply_is_an_error_and_not_null() {
        let nested = format!("{}{}", "[".repeat(200), "]".repeat(200));
        let text = format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"a","resourceVersion":"1"}},"spec":{{"x":{nested}}}}}"#
        );
        let added =
            Notification::Added { object: Object::from_json(text).expect("an object"), initial: false };
        for text in ["object.spec.x != null", "object != null"] {
            let error = Predicate::compile(text).expect(text).admits(&added).expect_err(text).to_string();
            assert!(error.contains("nested too deeply"), "{text}: {error}");
        }
        assert!(admits("object.metadata.name == 'a'", &added), "what is not read may nest");
    }

    #[test]
    fn functions_of_cel_and_kubernetes_compile() {
        for predicate in [
            "!(1 + 2 * 3 > 4 || 5 % 2 in [1]) && -1 < 0",
            "object.items.all(item, item.name.matches('a')) && object.items.exists_one(item, has(item.name))",
            "size(object.items.filter(item, item > 1).map(item, item * 2)) == int('2')",
            "duration('1s') < duration('2s') && string(1) == '1' && timestamp('2026-01-01T00:00:00Z') != null",
            "isQuantity('1Gi') && quantity('1Gi').isGreaterThan(quantity('1Mi'))",
            "object.metadata.name.lowerAscii().split('-')[0].replace('a', 'b').endsWith('b')",
            "[1, 2].sum() == 3 && ['b', 'a'].isSorted()",
        ] {
            assert!(Predicate::compile(predicate).is_ok(), "{predicate}: {}", refusal(predicate));
        }
    }

    fn refusal(predicate: &str) -> String {
        Predicate::compile(predicate).err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn invalid_predicates_are_refused_and_failing_ones_reported() {
        let error = |text: &str| match Predicate::compile(text) {
            Ok(_) => panic!("{text} compiled"),
            Err(error) => error.to_string(),
        };
        assert!(error("object.").contains("Syntax error"), "{}", error("object."));
        assert!(error("pod.spec == 1").contains("unknown variable \"pod\""));
        assert_eq!(
            error("sets.union(object.a, object.b) == []"),
            "unknown function sets.union(); the functions of sets are contains, equivalent, intersects"
        );
        let method_of_variable = "object.items.all(ip, ip.startsWith('10.'))";
        assert!(
            Predicate::compile(method_of_variable).is_ok(),
            "a variable may have the name of a namespace"
        );
        let bound = "object.items.all(item, item.size() > 0) && item == 1";
        assert!(
            error(bound).contains("unknown variable \"item\""),
            "the variable is bound inside of the macro only"
        );
        assert!(error("generationChange()").contains("unknown function generationChange()"));
        assert!(error("object.metadata.name.startWith('a')").contains("unknown function startWith()"));
        let change = updated(object(1, "x"), object(2, "x"));
        let predicate = Predicate::compile("object.spec.nothing > 3").expect("compiles");
        assert!(predicate.admits(&change).is_err());
        let predicate = Predicate::compile("object.spec.replicas").expect("compiles");
        assert!(predicate.admits(&change).expect_err("no boolean").to_string().contains("not a boolean"));
    }

    #[test]
    fn an_error_does_not_contain_values_of_the_object() {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "uid": "u", "resourceVersion": "1"},
            "data": {"password": "c2VjcmV0"}, "list": ["c2VjcmV0"]});
        let object = Object::from_json(secret.to_string()).expect("an object");
        let added = Notification::Added { object, initial: false };
        for text in [
            "object",
            "object.data",
            "object.data.password",
            "object.list",
            "object.data.password + 1",
            "object.data + object.data",
            "object.data < object.data",
            "object.data[object.data.password]",
            "object.list[object.data.password]",
            "int(object.data.password) == 1",
            "duration(object.data.password) == duration('1s')",
            "timestamp(object.data.password) == null",
            "quantity(object.data.password) == null",
            "object.data.size(object)",
            "size(object.data.password == 'x')",
            "string(object.data)",
            "'a'.matches(object.data.password + '(')",
            "object.data.password.charAt(1000)",
            "{object.data: 1}",
            "-object.data.password == 1",
            "object.data.password ? true : false",
            "object.data.all(k, object.data[k])",
            "object.data.password.format([object])",
        ] {
            let error = Predicate::compile(text).expect(text).admits(&added).expect_err(text).to_string();
            assert!(
                !error.contains("c2VjcmV0") && !error.contains("password\"") && error.len() < 200,
                "{text}: {error}"
            );
        }
    }
}
