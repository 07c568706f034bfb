//! Reports a hot loop in the log, the metrics and an Event.

use std::fmt;

use pilothouse_plugin::LogLevel;

use super::HotLoop;
use crate::client::{NewEvent, short_note};
use crate::guest_host::PluginServices;
use crate::runtime::queue::ReconcileKey;

impl fmt::Display for HotLoop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { subject, fields, other_plugin, rounds, .. } = self;
        match other_plugin {
            Some(other_plugin) => write!(
                f,
                "hot loop: this plugin and {other_plugin} answer each other's writes to {subject}, {rounds} times now"
            )?,
            None => write!(f, "hot loop: its own writes to {subject} start it again, {rounds} times now")?,
        }
        match fields.as_slice() {
            [] => f.write_str("; what changes is not in what it watches"),
            [field] => write!(f, "; {field} changes each time"),
            [first, second, ..] => write!(f, "; {first} and {second} change each time"),
        }
    }
}

/// Logs that the key is in a loop. A new loop also gets an Event and is counted.
pub(crate) fn report(plugin: &PluginServices, item: &ReconcileKey, found: &HotLoop) {
    plugin.metrics.hot_loop_rounds.inc();
    plugin.log.host(
        LogLevel::Error,
        format_args!("{found}; the next round waits {:?}", found.delay),
        &[("watch", &item.watch), ("key", &item.key)],
    );
    if !found.is_new {
        return;
    }
    plugin.metrics.hot_loops.inc();
    let Some(object) = &found.object else { return };
    let recorded = plugin.events.record(NewEvent {
        plugin: plugin.name.to_shared(),
        regarding: object.clone(),
        warning: true,
        reason: "HotLoop".to_owned(),
        action: "Reconcile".to_owned(),
        note: short_note(&format!("The plugin {} is in a {found}", plugin.name)),
    });
    if !recorded {
        plugin.metrics.events_dropped.inc();
    }
}
