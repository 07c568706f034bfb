//! Each kind of fault has an effect.

use super::stage::{
    DESCRIPTOR, Stage, change_map, create_map, create_map_with, create_orphan, creates, deliveries, lease,
    requests,
};
use crate::plan::{Deviation, Fault, Moment};
use crate::run::{Author, End, EventKind, ReconcileResult, Run};
use crate::world::WorldLimits;

fn at_create(occurrence: u32, fault: Fault) -> Deviation {
    let resource = "leases.coordination.k8s.io".to_owned();
    Deviation { at: Moment::Request { verb: "create".to_owned(), resource, occurrence }, fault }
}

fn at_event(occurrence: u32, fault: Fault) -> Deviation {
    Deviation { at: Moment::Event { resource: "configmaps".to_owned(), occurrence }, fault }
}

fn at_rest(occurrence: u32, fault: Fault) -> Deviation {
    Deviation { at: Moment::Rest { occurrence }, fault }
}

const BOTH: [&str; 2] = ["leases.coordination.k8s.io/first-a", "leases.coordination.k8s.io/second-a"];

fn hosts(run: &Run) -> usize {
    run.events.iter().filter(|event| matches!(event.kind, EventKind::HostStarted { .. })).count()
}

fn statuses(run: &Run) -> Vec<(Option<u16>, bool)> {
    requests(run).iter().map(|request| (request.status, request.answered)).collect()
}

#[test]
fn a_crash_between_two_writes_abandons_the_reconcile_and_the_next_host_completes_it() {
    let run = Stage::new(vec![create_map("a")]).run(vec![at_create(2, Fault::CrashBefore)]);
    assert_eq!((run.end.clone(), hosts(&run)), (End::AtRest, 2));
    assert_eq!(creates(&run), BOTH);
    let abandoned = run.events.iter().filter(|event| {
        matches!(&event.kind, EventKind::ReconcileEnded { result: ReconcileResult::Abandoned, .. })
    });
    assert_eq!(abandoned.count(), 1);
    // The first Lease is created again in vain.
    assert_eq!(statuses(&run), [(Some(201), true), (Some(409), true), (Some(201), true)]);
    assert!(run.skipped.is_empty());
}

#[test]
fn a_crash_after_a_write_keeps_the_write_and_its_answer_is_lost() {
    let run = Stage::new(vec![create_map("a")]).run(vec![at_create(1, Fault::CrashAfter)]);
    assert_eq!((run.end.clone(), hosts(&run)), (End::AtRest, 2));
    assert_eq!(creates(&run), BOTH);
    assert_eq!(statuses(&run), [(Some(201), false), (Some(409), true), (Some(201), true)]);
}

#[test]
fn a_refused_request_is_retried_by_the_host() {
    let run = Stage::new(vec![create_map("a")]).run(vec![at_create(1, Fault::Refuse(500))]);
    assert_eq!((run.end.clone(), hosts(&run)), (End::AtRest, 1));
    assert_eq!(statuses(&run)[0], (Some(500), true));
    assert_eq!(creates(&run), BOTH);
}

#[test]
fn a_lost_answer_leaves_the_write_carried_out() {
    let run = Stage::new(vec![create_map("a")]).run(vec![at_create(1, Fault::LoseAnswer)]);
    assert_eq!(run.end, End::AtRest);
    assert_eq!(statuses(&run)[0], (Some(201), false));
    assert_eq!(creates(&run), BOTH);
    assert!(statuses(&run).len() > 2, "the reconcile is repeated");
}

#[test]
fn a_delayed_request_arrives_later() {
    let run = Stage::new(vec![create_map("a")]).run(vec![at_create(1, Fault::DelayRequest(5_000))]);
    assert_eq!(creates(&run), BOTH);
    let time = |kind: &dyn Fn(&EventKind) -> bool| {
        run.events.iter().find(|event| kind(&event.kind)).map(|event| event.time).expect("an event")
    };
    let deviated = time(&|kind| matches!(kind, EventKind::Deviated { .. }));
    let written = time(&|kind| matches!(kind, EventKind::Request(request) if request.name == "first-a"));
    assert_eq!(written - deviated, 5_000);
}

