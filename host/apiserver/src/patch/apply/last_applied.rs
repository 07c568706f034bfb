//! The annotation in which kubectl keeps the configuration that it applied client-side, as `lastappliedupdater.go` and `lastappliedmanager.go` of
//! `k8s.io/apimachinery/pkg/util/managedfields` treat it when kubectl applies server-side.

use serde_json::Value;

use super::conflict::Conflict;
use super::fieldset::FieldSet;
use super::{Writer, diff, typed};
use crate::go;
use crate::meta;
use crate::schema::Schema;

/// The only field manager for which the annotation matters. Others opt out of it by their name.
const KUBECTL: &str = "kubectl";
const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The size in bytes of all names and values of annotations, as in Kubernetes.
const MAX_ANNOTATIONS_SIZE: usize = 256 * 1024;

/// Updates the annotation of `object`, the result of an apply, so that a later client-side apply of kubectl finds what it applied. `config` is the
/// configuration as the client sent it.
///
/// Does nothing unless the writer is kubectl and the object has the annotation.
pub fn update_last_applied(object: &mut Value, config: &Value, writer: &Writer<'_>) {
    if writer.manager != KUBECTL || annotation(object).is_none() {
        return;
    }
    let mut config = config.clone();
    if let Some(annotations) = config.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.remove(ANNOTATION);
    }
    let value = go::encoded_json(&config);
    let Some(annotations) = meta::metadata_mut(object).get_mut("annotations").and_then(Value::as_object_mut)
    else {
        return;
    };
    annotations.insert(ANNOTATION.into(), value.into());
    let size: usize =
        annotations.iter().map(|(name, value)| name.len() + value.as_str().map_or(0, str::len)).sum();
    if size > MAX_ANNOTATIONS_SIZE {
        annotations.remove(ANNOTATION);
    }
}

/// Removes the conflicts about fields that kubectl applied client-side to the values that they still have. An apply of kubectl takes them over,
/// which migrates the object to server-side apply.
pub(super) fn remove_migrated(
    conflicts: &mut Vec<Conflict>,
    schema: &Schema,
    live: &Value,
    writer: &Writer<'_>,
) {
    let Some(migrated) = migrated_fields(schema, live, writer) else { return };
    for conflict in conflicts.iter_mut() {
        conflict.fields = conflict.fields.difference(&migrated);
    }
    conflicts.retain(|conflict| !conflict.fields.is_empty());
}

/// Returns the fields of the annotation that have the same values in the live object. `None` if kubectl does not own them.
fn migrated_fields(schema: &Schema, live: &Value, writer: &Writer<'_>) -> Option<FieldSet> {
    if writer.manager != KUBECTL {
        return None;
    }
    let applied: Value = serde_json::from_str(annotation(live)?).ok()?;
    if applied["apiVersion"] != writer.api_version || typed::check(schema, &applied).is_err() {
        return None;
    }
    let changes = diff::compare(schema.root(), &applied, live);
    Some(diff::fields_of(schema.root(), &applied).difference(&changes.all()))
}

fn annotation(object: &Value) -> Option<&str> {
    object["metadata"]["annotations"][ANNOTATION].as_str().filter(|text| !text.is_empty())
}
