use super::*;

fn object(name: &str, version: u64) -> Object {
    Object::from_json(format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}","uid":"{name}","resourceVersion":"{version}"}}}}"#
    ))
    .expect("an object")
}

fn added(name: &str, version: u64) -> Notification {
    Notification::Added { object: object(name, version), initial: false }
}

fn initial(name: &str, version: u64) -> Notification {
    Notification::Added { object: object(name, version), initial: true }
}

fn updated(name: &str, from: u64, to: u64) -> Notification {
    Notification::Updated { old: object(name, from), new: object(name, to) }
}

fn deleted(name: &str, version: u64) -> Notification {
    Notification::Deleted { last: object(name, version), final_state_unknown: false }
}

/// What is delivered next: `initial a1`, `added b2`, …
fn next(ledger: &Ledger) -> Vec<String> {
    let word = |notification: &Notification| match notification {
        Notification::Added { initial: true, .. } => "initial",
        Notification::Added { .. } => "added",
        Notification::Updated { .. } => "updated",
        Notification::Deleted { .. } => "deleted",
    };
    let said = |notification: Notification| {
        let object = notification.object();
        format!("{} {}{}", word(&notification), object.name(), object.resource_version())
    };
    ledger.current().unwrap_or_default().into_iter().map(said).collect()
}

/// A ledger whose observer took these.
fn told(batch: Vec<Notification>) -> Ledger {
    let mut ledger = Ledger::default();
    ledger.push(batch);
    ledger.succeeded();
    ledger
}

/// Fails until something else happens than a further try.
fn fail(ledger: &mut Ledger) -> AfterFailure {
    for _ in 0..ATTEMPTS {
        match ledger.failed(false).expect("something is pending") {
            AfterFailure::Again { .. } => {}
            other => return other,
        }
    }
    panic!("it goes on for ever");
}

#[test]
fn b34_a_new_instance_is_told_everything_then_the_batch_that_broke_the_last_one() {
    let mut ledger = told(vec![initial("a", 1), initial("b", 1), initial("c", 1)]);
    ledger.push(vec![updated("a", 1, 2), deleted("b", 1)]);
    assert!(matches!(ledger.failed(false), Some(AfterFailure::Again { failures: 1 })));
    ledger.restart();
    assert!(ledger.is_replaying());
    // As they were told last: the update and the deletion come after, in order.
    assert_eq!(next(&ledger), ["initial a1", "initial b1", "initial c1"]);
    ledger.succeeded();
    assert!(!ledger.is_replaying());
    assert_eq!(next(&ledger), ["updated a2", "deleted b1"]);
    ledger.succeeded();
    ledger.restart();
    assert_eq!(next(&ledger), ["initial a2", "initial c1"], "nothing of what is gone");
}

#[test]
fn b38_failures_are_counted_over_the_instances() {
    let mut ledger = told(vec![initial("a", 1)]);
    ledger.push(vec![added("bad", 2), added("c", 3)]);
    for failures in 1..ATTEMPTS {
        assert!(matches!(ledger.failed(false), Some(AfterFailure::Again { failures: f }) if f == failures));
        ledger.restart();
        ledger.succeeded();
        assert_eq!(next(&ledger), ["added bad2", "added c3"]);
    }
    assert!(matches!(ledger.failed(false), Some(AfterFailure::Split)));
    assert_eq!(next(&ledger), ["added bad2"]);
    assert!(matches!(fail(&mut ledger), AfterFailure::Parked(n) if n.key().name() == "bad"));
    assert_eq!(next(&ledger), ["added c3"]);
    ledger.succeeded();
    ledger.restart();
    assert_eq!(next(&ledger), ["initial a1", "initial c3"], "what is set aside is not told");
    ledger.succeeded();
    ledger.push(vec![updated("bad", 2, 4)]);
    assert_eq!(next(&ledger), ["added bad4"], "the observer never knew it");
}

#[test]
fn b38_an_object_that_breaks_a_replay_is_set_aside_until_it_changes() {
    let mut ledger = told(vec![initial("a", 1), initial("bad", 1), initial("c", 1)]);
    ledger.restart();
    for _ in 1..ATTEMPTS {
        assert!(matches!(ledger.failed(false), Some(AfterFailure::Again { .. })));
        ledger.restart();
        assert_eq!(next(&ledger).len(), 3, "the same again, and the failures stay counted");
    }
    assert!(matches!(ledger.failed(false), Some(AfterFailure::Split)));
    ledger.restart();
    ledger.succeeded();
    assert_eq!(next(&ledger), ["initial bad1"]);
    for _ in 1..ATTEMPTS {
        assert!(matches!(ledger.failed(false), Some(AfterFailure::Again { .. })));
        ledger.restart();
        ledger.succeeded();
    }
    assert!(matches!(ledger.failed(false), Some(AfterFailure::Parked(n)) if n.key().name() == "bad"));
    assert_eq!(next(&ledger), ["initial c1"]);
    ledger.succeeded();
    assert!(!ledger.is_replaying());
    ledger.push(vec![updated("bad", 1, 1)]);
    assert!(ledger.current().is_none(), "a resync is no change");
    ledger.push(vec![updated("bad", 1, 2)]);
    assert_eq!(next(&ledger), ["added bad2"]);
}

#[test]
fn b38_what_waited_already_does_not_tell_a_parked_object_once_more() {
    let mut ledger = told(vec![initial("bad", 1), initial("c", 1)]);
    ledger.push(vec![updated("bad", 1, 1), updated("c", 1, 2)]);
    ledger.push(vec![updated("bad", 1, 1)]);
    ledger.restart();
    assert!(matches!(ledger.failed(true), Some(AfterFailure::Split)));
    assert!(matches!(ledger.failed(true), Some(AfterFailure::Parked(n)) if n.key().name() == "bad"));
    ledger.succeeded();
    assert_eq!(next(&ledger), ["updated c2"]);
    ledger.succeeded();
    assert!(ledger.current().is_none(), "the resyncs are left out");
}

#[test]
fn what_failed_for_good_is_set_aside_at_once_and_the_others_of_its_batch_are_told() {
    let mut ledger = Ledger::default();
    ledger.push(vec![added("a", 1), added("bad", 2)]);
    assert!(matches!(ledger.failed(true), Some(AfterFailure::Split)));
    assert_eq!(next(&ledger), ["added a1"]);
    ledger.succeeded();
    assert!(matches!(ledger.failed(true), Some(AfterFailure::Parked(n)) if n.key().name() == "bad"));
    assert!(ledger.current().is_none() && ledger.failed(true).is_none());
}

#[test]
fn a_long_replay_comes_in_batches() {
    let all: Vec<_> =
        (0..BATCH as u64 + 1).map(|number| initial(&format!("o{number:04}"), number + 1)).collect();
    let mut ledger = told(all);
    ledger.restart();
    assert_eq!(next(&ledger).len(), BATCH);
    ledger.succeeded();
    assert_eq!(next(&ledger).len(), 1);
    ledger.restart();
    assert_eq!(next(&ledger).len(), BATCH, "from the beginning for the next instance");
}
