//! Access to `metadata`, and the parts of it that only the server writes.

use serde_json::{Map, Value};
use uuid::Uuid;

/// `metadata`, made if it is absent or not an object.
pub(crate) fn of(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    let metadata = &mut value["metadata"];
    if !metadata.is_object() {
        *metadata = Value::Object(Map::new());
    }
    metadata.as_object_mut().expect("it was made an object")
}

/// A text in `metadata`, "" if it is absent.
pub(crate) fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value["metadata"][field].as_str().unwrap_or_default()
}

/// `metadata.generation`, 0 if it is absent.
pub(crate) fn generation(value: &Value) -> i64 {
    value["metadata"]["generation"].as_i64().unwrap_or(0)
}

/// The finalizers.
pub(crate) fn finalizers(value: &Value) -> Vec<String> {
    let list = value["metadata"]["finalizers"].as_array().into_iter().flatten();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Sets the finalizers; none at all leave no field.
pub(crate) fn set_finalizers(value: &mut Value, finalizers: Vec<String>) {
    let metadata = of(value);
    if finalizers.is_empty() {
        metadata.remove("finalizers");
    } else {
        metadata.insert("finalizers".into(), finalizers.into());
    }
}

/// A new UID.
pub(crate) fn new_uid() -> String {
    Uuid::new_v4().to_string()
}

/// A name from `generateName`: at most 58 characters of it and five random ones, without vowels and lookalikes, as
/// `k8s.io/apiserver/pkg/storage/names` makes them.
pub(crate) fn generate_name(base: &str) -> String {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut random = Uuid::new_v4().as_u128();
    let mut name: String = base.chars().take(58).collect();
    for _ in 0..5 {
        let index = usize::try_from(random % LETTERS.len() as u128).unwrap_or(0);
        random /= LETTERS.len() as u128;
        name.push(char::from(LETTERS[index]));
    }
    name
}

/// Takes over from `old` what a client may leave out of an update, and what it cannot change.
pub(crate) fn keep_server_fields(old: &Value, new: &mut Value) {
    let old = &old["metadata"];
    let metadata = of(new);
    for field in ["uid", "creationTimestamp", "generation", "namespace", "resourceVersion", "generateName"] {
        match old.get(field) {
            Some(value) => drop(metadata.insert(field.into(), value.clone())),
            None => drop(metadata.remove(field)),
        }
    }
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
        match old.get(field) {
            Some(value) => drop(metadata.insert(field.into(), value.clone())),
            None => drop(metadata.remove(field)),
        }
    }
    metadata.remove("selfLink");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_names_are_short_enough() {
        let name = generate_name(&"a".repeat(80));
        assert_eq!(name.len(), 63);
        assert_ne!(generate_name("x-"), generate_name("x-"));
    }
}
