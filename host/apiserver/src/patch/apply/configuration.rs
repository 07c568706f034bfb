//! The merge of a configuration into an object without field managers, as MutatingAdmissionPolicies do it (`smd.go` in
//! `k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch`).

use serde_json::Value;

use super::identity::{MergeKind, child_schema, merge_kind};
use super::{merge, typed};
use crate::schema::{Schema, SchemaRef};

/// Returns `live` with everything that `config` sets.
///
/// # Errors
/// The configuration does not have the form that the schema describes, or sets a list or a map that is replaced as a whole.
pub fn merge_configuration(schema: &Schema, live: &Value, config: &Value) -> Result<Value, String> {
    typed::check(schema, config)
        .map_err(|error| format!("failed to convert patch object to typed object: {error}"))?;
    let mut atomics = Vec::new();
    collect_atomics(Some(schema.root()), config, "", &mut atomics);
    if !atomics.is_empty() {
        let atomics = atomics.join(", ");
        return Err(format!(
            "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {atomics}"
        ));
    }
    Ok(merge::merge(Some(schema.root()), live, config))
}

/// Collects the paths of the lists and maps that are replaced as a whole.
fn collect_atomics(schema: Option<SchemaRef<'_>>, value: &Value, path: &str, found: &mut Vec<String>) {
    if matches!(value, Value::Object(_) | Value::Array(_))
        && matches!(merge_kind(schema, value), MergeKind::Leaf)
    {
        found.push(path.to_owned());
    }
    match value {
        Value::Object(members) => {
            for (name, child) in members {
                if let Some(child_schema) = child_schema(schema, name) {
                    collect_atomics(Some(child_schema), child, &format!("{path}.{name}"), found);
                }
            }
        }
        Value::Array(items) => {
            let item_schema = schema.and_then(SchemaRef::items);
            for (index, item) in items.iter().enumerate() {
                collect_atomics(item_schema, item, &format!("{path}[{index}]"), found);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::Schema;

    #[test]
    fn a_configuration_is_merged_unless_it_sets_an_atomic_value() {
        let schema = Schema::builtin("apps", "v1", "Deployment").expect("built in");
        let live = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"labels": {"a": "1"}}, "spec": {
            "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}});
        let sidecar = json!({"metadata": {"labels": {"b": "2"}}, "spec": {
            "template": {"spec": {"containers": [{"name": "s", "image": "j"}]}}}});
        let merged = merge_configuration(&schema, &live, &sidecar).expect("it fits");
        assert_eq!(merged["metadata"]["labels"], json!({"a": "1", "b": "2"}));
        let names: Vec<_> = merged["spec"]["template"]["spec"]["containers"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|container| &container["name"])
            .collect();
        assert_eq!(names, ["c", "s"]);
        let arguments =
            json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "args": ["x"]}]}}}});
        assert_eq!(
            merge_configuration(&schema, &live, &arguments),
            Err("invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: \
                 .spec.template.spec.containers[0].args"
                .to_owned())
        );
        let unknown = json!({"spec": {"nothing": 1}});
        let problem = merge_configuration(&schema, &live, &unknown).expect_err("not declared");
        assert!(problem.ends_with(".spec.nothing: field not declared in schema"), "{problem}");
    }
}
