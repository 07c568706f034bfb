//! Flags and values that several commands share.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use pilothouse_controller::{Compression, GrantMode};
use pilothouse_plugin::Compiler;
use serde::Deserialize;

use crate::CommandError;

/// The DNS names that the servers accept in a request's `Host` header.
#[derive(Debug, Args)]
pub(crate) struct AllowedHosts {
    /// Comma-separated DNS names to accept in the Host header. IP addresses and localhost are always accepted.
    #[arg(
        long,
        env = "PILOTHOUSE_ALLOWED_HOSTS",
        value_name = "NAMES",
        value_delimiter = ',',
        value_parser = parse_host
    )]
    pub(crate) allowed_hosts: Vec<String>,
}

/// Parses a DNS name without scheme or port.
fn parse_host(text: &str) -> Result<String, String> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    if text.is_empty() || !text.bytes().all(is_allowed) {
        return Err("expected a DNS name such as pilothouse.example.com, without scheme or port".to_owned());
    }
    Ok(text.to_owned())
}

#[derive(Debug, Args)]
pub(crate) struct ServerUrl {
    /// URL of the running host: the address of its --listen.
    #[arg(long, env = "PILOTHOUSE_SERVER", default_value = "http://127.0.0.1:9464", value_name = "URL")]
    pub(crate) server: String,
}

#[derive(Debug, Args)]
pub(crate) struct CacheFlags {
    /// Directory in which to cache compiled plugins. By default, `pilothouse` in $XDG_CACHE_HOME or ~/.cache.
    #[arg(long, env = "PILOTHOUSE_CACHE_DIR", value_name = "DIR")]
    pub(crate) cache_dir: Option<PathBuf>,
    /// Compression of cached objects in memory. Overrides `cache.compression` of --config.
    #[arg(long, env = "PILOTHOUSE_CACHE_COMPRESSION", value_enum, value_name = "MODE")]
    pub(crate) cache_compression: Option<CacheCompression>,
}

/// Default grants: what a plugin may access when its sidecar does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DefaultGrants {
    /// Everything that its descriptor declares, except HTTP requests.
    Declared,
    /// Nothing.
    Explicit,
}

/// Who may read the status port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AuthMode {
    /// Everyone who reaches it.
    None,
    /// Clients with a token of a user whom the API server allows to get the path (TokenReview, SubjectAccessReview).
    Kubernetes,
}

impl From<DefaultGrants> for GrantMode {
    fn from(grants: DefaultGrants) -> Self {
        match grants {
            DefaultGrants::Declared => Self::Declared,
            DefaultGrants::Explicit => Self::Explicit,
        }
    }
}

/// Compression of cached objects in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ValueEnum)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub(crate) enum CacheCompression {
    /// No compression.
    #[default]
    None,
    /// zstd with a dictionary for each watch.
    Zstd,
}

impl CacheCompression {
    /// Returns how the host compresses its caches; `None` for not at all.
    ///
    /// # Errors
    /// Returns a usage error if this build cannot compress them.
    pub(crate) fn options(self) -> Result<Option<Compression>, CommandError> {
        match self {
            Self::None => Ok(None),
            #[cfg(feature = "compressed-cache")]
            Self::Zstd => Ok(Some(Compression::default())),
            #[cfg(not(feature = "compressed-cache"))]
            Self::Zstd => {
                Err(CommandError::left_out("the compression `zstd` of cached objects", "compressed-cache"))
            }
        }
    }
}

/// Compiler of plugins to machine code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompilerMode {
    /// Compile in the least time, to slower code.
    Quick,
    /// Compile to the fastest code, as `run` does.
    Optimizing,
}

impl CompilerMode {
    /// Returns the name that the command line uses.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Optimizing => "optimizing",
        }
    }
}

impl From<CompilerMode> for Compiler {
    fn from(mode: CompilerMode) -> Self {
        match mode {
            CompilerMode::Quick => Self::QUICKEST,
            CompilerMode::Optimizing => Self::Cranelift,
        }
    }
}

/// Hidden flags for the end-to-end tests.
#[derive(Debug, Args)]
pub(crate) struct TestHooks {
    /// Do not requeue every object after a reload. Otherwise the requeue would mask events that a reload loses.
    #[arg(long, env = "PILOTHOUSE_TEST_NO_REQUEUE_ON_RELOAD", hide = true)]
    pub(crate) test_no_requeue_on_reload: bool,
    /// Interval in milliseconds at which the permissions of service accounts are reviewed.
    #[arg(long, env = "PILOTHOUSE_TEST_REVIEW_EVERY", value_name = "MILLISECONDS", hide = true)]
    pub(crate) test_review_every: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compiler_modes_have_the_names_that_the_command_line_accepts() {
        for mode in CompilerMode::value_variants() {
            assert_eq!(CompilerMode::from_str(mode.name(), false), Ok(*mode));
        }
    }

    #[test]
    fn zstd_needs_the_feature_compressed_cache() {
        assert!(matches!(CacheCompression::None.options(), Ok(None)));
        let zstd = CacheCompression::Zstd.options();
        if cfg!(feature = "compressed-cache") {
            assert!(matches!(zstd, Ok(Some(_))), "{zstd:?}");
        } else {
            let Err(CommandError::Usage(text)) = &zstd else { panic!("{zstd:?}") };
            assert!(text.contains("`--features compressed-cache`"), "{text}");
        }
    }

    #[test]
    fn allowed_hosts_are_names_without_scheme_port_or_wildcard() {
        assert_eq!(parse_host("host.example"), Ok("host.example".to_owned()));
        for bad in ["", "http://host.example", "host.example:80", "*", "a/b"] {
            assert!(parse_host(bad).is_err(), "{bad}");
        }
    }
}
