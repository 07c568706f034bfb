//! What the expressions of webhooks and policies can refer to, with its types, after `compile.go` in `k8s.io/apiserver/pkg/admission/plugin/cel`.

use std::cell::RefCell;
use std::sync::Arc;

use pilothouse_cel::check::{self, Objects, Type};
use pilothouse_cel::{CompileError, Expression, syntax_errors};
use serde_json::Value;

/// The types of objects, by their ids.
const REQUEST: usize = 0;
const KIND: usize = 1;
const RESOURCE: usize = 2;
const USER: usize = 3;
const NAMESPACE: usize = 4;
const NAMESPACE_METADATA: usize = 5;
const NAMESPACE_SPEC: usize = 6;
const NAMESPACE_STATUS: usize = 7;
const NAMESPACE_CONDITION: usize = 8;
const VARIABLES: usize = 9;
const JSON_PATCH: usize = 10;
/// Those of constructed objects follow.
const FIRST_CONSTRUCTED: usize = 11;

/// The name of the type of constructed objects, and the start of the names of those in them.
pub(super) const OBJECT: &str = "Object";
/// The name of the type of operations of JSON patches.
pub(super) const PATCH: &str = "JSONPatch";

/// What an expression must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResultType {
    Any,
    Bool,
    Text,
    /// A text or null.
    Annotation,
    /// A constructed object.
    Object,
    /// A list of operations of a JSON patch.
    Patch,
}

/// What an expression can refer to.
#[derive(Clone, Debug)]
pub(crate) struct Environment {
    variables: Vec<(&'static str, Type)>,
    /// The members of `variables`.
    composed: Vec<(String, Type)>,
    /// Whether objects and patches can be constructed.
    constructs: bool,
    /// The names of the types of constructed objects.
    constructed: RefCell<Vec<String>>,
}

impl Environment {
    /// Returns that of match conditions. `has_params` says whether there is a variable `params`.
    pub(crate) fn of_conditions(has_params: bool) -> Self {
        let library = |name: &'static str| Type::Library(name);
        let mut variables = vec![
            ("object", Type::Dyn),
            ("oldObject", Type::Dyn),
            ("namespaceObject", object(NAMESPACE, "kubernetes.Namespace")),
            ("request", object(REQUEST, "kubernetes.AdmissionRequest")),
            ("authorizer", library("kubernetes.authorization.Authorizer")),
            ("authorizer.requestResource", library("kubernetes.authorization.ResourceCheck")),
        ];
        if has_params {
            variables.push(("params", Type::Dyn));
        }
        Self { variables, composed: Vec::new(), constructs: false, constructed: RefCell::default() }
    }

    /// Returns that of the other expressions of a policy with this `spec`.
    pub(crate) fn of_policy(spec: &Value) -> Self {
        let mut environment = Self::of_conditions(spec["paramKind"].is_object());
        if spec["variables"].as_array().is_some_and(|variables| !variables.is_empty()) {
            environment.variables.push(("variables", object(VARIABLES, "kubernetes.variables")));
        }
        environment
    }

    /// Returns the environment of message expressions, which cannot refer to the authorizer.
    pub(crate) fn without_authorizer(&self) -> Self {
        let mut environment = self.clone();
        environment.variables.retain(|(name, _)| !name.starts_with("authorizer"));
        environment
    }

    /// Declares a member of `variables`.
    pub(crate) fn declare(&mut self, name: &str, ty: Type) {
        self.composed.push((name.to_owned(), ty));
    }

    /// Allows expressions to construct objects and patches.
    pub(crate) fn constructing(&self) -> Self {
        Self { constructs: true, ..self.clone() }
    }

