//! Case 17: buys two machines.
//!
//! The plugin looks for its machine in the provider's list, buys one if there is none, and records its identifier at the end. The list is
//! late. If the record fails, or the process ends before it, the plugin buys a second machine.
//!
//! Sources: <https://github.com/kubernetes-sigs/cluster-api-provider-aws/issues/6131>, fixed by
//! <https://github.com/kubernetes-sigs/cluster-api-provider-aws/pull/6132>;
//! <https://github.com/kubernetes-sigs/cluster-api-provider-aws/issues/5794>

use pilothouse_sdk::serde_json::{Value, json};
use pilothouse_sdk::{Context, Error, Object, Outcome, Plugin, Request, Verb, Watch, WatchRef};
use wasip2::http::types::Method;

use crate::{Case, http, kit};

const MACHINES: WatchRef<Object> = WatchRef::new("machines");
/// The provider, which is a stand-in of the scenario.
const PROVIDER: &str = "cloud.example";

/// See the module.
#[derive(Default)]
pub struct TwoMachines;

impl Case for TwoMachines {
    const NAME: &'static str = "two-machines";

    fn describe(plugin: Plugin) -> Plugin {
        plugin
            .crd(kit::definition(include_str!("../../../crds/machine.json")))
            .watch(Watch::untyped(MACHINES, kit::own("Machine")).triggers_itself())
            .http(format!("http://{PROVIDER}"))
            .writes(kit::may("machines/status", &[Verb::Update, Verb::Patch]))
    }

    fn wrong(&self, ctx: &Context<'_>, request: &Request) -> Result<Outcome, Error> {
        let Some(machine) = read(ctx, request)? else { return Ok(Outcome::Done) };
        let listed = http::send(&Method::Get, PROVIDER, "/machines", None)?;
        let machines = listed.as_array().into_iter().flatten();
        let mut known = machines.filter(|known| known["name"] == request.key.name);
        let id = match known.next() {
            Some(known) => known["id"].clone(),
            None => buy(&json!({"name": request.key.name, "token": ""}))?,
        };
        let mut manifest = machine.value()?;
        manifest["status"] = json!({"id": id});
        ctx.client().untyped().update(&manifest, "status")?;
        Ok(Outcome::Done)
    }

    fn right(&self, ctx: &Context<'_>, request: &Request) -> Result<Outcome, Error> {
        let Some(machine) = read(ctx, request)? else { return Ok(Outcome::Done) };
        // The UID is stored before the purchase, and the provider sells one machine for each token.
        let id = buy(&json!({"name": request.key.name, "token": machine.uid()}))?;
        kit::merge(ctx, &machine, "status", &json!({"status": {"id": id}}))?;
        Ok(Outcome::Done)
    }
}

/// Returns a machine that has no identifier yet.
fn read(ctx: &Context<'_>, request: &Request) -> Result<Option<Object>, Error> {
    let machine = ctx.cache(MACHINES).get(&request.key)?;
    Ok(machine.filter(|machine| machine.text("/status/id").is_none() && !machine.is_being_deleted()))
}

/// Buys a machine, and returns its identifier.
fn buy(order: &Value) -> Result<Value, Error> {
    let bought = http::send(&Method::Post, PROVIDER, "/machines", Some(order))?;
    match bought["id"].as_str() {
        Some(id) => Ok(id.into()),
        None => Err(Error::retry("the provider's answer has no identifier")),
    }
}
