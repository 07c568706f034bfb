//! One plugin from a registry: what is in the folder of it, and the attempts to bring it up to date.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

use super::config::{DEFAULT_POLL, PluginEntry};
use super::judgement::{Judgements, judge, judge_in_background};
use super::{Shared, SourceReport};
use crate::client::ManifestDocument;
use crate::digest::Digest;
use crate::error::{Problem, RegistryError};
use crate::fetch::{CachedPlugin, fetch};
use crate::reference::Reference;
use crate::schedule::{Outcome, Schedule};
use crate::signature::{
    Decision, SignaturePolicy, collect_signatures, in_background, load_signatures, store_signatures,
};

/// The time limit of one attempt. A registry that sends a byte now and then would take longer.
const LONGEST_ATTEMPT: Duration = Duration::from_secs(600);

/// A plugin and its state.
#[derive(Clone)]
pub(super) struct SourcedPlugin {
    entry: Arc<PluginEntry>,
    staged: Option<StagedVersion>,
    /// Why the staged version may be loaded.
    decision: Option<Decision>,
    /// Whether the plugin's tasks may change its files and report. Locked while they do: a thread that stages a version continues although
    /// its task was aborted.
    active: Arc<Mutex<bool>>,
}

/// The version in the folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StagedVersion {
    manifest: Digest,
    /// The policy by which it was verified.
    policy: Option<Digest>,
}

impl SourcedPlugin {
    pub(super) fn name(&self) -> &str {
        &self.entry.name
    }

    /// Puts the last version that was verified into the folder, if the cache has it and the policy of today still allows it. It may have
    /// another digest than the entry if it is in the folder because of `previous`, the retired plugin that this one replaces: then it runs
    /// until the new digest was pulled.
    pub(super) fn restore(entry: PluginEntry, previous: Option<&Self>, shared: &Shared) -> Self {
        let active = Arc::new(Mutex::new(true));
        let mut plugin = Self { entry: Arc::new(entry), staged: None, decision: None, active };
        let file = format!("{}.wasm", plugin.name());
        let is_staged = previous.is_some() && shared.cache.plugin_files().contains(&file);
        let restored = plugin.restored(shared, is_staged);
        let failure = restored.as_ref().err().cloned();
        match restored {
            Ok(Some((staged, decision))) => {
                (plugin.staged, plugin.decision) = (Some(staged), decision);
            }
            Ok(None) => plugin.unstage_until_pulled(shared),
            Err(error) => plugin.unstage(shared, error.to_string()),
        }
        shared.events.reported(plugin.name(), &plugin.source_report(failure.as_ref()));
        plugin
    }

    pub(super) fn entry(&self) -> &PluginEntry {
        &self.entry
    }

    /// Keeps the plugin's tasks from changing its files and from reporting. Waits for one that does so now.
    pub(super) fn retire(&self) {
        *self.active.lock() = false;
    }

    /// Retires the plugin, and removes its files. Blocks.
    pub(super) fn remove(&self, shared: &Shared) {
        self.retire();
        shared.use_nothing(self.name());
        let removed = self.remove_files(shared).and_then(|()| shared.cache.remove_record(self.name()));
        match removed {
            Ok(()) => shared.events.removed(self.name()),
            Err(error) => shared.events.set_problem(self.name(), Some(error.to_string())),
        }
        shared.events.files_changed();
    }

    /// Runs work that changes files or reports, unless the plugin was retired.
    fn while_active<T>(&self, work: impl FnOnce() -> T) -> Option<T> {
        let active = self.active.lock();
        active.then(work)
    }

    fn source_report(&self, failure: Option<&RegistryError>) -> SourceReport {
        SourceReport {
            image: self.entry.shown_image(),
            staged: self.staged.map(|staged| staged.manifest),
            decision: self.decision.clone(),
            failure: failure.cloned(),
            is_current: false,
        }
    }

    /// `is_staged` is whether the version may stay in the folder although another digest is wanted, or although only a restart would not load it.
    /// There is no decision about the latter yet.
    fn restored(
        &self,
        shared: &Shared,
        is_staged: bool,
    ) -> Result<Option<(StagedVersion, Option<Decision>)>, RegistryError> {
        let reference = self.entry.reference()?;
        let Some(manifest) = shared.cache.record(self.name(), &reference.name()) else { return Ok(None) };
        if !is_staged && reference.digest().is_some_and(|pinned| pinned != manifest) {
            return Ok(None);
        }
        let name = reference.to_string();
        let Some(cached) = CachedPlugin::find(&shared.cache, manifest, shared.limits(), &name) else {
            return Ok(None);
        };
        let mut judgements = Judgements::new();
        let judged = shared.policy().and_then(|policy| {
            let decision =
                self.verify_cached(shared, &reference, manifest, policy.as_ref(), &mut judgements)?;
            let policy = policy.as_ref().map(SignaturePolicy::fingerprint);
            Ok((StagedVersion { manifest, policy }, Some(decision)))
        });
        let staged = match judged {
            // The first attempt judges it again, and reports the problem.
            Err(error) if is_staged && shared.lets_run(&error) => {
                (StagedVersion { manifest, policy: None }, None)
            }
            judged => {
                self.report_judgements(shared, judgements);
                judged?
            }
        };
        self.stage(shared, &cached, &name)?;
        Ok(Some(staged))
    }

