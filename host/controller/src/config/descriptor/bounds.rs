//! Limits for the sizes in a descriptor, checked before any part of it is compiled or subscribed to.

use super::{Descriptor, DescriptorError, Rule, Trigger, Watch};

/// Bytes of a descriptor, including its CRDs.
pub(crate) const MAX_DESCRIPTOR: usize = 4 << 20;
/// Watches of a plugin.
pub(crate) const MAX_WATCHES: usize = 100;
/// Namespaces of one watch.
pub(crate) const MAX_NAMESPACES: usize = 256;
/// Informers of a plugin: one for each watch, or for each of its namespaces.
pub(crate) const MAX_INFORMERS: usize = 512;
/// Indexes of one watch.
pub(crate) const MAX_INDEXES: usize = 32;
/// Indexes of all watches.
pub(crate) const MAX_ALL_INDEXES: usize = 256;
/// Bytes of a label or field selector.
pub(crate) const MAX_SELECTOR: usize = 4096;
/// Write rules of a plugin, and rules in each list of a sidecar.
pub(crate) const MAX_RULES: usize = 256;
/// Entries in each list of a rule.
pub(crate) const MAX_RULE_ENTRIES: usize = 256;
/// HTTP hosts.
pub(crate) const MAX_HTTP_HOSTS: usize = 256;
/// CRDs of a plugin.
pub(crate) const MAX_CRDS: usize = 64;
/// Bytes of one CRD: as much as etcd accepts.
pub(crate) const MAX_CRD: usize = 3 << 19;
/// Bytes of a name, key, kind, version or host.
pub(crate) const MAX_NAME: usize = 512;
/// Bytes of the summary.
pub(crate) const MAX_SUMMARY: usize = 4096;

type Checked = Result<(), DescriptorError>;

/// Checks the text before it is parsed.
pub(super) fn check_text(text: &str) -> Checked {
    if text.len() <= MAX_DESCRIPTOR {
        return Ok(());
    }
    Err(DescriptorError::TooLarge(text.len()))
}

/// Checks the sizes in the descriptor against their limits.
pub(super) fn check(descriptor: &Descriptor) -> Checked {
    at_most("watches", descriptor.watches.len(), MAX_WATCHES, "watches")?;
    at_most("writes", descriptor.writes.len(), MAX_RULES, "rules")?;
    at_most("http", descriptor.http.len(), MAX_HTTP_HOSTS, "hosts")?;
    at_most("crds", descriptor.crds.len(), MAX_CRDS, "CRDs")?;
    at_most("summary", descriptor.summary.len(), MAX_SUMMARY, "bytes")?;
    names("name", [&descriptor.name])?;
    names("version", [&descriptor.version])?;
    names("http", &descriptor.http)?;
    for (position, watch) in descriptor.watches.iter().enumerate() {
        check_watch(watch, &format!("watches[{position}]"))?;
    }
    let informers = descriptor.watches.iter().map(|watch| watch.namespaces.len().max(1)).sum();
    at_most("watches", informers, MAX_INFORMERS, "watched namespaces in all")?;
    let indexes = descriptor.watches.iter().map(|watch| watch.indexes.len()).sum();
    at_most("watches", indexes, MAX_ALL_INDEXES, "indexes in all")?;
    for (position, rule) in descriptor.writes.iter().enumerate() {
        if let Some((list, entries)) = oversized_list(rule) {
            return at_most(&format!("writes[{position}].{list}"), entries, MAX_RULE_ENTRIES, "entries");
        }
        for list in [&rule.api_groups, &rule.resources, &rule.verbs, &rule.namespaces] {
            names(&format!("writes[{position}]"), list)?;
        }
    }
    for (position, crd) in descriptor.crds.iter().enumerate() {
        at_most(&format!("crds[{position}]"), crd.to_string().len(), MAX_CRD, "bytes")?;
    }
    Ok(())
}

fn check_watch(watch: &Watch, path: &str) -> Checked {
    at_most(&format!("{path}.namespaces"), watch.namespaces.len(), MAX_NAMESPACES, "namespaces")?;
    at_most(&format!("{path}.indexes"), watch.indexes.len(), MAX_INDEXES, "indexes")?;
    at_most(&format!("{path}.labelSelector"), watch.label_selector.len(), MAX_SELECTOR, "bytes")?;
    at_most(&format!("{path}.fieldSelector"), watch.field_selector.len(), MAX_SELECTOR, "bytes")?;
    names(path, [&watch.name, &watch.api_version, &watch.kind].into_iter().chain(&watch.resource))?;
    names(&format!("{path}.namespaces"), &watch.namespaces)?;
    for index in &watch.indexes {
        names(
            &format!("{path}.indexes"),
            [&index.name].into_iter().chain(&index.label).chain(&index.annotation),
        )?;
    }
    let trigger = watch.trigger.as_ref();
    names(&format!("{path}.trigger"), trigger.into_iter().flat_map(Trigger::names))
}

/// Returns the first list of a rule that has too many entries, with its length.
pub(crate) fn oversized_list(rule: &Rule) -> Option<(&'static str, usize)> {
    [
        ("apiGroups", rule.api_groups.len()),
        ("resources", rule.resources.len()),
        ("verbs", rule.verbs.len()),
        ("namespaces", rule.namespaces.len()),
    ]
    .into_iter()
    .find(|(_, entries)| *entries > MAX_RULE_ENTRIES)
}

fn names<'n>(path: &str, names: impl IntoIterator<Item = &'n String>) -> Checked {
    names.into_iter().try_for_each(|name| at_most(path, name.len(), MAX_NAME, "bytes in one name"))
}

