//! Types as values: those of `type(x)`, and the names of types in an expression.

use std::sync::Arc;

use kube_cel::cel::Value;
use kube_cel::cel::objects::Opaque;

/// The names that an expression can use, as in `type(x) == int`.
const NAMES: [&str; 19] = [
    "bool",
    "bytes",
    "double",
    "google.protobuf.Duration",
    "google.protobuf.Timestamp",
    "int",
    "kubernetes.NamedFormat",
    "kubernetes.Quantity",
    "kubernetes.Semver",
    "kubernetes.URL",
    "list",
    "map",
    "net.CIDR",
    "net.IP",
    "null_type",
    "optional_type",
    "string",
    "type",
    "uint",
];

/// A type. Two are equal if their names are: the types of elements do not count.
#[derive(Debug, PartialEq, Eq)]
struct TypeValue(String);

impl Opaque for TypeValue {
    fn runtime_type_name(&self) -> &str {
        "type"
    }
}

/// Whether an expression can use this name of a type.
pub(crate) fn is_type_name(name: &str) -> bool {
    NAMES.contains(&name)
}

/// Returns the type with this name; `None` if an expression cannot use it.
pub(crate) fn type_named(name: &str) -> Option<Value> {
    is_type_name(name).then(|| of_name(name))
}

/// Returns the type of a value.
pub(crate) fn type_of(value: &Value) -> Value {
    of_name(match value {
        Value::Opaque(opaque) => match opaque.runtime_type_name() {
            // The library has another name for it.
            "kubernetes.Format" => "kubernetes.NamedFormat",
            name => name,
        },
        other => name_of_type(other),
    })
}

/// Returns the name of a value's type; `dyn` for those of the library of Kubernetes.
pub(crate) fn name_of_type(value: &Value) -> &'static str {
    match value {
        Value::Bool(_) => "bool",
        Value::Bytes(_) => "bytes",
        Value::Float(_) => "double",
        Value::Duration(_) => "google.protobuf.Duration",
        Value::Timestamp(_) => "google.protobuf.Timestamp",
        Value::Int(_) => "int",
        Value::List(_) => "list",
        Value::Map(_) => "map",
        Value::Null => "null_type",
        Value::String(_) => "string",
        Value::UInt(_) => "uint",
        _ => "dyn",
    }
}

/// Returns the name of a value's type in Go's package `types` of cel-go.
pub(crate) fn go_name_of_type(value: &Value) -> &'static str {
    match value {
        Value::Bool(_) => "Bool",
        Value::Bytes(_) => "Bytes",
        Value::Float(_) => "Double",
        Value::Duration(_) => "Duration",
        Value::Timestamp(_) => "Timestamp",
        Value::Int(_) => "Int",
        Value::Null => "Null",
        Value::String(_) => "String",
        Value::UInt(_) => "Uint",
        _ => "Dyn",
    }
}

fn of_name(name: &str) -> Value {
    Value::Opaque(Arc::new(TypeValue(name.to_owned())))
}
