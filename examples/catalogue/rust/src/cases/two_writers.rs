//! Case 28: two writers of one field.
//!
//! An autoscaler sets the replicas of a Deployment, and reports them in its status afterwards. The plugin takes the replicas from that
//! status, which is older, and reverts what the autoscaler did.
//!
//! Source: <https://github.com/nginx/nginx-gateway-fabric/issues/4007>, fixed by <https://github.com/nginx/nginx-gateway-fabric/pull/4239>

use pilothouse_sdk::client::{Apply, Patch};
use pilothouse_sdk::serde_json::{Value, json};
use pilothouse_sdk::{
    Context, Error, Object, ObjectType, Outcome, Plugin, Request, Verb, Watch, WatchRef, WriteRule,
};

use crate::{Case, kit};

const GATEWAYS: WatchRef<Object> = WatchRef::new("gateways");
const DEPLOYMENTS: WatchRef<Object> = WatchRef::new("deployments");
const AUTOSCALERS: WatchRef<Object> = WatchRef::new("autoscalers");
const IMAGE: &str = "/spec/template/spec/containers/0/image";

/// See the module.
#[derive(Default)]
pub struct TwoWriters;

impl Case for TwoWriters {
    const NAME: &'static str = "two-writers";

    fn describe(plugin: Plugin) -> Plugin {
        let autoscalers = ObjectType::new("autoscaling/v2", "HorizontalPodAutoscaler");
        plugin
            .crd(kit::definition(include_str!("../../../crds/gateway.json")))
            .watch(Watch::untyped(GATEWAYS, kit::own("Gateway")).triggers_itself())
            .watch(Watch::untyped(DEPLOYMENTS, deployments()).triggers_owner(GATEWAYS))
            .watch(
                Watch::untyped(AUTOSCALERS, autoscalers)
                    .triggers_field("{.spec.scaleTargetRef.name}", GATEWAYS),
            )
            .writes(WriteRule::untyped("apps", "deployments", &[Verb::Create, Verb::Patch]))
    }

    fn wrong(&self, ctx: &Context<'_>, request: &Request) -> Result<Outcome, Error> {
        let Some((gateway, deployment)) = read(ctx, request)? else { return Ok(Outcome::Done) };
        let autoscaler = ctx.cache(AUTOSCALERS).get(&request.key)?;
        let replicas = autoscaler.map_or(1, |scaler| kit::integer(&scaler, "/status/desiredReplicas", 1));
        let is_equal = deployment.is_some_and(|deployment| {
            deployment.text(IMAGE) == gateway.text("/spec/image")
                && kit::integer(&deployment, "/spec/replicas", 1) == replicas
        });
        if !is_equal {
            let mut manifest = manifest(&gateway);
            manifest["spec"]["replicas"] = replicas.into();
            apply(ctx, request, &manifest)?;
        }
        Ok(Outcome::Done)
    }

    fn right(&self, ctx: &Context<'_>, request: &Request) -> Result<Outcome, Error> {
        let Some((gateway, deployment)) = read(ctx, request)? else { return Ok(Outcome::Done) };
        let is_ours = |deployment: &Object| {
            deployment.text(IMAGE) == gateway.text("/spec/image")
                && deployment.controller().is_some_and(|owner| owner.uid == gateway.uid())
        };
        if !deployment.as_ref().is_some_and(is_ours) {
            apply(ctx, request, &manifest(&gateway))?;
        }
        Ok(Outcome::Done)
    }
}

fn deployments() -> ObjectType {
    ObjectType::new("apps/v1", "Deployment")
}

fn read(ctx: &Context<'_>, request: &Request) -> Result<Option<(Object, Option<Object>)>, Error> {
    let Some(gateway) = ctx.cache(GATEWAYS).get(&request.key)?.filter(|gateway| !gateway.is_being_deleted())
    else {
        return Ok(None);
    };
    Ok(Some((gateway, ctx.cache(DEPLOYMENTS).get(&request.key)?)))
}

fn apply(ctx: &Context<'_>, request: &Request, manifest: &Value) -> Result<(), Error> {
    let patch = Patch::Apply(manifest, Apply::forced());
    ctx.client().untyped().patch(&deployments(), &request.key, &patch, "")?;
    Ok(())
}

/// Returns the Deployment of a Gateway, without replicas.
fn manifest(gateway: &Object) -> Value {
    let key = gateway.key();
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": key.name, "namespace": key.namespace, "ownerReferences": kit::owned_by(gateway)},
        "spec": {
            "selector": {"matchLabels": {"app": key.name}},
            "template": {
                "metadata": {"labels": {"app": key.name}},
                "spec": {"containers": [{"name": "gateway", "image": gateway.text("/spec/image")}]},
            },
        },
    })
}

#[cfg(test)]
mod tests {
    use pilothouse_sdk::testing::Host;
    use pilothouse_sdk::{ObjectKey, Reconciler};

    use super::*;
    use crate::{Right, Wrong};

    /// Creates the Deployment, lets an autoscaler scale it, and reconciles before the autoscaler's status has changed. Returns the replicas.
    fn replicas<P: Reconciler>() -> Value {
        let host = Host::<P>::new();
        let key = ObjectKey::new("default", "a");
        host.put_json(json!({
            "apiVersion": "catalogue.pilothouse.dev/v1", "kind": "Gateway", "spec": {"image": "example/gateway:1"},
            "metadata": {"name": "a", "namespace": "default", "uid": "u1"},
        }));
        host.reconcile(GATEWAYS, &key).expect("creates the Deployment");
        let mut deployment = host.get_json(&deployments(), &key).expect("the Deployment");
        deployment["spec"]["replicas"] = 3.into();
        host.put_json(deployment);
        host.reconcile(GATEWAYS, &key).expect("a reconcile");
        host.get_json(&deployments(), &key).expect("the Deployment")["spec"]["replicas"].clone()
    }

    #[test]
    fn only_the_wrong_twin_reverts_the_autoscaler() {
        assert_eq!(replicas::<Wrong<TwoWriters>>(), 1);
        assert_eq!(replicas::<Right<TwoWriters>>(), 3);
    }
}
