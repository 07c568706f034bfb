//! What the journal stores about one key: records of three words, packed and unpacked without I/O.

use pilothouse_plugin::{Failure, Outcome, Reason};

use crate::stable_hash::fnv1a_32;

/// Something that happened to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JournalRecord {
    /// A change of a watched object.
    Event(JournalEvent),
    /// A reconcile.
    Reconcile(JournalReconcile),
    /// A write of a reconcile.
    Write(JournalWrite),
}

/// A change of a watched object, as the dispatcher saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JournalEvent {
    /// The object's resource version; 0 if it is not a number.
    pub(crate) version: u64,
    pub(crate) change: Reason,
    /// Whether the change queued the key. Otherwise the predicate was false.
    pub(crate) is_queued: bool,
    /// The [`watch_tag`] of the watch.
    pub(crate) watch: u16,
}

/// A reconcile that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JournalReconcile {
    pub(crate) microseconds: u32,
    /// Failed attempts before this one.
    pub(crate) attempt: u16,
    /// The reasons as bits, in the order of [`REASONS`].
    pub(crate) reasons: u8,
    pub(crate) outcome: ReconcileOutcome,
    /// The number of its exported trace, from 1 to 2²⁰; 0 if there is none.
    pub(crate) trace: u32,
}

/// How a reconcile ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReconcileOutcome {
    Done,
    RequeueAfter,
    /// It failed and is tried again.
    Retry,
    /// It failed and is not tried again.
    Terminal,
    /// The guest trapped or exceeded a limit; the key is tried again.
    Fault,
}

/// A write that was answered or given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JournalWrite {
    pub(crate) verb: WriteVerb,
    /// The HTTP status; 0 without a response.
    pub(crate) code: u16,
    /// The resource version of the result; 0 if there is none.
    pub(crate) version: u64,
    /// Whether the object has the name of the key.
    pub(crate) is_own_key: bool,
}

/// The verb of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteVerb {
    Create,
    Update,
    Patch,
    Delete,
}

/// All reasons, in the order of their bits.
pub(crate) const REASONS: [Reason; 8] = [
    Reason::Created,
    Reason::Updated,
    Reason::Deleted,
    Reason::Resync,
    Reason::Requeue,
    Reason::Retry,
    Reason::Startup,
    Reason::Other,
];
const OUTCOMES: [ReconcileOutcome; 5] = [
    ReconcileOutcome::Done,
    ReconcileOutcome::RequeueAfter,
    ReconcileOutcome::Retry,
    ReconcileOutcome::Terminal,
    ReconcileOutcome::Fault,
];
const VERBS: [WriteVerb; 4] = [WriteVerb::Create, WriteVerb::Update, WriteVerb::Patch, WriteVerb::Delete];

/// The number of bits of a record's detail.
pub(super) const DETAIL_BITS: u32 = 24;

/// The kinds of records; each has a ring of its own.
pub(super) const KINDS: usize = 3;

/// Returns a short hash of a watch's name, which a record stores instead of the name. FNV-1a, folded to 16 bits.
pub(crate) fn watch_tag(name: &str) -> u16 {
    let hash = fnv1a_32(name.as_bytes());
    let folded = (hash >> 16) ^ (hash & 0xffff);
    u16::try_from(folded).unwrap_or_default()
}

/// Returns the public name of a reason.
pub(crate) fn reason_name(reason: Reason) -> &'static str {
    match reason {
        Reason::Created => "created",
        Reason::Updated => "updated",
        Reason::Deleted => "deleted",
        Reason::Resync => "resync",
        Reason::Requeue => "requeue",
        Reason::Retry => "retry",
        Reason::Startup => "startup",
        Reason::Other => "other",
    }
}

/// Returns a set of reasons as bits.
pub(crate) fn reason_bits(reasons: &[Reason]) -> u8 {
    let bit = |reason: &Reason| REASONS.iter().position(|known| known == reason).map_or(0, |at| 1_u8 << at);
    reasons.iter().fold(0, |bits, reason| bits | bit(reason))
}

impl ReconcileOutcome {
    pub(crate) fn of(outcome: &Result<Outcome, Failure>) -> Self {
        match outcome {
            Ok(Outcome::Done) => Self::Done,
            Ok(Outcome::RequeueAfter(_)) => Self::RequeueAfter,
            Err(Failure::Terminal(_)) => Self::Terminal,
            Err(Failure::Fault(_)) => Self::Fault,
            Err(_) => Self::Retry,
        }
    }

