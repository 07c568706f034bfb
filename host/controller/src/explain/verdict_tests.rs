//! Each cause from a situation of its own.

use super::*;
use crate::lifecycle::PluginState;
use crate::runtime::KeyStateName;

/// A key whose object is cached, and for which nothing is pending.
fn calm() -> Situation {
    Situation {
        plugin: PluginSituation {
            state: PluginState::Running,
            error: String::new(),
            running: true,
            paused: false,
            missing: None,
        },
        version: None,
        source: None,
        watch: Some(WatchSituation {
            resource: "foos.v1.example.com".to_owned(),
            namespaces: Vec::new(),
            covers_namespace: true,
            label_selector: "app=x".to_owned(),
            field_selector: "spec.y=z".to_owned(),
            synced: true,
            error: None,
        }),
        cached: Some(CachedObject { resource_version: "812".to_owned(), own_write: false, seen: None }),
        on_server: None,
        predicate: None,
        triggers: Vec::new(),
        queue: None,
        hot_loop: None,
    }
}

fn queue(state: KeyStateName, attempts: u32) -> QueueSituation {
    let (open_writes, held_by_writes, last_error) = (0, false, None);
    QueueSituation { state, milliseconds: 1500, attempts, open_writes, held_by_writes, last_error }
}

fn predicate(text: &str, value: PredicateValue) -> PredicateSituation {
    let part = PredicatePart { text: text.to_owned(), value };
    PredicateSituation { text: text.to_owned(), value, parts: vec![part] }
}

fn event(version: u64, change: &str, queued: bool) -> JournalEntry {
    let (watch, change) = ("foos".to_owned(), change.to_owned());
    let what = EntryDetail::Event { watch, of_target: true, change, resource_version: version, queued };
    JournalEntry { time: "T1".to_owned(), what }
}

fn reconcile(outcome: &str) -> JournalEntry {
    let (reasons, outcome) = (vec!["updated".to_owned()], outcome.to_owned());
    JournalEntry {
        time: "T2".to_owned(),
        what: EntryDetail::Reconcile { reasons, attempt: 0, microseconds: 7, outcome, trace_id: None },
    }
}

fn write(version: u64) -> JournalEntry {
    let verb = "patch".to_owned();
    let what = EntryDetail::Write { verb, code: 200, resource_version: version, same_key: true };
    JournalEntry { time: "T2".to_owned(), what }
}

fn check(change: impl FnOnce(&mut Situation), then: &[JournalEntry], cause: Cause, part: &str) {
    let mut now = calm();
    change(&mut now);
    let (actual, text) = decide(&now, then);
    assert_eq!(actual, cause, "{text}");
    assert!(text.contains(part), "{text}");
    SEEN.with_borrow_mut(|seen| seen.push(cause));
}

thread_local! {
    /// The causes that this thread's test has seen.
    static SEEN: std::cell::RefCell<Vec<Cause>> = const { std::cell::RefCell::new(Vec::new()) };
}

fn stopped(state: PluginState, kind: Option<PrerequisiteKind>) -> impl FnOnce(&mut Situation) {
    move |now| {
        now.watch = None;
        now.cached = None;
        now.plugin.running = false;
        now.plugin.state = state;
        now.plugin.error = "because".to_owned();
        now.plugin.missing = kind.map(|kind| MissingPrerequisite { kind, text: "that".to_owned() });
    }
}

fn absent(on_server: Option<ServerObject>) -> impl FnOnce(&mut Situation) {
    move |now| (now.cached, now.on_server) = (None, on_server)
}

fn exists(label_selector_matches: bool, field_selector_matches: bool) -> Option<ServerObject> {
    let resource_version = "7".to_owned();
    Some(ServerObject::Exists { resource_version, label_selector_matches, field_selector_matches })
}

#[test]
fn every_cause_has_its_code() {
    plugin_causes();
    object_causes();
    queue_causes();
    journal_causes();
    let seen = SEEN.take();
    for cause in Cause::ALL {
        assert!(seen.contains(&cause), "no situation leads to {cause}");
        assert_eq!(serde_json::to_value(cause).expect("JSON"), cause.to_string());
    }
}

/// One of two versions, which works.
fn one_of_two_versions(canary: bool) -> VersionSituation {
    VersionSituation {
        digest: "d".to_owned(),
        version: "1".to_owned(),
        canary,
        backing_off: None,
        missing: None,
    }
}

