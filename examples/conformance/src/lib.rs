//! A plugin that performs the actions that its objects list: each ConfigMap with the label `test=conformance` has actions in
//! `data.action`, one per line. The host's end-to-end tests and benchmarks use it to cause every outcome and every fault with one
//! plugin. README.md lists the actions.

mod action;
mod faults;
mod record;

use action::Action;
use k8s_openapi::api::core::v1::ConfigMap;
use pilothouse_sdk::{
    Config, Context, Describe, Error, Index, Object, Outcome, Plugin, Reconciler, Request, Verb, Watch,
    WatchRef, WriteRule, info,
};

/// The plugin's version. Set the variable at build time to get distinguishable builds from the same source.
pub(crate) const VERSION: &str = match option_env!("PILOTHOUSE_GUEST_VERSION") {
    Some(version) => version,
    None => env!("CARGO_PKG_VERSION"),
};

/// The ConfigMaps that list the actions.
const SCRIPTS: WatchRef<ConfigMap> = WatchRef::new("scripts");
/// The ConfigMaps that the plugin writes.
pub(crate) const RECORDS: WatchRef<ConfigMap> = WatchRef::new("records");

#[derive(Default)]
struct Conformance;

impl Describe for Conformance {
    fn describe(config: &Config) -> Result<Plugin, Error> {
        if let Some(text) = config.get::<String>("describe")? {
            faults::describe(&text)?;
        }
        Ok(Plugin::new("conformance", VERSION)
            .summary("Performs the actions of ConfigMaps labelled test=conformance")
            .watch(
                Watch::of(SCRIPTS)
                    .label_selector("test=conformance")
                    .triggers_itself()
                    .index(Index::by_field("byGroup", "{.data.group}")),
            )
            .watch(Watch::of(RECORDS).label_selector("test=conformance-record"))
            .writes(WriteRule::of::<ConfigMap>(&[
                Verb::Get,
                Verb::Create,
                Verb::Update,
                Verb::Patch,
                Verb::Delete,
            ])))
    }
}

impl Reconciler for Conformance {
    fn reconcile(&self, ctx: &Context<'_>, request: &Request) -> Result<Outcome, Error> {
        let Some(script) = ctx.cache(SCRIPTS.untyped()).get(&request.key)? else {
            info!(version = VERSION, "gone");
            return Ok(Outcome::Done);
        };
        info!(version = VERSION, resource_version = script.resource_version(), "reconcile");
        let text = script.text("/data/action").unwrap_or_default();
        let mut outcome = Outcome::Done;
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let action = Action::parse(line).map_err(Error::terminal)?;
            if let Some(requested) = perform(ctx, request, &script, action)? {
                outcome = requested;
            }
        }
        Ok(outcome)
    }
}

/// Performs one action. Returns the outcome of the whole reconcile, if the action determines it.
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
        Action::Loop => faults::spin_forever(),
        Action::Busy(duration) => faults::spin(duration),
        Action::Allocate => faults::allocate_forever(),
        Action::Handles(number) => faults::leak_handles(&ctx.cache(SCRIPTS.untyped()), &request.key, number),
        Action::UnknownWatch => {
            let _ = ctx.cache::<Object>("no-such-watch").get(&request.key)?;
        }
        Action::Denied => faults::write_undeclared(ctx, &request.key)?,
        Action::Copy(target) => record::copy(ctx, request, script, target)?,
        Action::Delete(target) => record::delete(ctx, &request.key.sibling(target))?,
        Action::ReadBack(target) => record::read_back(ctx, request, target)?,
        Action::Group(target) => record::group(ctx, request, script, target)?,
        Action::StaleUpdate(target) => record::stale_update(ctx, &request.key.sibling(target))?,
        Action::Add(name) => ctx.queue(SCRIPTS).add(&request.key.sibling(name)),
        Action::AddAfter(name, delay) => ctx.queue(SCRIPTS).add_after(&request.key.sibling(name), delay),
        Action::Event(note) => ctx.events().normal(script, "Conformance", "Test", note),
        Action::Warning(note) => ctx.events().warning(script, "Conformance", "Test", note),
        Action::Log(text) => info!(version = VERSION, "{text}"),
        Action::Flip => record::flip(ctx, script)?,
        Action::Insist(field) => record::insist(ctx, script, field)?,
        Action::Create(target) => record::create(ctx, &request.key.sibling(target))?,
    }
    Ok(None)
}

pilothouse_sdk::export!(Conformance);
