//! Puts CRDs back that the running plugin brought and that somebody deleted.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_plugin::LogLevel;
use tokio::time::sleep;

use super::handle::{Watched, trouble};
use crate::client::{absent, apply_crds};
use crate::config::operator::Operator;
use crate::lifecycle::{Lifecycle, backoff};
use crate::load::LoadServices;
use crate::load::version::Version;
use crate::logs::PluginLog;

/// Between two looks. They cost nothing while all watches watch.
const LOOK: Duration = Duration::from_secs(2);

/// Looks after the CRDs of this version until it is dropped.
pub(super) async fn keep(
    services: LoadServices,
    version: Arc<Version>,
    operator: Operator,
    watched: Arc<Watched>,
    lifecycle: Lifecycle,
    log: PluginLog,
) {
    let crds = &version.descriptor.crds;
    let mut failures = 0;
    loop {
        sleep(LOOK).await;
        // The server's own troubles are told by the watches.
        let gone = match trouble(&watched) {
            Some(_) => absent(&services.server, crds).await.unwrap_or_default(),
            None => None,
        };
        if gone.is_some() {
            services.discovery.forget_crds(crds);
        }
        let Some(name) = gone else {
            watched.complain(None);
            failures = 0;
            continue;
        };
        let terms = operator.terms();
        let is_granted = terms.is_some_and(|terms| terms.crds.unwrap_or(services.grant_crds));
        let complaint = match is_granted {
            false => {
                format!("the CRD {name} was deleted; apply it again, or grant it: {{grants: {{crds: true}}}}")
            }
            true => format!("the CRD {name} was deleted; it is being applied again"),
        };
        if watched.complain(Some(complaint.clone())) {
            log.state(LogLevel::Warn, format_args!("{complaint}"));
            lifecycle.warn("CRDDeleted", complaint);
        }
        if !is_granted {
            continue;
        }
        if let Err(error) = apply_crds(&services.server, crds, &mut Vec::new()).await {
            let wait = backoff::wait(failures, rand::random());
            failures = failures.saturating_add(1);
            watched.complain(Some(format!(
                "the CRD {name} was deleted, and could not be applied again: {error}"
            )));
            sleep(wait).await;
        }
    }
}