#[test]
fn a_held_watch_delivers_later_and_in_order() {
    let steps = || vec![create_map("a"), create_map("b")];
    let run = Stage::new(steps()).run(vec![at_event(1, Fault::HoldWatch(60_000))]);
    assert_eq!(run.end, End::AtRest);
    let keys: Vec<_> = deliveries(&run).into_iter().filter(|(_, change, _)| change == "ADDED").collect();
    assert_eq!(keys.iter().map(|(_, _, key)| key.as_str()).collect::<Vec<_>>(), ["default/a", "default/b"]);
    let reference = Stage::new(steps()).run(vec![]);
    let expected = deliveries(&reference).into_iter().find(|(_, change, _)| change == "ADDED");
    assert_eq!(keys[0].0, expected.expect("a delivery").0 + 60_000);
}

#[test]
fn all_faults_at_one_event_are_applied_in_any_order() {
    let step = || Fault::TakeStep { actor: "user".to_owned() };
    for delay in [Fault::HoldWatch(20_000), Fault::DropWatch(20_000)] {
        let one = [at_event(1, delay.clone()), at_event(1, step())];
        let other = [at_event(1, step()), at_event(1, delay.clone())];
        for faults in [one, other] {
            let run = Stage::new(vec![create_map("a"), create_map("b")]).run(faults.to_vec());
            assert_eq!((run.end.clone(), run.skipped.len()), (End::AtRest, 0), "{faults:?}");
            let is_b = |event: &&crate::run::Event| matches!(&event.kind, EventKind::Request(request) if request.name == "b");
            let created = run.events.iter().find(is_b).expect("the second step").time;
            let delivered = deliveries(&run);
            let first = delivered.iter().find(|(_, _, key)| key == "default/a").expect("the first object").0;
            assert!(created < first, "{faults:?}: the second step came before the delivery of the first");
        }
    }
}

#[test]
fn a_refused_request_has_no_moment_after_it() {
    let faults = vec![at_create(1, Fault::CrashAfter), at_create(1, Fault::Refuse(500))];
    let run = Stage::new(vec![create_map("a")]).run(faults);
    assert_eq!((hosts(&run), run.skipped.len()), (1, 1));
    assert_eq!(statuses(&run)[0], (Some(500), true));
}

#[test]
fn the_world_is_not_at_rest_when_a_delay_ends_that_is_as_long_as_the_rest() {
    let rest_ms = WorldLimits::default().rest_ms;
    let delays = [
        at_event(1, Fault::HoldWatch(rest_ms)),
        at_event(1, Fault::DropWatch(rest_ms)),
        at_create(1, Fault::DelayRequest(rest_ms)),
    ];
    for delay in delays {
        let run = Stage::new(vec![create_map("a")]).run(vec![delay.clone()]);
        assert_eq!((run.end.clone(), creates(&run)), (End::AtRest, BOTH.map(str::to_owned).to_vec()));
        let is = |kind: &dyn Fn(&EventKind) -> bool| run.events.iter().position(|event| kind(&event.kind));
        let delayed = is(&|kind| matches!(kind, EventKind::Deviated { .. })).expect("the delay");
        let written = is(&|kind| matches!(kind, EventKind::Request(request) if request.name == "second-a"));
        let written = written.expect("a write");
        let is_rest = |event: &crate::run::Event| matches!(event.kind, EventKind::Rest { .. });
        assert!(!run.events[delayed..written].iter().any(is_rest), "{delay:?}");
        assert_eq!(run.events[delayed..].iter().filter(|event| is_rest(event)).count(), 1, "{delay:?}");
    }
}

/// Returns when the steps and faults were over.
fn faults_over(run: &Run) -> u64 {
    let is_over = |event: &&crate::run::Event| event.kind == EventKind::FaultsOver;
    run.events.iter().find(is_over).expect("the end of the faults").time
}

