//! Removes equal owner references from an object that is written.

use pilothouse_model::hash::HashSet;
use serde_json::Value;

use crate::meta;

/// The step of a request after which an object is looked at. Warnings name it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::rest) enum Step {
    /// The object of a POST or PUT was decoded.
    Decoding,
    /// Admission may have changed the object. Patches are looked at here only, as in Kubernetes.
    Admission,
}

/// Removes owner references that equal an earlier one. Returns a warning with their UIDs if there are any.
pub(in crate::rest) fn remove_duplicates(object: &mut Value, step: Step) -> Option<String> {
    let references = object["metadata"].get("ownerReferences")?.as_array().filter(|list| list.len() > 1)?;
    let (mut kept, mut duplicates): (Vec<Value>, Vec<&str>) = (Vec::new(), Vec::new());
    let mut known = HashSet::default();
    for reference in references {
        if !known.insert(reference) {
            duplicates.push(reference["uid"].as_str().unwrap_or_default());
        } else {
            kept.push(reference.clone());
        }
    }
    if duplicates.is_empty() {
        return None;
    }
    let after = match step {
        Step::Decoding => "",
        Step::Admission => " after mutating admission happens",
    };
    let warning = format!(
        ".metadata.ownerReferences contains duplicate entries{after}; API server dedups owner references in 1.20+, and may reject \
         such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
        duplicates.join(", ")
    );
    meta::metadata_mut(object).insert("ownerReferences".into(), kept.into());
    Some(warning)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn many_owners_are_compared_by_hash() {
        let reference = |number: usize| json!({"kind": "ConfigMap", "name": "a", "uid": number.to_string()});
        let mut references: Vec<Value> = (0..50_000).map(reference).collect();
        references.push(reference(7));
        let mut object = json!({"metadata": {"ownerReferences": references}});
        let warning = remove_duplicates(&mut object, Step::Decoding).expect("a duplicate");
        assert!(warning.ends_with("duplicate UID(s) observed: 7"), "{warning}");
        assert_eq!(object["metadata"]["ownerReferences"].as_array().map(Vec::len), Some(50_000));
    }
}
