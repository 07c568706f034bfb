//! Conversions between the version that is stored and another version that is served: of built-in kinds, and of custom resources by webhooks.

pub(crate) mod autoscalers;
pub(crate) mod core_events;
mod webhook;

pub(crate) use webhook::ConversionWebhook;