#[test]
fn beside_a_canary_the_version_that_reconciles_the_key_decides() {
    let missing = |kind, text: &str| Some(MissingPrerequisite { kind, text: text.to_owned() });
    for canary in [false, true] {
        let backs_off = |now: &mut Situation| {
            let backing_off = Some("trapped".to_owned());
            now.version = Some(VersionSituation { backing_off, ..one_of_two_versions(canary) });
            // A blocked key comes back after a delay.
            now.queue = Some(queue(KeyStateName::Delayed, 0));
        };
        check(backs_off, &[], Cause::BackingOff, "trapped");
        let lacks_grant = |now: &mut Situation| {
            let missing = missing(PrerequisiteKind::Grant, "that is missing");
            now.version = Some(VersionSituation { missing, ..one_of_two_versions(canary) });
            now.queue = Some(queue(KeyStateName::Delayed, 0));
        };
        check(lacks_grant, &[], Cause::NotGranted, "that is missing");
    }
    // The other version does not work.
    let works = |now: &mut Situation| {
        (now.plugin.state, now.plugin.error) = (PluginState::BackingOff, "trapped".to_owned());
        now.plugin.missing = missing(PrerequisiteKind::Grant, "that is missing");
        now.version = Some(one_of_two_versions(true));
    };
    check(works, &[], Cause::AllWell, "");
    let has_no_crd = |now: &mut Situation| {
        now.plugin.missing = missing(PrerequisiteKind::Crd, "no CRD");
        now.version = Some(one_of_two_versions(true));
    };
    check(has_no_crd, &[], Cause::CrdMissing, "no CRD");
}

fn plugin_causes() {
    check(stopped(PluginState::Failed, None), &[], Cause::PluginNotRunning, "state is failed: because");
    check(stopped(PluginState::BackingOff, None), &[], Cause::BackingOff, "because");
    for (kind, cause) in [
        (PrerequisiteKind::Grant, Cause::NotGranted),
        (PrerequisiteKind::Crd, Cause::CrdMissing),
        (PrerequisiteKind::List, Cause::WatchStale),
        (PrerequisiteKind::Other, Cause::PluginNotRunning),
    ] {
        check(stopped(PluginState::Waiting, Some(kind)), &[], cause, "state is waiting: because");
        check(stopped(PluginState::Failed, Some(kind)), &[], Cause::PluginNotRunning, "because");
    }
    for (kind, cause) in
        [(PrerequisiteKind::Grant, Cause::NotGranted), (PrerequisiteKind::Crd, Cause::CrdMissing)]
    {
        let missing = |now: &mut Situation| {
            now.plugin.missing = Some(MissingPrerequisite { kind, text: "that is missing".to_owned() });
            now.queue = Some(queue(KeyStateName::Ready, 0));
        };
        check(missing, &[], cause, "that is missing");
    }
    check(|now| now.plugin.paused = true, &[], Cause::Paused, "pilothouse resume");
    let backs_off = |now: &mut Situation| {
        (now.plugin.state, now.plugin.error) = (PluginState::BackingOff, "trapped".to_owned());
    };
    check(backs_off, &[], Cause::BackingOff, "trapped");
}

fn object_causes() {
    let elsewhere = |now: &mut Situation| {
        let watch = now.watch.as_mut().expect("a watch");
        (watch.covers_namespace, watch.namespaces) = (false, vec!["shop".to_owned(), "store".to_owned()]);
        now.cached = None;
    };
    check(elsewhere, &[], Cause::OtherNamespace, "only in shop, store");
    check(absent(None), &[], Cause::NoSuchObject, "no such object in foos.v1.example.com");
    check(absent(Some(ServerObject::Absent)), &[event(9, "deleted", true)], Cause::NoSuchObject, "deleted");
    let unknown = ServerObject::Unknown { problem: "too many".to_owned() };
    check(absent(Some(unknown)), &[], Cause::NoSuchObject, "unknown: too many");
    check(absent(exists(false, true)), &[], Cause::NotSelected, "label selector \"app=x\"");
    check(absent(exists(true, false)), &[], Cause::NotSelected, "field selector \"spec.y=z\"");
    check(absent(exists(true, true)), &[], Cause::WatchStale, "not delivered it");
    let broken = |now: &mut Situation| now.watch.as_mut().expect("a watch").error = Some("403".to_owned());
    check(broken, &[], Cause::WatchStale, "does not work: 403");
    let unsynced = |now: &mut Situation| now.watch.as_mut().expect("a watch").synced = false;
    check(unsynced, &[], Cause::WatchStale, "not complete");
}

