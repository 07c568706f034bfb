//! An attack: a plugin, what it does, and what the host must report about it.

use serde_json::{Value, json};

use crate::harness::{Guest, Host};

/// An attack, built with defaults for everything that it does not set.
pub(super) struct Attack {
    /// The plugin's name and the value of the label `test` of its objects.
    name: &'static str,
    sidecar: Value,
    descriptor: Value,
    setup: Value,
    script: Option<Value>,
    /// Whether to change the object once the plugin runs, because predicates are not evaluated for the initial list.
    changes_object: bool,
    /// The plugin's `error` or a line of its log must contain one of these texts.
    evidence: Vec<String>,
}

impl Attack {
    /// Returns an attack by a plugin that watches its own ConfigMaps and declares all writes.
    pub(super) fn new(name: &'static str) -> Self {
        Self {
            name,
            sidecar: json!({}),
            descriptor: Value::Null,
            setup: json!({}),
            script: None,
            changes_object: false,
            evidence: Vec::new(),
        }
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// Sets a member of the sidecar: `grants`, `limits`, `workers`.
    pub(super) fn sidecar(mut self, member: &str, value: Value) -> Self {
        self.sidecar[member] = value;
        self
    }

    /// Sets a member of the plugin's setup (examples/hostile/README.md).
    pub(super) fn setup(mut self, member: &str, value: Value) -> Self {
        self.setup[member] = value;
        self
    }

    /// Replaces the descriptor. `{namespace}` stands for the test's namespace.
    pub(super) fn descriptor(mut self, descriptor: Value) -> Self {
        self.descriptor = descriptor;
        self
    }

    /// Sets the steps that `reconcile` runs for the plugin's object.
    pub(super) fn script(mut self, steps: Value) -> Self {
        self.script = Some(steps);
        self
    }

    /// Changes the plugin's object once the plugin runs.
    pub(super) fn with_object_change(mut self) -> Self {
        self.changes_object = true;
        self
    }

    /// Adds a text that the host must report about the plugin. If there are several, one of them is enough.
    pub(super) fn expect_message(mut self, evidence: impl Into<String>) -> Self {
        self.evidence.push(evidence.into());
        self
    }

    /// Returns the default descriptor.
    pub(super) fn default_descriptor(name: &str, namespace: &str) -> Value {
        json!({
            "apiVersion": "pilothouse.dev/v1alpha1", "kind": "Plugin",
            "watches": [{
                "name": "maps", "apiVersion": "v1", "kind": "ConfigMap", "labelSelector": format!("test={name}"),
                "namespaces": [namespace], "trigger": "self"
            }],
            "writes": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
        })
    }

    /// Returns the sidecar, with the setup as its `config`.
    pub(super) fn sidecar_text(&self, namespace: &str) -> String {
        let mut sidecar = self.sidecar.clone();
        let mut setup = self.setup.clone();
        setup["descriptor"] = match &self.descriptor {
            Value::Null => Self::default_descriptor(self.name, namespace),
            descriptor => descriptor.clone(),
        };
        sidecar["config"] = setup;
        // JSON is valid YAML.
        sidecar.to_string().replace("{namespace}", namespace)
    }

    /// Installs the plugin and creates its object.
    pub(super) async fn start(&self, host: &Host) {
        host.write_sidecar(self.name, &self.sidecar_text(&host.server.namespace));
        host.install_plugin(self.name, &Guest::Hostile.wasm());
        if let Some(script) = &self.script {
            let script = script.to_string().replace("{namespace}", &host.server.namespace);
            host.server.create_labelled(self.name, self.name, json!({"script": script})).await;
        }
        if self.changes_object {
            host.wait_for_message(self.name, &format!("done {}", self.name), 1).await;
            host.server.set_data(self.name, "changed", "yes").await;
        }
    }

    /// Waits until the host reports what the plugin did.
    pub(super) async fn wait_for_evidence(&self, host: &Host) {
        let condition = format!("{}: one of {:?}", self.name, self.evidence);
        host.wait(&condition, || async {
            let plugin = host.plugin(self.name).await;
            let error = plugin["error"].as_str().unwrap_or_default().to_owned();
            let mut messages = host.log_messages(self.name).await;
            messages.push(error);
            let is_reported = |text: &String| messages.iter().any(|line| line.contains(text.as_str()));
            self.evidence.iter().any(is_reported).then_some(())
        })
        .await;
    }

    /// Removes the plugin and its object.
    pub(super) async fn remove(&self, host: &Host) {
        let plugins = host.plugins();
        for file in ["wasm", "yaml"] {
            let _ = std::fs::remove_file(plugins.join(format!("{}.{file}", self.name)));
        }
        if self.script.is_some() {
            let _ = host.server.config_maps().delete(self.name, &kube::api::DeleteParams::default()).await;
        }
        host.wait_for_plugin(self.name, "its removal", |plugin| {
            plugin.is_null() || plugin["state"] == "stopped"
        })
        .await;
    }
}
