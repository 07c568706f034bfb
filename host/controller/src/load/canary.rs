//! Checks that a version can run beside another one, as its canary.

use super::LoadProblem;
use crate::config::descriptor::{Descriptor, Trigger, Watch};
use crate::name::PluginName;

/// Checks that the two versions divide their work by keys: both have the same target watches, so that a key means the same to both, and
/// neither has an observer or a single instance, which works for all keys.
///
/// Everything else may differ, because each version has its own: other watches, indexes, predicates, writes and limits.
pub(super) fn check(
    running: &Descriptor,
    canary: &Descriptor,
    plugin: &PluginName,
) -> Result<(), LoadProblem> {
    compare(running, canary).map_err(|problem| LoadProblem::Canary { problem, plugin: plugin.clone() })
}

/// Errors with the reason for which the versions cannot divide their work.
pub(super) fn compare(running: &Descriptor, canary: &Descriptor) -> Result<(), String> {
    for (name, descriptor) in [("the running version", running), ("it", canary)] {
        if descriptor.stateful {
            return Err(format!("{name} is stateful, so one instance reconciles all keys"));
        }
        if let Some(watch) = descriptor.watches.iter().find(|watch| watch.notify) {
            return Err(format!("{name} observes watch {:?}, and each change is observed once", watch.name));
        }
    }
    for (descriptor, other, has_it) in
        [(running, canary, "the running version"), (canary, running, "only the new version")]
    {
        for target in targets(descriptor) {
            match other.watch(&target.name).filter(|watch| watch.trigger == Some(Trigger::Itself)) {
                None => return Err(format!("{has_it} has the target watch {:?}", target.name)),
                Some(same) if selection(same) != selection(target) => {
                    return Err(format!("the target watch {:?} selects other objects", target.name));
                }
                Some(_) => {}
            }
        }
    }
    Ok(())
}

fn targets(descriptor: &Descriptor) -> impl Iterator<Item = &Watch> {
    descriptor.watches.iter().filter(|watch| watch.trigger == Some(Trigger::Itself))
}

/// Returns what determines the objects of a watch. The order of namespaces does not.
pub(super) fn selection(watch: &Watch) -> (&str, &str, Option<&str>, Vec<&str>, &str, &str) {
    let mut namespaces: Vec<&str> = watch.namespaces.iter().map(String::as_str).collect();
    namespaces.sort_unstable();
    (
        &watch.api_version,
        &watch.kind,
        watch.resource.as_deref(),
        namespaces,
        &watch.label_selector,
        &watch.field_selector,
    )
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A descriptor with a target watch that has these members, and these other watches.
    fn descriptor(target: &Value, others: &Value) -> Descriptor {
        let mut watch = json!({"name": "maps", "apiVersion": "v1", "kind": "ConfigMap", "trigger": "self"});
        let members = watch.as_object_mut().expect("an object");
        members.extend(target.as_object().expect("members").clone());
        let mut watches = vec![watch];
        watches.extend(others.as_array().expect("a list").iter().cloned());
        parse(&json!({"watches": watches}))
    }

    fn parse(members: &Value) -> Descriptor {
        let mut descriptor = json!({"apiVersion": "pilothouse.dev/v1alpha1", "kind": "Plugin"});
        let object = descriptor.as_object_mut().expect("an object");
        object.extend(members.as_object().expect("members").clone());
        Descriptor::parse(&descriptor.to_string()).expect("a descriptor")
    }

    #[test]
    fn versions_with_the_same_targets_run_beside_each_other() {
        let running = descriptor(&json!({"namespaces": ["a", "b"]}), &json!([]));
        let same = [
            descriptor(&json!({"namespaces": ["b", "a"]}), &json!([])),
            descriptor(
                &json!({"namespaces": ["a", "b"], "predicate": "event == 'created'", "resync": 1000,
                    "indexes": [{"name": "team", "label": "team"}]}),
                &json!([{"name": "secrets", "apiVersion": "v1", "kind": "Secret",
                    "trigger": {"label": {"key": "map", "watch": "maps"}}}]),
            ),
        ];
        for canary in same {
            assert_eq!(compare(&running, &canary), Ok(()));
            assert_eq!(compare(&canary, &running), Ok(()));
        }
    }

    #[test]
    fn versions_with_other_targets_or_an_observer_do_not() {
        let running = descriptor(&json!({}), &json!([]));
        let second = json!([{"name": "secrets", "apiVersion": "v1", "kind": "Secret", "trigger": "self"}]);
        let stateful = json!({"stateful": true, "watches": [
            {"name": "maps", "apiVersion": "v1", "kind": "ConfigMap", "trigger": "self"}]});
        for (other, expected) in [
            (descriptor(&json!({}), &second), "has the target watch \"secrets\""),
            (descriptor(&json!({"name": "other"}), &json!([])), "has the target watch"),
            (descriptor(&json!({"kind": "Secret"}), &json!([])), "\"maps\" selects other objects"),
            (descriptor(&json!({"namespaces": ["a"]}), &json!([])), "\"maps\" selects other objects"),
            (descriptor(&json!({"labelSelector": "a=b"}), &json!([])), "\"maps\" selects other objects"),
            (descriptor(&json!({"notify": true}), &json!([])), "observes watch \"maps\""),
            (parse(&stateful), "is stateful"),
        ] {
            for (left, right) in [(&running, &other), (&other, &running)] {
                let problem = compare(left, right).expect_err(expected);
                assert!(problem.contains(expected), "{problem}");
            }
        }
    }
}
