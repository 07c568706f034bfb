//! Case 26: fights the server's defaults.
//!
//! The plugin compares the whole spec of a Widget with what it wants. The server adds the default of a field that the plugin does not set,
//! so the two are never equal, and the plugin deletes and creates the Widget for ever.
//!
//! Sources: <https://github.com/openshift/hive/issues/2943>, <https://github.com/prometheus-operator/prometheus-operator/issues/2950>,
//! <https://github.com/prometheus-operator/prometheus-operator/issues/5067>

use pilothouse_sdk::serde_json::{Value, json};
use pilothouse_sdk::{Context, Error, Object, Outcome, Plugin, Request, Verb, Watch, WatchRef};

use crate::{Case, kit};

const SCREENS: WatchRef<Object> = WatchRef::new("screens");
const WIDGETS: WatchRef<Object> = WatchRef::new("widgets");

/// See the module.
#[derive(Default)]
pub struct ServerDefaults;

impl Case for ServerDefaults {
    const NAME: &'static str = "server-defaults";

    fn describe(plugin: Plugin) -> Plugin {
        plugin
            .crd(kit::definition(include_str!("../../../crds/screen.json")))
            .crd(kit::definition(include_str!("../../../crds/widget.json")))
            .watch(Watch::untyped(SCREENS, kit::own("Screen")).triggers_itself())
            .watch(Watch::untyped(WIDGETS, kit::own("Widget")).triggers_owner(SCREENS))
            .writes(kit::may("widgets", &[Verb::Create, Verb::Patch, Verb::Delete]))
    }

    fn wrong(&self, ctx: &Context<'_>, request: &Request) -> Result<Outcome, Error> {
        let Some(screen) = read(ctx, request)? else { return Ok(Outcome::Done) };
        let wanted = json!({"inches": kit::integer(&screen, "/spec/inches", 1)});
        if let Some(widget) = ctx.cache(WIDGETS).get(&request.key)? {
            if widget.field::<Value>("/spec")?.as_ref() == Some(&wanted) {
                return Ok(Outcome::Done);
            }
            kit::delete_by_uid(ctx, &widget)?;
        }
        create(ctx, &screen, &wanted)
    }

    fn right(&self, ctx: &Context<'_>, request: &Request) -> Result<Outcome, Error> {
        let Some(screen) = read(ctx, request)? else { return Ok(Outcome::Done) };
        let inches = kit::integer(&screen, "/spec/inches", 1);
        let wanted = json!({"inches": inches});
        match ctx.cache(WIDGETS).get(&request.key)? {
            None => create(ctx, &screen, &wanted),
            Some(widget) if kit::integer(&widget, "/spec/inches", 0) == inches => Ok(Outcome::Done),
            Some(widget) => {
                kit::merge(ctx, &widget, "", &json!({"spec": wanted}))?;
                Ok(Outcome::Done)
            }
        }
    }
}

fn read(ctx: &Context<'_>, request: &Request) -> Result<Option<Object>, Error> {
    Ok(ctx.cache(SCREENS).get(&request.key)?.filter(|screen| !screen.is_being_deleted()))
}

fn create(ctx: &Context<'_>, screen: &Object, spec: &Value) -> Result<Outcome, Error> {
    let key = screen.key();
    let manifest = json!({
        "apiVersion": "catalogue.pilothouse.dev/v1",
        "kind": "Widget",
        "metadata": {"name": key.name, "namespace": key.namespace, "ownerReferences": kit::owned_by(screen)},
        "spec": spec,
    });
    ctx.client().untyped().create(&manifest, "")?;
    Ok(Outcome::Done)
}

#[cfg(test)]
mod tests {
    use pilothouse_sdk::testing::Host;
    use pilothouse_sdk::{ObjectKey, Reconciler};

    use super::*;
    use crate::{Right, Wrong};

    /// Reconciles a Screen whose Widget has a default that the server added.
    fn writes<P: Reconciler>() -> Vec<String> {
        let host = Host::<P>::new();
        for (kind, spec) in
            [("Screen", json!({"inches": 24})), ("Widget", json!({"inches": 24, "mode": "fast"}))]
        {
            host.put_json(json!({
                "apiVersion": "catalogue.pilothouse.dev/v1", "kind": kind, "spec": spec,
                "metadata": {"name": "a", "namespace": "default", "uid": kind},
            }));
        }
        host.reconcile(SCREENS, &ObjectKey::new("default", "a")).expect("a reconcile");
        host.writes()
    }

    #[test]
    fn only_the_wrong_twin_replaces_a_widget_with_a_default() {
        assert_eq!(writes::<Wrong<ServerDefaults>>().len(), 2);
        assert!(writes::<Right<ServerDefaults>>().is_empty());
    }
}