#[test]
fn a_dropped_watch_is_a_fault_until_the_host_has_listed_again() {
    let run = Stage::new(vec![create_map("a")]).run(vec![at_event(1, Fault::DropWatch(5_000))]);
    assert_eq!(run.end, End::AtRest);
    let over = run.events.iter().position(|event| event.kind == EventKind::FaultsOver).expect("the end");
    let listed =
        deliveries(&run).into_iter().filter(|(_, change, key)| change == "LISTED" && key == "default/a");
    assert_eq!(listed.count(), 1);
    let is_listed = |event: &crate::run::Event| matches!(&event.kind, EventKind::Delivered { change, key, .. } if change == "LISTED" && key == "default/a");
    assert!(run.events[..over].iter().any(is_listed));
}

#[test]
fn a_dropped_watch_merges_what_came_between() {
    let steps = vec![create_map("a"), change_map("a", "x", "1"), change_map("a", "x", "2")];
    let take_last =
        Deviation { at: Moment::Time(200_000), fault: Fault::TakeStep { actor: "user".to_owned() } };
    let run = Stage::new(steps).run(vec![at_event(2, Fault::DropWatch(150_000)), take_last]);
    assert_eq!(run.end, End::AtRest);
    assert!(run.skipped.is_empty());
    let changes: Vec<_> = deliveries(&run).into_iter().map(|(_, change, _)| change).collect();
    let modified = changes.iter().filter(|change| *change == "MODIFIED").count();
    assert!(modified < 2, "{changes:?}");
    assert!(changes.iter().filter(|change| *change == "LISTED").count() >= 1, "{changes:?}");
}

#[test]
fn a_restart_into_the_past_shows_old_objects_first() {
    let steps = vec![create_map("a"), change_map("a", "first", &lease("new-a"))];
    let past = vec![("configmaps".to_owned(), 1)];
    let run = Stage::new(steps).run(vec![at_rest(3, Fault::Restart { past })]);
    assert_eq!((run.end.clone(), hosts(&run)), (End::AtRest, 2));
    let of_second: Vec<_> = run.events.iter().filter(|event| event.host == 2).collect();
    let versions: Vec<_> = of_second
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::Delivered { key, version, change, .. } if key == "default/a" => {
                Some((change.as_str(), *version, event.time))
            }
            _ => None,
        })
        .collect();
    let [("LISTED", old, listed_at), ("MODIFIED", new, modified_at)] = versions[..] else {
        panic!("{versions:?}");
    };
    assert!(old < new && modified_at - listed_at >= 10_000, "{versions:?}");
    assert!(faults_over(&run) >= modified_at, "the fault is over once the view has caught up");
}

