//! Case 1: deletes the volumes of the new owner.
//!
//! A Zoo is deleted and created again under the same name. After a restart, the first list of Zoos may still contain the old one, which is
//! being deleted, while the list of claims already contains those of the new one.
//!
//! Sources: <https://github.com/pravega/zookeeper-operator/issues/312>, <https://github.com/instaclustr/cassandra-operator/issues/402>,
//! <https://github.com/Orange-OpenSource/casskop/issues/316>, <https://github.com/k8ssandra/cass-operator/issues/118>

use pilothouse_sdk::serde_json::json;
use pilothouse_sdk::{Context, Error, Object, Outcome, Plugin, Request, Verb, Watch, WatchRef, WriteRule};

use crate::{Case, kit};

const ZOOS: WatchRef<Object> = WatchRef::new("zoos");
const CLAIMS: WatchRef<Object> = WatchRef::new("claims");
/// Keeps a Zoo until its volumes are deleted.
const FINALIZER: &str = "catalogue.pilothouse.dev/volumes";
/// The annotation of a claim with the UID of its Zoo.
const ZOO_UID: &str = "zoo-uid";

/// See the module.
#[derive(Default)]
pub struct RecreatedOwner;

impl Case for RecreatedOwner {
    const NAME: &'static str = "recreated-owner";

    fn describe(plugin: Plugin) -> Plugin {
        let claims = kit::core("PersistentVolumeClaim");
        plugin
            .crd(kit::definition(include_str!("../../../crds/zoo.json")))
            .watch(Watch::untyped(ZOOS, kit::own("Zoo")).triggers_itself())
            .watch(Watch::untyped(CLAIMS, claims).metadata_only().triggers_label("app", ZOOS))
            .writes(kit::may("zoos", &[Verb::Patch]))
            .writes(WriteRule::untyped("", "persistentvolumeclaims", &[Verb::List, Verb::Delete]))
    }

    fn wrong(&self, ctx: &Context<'_>, request: &Request) -> Result<Outcome, Error> {
        let Some(zoo) = ctx.cache(ZOOS).get(&request.key)? else { return Ok(Outcome::Done) };
        if !zoo.is_being_deleted() {
            return set_finalizer(ctx, &zoo, true);
        }
        for claim in ctx.cache(CLAIMS).list(&kit::labelled(&request.key, "app"))? {
            kit::delete_by_name(ctx, &claim)?;
        }
        set_finalizer(ctx, &zoo, false)
    }

    fn right(&self, ctx: &Context<'_>, request: &Request) -> Result<Outcome, Error> {
        let Some(zoo) = ctx.cache(ZOOS).get(&request.key)? else { return Ok(Outcome::Done) };
        if !zoo.is_being_deleted() {
            return set_finalizer(ctx, &zoo, true);
        }
        let claims = kit::core("PersistentVolumeClaim");
        let selector = format!("app={}", request.key.name);
        for claim in kit::list_live(ctx, &claims, &request.key.namespace, &selector)? {
            if claim.annotation(ZOO_UID) == Some(zoo.uid()) {
                kit::delete_by_uid(ctx, &claim)?;
            }
        }
        set_finalizer(ctx, &zoo, false)
    }
}

/// Adds the finalizer to a Zoo, or removes it. Those of others stay.
fn set_finalizer(ctx: &Context<'_>, zoo: &Object, is_held: bool) -> Result<Outcome, Error> {
    let mut finalizers: Vec<String> = zoo.field("/metadata/finalizers")?.unwrap_or_default();
    if finalizers.iter().any(|name| name == FINALIZER) == is_held {
        return Ok(Outcome::Done);
    }
    finalizers.retain(|name| name != FINALIZER);
    if is_held {
        finalizers.push(FINALIZER.to_owned());
    }
    kit::merge_unchanged(ctx, zoo, json!({"metadata": {"finalizers": finalizers}}))?;
    Ok(Outcome::Done)
}

#[cfg(test)]
mod tests {
    use pilothouse_sdk::testing::Host;
    use pilothouse_sdk::{ObjectKey, Reconciler};

    use super::*;
    use crate::{Right, Wrong};

    /// Reconciles an old Zoo that is being deleted, while the claim of the new Zoo exists.
    fn writes<P: Reconciler>() -> Vec<String> {
        let host = Host::<P>::new();
        host.put_json(json!({
            "apiVersion": "catalogue.pilothouse.dev/v1", "kind": "Zoo", "spec": {},
            "metadata": {"name": "a", "namespace": "default", "uid": "old", "finalizers": [FINALIZER],
                "deletionTimestamp": "2026-01-02T03:04:05Z"},
        }));
        host.put_json(json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data-a", "namespace": "default", "labels": {"app": "a"}, "annotations": {ZOO_UID: "new"}},
        }));
        host.reconcile(ZOOS, &ObjectKey::new("default", "a")).expect("a reconcile");
        host.writes()
    }

    #[test]
    fn only_the_wrong_twin_deletes_the_claim_of_another_zoo() {
        let delete = "delete v1 PersistentVolumeClaim default/data-a".to_owned();
        assert!(writes::<Wrong<RecreatedOwner>>().contains(&delete));
        assert!(!writes::<Right<RecreatedOwner>>().contains(&delete));
    }
}