fn at_most(path: &str, count: usize, bound: usize, what: &str) -> Checked {
    if count <= bound {
        return Ok(());
    }
    Err(DescriptorError::invalid(
        path,
        format!("there are {count} {what}, and a descriptor may have {bound}"),
        "declare fewer, or make several plugins of this one (docs/limits.md)",
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn descriptor(members: &Value) -> Value {
        let mut descriptor = json!({
            "apiVersion": "pilothouse.dev/v1alpha1", "kind": "Plugin",
            "watches": [{"name": "a", "apiVersion": "v1", "kind": "Pod", "trigger": "self"}]
        });
        let given = members.as_object().expect("members").clone();
        descriptor.as_object_mut().expect("an object").extend(given);
        descriptor
    }

    fn watches(count: usize, members: &Value) -> Value {
        let watch = |position: usize| {
            let mut watch = json!({"name": format!("w{position}"), "apiVersion": "v1", "kind": "Pod"});
            watch.as_object_mut().expect("an object").extend(members.as_object().expect("members").clone());
            watch
        };
        descriptor(&json!({"watches": (0..count).map(watch).collect::<Vec<_>>()}))
    }

    #[test]
    fn an_oversized_descriptor_is_refused_and_the_error_states_the_limit() {
        let indexes = |count: usize| -> Value {
            json!({"indexes": (0..count).map(|position| json!({"name": format!("i{position}"), "owner": true})).collect::<Vec<_>>()})
        };
        let spaces = |count: usize| -> Value {
            json!({"namespaces": (0..count).map(|position| format!("n{position}")).collect::<Vec<_>>()})
        };
        let rule = |list: &str| json!({"writes": [{list: vec!["x"; 257]}]});
        let crd = json!({"kind": "CustomResourceDefinition", "metadata": {"name": "a.example.com"}});
        for (value, place, bound) in [
            (watches(101, &json!({})), "watches:", "101 watches, and a descriptor may have 100"),
            (watches(1, &spaces(257)), "watches[0].namespaces:", "may have 256"),
            (watches(3, &spaces(200)), "watches:", "600 watched namespaces in all"),
            (watches(1, &indexes(33)), "watches[0].indexes:", "33 indexes"),
            (watches(10, &indexes(30)), "watches:", "300 indexes in all"),
            (
                watches(1, &json!({"labelSelector": "a".repeat(4097)})),
                "watches[0].labelSelector:",
                "4097 bytes",
            ),
            (
                watches(1, &json!({"fieldSelector": "a".repeat(4097)})),
                "watches[0].fieldSelector:",
                "4097 bytes",
            ),
            (watches(1, &json!({"kind": "a".repeat(513)})), "watches[0]:", "513 bytes in one name"),
            (descriptor(&json!({"writes": vec![json!({}); 257]})), "writes:", "257 rules"),
            (descriptor(&rule("verbs")), "writes[0].verbs:", "257 entries"),
            (descriptor(&rule("namespaces")), "writes[0].namespaces:", "257 entries"),
            (descriptor(&json!({"http": vec!["a.example.com"; 257]})), "http:", "257 hosts"),
            (descriptor(&json!({"crds": vec![crd.clone(); 65]})), "crds:", "65 CRDs"),
            (descriptor(&json!({"crds": [{"spec": "a".repeat(MAX_CRD)}]})), "crds[0]:", "bytes"),
            (descriptor(&json!({"summary": "a".repeat(4097)})), "summary:", "4097 bytes"),
            (
                descriptor(&json!({"summary": "a".repeat(MAX_DESCRIPTOR)})),
                "the descriptor that the plugin returned has",
                "may have 4194304",
            ),
        ] {
            let error = Descriptor::parse(&value.to_string()).expect_err(place).to_string();
            assert!(error.contains(place) && error.contains(bound), "{place} {bound}: {error}");
            assert!(error.contains("declare ") && error.len() < 300, "{error}");
        }
        let many =
            watches(100, &json!({"indexes": [{"name": "i", "owner": true}], "namespaces": ["a", "b"]}));
        assert!(Descriptor::parse(&many.to_string()).is_ok());
    }

    #[test]
    fn deeply_nested_json_is_refused() {
        let crd = "[".repeat(100_000);
        let error = Descriptor::parse(&format!("{{\"crds\":{crd}")).expect_err("nested").to_string();
        assert!(error.contains("recursion limit"), "{error}");
    }

    #[test]
    fn an_oversized_expression_is_refused() {
        let watch = |member: &str, text: String| watches(1, &json!({"trigger": "self", member: text}));
        let index = |path: String| watches(1, &json!({"indexes": [{"name": "i", "field": path}]}));
        for (value, place) in [
            (
                watch("predicate", format!("{}a", "!!(".repeat(30))),
                "predicate: there are more than 4 doubled prefixes",
            ),
            (
                watch("predicate", format!("object{}", ".a".repeat(3000))),
                "predicate: the expression nests deeper",
            ),
            (watch("predicate", "(".repeat(1000)), "predicate: more than 24 brackets"),
            (watch("predicate", "Foo{a: 1} == 1".to_owned()), "predicate: a message literal"),
            (
                watch("predicate", "'a'.matches('(a{100}){100}{100}')".to_owned()),
                "predicate: the pattern of matches()",
            ),
            (index(format!("$[?{}", "(".repeat(1000))), "indexes[0].field"),
            (index("$..[?$..[?$..x]]".to_owned()), "indexes[0].field"),
        ] {
            let error = Descriptor::parse(&value.to_string()).expect_err(place).to_string();
            assert!(error.contains(place) && !error.contains('\n'), "{place}: {error}");
        }
    }
}