#[test]
fn a_restart_into_the_past_shows_the_same_past_to_all_informers_of_a_resource() {
    let steps = vec![create_map("a"), change_map("a", "first", &lease("new-a"))];
    // Watches without selectors would share one informer.
    let watches = r#""watches":[{"name":"one","apiVersion":"v1","kind":"ConfigMap","fieldSelector":"metadata.name=a"},"#;
    let descriptor = DESCRIPTOR.replace(r#""watches":["#, watches);
    let past = vec![("configmaps".to_owned(), 1)];
    let run = Stage::with_descriptor(steps, &descriptor).run(vec![at_rest(3, Fault::Restart { past })]);
    assert_eq!((run.end.clone(), hosts(&run)), (End::AtRest, 2));
    let deliveries = |change: &str| {
        let of_a = run.events.iter().filter_map(|event| match &event.kind {
            EventKind::Delivered { key, version, change: found, .. }
                if event.host == 2 && key == "default/a" && found == change =>
            {
                Some(*version)
            }
            _ => None,
        });
        of_a.collect::<Vec<_>>()
    };
    let (listed, modified) = (deliveries("LISTED"), deliveries("MODIFIED"));
    let ([first, second], [new, same]) = (&listed[..], &modified[..]) else {
        panic!("{listed:?} {modified:?}");
    };
    assert!(first == second && new == same && first < new, "{listed:?} {modified:?}");
}

#[test]
fn a_restart_at_rest_lists_the_current_objects() {
    let run = Stage::new(vec![create_map("a")]).run(vec![at_rest(2, Fault::Restart { past: vec![] })]);
    assert_eq!((run.end.clone(), hosts(&run)), (End::AtRest, 2));
    assert_eq!(creates(&run), BOTH);
}

#[test]
fn a_reload_reconciles_again_with_the_same_host() {
    let run = Stage::new(vec![create_map("a")]).run(vec![at_rest(2, Fault::Reload)]);
    assert_eq!((run.end.clone(), hosts(&run)), (End::AtRest, 1));
    assert!(run.events.iter().any(|event| event.kind == EventKind::Reloaded));
    let started =
        run.events.iter().filter(|event| matches!(event.kind, EventKind::ReconcileStarted { .. })).count();
    assert_eq!(started, 2);
}

#[test]
fn a_key_that_fails_until_the_faults_are_over_is_tried_once_more_before_the_world_rests() {
    // After so many failures, the host waits for longer than a rest.
    let refused = (1..=15).map(|occurrence| at_create(occurrence, Fault::Refuse(500))).collect();
    let run = Stage::new(vec![create_map("a")]).run(refused);
    assert_eq!((run.end.clone(), run.skipped.len()), (End::AtRest, 0));
    assert_eq!(creates(&run), BOTH);
    let last = run.events.iter().rposition(|event| matches!(event.kind, EventKind::Rest { .. }));
    let created = run.events.iter().rposition(
        |event| matches!(&event.kind, EventKind::Request(request) if request.verb == "create" && request.changed),
    );
    assert!(last > created, "{last:?} {created:?}");
}

#[test]
fn a_step_that_is_taken_at_a_request_comes_before_it() {
    let step = Fault::TakeStep { actor: "user".to_owned() };
    let run = Stage::new(vec![create_map("a"), create_map("b")]).run(vec![at_create(2, step)]);
    assert_eq!((run.end.clone(), run.skipped.len()), (End::AtRest, 0));
    let created: Vec<_> = run
        .events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::Request(request)
                if request.verb == "create" && !request.resource.starts_with("events") =>
            {
                Some(request.name.as_str())
            }
            _ => None,
        })
        .collect();
    assert_eq!(created, ["a", "first-a", "b", "second-a", "first-b", "second-b"]);
}

#[test]
fn a_step_at_a_request_without_another_step_changes_nothing() {
    let step = || Fault::TakeStep { actor: "user".to_owned() };
    let run = Stage::new(vec![create_map("a")]).run(vec![at_create(1, step()), at_create(2, step())]);
    assert_eq!((run.end.clone(), run.skipped.len()), (End::AtRest, 0), "both requests were reached");
    let deviated = run.events.iter().filter(|event| matches!(event.kind, EventKind::Deviated { .. }));
    assert_eq!(deviated.count(), 2);
    assert_eq!(creates(&run), BOTH);
}

#[test]
fn a_step_is_taken_early_and_a_crash_can_precede_a_step() {
    let early =
        Deviation { at: at_create(1, Fault::Reload).at, fault: Fault::TakeStep { actor: "user".to_owned() } };
    let steps = || vec![create_map("a"), create_map("b")];
    let run = Stage::new(steps()).run(vec![early]);
    let reference = Stage::new(steps()).run(vec![]);
    let created_at = |run: &Run| {
        let of_b = |event: &&crate::run::Event| matches!(&event.kind, EventKind::Request(request) if request.resource == "configmaps" && request.name == "b");
        run.events.iter().find(of_b).map(|event| event.time).expect("b is created")
    };
    assert!(created_at(&run) < created_at(&reference));
    let at = Moment::Step { actor: "user".to_owned(), step: 2 };
    let run = Stage::new(steps()).run(vec![Deviation { at, fault: Fault::CrashBefore }]);
    assert_eq!((run.end.clone(), hosts(&run), run.skipped.len()), (End::AtRest, 2, 0));
    assert_eq!(creates(&run).len(), 4);
}

