//! Tracks which files are still being written, from file system notifications. Pure.
//!
//! A file that is rewritten in place looks settled whenever its writer pauses. If the kernel reports writes and the close after them, such a
//! file is not loaded before it is closed.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use notify::event::{AccessKind, AccessMode, ModifyKind};
use notify::{Event, EventKind};
use tokio::time::Instant;

/// After this time without a write, a file counts as closed, because the notification of the close may have been missed.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// Whether the system reports closes.
const REPORTS_CLOSES: bool = cfg!(any(target_os = "linux", target_os = "android"));

/// The files of one directory that were written and not closed since.
#[derive(Debug, Default)]
pub(crate) struct Writers {
    /// The time of the last write, by file name.
    last_writes: BTreeMap<OsString, Instant>,
}

impl Writers {
    /// Processes a notification.
    pub(crate) fn observe(&mut self, event: &notify::Result<Event>, now: Instant) {
        let Some(event) = event.as_ref().ok().filter(|event| !event.need_rescan()) else {
            // Notifications were missed, perhaps that of a close.
            return self.last_writes.clear();
        };
        let names = event.paths.iter().filter_map(|path| path.file_name());
        match event.kind {
            EventKind::Modify(ModifyKind::Data(_)) if REPORTS_CLOSES => {
                self.last_writes.extend(names.map(|name| (name.to_owned(), now)));
            }
            EventKind::Access(AccessKind::Close(AccessMode::Write))
            | EventKind::Modify(ModifyKind::Name(_))
            | EventKind::Remove(_) => names.for_each(|name| {
                self.last_writes.remove(name);
            }),
            _ => {}
        }
    }

    /// Whether the file is still being written.
    pub(crate) fn is_writing(&self, path: &Path, now: Instant) -> bool {
        let last = path.file_name().and_then(|name| self.last_writes.get(name));
        last.is_some_and(|last| now.saturating_duration_since(*last) < WRITE_TIMEOUT)
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use notify::event::{DataChange, RemoveKind, RenameMode};

    use super::*;

    const WRITE: EventKind = EventKind::Modify(ModifyKind::Data(DataChange::Any));
    const CLOSE: EventKind = EventKind::Access(AccessKind::Close(AccessMode::Write));

    fn after_events(kinds: &[EventKind], now: Instant) -> Writers {
        let mut writers = Writers::default();
        for kind in kinds {
            writers.observe(&Ok(Event::new(*kind).add_path("/plugins/a.wasm".into())), now);
        }
        writers
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_is_being_written_from_the_first_write_to_the_close() {
        let (now, file) = (Instant::now(), Path::new("plugins/a.wasm"));
        assert!(!after_events(&[], now).is_writing(file, now));
        assert!(after_events(&[WRITE, WRITE], now).is_writing(file, now));
        assert!(!after_events(&[WRITE], now).is_writing(Path::new("b.wasm"), now));
        let ends =
            [CLOSE, EventKind::Remove(RemoveKind::File), EventKind::Modify(ModifyKind::Name(RenameMode::To))];
        for end in ends {
            assert!(!after_events(&[WRITE, end], now).is_writing(file, now), "{end:?}");
        }
        let later = now + WRITE_TIMEOUT;
        assert!(!after_events(&[WRITE], now).is_writing(file, later), "a close that was missed");
    }

    #[tokio::test(start_paused = true)]
    async fn missed_notifications_count_as_a_close() {
        let now = Instant::now();
        let mut writers = after_events(&[WRITE], now);
        writers.observe(&Err(notify::Error::generic("overflow")), now);
        assert!(!writers.is_writing(Path::new("a.wasm"), now));
    }
}
