//! Case 6: two Pods on one node.
//!
//! The plugin creates a Pod where its cache shows none, and the server chooses the name. After a crash, the first list of Pods may lack the
//! one that was created just before.
//!
//! Sources: <https://github.com/kubernetes/kubernetes/issues/54096>, fixed by <https://github.com/kubernetes/kubernetes/pull/134937>;
//! KEP-5647

use pilothouse_sdk::serde_json::{Value, json};
use pilothouse_sdk::{
    Context, Error, Index, Object, ObjectKey, Outcome, Plugin, Query, Request, Verb, Watch, WatchRef,
    WriteRule,
};

use crate::{Case, kit};

const SETS: WatchRef<Object> = WatchRef::new("sets");
const NODES: WatchRef<Object> = WatchRef::new("nodes");
const PODS: WatchRef<Object> = WatchRef::new("pods");

/// See the module.
#[derive(Default)]
pub struct PodPerNode;

impl Case for PodPerNode {
    const NAME: &'static str = "pod-per-node";

    fn describe(plugin: Plugin) -> Plugin {
        let by_node = Index::by_field("byNode", "{.spec.nodes[*]}");
        plugin
            .crd(kit::definition(include_str!("../../../crds/podset.json")))
            .watch(Watch::untyped(SETS, kit::own("PodSet")).triggers_itself().index(by_node))
            .watch(Watch::untyped(NODES, kit::core("Node")).metadata_only().triggers_index(SETS, "byNode"))
            .watch(
                Watch::untyped(PODS, kit::core("Pod"))
                    .label_selector("set")
                    .metadata_only()
                    .triggers_owner(SETS),
            )
            .writes(WriteRule::untyped("", "pods", &[Verb::Create]))
    }

    fn wrong(&self, ctx: &Context<'_>, request: &Request) -> Result<Outcome, Error> {
        create_missing(ctx, request, |key, _| json!({"generateName": format!("{}-", key.name)}))
    }

    fn right(&self, ctx: &Context<'_>, request: &Request) -> Result<Outcome, Error> {
        // If the cache lacks a Pod that exists, the server refuses the second one of the same name.
        create_missing(ctx, request, |key, node| json!({"name": format!("{}-{node}", key.name)}))
    }
}

/// Creates a Pod for each node that the cache shows no Pod of the set for. `metadata` has the Pod's name.
fn create_missing(
    ctx: &Context<'_>,
    request: &Request,
    metadata: impl Fn(&ObjectKey, &str) -> Value,
) -> Result<Outcome, Error> {
    let key = &request.key;
    let Some(set) = ctx.cache(SETS).get(key)?.filter(|set| !set.is_being_deleted()) else {
        return Ok(Outcome::Done);
    };
    let nodes: Vec<String> = set.field("/spec/nodes")?.unwrap_or_default();
    for node in nodes {
        let exists = ctx.cache(NODES).get(&ObjectKey::new("", node.as_str()))?.is_some();
        let of_node = format!("set={},node={node}", key.name);
        let pods = ctx.cache(PODS).list(&Query::all().namespace(key.namespace.as_str()).labels(of_node))?;
        if exists && pods.is_empty() {
            let mut metadata = metadata(key, &node);
            metadata["namespace"] = key.namespace.as_str().into();
            metadata["labels"] = json!({"set": key.name, "node": node});
            metadata["ownerReferences"] = kit::owned_by(&set);
            ctx.client().untyped().create(&kit::pod(&metadata), "")?;
        }
    }
    Ok(Outcome::Done)
}

#[cfg(test)]
mod tests {
    use pilothouse_sdk::Reconciler;
    use pilothouse_sdk::testing::Host;

    use super::*;
    use crate::{Right, Wrong};

    /// Returns the number of Pods after two reconciles, and whether the second one wrote.
    fn created<P: Reconciler>() -> (usize, usize) {
        let host = Host::<P>::new();
        for node in ["node-1", "node-2"] {
            host.put_json(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}}));
        }
        host.put_json(json!({
            "apiVersion": "catalogue.pilothouse.dev/v1", "kind": "PodSet", "spec": {"nodes": ["node-1", "node-2", "node-3"]},
            "metadata": {"name": "a", "namespace": "default"},
        }));
        let key = ObjectKey::new("default", "a");
        host.reconcile(SETS, &key).expect("a reconcile");
        let first = host.writes().len();
        host.reconcile(SETS, &key).expect("a reconcile");
        (first, host.writes().len() - first)
    }

    #[test]
    fn without_faults_both_twins_create_one_pod_for_each_node_that_exists() {
        assert_eq!(created::<Wrong<PodPerNode>>(), (2, 0));
        assert_eq!(created::<Right<PodPerNode>>(), (2, 0));
    }
}
