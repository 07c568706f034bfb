//! What `pilothouse preflight` finds out about the plugins from registries: whether each registry answers, and whether the policy can be read.

use std::collections::BTreeMap;
use std::time::Duration;

use pilothouse_controller::sidecar::Sidecar;
use pilothouse_registry::{
    ClientOptions, PluginEntry, Problem, Reference, RegistryClient, RegistryError, RegistrySettings,
    SignaturePolicy, Tls, credentials,
};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::preflight::{self as judge, Finding};

/// The maximum number of plugins that are looked up.
const MAX_PLUGINS: usize = 1_000;
/// How long a registry may take to answer for one plugin.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Checks the policy and, for each plugin, the registry. One line at most for a registry that does not answer.
pub(crate) async fn preflight(plugins: &[PluginEntry], settings: &RegistrySettings) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Err(error) = settings.check(plugins) {
        findings.push(judge::registry("plugins", Err((error.to_string(), remedy(error.problem())))));
    }
    findings.extend(policy(settings).await);
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
        let result = look_up(plugin, settings).await;
        let is_silent = result.as_ref().is_err_and(|failure| failure.is_silence);
        let result = result.map_err(|failure| (failure.text, failure.remedy));
        let finding = judge::registry(&plugin.name, result);
        match registry.filter(|_| is_silent) {
            Some(registry) => drop(silent.insert(registry, (finding, 0))),
            None => findings.push(finding),
        }
    }
    findings.extend(silent.into_values().map(|(finding, others)| judge::with_other_plugins(finding, others)));
    findings
}

/// Why a plugin cannot be looked up.
struct LookupFailure {
    text: String,
    remedy: &'static str,
    /// Whether the registry does not answer at all, so that others of its plugins need not be looked up.
    is_silence: bool,
}

impl From<RegistryError> for LookupFailure {
    fn from(error: RegistryError) -> Self {
        Self { text: error.to_string(), remedy: remedy(error.problem()), is_silence: error.is_transient() }
    }
}

/// Reads the policy with its keys and its trust root.
async fn policy(settings: &RegistrySettings) -> Option<Finding> {
    let path = settings.policy.clone()?;
    let shown = path.display().to_string();
    let read = spawn_blocking(move || SignaturePolicy::read(&path).map(drop)).await;
    let problem = match read {
        Ok(result) => result.err().map(|error| {
            // Some of the errors begin with the file.
            let text = error.to_string();
            text.strip_prefix(&format!("{shown}: ")).unwrap_or(&text).to_owned()
        }),
        Err(error) => Some(format!("internal error: {error}; please report this")),
    };
    Some(judge::signature_policy(&shown, problem.as_deref()))
}

/// Checks the entry, and asks the registry for the plugin's manifest. Returns what it is.
async fn look_up(plugin: &PluginEntry, settings: &RegistrySettings) -> Result<String, LookupFailure> {
    plugin.check()?;
    Sidecar::parse(&plugin.sidecar_text()).map_err(|error| LookupFailure {
        text: format!("sidecar: {error}"),
        remedy: "correct --config",
        is_silence: false,
    })?;
    let reference: Reference = plugin.image.parse()?;
    let options = ClientOptions { attempts: 1, ..settings.client_options(&reference) };
    let (authority, file) = (settings.certificate_authority.clone(), settings.credentials.clone());
    let host = reference.registry().to_owned();
    let read = spawn_blocking(move || {
        Ok::<_, RegistryError>((Tls::new(authority.as_deref())?, credentials(file.as_deref(), &host)?))
    });
    let (tls, credentials) = read.await.map_err(|error| LookupFailure {
        text: format!("internal error: {error}"),
        remedy: "please report this",
        is_silence: false,
    })??;
    let client = RegistryClient::new(&reference, tls, credentials, options)?;
    match timeout(ANSWER_TIMEOUT, client.manifest(&reference)).await {
        Ok(manifest) => Ok(format!("{reference} is {}", manifest?.digest)),
        Err(_) => Err(LookupFailure {
            text: format!("{reference}: no answer within {} s", ANSWER_TIMEOUT.as_secs()),
            remedy: remedy(Problem::Timeout),
            is_silence: true,
        }),
    }
}

/// Returns what to do about a problem.
fn remedy(problem: Problem) -> &'static str {
    match problem {
        Problem::Unreachable | Problem::Timeout | Problem::Busy => {
            "check its address, the network policy, and registries.plainHttp and registries.certificateAuthority in --config"
        }
        Problem::Denied => "correct the file that registries.credentials in --config names",
        Problem::NotFound => "push the plugin, or correct `image` in --config",
        Problem::ForbiddenHost => "name the host in registries.trustedHosts in --config, if it is yours",
        Problem::Invalid => "correct --config, or the file that it names",
        Problem::TooLarge
        | Problem::Altered
        | Problem::Layout
        | Problem::Protocol
        | Problem::Cache
        | Problem::Unverified => "check what `image` in --config names, and push the plugin again",
    }
}
