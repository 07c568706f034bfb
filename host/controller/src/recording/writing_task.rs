//! The task that writes recordings. It alone waits for the disk, and limits the time that it computes.

use std::time::Duration;

use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::RecordingOptions;
use super::metrics::RecordingMetrics;
use super::recorder::{CapturedReconcile, CapturedReconciles};
use super::writer::{LineOutcome, RecordingWriter};

/// The maximum number of reconciles that are written between two pauses.
const BATCH: usize = 32;
/// The writer pauses for this many times the time that a batch took, so that it uses at most 5 % of one processor.
const PAUSES_PER_BATCH: u32 = 19;
/// How long the task may take to write what is waiting when the host stops.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);
/// How often a failure is logged.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// The task that writes recordings.
pub struct WritingTask {
    task: JoinHandle<()>,
    stop: CancellationToken,
}

impl WritingTask {
    pub(super) fn start(
        options: &RecordingOptions,
        key: [u8; 32],
        captured: CapturedReconciles,
        metrics: RecordingMetrics,
    ) -> Self {
        let output = Output { writer: RecordingWriter::new(options, key), metrics, last_log: None };
        let stop = CancellationToken::new();
        Self { task: tokio::spawn(run(captured, output, stop.clone())), stop }
    }

    /// Writes what is waiting, for a short time, and ends the task.
    pub async fn finish(mut self) {
        self.stop.cancel();
        if timeout(FLUSH_TIMEOUT, &mut self.task).await.is_err() {
            self.task.abort();
        }
    }
}

/// Writes reconciles until there are no more, or until `stop`; then writes those that are waiting.
async fn run(mut captured: CapturedReconciles, mut output: Output, stop: CancellationToken) {
    loop {
        let mut batch = Vec::new();
        tokio::select! {
            biased;
            () = stop.cancelled(), if !captured.receiver.is_closed() => {
                captured.receiver.close();
                continue;
            }
            _ = captured.receiver.recv_many(&mut batch, BATCH) => {}
        }
        if batch.is_empty() {
            return;
        }
        let taken = spawn_blocking(move || {
            let busy = output.write_all(&batch);
            (output, batch, busy)
        });
        // An error means that the writer panicked, which a panic hook has logged, or that the runtime is shutting down.
        let Ok((returned, written, busy)) = taken.await else { return };
        output = returned;
        captured.forget(&written);
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = sleep(pause_after(busy)) => {}
        }
    }
}

/// Returns how long the writer pauses after it was busy for this long.
fn pause_after(busy: Duration) -> Duration {
    busy.saturating_mul(PAUSES_PER_BATCH)
}

/// The files, and the counts of what is written to them.
struct Output {
    writer: RecordingWriter,
    metrics: RecordingMetrics,
    /// When a failure was logged.
    last_log: Option<Instant>,
}

impl Output {
    /// Writes the reconciles. Returns how long that took.
    fn write_all(&mut self, batch: &[CapturedReconcile]) -> Duration {
        let started = Instant::now();
        for captured in batch {
            match self.writer.write(captured) {
                Ok(LineOutcome::Written { bytes, not_removed }) => {
                    self.metrics.recorded.inc();
                    self.metrics.bytes.inc_by(bytes);
                    if let Some(error) = not_removed {
                        self.log(
                            &captured.version.plugin,
                            "an old file of the recording was not removed",
                            &error,
                        );
                    }
                }
                Ok(LineOutcome::TooLarge) => {
                    self.metrics.dropped_by_size.inc();
                }
                Err(error) => {
                    self.metrics.dropped_by_disk.inc();
                    self.log(&captured.version.plugin, "a reconcile was not recorded", &error);
                }
            }
        }
        started.elapsed()
    }

    fn log(&mut self, plugin: &str, what: &str, error: &std::io::Error) {
        if self.last_log.is_none_or(|last| last.elapsed() >= LOG_INTERVAL) {
            self.last_log = Some(Instant::now());
            tracing::warn!(
                plugin,
                "{what}: {error}; check the free space and the permissions of the directory of --record"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::registry::Registry;

    use super::*;
    use crate::WallClock;
    use crate::recording::recorder::tests::record;
    use crate::recording::{Recorder, SecretMode};

    #[test]
    fn the_writer_computes_for_a_twentieth_of_the_time() {
        let busy = Duration::from_millis(10);
        let share = busy.as_secs_f64() / (busy + pause_after(busy)).as_secs_f64();
        assert!((share - 0.05).abs() < 1e-9, "{share}");
    }

    #[tokio::test]
    async fn what_is_waiting_is_written_when_the_host_stops() {
        let folder = tempfile::tempdir().expect("a folder");
        let directory = folder.path().to_owned();
        let metrics = RecordingMetrics::register(&mut Registry::default());
        let (recorder, captured) = Recorder::new(SecretMode::Plain, WallClock::default(), metrics.clone());
        for name in ["a", "b", "c"] {
            record(&recorder, "p", name, Vec::new());
        }
        let options = RecordingOptions { directory, last: 10, secrets: SecretMode::Plain };
        let task = WritingTask::start(&options, [7; 32], captured, metrics.clone());
        task.finish().await;
        assert_eq!(metrics.recorded.get(), 3);
        let file = folder.path().join("p").join("00000001.jsonl");
        let bytes = std::fs::metadata(file).expect("a file").len();
        assert_eq!(metrics.bytes.get(), bytes);
    }
}
