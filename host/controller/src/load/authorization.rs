//! Waits until the sidecar's grants and the service account's permissions cover the watches of a new version.

use std::future::pending;

use pilothouse_model::ResourceType;
use pilothouse_model::names::guess_plural;
use pilothouse_plugin::LogLevel;
use serde::Serialize;
use tokio::time::sleep;

use super::{LoadServices, LoadStep, Report};
use crate::access::{RETRY_INTERVAL, RequiredRead, Reviewer};
use crate::config::current_grants::{GrantsWriter, SidecarGrants};
use crate::config::descriptor::{Descriptor, Watch};
use crate::config::rule_intersection::unused_rules;
use crate::config::sidecar::{GrantMode, Sidecar, WatchRule};
use crate::config::sidecar_location::SidecarLocation;
use crate::config::watch_grants::{granted_namespaces, has_rule_for_group};
use crate::guest_host::PluginServices;
use crate::lifecycle::WaitingFor;
use crate::load::version::Version;
use crate::logs::PluginLog;
use crate::name::PluginName;

/// The grants under which a version is loaded.
pub(super) struct LoadAuthorization<'a> {
    pub(super) services: &'a LoadServices,
    pub(super) plugin: &'a PluginName,
    pub(super) log: &'a PluginLog,
    pub(super) sidecar: &'a Sidecar,
    pub(super) place: SidecarLocation,
    /// The running version, if the grants of the sidecar have changed since it was loaded. While the new version
    /// waits, the running one must not use what was taken away.
    running_with_old_grants: Option<&'a Version>,
    grants_writer: &'a GrantsWriter,
    report: &'a Report,
}