    /// Looks at the registry again and again, and reports what happens.
    pub(super) async fn run(mut self, shared: Arc<Shared>, random: fn() -> f64) {
        let reference = match self.entry.reference() {
            Ok(reference) => reference,
            Err(error) => {
                // Only another configuration can help, and nothing is in the folder.
                self.while_active(|| shared.events.pulled(self.name(), Err(error.problem())));
                self.report(&shared, Some(&error));
                return;
            }
        };
        let mut schedule = Schedule::new(self.poll(&reference, shared.settings.policy.is_some()));
        loop {
            let mut judgements = Judgements::new();
            let attempt = timeout(LONGEST_ATTEMPT, self.attempt(&shared, &reference, &mut judgements));
            let attempt = attempt.await.unwrap_or_else(|_| {
                let text = format!(
                    "the attempt to pull {reference} took longer than {} minutes; it is made again, check that the registry is well and what is attached to the plugin",
                    LONGEST_ATTEMPT.as_secs() / 60
                );
                Err(RegistryError::new(Problem::Timeout, text))
            });
            self.report_judgements(&shared, judgements);
            let result = attempt.as_ref().copied().map_err(RegistryError::problem);
            self.while_active(|| shared.events.pulled(self.name(), result));
            self.report(&shared, attempt.as_ref().err());
            let outcome = match attempt {
                Ok(()) => Outcome::Current,
                Err(error) if error.is_transient() => Outcome::TransientFailure,
                Err(_) => Outcome::PermanentFailure,
            };
            match schedule.after(outcome, random()) {
                Some(wait) => sleep(wait).await,
                None => return,
            }
        }
    }

    /// Returns how often an attempt is made. The content of a digest never changes, but a policy may. A wrong interval fails each attempt.
    fn poll(&self, reference: &Reference, has_policy: bool) -> Option<Duration> {
        let interval = self.entry.poll_interval().unwrap_or(DEFAULT_POLL);
        (reference.digest().is_none() || has_policy).then_some(interval)
    }

    async fn attempt(
        &mut self,
        shared: &Arc<Shared>,
        reference: &Reference,
        judgements: &mut Judgements,
    ) -> Result<(), RegistryError> {
        let policy = {
            let shared = Arc::clone(shared);
            blocking(move || shared.policy()).await?
        };
        // Before anything else, which may fail: the credentials, the certificates, the registry.
        let violation = self.apply_changed_policy(shared, reference, policy.as_ref(), judgements).await;
        let updated = self.update(shared, reference, policy.as_ref(), judgements).await;
        updated.map_err(|error| {
            // Both say the same if one version was judged.
            let is_same = error.problem() == Problem::Unverified && judgements.len() <= 1;
            match violation.filter(|_| !is_same) {
                Some(violation) => error.in_context(violation),
                None => error,
            }
        })
    }

    /// Pulls the version that the reference names, unless it is in the folder and the policy has allowed it.
    async fn update(
        &mut self,
        shared: &Arc<Shared>,
        reference: &Reference,
        policy: Option<&SignaturePolicy>,
        judgements: &mut Judgements,
    ) -> Result<(), RegistryError> {
        self.entry.poll_interval()?;
        let fingerprint = policy.map(SignaturePolicy::fingerprint);
        let staged = self.staged.filter(|staged| staged.policy == fingerprint).map(|staged| staged.manifest);
        if staged.is_some() && staged == reference.digest() {
            return Ok(());
        }
        let client = {
            let (shared, reference) = (Arc::clone(shared), reference.clone());
            blocking(move || shared.client(&reference)).await?
        };
        let document = client.manifest(reference).await?;
        if staged == Some(document.digest) {
            return Ok(());
        }
        let signatures = match policy.filter(|policy| !policy.allows_unsigned(reference)) {
            Some(policy) => collect_signatures(&client, policy, reference, &document).await?,
            None => Vec::new(),
        };
        let (decision, signatures) =
            judge_in_background(reference, &document, policy, signatures, judgements).await?;
        let plugin = CachedPlugin::of(&document, client.limits(), &reference.to_string())?;
        self.while_active(|| shared.use_also(self.name(), plugin.blobs()));
        let plugin = fetch(&client, &shared.cache, reference, &document).await?;
        let (this, shared, manifest) = (self.clone(), Arc::clone(shared), document.digest);
        let (decided, reference) = (decision.clone(), reference.clone());
        let put_into_folder = move || -> Result<(), RegistryError> {
            store_signatures(&shared.cache, manifest, &signatures)?;
            this.stage(&shared, &plugin, &reference.to_string())?;
            shared.cache.put_record(this.name(), &reference.name(), manifest)?;
            shared.events.updated(this.name(), &update_text(&reference, manifest, &decided));
            Ok(())
        };
        let this = self.clone();
        blocking(move || this.while_active(put_into_folder).unwrap_or(Ok(()))).await?;
        self.staged = Some(StagedVersion { manifest, policy: fingerprint });
        self.decision = Some(decision);
        Ok(())
    }

