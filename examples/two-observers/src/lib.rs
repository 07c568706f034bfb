//! Two observers of one watch, as CDI has them for Kubernetes events: a synchronous one, called while the notification is handled, and
//! an asynchronous one, which gets the object's key as work of its own, with retries.
//!
//! Both are registered with a selector, and called for what was added, modified or deleted. The plugin keeps no list of objects: a third
//! part, the cache, answers `who is there` from the host's memory, by an index.

use k8s_openapi::api::core::v1::ConfigMap;
use pilothouse_sdk::{
    Change, Config, Context, Describe, Error, Index, Notification, Object, Observer, Outcome, Plugin,
    Reconciler, Request, Watch, info, metrics,
};

const MAPS: &str = "maps";

/// Is told at once, in the order of the changes. It must be quick and cannot ask for another try: the next notification waits for it.
struct Synchronous {
    team: &'static str,
    call: fn(&Notification<'_>),
}

/// Gets the keys of objects that changed, each once however often it changed, and may fail and be tried again.
struct Asynchronous {
    team: &'static str,
    call: fn(&Context<'_>, &Object) -> Result<(), Error>,
}

const SYNCHRONOUS: &[Synchronous] = &[
    Synchronous { team: "blue", call: count },
    Synchronous { team: "red", call: |told| info!("sync: red {} {}", told.key(), told.change()) },
];

const ASYNCHRONOUS: &[Asynchronous] = &[Asynchronous { team: "blue", call: greet }];

/// The plugin.
#[derive(Default)]
struct TwoObservers;

impl Describe for TwoObservers {
    fn describe(_: &Config) -> Result<Plugin, Error> {
        Ok(Plugin::new("two-observers", env!("CARGO_PKG_VERSION"))
            .summary("A synchronous and an asynchronous observer of one watch")
            .watch(
                Watch::of::<ConfigMap>(MAPS)
                    .label_selector("team")
                    .notify()
                    .triggers_itself()
                    .index(Index::by_label("byTeam", "team")),
            ))
    }
}

impl Observer for TwoObservers {
    fn observe(&mut self, _: &Context<'_>, notifications: &[Notification<'_>]) -> Result<(), Error> {
        for told in notifications {
            let of = match told.change() {
                Change::Deleted => told.before::<Object>()?,
                _ => told.after::<Object>()?,
            };
            let team = of.and_then(|object| object.label("team")).unwrap_or_default();
            for observer in SYNCHRONOUS.iter().filter(|observer| observer.team == team) {
                (observer.call)(told);
            }
        }
        Ok(())
    }
}

impl Reconciler for TwoObservers {
    fn reconcile(&self, ctx: &Context<'_>, request: &Request) -> Result<Outcome, Error> {
        let Some(object) = ctx.cache::<Object>(MAPS).get(&request.key)? else { return Ok(Outcome::Done) };
        let team = object.label("team").unwrap_or_default();
        for observer in ASYNCHRONOUS.iter().filter(|observer| observer.team == team) {
            (observer.call)(ctx, &object)?;
        }
        Ok(Outcome::Done)
    }
}

fn count(told: &Notification<'_>) {
    info!("sync: blue {} {}", told.key(), told.change());
    metrics::counter("blue_changes", &[("change", &told.change().to_string())], 1.0);
}

/// Knows the others of the team from the index, not from a list of its own.
fn greet(ctx: &Context<'_>, object: &Object) -> Result<(), Error> {
    let team = ctx.cache::<Object>(MAPS).index_keys("byTeam", "blue");
    if object.text("/data/greeting").is_none() {
        return Err(Error::retry(format!("{} has no greeting yet", object.key())));
    }
    info!("async: blue {} greets {} of its team", object.key(), team.len() - 1);
    Ok(())
}

pilothouse_sdk::export!(TwoObservers: Observer + Reconciler);
