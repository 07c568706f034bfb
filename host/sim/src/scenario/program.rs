//! CEL expressions of scenarios, with functions that read the objects of the server.
//!
//! `objects(kind)` and `objects(kind, namespace)` return a list, `object(kind, name)` and `object(kind, name, namespace)`
//! an object or `null`, and `exists(…)` whether there is one.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use pilothouse_cel::ast::{CallExpr, Expr, LiteralValue};
use pilothouse_cel::check::{Type, check_condition, check_count};
use pilothouse_cel::syntax::{calls, first_unknown, has_struct, is_in_namespace, is_name};
use pilothouse_cel::{
    Budget, EvaluationError, Expression, HostFunctions, Selection, Value, from_json, is_missing_from_library,
};
use pilothouse_model::ResourceType;
use pilothouse_yaml::suggestion;

use super::kinds::Kinds;
use super::object_reference::DEFAULT_NAMESPACE;
use super::text::quoted;
use crate::START_TIME;
use crate::actor::ObjectView;

/// The functions that read objects.
const OBJECT_FUNCTIONS: [&str; 3] = ["objects", "object", "exists"];

/// Objects as CEL values.
pub trait ObjectValues {
    /// Returns all objects of a resource, in all namespaces or in one, in the order of namespace and name.
    fn list(&self, resource: &ResourceType, namespace: Option<&str>) -> Vec<Value>;

    /// Returns one object. `namespace` is "" for cluster-scoped objects.
    fn get(&self, resource: &ResourceType, namespace: &str, name: &str) -> Option<Value>;
}

/// CEL values of objects. An object is converted once, as long as the view returns the same one.
#[derive(Debug, Default)]
pub(super) struct ValueCache(RefCell<BTreeMap<usize, (Arc<serde_json::Value>, Value)>>);

/// The most values in a cache.
const MAX_CACHED: usize = 1000;

impl ValueCache {
    /// Returns the value of an object.
    pub(super) fn value(&self, object: &Arc<serde_json::Value>) -> Value {
        // The cache keeps the object, so that no other one can have its address.
        let address = Arc::as_ptr(object) as usize;
        let mut cached = self.0.borrow_mut();
        if let Some((_, value)) = cached.get(&address) {
            return value.clone();
        }
        if cached.len() == MAX_CACHED {
            cached.clear();
        }
        let value = from_json((**object).clone());
        cached.insert(address, (Arc::clone(object), value.clone()));
        value
    }
}

/// The objects of a view.
pub(super) struct ViewValues<'a> {
    pub(super) view: &'a dyn ObjectView,
    pub(super) cache: &'a ValueCache,
}

impl ObjectValues for ViewValues<'_> {
    fn list(&self, resource: &ResourceType, namespace: Option<&str>) -> Vec<Value> {
        let objects = self.view.list(resource).into_iter();
        let is_in =
            |object: &serde_json::Value| namespace.is_none_or(|name| object["metadata"]["namespace"] == name);
        objects.filter(|object| is_in(object)).map(|object| self.cache.value(&object)).collect()
    }

    fn get(&self, resource: &ResourceType, namespace: &str, name: &str) -> Option<Value> {
        self.view.get(resource, namespace, name).map(|object| self.cache.value(&object))
    }
}

/// Which objects an expression can read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reads {
    /// Those of these resources.
    Only(Vec<ResourceType>),
    /// Any: a kind is computed.
    Any,
}

/// A compiled expression of a scenario.
#[derive(Debug)]
pub struct Program {
    text: String,
    expression: Expression,
    kinds: Arc<Kinds>,
    reads: Reads,
    /// The variables that the expression uses.
    used: Vec<String>,
}