#[test]
fn another_client_writes_first_and_an_update_conflicts() {
    let steps = || vec![create_map_with("a", &[("wish", "update")])];
    let reference = Stage::new(steps()).run(vec![]);
    assert_eq!(statuses(&reference), [(Some(200), true)]);
    let at = Moment::Request { verb: "update".to_owned(), resource: "configmaps".to_owned(), occurrence: 1 };
    let run = Stage::new(steps()).run(vec![Deviation { at, fault: Fault::Interfere }]);
    assert_eq!((run.end.clone(), run.skipped.len()), (End::AtRest, 0));
    assert_eq!(statuses(&run)[0], (Some(409), true));
    assert_eq!(statuses(&run).last(), Some(&(Some(200), true)), "the host repeats the reconcile");
    let position = |kind: &dyn Fn(&EventKind) -> bool| run.events.iter().position(|event| kind(&event.kind));
    let is_by = |kind: &EventKind, author: &Author| matches!(kind, EventKind::Request(request) if request.author == *author);
    let other = Author::Actor(crate::world::OTHER_CLIENT.to_owned());
    let plugin = Author::Plugin("guest".to_owned());
    let (written, refused) = (position(&|kind| is_by(kind, &other)), position(&|kind| is_by(kind, &plugin)));
    assert!(written.is_some() && written < refused, "{written:?} {refused:?}");
    let object = run.objects.iter().find(|object| object.name == "a").expect("the ConfigMap");
    assert!(object.object["metadata"]["annotations"]["simulation.pilothouse.dev/touched"].is_string());
}

#[test]
fn another_client_cannot_write_what_does_not_exist() {
    let run = Stage::new(vec![create_map("a")]).run(vec![at_create(1, Fault::Interfere)]);
    assert_eq!((run.skipped.as_slice(), creates(&run)), (&[0][..], BOTH.map(str::to_owned).to_vec()));
}

#[test]
fn the_garbage_collector_waits_while_the_controllers_are_held() {
    let deleted_after = |deviations: Vec<Deviation>| {
        let run = Stage::new(vec![create_orphan("a")]).run(deviations);
        assert_eq!((run.end.clone(), run.skipped.len()), (End::AtRest, 0));
        let time = |verb: &str| {
            let of_map = |event: &&crate::run::Event| matches!(&event.kind, EventKind::Request(request) if request.verb == verb && request.name == "a");
            run.events.iter().find(of_map).map(|event| event.time).expect("an event")
        };
        time("delete") - time("create")
    };
    assert!(deleted_after(vec![]) < 1_000);
    let at = Moment::Step { actor: "user".to_owned(), step: 1 };
    let held = deleted_after(vec![Deviation { at, fault: Fault::HoldControllers(60_000) }]);
    assert!((60_000..61_000).contains(&held), "{held}");
}

