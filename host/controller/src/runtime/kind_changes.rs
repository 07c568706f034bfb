//! Notices that a kind is served in another way than when the version was loaded: its CRD was deleted and created again with another scope
//! or plural name. The version's URLs, keys and targets were built for the old resource, so the version has to be loaded again.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_informer::{FailureKind, InformerStatus};
use pilothouse_model::ResourceType;
use tokio::time::sleep;

use crate::client::{Discovery, Freshness};
use crate::load::type_of;
use crate::load::version::Version;

/// Between two checks. They send no request while all watches are connected.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Waits until the kind of a watch is served as another resource than the version was loaded with, and returns a description of the change.
pub(super) async fn wait_for_change(discovery: Discovery, version: Arc<Version>) -> String {
    let requests = |status: &InformerStatus| status.list_requests + status.watch_requests;
    let status = |position: usize| version.routes[position].subscribed.subscription.status();
    let mut checked: Vec<_> = (0..version.routes.len()).map(|position| requests(&status(position))).collect();
    loop {
        sleep(CHECK_INTERVAL).await;
        for (position, checked) in checked.iter_mut().enumerate() {
            let status = status(position);
            let is_missing = status.error.as_ref().is_some_and(|error| error.kind == FailureKind::NotFound);
            // A CRD cannot disappear without ending the watches of its kind, and a watch that ends is requested again.
            if *checked == requests(&status) && !is_missing {
                continue;
            }
            *checked = requests(&status);
            let watch = &version.routes[position].watch;
            if let Some(resource) = changed_resource(&discovery, &version, watch).await {
                return format!("watch {watch:?}: its kind is served as {resource} now");
            }
        }
    }
}

/// Returns the resource that the watch's kind is served as now, if it is a different resource than the one of the version.
async fn changed_resource(discovery: &Discovery, version: &Version, watch: &str) -> Option<ResourceType> {
    let declared = version.descriptor.watch(watch)?;
    let loaded = &version.views.by_name.get(watch)?.resource;
    let served = discovery
        .resolve(type_of(declared).ok()?, declared.resource.as_deref(), Freshness::Fresh)
        .await
        .ok()?;
    (served != *loaded).then_some(served)
}
