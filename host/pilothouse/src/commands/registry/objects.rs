//! What objects of the kind `Plugin` need of the source for registries.

use std::collections::BTreeSet;
use std::sync::Arc;

use pilothouse_controller::{
    ObjectPlugin, ObjectPlugins, OtherNamespaces, PluginResource, ProvidedFailure, ProvidedPlugins,
    ProvidedReport, Verification,
};
use pilothouse_registry::{AddedPlugins, Decision, PluginEntry, Problem, SourceReport};

/// The plugins that come from registries, as the host needs them.
pub(crate) struct StartedSource {
    pub(crate) provided: ProvidedPlugins,
    /// The objects of the kind `Plugin`, if the configuration enables them.
    pub(crate) plugin_resource: Option<PluginResource>,
}

/// Returns what has the host run the plugins of objects, for a source to which plugins can be `added`.
pub(super) fn plugin_resource(
    namespaces: OtherNamespaces,
    configured: BTreeSet<String>,
    added: AddedPlugins,
) -> PluginResource {
    PluginResource { namespaces, configured, apply: Arc::new(move |plugins| apply(&added, plugins)) }
}

/// Has the source keep the plugins of objects up to date.
fn apply(added: &AddedPlugins, ObjectPlugins { plugins, are_all }: ObjectPlugins) {
    let entries = plugins.into_iter().map(|ObjectPlugin { name, image, poll, sidecar }| PluginEntry {
        name,
        image,
        poll,
        sidecar: Some(sidecar),
        sidecar_problem: None,
    });
    match are_all {
        true => added.set(entries.collect()),
        false => added.set_known(entries.collect()),
    }
}

/// Shows in the host what is known of a plugin.
pub(super) fn show_report(provided: &ProvidedPlugins, plugin: &str, report: &SourceReport) {
    provided.set_report(plugin, provided_report(report));
}

/// Forgets a plugin whose object is not run any more.
pub(super) fn forget(provided: &ProvidedPlugins, plugin: &str) {
    provided.set_problem(plugin, None);
    provided.set_report(plugin, ProvidedReport::default());
    tracing::info!(plugin, "its object was deleted or is not run any more; its files are removed");
}

fn provided_report(report: &SourceReport) -> ProvidedReport {
    ProvidedReport {
        image: report.image.clone(),
        digest: report.staged.map(|digest| digest.to_string()).unwrap_or_default(),
        verification: match &report.decision {
            None => Verification::Pending,
            Some(Decision::NoPolicy) => Verification::NoPolicy,
            Some(Decision::Unsigned) => Verification::NoSignatureNeeded,
            Some(signed @ Decision::Signed(_)) => Verification::Signed(signed.to_string()),
        },
        failure: report.failure.as_ref().map(|error| ProvidedFailure {
            reason: reason(error.problem()),
            message: error.to_string(),
            is_unverified: error.problem() == Problem::Unverified,
        }),
        is_current: report.is_current,
    }
}

/// Returns the reason of a condition.
fn reason(problem: Problem) -> &'static str {
    match problem {
        Problem::Invalid => "InvalidSource",
        Problem::Unreachable => "Unreachable",
        Problem::Timeout => "Timeout",
        Problem::Busy => "RegistryBusy",
        Problem::Denied => "Denied",
        Problem::NotFound => "NotFound",
        Problem::ForbiddenHost => "ForbiddenHost",
        Problem::TooLarge => "TooLarge",
        Problem::Altered => "Altered",
        Problem::Layout => "UnknownLayout",
        Problem::Protocol => "ProtocolError",
        Problem::Cache => "CacheError",
        Problem::Unverified => "Unverified",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_says_what_a_condition_needs() {
        let report = SourceReport { decision: Some(Decision::NoPolicy), ..SourceReport::default() };
        assert_eq!(provided_report(&report).verification, Verification::NoPolicy);
        let signed = Some(Decision::Signed(vec!["ci".to_owned()]));
        let verification = provided_report(&SourceReport { decision: signed, ..report }).verification;
        assert_eq!(verification, Verification::Signed("signed by ci".to_owned()));
        assert_eq!(provided_report(&SourceReport::default()), ProvidedReport::default());
    }

    #[test]
    fn each_problem_has_a_reason_in_one_word() {
        let error = "oci://nonsense".parse::<pilothouse_registry::Reference>().expect_err("no repository");
        let failure =
            provided_report(&SourceReport { failure: Some(error), ..SourceReport::default() }).failure;
        let failure = failure.expect("a failure");
        assert_eq!((failure.reason, failure.is_unverified), ("InvalidSource", false));
        assert!(failure.message.contains("write oci://"), "{failure:?}");
    }
}