impl Program {
    /// Compiles an expression that may use these variables.
    ///
    /// # Errors
    /// Errors with one line if it is not valid, or uses an unknown variable, function or kind.
    pub fn compile(text: &str, variables: &[&str], kinds: &Arc<Kinds>) -> Result<Self, String> {
        let located = |problem: String| format!("the expression {}: {problem}", quoted(text.trim()));
        let expression = Expression::compile(text).map_err(|error| located(error.to_string()))?;
        // So that conditions about an object that does not exist are false.
        let expression = expression.with_selection(Selection::FalseWithoutMembers);
        let root = expression.root();
        if let Some(name) = first_unknown(root, &mut variables.to_vec()) {
            let remedy = suggestion(name, variables.iter().copied()).map_or_else(
                || format!("known are {}", variables.join(", ")),
                |close| format!("did you mean {close}?"),
            );
            return Err(located(format!("unknown variable {}; {remedy}", quoted(name))));
        }
        if has_struct(root) {
            return Err(located("a message literal (NAME{...}) is not supported; write a map".to_owned()));
        }
        let mut reads = Vec::new();
        let mut any = false;
        for call in calls(root).into_iter().filter(|call| !is_in_namespace(call)) {
            if call.target.is_none() && OBJECT_FUNCTIONS.contains(&call.func_name.as_str()) {
                match kind_of(call, kinds).map_err(located)? {
                    Some(resource) => reads.push(resource),
                    None => any = true,
                }
            } else if is_name(&call.func_name) && is_missing_from_library(&call.func_name) {
                let remedy = suggestion(&call.func_name, OBJECT_FUNCTIONS).map_or_else(
                    || {
                        "available are objects(), object(), exists() and the CEL libraries of Kubernetes"
                            .to_owned()
                    },
                    |close| format!("did you mean {close}()?"),
                );
                return Err(located(format!("unknown function {}(); {remedy}", call.func_name)));
            }
        }
        let reads = if any { Reads::Any } else { Reads::Only(reads) };
        let used =
            variables.iter().filter(|name| expression.uses_variable(name)).map(|name| (*name).to_owned());
        let used = used.collect();
        Ok(Self { text: text.trim().to_owned(), expression, kinds: Arc::clone(kinds), reads, used })
    }

    /// Compiles a condition.
    ///
    /// # Errors
    /// Errors like [`Program::compile`], and if each value of the expression is of another type than `bool`.
    pub fn compile_condition(text: &str, variables: &[&str], kinds: &Arc<Kinds>) -> Result<Self, String> {
        let program = Self::compile(text, variables, kinds)?;
        check_condition(&program.expression, text, variables, &function_types())
            .map_err(|problem| format!("the condition {}: {problem}", quoted(&program.text)))?;
        Ok(program)
    }

    /// Compiles an expression for a number of times.
    ///
    /// # Errors
    /// Errors like [`Program::compile`], and if each value of the expression is of another type than `int`.
    pub fn compile_count(text: &str, variables: &[&str], kinds: &Arc<Kinds>) -> Result<Self, String> {
        let program = Self::compile(text, variables, kinds)?;
        check_count(&program.expression, text, variables, &function_types())
            .map_err(|problem| format!("the expression {}: {problem}", quoted(&program.text)))?;
        Ok(program)
    }

    /// Returns the text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the objects that the expression reads by its functions.
    #[must_use]
    pub fn reads(&self) -> &Reads {
        &self.reads
    }

    /// Whether the expression uses a variable.
    #[must_use]
    pub fn uses(&self, variable: &str) -> bool {
        self.used.iter().any(|used| used == variable)
    }

    /// Returns the value of the expression.
    ///
    /// # Errors
    /// Errors with one line if the evaluation fails or exceeds its budget.
    pub fn evaluate(
        &self,
        variables: Vec<(&str, Value)>,
        objects: &dyn ObjectValues,
    ) -> Result<Value, String> {
        let functions = ObjectFunctions { kinds: &self.kinds, objects };
        self.expression
            .evaluate_with(variables, &functions, &mut Budget::full())
            .map_err(|error| format!("{}: {error}", self.text))
    }

    /// Returns the value of a condition.
    ///
    /// # Errors
    /// Errors with one line if the evaluation fails, or the value is no boolean.
    pub fn holds(&self, variables: Vec<(&str, Value)>, objects: &dyn ObjectValues) -> Result<bool, String> {
        match self.evaluate(variables, objects)? {
            Value::Bool(value) => Ok(value),
            other => Err(format!("{} is of the type {}, not a boolean", self.text, other.type_of())),
        }
    }
}

