//! Sets up logging to standard error.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use crate::cli::LogFormat;

/// Validates the value of `--log-level` and returns it unchanged.
///
/// # Errors
/// Errors if the value is neither a level nor a list of directives. Clap shows the text.
pub(crate) fn parse_filter(text: &str) -> Result<String, String> {
    // `EnvFilter` would take a single word that is not a level for a target name and silence everything else.
    if !text.contains(['=', ',', '[']) && text.parse::<LevelFilter>().is_err() {
        return Err(
            "not a log level; use error, warn, info, debug, trace, or directives such as info,plugin=debug"
                .into(),
        );
    }
    EnvFilter::try_new(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

/// Installs the global log subscriber.
pub(crate) fn start(format: LogFormat, filter: &str) {
    // kube_client logs each failed request without its purpose. The callers log the same errors with it.
    let filter =
        if filter.contains("kube_client") { filter.to_owned() } else { format!("{filter},kube_client=off") };
    let builder =
        tracing_subscriber::fmt().with_env_filter(EnvFilter::new(filter)).with_writer(std::io::stderr);
    match format {
        LogFormat::Text => builder.with_ansi(std::io::stderr().is_terminal()).init(),
        LogFormat::Json => builder.json().flatten_event(true).init(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_that_would_silence_everything_by_mistake_are_rejected() {
        for good in ["info", "DEBUG", "off", "info,plugin=debug", "pilothouse_informer=trace"] {
            assert_eq!(parse_filter(good).as_deref(), Ok(good));
        }
        for bad in ["inf", "loud", "a=b=c", "plugin=loud"] {
            assert!(parse_filter(bad).is_err(), "{bad}");
        }
    }
}
