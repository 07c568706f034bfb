//! Decides which objects of the kind `Plugin` are run, and why the others are not. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Value, json};

use super::object::{PluginObject, PluginSpec};
use super::{MAX_OBJECTS, MAX_OBJECTS_OF_OTHERS, ObjectPlugin};
use crate::name::PluginName;

/// Limit in bytes for the spec of an object that is not in the host's own namespace. The host holds it several times in memory.
const MAX_SPEC_OF_OTHERS: usize = 32 << 10;

/// Why an object is not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The reason of the condition.
    pub(crate) reason: &'static str,
    /// What is wrong, and what to do.
    pub(crate) message: String,
    /// Whether the plugin's name belongs to this object, so that the refusal can be shown as the plugin's problem.
    pub(crate) owns_name: bool,
}

impl Refusal {
    pub(super) fn new(reason: &'static str, message: String) -> Self {
        Self { reason, message, owns_name: true }
    }

    fn without_name(reason: &'static str, message: String) -> Self {
        Self { reason, message, owns_name: false }
    }
}

/// The names that objects cannot have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TakenNames<'a> {
    /// The plugins in the plugins directory.
    pub(crate) directory: &'a BTreeSet<String>,
    /// The plugins of the configuration.
    pub(crate) configured: &'a BTreeSet<String>,
}

/// Decides about each object. Returns the decisions in the order of the objects.
///
/// Of several objects with one name, that in the host's namespace is run, then the oldest: nobody takes a running plugin's name by creating an
/// object.
pub(crate) fn select(
    objects: &[&PluginObject],
    own_namespace: &str,
    taken: TakenNames<'_>,
) -> Vec<Result<ObjectPlugin, Refusal>> {
    let precedence = |object: &PluginObject| {
        (
            object.namespace != own_namespace,
            object.created.clone(),
            object.namespace.clone(),
            object.name.clone(),
        )
    };
    let mut order: Vec<usize> = (0..objects.len()).collect();
    order.sort_by_cached_key(|&position| precedence(objects[position]));
    let mut selection =
        Selection { own_namespace, taken, owners: BTreeMap::new(), of_others: BTreeMap::new() };
    let mut decisions: Vec<_> =
        order.into_iter().map(|position| (position, selection.decide(objects[position]))).collect();
    decisions.sort_by_key(|(position, _)| *position);
    decisions.into_iter().map(|(_, decision)| decision).collect()
}

struct Selection<'a> {
    own_namespace: &'a str,
    taken: TakenNames<'a>,
    /// The namespaces of the objects that have a name.
    owners: BTreeMap<&'a str, &'a str>,
    /// The number of objects in each namespace that is not the host's own.
    of_others: BTreeMap<&'a str, usize>,
}

impl<'a> Selection<'a> {
    fn decide(&mut self, object: &'a PluginObject) -> Result<ObjectPlugin, Refusal> {
        let name = object.name.as_str();
        if let Err(error) = PluginName::of_file(Path::new(&format!("{name}.wasm"))) {
            return Err(Refusal::without_name("InvalidName", error.to_string()));
        }
        self.take_name(object)?;
        let spec = object.spec.as_ref().map_err(Clone::clone)?;
        let mut members = spec.members.clone();
        if object.namespace != self.own_namespace {
            check_other_namespace(&object.namespace, spec)?;
            // The host applies CRDs with its own permissions, so its default does not apply to others.
            let grants = members.entry("grants").or_insert_with(|| json!({}));
            if !grants.is_object() {
                *grants = json!({});
            }
            grants["crds"] = Value::Bool(false);
        }
        Ok(ObjectPlugin {
            name: name.to_owned(),
            image: spec.image.clone(),
            poll: spec.poll.clone(),
            sidecar: members,
        })
    }