    /// Judges the version in the folder, if the policy has changed since. Returns why the policy does not allow it.
    async fn apply_changed_policy(
        &mut self,
        shared: &Arc<Shared>,
        reference: &Reference,
        policy: Option<&SignaturePolicy>,
        judgements: &mut Judgements,
    ) -> Option<RegistryError> {
        let fingerprint = policy.map(SignaturePolicy::fingerprint);
        let staged = self.staged.filter(|staged| staged.policy != fingerprint)?;
        let judged = {
            let (this, shared, reference) = (self.clone(), Arc::clone(shared), reference.clone());
            let policy = policy.cloned();
            in_background(move || {
                let mut found = Judgements::new();
                let (manifest, policy) = (staged.manifest, policy.as_ref());
                let judged = this.verify_cached(&shared, &reference, manifest, policy, &mut found);
                (judged, found)
            })
        };
        let (judged, found) = match judged.await {
            Ok(judged) => judged,
            // It says nothing about the version, which runs on.
            Err(error) => return Some(error),
        };
        judgements.extend(found);
        match judged {
            Ok(decision) => {
                self.staged = Some(StagedVersion { policy: fingerprint, ..staged });
                self.decision = Some(decision);
                None
            }
            Err(error) => {
                if !shared.lets_run(&error) {
                    self.while_active(|| self.unstage(shared, error.to_string()));
                    (self.staged, self.decision) = (None, None);
                }
                // The registry may have signatures that the cache does not have.
                Some(error)
            }
        }
    }

    /// Judges a manifest and its signatures that the cache has.
    fn verify_cached(
        &self,
        shared: &Shared,
        reference: &Reference,
        manifest: Digest,
        policy: Option<&SignaturePolicy>,
        judgements: &mut Judgements,
    ) -> Result<Decision, RegistryError> {
        let text = shared.cache.get(manifest, shared.limits().manifest as u64).ok_or_else(|| {
            RegistryError::new(
                Problem::Cache,
                format!("the cache does not have {reference} any more; it is pulled again"),
            )
        })?;
        let document = ManifestDocument { digest: manifest, text };
        judge(reference, &document, policy, &load_signatures(&shared.cache, manifest), judgements)
    }

    fn report_judgements(&self, shared: &Shared, judgements: Judgements) {
        self.while_active(|| {
            for result in judgements.into_values() {
                shared.events.verified(self.name(), result);
            }
        });
    }

    /// Puts a version into the folder. The sidecar comes first, so that the version is never loaded with another one.
    fn stage(&self, shared: &Shared, plugin: &CachedPlugin, name: &str) -> Result<(), RegistryError> {
        shared.use_only(self.name(), plugin.blobs())?;
        let sidecar = format!("{}.yaml", self.name());
        let text = self.entry.sidecar_text();
        if !shared.cache.plugin_file_is(&sidecar, text.as_bytes()) {
            shared.cache.put_plugin_file(&sidecar, text.as_bytes())?;
        }
        plugin.stage(&shared.cache, self.name(), shared.limits().artifact, name)?;
        shared.events.files_changed();
        Ok(())
    }

    /// Removes the plugin from the folder, so that it does not run.
    fn unstage(&self, shared: &Shared, problem: String) {
        let problem = match self.remove_files(shared) {
            Ok(()) => problem,
            Err(error) => format!("{problem}; {error}"),
        };
        shared.events.set_problem(self.name(), Some(problem));
        shared.events.files_changed();
    }

    /// Removes the plugin from the folder, so that it does not run before its first version was pulled.
    fn unstage_until_pulled(&self, shared: &Shared) {
        match self.remove_files(shared) {
            Ok(()) => shared.events.pulling(self.name(), "it is being pulled"),
            Err(error) => shared.events.set_problem(self.name(), Some(error.to_string())),
        }
        shared.events.files_changed();
    }

    fn remove_files(&self, shared: &Shared) -> Result<(), RegistryError> {
        shared.cache.remove_plugin_file(&format!("{}.wasm", self.name()))?;
        shared.cache.remove_plugin_file(&format!("{}.yaml", self.name()))
    }

    fn report(&self, shared: &Shared, error: Option<&RegistryError>) {
        let text = error.map(|error| match self.staged {
            Some(staged) => format!("{error}; the host keeps the version {}", staged.manifest),
            None => error.to_string(),
        });
        self.while_active(|| {
            shared.events.set_problem(self.name(), text);
            let report = SourceReport { is_current: error.is_none(), ..self.source_report(error) };
            shared.events.reported(self.name(), &report);
        });
    }
}

fn update_text(reference: &Reference, manifest: Digest, decision: &Decision) -> String {
    format!("pulled {reference} ({manifest}): {decision}")
}

/// Runs work with files on a thread that may block.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, RegistryError> + Send + 'static,
) -> Result<T, RegistryError> {
    let done = spawn_blocking(work).await;
    done.unwrap_or_else(|error| {
        Err(RegistryError::new(Problem::Cache, format!("internal error: {error}; please report this")))
    })
}
