//! Counts the HTTP requests of plugins by their outcome.

use std::sync::Arc;

use http::StatusCode;
use pilothouse_plugin::HttpError;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use crate::metrics::registered;
use crate::name::PluginName;

/// No part of a URL is a label, because guests choose those.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByResult {
    controller: Arc<str>,
    result: &'static str,
}

/// The request counters of all plugins. Cheap to clone.
#[derive(Clone)]
pub(crate) struct HttpMetrics(Family<ByResult, Counter>);

/// The request counters of one plugin.
pub(crate) struct HttpCounters {
    requests: Family<ByResult, Counter>,
    controller: Arc<str>,
}

impl HttpMetrics {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let help = "HTTP requests of the plugin; `result` is `2xx` to `5xx` by the response, else `denied`, `timeout`, `limit` (size or number), `abandoned` (by the plugin, or at its call's end) or `error`";
        Self(registered(registry, "pilothouse_http_requests", help, Family::default()))
    }

    pub(crate) fn for_plugin(&self, plugin: &PluginName) -> HttpCounters {
        let counters = HttpCounters { requests: self.0.clone(), controller: plugin.to_shared() };
        // Creates the most important series at once, so that it exists before the first request.
        drop(counters.of("2xx"));
        counters
    }
}

impl HttpCounters {
    pub(crate) fn count(&self, result: Result<StatusCode, &HttpError>) {
        self.of(result_label(result)).inc();
    }

    fn of(&self, result: &'static str) -> Counter {
        self.requests.get_or_create_owned(&ByResult { controller: Arc::clone(&self.controller), result })
    }
}

fn result_label(result: Result<StatusCode, &HttpError>) -> &'static str {
    match result {
        Ok(status) if status.is_success() => "2xx",
        Ok(status) if status.is_redirection() => "3xx",
        Ok(status) if status.is_client_error() => "4xx",
        Ok(status) if status.is_server_error() => "5xx",
        Err(HttpError::Denied(_) | HttpError::UnavailableInCall { .. } | HttpError::ForbiddenAddress(_)) => {
            "denied"
        }
        Err(HttpError::Timeout { .. }) => "timeout",
        Err(HttpError::TooMany { .. } | HttpError::RequestBody { .. } | HttpError::ResponseBody { .. }) => {
            "limit"
        }
        Err(HttpError::Abandoned) => "abandoned",
        Ok(_) | Err(_) => "error",
    }
}
