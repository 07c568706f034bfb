use std::time::Duration;

use pilothouse_model::Object;

use super::*;

/// The number of keys that have a slot of their own.
const SLOTS: usize = PAGES * PAGE_SLOTS;

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("shop", name)
}

fn changed(version: &str) -> Notification {
    let text = format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"a","namespace":"shop","resourceVersion":"{version}"}}}}"#
    );
    Notification::Added { object: Object::from_json(text).expect("an object"), initial: false }
}

fn reconcile(attempt: u16) -> JournalReconcile {
    JournalReconcile { microseconds: 1500, attempt, reasons: 1, outcome: ReconcileOutcome::Done, trace: 0 }
}

fn records(journal: &Journal, name: &str) -> Vec<JournalRecord> {
    journal.records("maps", &key(name)).into_iter().map(|timed| timed.record).collect()
}

#[tokio::test(start_paused = true)]
async fn the_records_of_a_key_are_returned_in_order() {
    let journal = Journal::new(&HostMemory::default(), Default::default());
    assert_eq!(records(&journal, "a"), []);
    tokio::time::advance(Duration::from_millis(5)).await;
    journal.begin_batch(Instant::now());
    journal.record_queued("maps", &key("a"), "pods", &changed("12"), Reason::Created);
    journal.record_queued("maps", &key("a"), "maps", &changed("13"), Reason::Startup);
    journal.record_refused("maps", &changed("opaque"), Reason::Updated);
    tokio::time::advance(Duration::from_millis(5)).await;
    let write = JournalWrite { verb: WriteVerb::Patch, code: 200, version: 14, is_own_key: true };
    journal.record_write("maps", &key("a"), write);
    tokio::time::advance(Duration::from_millis(5)).await;
    journal.record_reconcile("maps", &key("a"), reconcile(0));
    let queued =
        JournalEvent { version: 12, change: Reason::Created, is_queued: true, watch: watch_tag("pods") };
    let refused =
        JournalEvent { version: 0, change: Reason::Updated, is_queued: false, watch: watch_tag("maps") };
    let expected = [
        JournalRecord::Event(queued),
        JournalRecord::Event(refused),
        JournalRecord::Write(write),
        JournalRecord::Reconcile(reconcile(0)),
    ];
    assert_eq!(records(&journal, "a"), expected);
    let times: Vec<_> = journal.records("maps", &key("a")).iter().map(|timed| timed.time).collect();
    let after = |record: usize| (times[record].as_millisecond() - times[0].as_millisecond(), record);
    assert_eq!([after(1), after(2), after(3)], [(0, 1), (5, 2), (10, 3)]);
    assert_eq!(records(&journal, "b"), []);
    assert_eq!(journal.records("pods", &key("a")), [], "another watch");
}

#[tokio::test(start_paused = true)]
async fn a_ring_keeps_the_latest_records_of_its_kind() {
    let journal = Journal::new(&HostMemory::default(), Default::default());
    let write = JournalWrite { verb: WriteVerb::Create, code: 409, version: 0, is_own_key: false };
    journal.record_write("maps", &key("a"), write);
    for attempt in 0..20 {
        journal.record_reconcile("maps", &key("a"), reconcile(attempt));
    }
    let kept: Vec<_> = records(&journal, "a");
    assert_eq!(kept.len(), RECORDS + 1);
    let attempts = kept.iter().filter_map(|record| match record {
        JournalRecord::Reconcile(reconcile) => Some(reconcile.attempt),
        _ => None,
    });
    assert!(attempts.eq(12..20), "{kept:?}");
    assert!(kept.contains(&JournalRecord::Write(write)));
}

