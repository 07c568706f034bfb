//! Calls webhooks, for admission and for conversion: bounded HTTPS requests to the servers that their configurations name.
//!
//! The URLs come from users of the API. A request carries nothing of this process but the review, follows no redirect, and its answer is
//! shown only as far as it is a review or a short error. `--webhooks false` disables all of them.

mod client;
mod destination;
mod service;
mod tls;

pub(crate) use client::WebhookClient;
pub(crate) use destination::Destination;
