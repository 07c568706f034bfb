//! `pilothouse sim --recording`: replays recorded reconciles with a plugin, up to the first that differs.

mod files;
mod plugin;
mod report;

use std::io;
use std::path::Path;

use pilothouse_controller::recording::{
    ReadError, RecordingHead, RecordingReader, Replayed, Replayer, SkipReason,
};

use crate::{CommandError, CommandResult, output, shutdown};
pub(crate) use plugin::Plugin;

/// Replays the recording at `recording`, a file or the directory of one plugin, with the plugin's file. Succeeds if all reconciles are equal.
///
/// # Errors
/// Returns a failure at the first reconcile that differs, and a usage error if the recording or the plugin cannot be used.
pub(crate) async fn run(recording: &Path, mut plugin: Plugin) -> CommandResult {
    let stop = shutdown::on_signal()?;
    let mut counts = Counts::default();
    let mut current: Option<(RecordingHead, Replayer)> = None;
    for file in files::find(recording)? {
        let unreadable = |error: ReadError| CommandError::Usage(format!("{}: {error}", file.display()));
        // The host may be writing to the directory, or may have been killed.
        let is_named = file == *recording;
        let mut reader = match RecordingReader::open(&file) {
            Ok(reader) => reader,
            Err(error) => match reason_to_skip(&error).filter(|_| !is_named) {
                Some(reason) => {
                    output::print_line(format!("{}: skipped, because {reason}", file.display()));
                    continue;
                }
                None => return Err(unreadable(error)),
            },
        };
        let head = reader.head().clone();
        let replayer = match current.take() {
            Some((last, replayer)) if last.config == head.config => replayer,
            _ => plugin.load(&head).await?,
        };
        output::print_line(report::heading(&file, &head, replayer.digest()));
        while let Some(reconcile) = reader.next_reconcile().map_err(unreadable)? {
            if stop.is_cancelled() {
                return Err(CommandError::Failure(format!("interrupted: {counts}")));
            }
            let place = format!("{}:{}", file.display(), reader.line());
            let replayed = replayer
                .replay(&head, &reconcile)
                .await
                .map_err(|error| CommandError::Usage(format!("{place}: {error}")))?;
            match replayed {
                Replayed::Equal { uncompared_values } => {
                    counts.equal += 1;
                    counts.uncompared_values += uncompared_values;
                }
                Replayed::Skipped(reason) => counts.skip(reason),
                Replayed::Different(difference) => {
                    for line in report::lines(&place, &reconcile, &difference) {
                        output::print_line(line);
                    }
                    return Err(CommandError::Failure(format!("{place} differs: {counts}")));
                }
            }
        }
        current = Some((head, replayer));
    }
    if counts.equal == 0 {
        let path = recording.display();
        return Err(CommandError::Usage(format!(
            "{path}: nothing to compare: {counts}; record reconciles that send no HTTP requests"
        )));
    }
    output::print_line(counts);
    Ok(())
}

/// Returns why a file of a directory is not replayed; `None` if the error is one of the whole recording.
fn reason_to_skip(error: &ReadError) -> Option<&'static str> {
    match error {
        ReadError::NoHead => Some("its first line is not complete"),
        ReadError::Io(error) if error.kind() == io::ErrorKind::NotFound => Some("it was removed meanwhile"),
        _ => None,
    }
}

/// How many reconciles were replayed.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    equal: u64,
    http: u64,
    abandoned: u64,
    /// Values of Secrets in the reconciles that are equal otherwise.
    uncompared_values: u64,
}

impl Counts {
    fn skip(&mut self, reason: SkipReason) {
        match reason {
            SkipReason::Http => self.http += 1,
            SkipReason::Abandoned => self.abandoned += 1,
        }
    }
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { equal, http, abandoned, uncompared_values } = self;
        write!(f, "{equal} reconciles are equal")?;
        if *http > 0 {
            write!(f, ", {http} with HTTP requests were not replayed")?;
        }
        if *abandoned > 0 {
            write!(f, ", {abandoned} were equal until a call without an answer")?;
        }
        if *uncompared_values > 0 {
            write!(
                f,
                ", {uncompared_values} values of Secrets were not compared, because the recording has only their hashes"
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incomplete_and_removed_files_are_skipped_and_others_are_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("00000001.jsonl");
        let reason = || RecordingReader::open(&file).err().map(|error| reason_to_skip(&error));
        assert_eq!(reason(), Some(Some("it was removed meanwhile")));
        for text in ["", "{\"format\":"] {
            std::fs::write(&file, text).expect("written");
            assert_eq!(reason(), Some(Some("its first line is not complete")), "{text:?}");
        }
        std::fs::write(&file, "{}\n").expect("written");
        assert_eq!(reason(), Some(None), "it is no recording");
    }

    #[test]
    fn the_summary_names_what_was_not_compared() {
        let mut counts = Counts { equal: 3, ..Counts::default() };
        assert_eq!(counts.to_string(), "3 reconciles are equal");
        counts.skip(SkipReason::Http);
        counts.skip(SkipReason::Abandoned);
        assert_eq!(
            counts.to_string(),
            "3 reconciles are equal, 1 with HTTP requests were not replayed, 1 were equal until a call without an answer"
        );
        let counts = Counts { equal: 3, uncompared_values: 2, ..Counts::default() };
        assert_eq!(
            counts.to_string(),
            "3 reconciles are equal, 2 values of Secrets were not compared, because the recording has only their hashes"
        );
    }
}
