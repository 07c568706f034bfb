//! Traces for an OpenTelemetry collector: from the tracer of the host, through a bounded queue, to the exporter.

mod config;
mod convert;
mod export_task;

use pilothouse_controller::{Environment, Metrics, TraceOptions, Tracer};
use pilothouse_otlp::{Exporter, Settings, SettingsError};

use crate::CommandError;
use crate::cli::traces::TraceFlags;
pub(crate) use config::TracingConfig;
pub(crate) use export_task::ExportTask;

/// Where traces are sent, and which.
pub(crate) struct TraceSettings {
    exporter: Exporter,
    options: TraceOptions,
}

impl TraceSettings {
    /// Returns the settings of the flags, of the configuration file and of the environment, in the order of their precedence; `None` if they
    /// name no collector. Reads certificates from files.
    ///
    /// # Errors
    /// Returns a usage error that names the setting that cannot be used.
    pub(crate) fn resolve(flags: &TraceFlags, config: &TracingConfig) -> Result<Option<Self>, CommandError> {
        let environment = |name: &str| std::env::var(name).ok();
        Self::of(flags, config, &environment).map_err(|error| CommandError::Usage(error.to_string()))
    }

    fn of(
        flags: &TraceFlags,
        config: &TracingConfig,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, SettingsError> {
        let endpoint = flags.trace_endpoint.as_deref().or(config.endpoint.as_deref());
        let ratio = flags.trace_ratio.or(config.sample_ratio);
        let Some(settings) = Settings::resolve(endpoint, ratio, environment)? else { return Ok(None) };
        let options = TraceOptions { ratio: settings.ratio, slow: config.slow() };
        let version = env!("CARGO_PKG_VERSION");
        let mut settings = settings
            .with_default_attribute("service.name", "pilothouse".to_owned())
            .with_default_attribute("service.version", version.to_owned());
        // In a pod, its name.
        for (variable, attribute) in
            [("HOSTNAME", "service.instance.id"), ("POD_NAMESPACE", "k8s.namespace.name")]
        {
            if let Some(value) = environment(variable).filter(|value| !value.is_empty()) {
                settings = settings.with_default_attribute(attribute, value);
            }
        }
        tracing::info!(
            "traces are sent to {}: {} % of all reconciles, and those that fail or take {:?} or longer",
            settings.endpoint_text(),
            options.ratio * 100.0,
            options.slow
        );
        let exporter = Exporter::new(&settings, "pilothouse", version)?;
        Ok(Some(Self { exporter, options }))
    }

    /// Starts to send spans. Returns the tracer that records them. Must be called within a tokio runtime.
    pub(crate) fn start(self, metrics: &Metrics) -> (Tracer, ExportTask) {
        let (tracer, spans) = Tracer::new(&self.options, metrics, &Environment::default());
        (tracer, ExportTask::start(self.exporter, spans))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn flags_have_precedence_over_the_file_and_that_over_the_environment() {
        let environment = |name: &str| match name {
            "OTEL_EXPORTER_OTLP_ENDPOINT" => Some("http://environment:4318".to_owned()),
            "OTEL_TRACES_SAMPLER_ARG" => Some("0.1".to_owned()),
            _ => None,
        };
        let ratio = |flag: Option<f64>, file: Option<f64>| {
            let flags = TraceFlags { trace_endpoint: None, trace_ratio: flag };
            let config = TracingConfig { sample_ratio: file, ..TracingConfig::default() };
            let settings = TraceSettings::of(&flags, &config, &environment).expect("settings");
            let options = settings.expect("an endpoint").options;
            assert_eq!(options.slow, Duration::from_secs(1));
            options.ratio
        };
        let found = [ratio(Some(0.3), Some(0.2)), ratio(None, Some(0.2)), ratio(None, None)];
        let expected = [0.3, 0.2, 0.1];
        assert!(found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-9));
        let none = TraceSettings::of(&TraceFlags::default(), &TracingConfig::default(), &|_| None);
        assert!(none.expect("settings").is_none());
        let flags = TraceFlags { trace_endpoint: Some("collector".to_owned()), trace_ratio: None };
        let wrong = TraceSettings::of(&flags, &TracingConfig::default(), &|_| None).err();
        assert!(wrong.expect("an error").to_string().contains("is not a URL with http or https"));
    }
}
