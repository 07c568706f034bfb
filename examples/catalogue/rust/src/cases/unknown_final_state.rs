//! Case 22: ignores deletions whose final state is unknown.
//!
//! The plugin keeps a route at a router for each Pod. If the watch ends, a Pod is deleted, and the next list lacks it, the deletion is
//! delivered with the last known state. The wrong twin does not trust that, and leaves the route.
//!
//! Sources: <https://github.com/projectcalico/calico/issues/12741>, fixed by <https://github.com/projectcalico/calico/pull/12793> and
//! <https://github.com/projectcalico/calico/pull/13663>

use pilothouse_sdk::serde_json::json;
use pilothouse_sdk::{
    Change, Config, Context, Describe, Error, Notification, Object, Observer, Plugin, Watch, WatchRef,
};
use wasip2::http::types::Method;

use crate::{http, kit};

const NAME: &str = "unknown-final-state";
const PODS: WatchRef<Object> = WatchRef::new("pods");
/// The router, which is a stand-in of the scenario.
const ROUTER: &str = "router.example";

/// The plugin with the bug.
#[derive(Default)]
pub struct Wrong;

/// The plugin without the bug.
#[derive(Default)]
pub struct Right;

impl Describe for Wrong {
    fn describe(_: &Config) -> Result<Plugin, Error> {
        Ok(describe(kit::plugin(NAME, "wrong")))
    }
}

impl Describe for Right {
    fn describe(_: &Config) -> Result<Plugin, Error> {
        Ok(describe(kit::plugin(NAME, "right")))
    }
}

fn describe(plugin: Plugin) -> Plugin {
    plugin
        .watch(Watch::untyped(PODS, kit::core("Pod")).metadata_only().label_selector("routed").notify())
        .http(format!("http://{ROUTER}"))
}

impl Observer for Wrong {
    fn observe(&mut self, _: &Context<'_>, notifications: &[Notification<'_>]) -> Result<(), Error> {
        notifications.iter().filter(|one| !one.is_final_state_unknown()).try_for_each(route)
    }
}

impl Observer for Right {
    fn observe(&mut self, _: &Context<'_>, notifications: &[Notification<'_>]) -> Result<(), Error> {
        notifications.iter().try_for_each(route)
    }
}

/// Adds or removes the route of a Pod, for which its key is enough.
fn route(notification: &Notification<'_>) -> Result<(), Error> {
    let name = &notification.key().name;
    let path = format!("/routes/{name}");
    match notification.change() {
        Change::Deleted => http::send(&Method::Delete, ROUTER, &path, None)?,
        Change::Added | Change::Updated | Change::Resync => {
            http::send(&Method::Put, ROUTER, &path, Some(&json!({"pod": name})))?
        }
    };
    Ok(())
}