    /// Compiles an expression. Also returns its type.
    ///
    /// # Errors
    /// The message of kube-apiserver.
    pub(crate) fn compile(&self, text: &str, result: ResultType) -> Result<(Expression, Type), String> {
        let expression = Expression::compile(text).map_err(|error| match error {
            CompileError::Bounds(error) => error.to_string(),
            CompileError::Syntax(_) => {
                let errors = syntax_errors(text).unwrap_or_else(|| error.to_string());
                format!("compilation failed: {errors}")
            }
            other => format!("compilation failed: {other}"),
        })?;
        let checked = check::check(&expression, text, &self.variables, self);
        // An expression whose check takes too many steps is not checked further.
        let ty = checked.map_err(|errors| format!("compilation failed: {errors}"))?;
        if let Some(ty) = &ty {
            result.check(ty)?;
        }
        let expression = if self.constructs { expression.constructing_objects() } else { expression };
        Ok((expression, ty.as_ref().map_or(Type::Dyn, without_parameters)))
    }
}

impl Objects for Environment {
    fn member(&self, id: usize, name: &str) -> Option<Type> {
        let texts = || Type::list(Type::String);
        let labels = || Type::map(Type::String, Type::String);
        Some(match (id, name) {
            (REQUEST, "kind" | "requestKind") => object(KIND, "kubernetes.GroupVersionKind"),
            (REQUEST, "resource" | "requestResource") => object(RESOURCE, "kubernetes.GroupVersionResource"),
            (REQUEST, "subResource" | "requestSubResource" | "name" | "namespace" | "operation")
            | (KIND, "group" | "version" | "kind")
            | (RESOURCE, "group" | "version" | "resource")
            | (USER, "username" | "uid")
            | (NAMESPACE_METADATA, "name" | "generateName" | "namespace" | "UID" | "resourceVersion")
            | (NAMESPACE_STATUS, "phase")
            | (NAMESPACE_CONDITION, "status" | "type" | "message" | "reason")
            | (JSON_PATCH, "op" | "path" | "from") => Type::String,
            (REQUEST, "userInfo") => object(USER, "kubernetes.UserInfo"),
            (REQUEST, "dryRun") => Type::Bool,
            (REQUEST, "options") | (JSON_PATCH, "value") => Type::Dyn,
            (USER, "groups") | (NAMESPACE_METADATA, "finalizers") | (NAMESPACE_SPEC, "finalizers") => texts(),
            (USER, "extra") => Type::map(Type::String, texts()),
            (NAMESPACE, "metadata") => object(NAMESPACE_METADATA, "kubernetes.NamespaceMetadata"),
            (NAMESPACE, "spec") => object(NAMESPACE_SPEC, "kubernetes.NamespaceSpec"),
            (NAMESPACE, "status") => object(NAMESPACE_STATUS, "kubernetes.NamespaceStatus"),
            (NAMESPACE_METADATA, "labels" | "annotations") => labels(),
            (NAMESPACE_METADATA, "creationTimestamp" | "deletionTimestamp")
            | (NAMESPACE_CONDITION, "lastTransitionTime") => Type::Timestamp,
            (NAMESPACE_METADATA, "deletionGracePeriodSeconds" | "generation") => Type::Int,
            (NAMESPACE_STATUS, "conditions") => {
                Type::list(object(NAMESPACE_CONDITION, "kubernetes.NamespaceCondition"))
            }
            (VARIABLES, name) => {
                self.composed.iter().rev().find(|(known, _)| known == name).map(|(_, ty)| ty.clone())?
            }
            (FIRST_CONSTRUCTED.., _) => Type::Dyn,
            _ => return None,
        })
    }

    fn function(&self, name: &str) -> Option<Type> {
        (self.constructs && name == "jsonpatch.escapeKey").then_some(Type::String)
    }

