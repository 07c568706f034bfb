//! Case 10: deletes a node on which a Pod was just placed.
//!
//! The plugin deletes a labelled node when its cache shows no Pod on it. The scheduler may place a Pod there between the read and the
//! deletion. The project accepts that as a trade-off, so no built-in oracle reports it; an invariant of the scenario does.
//!
//! Source: <https://github.com/kubernetes-sigs/karpenter/issues/2916>

use std::time::Duration;

use pilothouse_sdk::jiff::Timestamp;
use pilothouse_sdk::serde_json::json;
use pilothouse_sdk::{
    Context, Error, Index, Object, Outcome, Plugin, Request, Verb, Watch, WatchRef, WriteRule, clock,
};

use crate::{Case, kit};

const NODES: WatchRef<Object> = WatchRef::new("nodes");
const PODS: WatchRef<Object> = WatchRef::new("pods");
/// The label of the nodes that are deleted when they are empty.
const REMOVE: &str = "catalogue.pilothouse.dev/remove-when-empty";
/// The label of a Pod with the name of its node. It stands for `spec.nodeName`, which nobody but the scheduler can set.
const NODE: &str = "node";
/// The annotation with the time since which nothing is scheduled to the node.
const CORDONED_AT: &str = "catalogue.pilothouse.dev/cordoned-at";
/// How long the right twin leaves the scheduler for decisions that it made before.
const DRAIN: Duration = Duration::from_secs(10);

/// See the module.
#[derive(Default)]
pub struct EmptyNode;

impl Case for EmptyNode {
    const NAME: &'static str = "empty-node";

    fn describe(plugin: Plugin) -> Plugin {
        let pods = Watch::untyped(PODS, kit::core("Pod")).index(Index::by_label("byNode", NODE));
        plugin
            .watch(Watch::untyped(NODES, kit::core("Node")).label_selector(REMOVE).triggers_itself())
            .watch(pods.triggers_label(NODE, NODES))
            .writes(WriteRule::untyped("", "nodes", &[Verb::Patch, Verb::Delete]))
            .writes(WriteRule::untyped("", "pods", &[Verb::List]))
    }

    fn wrong(&self, ctx: &Context<'_>, request: &Request) -> Result<Outcome, Error> {
        let Some(node) = ctx.cache(NODES).get(&request.key)? else { return Ok(Outcome::Done) };
        if ctx.cache(PODS).index_keys("byNode", &request.key.name).is_empty() {
            kit::delete_by_uid(ctx, &node)?;
        }
        Ok(Outcome::Done)
    }

    fn right(&self, ctx: &Context<'_>, request: &Request) -> Result<Outcome, Error> {
        let Some(node) = ctx.cache(NODES).get(&request.key)? else { return Ok(Outcome::Done) };
        let now = clock::now();
        let cordoned_at = node.annotation(CORDONED_AT).and_then(|text| text.parse::<Timestamp>().ok());
        let is_cordoned = node.field::<bool>("/spec/unschedulable")?.unwrap_or(false);
        let Some(since) = cordoned_at.filter(|_| is_cordoned) else {
            let annotations = json!({CORDONED_AT: now.to_string()});
            let cordon = json!({"metadata": {"annotations": annotations}, "spec": {"unschedulable": true}});
            kit::merge_unchanged(ctx, &node, cordon)?;
            return Ok(Outcome::RequeueAfter(DRAIN));
        };
        let age = Duration::try_from(now.duration_since(since)).unwrap_or_default();
        if age < DRAIN {
            return Ok(Outcome::RequeueAfter(DRAIN - age));
        }
        let selector = format!("{NODE}={}", request.key.name);
        if kit::list_live(ctx, &kit::core("Pod"), "", &selector)?.is_empty() {
            // The version is a precondition too: nobody has made the node schedulable since.
            kit::delete_unchanged(ctx, &node)?;
        }
        Ok(Outcome::Done) // The deletion of the last Pod will be another reconcile.
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_sdk::serde_json::Value;
    use pilothouse_sdk::testing::Host;
    use pilothouse_sdk::{ObjectKey, Reconciler};

    use super::*;
    use crate::{Right, Wrong};

    fn reconciled<P: Reconciler>(pods: &[Value]) -> (Outcome, Vec<String>) {
        let host = Host::<P>::new();
        pods.iter().for_each(|pod| drop(host.put_json(pod.clone())));
        host.put_json(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "spare", "labels": {REMOVE: "true"}}}));
        let outcome = host.reconcile(NODES, &ObjectKey::new("", "spare")).expect("a reconcile");
        (outcome, host.writes())
    }

    #[test]
    fn the_wrong_twin_deletes_at_once_and_the_right_one_cordons_and_waits() {
        assert_eq!(
            reconciled::<Wrong<EmptyNode>>(&[]),
            (Outcome::Done, vec!["delete v1 Node spare".to_owned()])
        );
        let (outcome, writes) = reconciled::<Right<EmptyNode>>(&[]);
        assert_eq!((outcome, writes), (Outcome::RequeueAfter(DRAIN), vec!["patch v1 Node spare".to_owned()]));
    }

    #[test]
    fn the_wrong_twin_leaves_a_node_with_a_pod_alone() {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "default", "labels": {NODE: "spare"}}});
        assert_eq!(reconciled::<Wrong<EmptyNode>>(&[pod]), (Outcome::Done, Vec::new()));
    }
}
