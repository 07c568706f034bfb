//! Decides how long plugins whose files were removed stay in the status. Pure: the caller passes the time.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::name::PluginName;

/// How long a removed plugin is shown after it has ended.
const SHOWN_FOR: Duration = Duration::from_secs(600);
/// The maximum number of removed plugins that are shown. Without a bound, plugins with ever new names would use up the memory.
const MAX_SHOWN: usize = 32;

/// The removed plugins that have ended, and when.
#[derive(Default)]
pub(super) struct RemovedPlugins(BTreeMap<PluginName, Instant>);

impl RemovedPlugins {
    /// Returns the plugins to forget, given all removed plugins that have ended.
    pub(super) fn forget<'a>(
        &mut self,
        ended: impl Iterator<Item = &'a PluginName>,
        now: Instant,
    ) -> Vec<PluginName> {
        let known = std::mem::take(&mut self.0);
        self.0 = ended.map(|name| (name.clone(), known.get(name).copied().unwrap_or(now))).collect();
        let mut oldest: Vec<(Instant, PluginName)> =
            self.0.iter().map(|(name, at)| (*at, name.clone())).collect();
        oldest.sort_unstable();
        let excess = oldest.len().saturating_sub(MAX_SHOWN);
        let is_due = |(position, (at, _)): &(usize, (Instant, PluginName))| {
            *position < excess || now.saturating_duration_since(*at) >= SHOWN_FOR
        };
        oldest.into_iter().enumerate().filter(is_due).map(|(_, (_, name))| name).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn name(text: &str) -> PluginName {
        PluginName::of_file(Path::new(&format!("{text}.wasm"))).expect("a name")
    }

    #[test]
    fn a_removed_plugin_is_shown_for_ten_minutes_after_it_has_ended() {
        let (mut removed, start) = (RemovedPlugins::default(), Instant::now());
        let (a, b) = (name("a"), name("b"));
        assert_eq!(removed.forget([&a].into_iter(), start), []);
        assert_eq!(removed.forget([&a, &b].into_iter(), start + SHOWN_FOR / 2), []);
        assert_eq!(removed.forget([&a, &b].into_iter(), start + SHOWN_FOR), std::slice::from_ref(&a));
        assert_eq!(removed.forget([&b].into_iter(), start + SHOWN_FOR), []);
        // Its file came back and was removed again.
        assert_eq!(removed.forget([&a, &b].into_iter(), start + 2 * SHOWN_FOR), [b]);
    }

    #[test]
    fn the_oldest_removed_plugins_make_room_for_others() {
        let (mut removed, start) = (RemovedPlugins::default(), Instant::now());
        let oldest = name("z");
        assert_eq!(removed.forget([&oldest].into_iter(), start), []);
        let others: Vec<_> = (0..MAX_SHOWN).map(|number| name(&format!("p{number}"))).collect();
        let later = start + Duration::from_secs(1);
        assert_eq!(removed.forget(others.iter().chain([&oldest]), later), [oldest]);
    }
}
