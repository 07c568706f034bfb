//! Calls a plugin's `describe`, and compares the descriptor with what the plugin exports.

use std::sync::Arc;

use pilothouse_plugin::{CompiledPlugin, Engine, Exports, LogLevel};

use super::LoadProblem;
use crate::config::descriptor::Descriptor;
use crate::config::sidecar::Sidecar;
use crate::config::{field_paths, limits};
use crate::directory::PluginFiles;
use crate::guest_host::{GuestHost, PluginServices};

/// Returns the descriptor. Errors if the plugin lacks an export that the descriptor needs. Logs a warning for
/// what is probably a mistake.
pub(super) async fn describe(
    engine: &Engine,
    plugin: &PluginServices,
    code: &CompiledPlugin,
    config: &Arc<str>,
    files: &PluginFiles,
    sidecar: &Sidecar,
) -> Result<Descriptor, LoadProblem> {
    let host = GuestHost::for_describe(plugin.clone(), Arc::clone(config)).recorded(code.digest());
    let limits = limits::effective(None, &sidecar.limits)?.instance;
    plugin.log.set_limits(&limits);
    let text = match files.as_in_memory().and_then(|files| files.descriptor.as_deref()) {
        Some(known) => known.to_owned(),
        None => {
            let described = code.describe(Arc::new(host), &limits).await;
            described.map_err(|source| LoadProblem::from_describe(source, sidecar, &files.sidecar))?
        }
    };
    let marker = engine.create_crash_marker(code.digest())?;
    let descriptor = Descriptor::parse(&text)?;
    drop(marker);
    check_exports(&descriptor, code)?;
    if !descriptor.name.is_empty() && descriptor.name != plugin.name.as_str() {
        let (name, file) = (&descriptor.name, plugin.name.as_str());
        let text = format_args!(
            "the descriptor names the plugin {name:?}, but the file name determines its name: {file:?}"
        );
        plugin.log.host(LogLevel::Warn, text, &[]);
    }
    let of_exports = code.warnings().iter().cloned().chain(unused_exports(&descriptor, code.exports()));
    for warning in of_exports.chain(field_paths::warnings(&descriptor, &[])) {
        plugin.log.host(LogLevel::Warn, format_args!("{warning}"), &[]);
    }
    Ok(descriptor)
}

/// Errors if the plugin does not export a function that its descriptor needs.
pub(crate) fn check_exports(descriptor: &Descriptor, code: &CompiledPlugin) -> Result<(), LoadProblem> {
    let exports = code.exports();
    let starts_work = descriptor.watches.iter().any(|watch| watch.trigger.is_some());
    if starts_work && !exports.reconcile {
        return Err(LoadProblem::NoReconcile);
    }
    let notifies = descriptor.watches.iter().find(|watch| watch.notify);
    if let Some(watch) = notifies.filter(|_| !exports.observe) {
        return Err(LoadProblem::NoObserve { watch: watch.name.clone() });
    }
    let computed = descriptor.computed_indexes().next();
    if let Some((watch, index)) = computed.filter(|_| !exports.index) {
        return Err(LoadProblem::NoIndex { watch: watch.name.clone(), index: index.name.clone() });
    }
    if !starts_work && notifies.is_none() && computed.is_none() {
        let remedy = if exports.reconcile { "trigger: self" } else { "notify: true" };
        return Err(LoadProblem::NeverCalled { remedy });
    }
    Ok(())
}

/// Returns a warning for each export that the descriptor has no use for. These are allowed, because SDKs may
/// export more than a plugin needs, but they are probably a mistake.
pub(crate) fn unused_exports(descriptor: &Descriptor, exports: Exports) -> Vec<String> {
    let unused = [
        (
            exports.reconcile && !descriptor.watches.iter().any(|watch| watch.trigger.is_some()),
            "the plugin exports reconcile, but no watch has a trigger: it is never called",
        ),
        (
            exports.observe && !descriptor.watches.iter().any(|watch| watch.notify),
            "the plugin exports observe, but no watch has notify: true: it is never called",
        ),
        (
            exports.index && descriptor.computed_indexes().next().is_none(),
            "the plugin exports index, but no index is computed: it is never called",
        ),
    ];
    unused.into_iter().filter(|(is_unused, _)| *is_unused).map(|(_, text)| text.to_owned()).collect()
}
