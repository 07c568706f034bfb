//! What `dev` does at its start before its plugins can be called ready: the first build of `--build`, and `--apply`.

#[cfg(feature = "developer-tools")]
use std::sync::Arc;
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};

/// The unfinished steps of a start.
#[derive(Default)]
pub(crate) struct StartupSteps(Mutex<Unfinished>);

#[derive(Default)]
struct Unfinished {
    steps: Vec<Weak<str>>,
    /// The plugins that were built and that the host has not found yet.
    built_plugins: Vec<String>,
}

impl StartupSteps {
    fn lock(&self) -> MutexGuard<'_, Unfinished> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what is not finished, a line for each step. `is_known` says whether the host has found the plugin of a name.
    pub(crate) fn unfinished(&self, is_known: impl Fn(&str) -> bool) -> Vec<String> {
        let mut unfinished = self.lock();
        unfinished.steps.retain(|step| step.strong_count() > 0);
        unfinished.built_plugins.retain(|name| !is_known(name));
        let steps = unfinished.steps.iter().filter_map(Weak::upgrade).map(|step| step.to_string());
        let plugins = unfinished.built_plugins.iter().map(|name| format!("{name}: built, and not found yet"));
        steps.chain(plugins).collect()
    }
}

/// A step of a start. It is finished when it is dropped.
#[cfg(feature = "developer-tools")]
pub(crate) struct StartupStep {
    /// The steps hold a weak reference, which ends with this one.
    _text: Arc<str>,
    steps: Arc<StartupSteps>,
}

#[cfg(feature = "developer-tools")]
impl StartupStep {
    /// Begins a step. The text says what is not finished, and where.
    pub(crate) fn begin(steps: &Arc<StartupSteps>, text: &str) -> Self {
        let text: Arc<str> = text.into();
        steps.lock().steps.push(Arc::downgrade(&text));
        Self { _text: text, steps: Arc::clone(steps) }
    }

    /// Finishes a step whose result is a plugin. The start is finished once the host has found that plugin.
    pub(crate) fn finish_with_plugin(self, name: String) {
        self.steps.lock().built_plugins.push(name);
    }
}

#[cfg(all(test, feature = "developer-tools"))]
mod tests {
    use super::*;

    #[test]
    fn a_start_is_finished_once_its_steps_are_and_the_built_plugin_was_found() {
        let steps = Arc::new(StartupSteps::default());
        assert!(steps.unfinished(|_| false).is_empty());
        let apply = StartupStep::begin(&steps, "--apply: not done");
        let build = StartupStep::begin(&steps, "--build: not done");
        assert_eq!(steps.unfinished(|_| false), ["--apply: not done", "--build: not done"]);
        drop(apply);
        assert_eq!(steps.unfinished(|_| true), ["--build: not done"]);
        build.finish_with_plugin("web".to_owned());
        assert_eq!(steps.unfinished(|name| name != "web"), ["web: built, and not found yet"]);
        assert!(steps.unfinished(|name| name == "web").is_empty());
        assert!(steps.unfinished(|_| false).is_empty(), "a plugin that is removed later was found once");
    }
}
