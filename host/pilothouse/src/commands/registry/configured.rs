//! The plugins that the configuration takes from registries, for commands that inspect them before a host runs.

use std::path::PathBuf;
use std::time::Duration;

use pilothouse_registry::{
    ClientOptions, PluginEntry, Problem, Reference, RegistryClient, RegistryError, RegistrySettings,
    SignaturePolicy, Tls, credentials,
};
use tempfile::TempDir;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::transfer::{download, resolve, temporary_folder, write_whole};
use crate::CommandError;

/// How long a registry may take to answer for one plugin and its signatures.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the download of one plugin may take.
const DOWNLOAD_TIMEOUT: Duration = Duration::from_secs(600);

/// A plugin and its sidecar in a directory that is removed with this value.
pub(crate) struct PulledPlugin {
    _folder: TempDir,
    pub(crate) file: PathBuf,
}

/// Why a plugin cannot be looked up or pulled.
#[derive(Debug)]
pub(crate) struct PullFailure {
    pub(crate) text: String,
    pub(crate) remedy: &'static str,
    /// Whether the registry does not answer at all, so that its other plugins need not be looked up.
    pub(crate) is_silence: bool,
}

impl PullFailure {
    fn new(text: impl Into<String>, remedy: &'static str) -> Self {
        Self { text: text.into(), remedy, is_silence: false }
    }
}

impl From<RegistryError> for PullFailure {
    fn from(error: RegistryError) -> Self {
        Self { text: error.to_string(), remedy: remedy(error.problem()), is_silence: error.is_transient() }
    }
}

impl From<CommandError> for PullFailure {
    fn from(error: CommandError) -> Self {
        let (CommandError::Failure(text) | CommandError::Usage(text)) = error;
        Self::new(text, "correct that")
    }
}

/// Reads the signature policy with its keys and its trust root. `None` if the settings name none.
///
/// # Errors
/// Errors if it cannot be read or is invalid.
pub(crate) async fn read_policy(settings: &RegistrySettings) -> Result<Option<SignaturePolicy>, PullFailure> {
    let Some(path) = settings.policy.clone() else { return Ok(None) };
    let policy = blocking(move || SignaturePolicy::read(&path)).await?;
    Ok(Some(policy))
}

/// Checks the entry, asks the registry for the plugin's manifest, and judges its signatures. Returns what it is.
pub(super) async fn look_up(
    entry: &PluginEntry,
    settings: &RegistrySettings,
    policy: Option<&SignaturePolicy>,
) -> Result<String, PullFailure> {
    let (reference, client) = client(entry, settings).await?;
    match timeout(ANSWER_TIMEOUT, resolve(&client, &reference, policy)).await {
        Ok(resolved) => {
            let (document, decision) = resolved?;
            let decision = if policy.is_some() { format!(", {decision}") } else { String::new() };
            Ok(format!("{reference} is {}{decision}", document.digest))
        }
        Err(_) => Err(silence(&reference, ANSWER_TIMEOUT)),
    }
}

/// Downloads the plugin, if the policy allows it.
pub(crate) async fn pull(
    entry: &PluginEntry,
    settings: &RegistrySettings,
    policy: Option<&SignaturePolicy>,
) -> Result<PulledPlugin, PullFailure> {
    let (reference, client) = client(entry, settings).await?;
    let folder = temporary_folder()?;
    let downloaded = timeout(DOWNLOAD_TIMEOUT, download(&client, &reference, policy, folder.path())).await;
    let (wasm, ..) = downloaded.map_err(|_| silence(&reference, DOWNLOAD_TIMEOUT))??;
    let file = folder.path().join(format!("{}.wasm", entry.name));
    write_whole(&file, &wasm)?;
    write_whole(&file.with_extension("yaml"), entry.sidecar_text().as_bytes())?;
    Ok(PulledPlugin { _folder: folder, file })
}

/// Checks the entry, and creates a client of its registry.
async fn client(
    entry: &PluginEntry,
    settings: &RegistrySettings,
) -> Result<(Reference, RegistryClient), PullFailure> {
    entry.check()?;
    if let Some(problem) = &entry.sidecar_problem {
        return Err(PullFailure::new(problem, "correct --config"));
    }
    let reference: Reference = entry.image.parse()?;
    let options = ClientOptions { attempts: 1, ..settings.client_options(&reference) };
    let (authority, file) = (settings.certificate_authority.clone(), settings.credentials.clone());
    let host = reference.registry().to_owned();
    let read = move || Ok((Tls::new(authority.as_deref())?, credentials(file.as_deref(), &host)?));
    let (tls, credentials) = blocking(read).await?;
    let client = RegistryClient::new(&reference, tls, credentials, options)?;
    Ok((reference, client))
}

fn silence(reference: &Reference, limit: Duration) -> PullFailure {
    PullFailure {
        text: format!("{reference}: no answer within {} s", limit.as_secs()),
        remedy: remedy(Problem::Timeout),
        is_silence: true,
    }
}

/// Reads files in a thread that may block.
async fn blocking<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, RegistryError> + Send + 'static,
) -> Result<T, PullFailure> {
    match spawn_blocking(read).await {
        Ok(result) => Ok(result?),
        Err(error) => Err(PullFailure::new(format!("internal error: {error}"), "please report this")),
    }
}

/// Returns what to do about a problem.
pub(super) fn remedy(problem: Problem) -> &'static str {
    match problem {
        Problem::Unreachable | Problem::Timeout | Problem::Busy => {
            "check its address, the network policy, and registries.plainHttp and registries.certificateAuthority in --config"
        }
        Problem::Denied => "correct the file that registries.credentials in --config names",
        Problem::NotFound => "push the plugin, or correct `image` in --config",
        Problem::ForbiddenHost => "name the host in registries.trustedHosts in --config, if it is yours",
        Problem::Invalid => "correct --config, or the file that it names",
        Problem::Unverified => "sign the plugin as the policy asks, or correct the policy",
        Problem::TooLarge | Problem::Altered | Problem::Layout | Problem::Protocol | Problem::Cache => {
            "check what `image` in --config names, and push the plugin again"
        }
    }
}
