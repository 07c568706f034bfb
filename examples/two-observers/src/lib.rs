//! Two observers of one watch, modelled on the CDI extension for Kubernetes events: a synchronous one, which is called while the
//! notification is handled, and an asynchronous one, which receives the object's key as a work item, with retries.
//!
//! Both are registered with a selector and called for added, updated and deleted objects. The plugin keeps no list of objects: it looks
//! up which objects exist in the host's cache, by an index.

use k8s_openapi::api::core::v1::ConfigMap;
use pilothouse_sdk::{
    Change, Config, Context, Describe, Error, Index, Notification, Object, Observer, Outcome, Plugin,
    Reconciler, Request, Watch, WatchRef, info, metrics,
};

const MAPS: WatchRef<ConfigMap> = WatchRef::new("maps");

/// The index over the ConfigMaps by their team.
const BY_TEAM: &str = "byTeam";

/// An observer that is called for each change, in order. It must be quick and cannot retry, because the next notification waits for it.
struct Synchronous {
    team: &'static str,
    call: fn(&Notification<'_>),
}

/// An observer that receives the keys of changed objects, each once however often the object changed. It may fail and is then retried.
struct Asynchronous {
    team: &'static str,
    call: fn(&Context<'_>, &Object) -> Result<(), Error>,
}

const SYNCHRONOUS: &[Synchronous] = &[
    Synchronous { team: "blue", call: count },
    Synchronous {
        team: "red",
        call: |notification| info!("sync: red {} {}", notification.key(), notification.change()),
    },
];

const ASYNCHRONOUS: &[Asynchronous] = &[Asynchronous { team: "blue", call: greet }];

#[derive(Default)]
struct TwoObservers;

impl Describe for TwoObservers {
    fn describe(_: &Config) -> Result<Plugin, Error> {
        Ok(Plugin::new("two-observers", env!("CARGO_PKG_VERSION"))
            .summary("A synchronous and an asynchronous observer of one watch")
            .watch(
                Watch::of(MAPS)
                    .label_selector("team")
                    .notify()
                    .triggers_itself()
                    .index(Index::by_label(BY_TEAM, "team")),
            ))
    }
}

impl Observer for TwoObservers {
    fn observe(&mut self, _: &Context<'_>, notifications: &[Notification<'_>]) -> Result<(), Error> {
        for notification in notifications {
            let object = match notification.change() {
                Change::Deleted => notification.before::<Object>()?,
                _ => notification.after::<Object>()?,
            };
            let team = object.and_then(|object| object.label("team")).unwrap_or_default();
            for observer in SYNCHRONOUS.iter().filter(|observer| observer.team == team) {
                (observer.call)(notification);
            }
        }
        Ok(())
    }
}

impl Reconciler for TwoObservers {
    fn reconcile(&self, ctx: &Context<'_>, request: &Request) -> Result<Outcome, Error> {
        let Some(object) = ctx.cache(MAPS.untyped()).get(&request.key)? else { return Ok(Outcome::Done) };
        let team = object.label("team").unwrap_or_default();
        for observer in ASYNCHRONOUS.iter().filter(|observer| observer.team == team) {
            (observer.call)(ctx, &object)?;
        }
        Ok(Outcome::Done)
    }
}

fn count(notification: &Notification<'_>) {
    info!("sync: blue {} {}", notification.key(), notification.change());
    metrics::counter("blue_changes", &[("change", &notification.change().to_string())], 1.0);
}

/// Greets the other objects of the team, which it finds by the index rather than in a list of its own.
fn greet(ctx: &Context<'_>, object: &Object) -> Result<(), Error> {
    let team = ctx.cache(MAPS).index_keys(BY_TEAM, "blue");
    if object.text("/data/greeting").is_none() {
        return Err(Error::retry(format!("{} has no greeting yet", object.key())));
    }
    info!("async: blue {} greets {} of its team", object.key(), team.len() - 1);
    Ok(())
}

pilothouse_sdk::export!(TwoObservers: Observer + Reconciler);
