//! Plugins that are no files: their code is compiled already. Simulations start a host many times with the same code.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use pilothouse_plugin::CompiledPlugin;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::PluginHost;
use crate::directory::{Change, InMemoryFiles, PluginFiles};
use crate::name::PluginName;
use crate::runtime::PluginHandle;

/// A plugin that is no file.
#[derive(Clone, Debug)]
pub struct InMemoryPlugin {
    /// The name that its file would have.
    pub name: PluginName,
    /// The compiled code, of the engine of the host.
    pub code: CompiledPlugin,
    /// The text of the sidecar, "" for none.
    pub sidecar: Arc<str>,
    /// The descriptor that the code has returned with the sidecar's configuration, so that it is not asked at each load; `None` to ask it.
    pub descriptor: Option<Arc<str>>,
}

impl PluginHost {
    /// Runs these plugins in place of those of a directory, until shutdown. A changed list takes effect at once: plugins that are new in it
    /// are loaded, those with other code or another sidecar are reloaded, and those that are not in it are removed. Reads no file and
    /// starts no thread.
    pub async fn run_in_memory(
        &self,
        mut plugins: watch::Receiver<Vec<InMemoryPlugin>>,
        shutdown: CancellationToken,
    ) {
        let server_probe = tokio::spawn(self.clone().reach_server());
        let mut loaded: BTreeMap<PluginName, PluginFiles> = BTreeMap::new();
        let mut handles = BTreeMap::new();
        loop {
            let desired: BTreeMap<_, _> = plugins.borrow_and_update().iter().map(files).collect();
            self.apply(changes(&loaded, &desired), &mut handles, &shutdown);
            loaded = desired;
            self.shared.scanned.store(true, Ordering::Relaxed);
            tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                changed = plugins.changed() => if changed.is_err() {
                    // Nobody changes the list any more.
                    shutdown.cancelled().await;
                    break;
                },
            }
        }
        server_probe.abort();
        futures::future::join_all(handles.into_values().map(PluginHandle::join)).await;
        self.shared.services.informers.stop().await;
    }
}

fn files(plugin: &InMemoryPlugin) -> (PluginName, PluginFiles) {
    let InMemoryPlugin { name, code, sidecar, descriptor } = plugin.clone();
    (name.clone(), PluginFiles::in_memory(&name, InMemoryFiles { code, sidecar, descriptor }))
}

/// Returns what changes the loaded plugins into the desired ones.
fn changes(
    loaded: &BTreeMap<PluginName, PluginFiles>,
    desired: &BTreeMap<PluginName, PluginFiles>,
) -> Vec<Change> {
    let removed = loaded.keys().filter(|name| !desired.contains_key(*name));
    let removed = removed.map(|name| Change::Remove(name.clone()));
    let changed = desired.iter().filter(|(name, files)| loaded.get(*name) != Some(*files));
    removed.chain(changed.map(|(name, files)| Change::Load(name.clone(), files.clone()))).collect()
}