/// Returns the types of the functions that read objects.
fn function_types() -> [(&'static str, Type); 3] {
    [("objects", Type::list(Type::Dyn)), ("object", Type::Dyn), ("exists", Type::Bool)]
}

/// Returns the resource of a call whose kind is a literal; `None` if the kind is computed.
fn kind_of(call: &CallExpr, kinds: &Kinds) -> Result<Option<ResourceType>, String> {
    let name = call.func_name.as_str();
    let (allowed, form) = match name {
        "objects" => (1..=2, "objects(kind) or objects(kind, namespace)"),
        "object" => (2..=3, "object(kind, name) or object(kind, name, namespace)"),
        _ => (2..=3, "exists(kind, name) or exists(kind, name, namespace)"),
    };
    if !allowed.contains(&call.args.len()) {
        return Err(format!("{name}() has {} arguments; write {form}", call.args.len()));
    }
    match call.args.first().map(|argument| &argument.expr) {
        Some(Expr::Literal(LiteralValue::String(kind))) => {
            kinds.resolve(kind.inner()).map(|info| Some(info.resource.clone()))
        }
        Some(Expr::Literal(_)) => Err(format!("the first argument of {name}() is not a text; write {form}")),
        _ => Ok(None),
    }
}

/// The functions that read objects.
struct ObjectFunctions<'a> {
    kinds: &'a Kinds,
    objects: &'a dyn ObjectValues,
}

impl ObjectFunctions<'_> {
    fn get(&self, name: &str, arguments: &[Value]) -> Result<Option<Value>, EvaluationError> {
        let refused = || EvaluationError::Function(name.to_owned());
        let [Value::String(kind), Value::String(object), rest @ ..] = arguments else {
            return Err(refused());
        };
        let info = self.kinds.resolve(kind).map_err(|_| refused())?;
        let namespace = match (info.resource.namespaced, rest) {
            (false, _) => "",
            (true, [Value::String(namespace)]) => namespace.as_str(),
            (true, []) => DEFAULT_NAMESPACE,
            (true, _) => return Err(refused()),
        };
        Ok(self.objects.get(&info.resource, namespace, object))
    }

    fn list(&self, arguments: &[Value], budget: &mut Budget) -> Result<Value, EvaluationError> {
        let refused = || EvaluationError::Function("objects".to_owned());
        let (kind, namespace) = match arguments {
            [Value::String(kind)] => (kind, None),
            [Value::String(kind), Value::String(namespace)] => (kind, Some(namespace.as_str())),
            _ => return Err(refused()),
        };
        let info = self.kinds.resolve(kind).map_err(|_| refused())?;
        let objects = self.objects.list(&info.resource, namespace);
        budget.charge(objects.len() as u64)?;
        Ok(Value::List(Arc::new(objects)))
    }
}

impl HostFunctions for ObjectFunctions<'_> {
    fn call(
        &self,
        name: &str,
        arguments: &[Value],
        budget: &mut Budget,
    ) -> Option<Result<Value, EvaluationError>> {
        match name {
            "objects" => Some(self.list(arguments, budget)),
            "object" => Some(self.get(name, arguments).map(|object| object.unwrap_or(Value::Null))),
            "exists" => Some(self.get(name, arguments).map(|object| Value::Bool(object.is_some()))),
            _ => None,
        }
    }
}

/// Returns the virtual time as a CEL timestamp.
pub(super) fn now_value(now_ms: u64) -> Value {
    let elapsed = pilothouse_cel::duration(&format!("{now_ms}ms"));
    match (pilothouse_cel::timestamp(START_TIME), elapsed) {
        (Some(start), Some(elapsed)) => (start + elapsed).unwrap_or(Value::Null),
        _ => Value::Null,
    }
}