    /// Gives the object the name, unless somebody else has it.
    fn take_name(&mut self, object: &'a PluginObject) -> Result<(), Refusal> {
        let name = object.name.as_str();
        let conflict = |owner: String, remedy: String| {
            let message = format!("the name {name:?} belongs to {owner}, which is run instead; {remedy}");
            Err(Refusal::without_name("NameConflict", message))
        };
        if self.taken.directory.contains(name) {
            let file = format!("the file {name}.wasm in the plugins directory");
            return conflict(file, "remove the file, or give the object another name".to_owned());
        }
        if self.taken.configured.contains(name) {
            let entry = "an entry of plugins in the host's configuration".to_owned();
            return conflict(entry, "remove the entry, or give the object another name".to_owned());
        }
        if let Some(namespace) = self.owners.get(name) {
            let owner = format!("the object {namespace}/{name}");
            return conflict(owner, "delete one of them, or give it another name".to_owned());
        }
        let too_many = |most: usize, place: &str| {
            let message = format!(
                "there are more than {most} objects {place}; delete some, or run them in another host"
            );
            Err(Refusal::without_name("TooManyPlugins", message))
        };
        if self.owners.len() >= MAX_OBJECTS {
            return too_many(MAX_OBJECTS, "in all namespaces");
        }
        if object.namespace != self.own_namespace {
            let count = self.of_others.entry(&object.namespace).or_default();
            if *count >= MAX_OBJECTS_OF_OTHERS {
                return too_many(MAX_OBJECTS_OF_OTHERS, "in this namespace");
            }
            *count += 1;
        }
        self.owners.insert(name, &object.namespace);
        Ok(())
    }
}