impl<'a> LoadAuthorization<'a> {
    /// A running version with the same grants keeps running, whatever the new version waits for.
    pub(super) fn new(
        services: &'a LoadServices,
        plugin: &'a PluginServices,
        sidecar: &'a Sidecar,
        (grants_writer, sidecar_grants): (&'a GrantsWriter, &SidecarGrants),
        running: Option<&'a Version>,
        report: &'a Report,
    ) -> Self {
        let running_with_old_grants =
            running.filter(|running| !running.sidecar_grants.allows_the_same(sidecar_grants));
        Self {
            services,
            plugin: &plugin.name,
            log: &plugin.log,
            sidecar,
            place: sidecar_grants.place,
            running_with_old_grants,
            grants_writer,
            report,
        }
    }

    /// Waits forever if the sidecar grants nothing in the API group of some watch. The server is then not
    /// asked about its kind.
    pub(super) async fn wait_for_group_grants(&self, watches: &[Watch]) {
        let granted = self.sidecar.grants.watches.as_deref();
        for watch in watches {
            let group = watch.api_version.split_once('/').map_or("", |(group, _)| group);
            if has_rule_for_group(granted, group) {
                continue;
            }
            let plural = watch.resource.clone().unwrap_or_else(|| guess_plural(&watch.kind));
            let missing = WatchRule {
                api_groups: vec![group.to_owned()],
                resources: vec![plural],
                namespaces: watch.namespaces.clone(),
            };
            self.report_waiting(self.missing_grant(watch, &missing));
            return pending().await;
        }
    }

    fn missing_grant(&self, watch: &Watch, missing: &WatchRule) -> WaitingFor {
        let text = not_granted(&watch.name, &self.sidecar_location(), missing);
        WaitingFor::WatchGrant(match self.services.grants {
            GrantMode::Declared => text,
            GrantMode::Explicit => {
                format!(
                    "{text}; the host runs with --grants explicit: a plugin gets what its sidecar names, and nothing without one"
                )
            }
        })
    }

    /// Returns the watches, each restricted to its granted namespaces. Waits forever if one of them is not
    /// granted: only a changed sidecar can grant it, and that starts a new load.
    pub(super) async fn granted_watches(&self, watches: &[(Watch, ResourceType)]) -> Vec<Watch> {
        let granted = self.sidecar.grants.watches.as_deref();
        let mut granted_watches = Vec::new();
        for (watch, resource) in watches {
            let kind = (resource.group.as_str(), resource.plural.as_str(), resource.namespaced);
            match granted_namespaces(granted, kind, &watch.namespaces) {
                Ok(namespaces) => granted_watches.push(Watch { namespaces, ..watch.clone() }),
                Err(missing) => {
                    self.report_waiting(self.missing_grant(watch, &missing));
                    return pending().await;
                }
            }
        }
        granted_watches
    }

    /// Waits until the service account, if the plugin has one, may read everything in `reads`.
    pub(super) async fn wait_for_account_permissions(
        &self,
        descriptor: &Descriptor,
        reads: Vec<RequiredRead>,
    ) -> Option<Reviewer> {
        let reviewer = Reviewer {
            server: self.services.server.clone(),
            plugin: self.plugin.clone(),
            place: self.place,
            account: self.sidecar.service_account.clone()?,
            reads,
            impersonates: !descriptor.writes.is_empty(),
        };
        while let Some(waiting_for) = reviewer.review().await.waiting_for() {
            self.report_waiting(waiting_for);
            sleep(RETRY_INTERVAL).await;
        }
        Some(reviewer)
    }

    /// Logs a warning for each grant that has no effect.
    pub(super) fn warn_about_unused_grants(
        &self,
        descriptor: &Descriptor,
        watches: &[(Watch, ResourceType)],
    ) {
        let watched = watches.iter().map(|(_, resource)| (resource.group.as_str(), resource.plural.as_str()));
        for warning in unused_grants(descriptor, self.sidecar, &watched) {
            self.log.host(LogLevel::Warn, format_args!("{warning}"), &[]);
        }
    }

    /// Returns where the operator writes the plugin's sidecar, for messages.
    pub(super) fn sidecar_location(&self) -> String {
        self.place.of(self.plugin.as_str())
    }

    /// Whether the host applies the plugin's CRDs.
    pub(super) fn applies_crds(&self) -> bool {
        self.sidecar.grants.crds.unwrap_or(self.services.grant_crds)
    }

    fn report_waiting(&self, waiting_for: WaitingFor) {
        if let Some(running_with_old_grants) = self.running_with_old_grants {
            self.grants_writer.suspend(waiting_for.clone(), running_with_old_grants);
        }
        (self.report)(LoadStep::Waiting(waiting_for));
    }
}

/// The message for a watch that the operator does not grant. `place` is that of the sidecar. The missing rule is JSON, and so also YAML that
/// can be pasted.
pub(crate) fn not_granted(watch: &str, place: &str, missing: &WatchRule) -> String {
    format!("watch {watch:?} is not granted: add {} to the grants.watches of {place}", rule(missing))
}

/// The message for a watch whose kind is not served, because the host is not allowed to apply the plugin's own CRD. `place` is that of the sidecar.
pub(super) fn crd_not_granted(watch: &Watch, place: &str, crd: &str) -> String {
    let Watch { api_version, kind, .. } = watch;
    format!(
        "the API server does not serve kind {kind:?} in {api_version:?}; the plugin brings the CRD {crd:?}, but the \
         host is not granted to apply it: write `grants: {{crds: true}}` into {place}, or apply the CRD yourself"
    )
}

fn rule(rule: &impl Serialize) -> String {
    serde_json::to_string(rule).unwrap_or_default()
}

/// Returns a warning for each grant of the sidecar that allows nothing of what the descriptor asks for; it is
/// probably misspelled. `watched` yields the API group and the plural of each watched resource.
pub(crate) fn unused_grants<'a>(
    descriptor: &Descriptor,
    sidecar: &Sidecar,
    watched: &(impl Iterator<Item = (&'a str, &'a str)> + Clone),
) -> Vec<String> {
    let writes = unused_rules(&descriptor.writes, sidecar.grants.writes.as_deref().unwrap_or_default());
    let is_unused = |granted: &&WatchRule| {
        let granted = Some(std::slice::from_ref(*granted));
        !watched
            .clone()
            .any(|(group, plural)| granted_namespaces(granted, (group, plural, true), &[]).is_ok())
    };
    let watches = sidecar.grants.watches.iter().flatten().filter(is_unused);
    let warning = |member: &str, text: String| {
        format!("grants.{member}: {text} allows nothing that the plugin asks for; it may be misspelled")
    };
    let writes = writes.map(|granted| warning("writes", rule(granted)));
    writes.chain(watches.map(|granted| warning("watches", rule(granted)))).collect()
}
