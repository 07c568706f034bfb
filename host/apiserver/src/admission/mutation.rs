//! What the value of a mutation's expression does to an object, after `k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch`.

use pilothouse_cel::{Key, Map as CelMap, ObjectValue, Value as CelValue};
use serde_json::{Map, Value, json};

use super::environment::{OBJECT, PATCH};
use super::policy::PatchType;
use super::request::WriteRequest;
use crate::patch::apply::merge_configuration;
use crate::patch::{PatchError, json_patch};
use crate::registry::{Endpoint, Registry};
use crate::status::Status;

/// The parts and bytes of text that the JSON of a value may have together. Parts that a value shares count as often as they are there.
const MAX_SIZE: usize = 3 << 20;
/// The levels that it may nest.
const MAX_DEPTH: usize = 110;

/// Returns the object with the patch that is the value of a mutation's expression.
///
/// # Errors
/// Why the patch cannot be applied, in the words of kube-apiserver.
pub(super) fn apply(
    patch: PatchType,
    value: &CelValue,
    object: &Value,
    write: &WriteRequest<'_>,
    endpoint: &Endpoint,
) -> Result<Value, String> {
    match patch {
        PatchType::ApplyConfiguration => {
            let schema =
                write.schema_of(endpoint).ok_or("error applying patch: type converter must not be nil")?;
            let mut config = configuration(value)?;
            for field in ["apiVersion", "kind"] {
                config[field] = object[field].clone();
            }
            merge_configuration(&schema, object, &config)
                .map_err(|problem| format!("error applying patch: {problem}"))
        }
        PatchType::JsonPatch => match json_patch(object, &operations(value)?) {
            Ok(patched) => Ok(patched),
            // As in Kubernetes, a patch whose test fails has no effect.
            Err(PatchError::TestFailed(_)) => Ok(object.clone()),
            Err(error) => Err(format!("JSON Patch: {error}")),
        },
    }
}

/// Errors if the result of a JSON patch is no object of the kind. As in kube-apiserver, this refuses the write whatever the failure policy says, and an
/// unknown field of a built-in kind is an error (`patch/json_patch.go`).
pub(super) fn check_decodes(object: &Value, endpoint: &Endpoint, registry: &Registry) -> Result<(), Status> {
    if !object.is_object() {
        return Err(Status::internal(no_object(object)));
    }
    let Some(schema) = endpoint.schema.as_ref().filter(|schema| schema.is_built_in()) else { return Ok(()) };
    if let Some(problem) = other_kind(object, endpoint, registry) {
        return Err(Status::internal(problem));
    }
    if let Some(problem) = schema.decode_error(object) {
        // kube-apiserver decodes the result without its kind, so its message does not name the kind.
        let problem = problem.find("json: ").map_or(&*problem, |start| &problem[start..]);
        return Err(Status::internal(problem));
    }
    match schema.prune_strictly(&mut object.clone()).as_slice() {
        [] => Ok(()),
        unknown => Err(Status::internal(format!("strict decoding error: {}", unknown.join(", ")))),
    }
}

/// Returns why kube-apiserver cannot decode an object of another kind or version than those of the endpoint.
fn other_kind(object: &Value, endpoint: &Endpoint, registry: &Registry) -> Option<String> {
    // As in Kubernetes, a kind or version that the patch removed is that of the endpoint.
    let text = |name: &str| object[name].as_str().filter(|text| !text.is_empty());
    let version = text("apiVersion").unwrap_or(&endpoint.api_version);
    let kind = text("kind").unwrap_or(endpoint.kind());
    if (version, kind) == (&*endpoint.api_version, endpoint.kind()) {
        return None;
    }
    Some(match registry.by_kind(version, kind) {
        None => format!(
            "no kind {kind:?} is registered for version {version:?} in scheme \"pkg/runtime/scheme.go:111\""
        ),
        Some(other) => {
            let package = match endpoint.group.split('.').next() {
                None | Some("") => "core",
                Some(package) => package,
            };
            let own = endpoint.kind();
            format!(
                "failed to convert object: converting ({}.{kind}) to ({package}.{own}): unknown conversion",
                other.version
            )
        }
    })
}

/// Returns why kube-apiserver cannot decode a value that is no object.
fn no_object(value: &Value) -> String {
    let found = match value {
        Value::Array(_) => "array",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        // It decodes as an object without a kind.
        Value::Null | Value::Object(_) => return "Object 'Kind' is missing in 'null'".to_owned(),
    };
    format!(
        "couldn't get version/kind; json parse error: json: cannot unmarshal {found} into Go value of type struct {{ APIVersion string \
         \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}"
    )
}

/// Returns the configuration that a value is.
fn configuration(value: &CelValue) -> Result<Value, String> {
    let object = ObjectValue::of(value).filter(|object| object.type_name() == OBJECT);
    if object.is_none() {
        return Err("unsupported return type from ApplyConfiguration expression".to_owned());
    }
    check_type_names(value)?;
    Converter::default().value(value, 0)
}