#[test]
fn a_reload_runs_the_newer_version_and_later_hosts_do_too() {
    let map = |name: &str| {
        let leases = ["first", "second", "latest"].map(|field| (field, lease(&format!("{field}-{name}"))));
        create_map_with(name, &leases.each_ref().map(|(field, lease)| (*field, lease.as_str())))
    };
    let steps = || vec![map("a"), map("b")];
    let names = |run: &Run| {
        let created = creates(run).into_iter();
        created.map(|id| id.rsplit('/').next().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    let never = Stage::with_upgrade(steps()).run(vec![]);
    assert_eq!(names(&never), ["first-a", "second-a", "first-b", "second-b"]);
    let reload = || at_rest(2, Fault::Reload);
    let run = Stage::with_upgrade(steps()).run(vec![reload()]);
    assert_eq!(names(&run), ["first-a", "second-a", "latest-a", "first-b", "latest-b"]);
    assert_eq!((run.end.clone(), hosts(&run)), (End::AtRest, 1));
    let restarted =
        Stage::with_upgrade(steps()).run(vec![reload(), at_rest(3, Fault::Restart { past: vec![] })]);
    assert_eq!((restarted.end.clone(), hosts(&restarted)), (End::AtRest, 2));
    assert_eq!(names(&restarted), names(&run), "the file on the disk is the newer one");
}

#[test]
fn all_keys_are_reconciled_again_at_rest() {
    let run = Stage::new(vec![create_map("a"), create_map("b")]).run(vec![at_rest(3, Fault::RequeueAll)]);
    assert_eq!((run.end.clone(), hosts(&run), run.skipped.len()), (End::AtRest, 1, 0));
    assert_eq!(reasons(&run), ["created", "created", "resync", "resync"]);
}

fn reasons(run: &Run) -> Vec<String> {
    let started = run.events.iter().filter_map(|event| match &event.kind {
        EventKind::ReconcileStarted { reasons, attempt: 0, .. } => Some(reasons.join(",")),
        _ => None,
    });
    started.collect()
}

#[test]
fn a_plugin_without_reasons_does_not_learn_them_from_later_hosts_either() {
    let without_reasons = Deviation { at: Moment::Time(0), fault: Fault::WithholdReasons };
    let refused = at_create(1, Fault::Refuse(500));
    let restart = at_rest(2, Fault::Restart { past: vec![] });
    let run = Stage::new(vec![create_map("a")]).run(vec![without_reasons, refused, restart]);
    assert_eq!((run.end.clone(), hosts(&run), run.skipped.len()), (End::AtRest, 2, 0));
    // The first attempt, the retry, and the reconcile after the restart.
    assert_eq!(reasons(&run), ["other", "other", "other"]);
    assert_eq!(creates(&run), BOTH);
}

#[test]
fn a_step_that_is_left_out_is_not_taken_and_the_later_ones_are() {
    let mut stage = Stage::new(vec![create_map("a"), change_map("a", "x", "1"), create_map("b")]);
    let all = stage.run(vec![]);
    let step = |step| crate::plan::ActorStep { actor: "user".to_owned(), step };
    assert_eq!(all.steps, [1, 2, 3].map(step));
    let plan = crate::Plan { left_out: vec![step(2)], ..crate::Plan::new(1, vec![]) };
    let run = crate::Simulator::run(&mut stage.world, &plan).expect("a run");
    assert_eq!((run.end.clone(), run.steps.clone()), (End::AtRest, vec![step(1), step(3)]));
    let map = run.objects.iter().find(|object| object.name == "a").expect("the ConfigMap");
    assert!(map.object["data"].get("x").is_none(), "{map:?}");
    assert_eq!(creates(&run), creates(&all));
}

#[test]
fn a_moment_that_never_comes_is_skipped() {
    let run = Stage::new(vec![create_map("a")])
        .run(vec![at_create(9, Fault::CrashBefore), at_create(1, Fault::HoldWatch(5))]);
    assert_eq!(run.skipped, [0, 1]);
    assert_eq!(run.end, End::AtRest);
}

#[test]
fn without_guarantees_a_write_without_an_answer_is_repeated_at_once() {
    let retried_after = |stage: Stage| {
        let mut stage = stage;
        let run = stage.run(vec![at_create(1, Fault::LoseAnswer)]);
        assert_eq!((run.end.clone(), creates(&run).len()), (End::AtRest, 2));
        let started = run.events.iter().filter_map(|event| {
            matches!(event.kind, EventKind::ReconcileStarted { .. }).then_some(event.time)
        });
        let started: Vec<_> = started.collect();
        started[1] - started[0]
    };
    let steps = || vec![create_map("a")];
    assert!(retried_after(Stage::new(steps())) >= 1_000, "the host looks first whether it was carried out");
    assert!(retried_after(Stage::new(steps()).without_guarantees()) < 1_000);
}

#[test]
fn a_request_that_is_delayed_beyond_the_sender_s_patience_is_carried_out() {
    let run = Stage::new(vec![create_map("a")]).run(vec![at_create(1, Fault::DelayRequest(100_000))]);
    assert_eq!((run.end.clone(), run.skipped.len()), (End::AtRest, 0));
    let mut created = creates(&run);
    created.sort_unstable();
    assert_eq!(created, BOTH);
    // The host repeats the reconcile before the first request arrives.
    assert!(requests(&run).iter().any(|request| request.status == Some(409)), "{:?}", statuses(&run));
}
