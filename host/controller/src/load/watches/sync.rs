//! Waits for the first list of a watch.

use std::time::Duration;

use pilothouse_informer::{FailureKind, InformerPhase};
use tokio::time::{sleep, timeout};

use super::super::authorization::LoadAuthorization;
use super::super::{LoadProblem, LoadStep, RECHECK_INTERVAL, Report};
use crate::access::forbidden;
use crate::lifecycle::WaitingFor;
use crate::load::version::WatchRoute;

/// Waits until the informer has its first list, and reports at intervals why it has not. Does not wait for
/// delivery to the subscription: notifications are taken only once the version runs.
pub(super) async fn wait_for_sync(
    authorization: &LoadAuthorization<'_>,
    route: &WatchRoute,
    report: &Report,
) -> Result<(), LoadProblem> {
    let (watch, subscription) = (&*route.watch, &route.subscribed.subscription);
    loop {
        let mut changes = subscription.status_changes();
        let status = subscription.status();
        if status.synced {
            return Ok(());
        }
        if status.phase == InformerPhase::Stopped {
            let problem = "the host is shutting down".to_owned();
            return Err(LoadProblem::Informer { watch: watch.to_owned(), problem });
        }
        if let Ok(ended) = timeout(RECHECK_INTERVAL, changes.changed()).await {
            if ended.is_err() {
                // The subscription was moved to another informer, whose status is asked next.
                sleep(Duration::from_millis(10)).await;
            }
            continue;
        }
        let status = subscription.status();
        let waiting_for = match status.error {
            Some(error) if error.kind == FailureKind::Forbidden => {
                forbidden(watch, &error, authorization.plugin, authorization.place)
            }
            Some(error) => WaitingFor::FailedList { watch: watch.to_owned(), problem: error.to_string() },
            None => WaitingFor::FirstList { watch: watch.to_owned() },
        };
        report(LoadStep::Waiting(waiting_for));
    }
}
