//! The spans of the latest writes, by the version of the object that each has produced.

use std::collections::VecDeque;
use std::hash::BuildHasher;

use parking_lot::Mutex;
use pilothouse_model::Notification;
use pilothouse_model::hash::{HashMap, HashState};

use super::decision::Decision;
use super::ids::SpanContext;
use crate::client::WriteOutcome;

/// The number of writes that are remembered, of all plugins together. Few suffice, because the event of a write comes soon after it.
const MAX_WRITES: usize = 4096;

/// The span of a write.
#[derive(Clone, Debug)]
pub(super) struct WriteSpan {
    pub(super) context: SpanContext,
    /// The decision about the reconcile that sent the write.
    pub(super) decision: Decision,
    /// How many reconciles in a row were sampled because of the one before, that one included.
    pub(super) hops: u8,
}

/// The spans of the latest writes of all plugins.
#[derive(Default)]
pub(super) struct WrittenVersions {
    hasher: HashState,
    log: Mutex<Log>,
}

#[derive(Default)]
struct Log {
    spans: HashMap<u64, WriteSpan>,
    order: VecDeque<u64>,
}

impl WrittenVersions {
    /// Remembers the version that a write has produced. Does nothing for a response that is not the state of an object.
    pub(super) fn record(&self, written: &WriteOutcome, span: WriteSpan) {
        let version = match written {
            WriteOutcome::Object(_, object) => self.version(object.uid(), object.resource_version()),
            WriteOutcome::Finalized(_, object) => self.version(object.uid(), ""),
            WriteOutcome::Deleted(_, _, uid) => self.version(uid, ""),
            WriteOutcome::Response(..) => return,
        };
        let mut log = self.log.lock();
        if log.spans.insert(version, span).is_none() {
            log.order.push_back(version);
            if log.order.len() > MAX_WRITES
                && let Some(oldest) = log.order.pop_front()
            {
                log.spans.remove(&oldest);
            }
        }
    }

    /// Returns the identifier of a notification's version. Two versions have the same one with a negligible probability.
    pub(super) fn version_of(&self, notification: &Notification) -> u64 {
        let object = notification.object();
        match notification {
            Notification::Deleted { .. } => self.version(object.uid(), ""),
            _ => self.version(object.uid(), object.resource_version()),
        }
    }

    /// Returns the span of the write that has produced a version; `None` if no plugin wrote it, or if that was too long ago.
    pub(super) fn find(&self, version: u64) -> Option<WriteSpan> {
        self.log.lock().spans.get(&version).cloned()
    }

    fn version(&self, uid: &str, version: &str) -> u64 {
        self.hasher.hash_one((uid, version))
    }
}
