//! The states of plugins as metrics.

use std::sync::Arc;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::status::PluginState;
use crate::metrics::registered;
use crate::name::PluginName;

/// All labels have few values: the plugins, and their states. `controller` and `plugin` are both the plugin's name. All of the host's metrics
/// about plugins have the first.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByState {
    controller: Arc<str>,
    plugin: Arc<str>,
    state: &'static str,
}

/// The metric families of all plugins. Cheap to clone.
#[derive(Clone)]
pub(crate) struct LifecycleMetrics {
    states: Family<ByState, Gauge>,
    transitions: Family<ByState, Counter>,
}

/// The metrics of one plugin: a gauge and a counter for each state.
pub(crate) struct StateMetrics([(PluginState, Gauge, Counter); PluginState::ALL.len()]);

impl LifecycleMetrics {
    /// Creates and registers the families.
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let states =
            "1 for the state that the plugin is in, 0 for the others; the states are those of `status`";
        let transitions = "Times that the plugin entered a state";
        Self {
            states: registered(registry, "pilothouse_plugin_state", states, Family::default()),
            transitions: registered(
                registry,
                "pilothouse_plugin_transitions",
                transitions,
                Family::default(),
            ),
        }
    }

    pub(crate) fn for_plugin(&self, plugin: &PluginName) -> StateMetrics {
        self.for_name(&plugin.to_shared())
    }

    /// Returns the metrics of a plugin that another source than the directory names.
    pub(crate) fn for_name(&self, plugin: &Arc<str>) -> StateMetrics {
        StateMetrics(PluginState::ALL.map(|state| {
            let labels = ByState::of(plugin, state);
            let gauge = self.states.get_or_create_owned(&labels);
            (state, gauge, self.transitions.get_or_create_owned(&labels))
        }))
    }

    /// Removes the states of a plugin that does not exist any more. The transitions stay, because they are counters.
    pub(crate) fn forget(&self, plugin: &Arc<str>) {
        for state in PluginState::ALL {
            self.states.remove(&ByState::of(plugin, state));
        }
    }
}

impl ByState {
    fn of(plugin: &Arc<str>, state: PluginState) -> Self {
        Self { controller: Arc::clone(plugin), plugin: Arc::clone(plugin), state: state.as_str() }
    }
}

impl StateMetrics {
    /// Records that the plugin enters this state.
    pub(crate) fn enter(&self, state: PluginState) {
        for (known, gauge, entered) in &self.0 {
            gauge.set(i64::from(*known == state));
            if *known == state {
                entered.inc();
            }
        }
    }
}
