//! Case 7: creates too many Pods because the cache is slow.
//!
//! The plugin creates as many Pods as its cache lacks, and the server chooses their names. A second reconcile creates them again if the
//! watch has not delivered them yet. Pilothouse shows a plugin its own writes at once, which hides the bug unless the answer of a create
//! is lost.
//!
//! Source: <https://github.com/ray-project/kuberay/issues/715>

use pilothouse_sdk::serde_json::{Value, json};
use pilothouse_sdk::{Context, Error, Object, Outcome, Plugin, Request, Verb, Watch, WatchRef, WriteRule};

use crate::{Case, kit};

pub(super) const GROUPS: WatchRef<Object> = WatchRef::new("groups");
pub(super) const PODS: WatchRef<Object> = WatchRef::new("pods");
/// The label of a Pod with the name of its group.
pub(super) const GROUP: &str = "group";

/// See the module.
#[derive(Default)]
pub struct SlowCache;

impl Case for SlowCache {
    const NAME: &'static str = "slow-cache";

    fn describe(plugin: Plugin) -> Plugin {
        describe(plugin)
    }

    fn wrong(&self, ctx: &Context<'_>, request: &Request) -> Result<Outcome, Error> {
        let Some((group, pods)) = read(ctx, request)? else { return Ok(Outcome::Done) };
        let replicas = replicas(&group);
        for _ in pods.len()..replicas {
            let name = json!({"generateName": format!("{}-", request.key.name)});
            ctx.client().untyped().create(&kit::pod(&metadata(&group, name)), "")?;
        }
        for pod in pods.iter().skip(replicas) {
            kit::delete_by_uid(ctx, pod)?;
        }
        Ok(Outcome::Done)
    }

    fn right(&self, ctx: &Context<'_>, request: &Request) -> Result<Outcome, Error> {
        fill_by_ordinal(ctx, request)
    }
}

/// Declares the watches of groups and their Pods.
pub(super) fn describe(plugin: Plugin) -> Plugin {
    plugin
        .crd(kit::definition(include_str!("../../../crds/group.json")))
        .watch(Watch::untyped(GROUPS, kit::own("Group")).triggers_itself())
        .watch(
            Watch::untyped(PODS, kit::core("Pod"))
                .label_selector(GROUP)
                .metadata_only()
                .triggers_owner(GROUPS),
        )
        .writes(kit::may("groups", &[Verb::Get]))
        .writes(WriteRule::untyped("", "pods", &[Verb::Create, Verb::Delete]))
}

/// Reads a group and its Pods from the cache; `None` if the group is gone or going.
pub(super) fn read(ctx: &Context<'_>, request: &Request) -> Result<Option<(Object, Vec<Object>)>, Error> {
    let Some(group) = ctx.cache(GROUPS).get(&request.key)?.filter(|group| !group.is_being_deleted()) else {
        return Ok(None);
    };
    Ok(Some((group, ctx.cache(PODS).list(&kit::labelled(&request.key, GROUP))?)))
}

/// Returns the number of Pods that a group wants.
pub(super) fn replicas(group: &Object) -> usize {
    usize::try_from(kit::integer(group, "/spec/replicas", 1)).unwrap_or(0)
}

/// Adds namespace, label and owner to a Pod's metadata.
pub(super) fn metadata(group: &Object, mut name: Value) -> Value {
    let key = group.key();
    name["namespace"] = key.namespace.into();
    name["labels"] = json!({GROUP: key.name});
    name["ownerReferences"] = kit::owned_by(group);
    name
}

/// Creates and deletes Pods whose names follow from the group's name and their ordinals, so that none is created twice.
pub(super) fn fill_by_ordinal(ctx: &Context<'_>, request: &Request) -> Result<Outcome, Error> {
    let Some((group, pods)) = read(ctx, request)? else { return Ok(Outcome::Done) };
    let name = |ordinal: usize| format!("{}-{ordinal}", request.key.name);
    let wanted: Vec<String> = (0..replicas(&group)).map(name).collect();
    for name in &wanted {
        if !pods.iter().any(|pod| pod.key().name == *name) {
            ctx.client().untyped().create(&kit::pod(&metadata(&group, json!({"name": name}))), "")?;
        }
    }
    for pod in pods.iter().filter(|pod| !wanted.contains(&pod.key().name)) {
        // The cached group may be older than the Pod.
        let Some(live) = kit::get_live(ctx, &kit::own("Group"), &request.key)? else { break };
        if !(0..replicas(&live)).map(name).any(|name| name == pod.key().name) {
            kit::delete_by_uid(ctx, pod)?;
        }
    }
    Ok(Outcome::Done)
}

#[cfg(test)]
mod tests {
    use pilothouse_sdk::testing::Host;
    use pilothouse_sdk::{ObjectKey, Reconciler};

    use super::*;
    use crate::{Right, Wrong};

    /// Returns the number of writes of reconciles with two replicas, with three, again with three, and with one.
    fn scaled<P: Reconciler>() -> Vec<usize> {
        let host = Host::<P>::new();
        let mut counts = Vec::new();
        for replicas in [2, 3, 3, 1] {
            host.put_json(json!({
                "apiVersion": "catalogue.pilothouse.dev/v1", "kind": "Group", "spec": {"replicas": replicas},
                "metadata": {"name": "a", "namespace": "default", "uid": "u1"},
            }));
            let before = host.writes().len();
            host.reconcile(GROUPS, &ObjectKey::new("default", "a")).expect("a reconcile");
            counts.push(host.writes().len() - before);
        }
        counts
    }

    #[test]
    fn without_faults_both_twins_follow_the_number_of_replicas() {
        assert_eq!(scaled::<Wrong<SlowCache>>(), [2, 1, 0, 2]);
        assert_eq!(scaled::<Right<SlowCache>>(), [2, 1, 0, 2]);
    }
}
