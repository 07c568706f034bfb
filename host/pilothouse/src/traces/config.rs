//! The member `tracing` of the configuration file.

use std::time::Duration;

use pilothouse_controller::limits::parse_duration;
use pilothouse_otlp::parse_endpoint;
use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// Reconciles that take this long are exported in any case, by default.
const DEFAULT_SLOW: Duration = Duration::from_secs(1);

/// Traces of reconciles.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct TracingConfig {
    /// The URL of an OpenTelemetry collector that accepts OTLP over HTTP, such as `http://collector:4318`. By default, `OTEL_EXPORTER_OTLP_ENDPOINT`; without either,
    /// nothing is traced.
    #[serde(default, deserialize_with = "endpoint")]
    #[cfg_attr(test, schemars(regex(pattern = "^https?://")))]
    pub(crate) endpoint: Option<String>,
    /// The share of reconciles that are exported, from 0 to 1. By default, `OTEL_TRACES_SAMPLER_ARG`, or else 0.01.
    #[serde(default, deserialize_with = "ratio")]
    #[cfg_attr(test, schemars(range(min = 0, max = 1)))]
    pub(crate) sample_ratio: Option<f64>,
    /// Reconciles that take this long are exported in any case, as those that fail are. Default: `1s`.
    #[serde(default, deserialize_with = "slow")]
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub(super) slow: Option<Duration>,
}

impl TracingConfig {
    /// Returns the time from which on reconciles are exported in any case.
    pub(crate) fn slow(&self) -> Duration {
        self.slow.unwrap_or(DEFAULT_SLOW)
    }
}

fn endpoint<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let endpoint = Option::<String>::deserialize(deserializer)?;
    if let Some(endpoint) = &endpoint {
        parse_endpoint("tracing.endpoint", endpoint).map_err(D::Error::custom)?;
    }
    Ok(endpoint)
}

fn ratio<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    match Option::<f64>::deserialize(deserializer)? {
        Some(ratio) if !(0.0..=1.0).contains(&ratio) => Err(D::Error::custom(format!(
            "tracing.sampleRatio: {ratio} is not a ratio; write a number from 0 to 1"
        ))),
        ratio => Ok(ratio),
    }
}

fn slow<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let Some(text) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
    parse_duration(&text).map(Some).ok_or_else(|| {
        D::Error::custom(format!(
            "tracing.slow: {text:?} is not a duration; write one such as \"500ms\" or \"1s\""
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<TracingConfig, String> {
        serde_saphyr::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn all_members_are_optional() {
        let config = read("{}").expect("a configuration");
        assert_eq!((config.slow(), config.endpoint, config.sample_ratio), (DEFAULT_SLOW, None, None));
        let config =
            read("{endpoint: 'http://c:4318', sampleRatio: 1, slow: 250ms}").expect("a configuration");
        assert_eq!((config.endpoint.as_deref(), config.sample_ratio), (Some("http://c:4318"), Some(1.0)));
        assert_eq!(config.slow(), Duration::from_millis(250));
    }

    #[test]
    fn a_wrong_member_is_named_with_a_remedy() {
        for (text, part) in [
            ("endpoint: 'c:4318'", "tracing.endpoint: \"c:4318\" is not a URL with http or https; write"),
            ("sampleRatio: 2", "tracing.sampleRatio: 2 is not a ratio; write a number from 0 to 1"),
            ("slow: soon", "tracing.slow: \"soon\" is not a duration; write one such as"),
            ("ratio: 1", "ratio"),
        ] {
            let error = read(text).expect_err(text);
            assert!(error.contains(part), "{error}");
        }
    }
}
