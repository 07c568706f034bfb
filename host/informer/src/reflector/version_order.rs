//! Detects that the server's versions go back; see "When versions go back" in the [module documentation](super).

use std::cmp::Ordering;

use pilothouse_model::ResourceVersion;

/// After this many false alarms in a row, lower versions count as repeats: a server that does not send its events in order
/// must not be relisted for each of them.
const MAX_FALSE_ALARMS: u32 = 3;

/// Compares each version with the last one, and tracks whether lower versions really were restores.
#[derive(Debug, Default)]
pub(super) struct VersionOrder {
    /// The last version before a lower one was seen, until a list shows whether the server went back.
    suspected_at: Option<String>,
    /// Lower versions in a row after which the list had not gone back.
    false_alarms: u32,
}

/// How a version relates to the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VersionStep {
    Forward,
    /// The same version, or a lower one from a server that does not send events in order.
    Repeat,
    Backward,
}

impl VersionOrder {
    /// Compares `version` with `last`. Non-decimal versions have no order: a different one counts as later.
    pub(super) fn classify(&self, last: Option<&str>, version: &str) -> VersionStep {
        let Some(last) = last else { return VersionStep::Forward };
        match ResourceVersion::compare_text(version, last) {
            Some(Ordering::Less) if self.false_alarms < MAX_FALSE_ALARMS => VersionStep::Backward,
            Some(Ordering::Less | Ordering::Equal) => VersionStep::Repeat,
            None if version == last => VersionStep::Repeat,
            Some(Ordering::Greater) | None => VersionStep::Forward,
        }
    }

    /// Records that a version lower than `last` was seen.
    pub(super) fn suspect(&mut self, last: Option<&str>) {
        self.suspected_at = last.map(str::to_owned);
    }

    /// Resolves the suspicion with the version of a list, which is authoritative.
    pub(super) fn resolve(&mut self, version: &str) {
        let Some(suspected_at) = self.suspected_at.take() else { return };
        if ResourceVersion::compare_text(version, &suspected_at) == Some(Ordering::Less) {
            self.false_alarms = 0;
        } else {
            self.false_alarms += 1;
        }
    }
}
