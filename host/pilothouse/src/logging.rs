//! Log lines on standard error.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use crate::cli::LogFormat;

/// Reads a `--log-level`.
///
/// # Errors
/// What is wrong with it, for the command line to say.
pub(crate) fn parse_filter(text: &str) -> Result<String, String> {
    // A lone word that is no level would be taken for the name of a module, and mute everything else.
    if !text.contains(['=', ',', '[']) && text.parse::<LevelFilter>().is_err() {
        return Err(
            "not a level; write error, warn, info, debug, trace, or directives such as info,plugin=debug"
                .into(),
        );
    }
    EnvFilter::try_new(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

/// Starts logging.
pub(crate) fn start(format: LogFormat, filter: &str) {
    // What kube's client says of a failed request, we say ourselves, with what it was for.
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
    fn a_filter_that_would_mute_by_mistake_is_refused() {
        for good in ["info", "DEBUG", "off", "info,plugin=debug", "pilothouse_informer=trace"] {
            assert_eq!(parse_filter(good).as_deref(), Ok(good));
        }
        for bad in ["inf", "loud", "a=b=c", "plugin=loud"] {
            assert!(parse_filter(bad).is_err(), "{bad}");
        }
    }
}
