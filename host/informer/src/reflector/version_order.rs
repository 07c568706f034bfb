//! Whether the server's versions go forward; see "When versions go back" in the [module documentation](super).

use std::cmp::Ordering;

use pilothouse_model::ResourceVersion;

/// After so many lower versions in a row behind which nothing had gone back, they are taken as repeats: a server that does
/// not send its events in order must not be listed for each.
const MAX_FALSE_ALARMS: u32 = 3;

#[derive(Debug, Default)]
pub(super) struct VersionOrder {
    /// The last version before a lower one, until a list shows what it meant.
    suspected_at: Option<String>,
    false_alarms: u32,
}

/// What a version says after the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VersionStep {
    Forward,
    /// The same, or a lower one from a server that does not keep them in order.
    Repeat,
    Backward,
}

impl VersionOrder {
    /// Versions that are not decimal have no order: another one is a later one.
    pub(super) fn classify(&self, last: Option<&str>, version: &str) -> VersionStep {
        let Some(last) = last else { return VersionStep::Forward };
        match ResourceVersion::compare_text(version, last) {
            Some(Ordering::Less) if self.false_alarms < MAX_FALSE_ALARMS => VersionStep::Backward,
            Some(Ordering::Less | Ordering::Equal) => VersionStep::Repeat,
            None if version == last => VersionStep::Repeat,
            Some(Ordering::Greater) | None => VersionStep::Forward,
        }
    }

    pub(super) fn suspect(&mut self, last: Option<&str>) {
        self.suspected_at = last.map(str::to_owned);
    }

    /// A list is the truth: at `version`, the suspicion was right or a mistake.
    pub(super) fn resolve(&mut self, version: &str) {
        let Some(suspected_at) = self.suspected_at.take() else { return };
        if ResourceVersion::compare_text(version, &suspected_at) == Some(Ordering::Less) {
            self.false_alarms = 0;
        } else {
            self.false_alarms += 1;
        }
    }
}
