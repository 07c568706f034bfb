//! Objects that an expression constructs, such as `Object.spec{replicas: 1}`.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_cel::cel::Value;
use kube_cel::cel::objects::Opaque;

/// An object that an expression constructs. Only expressions that [`crate::Expression::constructing_objects`] allows it to construct any.
#[derive(Debug, PartialEq, Eq)]
pub struct ObjectValue {
    type_name: String,
    fields: BTreeMap<String, Value>,
}

impl ObjectValue {
    /// Returns an object of this type as a value.
    pub(crate) fn value(type_name: &str, fields: BTreeMap<String, Value>) -> Value {
        let type_name = type_name.trim_start_matches('.').to_owned();
        Value::Opaque(Arc::new(Self { type_name, fields }))
    }

    /// Returns the object that a value is.
    pub fn of(value: &Value) -> Option<&Self> {
        match value {
            Value::Opaque(opaque) => opaque.downcast_ref(),
            _ => None,
        }
    }

    /// Returns the name of its type, such as `Object.spec`.
    pub fn type_name(&self) -> &str {
        &self.type_name
    }

    /// Returns its fields.
    pub fn fields(&self) -> &BTreeMap<String, Value> {
        &self.fields
    }
}

impl Opaque for ObjectValue {
    fn runtime_type_name(&self) -> &str {
        &self.type_name
    }
}
