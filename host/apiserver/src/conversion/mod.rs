//! Conversions of built-in kinds between the version that is stored and another version that is served.

pub(crate) mod autoscalers;
pub(crate) mod core_events;
