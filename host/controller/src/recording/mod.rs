//! Records reconciles, and replays recordings.
//!
//! ```text
//! guest's thread: Recorder ─▶ bounded channel ─▶ task: canonical JSON, Secrets hashed ─▶ files of a ring, per plugin
//! files ─▶ RecordingReader ─▶ Replayer: each reconcile in a new instance, whose host answers from the recording
//! ```
//!
//! A recorded reconcile is complete or absent: when the writer cannot keep up, whole reconciles are dropped and counted.

mod difference;
mod format;
mod metrics;
mod nesting;
mod reader;
mod recorded_host;
mod recorder;
mod replay;
mod script;
mod secrets;
mod segments;
mod waiting;
mod writer;
mod writing_task;

use std::path::PathBuf;

pub use difference::{ValueDifference, first_difference};
pub use format::{FORMAT, RecordedCall, RecordedReconcile, RecordingHead, SecretMode};
pub(crate) use metrics::RecordingMetrics;
pub use reader::{ReadError, RecordingReader};
pub use recorder::Recorder;
pub use replay::{Difference, ReplayError, Replayed, Replayer, SkipReason, Step};
pub use writing_task::WritingTask;

use crate::{Environment, Metrics};

/// What is recorded, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordingOptions {
    /// The directory of the recordings. Each plugin has a directory in it. It is created if it does not exist.
    pub directory: PathBuf,
    /// How many reconciles of each plugin are kept at least, if they fit into the size of a recording.
    pub last: u64,
    /// How the values of Secrets are recorded.
    pub secrets: SecretMode,
}

impl RecordingOptions {
    /// The default of [`last`](Self::last).
    pub const DEFAULT_LAST: u64 = 1_000;
    /// The maximum of [`last`](Self::last).
    pub const MAX_LAST: u64 = 1_000_000;
}

/// Starts to record. Returns the argument of [`PluginHost::set_recorder_factory`](crate::PluginHost::set_recorder_factory), and the task that
/// writes. Must be called within a tokio runtime.
///
/// # Errors
/// Returns an error if the directory cannot be created.
pub fn start_recording(
    options: &RecordingOptions,
    environment: &Environment,
    metrics: &Metrics,
) -> std::io::Result<(Recorder, WritingTask)> {
    writer::create_directory(&options.directory)?;
    let (recorder, captured) = Recorder::new(options.secrets, environment.clock, metrics.recording.clone());
    let mut key = [0; 32];
    environment.randomness.fill(&mut key);
    Ok((recorder, WritingTask::start(options, key, captured, metrics.recording.clone())))
}
