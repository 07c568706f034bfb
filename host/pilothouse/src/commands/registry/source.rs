//! The plugins that `run` takes from registries.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pilothouse_controller::{
    ObjectPlugin, PluginResource, ProvidedFailure, ProvidedPlugins, ProvidedReport, Verification,
};
use pilothouse_registry::{
    AddedPlugins, Decision, PluginEntry, PluginSource, Problem, RegistryError, RegistrySettings,
    SourceObserver, SourceReport,
};
use tokio_util::sync::CancellationToken;

use crate::CommandError;
use crate::commands::plugin_resource::PluginResourceConfig;

/// Shows in the host what becomes of the plugins.
struct Observer(ProvidedPlugins);

impl SourceObserver for Observer {
    fn set_problem(&self, plugin: &str, problem: Option<String>) {
        let shown = problem.clone();
        if self.0.set_problem(plugin, problem) {
            match shown {
                Some(problem) => tracing::warn!(plugin, "{problem}"),
                None => tracing::info!(plugin, "it is up to date with its registry"),
            }
        }
    }

    fn updated(&self, plugin: &str, text: &str) {
        tracing::info!(plugin, "{text}");
    }

    fn files_changed(&self) {
        self.0.notify_changed();
    }

    fn reported(&self, plugin: &str, report: &SourceReport) {
        self.0.set_report(plugin, provided_report(report));
    }

    fn removed(&self, plugin: &str) {
        self.0.set_problem(plugin, None);
        self.0.set_report(plugin, ProvidedReport::default());
        tracing::info!(plugin, "no object describes it any more; it is stopped");
    }
}

fn provided_report(report: &SourceReport) -> ProvidedReport {
    ProvidedReport {
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

/// The plugins that come from registries, as the host needs them.
pub(crate) struct StartedSource {
    pub(crate) provided: ProvidedPlugins,
    /// The objects of the kind `Plugin`, if the configuration enables them.
    pub(crate) plugin_resource: Option<PluginResource>,
}

/// Starts to keep the plugins up to date. Those that the cache has are there when this returns. `cache_dir` is the directory for compiled plugins.
///
/// # Errors
/// Errors if the cache cannot be used, or if two plugins have the same name.
pub(crate) async fn start(
    settings: RegistrySettings,
    plugins: Vec<PluginEntry>,
    objects: &PluginResourceConfig,
    cache_dir: Option<PathBuf>,
    shutdown: CancellationToken,
) -> Result<Option<StartedSource>, CommandError> {
    if plugins.is_empty() && !objects.enabled {
        return Ok(None);
    }
    let namespaces = objects
        .other_namespaces()
        .map_err(|problem| CommandError::Usage(format!("--config: {problem}; write names of namespaces")))?;
    let configured = plugins.iter().map(|plugin| plugin.name.clone()).collect();
    let cache = settings.cache_dir.clone().or_else(|| Some(cache_dir?.join("oci"))).ok_or_else(|| {
        CommandError::Usage(
            "--config: plugins come from registries, and $HOME is not set; set registries.cacheDir to a directory for them".to_owned(),
        )
    })?;
    let opened = tokio::task::spawn_blocking(move || open(settings, plugins, &cache)).await;
    let (source, provided) = opened
        .map_err(|error| CommandError::Failure(format!("internal error: {error}; please report this")))?
        .map_err(|error| CommandError::Usage(format!("--config: {error}")))?;
    let added = source.added();
    tokio::spawn(source.run(shutdown, rand::random::<f64>));
    let plugin_resource = objects.enabled.then(|| PluginResource {
        namespaces,
        configured,
        apply: Arc::new(move |plugins| apply(&added, plugins)),
    });
    Ok(Some(StartedSource { provided, plugin_resource }))
}

/// Has the source keep the plugins of objects up to date.
fn apply(added: &AddedPlugins, plugins: Vec<ObjectPlugin>) {
    let entries = plugins.into_iter().map(|ObjectPlugin { name, image, poll, sidecar }| PluginEntry {
        name,
        image,
        poll,
        sidecar: Some(sidecar),
    });
    added.set(entries.collect());
}

fn open(
    settings: RegistrySettings,
    plugins: Vec<PluginEntry>,
    cache: &Path,
) -> Result<(PluginSource, ProvidedPlugins), RegistryError> {
    let mut provided = None;
    let source = PluginSource::open(settings, plugins, cache, |folder| {
        let created = ProvidedPlugins::new(folder);
        provided = Some(created.clone());
        Arc::new(Observer(created))
    })?;
    Ok((source, provided.expect("a source that was opened has an observer")))
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
