//! Keeps the plugins of a host's configuration up to date: pulls, verifies, and puts each into the folder from which the host loads.
//!
//! Each plugin has a task of its own. A failure is reported about its plugin, and changes nothing: the last version that was verified stays in
//! the folder. At the start, the folder is filled from the cache, without a registry.

mod added;
mod config;
mod judgement;
mod opening;
mod plugin;
mod used;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::cache::Cache;
use crate::client::{ClientOptions, Limits, RegistryClient};
use crate::credentials::{CredentialFile, Credentials};
use crate::digest::Digest;
use crate::error::{Problem, RegistryError};
use crate::reference::Reference;
use crate::signature::SignaturePolicy;
use crate::tls::Tls;
pub use added::AddedPlugins;
use added::RunningPlugins;
pub(crate) use config::is_label;
pub use config::{OnViolation, PluginEntry, RegistrySettings};
pub use opening::check_plugin_cache;
use opening::{OpenedSource, SourceSetup};
use plugin::SourcedPlugin;
use used::UsedContent;

/// The size of the cache without `cacheSize`.
const DEFAULT_CACHE_SIZE: u64 = 256 << 20;
/// The most records of the cache that are read: those of the configuration's plugins, and of as many others.
const MAX_RECORDS: usize = 2 * config::MAX_PLUGINS;
/// The wait before the task of a plugin is started again after a panic.
const AFTER_PANIC: Duration = Duration::from_secs(60);

/// Receives what becomes of the plugins.
pub trait SourceEvents: Send + Sync {
    /// The cache can be used: the host loads the plugins from this folder. Called once, after the folder was filled from the cache.
    fn opened(&self, folder: &Path);
    /// The plugin waits for this; `None` if it is up to date.
    fn set_problem(&self, plugin: &str, problem: Option<String>);
    /// The plugin waits for its first version, which is being pulled. By default, that is a problem like others.
    fn pulling(&self, plugin: &str, text: &str) {
        self.set_problem(plugin, Some(text.to_owned()));
    }
    /// An attempt has ended, or the folder was filled from the cache.
    fn reported(&self, _plugin: &str, _report: &SourceReport) {}
    /// An added plugin was removed, and so were its files.
    fn removed(&self, plugin: &str) {
        self.set_problem(plugin, None);
    }
    /// An attempt to bring the plugin up to date has ended.
    fn pulled(&self, plugin: &str, result: Result<(), Problem>);
    /// The signatures of a version of the plugin were judged by the policy.
    fn verified(&self, plugin: &str, result: Result<(), Problem>);
    /// A version of the plugin was put into the folder, for the reason in the text.
    fn updated(&self, plugin: &str, text: &str);
    /// The files in the folder have changed.
    fn files_changed(&self);
}

/// What is known of a plugin after an attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceReport {
    /// The reference from which the plugin is pulled, with `oci://`.
    pub image: String,
    /// The digest of the manifest whose plugin is in the folder.
    pub staged: Option<Digest>,
    /// Why that plugin may be loaded.
    pub decision: Option<crate::signature::Decision>,
    /// Why the plugin could not be brought up to date.
    pub failure: Option<RegistryError>,
    /// Whether an attempt has just ended that found the plugin up to date, or brought it up to date.
    pub is_current: bool,
}

/// The plugins of one host that come from registries.
pub struct PluginSource {
    setup: SourceSetup,
    /// `None` while the cache cannot be used.
    opened: Option<OpenedSource>,
    added: AddedPlugins,
}

/// What all plugins share.
pub(crate) struct Shared {
    settings: RegistrySettings,
    cache: Cache,
    events: Arc<dyn SourceEvents>,
    used: Mutex<UsedContent>,
}

impl PluginSource {
    /// Opens the cache, and fills the folder from it. Blocks; contacts no registry. If the cache cannot be used, all plugins wait: each has the
    /// problem, and [`run`](Self::run) tries again.
    ///
    /// # Errors
    /// Errors if two plugins have the same name.
    pub fn open(
        settings: RegistrySettings,
        plugins: Vec<PluginEntry>,
        default_cache: &Path,
        events: Arc<dyn SourceEvents>,
    ) -> Result<Self, RegistryError> {
        settings.check(&plugins)?;
        let setup = SourceSetup::new(settings, plugins, default_cache, events);
        let added = AddedPlugins::default();
        let opened = setup.open().map_err(|error| setup.report(&error, &added, &mut BTreeSet::new())).ok();
        Ok(Self { setup, opened, added })
    }

    /// Returns the handle that adds plugins to those of the configuration. Until all of them are known, the cache keeps every plugin that ran
    /// before the restart.
    #[must_use]
    pub fn added(&self) -> AddedPlugins {
        self.added.clone()
    }