/// Checks that an object outside of the host's namespace gives its plugin nothing that belongs to the host.
fn check_other_namespace(namespace: &str, spec: &PluginSpec) -> Result<(), Refusal> {
    let is_own = spec.service_account.as_ref().is_some_and(|account| account.namespace() == namespace);
    if !is_own {
        let message = format!(
            "outside of the host's namespace, spec.serviceAccount has to name a service account of the object's own namespace; \
             write {namespace}/NAME"
        );
        return Err(Refusal::new("ServiceAccountRequired", message));
    }
    let reserved = [
        ("workers", spec.members.contains_key("workers")),
        ("limits", spec.members.contains_key("limits")),
        ("grants.crds", spec.grants_crds),
        ("grants.http", spec.grants_http),
    ];
    if spec.size > MAX_SPEC_OF_OTHERS {
        let message = format!(
            "spec has {} bytes, and outside of the host's namespace at most {MAX_SPEC_OF_OTHERS} are accepted; shorten spec.config",
            spec.size
        );
        return Err(Refusal::new("NotAllowed", message));
    }
    match reserved.into_iter().find(|(_, is_used)| *is_used) {
        Some((member, _)) => {
            let message = format!(
                "spec.{member} uses what belongs to the host, so only objects in the host's namespace may set it; remove it, or ask \
                 the host's operator"
            );
            Err(Refusal::new("NotAllowed", message))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_model::Object;

    use super::*;

    const OWN: &str = "pilothouse";

    fn object(namespace: &str, name: &str, created: &str, spec: &Value) -> PluginObject {
        let object = json!({
            "apiVersion": "pilothouse.dev/v1alpha1", "kind": "Plugin",
            "metadata": {"name": name, "namespace": namespace, "uid": format!("{namespace}-{name}"), "creationTimestamp": created},
            "spec": spec,
        });
        PluginObject::parse(&Object::from_json(object.to_string()).expect("an object"))
    }

    fn spec_of(namespace: &str) -> Value {
        match namespace {
            OWN => json!({"image": "r.example/p:1"}),
            _ => json!({"image": "r.example/p:1", "serviceAccount": format!("{namespace}/robot")}),
        }
    }

    /// Returns for each object `run` or the reason of the refusal.
    fn decide(objects: &[PluginObject], directory: &[&str], configured: &[&str]) -> Vec<&'static str> {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        let (directory, configured) = (names(directory), names(configured));
        let objects: Vec<_> = objects.iter().collect();
        let taken = TakenNames { directory: &directory, configured: &configured };
        let decisions = select(&objects, OWN, taken);
        decisions
            .into_iter()
            .map(|decision| decision.map_or_else(|refusal| refusal.reason, |_| "run"))
            .collect()
    }

    #[test]
    fn the_directory_comes_first_then_the_configuration_then_objects() {
        let all = ["a", "b", "c"].map(|name| object(OWN, name, "2026-01-01", &spec_of(OWN)));
        assert_eq!(decide(&all, &["a"], &["a", "b"]), ["NameConflict", "NameConflict", "run"]);
        assert_eq!(decide(&all, &[], &[]), ["run", "run", "run"]);
    }

    #[test]
    fn a_younger_object_does_not_take_a_name_and_the_hosts_namespace_comes_first() {
        let at = |namespace: &str, created: &str| object(namespace, "p", created, &spec_of(namespace));
        let objects = [at("b", "2026-03-01"), at("a", "2026-02-01"), at("c", "2026-01-01")];
        assert_eq!(decide(&objects, &[], &[]), ["NameConflict", "NameConflict", "run"]);
        let with_own = [at("c", "2026-01-01"), at(OWN, "2026-05-01")];
        assert_eq!(decide(&with_own, &[], &[]), ["NameConflict", "run"]);
        let same_time = [at("b", "2026-01-01"), at("a", "2026-01-01")];
        assert_eq!(
            decide(&same_time, &[], &[]),
            ["NameConflict", "run"],
            "the order is the same at each time"
        );
        // An object keeps its name while its spec is invalid, so that the plugin is not another one meanwhile.
        let invalid = [object(OWN, "p", "2026-01-01", &json!({})), at("a", "2026-02-01")];
        assert_eq!(decide(&invalid, &[], &[]), ["InvalidSpec", "NameConflict"]);
    }

    #[test]
    fn an_object_of_another_namespace_uses_only_its_own_service_account() {
        let with = |members: Value| {
            let mut spec = spec_of("shop");
            for (name, value) in members.as_object().expect("members") {
                spec[name] = value.clone();
            }
            object("shop", "p", "2026-01-01", &spec)
        };
        for (members, expected) in [
            (json!({}), "run"),
            (json!({"config": {"a": 1}, "grants": {"crds": false, "watches": []}, "enabled": true}), "run"),
            (json!({"serviceAccount": "kube-system/admin"}), "ServiceAccountRequired"),
            (json!({"grants": {"crds": true}}), "NotAllowed"),
            (json!({"grants": {"http": ["a.example.com"]}}), "NotAllowed"),
            (json!({"limits": {"memory": "1Mi"}}), "NotAllowed"),
            (json!({"workers": 64}), "NotAllowed"),
            (json!({"config": {"a": "x".repeat(MAX_SPEC_OF_OTHERS)}}), "NotAllowed"),
        ] {
            assert_eq!(decide(&[with(members.clone())], &[], &[]), [expected], "{members}");
        }
        let without = object("shop", "p", "2026-01-01", &json!({"image": "r.example/p:1"}));
        assert_eq!(decide(&[without], &[], &[]), ["ServiceAccountRequired"]);
    }

    #[test]
    fn an_object_of_another_namespace_never_gets_the_hosts_default_for_crds() {
        let none = BTreeSet::new();
        let taken = TakenNames { directory: &none, configured: &none };
        let other = object("shop", "p", "2026-01-01", &spec_of("shop"));
        let own = object(OWN, "q", "2026-01-01", &spec_of(OWN));
        let decisions = select(&[&other, &own], OWN, taken);
        let sidecars: Vec<_> = decisions.into_iter().map(|decision| decision.expect("run").sidecar).collect();
        assert_eq!(sidecars[0]["grants"], json!({"crds": false}));
        assert_eq!(sidecars[1].get("grants"), None);
    }

    #[test]
    fn the_number_of_objects_and_their_names_are_limited() {
        let many = |namespace: &str, count: usize| -> Vec<_> {
            (0..count)
                .map(|number| object(namespace, &format!("p{number:05}"), "2026", &spec_of(namespace)))
                .collect()
        };
        let refused =
            |decisions: &[&str]| decisions.iter().filter(|decision| **decision == "TooManyPlugins").count();
        assert_eq!(refused(&decide(&many(OWN, MAX_OBJECTS + 3), &[], &[])), 3);
        assert_eq!(refused(&decide(&many("shop", MAX_OBJECTS_OF_OTHERS + 2), &[], &[])), 2);
        let names = ["a.b", "pilothouse-crds"].map(|name| object(OWN, name, "2026", &spec_of(OWN)));
        assert_eq!(decide(&names, &[], &[]), ["InvalidName", "InvalidName"]);
    }

    #[test]
    fn a_refusal_names_the_owner_and_the_remedy() {
        let directory = BTreeSet::from(["p".to_owned()]);
        let taken = TakenNames { directory: &directory, configured: &BTreeSet::new() };
        let own = object(OWN, "p", "2026", &spec_of(OWN));
        let refusal = select(&[&own], OWN, taken).remove(0).expect_err("a conflict");
        assert!(refusal.message.contains("p.wasm in the plugins directory"), "{refusal:?}");
        assert!(refusal.message.contains("remove the file") && !refusal.owns_name, "{refusal:?}");
    }
}
