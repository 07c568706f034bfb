//! Case 12: records the phase after the write that it belongs to.
//!
//! The plugin scales a StatefulSet down, and then records in the status that volumes have to be deleted. After a crash between the two
//! writes nothing is left to do for it, and the volumes stay.
//!
//! Sources: <https://github.com/Orange-OpenSource/casskop/issues/370>, <https://github.com/konpyutaika/nifikop/issues/79>

use pilothouse_sdk::serde_json::json;
use pilothouse_sdk::{
    Context, Error, Object, ObjectType, Outcome, Plugin, Request, Verb, Watch, WatchRef, WriteRule,
};

use crate::{Case, kit};

const BROKERS: WatchRef<Object> = WatchRef::new("brokers");
const SETS: WatchRef<Object> = WatchRef::new("sets");
const CLAIMS: WatchRef<Object> = WatchRef::new("claims");

/// See the module.
#[derive(Default)]
pub struct PhaseAfterScaling;

impl Case for PhaseAfterScaling {
    const NAME: &'static str = "phase-after-scaling";

    fn describe(plugin: Plugin) -> Plugin {
        let claims = kit::core("PersistentVolumeClaim");
        plugin
            .crd(kit::definition(include_str!("../../../crds/broker.json")))
            .watch(Watch::untyped(BROKERS, kit::own("Broker")).triggers_itself())
            .watch(Watch::untyped(SETS, stateful_sets()).triggers_owner(BROKERS))
            .watch(Watch::untyped(CLAIMS, claims).metadata_only().triggers_label("app", BROKERS))
            .writes(kit::may("brokers", &[Verb::Get]))
            .writes(kit::may("brokers/status", &[Verb::Patch]))
            .writes(WriteRule::untyped("apps", "statefulsets", &[Verb::Get, Verb::Create, Verb::Patch]))
            .writes(WriteRule::untyped("", "persistentvolumeclaims", &[Verb::List, Verb::Delete]))
    }

    fn wrong(&self, ctx: &Context<'_>, request: &Request) -> Result<Outcome, Error> {
        let Some(broker) = ctx.cache(BROKERS).get(&request.key)? else { return Ok(Outcome::Done) };
        let replicas = kit::integer(&broker, "/spec/replicas", 1);
        let Some(set) = ctx.cache(SETS).get(&request.key)? else { return create(ctx, &broker, replicas) };
        let running = kit::integer(&set, "/spec/replicas", 1);
        if broker.text("/status/phase").as_deref() == Some("Shrinking") {
            for claim in ctx.cache(CLAIMS).list(&kit::labelled(&request.key, "app"))? {
                if ordinal(&claim) >= replicas {
                    kit::delete_by_uid(ctx, &claim)?;
                }
            }
            kit::merge(ctx, &broker, "status", &json!({"status": {"phase": "Running"}}))?;
        } else if running != replicas {
            kit::merge(ctx, &set, "", &json!({"spec": {"replicas": replicas}}))?;
            let phase = if replicas < running { "Shrinking" } else { "Running" };
            kit::merge(ctx, &broker, "status", &json!({"status": {"phase": phase}}))?;
        }
        Ok(Outcome::Done)
    }

    fn right(&self, ctx: &Context<'_>, request: &Request) -> Result<Outcome, Error> {
        // All decisions follow from what the server has, in any order and however often.
        let Some(broker) = kit::get_live(ctx, &kit::own("Broker"), &request.key)? else {
            return Ok(Outcome::Done);
        };
        let replicas = kit::integer(&broker, "/spec/replicas", 1);
        let Some(set) = kit::get_live(ctx, &stateful_sets(), &request.key)? else {
            return create(ctx, &broker, replicas);
        };
        if kit::integer(&set, "/spec/replicas", 1) != replicas {
            kit::merge_unchanged(ctx, &set, json!({"spec": {"replicas": replicas}}))?;
        }
        let claims = kit::core("PersistentVolumeClaim");
        let selector = format!("app={}", request.key.name);
        for claim in kit::list_live(ctx, &claims, &request.key.namespace, &selector)? {
            if ordinal(&claim) >= replicas {
                kit::delete_by_uid(ctx, &claim)?;
            }
        }
        if broker.text("/status/phase").as_deref() != Some("Running") {
            kit::merge(ctx, &broker, "status", &json!({"status": {"phase": "Running"}}))?;
        }
        Ok(Outcome::Done)
    }
}

fn stateful_sets() -> ObjectType {
    ObjectType::new("apps/v1", "StatefulSet")
}

fn create(ctx: &Context<'_>, broker: &Object, replicas: i64) -> Result<Outcome, Error> {
    if !broker.is_being_deleted() {
        ctx.client().untyped().create(&kit::stateful_set(broker, replicas), "")?;
    }
    Ok(Outcome::Done)
}

fn ordinal(claim: &Object) -> i64 {
    claim.label("ordinal").and_then(|text| text.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use pilothouse_sdk::testing::{Failure, Host};
    use pilothouse_sdk::{ApiError, ObjectKey, Reconciler};

    use super::*;
    use crate::{Right, Wrong};

    /// Scales down, with a failure of the status update after that. Returns whether a claim is left.
    fn claim_is_left<P: Reconciler>() -> bool {
        let host = Host::<P>::new();
        let key = ObjectKey::new("default", "a");
        let broker = |replicas: i64| {
            json!({
                "apiVersion": "catalogue.pilothouse.dev/v1", "kind": "Broker", "spec": {"replicas": replicas},
                "metadata": {"name": "a", "namespace": "default", "uid": "u1"},
            })
        };
        host.put_json(broker(2));
        host.reconcile(BROKERS, &key).expect("creates the StatefulSet");
        host.put_json(json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data-a-1", "namespace": "default", "labels": {"app": "a", "ordinal": "1"}},
        }));
        host.put_json(broker(1));
        let failure = Failure::new(ApiError::Unavailable("the connection was lost".into()));
        host.fail(failure.verb(Verb::Patch).kind("Broker"));
        host.reconcile(BROKERS, &key).expect_err("the status update fails");
        host.reconcile(BROKERS, &key).expect("a reconcile");
        !host.writes().contains(&"delete v1 PersistentVolumeClaim default/data-a-1".to_owned())
    }

    #[test]
    fn after_a_failure_between_the_writes_only_the_wrong_twin_leaves_the_claim() {
        assert!(claim_is_left::<Wrong<PhaseAfterScaling>>());
        assert!(!claim_is_left::<Right<PhaseAfterScaling>>());
    }
}