#[tokio::test(start_paused = true)]
async fn a_hundred_thousand_keys_take_less_than_three_mebibytes_which_are_charged() {
    let memory = HostMemory::default();
    let journal = Journal::new(&memory, Default::default());
    for number in 0..100_000 {
        let name = number.to_string();
        journal.record_reconcile("maps", &key(&name), reconcile(0));
        assert_eq!(records(&journal, &name).len(), 1, "the latest key is always kept");
    }
    let kept = (0..100_000).filter(|number| !records(&journal, &number.to_string()).is_empty()).count();
    assert!(kept > SLOTS / 2 && kept <= SLOTS * RECORDS, "{kept}");
    let charged = || memory.used_by(HostMemoryKind::Journal);
    let once = SLOTS * size_of::<Slot>() + PAGES * size_of::<Page>();
    assert!(charged() <= once && once < 500 << 10, "{} of {once}", charged());
    for number in 0..100_000 {
        let key = key(&number.to_string());
        for _ in 0..2 {
            journal.record_queued("maps", &key, "maps", &changed("1"), Reason::Updated);
            let write = JournalWrite { verb: WriteVerb::Patch, code: 200, version: 2, is_own_key: true };
            journal.record_write("maps", &key, write);
            journal.record_reconcile("maps", &key, reconcile(0));
        }
    }
    let all = once + SLOTS * KINDS * size_of::<Ring>();
    assert!(charged() <= all && all + size_of::<Table>() < 3 << 20, "{} of {all}", charged());
    drop(journal);
    assert_eq!(memory.used(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_key_with_one_record_takes_a_slot_without_rings() {
    let memory = HostMemory::default();
    let journal = Journal::new(&memory, Default::default());
    journal.record_reconcile("maps", &key("a"), reconcile(0));
    let one = memory.used();
    assert!(one <= size_of::<Page>() + 100, "{one}");
    journal.record_reconcile("maps", &key("a"), reconcile(1));
    assert_eq!(memory.used(), one + size_of::<Ring>());
    journal.record_queued("maps", &key("a"), "maps", &changed("1"), Reason::Updated);
    assert_eq!(memory.used(), one + 2 * size_of::<Ring>());
    assert_eq!(records(&journal, "a").len(), 3);
}

#[tokio::test(start_paused = true)]
async fn the_latest_record_of_a_key_that_returns_to_its_slot_is_kept() {
    let journal = Journal::new(&HostMemory::default(), Default::default());
    let slot = Slot::default();
    let push = |stamp, attempt| {
        slot.push(&journal.0, stamp, u64::from(attempt), JournalRecord::Reconcile(reconcile(attempt)));
    };
    let attempts = |stamp| {
        let records = slot.records(stamp).into_iter();
        records.map(|(milliseconds, _)| milliseconds).collect::<Vec<_>>()
    };
    (0..10).for_each(|attempt| push(7, attempt));
    assert_eq!(attempts(7), [2, 3, 4, 5, 6, 7, 8, 9]);
    push(9, 10);
    assert_eq!(attempts(9), [10]);
    push(7, 11);
    assert_eq!(attempts(7).last(), Some(&11));
    push(7, 12);
    assert_eq!(attempts(7).last(), Some(&12));
    assert_eq!(attempts(7).len(), RECORDS - 1, "the record of the other key took the place of one");
}

#[tokio::test(start_paused = true)]
async fn without_room_for_a_ring_the_latest_record_is_kept() {
    let memory = HostMemory::new(2 * (size_of::<Page>() + size_of::<Slot>()));
    let journal = Journal::new(&memory, Default::default());
    for attempt in 0..3 {
        journal.record_reconcile("maps", &key("a"), reconcile(attempt));
        assert_eq!(records(&journal, "a"), [JournalRecord::Reconcile(reconcile(attempt))]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_plugin_without_room_has_a_shorter_journal() {
    let memory = HostMemory::new(20 * (size_of::<Page>() + size_of::<Slot>()));
    let journal = Journal::new(&memory, Default::default());
    for number in 0..1000 {
        journal.record_reconcile("maps", &key(&number.to_string()), reconcile(0));
    }
    let used = memory.used();
    assert!(used > 0 && used <= memory.limit() / 2, "{used}");
    let none = Journal::new(&HostMemory::new(0), Default::default());
    none.record_reconcile("maps", &key("a"), reconcile(0));
    assert_eq!(records(&none, "a"), []);
}

#[test]
fn a_record_of_another_key_or_one_that_is_being_written_is_skipped() {
    let ring = Ring::default();
    assert_eq!(ring.records(1, 2), []);
    ring.push(7, 5, JournalRecord::Reconcile(reconcile(3)));
    assert_eq!(ring.records(7, 2), [(5, JournalRecord::Reconcile(reconcile(3)))]);
    assert_eq!(ring.records(9, 2), []);
    // Another thread has stored one of the three words.
    ring.records[0].0[0].fetch_xor(1, Ordering::Relaxed);
    assert_eq!(ring.records(7, 2), []);
}