    fn constructed(&self, name: &str) -> Option<Type> {
        if !self.constructs {
            return None;
        }
        if name == PATCH {
            return Some(object(JSON_PATCH, PATCH));
        }
        let is_object = name == OBJECT || name.strip_prefix(OBJECT).is_some_and(|rest| rest.starts_with('.'));
        is_object.then(|| {
            let mut names = self.constructed.borrow_mut();
            let index = names.iter().position(|known| known == name).unwrap_or_else(|| {
                names.push(name.to_owned());
                names.len() - 1
            });
            object(FIRST_CONSTRUCTED + index, name)
        })
    }
}

impl ResultType {
    /// Errors unless a value of the type is such a result, with the message of kube-apiserver.
    fn check(self, ty: &Type) -> Result<(), String> {
        let is_named =
            |ty: &Type, expected: &str| matches!(ty, Type::Object { name, .. } if **name == *expected);
        let (is_valid, expected) = match self {
            Self::Any => (true, ""),
            Self::Bool => (*ty == Type::Bool, "bool"),
            Self::Text => (*ty == Type::String, "string"),
            Self::Annotation => (matches!(ty, Type::String | Type::Null), "one of [string null_type]"),
            Self::Object => (is_named(ty, OBJECT), OBJECT),
            Self::Patch => (matches!(ty, Type::List(element) if is_named(element, PATCH)), "list(JSONPatch)"),
        };
        if is_valid { Ok(()) } else { Err(format!("must evaluate to {expected} but got {}", type_name(ty))) }
    }
}

fn object(id: usize, name: &str) -> Type {
    Type::Object { id, name: Arc::from(name) }
}

/// Returns the name that cel-go has for a type outside of the errors of its checker.
fn type_name(ty: &Type) -> String {
    match ty {
        Type::Null => "null_type".to_owned(),
        Type::Timestamp => "google.protobuf.Timestamp".to_owned(),
        Type::Duration => "google.protobuf.Duration".to_owned(),
        other => other.to_string(),
    }
}

/// Returns the type with `dyn` in the place of type parameters, which have no meaning outside of a check.
fn without_parameters(ty: &Type) -> Type {
    match ty {
        Type::Parameter(_) => Type::Dyn,
        Type::List(inner) => Type::list(without_parameters(inner)),
        Type::Optional(inner) => Type::optional(without_parameters(inner)),
        Type::Map(types) => Type::map(without_parameters(&types.0), without_parameters(&types.1)),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn problem(text: &str, result: ResultType) -> Option<String> {
        let mut environment = Environment::of_policy(
            &json!({"paramKind": {"kind": "ConfigMap"}, "variables": [{"name": "size"}]}),
        );
        environment.declare("size", Type::Int);
        environment.constructing().compile(text, result).err()
    }

    #[test]
    fn expressions_may_use_what_their_environment_has() {
        for (text, result) in [
            ("object.spec.replicas <= 5 && request.operation == 'CREATE'", ResultType::Bool),
            ("variables.size > 1 && params.data.x == namespaceObject.metadata.name", ResultType::Bool),
            ("authorizer.requestResource.check('get').allowed()", ResultType::Bool),
            (
                "authorizer.serviceAccount('a', 'b').group('').resource('pods').check('get').reason()",
                ResultType::Text,
            ),
            ("request.userInfo.groups.exists(g, g == 'x') ? null : null", ResultType::Annotation),
            ("object.a == 1 ? Object{} : Object{spec: Object.spec{a: [1]}}", ResultType::Object),
            ("Object{?spec: optional.none()}", ResultType::Object),
            (
                "true ? [JSONPatch{op: 'add', path: '/a/' + jsonpatch.escapeKey('b'), value: object}] : []",
                ResultType::Patch,
            ),
            (
                "[JSONPatch{op: 'remove', path: '/a'}] + (object.a == 1 ? [JSONPatch{op: 'test', path: '/b'}] : [])",
                ResultType::Patch,
            ),
            ("Object{a: 1}.a == 1 && !has(Object{}.b)", ResultType::Bool),
        ] {
            assert_eq!(problem(text, result), None, "{text}");
        }
    }

    #[test]
    fn problems_are_those_of_kube_apiserver() {
        for (text, result, expected) in [
            ("object.a", ResultType::Bool, "must evaluate to bool but got dyn"),
            ("1", ResultType::Annotation, "must evaluate to one of [string null_type] but got int"),
            ("[1]", ResultType::Patch, "must evaluate to list(JSONPatch) but got list(int)"),
            ("Object.spec{}", ResultType::Object, "must evaluate to Object but got Object.spec"),
            ("variables.nothing", ResultType::Any, "undefined field 'nothing'"),
            (
                "authorizer.nothing",
                ResultType::Any,
                "unexpected failed resolution of 'kubernetes.authorization.Authorizer'",
            ),
            ("Wrong{}", ResultType::Any, "undeclared reference to 'Wrong' (in container '')"),
            ("true ? Object{} : Object.spec{}", ResultType::Any, "found no matching overload for '_?_:_'"),
            ("object.", ResultType::Any, "compilation failed: ERROR: <input>:1:8: Syntax error"),
        ] {
            let found = problem(text, result).unwrap_or_default();
            assert!(found.contains(expected), "{text}: {found}");
        }
        let conditions = Environment::of_conditions(false);
        for text in
            ["params.a == 1", "variables.a == 1", "Object{} == Object{}", "jsonpatch.escapeKey('a') == ''"]
        {
            let found = conditions.compile(text, ResultType::Bool).err().unwrap_or_default();
            assert!(found.contains("undeclared reference to"), "{text}: {found}");
        }
    }
}
