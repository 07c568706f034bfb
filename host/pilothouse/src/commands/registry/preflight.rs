//! What `pilothouse preflight` finds out about the plugins from registries: whether each registry answers, and whether the policy can be read.

use std::collections::BTreeMap;
use std::path::PathBuf;

use pilothouse_registry::{PluginEntry, Reference, RegistrySettings, SignaturePolicy, check_plugin_cache};

use super::configured::{PullFailure, look_up, remedy};
use super::source::plugin_cache;
use crate::commands::run::HostConfig;
use crate::preflight::{self as judge, Finding};

/// The maximum number of plugins that are looked up.
const MAX_PLUGINS: usize = 1_000;

/// What `preflight` knows about the plugins of registries.
pub(crate) struct LookedUp {
    pub(crate) findings: Vec<Finding>,
    /// The plugins that can be pulled.
    pub(crate) found: Vec<PluginEntry>,
}

/// Checks the policy and, for each plugin, the registry. One line at most for a registry that does not answer.
pub(crate) async fn preflight(
    plugins: &[PluginEntry],
    settings: &RegistrySettings,
    policy: &Result<Option<SignaturePolicy>, PullFailure>,
) -> LookedUp {
    let mut findings = Vec::new();
    let mut found = Vec::new();
    if let Err(error) = settings.check(plugins) {
        findings.push(judge::registry("plugins", Err((error.to_string(), remedy(error.problem())))));
    }
    findings.extend(judge_policy(settings, policy.as_ref().err()));
    let policy = policy.as_ref().ok().and_then(Option::as_ref);
    // The registries that do not answer, each with what was found and the number of its other plugins.
    let mut silent: BTreeMap<String, (Finding, usize)> = BTreeMap::new();
    for plugin in plugins.iter().take(MAX_PLUGINS) {
        let registry =
            plugin.image.parse::<Reference>().ok().map(|reference| reference.registry().to_owned());
        let known = registry.as_ref().and_then(|registry| silent.get_mut(registry));
        if let Some((_, others)) = known {
            *others += 1;
            continue;
        }
        let result = look_up(plugin, settings, policy).await;
        if result.is_ok() {
            found.push(plugin.clone());
        }
        let is_silent = result.as_ref().is_err_and(|failure| failure.is_silence);
        let result = result.map_err(|failure| (failure.text, failure.remedy));
        let finding = judge::registry(&plugin.name, result);
        match registry.filter(|_| is_silent) {
            Some(registry) => drop(silent.insert(registry, (finding, 0))),
            None => findings.push(finding),
        }
    }
    findings.extend(silent.into_values().map(|(finding, others)| judge::with_other_plugins(finding, others)));
    LookedUp { findings, found }
}

/// Judges whether the cache of plugins from registries can be used. `cache_dir` is the directory for compiled plugins. Returns nothing if no plugin
/// comes from a registry.
pub(in crate::commands) fn judge_cache(config: &HostConfig, cache_dir: Option<PathBuf>) -> Option<Finding> {
    if config.plugins.is_empty() && !config.plugin_resource.enabled {
        return None;
    }
    let Some(folder) = plugin_cache(&config.registries, cache_dir) else {
        return Some(judge::plugin_cache("the cache of plugins", Some("$HOME is not set")));
    };
    let problem = check_plugin_cache(&folder).err().map(|error| error.to_string());
    Some(judge::plugin_cache(&folder.display().to_string(), problem.as_deref()))
}

/// Judges whether the policy could be read. Returns nothing if the settings name none.
fn judge_policy(settings: &RegistrySettings, failure: Option<&PullFailure>) -> Option<Finding> {
    let shown = settings.policy.as_ref()?.display().to_string();
    let problem = failure.map(|failure| {
        // Some of the errors begin with the file.
        failure.text.strip_prefix(&format!("{shown}: ")).unwrap_or(&failure.text)
    });
    Some(judge::signature_policy(&shown, problem))
}
