//! The flags of `run` and `dev` for traces.

use clap::Args;

#[derive(Debug, Default, Args)]
pub(crate) struct TraceFlags {
    /// Send traces of reconciles to this OpenTelemetry collector, by OTLP over HTTP. Overrides `tracing.endpoint` of --config and OTEL_EXPORTER_OTLP_ENDPOINT.
    #[arg(long, env = "PILOTHOUSE_TRACE_ENDPOINT", value_name = "URL")]
    pub(crate) trace_endpoint: Option<String>,
    /// Share of the reconciles whose traces are sent, from 0 to 1, besides those that fail or are slow. By default, 0.01. Overrides `tracing.sampleRatio` of --config and
    /// OTEL_TRACES_SAMPLER_ARG.
    #[arg(long, env = "PILOTHOUSE_TRACE_RATIO", value_name = "RATIO", value_parser = parse_ratio)]
    pub(crate) trace_ratio: Option<f64>,
}

fn parse_ratio(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(ratio) if (0.0..=1.0).contains(&ratio) => Ok(ratio),
        _ => Err("write a number from 0 to 1".to_owned()),
    }
}
