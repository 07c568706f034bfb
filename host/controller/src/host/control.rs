//! The requests of operators about single plugins.

use std::sync::Arc;

use pilothouse_model::hash::HashMap;

use super::PluginHost;
use crate::explain::Explanation;
use crate::lifecycle::PluginStatus;
use crate::logs::PluginLogLine;
use crate::name::PluginName;
use crate::runtime::{CollectedFacts, ControlError, PluginKeys, PluginStatusSource};

impl PluginHost {
    /// Returns up to `limit` of a plugin's pending keys, with the last error of each as far as its log has it.
    ///
    /// # Errors
    /// Errors if there is no such plugin.
    pub fn keys(&self, plugin: &str, limit: usize) -> Result<PluginKeys, ControlError> {
        let (name, view) = self.find(plugin)?;
        let mut keys = view.keys(limit);
        let lines = self.shared.logs.after(0, Some(&name));
        let errors = last_errors(&lines);
        for key in &mut keys.keys {
            key.last_error =
                errors.get(&(key.watch.as_str(), key.key.as_str())).map(|text| (*text).to_owned());
        }
        Ok(keys)
    }

    /// Explains why a key of a plugin was reconciled, or was not. Asks the API server about an object that the cache does not have. Of a plugin that
    /// was never loaded, such as one that cannot be pulled, the status has the reason.
    ///
    /// # Errors
    /// Errors if there is no such plugin, or the key or the watch is not one of the running version.
    pub async fn explain(
        &self,
        plugin: &str,
        watch: Option<&str>,
        key: &str,
    ) -> Result<Explanation, ControlError> {
        let (name, view) = match self.find(plugin) {
            Ok(found) => found,
            Err(error) => {
                let status = self.status_of(plugin).ok_or(error)?;
                return Ok(CollectedFacts::never_loaded(status, watch, key).explain());
            }
        };
        let mut facts = view.facts(watch, key)?;
        facts.now.source = self.shared.provided.get().and_then(|provided| provided.origin(plugin));
        if let Some(queue) = facts.now.queue.as_mut().filter(|queue| queue.attempts > 0) {
            let lines = self.shared.logs.after(0, Some(&name));
            let error = last_errors(&lines).get(&(facts.watch.as_str(), facts.key.as_str())).copied();
            queue.last_error = error.map(str::to_owned);
        }
        if let Some(lookup) = facts.lookup.take() {
            let answer = self.shared.lookups.look_up(&self.shared.services.server, &lookup).await;
            facts.now.on_server = Some(answer);
        }
        Ok(facts.explain())
    }

    /// Queues a key of a plugin at once, as if it had never failed. Returns the target watch, which may be left out if the plugin has one.
    ///
    /// # Errors
    /// Errors if the plugin does not run, or has no such key.
    pub fn requeue(&self, plugin: &str, watch: Option<&str>, key: &str) -> Result<Arc<str>, ControlError> {
        self.view(plugin)?.requeue(watch, key)
    }

    /// Pauses or resumes a plugin: a paused one starts no work, and its keys and changes wait. A pause lasts until it is resumed, its file is
    /// removed, or the host ends.
    ///
    /// # Errors
    /// Errors if there is no such plugin, or its file was removed: a file that comes back starts a plugin that is not paused.
    pub fn set_paused(&self, plugin: &str, paused: bool) -> Result<(), ControlError> {
        let view = self.view(plugin)?;
        if view.status().removed {
            return Err(ControlError::NotRunning { plugin: plugin.to_owned() });
        }
        view.set_paused(paused);
        Ok(())
    }

    /// Runs an older version of a plugin in place of the one in its file, until the file changes. `digest` is the start of the version's SHA-256;
    /// by default, it is the newest version that is older than the running one. Beside a canary, it is the running one: the canary ends. Returns the SHA-256 and the number of the version, which
    /// begins to be loaded.
    ///
    /// # Errors
    /// Errors if there is no such plugin or version, or if its file was removed.
    pub fn roll_back(&self, plugin: &str, digest: Option<&str>) -> Result<(String, String), ControlError> {
        let view = self.view(plugin)?;
        if view.status().removed {
            return Err(ControlError::NotRunning { plugin: plugin.to_owned() });
        }
        view.roll_back(digest)
    }

    /// Runs the canary of a plugin in place of the version beside it. Returns the SHA-256 and the number of the canary.
    ///
    /// # Errors
    /// Errors if there is no such plugin, if it has no canary, or if its file was removed.
    pub fn promote(&self, plugin: &str) -> Result<(String, String), ControlError> {
        let view = self.view(plugin)?;
        if view.status().removed {
            return Err(ControlError::NotRunning { plugin: plugin.to_owned() });
        }
        view.promote()
    }

    fn view(&self, plugin: &str) -> Result<Arc<PluginStatusSource>, ControlError> {
        self.find(plugin).map(|(_, view)| view)
    }

    pub(super) fn find(&self, plugin: &str) -> Result<(PluginName, Arc<PluginStatusSource>), ControlError> {
        let found = {
            let views = self.shared.status_sources.read();
            let found = views.iter().find(|(name, _)| name.as_str() == plugin);
            found.map(|(name, view)| (name.clone(), Arc::clone(view)))
        };
        found.ok_or_else(|| match self.status_of(plugin) {
            Some(_) => ControlError::NotRunning { plugin: plugin.to_owned() },
            None => ControlError::UnknownPlugin { plugin: plugin.to_owned() },
        })
    }

    fn status_of(&self, plugin: &str) -> Option<PluginStatus> {
        self.status().into_iter().find(|status| status.name == plugin)
    }
}

/// Returns the last failure in the log at each key, by watch and key, without the time of the next try: the log leaves out most repeats, and the
/// queue knows it.
fn last_errors(lines: &[PluginLogLine]) -> HashMap<(&str, &str), &str> {
    let mut errors = HashMap::default();
    for line in lines.iter().filter(|line| line.is_of_host() && line.message.starts_with("failed")) {
        let field = |name: &str| {
            let field = line.fields.iter().find(|(key, _)| key == name);
            field.map(|(_, value)| value.as_str())
        };
        if let (Some(watch), Some(key)) = (field("watch"), field("key")) {
            let message = line.message.as_str();
            let failure = message.rsplit_once("; tried again in ").map_or(message, |(failure, _)| failure);
            errors.insert((watch, key), failure);
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(message: &str, watch: &str, key: &str) -> PluginLogLine {
        line_of("host", message, watch, key)
    }

    fn line_of(source: &str, message: &str, watch: &str, key: &str) -> PluginLogLine {
        let line = serde_json::json!({
            "sequence": 1, "time": "2026-01-02T03:04:05Z", "plugin": "p", "level": "warn", "source": source, "message": message,
            "fields": [["watch", watch], ["key", key]],
        });
        serde_json::from_value(line).expect("a line")
    }

    #[test]
    fn the_last_failure_of_each_key_is_found() {
        let lines = [
            line("failed: first; tried again in 5ms", "foos", "shop/a"),
            line("failed: second; tried again in 10ms", "foos", "shop/a"),
            line(
                "failed with a terminal error: no; not tried again until the object changes",
                "bars",
                "shop/a",
            ),
            line("reconciled", "foos", "shop/a"),
            line_of("log", "failed: forged", "foos", "shop/a"),
            line_of("stderr", "failed: forged", "foos", "shop/a"),
        ];
        let errors = last_errors(&lines);
        assert_eq!(errors[&("foos", "shop/a")], "failed: second");
        assert!(errors[&("bars", "shop/a")].starts_with("failed with a terminal error"));
        assert_eq!(errors.len(), 2);
    }
}
