//! The exemplars of the host's histograms: Prometheus stores them, and each names a trace that a collector has received.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use serde_json::Value;

use super::server::Prometheus;
use crate::http_server::{HttpServer, Request, Response};

/// The histograms with exemplars.
const HISTOGRAMS: [&str; 4] = [
    "controller_runtime_reconcile_time_seconds_bucket",
    "workqueue_queue_duration_seconds_bucket",
    "pilothouse_event_to_reconcile_seconds_bucket",
    "pilothouse_event_to_write_seconds_bucket",
];
/// Bytes of messages that the receiver keeps.
const MAX_KEPT: usize = 256 << 20;

/// A receiver of traces. It keeps the messages as they come: protobuf stores the identifier of a trace as its 16 bytes.
pub(super) struct Receiver {
    server: HttpServer,
    messages: Arc<Mutex<Vec<u8>>>,
}

impl Receiver {
    pub(super) fn start() -> Result<Self> {
        let messages = Arc::<Mutex<Vec<u8>>>::default();
        let shared = Arc::clone(&messages);
        let server = HttpServer::start(move |request: &Request| {
            let mut messages = shared.lock().unwrap_or_else(PoisonError::into_inner);
            if messages.len() + request.body.len() <= MAX_KEPT {
                messages.extend(&request.body);
            }
            Response { status: 200, ..Response::default() }
        })?;
        Ok(Self { server, messages })
    }

    /// Returns the URL for `--trace-endpoint`.
    pub(super) fn endpoint(&self) -> String {
        format!("http://{}", self.server.address())
    }

    fn has_trace(&self, id: &str) -> bool {
        let messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        contains_trace(&messages, id)
    }
}

/// Waits until Prometheus has an exemplar of each histogram whose trace the receiver has.
pub(super) fn wait_for_traces(prometheus: &Prometheus, receiver: &Receiver) -> Result<()> {
    let missing = RefCell::new(HISTOGRAMS.to_vec());
    let waited = prometheus.api().wait("an exemplar of each histogram", |_| {
        missing.borrow_mut().retain(|histogram| {
            let found = trace_ids(&prometheus.exemplars(histogram));
            let Some(id) = found.iter().find(|id| receiver.has_trace(id)) else { return true };
            println!("prometheus: an exemplar of {histogram} names the trace {id}, which the receiver has");
            false
        });
        Ok(missing.borrow().is_empty().then_some(()))
    });
    waited.with_context(|| format!("no exemplar names a received trace: {}", missing.borrow().join(", ")))
}

/// Returns the traces of the exemplars in an answer of `query_exemplars`.
fn trace_ids(series: &[Value]) -> Vec<String> {
    let exemplars = series.iter().filter_map(|series| series["exemplars"].as_array()).flatten();
    exemplars.filter_map(|exemplar| exemplar["labels"]["trace_id"].as_str()).map(str::to_owned).collect()
}

/// Returns whether the messages contain the bytes of a trace's identifier, which is 32 hexadecimal digits.
fn contains_trace(messages: &[u8], id: &str) -> bool {
    let Ok(number) = u128::from_str_radix(id, 16) else { return false };
    let bytes = number.to_be_bytes();
    id.len() == 2 * bytes.len() && messages.windows(bytes.len()).any(|window| window == bytes)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_traces_of_exemplars_are_found_in_messages() {
        let exemplar = |id: &str| json!({"labels": {"trace_id": id}, "value": "0.1"});
        let series =
            [json!({"exemplars": [exemplar("a"), {"labels": {}}]}), json!({"exemplars": [exemplar("b")]})];
        assert_eq!(trace_ids(&series), ["a", "b"]);
        assert_eq!(trace_ids(&[Value::Null, json!({})]), Vec::<String>::new());
        let message =
            [&b"\x0a\x10"[..], &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15], b"\x12"].concat();
        assert!(contains_trace(&message, "000102030405060708090a0b0c0d0e0f"));
        for id in ["000102030405060708090a0b0c0d0e10", "0001", "", "trace"] {
            assert!(!contains_trace(&message, id), "{id}");
        }
    }
}