/// Returns the JSON patch that a list of operations is.
fn operations(value: &CelValue) -> Result<Value, String> {
    let CelValue::List(list) = value else {
        return Err("type mismatch: JSONPatchType.expression should evaluate to array".to_owned());
    };
    let mut converter = Converter::default();
    let mut operations = Vec::with_capacity(list.len());
    for element in list.iter() {
        let patch = ObjectValue::of(element)
            .filter(|object| object.type_name() == PATCH)
            .ok_or("type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch")?;
        let text = |name: &str| match patch.fields().get(name) {
            Some(CelValue::String(text)) => Ok(text.to_string()),
            None => Ok(String::new()),
            Some(_) => Err(format!("unexpected type for JSONPatchType '{name}' field")),
        };
        let mut operation = json!({"op": text("op")?, "path": text("path")?});
        let from = text("from")?;
        if !from.is_empty() {
            operation["from"] = from.into();
        }
        if let Some(value) = patch.fields().get("value") {
            if ObjectValue::of(value).is_some() {
                check_type_names(value)?;
            }
            operation["value"] = converter.value(value, 0).map_err(|problem| {
                format!(
                    "JSONPath valueExpression evaluated to a type that could not marshal to JSON: {problem}"
                )
            })?;
        }
        operations.push(operation);
    }
    Ok(operations.into())
}

/// Errors if the type of an object in a constructed object is not named by the path of its field.
fn check_type_names(value: &CelValue) -> Result<(), String> {
    let root = ObjectValue::of(value).map(ObjectValue::type_name).unwrap_or_default().to_owned();
    let mut problems = Vec::new();
    let mut visited = 0;
    collect_type_names(value, &root, (&mut problems, &mut visited), 0)?;
    if problems.is_empty() { Ok(()) } else { Err(format!("type mismatch: {}", problems.join("\n"))) }
}

fn collect_type_names(
    value: &CelValue,
    expected: &str,
    (problems, visited): (&mut Vec<String>, &mut usize),
    depth: usize,
) -> Result<(), String> {
    *visited += 1;
    if *visited > MAX_SIZE || depth > MAX_DEPTH {
        return Err(TOO_LARGE.to_owned());
    }
    if let Some(object) = ObjectValue::of(value) {
        let name = object.type_name();
        if name != expected && problems.len() < 100 {
            problems.push(format!(
                "unexpected type name {name:?}, expected {expected:?}, which matches field name path from root Object type"
            ));
        }
        for (field, value) in object.fields() {
            collect_type_names(value, &format!("{expected}.{field}"), (problems, visited), depth + 1)?;
        }
    }
    match value {
        CelValue::List(list) => list
            .iter()
            .try_for_each(|value| collect_type_names(value, expected, (problems, visited), depth + 1)),
        CelValue::Map(map) => sorted(map)
            .into_iter()
            .try_for_each(|(_, value)| collect_type_names(value, expected, (problems, visited), depth + 1)),
        _ => Ok(()),
    }
}

/// Returns the entries of a map in the order of their keys, so that nothing depends on hashes.
fn sorted(map: &CelMap) -> Vec<(&Key, &CelValue)> {
    let mut entries: Vec<_> = map.map.iter().collect();
    entries.sort_unstable_by_key(|(key, _)| *key);
    entries
}

const TOO_LARGE: &str = "the value is too large or nests too deeply";

/// Converts values to JSON, within a limit of what they contain.
#[derive(Default)]
struct Converter {
    size: usize,
}

impl Converter {
    fn value(&mut self, value: &CelValue, depth: usize) -> Result<Value, String> {
        self.charge(1)?;
        if depth > MAX_DEPTH {
            return Err(TOO_LARGE.to_owned());
        }
        if let Some(object) = ObjectValue::of(value) {
            let mut members = Map::new();
            for (name, value) in object.fields() {
                self.charge(name.len())?;
                members.insert(name.clone(), self.value(value, depth + 1)?);
            }
            return Ok(members.into());
        }
        Ok(match value {
            CelValue::Null => Value::Null,
            CelValue::Bool(value) => (*value).into(),
            CelValue::Int(value) => (*value).into(),
            CelValue::UInt(value) => (*value).into(),
            CelValue::Float(value) => (*value).into(),
            CelValue::String(text) => {
                self.charge(text.len())?;
                text.as_str().into()
            }
            CelValue::List(list) => {
                let mut items = Vec::new();
                for value in list.iter() {
                    items.push(self.value(value, depth + 1)?);
                }
                items.into()
            }
            CelValue::Map(map) => {
                let mut members = Map::new();
                for (key, value) in sorted(map) {
                    let Key::String(name) = key else {
                        return Err("a key of a map is not a string".to_owned());
                    };
                    self.charge(name.len())?;
                    members.insert(name.to_string(), self.value(value, depth + 1)?);
                }
                members.into()
            }
            other => return Err(format!("unsupported type {}", other.type_of())),
        })
    }

    fn charge(&mut self, size: usize) -> Result<(), String> {
        self.size += size;
        if self.size > MAX_SIZE { Err(TOO_LARGE.to_owned()) } else { Ok(()) }
    }
}
