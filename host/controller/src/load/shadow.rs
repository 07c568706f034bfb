//! Loads the new version that runs in the shadow of the version being loaded.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pilothouse_plugin::{Engine, Host, InstanceLimits, LogLevel, StubHost};

use super::files::{MAX_WASM, read_blocking};
use super::{LoadProblem, canary, check_exports};
use crate::config::descriptor::{Descriptor, Watch};
use crate::config::limits::EffectiveLimits;
use crate::config::sidecar::Sidecar;
use crate::directory::{PluginFiles, plugin_file};
use crate::guest_host::GuestHost;
use crate::load::version::Role;
use crate::shadow::{self, NewVersion, ShadowRecord, ShadowRecorder, WatchNames};

/// Starts the shadow of a version that reconciles with this host, if an operator wants one. A shadow that cannot run does not keep the
/// version from running: the status and the log have the reason. Returns the host, and what is shown of the shadow once the version runs.
pub(super) async fn attach(
    engine: &Engine,
    host: GuestHost,
    role: &Role,
    files: &PluginFiles,
    sidecar: &Sidecar,
    descriptor: &Descriptor,
    limits: &EffectiveLimits,
) -> (Arc<GuestHost>, Option<Arc<ShadowRecord>>) {
    // The running version beside a canary keeps its shadow.
    if matches!(role, Role::Canary(_)) {
        return (Arc::new(host), None);
    }
    let report = Arc::clone(&host.services().shadow);
    let Some(file) = ShadowFile::wanted(files, sidecar, report.flag()) else {
        return (Arc::new(host), None);
    };
    let (version, shadow) = match load(engine, &file, host.config(), descriptor, &limits.instance).await {
        Ok(loaded) => loaded,
        Err(problem) => {
            let path = file.path();
            let text = format!("the shadow {} does not run: {problem}", path.display());
            host.services().log.host(LogLevel::Warn, format_args!("{text}"), &[]);
            return (Arc::new(host), Some(report.record_of_failure(&path, problem)));
        }
    };
    let record = report.record_of(&file.path(), shadow.code.digest(), &version);
    let (recorder, reconciles) = ShadowRecorder::new(Arc::clone(&record));
    let host = Arc::new(host.also_recorded_by(Arc::new(recorder)));
    let running: Arc<dyn Host> = Arc::<GuestHost>::clone(&host);
    shadow::start(shadow, Arc::downgrade(&running), reconciles, Arc::clone(&record));
    (host, Some(record))
}

/// The file of a shadow.
enum ShadowFile {
    /// The sidecar names it, so it must be below the plugins directory.
    Below {
        /// The plugins directory.
        directory: PathBuf,
        /// The path that the sidecar names, relative to the directory.
        relative: PathBuf,
    },
    /// The flags of the host name it.
    Anywhere(PathBuf),
}

impl ShadowFile {
    /// Returns the file that the sidecar names, or else the flag; `None` if neither does.
    fn wanted(files: &PluginFiles, sidecar: &Sidecar, flag: Option<&Path>) -> Option<Self> {
        let directory = files.wasm.parent().unwrap_or_else(|| Path::new("."));
        match &sidecar.shadow {
            Some(shadow) => {
                Some(Self::Below { directory: directory.to_owned(), relative: PathBuf::from(&shadow.file) })
            }
            None => flag.map(|file| Self::Anywhere(file.to_owned())),
        }
    }

    fn path(&self) -> PathBuf {
        match self {
            Self::Below { directory, relative } => directory.join(relative),
            Self::Anywhere(path) => path.clone(),
        }
    }

    async fn read(&self) -> Result<Vec<u8>, LoadProblem> {
        match self {
            Self::Below { directory, relative } => {
                let (directory, relative) = (directory.clone(), relative.clone());
                let read = move |_: &Path| plugin_file::read_below(&directory, &relative, MAX_WASM);
                read_blocking(&self.path(), read).await
            }
            Self::Anywhere(path) => {
                read_blocking(path, |path| plugin_file::read_anywhere(path, MAX_WASM)).await
            }
        }
    }
}

/// Loads the file of the shadow, and checks that it can run beside the version. Returns its version, too.
async fn load(
    engine: &Engine,
    file: &ShadowFile,
    config: &str,
    descriptor: &Descriptor,
    limits: &InstanceLimits,
) -> Result<(String, NewVersion), String> {
    let wasm = file.read().await.map_err(|problem| problem.to_string())?;
    let code = engine.load(wasm).await.map_err(|error| error.to_string())?;
    let described = code.describe(Arc::new(StubHost::new(config)), limits).await;
    let text = described.map_err(|error| format!("describe failed: {error}"))?;
    let new = Descriptor::parse(&text).map_err(|error| error.to_string())?;
    check_exports(&new, &code).map_err(|error| error.to_string())?;
    check(descriptor, &new)?;
    let watches = Arc::new(WatchNames::of(&new));
    Ok((new.version, NewVersion { code, limits: limits.clone(), watches }))
}

/// Errors if the shadow cannot read from the caches of the running version, or cannot get its requests.
fn check(running: &Descriptor, shadow: &Descriptor) -> Result<(), String> {
    canary::compare(running, shadow)?;
    for watch in &shadow.watches {
        let same = running.watch(&watch.name).filter(|other| is_contained(watch, other));
        if same.is_none() {
            return Err(format!(
                "the running version does not have its watch {:?} with the same objects and indexes; a shadow reads from the running version's caches",
                watch.name
            ));
        }
    }
    Ok(())
}

/// Whether the other watch has the same objects, and all indexes of this one.
fn is_contained(watch: &Watch, other: &Watch) -> bool {
    canary::selection(watch) == canary::selection(other)
        && watch.projection == other.projection
        && watch.indexes.iter().all(|index| other.indexes.contains(index))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn descriptor(watches: &Value) -> Descriptor {
        let text = json!({"apiVersion": "pilothouse.dev/v1alpha1", "kind": "Plugin", "watches": watches});
        Descriptor::parse(&text.to_string()).expect("a descriptor")
    }

    fn maps(members: &Value) -> Value {
        let mut watch = json!({"name": "maps", "apiVersion": "v1", "kind": "ConfigMap", "trigger": "self"});
        let added = members.as_object().expect("members").clone();
        watch.as_object_mut().expect("an object").extend(added);
        watch
    }

    #[test]
    fn a_shadow_reads_from_the_caches_of_the_running_version() {
        let secrets = json!({"name": "secrets", "apiVersion": "v1", "kind": "Secret"});
        let index = json!({"indexes": [{"name": "team", "label": "team"}]});
        let running = descriptor(&json!([maps(&index), secrets]));
        assert_eq!(check(&running, &running), Ok(()));
        assert_eq!(check(&running, &descriptor(&json!([maps(&json!({}))]))), Ok(()), "it may read less");
        for other in [
            json!([maps(&json!({"indexes": [{"name": "team", "label": "other"}]}))]),
            json!([maps(&json!({"namespaces": ["n"]}))]),
            json!([maps(&json!({})), {"name": "pods", "apiVersion": "v1", "kind": "Pod"}]),
            json!([maps(&json!({"notify": true}))]),
        ] {
            assert!(check(&running, &descriptor(&other)).is_err(), "{other}");
        }
    }
}
