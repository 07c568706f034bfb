//! Case 2: deletes the volume of a Pod that runs.
//!
//! An Ensemble is scaled down and up again. After a restart, the first list of Ensembles may still contain the lower number of replicas,
//! and every volume above it looks unused.
//!
//! Sources: <https://github.com/pravega/zookeeper-operator/issues/314>, <https://github.com/instaclustr/cassandra-operator/issues/407>

use pilothouse_sdk::{Context, Error, Object, Outcome, Plugin, Request, Verb, Watch, WatchRef, WriteRule};

use crate::{Case, kit};

const ENSEMBLES: WatchRef<Object> = WatchRef::new("ensembles");
const CLAIMS: WatchRef<Object> = WatchRef::new("claims");
/// The label of a claim with the ordinal of its Pod.
const ORDINAL: &str = "ordinal";
/// The label of a claim that is `true` from before its Pod exists until its Pod is gone.
const ATTACHED: &str = "attached";

/// See the module.
#[derive(Default)]
pub struct StaleScaleDown;

impl Case for StaleScaleDown {
    const NAME: &'static str = "stale-scale-down";

    fn describe(plugin: Plugin) -> Plugin {
        let claims = kit::core("PersistentVolumeClaim");
        plugin
            .crd(kit::definition(include_str!("../../../crds/ensemble.json")))
            .watch(Watch::untyped(ENSEMBLES, kit::own("Ensemble")).triggers_itself())
            .watch(Watch::untyped(CLAIMS, claims).metadata_only().triggers_label("app", ENSEMBLES))
            .writes(kit::may("ensembles", &[Verb::Get]))
            .writes(WriteRule::untyped("", "persistentvolumeclaims", &[Verb::Get, Verb::Delete]))
    }

    fn wrong(&self, ctx: &Context<'_>, request: &Request) -> Result<Outcome, Error> {
        let Some(ensemble) = ctx.cache(ENSEMBLES).get(&request.key)? else { return Ok(Outcome::Done) };
        let replicas = kit::integer(&ensemble, "/spec/replicas", 1);
        if kit::integer(&ensemble, "/status/readyReplicas", 0) != replicas {
            return Ok(Outcome::Done); // The change of the status will be another reconcile.
        }
        for claim in ctx.cache(CLAIMS).list(&kit::labelled(&request.key, "app"))? {
            if ordinal(&claim) >= replicas {
                kit::delete_by_name(ctx, &claim)?;
            }
        }
        Ok(Outcome::Done)
    }

    fn right(&self, ctx: &Context<'_>, request: &Request) -> Result<Outcome, Error> {
        let Some(ensemble) = ctx.cache(ENSEMBLES).get(&request.key)? else { return Ok(Outcome::Done) };
        let replicas = kit::integer(&ensemble, "/spec/replicas", 1);
        for cached in ctx.cache(CLAIMS).list(&kit::labelled(&request.key, "app"))? {
            if ordinal(&cached) < replicas {
                continue;
            }
            // The claim is read before the Ensemble. A Pod that is created after these reads changes its claim first, and the deletion
            // conflicts.
            let claims = kit::core("PersistentVolumeClaim");
            let Some(claim) = kit::get_live(ctx, &claims, &cached.key())? else { continue };
            let Some(live) = kit::get_live(ctx, &kit::own("Ensemble"), &request.key)? else { continue };
            let is_surplus = ordinal(&claim) >= kit::integer(&live, "/spec/replicas", 1);
            if is_surplus && claim.label(ATTACHED).as_deref() != Some("true") {
                kit::delete_unchanged(ctx, &claim)?;
            }
        }
        Ok(Outcome::Done)
    }
}

fn ordinal(claim: &Object) -> i64 {
    claim.label(ORDINAL).and_then(|text| text.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use pilothouse_sdk::serde_json::json;
    use pilothouse_sdk::testing::Host;
    use pilothouse_sdk::{ObjectKey, Reconciler};

    use super::*;
    use crate::{Right, Wrong};

    /// Scales down to one replica, and reconciles while the Pod of the second one still uses its claim.
    fn writes<P: Reconciler>(attached: &str) -> Vec<String> {
        let host = Host::<P>::new();
        host.put_json(json!({
            "apiVersion": "catalogue.pilothouse.dev/v1", "kind": "Ensemble", "spec": {"replicas": 1}, "status": {"readyReplicas": 1},
            "metadata": {"name": "a", "namespace": "default"},
        }));
        host.put_json(json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data-a-1", "namespace": "default", "labels": {"app": "a", ORDINAL: "1", ATTACHED: attached}},
        }));
        host.reconcile(ENSEMBLES, &ObjectKey::new("default", "a")).expect("a reconcile");
        host.writes()
    }

    #[test]
    fn both_twins_delete_an_unused_claim_and_only_the_wrong_one_a_used_claim() {
        let delete = ["delete v1 PersistentVolumeClaim default/data-a-1"];
        assert_eq!(writes::<Wrong<StaleScaleDown>>("true"), delete);
        assert_eq!(writes::<Wrong<StaleScaleDown>>("false"), delete);
        assert!(writes::<Right<StaleScaleDown>>("true").is_empty());
        assert_eq!(writes::<Right<StaleScaleDown>>("false"), delete);
    }
}
