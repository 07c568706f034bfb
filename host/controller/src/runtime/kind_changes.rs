//! Notices that a kind is served in another way than when the version was loaded: its CRD was deleted, and applied again with another scope
//! or plural name. The version's URLs, keys and targets are made for the old one, so it has to be loaded anew.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_informer::{FailureKind, InformerStatus};
use pilothouse_model::ResourceType;
use tokio::time::sleep;

use crate::client::{Age, Discovery};
use crate::load::type_of;
use crate::load::version::Version;

/// Between two looks. They cost nothing while all watches watch.
const LOOK: Duration = Duration::from_secs(5);

/// Waits until a watch's kind is another resource than the version was loaded with, and answers which.
pub(super) async fn changed(discovery: Discovery, version: Arc<Version>) -> String {
    let requests = |status: &InformerStatus| status.list_requests + status.watch_requests;
    let status = |at: usize| version.routes[at].subscribed.subscription.status();
    let mut asked: Vec<_> = (0..version.routes.len()).map(|at| requests(&status(at))).collect();
    loop {
        sleep(LOOK).await;
        for (at, asked) in asked.iter_mut().enumerate() {
            let status = status(at);
            let is_missing = status.error.as_ref().is_some_and(|error| error.kind == FailureKind::NotFound);
            // No CRD goes without ending its watches.
            if *asked == requests(&status) && !is_missing {
                continue;
            }
            *asked = requests(&status);
            let watch = &version.routes[at].watch;
            if let Some(now) = other_resource(&discovery, &version, watch).await {
                return format!("watch {watch:?}: its kind is served as {now} now");
            }
        }
    }
}

/// What the watch's kind is served as, where that is another resource than the version's.
async fn other_resource(discovery: &Discovery, version: &Version, watch: &str) -> Option<ResourceType> {
    let declared = version.descriptor.watch(watch)?;
    let known = &version.views.by_name.get(watch)?.resource;
    let now =
        discovery.resolve(type_of(declared).ok()?, declared.resource.as_deref(), Age::New).await.ok()?;
    (now != *known).then_some(now)
}
