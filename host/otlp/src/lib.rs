//! Sends spans to an OpenTelemetry collector: OTLP over HTTP with protobuf.
//!
//! [`Settings`] come from flags and from the environment variables `OTEL_…`, [`Exporter`] sends the spans, and [`message`] has the messages of the
//! protocol, of which only those parts are defined that a host uses (`docs/decisions/0030-traces.md`).

mod environment;
mod exporter;
pub mod message;
mod retry;
mod settings;
mod tls;

pub use exporter::{ExportError, Exporter};
pub use settings::{Settings, SettingsError, parse_endpoint};
