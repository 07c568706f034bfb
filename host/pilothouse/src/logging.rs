//! Log lines on standard error.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::cli::LogFormat;

/// Starts logging. A filter that cannot be read is said and replaced by `info`: logs are what would explain it.
pub(crate) fn start(format: LogFormat, filter: &str) {
    let (filter, problem) = match EnvFilter::try_new(filter) {
        Ok(filter) => (filter, None),
        Err(error) => (EnvFilter::new("info"), Some(error)),
    };
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        LogFormat::Text => builder.with_ansi(std::io::stderr().is_terminal()).init(),
        LogFormat::Json => builder.json().flatten_event(true).init(),
    }
    if let Some(problem) = problem {
        tracing::warn!("--log-level: {problem}; using \"info\"");
    }
}
