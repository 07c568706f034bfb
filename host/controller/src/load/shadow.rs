//! Loads the new version that runs in the shadow of the version being loaded.

use std::sync::Arc;

use pilothouse_plugin::{Engine, Host, InstanceLimits, LogLevel, StubHost};

use super::canary;
use super::files::{MAX_WASM, read_blocking};
use crate::config::descriptor::{Descriptor, Watch};
use crate::directory::plugin_file;
use crate::guest_host::GuestHost;
use crate::shadow::{self, NewVersion, ShadowObserver};

/// Starts the shadow of a version that reconciles with this host, if an operator wants one. A shadow that cannot run does not keep the
/// version from running: the status and the log have the reason.
pub(super) async fn attach(
    engine: &Engine,
    host: GuestHost,
    descriptor: &Descriptor,
    limits: &InstanceLimits,
    is_canary: bool,
) -> Arc<GuestHost> {
    let Some(report) = host.services().shadow.clone().filter(|_| !is_canary) else { return Arc::new(host) };
    let (version, shadow) = match load(engine, &host, descriptor, limits).await {
        Ok(loaded) => loaded,
        Err(problem) => {
            let text = format!("the shadow {} does not run: {problem}", report.file().display());
            host.services().log.host(LogLevel::Warn, format_args!("{text}"), &[]);
            report.set_error(problem);
            return Arc::new(host);
        }
    };
    report.begin(shadow.code.digest(), &version);
    let (observer, reconciles) = ShadowObserver::new(Arc::clone(&report));
    let host = Arc::new(host.also_observed_by(Arc::new(observer)));
    let running: Arc<dyn Host> = Arc::<GuestHost>::clone(&host);
    shadow::start(shadow, Arc::downgrade(&running), reconciles, report);
    host
}

/// Loads the file of the shadow, and checks that it can run beside the version. Returns its version, too.
async fn load(
    engine: &Engine,
    host: &GuestHost,
    descriptor: &Descriptor,
    limits: &InstanceLimits,
) -> Result<(String, NewVersion), String> {
    let Some(report) = &host.services().shadow else { return Err("no file is given".to_owned()) };
    let wasm = read_blocking(report.file(), |path| plugin_file::read_anywhere(path, MAX_WASM))
        .await
        .map_err(|problem| problem.to_string())?;
    let code = engine.load(wasm).await.map_err(|error| error.to_string())?;
    let described = code.describe(Arc::new(StubHost::new(host.config())), limits).await;
    let text = described.map_err(|error| format!("describe failed: {error}"))?;
    let new = Descriptor::parse(&text).map_err(|error| error.to_string())?;
    check(descriptor, &new)?;
    Ok((new.version, NewVersion { code, limits: limits.clone() }))
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
