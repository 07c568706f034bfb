//! Re-creates CRDs that the running version installed and that somebody deleted.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_plugin::LogLevel;
use tokio::time::sleep;

use super::handle::{RunningVersionStatus, watch_error};
use crate::client::{apply_crds, missing_crd};
use crate::config::operator::Operator;
use crate::lifecycle::{Lifecycle, backoff};
use crate::load::LoadServices;
use crate::load::version::Version;
use crate::logs::PluginLog;

/// Between two checks. They send no request while all watches are connected.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// Watches over the CRDs of this version until the future is dropped. A deleted CRD is applied again if the operator grants CRDs; otherwise
/// it is only reported.
pub(super) async fn restore(
    services: LoadServices,
    version: Arc<Version>,
    operator: Operator,
    running_status: Arc<RunningVersionStatus>,
    lifecycle: Lifecycle,
    log: PluginLog,
) {
    let crds = &version.descriptor.crds;
    let mut failures = 0;
    loop {
        sleep(CHECK_INTERVAL).await;
        // A failing API server is reported by the watches.
        let deleted = match watch_error(&running_status) {
            Some(_) => missing_crd(&services.server, crds).await.unwrap_or_default(),
            None => None,
        };
        if deleted.is_some() {
            services.discovery.invalidate_crds(crds);
        }
        let Some(name) = deleted else {
            running_status.set_crd_problem(None);
            failures = 0;
            continue;
        };
        let terms = operator.terms();
        let is_granted = terms.is_some_and(|terms| terms.crds.unwrap_or(services.grant_crds));
        let problem = match is_granted {
            false => {
                format!("the CRD {name} was deleted; apply it again, or grant it: {{grants: {{crds: true}}}}")
            }
            true => format!("the CRD {name} was deleted; it is being applied again"),
        };
        if running_status.set_crd_problem(Some(problem.clone())) {
            log.state(LogLevel::Warn, format_args!("{problem}"));
            lifecycle.warn("CRDDeleted", problem);
        }
        if !is_granted {
            continue;
        }
        if let Err(error) = apply_crds(&services.server, crds, &mut Vec::new()).await {
            let delay = backoff::delay(failures, rand::random());
            failures = failures.saturating_add(1);
            running_status.set_crd_problem(Some(format!(
                "the CRD {name} was deleted, and could not be applied again: {error}"
            )));
            sleep(delay).await;
        }
    }
}
