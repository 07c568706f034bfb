//! One attack: a plugin, what it is told to do, and what has to be said about it.

use serde_json::{Value, json};

use crate::harness::{Guest, Host};

/// What an attacker brings, with defaults for what an attack does not need.
pub(super) struct Attack {
    /// The plugin's name, and the value of the label `test` of its objects.
    name: &'static str,
    sidecar: Value,
    descriptor: Value,
    setup: Value,
    script: Option<Value>,
    /// Whether the object is changed once the plugin runs: predicates do not see the first list.
    is_changed: bool,
    /// One of these has to be in the plugin's `error`, or in a line of its log.
    evidence: Vec<String>,
}

impl Attack {
    /// An attack by a plugin that watches ConfigMaps of its own and declares every write.
    pub(super) fn new(name: &'static str) -> Self {
        Self {
            name,
            sidecar: json!({}),
            descriptor: Value::Null,
            setup: json!({}),
            script: None,
            is_changed: false,
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

    /// Replaces the descriptor; `{namespace}` in its texts becomes the test's.
    pub(super) fn descriptor(mut self, descriptor: Value) -> Self {
        self.descriptor = descriptor;
        self
    }

    /// What `reconcile` does with the plugin's object.
    pub(super) fn script(mut self, steps: Value) -> Self {
        self.script = Some(steps);
        self
    }

    /// Changes the plugin's object once the plugin runs.
    pub(super) fn changes_its_object(mut self) -> Self {
        self.is_changed = true;
        self
    }

    /// A text that has to be said of the plugin. Several: one of them is enough.
    pub(super) fn says(mut self, evidence: impl Into<String>) -> Self {
        self.evidence.push(evidence.into());
        self
    }

    /// The descriptor that an attack has unless it brings another.
    pub(super) fn usual_descriptor(name: &str, namespace: &str) -> Value {
        json!({
            "apiVersion": "pilothouse.dev/v1alpha1", "kind": "Plugin",
            "watches": [{
                "name": "maps", "apiVersion": "v1", "kind": "ConfigMap", "labelSelector": format!("test={name}"),
                "namespaces": [namespace], "trigger": "self"
            }],
            "writes": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
        })
    }

    /// The sidecar's text: the given members and the setup as `config`.
    pub(super) fn sidecar_text(&self, namespace: &str) -> String {
        let mut sidecar = self.sidecar.clone();
        let mut setup = self.setup.clone();
        setup["descriptor"] = match &self.descriptor {
            Value::Null => Self::usual_descriptor(self.name, namespace),
            descriptor => descriptor.clone(),
        };
        sidecar["config"] = setup;
        // JSON is YAML. The namespace is the test's own.
        sidecar.to_string().replace("{namespace}", namespace)
    }

    /// Puts the plugin and its object in place.
    pub(super) async fn begin(&self, host: &Host) {
        host.write_sidecar(self.name, &self.sidecar_text(&host.server.namespace));
        host.install_plugin(self.name, &Guest::Hostile.wasm());
        if let Some(script) = &self.script {
            let script = script.to_string().replace("{namespace}", &host.server.namespace);
            host.server.create_labelled(self.name, self.name, json!({"script": script})).await;
        }
        if self.is_changed {
            host.wait_for_message(self.name, &format!("done {}", self.name), 1).await;
            host.server.set_data(self.name, "changed", "yes").await;
        }
    }

    /// Waits until the plugin is named for what it did.
    pub(super) async fn is_named(&self, host: &Host) {
        let what = format!("{}: one of {:?}", self.name, self.evidence);
        host.wait(&what, || async {
            let plugin = host.plugin(self.name).await;
            let error = plugin["error"].as_str().unwrap_or_default().to_owned();
            let mut said = host.log_messages(self.name).await;
            said.push(error);
            let is_there = |text: &String| said.iter().any(|line| line.contains(text.as_str()));
            self.evidence.iter().any(is_there).then_some(())
        })
        .await;
    }

    /// Takes the plugin and its object away.
    pub(super) async fn end(&self, host: &Host) {
        let plugins = host.plugins();
        for file in ["wasm", "yaml"] {
            let _ = std::fs::remove_file(plugins.join(format!("{}.{file}", self.name)));
        }
        if self.script.is_some() {
            let _ = host.server.config_maps().delete(self.name, &kube::api::DeleteParams::default()).await;
        }
        host.wait_for_plugin(self.name, "the end", |plugin| plugin.is_null() || plugin["state"] == "stopped")
            .await;
    }
}
