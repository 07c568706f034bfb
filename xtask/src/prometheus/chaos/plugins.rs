//! The bad plugins of the chaos run, and the objects that make them act.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::demo::Api;

/// Guests in WebAssembly text.
const GUESTS: &str = "host/plugin/tests/guests";
/// The plugin whose file is no plugin.
const BROKEN: &str = "broken";
/// Plugins that run, and then get objects. What is counted about them begins at 0.
pub(super) const RUNNING: [&str; 5] = ["trapping", "throttled", "hoarding", "failing", "looping"];
/// Keys of the plugin that fails. Each is retried after a delay that doubles, and the alert needs 20 reconciles.
const FAILING_KEYS: usize = 100;
/// Keys of the throttled plugin, which wait for its worker: 20 requests for each take 2 s.
const THROTTLED_KEYS: usize = 60;

/// The plugins directory of the host.
pub(super) struct Plugins<'a> {
    root: &'a Path,
    folder: PathBuf,
}

impl<'a> Plugins<'a> {
    /// Writes all plugins. `conformance` is the file of that example.
    pub(super) fn install(root: &'a Path, folder: &Path, conformance: &Path) -> Result<Self> {
        let plugins = Self { root, folder: folder.to_owned() };
        fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
        plugins.break_again(0)?;
        let echo = plugins.assemble("echo", "")?;
        let watch =
            |kind: &str| json!({"name": "objects", "apiVersion": "v1", "kind": kind, "trigger": "self"});
        let nothing = json!({"watches": [], "writes": []});
        let waiting = json!({"config": descriptor(&watch("ConfigMap")), "grants": nothing});
        plugins.write("waiting", &waiting, &echo)?;
        plugins.write("unsynced", &json!({"config": descriptor(&watch("Secret"))}), &echo)?;
        for (name, fault, workers, limits) in [
            ("trapping", "$traps", 2, json!({})),
            ("hoarding", "$queues-without-end", 1, json!({"hostMemory": "1Mi"})),
            ("throttled", "$visits-client", 1, json!({"clientQps": 10, "clientBurst": 10})),
        ] {
            let mut watch = watch("ConfigMap");
            watch["labelSelector"] = format!("chaos={name}").into();
            let sidecar = json!({"config": descriptor(&watch), "workers": workers, "limits": limits});
            plugins.write(name, &sidecar, &plugins.assemble("faulty", fault)?)?;
        }
        plugins.write("failing", &json!({}), &plugins.assemble("wish", "")?)?;
        let conformance = fs::read(conformance).with_context(|| format!("read {}", conformance.display()))?;
        plugins.write("looping", &json!({}), &conformance)?;
        Ok(plugins)
    }

    /// Replaces the file that is no plugin by another one.
    pub(super) fn break_again(&self, number: u64) -> Result<()> {
        self.replace(&format!("{BROKEN}.wasm"), format!("no plugin, version {number}").as_bytes())
    }

    /// Creates the objects that make the plugins act.
    pub(super) fn provoke(&self, server: &Api) -> Result<()> {
        let create = |name: &str, labels: Value, data: Value| -> Result<()> {
            let metadata = json!({"name": name, "namespace": "default", "labels": labels});
            let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data});
            let path = format!("/api/v1/namespaces/default/configmaps/{name}");
            server.apply(&path, &object.to_string()).map(drop)
        };
        for name in ["trapping", "hoarding"] {
            create(name, json!({"chaos": name}), json!({}))?;
        }
        for number in 0..THROTTLED_KEYS {
            create(&format!("throttled-{number}"), json!({"chaos": "throttled"}), json!({}))?;
        }
        for number in 0..FAILING_KEYS {
            create(&format!("failing-{number}"), json!({}), json!({"wish": "retry"}))?;
        }
        create("looping", json!({"test": "conformance"}), json!({"action": "flip"}))
    }

    fn assemble(&self, guest: &str, fault: &str) -> Result<Vec<u8>> {
        let file = self.root.join(GUESTS).join(format!("{guest}.wat"));
        let mut text = fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
        if !fault.is_empty() {
            for export in ["$in-describe", "$in-observe", "$in-index"] {
                text = text.replace(export, "$nothing");
            }
            text = text.replace("$in-reconcile", fault);
        }
        wat::parse_str(&text).with_context(|| format!("assemble {}", file.display()))
    }

    /// Writes a plugin. The sidecar comes first, so that no plugin is loaded without its own.
    fn write(&self, name: &str, sidecar: &Value, wasm: &[u8]) -> Result<()> {
        // JSON is YAML.
        self.replace(&format!("{name}.yaml"), sidecar.to_string().as_bytes())?;
        self.replace(&format!("{name}.wasm"), wasm)
    }

    fn replace(&self, name: &str, content: &[u8]) -> Result<()> {
        let (file, unfinished) = (self.folder.join(name), self.folder.join(format!(".{name}.unfinished")));
        fs::write(&unfinished, content)
            .and_then(|()| fs::rename(&unfinished, &file))
            .with_context(|| format!("write {}", file.display()))
    }
}

fn descriptor(watch: &Value) -> Value {
    let writes = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]);
    json!({"apiVersion": "pilothouse.dev/v1alpha1", "kind": "Plugin", "watches": [watch], "writes": writes})
}