fn queue_causes() {
    let queued = |state, attempts| move |now: &mut Situation| now.queue = Some(queue(state, attempts));
    check(queued(KeyStateName::Ready, 0), &[], Cause::Queued, "for 1.5s");
    check(queued(KeyStateName::Processing, 0), &[], Cause::Reconciling, "for 1.5s");
    check(queued(KeyStateName::Delayed, 0), &[], Cause::RequeuePending, "again in 1.5s");
    let failing = |now: &mut Situation| {
        let last_error = Some("failed: 401".to_owned());
        now.queue = Some(QueueSituation { last_error, ..queue(KeyStateName::Delayed, 3) });
    };
    check(failing, &[], Cause::RetryPending, "3 attempts failed; the next one starts in 1.5s; failed: 401");
    let held = |now: &mut Situation| {
        let processing = queue(KeyStateName::Processing, 0);
        now.queue = Some(QueueSituation { open_writes: 1, held_by_writes: true, ..processing });
        now.plugin.paused = true;
    };
    check(held, &[], Cause::HeldByWrite, "1 write of it");
    let looping = |milliseconds| {
        move |now: &mut Situation| {
            now.queue = Some(queue(KeyStateName::Delayed, 0));
            now.hot_loop = Some(HotLoopSituation { text: "hot loop: x".to_owned(), milliseconds });
        }
    };
    check(looping(1500), &[], Cause::HotLoop, "hot loop: x; the next round starts in 1.5s");
    check(looping(0), &[], Cause::RequeuePending, "as the plugin asked");
    let paused = |now: &mut Situation| {
        now.queue = Some(queue(KeyStateName::Ready, 0));
        now.plugin.paused = true;
    };
    check(paused, &[], Cause::Paused, "paused");
    let deleted = |now: &mut Situation| {
        now.cached = None;
        now.queue = Some(queue(KeyStateName::Ready, 0));
    };
    check(deleted, &[], Cause::Queued, "waiting for a worker");
}

fn journal_causes() {
    let with =
        |text: &'static str, value| move |now: &mut Situation| now.predicate = Some(predicate(text, value));
    let size = "object.spec.replicas > 0";
    check(with(size, PredicateValue::False), &[], Cause::PredicateFalse, "replicas > 0 is false at rv 812");
    check(with(size, PredicateValue::True), &[event(812, "updated", true)], Cause::AllWell, "rv is 812");
    check(with(size, PredicateValue::Fails), &[], Cause::AllWell, "nothing is pending");
    let changed = "generationChanged()";
    let by_change = || with(changed, PredicateValue::DependsOnChange);
    let refused = [event(811, "updated", true), reconcile("done"), event(812, "updated", false)];
    check(by_change(), &refused, Cause::PredicateFalse, "was false for the change to rv 812");
    let not_delivered = [event(811, "updated", true), reconcile("done")];
    check(by_change(), &not_delivered, Cause::PredicateFalse, "for the change to rv 812");
    let own = [event(811, "updated", true), write(812), reconcile("done"), event(812, "updated", false)];
    check(by_change(), &own, Cause::AllWell, "last reconciled at T2");
    check(by_change(), &[event(812, "updated", true), reconcile("done")], Cause::AllWell, "T2");
    check(by_change(), &[reconcile("done")], Cause::AllWell, "T2");
    check(|_| {}, &[reconcile("done"), reconcile("terminal")], Cause::TerminalError, "terminal error");
    check(|_| {}, &[reconcile("terminal"), reconcile("retry")], Cause::AllWell, "T2");
    check(|_| {}, &[], Cause::AllWell, "the journal has no reconcile of it");
}

#[test]
fn a_long_predicate_is_shortened() {
    let text = "ä ".repeat(1000);
    let mut now = calm();
    now.predicate = Some(predicate(&text, PredicateValue::False));
    let (_, verdict) = decide(&now, &[]);
    assert!(verdict.chars().count() < 300 && verdict.contains('…'), "{verdict}");
}
