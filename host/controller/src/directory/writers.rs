//! Which files are still being written, as far as the file system tells. Pure.
//!
//! A file that is rewritten in place looks settled whenever its writer pauses. Where the kernel tells of writes and of
//! the close after them, such a file is not taken before it is closed.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use notify::event::{AccessKind, AccessMode, ModifyKind};
use notify::{Event, EventKind};
use tokio::time::Instant;

/// A writer that has not written for this long is not waited for: its close may have been missed.
const PATIENCE: Duration = Duration::from_secs(10);

/// Other systems do not tell of closes.
const CLOSES_ARE_TOLD: bool = cfg!(any(target_os = "linux", target_os = "android"));

/// The files of one directory that were written to and not closed since, with the time of the last write.
#[derive(Debug, Default)]
pub(crate) struct Writers {
    open: BTreeMap<OsString, Instant>,
}

impl Writers {
    /// Takes in what the file system told.
    pub(crate) fn told(&mut self, event: &notify::Result<Event>, now: Instant) {
        let Some(event) = event.as_ref().ok().filter(|event| !event.need_rescan()) else {
            // Events were missed, perhaps a close.
            return self.open.clear();
        };
        let names = event.paths.iter().filter_map(|path| path.file_name());
        match event.kind {
            EventKind::Modify(ModifyKind::Data(_)) if CLOSES_ARE_TOLD => {
                self.open.extend(names.map(|name| (name.to_owned(), now)));
            }
            EventKind::Access(AccessKind::Close(AccessMode::Write))
            | EventKind::Modify(ModifyKind::Name(_))
            | EventKind::Remove(_) => names.for_each(|name| {
                self.open.remove(name);
            }),
            _ => {}
        }
    }

    /// Whether somebody writes the file.
    pub(crate) fn has(&self, path: &Path, now: Instant) -> bool {
        let last = path.file_name().and_then(|name| self.open.get(name));
        last.is_some_and(|last| now.saturating_duration_since(*last) < PATIENCE)
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use notify::event::{DataChange, RemoveKind, RenameMode};

    use super::*;

    const WRITE: EventKind = EventKind::Modify(ModifyKind::Data(DataChange::Any));
    const CLOSE: EventKind = EventKind::Access(AccessKind::Close(AccessMode::Write));

    fn told(kinds: &[EventKind], now: Instant) -> Writers {
        let mut writers = Writers::default();
        for kind in kinds {
            writers.told(&Ok(Event::new(*kind).add_path("/plugins/a.wasm".into())), now);
        }
        writers
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_is_written_from_the_first_write_to_the_close() {
        let (now, file) = (Instant::now(), Path::new("plugins/a.wasm"));
        assert!(!told(&[], now).has(file, now));
        assert!(told(&[WRITE, WRITE], now).has(file, now));
        assert!(!told(&[WRITE], now).has(Path::new("b.wasm"), now));
        let ends =
            [CLOSE, EventKind::Remove(RemoveKind::File), EventKind::Modify(ModifyKind::Name(RenameMode::To))];
        for end in ends {
            assert!(!told(&[WRITE, end], now).has(file, now), "{end:?}");
        }
        assert!(!told(&[WRITE], now).has(file, now + PATIENCE), "a close that was missed");
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_missed_may_have_been_the_close() {
        let now = Instant::now();
        let mut writers = told(&[WRITE], now);
        writers.told(&Err(notify::Error::generic("overflow")), now);
        assert!(!writers.has(Path::new("a.wasm"), now));
    }
}
