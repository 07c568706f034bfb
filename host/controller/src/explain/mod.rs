//! `pilothouse explain`: why a key was reconciled, or was not.
//!
//! [`situation`] holds what is known, [`verdict`] decides and is pure. The [`journal`] remembers what happened to the keys of a plugin.
//! `runtime::explain` collects the situation of a plugin's key, and [`lookup`] asks the API server about an object that no cache has.

pub(crate) mod journal;
pub(crate) mod lookup;
mod situation;
mod verdict;
#[cfg(test)]
mod verdict_tests;

pub use situation::{
    CachedObject, EntryDetail, Explanation, HotLoopSituation, JournalEntry, MissingPrerequisite,
    PluginSituation, PredicatePart, PredicateSituation, PredicateValue, PrerequisiteKind, QueueSituation,
    ServerObject, Situation, TriggerSituation, VersionSituation, WatchSituation,
};
pub use verdict::Cause;
pub(crate) use verdict::decide;
