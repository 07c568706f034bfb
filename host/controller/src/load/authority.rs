//! What the operator and the API server allow a new version to see, asked before it sees anything.

use std::future::pending;

use pilothouse_model::ResourceType;
use pilothouse_model::names::guess_plural;
use pilothouse_plugin::LogLevel;
use serde::Serialize;
use tokio::time::sleep;

use super::{LoadServices, Report};
use crate::access::{AGAIN, Read, Reviewer};
use crate::client::grants::{has_rule_of_group, idle, watched_namespaces};
use crate::config::descriptor::{Descriptor, Watch};
use crate::config::operator::{Terms, Turn};
use crate::config::sidecar::{GrantMode, Sidecar, WatchRule};
use crate::guest_host::GuestServices;
use crate::lifecycle::PluginState;
use crate::load::version::Version;
use crate::logs::PluginLog;
use crate::name::PluginName;

/// Under whose word a version is loaded.
pub(super) struct Authority<'a> {
    pub(super) services: &'a LoadServices,
    pub(super) plugin: &'a PluginName,
    pub(super) log: &'a PluginLog,
    pub(super) sidecar: &'a Sidecar,
    /// The version that runs, where the operator's word for it was another. What was taken away must not be used for as long
    /// as the new version waits.
    outdated: Option<&'a Version>,
    turn: &'a Turn,
    report: &'a Report,
}

impl<'a> Authority<'a> {
    /// A version that runs under the same word goes on, whatever its successor waits for.
    pub(super) fn new(
        services: &'a LoadServices,
        guest: &'a GuestServices,
        sidecar: &'a Sidecar,
        (turn, terms): (&'a Turn, &Terms),
        running: Option<&'a Version>,
        report: &'a Report,
    ) -> Self {
        let outdated = running.filter(|running| *running.terms != *terms);
        Self { services, plugin: &guest.name, log: &guest.log, sidecar, outdated, turn, report }
    }

    /// Waits for ever where the sidecar grants nothing in the group of some watch: then the server need not be asked about its kind.
    pub(super) async fn before_discovery(&self, watches: &[Watch]) {
        let granted = self.sidecar.grants.watches.as_deref();
        for watch in watches {
            let group = watch.api_version.split_once('/').map_or("", |(group, _)| group);
            if has_rule_of_group(granted, group) {
                continue;
            }
            let plural = watch.resource.clone().unwrap_or_else(|| guess_plural(&watch.kind));
            let missing = WatchRule {
                api_groups: vec![group.to_owned()],
                resources: vec![plural],
                namespaces: watch.namespaces.clone(),
            };
            self.wait_for(&self.lacks(watch, &missing));
            return pending().await;
        }
    }

    fn lacks(&self, watch: &Watch, missing: &WatchRule) -> String {
        let text = not_granted(&watch.name, self.plugin, missing);
        match self.services.grants {
            GrantMode::Declared => text,
            GrantMode::Explicit => {
                format!(
                    "{text}; the host runs with --grants explicit: a plugin gets what its sidecar names, and nothing without one"
                )
            }
        }
    }

    /// The watches with what is left of their namespaces. Waits for ever when one of them is not granted: only another sidecar
    /// mends that, and with it loading begins anew.
    pub(super) async fn narrowed(&self, watches: &[(Watch, ResourceType)]) -> Vec<Watch> {
        let granted = self.sidecar.grants.watches.as_deref();
        let mut narrowed = Vec::new();
        for (watch, resource) in watches {
            let kind = (resource.group.as_str(), resource.plural.as_str(), resource.namespaced);
            match watched_namespaces(granted, kind, &watch.namespaces) {
                Ok(namespaces) => narrowed.push(Watch { namespaces, ..watch.clone() }),
                Err(missing) => {
                    self.wait_for(&self.lacks(watch, &missing));
                    return pending().await;
                }
            }
        }
        narrowed
    }

    /// Waits until the service account, where there is one, may read all of it.
    pub(super) async fn reviewed(&self, descriptor: &Descriptor, reads: Vec<Read>) -> Option<Reviewer> {
        let reviewer = Reviewer {
            server: self.services.server.clone(),
            plugin: self.plugin.clone(),
            account: self.sidecar.service_account.clone()?,
            reads,
            impersonates: !descriptor.writes.is_empty(),
        };
        while let Some(problem) = reviewer.review().await.problem() {
            self.wait_for(&problem);
            sleep(AGAIN).await;
        }
        Some(reviewer)
    }

    /// Tells of grants that are of no use.
    pub(super) fn warn(&self, descriptor: &Descriptor, watches: &[(Watch, ResourceType)]) {
        let watched = watches.iter().map(|(_, resource)| (resource.group.as_str(), resource.plural.as_str()));
        for warning in idle_grants(descriptor, self.sidecar, &watched) {
            self.log.host(LogLevel::Warn, format_args!("{warning}"), &[]);
        }
    }

    fn wait_for(&self, what: &str) {
        if let Some(outdated) = self.outdated {
            self.turn.hold(what, outdated);
        }
        (self.report)(PluginState::Waiting, what);
    }
}

/// What is said of a watch that the operator does not grant. The missing rule is JSON, which is YAML: it can be pasted.
pub(crate) fn not_granted(watch: &str, plugin: &PluginName, missing: &WatchRule) -> String {
    format!("watch {watch:?} is not granted: add {} to the grants.watches of {plugin}.yaml", rule(missing))
}

fn rule(rule: &impl Serialize) -> String {
    serde_json::to_string(rule).unwrap_or_default()
}

/// Grants of the sidecar that allow nothing of what the descriptor asks for: probably misspelt. What is watched comes as
/// groups and plurals.
pub(crate) fn idle_grants<'a>(
    descriptor: &Descriptor,
    sidecar: &Sidecar,
    watched: &(impl Iterator<Item = (&'a str, &'a str)> + Clone),
) -> Vec<String> {
    let writes = idle(&descriptor.writes, sidecar.grants.writes.as_deref().unwrap_or_default());
    let is_idle = |granted: &&WatchRule| {
        let granted = Some(std::slice::from_ref(*granted));
        !watched
            .clone()
            .any(|(group, plural)| watched_namespaces(granted, (group, plural, true), &[]).is_ok())
    };
    let watches = sidecar.grants.watches.iter().flatten().filter(is_idle);
    let warning = |member: &str, text: String| {
        format!("grants.{member}: {text} allows nothing that the plugin asks for; it may be misspelt")
    };
    let writes = writes.map(|granted| warning("writes", rule(granted)));
    writes.chain(watches.map(|granted| warning("watches", rule(granted)))).collect()
}
