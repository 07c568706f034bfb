//! The flag of `run` and `dev` for recordings.

use std::path::PathBuf;

use clap::Args;
use pilothouse_controller::recording::{RecordingOptions, SecretMode};

#[derive(Debug, Default, Args)]
pub(crate) struct RecordFlags {
    /// Record the last reconciles of each plugin in this directory, for `sim --recording`. `last` is how many, by default 1000; `secrets=plain` records the values of Secrets as they are,
    /// not as hashes.
    #[arg(
        long,
        env = "PILOTHOUSE_RECORD",
        value_name = "DIR[,last=N][,secrets=hashed|plain]",
        value_parser = parse_recording
    )]
    pub(crate) record: Option<RecordingOptions>,
}

/// Parses a directory and its options, separated by commas.
fn parse_recording(text: &str) -> Result<RecordingOptions, String> {
    let mut parts = text.split(',');
    let directory = PathBuf::from(parts.next().unwrap_or_default());
    if directory.as_os_str().is_empty() {
        return Err("write a directory before the options: DIR,last=100".to_owned());
    }
    let mut options =
        RecordingOptions { directory, last: RecordingOptions::DEFAULT_LAST, secrets: SecretMode::Hashed };
    for part in parts {
        match part.split_once('=') {
            Some(("last", number)) => options.last = parse_last(number)?,
            Some(("secrets", "hashed")) => options.secrets = SecretMode::Hashed,
            Some(("secrets", "plain")) => options.secrets = SecretMode::Plain,
            _ => {
                return Err(format!(
                    "unknown option {part:?}: write last=N, secrets=hashed or secrets=plain"
                ));
            }
        }
    }
    Ok(options)
}

fn parse_last(number: &str) -> Result<u64, String> {
    match number.parse() {
        Ok(last @ 1..=RecordingOptions::MAX_LAST) => Ok(last),
        _ => Err(format!("last={number}: write a number from 1 to {}", RecordingOptions::MAX_LAST)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_follow_the_directory() {
        let parse = |text: &str| {
            let options = parse_recording(text).expect(text);
            (options.directory.display().to_string(), options.last, options.secrets)
        };
        assert_eq!(parse("dir"), ("dir".to_owned(), 1_000, SecretMode::Hashed));
        assert_eq!(parse("a/b,last=5"), ("a/b".to_owned(), 5, SecretMode::Hashed));
        assert_eq!(parse("dir,secrets=plain,last=1"), ("dir".to_owned(), 1, SecretMode::Plain));
    }

    #[test]
    fn mistakes_are_refused_with_what_is_allowed() {
        for (text, expected) in [
            ("", "write a directory"),
            (",last=1", "write a directory"),
            ("dir,last=0", "from 1 to 1000000"),
            ("dir,last=1000001", "from 1 to 1000000"),
            ("dir,last=many", "last=many: write a number"),
            ("dir,secrets=none", "unknown option \"secrets=none\""),
            ("dir,first", "unknown option \"first\""),
        ] {
            let error = parse_recording(text).expect_err(text);
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