    /// Returns the public name.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::RequeueAfter => "requeueAfter",
            Self::Retry => "retry",
            Self::Terminal => "terminal",
            Self::Fault => "fault",
        }
    }
}

impl JournalRecord {
    /// The position of the kind among the rings, which is also the order of records of one time.
    pub(super) fn kind(&self) -> usize {
        match self {
            Self::Event(_) => 0,
            // The writes of a reconcile come before its end.
            Self::Write(_) => 1,
            Self::Reconcile(_) => 2,
        }
    }

    /// Returns the payload, and the detail of at most [`DETAIL_BITS`] bits.
    pub(super) fn pack(self) -> (u64, u32) {
        match self {
            Self::Event(JournalEvent { version, change, is_queued, watch }) => {
                let change = position(&REASONS, &change);
                (version, change | (u32::from(is_queued) << 3) | (u32::from(watch) << 8))
            }
            Self::Reconcile(JournalReconcile { microseconds, attempt, reasons, outcome, trace }) => {
                let payload =
                    u64::from(microseconds) | (u64::from(attempt) << 32) | (u64::from(reasons) << 48);
                (payload, position(&OUTCOMES, &outcome) | (trace << 3))
            }
            Self::Write(JournalWrite { verb, code, version, is_own_key }) => {
                let detail = position(&VERBS, &verb) | (u32::from(is_own_key) << 2) | (u32::from(code) << 8);
                (version, detail)
            }
        }
    }

    /// Reverses [`pack`](Self::pack); `None` for words that no record has.
    pub(super) fn unpack(kind: usize, payload: u64, detail: u32) -> Option<Self> {
        let high = u16::try_from(detail >> 8).ok()?;
        match kind {
            0 => Some(Self::Event(JournalEvent {
                version: payload,
                change: REASONS[(detail & 7) as usize],
                is_queued: detail & 8 != 0,
                watch: high,
            })),
            2 => Some(Self::Reconcile(JournalReconcile {
                microseconds: u32::try_from(payload & 0xffff_ffff).ok()?,
                attempt: u16::try_from((payload >> 32) & 0xffff).ok()?,
                reasons: u8::try_from(payload >> 48).ok()?,
                outcome: *OUTCOMES.get((detail & 7) as usize)?,
                trace: detail >> 3,
            })),
            _ => Some(Self::Write(JournalWrite {
                verb: VERBS[(detail & 3) as usize],
                code: high,
                version: payload,
                is_own_key: detail & 4 != 0,
            })),
        }
    }
}

fn position<T: PartialEq>(all: &[T], value: &T) -> u32 {
    let position = all.iter().position(|known| known == value).unwrap_or_default();
    u32::try_from(position).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_survive_packing() {
        let mut records = Vec::new();
        for change in REASONS {
            for is_queued in [false, true] {
                records.push(JournalRecord::Event(JournalEvent {
                    version: u64::MAX,
                    change,
                    is_queued,
                    watch: u16::MAX,
                }));
            }
        }
        for outcome in OUTCOMES {
            let (microseconds, attempt, reasons) = (u32::MAX, u16::MAX, u8::MAX);
            for trace in [0, 1, 1 << 20] {
                let record = JournalReconcile { microseconds, attempt, reasons, outcome, trace };
                records.push(JournalRecord::Reconcile(record));
            }
        }
        for verb in VERBS {
            records.push(JournalRecord::Write(JournalWrite {
                verb,
                code: 599,
                version: 7,
                is_own_key: true,
            }));
            records.push(JournalRecord::Write(JournalWrite { verb, code: 0, version: 0, is_own_key: false }));
        }
        for record in records {
            let (payload, detail) = record.pack();
            assert!(detail < 1 << DETAIL_BITS, "{record:?}");
            assert_eq!(JournalRecord::unpack(record.kind(), payload, detail), Some(record));
        }
        assert_eq!(JournalRecord::unpack(2, 0, 7), None);
    }

    #[test]
    fn reasons_are_a_set_of_bits() {
        assert_eq!(reason_bits(&[]), 0);
        assert_eq!(reason_bits(&[Reason::Updated, Reason::Created, Reason::Updated]), 0b11);
        assert_eq!(reason_bits(&[Reason::Other]), 1 << 7);
        assert_ne!(watch_tag("pods"), watch_tag("nodes"));
    }
}
