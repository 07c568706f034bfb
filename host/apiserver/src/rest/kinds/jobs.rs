//! Jobs: the selector that a new Job gets, after `generateSelector` in `k8s.io/kubernetes/pkg/registry/batch/job`.

use serde_json::{Value, json};

use crate::meta;

const CONTROLLER_UID: &str = "batch.kubernetes.io/controller-uid";
const JOB_NAME: &str = "batch.kubernetes.io/job-name";
/// The names of these labels in earlier releases, which Pods still have.
const LEGACY: [&str; 2] = ["controller-uid", "job-name"];

/// Sets the selector of a new Job and the labels of its Pods, unless the client selects the Pods itself.
pub(super) fn generate_selector(job: &mut Value) {
    if job["spec"]["manualSelector"] == true || !job["spec"]["template"].is_object() {
        return;
    }
    let (uid, name) = (meta::text(job, "uid").to_owned(), meta::text(job, "name").to_owned());
    // Both are one map in Go if the Job has the labels of its Pods by default.
    let (own, of_pods) = (&job["metadata"]["labels"], &job["spec"]["template"]["metadata"]["labels"]);
    let shares_labels = own == of_pods || own.as_object().is_none_or(serde_json::Map::is_empty);
    let metadata = meta::metadata_mut(&mut job["spec"]["template"]);
    let labels = metadata.entry("labels").or_insert_with(|| json!({}));
    if !labels.is_object() {
        *labels = json!({});
    }
    for (label, value) in [(CONTROLLER_UID, &uid), (JOB_NAME, &name), (LEGACY[0], &uid), (LEGACY[1], &name)] {
        // A label of the client stays, with which the Job is invalid.
        if labels[label].is_null() {
            labels[label] = value.as_str().into();
        }
    }
    if job["spec"]["selector"].is_null() {
        job["spec"]["selector"] = json!({});
    }
    // As in Kubernetes, a Job whose client set the label is invalid.
    let label = &mut job["spec"]["selector"]["matchLabels"][CONTROLLER_UID];
    if label.is_null() {
        *label = uid.into();
    }
    if shares_labels {
        job["metadata"]["labels"] = job["spec"]["template"]["metadata"]["labels"].clone();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selector_is_the_uid_unless_the_client_sets_it() {
        let template = json!({"metadata": {"labels": {"a": "b"}}});
        let mut job = json!({"metadata": {"name": "j", "uid": "u"}, "spec": {"template": template}});
        generate_selector(&mut job);
        assert_eq!(job["spec"]["selector"], json!({"matchLabels": {CONTROLLER_UID: "u"}}));
        assert_eq!(
            job["spec"]["template"]["metadata"]["labels"],
            json!({"a": "b", CONTROLLER_UID: "u", JOB_NAME: "j", "controller-uid": "u", "job-name": "j"})
        );
        let selector = json!({"matchLabels": {CONTROLLER_UID: "other"}});
        let mut own = json!({"metadata": {"uid": "u"}, "spec": {"selector": selector, "template": {}}});
        generate_selector(&mut own);
        assert_eq!(own["spec"]["selector"], selector, "validation refuses it");
        let mut manual = json!({"metadata": {"uid": "u"}, "spec": {"manualSelector": true, "template": {}}});
        let before = manual.clone();
        generate_selector(&mut manual);
        assert_eq!(manual, before);
    }
}