/// Converts a CEL value to JSON. Timestamps and other types of CEL become `None`.
pub(super) fn to_json(value: &Value) -> Option<serde_json::Value> {
    use pilothouse_cel::Key;
    use serde_json::Value as Json;
    Some(match value {
        Value::Null => Json::Null,
        Value::Bool(value) => Json::Bool(*value),
        Value::Int(value) => Json::from(*value),
        Value::UInt(value) => Json::from(*value),
        Value::Float(value) => Json::from(*value),
        Value::String(text) => Json::String(text.as_str().to_owned()),
        Value::List(items) => Json::Array(items.iter().map(to_json).collect::<Option<_>>()?),
        Value::Map(map) => {
            let entry = |(key, value): (&Key, &Value)| match key {
                Key::String(name) => Some((name.as_str().to_owned(), to_json(value)?)),
                _ => None,
            };
            Json::Object(map.map.iter().map(entry).collect::<Option<_>>()?)
        }
        _ => return None,
    })
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::super::test_view::TestView;
    use super::*;

    fn kinds() -> Arc<Kinds> {
        Arc::new(Kinds::built_in())
    }

    fn view() -> TestView {
        TestView::new(vec![
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "default"}, "spec": {"n": 1}}),
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "shop"}, "spec": {"n": 2}}),
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}),
        ])
    }

    #[test]
    fn functions_read_the_objects_of_the_server() {
        for text in [
            "objects('Pod').size() == 2 && objects('Pod', 'shop').size() == 1",
            "object('Pod', 'a').spec.n == 1 && object('Pod', 'a', 'shop').spec.n == 2",
            "exists('Node', 'n1') && !exists('Node', 'n2') && object('Node', 'n2') == null",
            "objects('Pod').exists(p, p.spec.n == 2)",
            "['Pod', 'Node'].all(kind, objects(kind).size() > 0)",
            "now == timestamp('2026-01-01T00:01:00Z')",
            "object('Pod', 'b').spec.n != 1",
        ] {
            let program = Program::compile(text, &["now"], &kinds()).expect(text);
            let view = view();
            let value = program.holds(
                vec![("now", now_value(60_000))],
                &ViewValues { view: &view, cache: &ValueCache::default() },
            );
            assert_eq!(value, Ok(true), "{text}");
        }
    }

    #[test]
    fn an_expression_knows_what_it_reads() {
        let reads = |text: &str| Program::compile(text, &["kind"], &kinds()).expect(text).reads().clone();
        let Reads::Only(resources) = reads("exists('Node', 'a') || objects('Pod').size() > 0") else {
            panic!("both kinds are literals")
        };
        let names: Vec<_> = resources.iter().map(|resource| resource.plural.as_str()).collect();
        assert!(names.contains(&"pods") && names.contains(&"nodes") && names.len() == 2);
        assert_eq!(reads("objects(kind).size() > 0"), Reads::Any);
        assert_eq!(reads("true"), Reads::Only(Vec::new()));
    }

    #[test]
    fn errors_are_one_line_with_a_remedy() {
        for (text, expected) in [
            ("objects('Pods').size() > 0", "did you mean Pod?"),
            ("object('Pod')", "write object(kind, name)"),
            ("objects(1)", "not a text"),
            ("objectes('Pod') == []", "did you mean objects()?"),
            ("frobnicate('Pod')", "unknown function frobnicate(); available are"),
            ("objekt.spec", "did you mean object?"),
            ("a ==", "the expression"),
        ] {
            let error = Program::compile(text, &["object"], &kinds()).expect_err(text);
            assert!(error.contains(expected) && !error.contains('\n'), "{text}: {error}");
        }
        let view = view();
        let program = Program::compile("objects('Pod').size()", &[], &kinds()).expect("valid");
        let error = program
            .holds(Vec::new(), &ViewValues { view: &view, cache: &ValueCache::default() })
            .expect_err("a number");
        assert!(error.contains("not a boolean"), "{error}");
    }

    #[test]
    fn a_changed_object_has_another_value() {
        let cache = ValueCache::default();
        let size = |size: i64| {
            let object = Arc::new(json!({"size": size}));
            (to_json(&cache.value(&object)), to_json(&cache.value(&object)))
        };
        for number in 0..2 * i64::try_from(MAX_CACHED).expect("small") {
            let expected = Some(json!({"size": number}));
            assert_eq!(size(number), (expected.clone(), expected));
        }
    }

    #[test]
    fn values_are_converted_to_json() {
        let value = json!({"a": [1, 2.5, true, null, "x"], "b": {}});
        assert_eq!(to_json(&from_json(value.clone())), Some(value));
        assert_eq!(to_json(&now_value(0)), None);
    }
}
