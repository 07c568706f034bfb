//! A plugin that does what its objects say: each ConfigMap with the label `test=conformance` lists actions in
//! `data.action`, one per line. The host's end-to-end tests and benchmarks use it to cause every outcome and every
//! fault with one plugin. README.md has the actions.

mod action;
mod faults;
mod record;

use action::Action;
use k8s_openapi::api::core::v1::ConfigMap;
use pilothouse_sdk::{
    Config, Context, Describe, Error, Index, Object, Outcome, Plugin, Reconciler, Request, Watch, WriteRule,
    info,
};

/// Two builds of one source that can be told apart: set the variable while building.
pub(crate) const VERSION: &str = match option_env!("PILOTHOUSE_GUEST_VERSION") {
    Some(version) => version,
    None => env!("CARGO_PKG_VERSION"),
};

/// The ConfigMaps that say what to do.
const SCRIPTS: &str = "scripts";
/// The ConfigMaps that the plugin writes.
pub(crate) const RECORDS: &str = "records";

/// The plugin.
#[derive(Default)]
struct Conformance;

impl Describe for Conformance {
    fn describe(config: &Config) -> Result<Plugin, Error> {
        if let Some(text) = config.get::<String>("describe")? {
            faults::describe(&text)?;
        }
        Ok(Plugin::new("conformance", VERSION)
            .summary("Does what the ConfigMaps labelled test=conformance say")
            .watch(
                Watch::of::<ConfigMap>(SCRIPTS)
                    .label_selector("test=conformance")
                    .triggers_itself()
                    .index(Index::by_field("byGroup", "{.data.group}")),
            )
            .watch(Watch::of::<ConfigMap>(RECORDS).label_selector("test=conformance-record"))
            .writes(WriteRule::of::<ConfigMap>(&["get", "create", "update", "patch", "delete"])))
    }
}

impl Reconciler for Conformance {
    fn reconcile(&self, ctx: &Context<'_>, request: &Request) -> Result<Outcome, Error> {
        let Some(script) = ctx.cache::<Object>(SCRIPTS).get(&request.key)? else {
            info!(version = VERSION, "gone");
            return Ok(Outcome::Done);
        };
        info!(version = VERSION, resource_version = script.resource_version(), "reconcile");
        let text = script.text("/data/action").unwrap_or_default();
        let mut outcome = Outcome::Done;
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let action = Action::parse(line).map_err(Error::terminal)?;
            if let Some(wanted) = perform(ctx, request, &script, action)? {
                outcome = wanted;
            }
        }
        Ok(outcome)
    }
}

/// Does one action; an outcome that it asks for is that of the whole reconcile.
fn perform(
    ctx: &Context<'_>,
    request: &Request,
    script: &Object,
    action: Action<'_>,
) -> Result<Option<Outcome>, Error> {
    match action {
        Action::Requeue(delay) => return Ok(Some(Outcome::RequeueAfter(delay))),
        Action::Retry(message) => return Err(Error::retry(message)),
        Action::RetryUntil(attempt) if request.attempt < attempt => {
            return Err(Error::retry(format!("attempt {} of {attempt}", request.attempt)));
        }
        Action::RetryUntil(_) => {}
        Action::Terminal(message) => return Err(Error::terminal(message)),
        Action::Panic(message) => panic!("{message}"),
        Action::Loop => faults::spin_for_ever(),
        Action::Busy(duration) => faults::spin(duration),
        Action::Allocate => faults::allocate_for_ever(),
        Action::Handles(number) => faults::hold_handles(&ctx.cache::<Object>(SCRIPTS), &request.key, number),
        Action::UnknownWatch => {
            let _ = ctx.cache::<Object>("no-such-watch").get(&request.key)?;
        }
        Action::Denied => faults::write_undeclared(&request.key)?,
        Action::Copy(target) => record::copy(request, script, target)?,
        Action::Delete(target) => record::delete(&request.key.sibling(target))?,
        Action::ReadBack(target) => record::read_back(ctx, request, target)?,
        Action::Group(target) => record::group(ctx, request, script, target)?,
        Action::StaleUpdate(target) => record::stale_update(&request.key.sibling(target))?,
        Action::Add(name) => ctx.queue(SCRIPTS).add(&request.key.sibling(name)),
        Action::AddAfter(name, delay) => ctx.queue(SCRIPTS).add_after(&request.key.sibling(name), delay),
        Action::Event(note) => ctx.events().normal(script, "Conformance", "Test", note),
        Action::Warning(note) => ctx.events().warning(script, "Conformance", "Test", note),
        Action::Log(text) => info!(version = VERSION, "{text}"),
        Action::Flip => record::flip(script)?,
        Action::Insist(field) => record::insist(ctx, script, field)?,
        Action::Create(target) => record::create(ctx, &request.key.sibling(target))?,
    }
    Ok(None)
}

pilothouse_sdk::export!(Conformance);