    /// Keeps the plugins up to date until shutdown. `random` returns numbers in 0..1.
    pub async fn run(self, shutdown: CancellationToken, random: fn() -> f64) {
        let Self { setup, opened, added } = self;
        let opened = match opened {
            Some(opened) => opened,
            None => tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                opened = setup.open_when_possible(&added) => opened,
            },
        };
        let mut tasks = JoinSet::new();
        for plugin in opened.plugins {
            tasks.spawn(supervise(plugin, Arc::clone(&opened.shared), random));
        }
        let running = RunningPlugins::new(opened.shared, opened.configured, random);
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = running.follow(&added) => {}
        }
        tasks.shutdown().await;
    }
}

/// Runs a plugin's task. A panic is reported about the plugin, and the task is started again.
async fn supervise(plugin: SourcedPlugin, shared: Arc<Shared>, random: fn() -> f64) {
    let name = plugin.name().to_owned();
    loop {
        let mut task = JoinSet::new();
        task.spawn(plugin.clone().run(Arc::clone(&shared), random));
        match task.join_next().await {
            Some(Err(error)) if error.is_panic() => {
                let text = "the task that updates the plugin panicked; it is started again in a minute, please report this".to_owned();
                shared.events.set_problem(&name, Some(text));
                sleep(AFTER_PANIC).await;
            }
            _ => return,
        }
    }
}

impl Shared {
    /// Creates a client of the reference's registry. Reads the credentials again, because a Secret may have changed.
    pub(super) fn client(&self, reference: &Reference) -> Result<RegistryClient, RegistryError> {
        let credentials = credentials(self.settings.credentials.as_deref(), reference.registry())?;
        let tls = Tls::new(self.settings.certificate_authority.as_deref())?;
        let options = ClientOptions { attempts: 1, ..self.settings.client_options(reference) };
        RegistryClient::new(reference, tls, credentials, options)
    }

    pub(super) fn limits(&self) -> Limits {
        self.settings.limits()
    }

    /// Reads the policy, which may have changed.
    pub(super) fn policy(&self) -> Result<Option<SignaturePolicy>, RegistryError> {
        self.settings.policy.as_deref().map(SignaturePolicy::read).transpose()
    }

    /// Whether a version that runs may run on although it could not be shown that the policy allows it.
    pub(super) fn lets_run(&self, error: &RegistryError) -> bool {
        self.settings.on_violation == OnViolation::Report || error.problem() == Problem::Invalid
    }

    /// Forgets what a plugin uses, which is pruned when another plugin changes.
    pub(super) fn use_nothing(&self, plugin: &str) {
        self.used.lock().remove(plugin);
    }

    /// Protects the content of a version that is being pulled from being pruned.
    pub(super) fn use_also(&self, plugin: &str, digests: Vec<Digest>) {
        self.used.lock().set_pending(plugin, digests);
    }

    /// Remembers what a plugin uses, and prunes the rest of the cache.
    pub(super) fn use_only(&self, plugin: &str, digests: Vec<Digest>) -> Result<(), RegistryError> {
        let mut used = self.used.lock();
        used.set(plugin, digests);
        // Under the lock: a digest that another plugin begins to use must not be pruned.
        self.prune(&used)
    }

    /// Removes the records of plugins with other names, and prunes what only they used. Blocks.
    pub(super) fn forget_all_but(&self, names: &BTreeSet<&str>) {
        // A record or a blob that cannot be removed is left to the next restart.
        for (name, _) in self.cache.records(MAX_RECORDS) {
            if !names.contains(name.as_str()) {
                let _ = self.cache.remove_record(&name);
            }
        }
        let mut used = self.used.lock();
        used.retain(names);
        let _ = self.prune(&used);
    }

    fn prune(&self, used: &UsedContent) -> Result<(), RegistryError> {
        self.cache.prune(&used.all(), self.settings.cache_size.unwrap_or(DEFAULT_CACHE_SIZE))
    }
}

impl RegistrySettings {
    /// Returns the options of a client for a reference.
    #[must_use]
    pub fn client_options(&self, reference: &Reference) -> ClientOptions {
        let is_plain = self.plain_http.iter().any(|host| host.eq_ignore_ascii_case(reference.registry()));
        ClientOptions {
            plain_http: is_plain,
            trusted_hosts: self.trusted_hosts.clone(),
            limits: self.limits(),
            ..ClientOptions::default()
        }
    }

    fn limits(&self) -> Limits {
        let limits = Limits::default();
        let artifact = self.max_artifact_size.unwrap_or(limits.artifact).min(limits.artifact);
        Limits { artifact, ..limits }
    }
}

/// Returns the credentials for a registry from a docker `config.json`, if it has any.
///
/// # Errors
/// Errors if the file cannot be read or is invalid.
pub fn credentials(file: Option<&Path>, registry: &str) -> Result<Option<Credentials>, RegistryError> {
    let Some(path) = file else { return Ok(None) };
    Ok(CredentialFile::read(path)?.of(registry).cloned())
}
