//! Sequences of events, writes and reconciles of one key, in paused time.

use pilothouse_model::{Object, ObjectKey, ResourceType};
use tokio::time::advance;

use super::detector::{MAX_ROUNDS, MIN_ROUNDS, WINDOW};
use super::*;

fn item() -> ReconcileKey {
    ReconcileKey { watch: "maps".into(), key: ObjectKey::new("n", "a") }
}

fn resource() -> ResourceType {
    ResourceType {
        group: String::new(),
        version: "v1".into(),
        kind: "ConfigMap".into(),
        plural: "configmaps".into(),
        namespaced: true,
    }
}

fn map(name: &str, version: u32, mode: &str) -> Object {
    Object::from_json(format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}","namespace":"n","uid":"u-{name}",
            "resourceVersion":"{version}"}},"data":{{"mode":"{mode}"}}}}"#
    ))
    .expect("an object")
}

/// The plugin receives the event of a write that gave the object this resource version.
fn receive(plugin: &HotLoops, version: u32, mode: &str) {
    let (old, new) = (map("a", version - 1, ""), map("a", version, mode));
    plugin.record_event(&item(), &Notification::Updated { old, new });
}

/// One plugin, and the current resource version of the object that it writes.
struct Scenario {
    plugin: HotLoops,
    authors: Authors,
    version: u32,
}

impl Scenario {
    fn new() -> Self {
        let authors = Authors::default();
        Self { plugin: HotLoops::new("flipper".into(), authors.clone()), authors, version: 1 }
    }

    /// Somebody writes the object, and the plugin receives the event.
    fn event(&mut self, author: Option<&str>, mode: &str) {
        self.version += 1;
        if let Some(author) = author {
            let new = map("a", self.version, mode);
            self.authors.record_write(&author.into(), &WriteOutcome::Object(resource(), new));
        }
        receive(&self.plugin, self.version, mode);
    }

    /// A reconcile that writes this mode, or nothing. The event comes before the answer to the write, which can happen.
    fn reconcile(&mut self, writes: Option<&str>) -> (Option<Duration>, Option<HotLoop>) {
        let wait = self.plugin.begin(&item(), &[Reason::Updated]);
        if wait.is_some() {
            return (wait, None);
        }
        if let Some(mode) = writes {
            self.event(None, mode);
            let written = WriteOutcome::Object(resource(), map("a", self.version, mode));
            self.plugin.record_write(Some(&item()), &written);
        }
        (None, self.plugin.end(&item()))
    }

    /// Writes two modes in turn until the loop is found, and returns the number of rounds before.
    fn flip_until_found(&mut self) -> (u32, HotLoop) {
        for round in 0..100 {
            let mode = if round % 2 == 0 { "on" } else { "off" };
            if let (_, Some(found)) = self.reconcile(Some(mode)) {
                return (round, found);
            }
        }
        panic!("never found");
    }
}

#[tokio::test(start_paused = true)]
async fn a_field_that_flips_is_reported_and_delayed_longer_with_each_round() {
    let mut scenario = Scenario::new();
    let (round, found) = scenario.flip_until_found();
    let expected = (MIN_ROUNDS + 1, MIN_ROUNDS);
    assert_eq!((round, found.rounds), expected, "the event of the first write was not expected yet");
    assert_eq!((found.fields.as_slice(), found.is_new), (["/data/mode".to_owned()].as_slice(), true));
    let text = found.to_string();
    assert_eq!(
        text,
        "hot loop: its own writes to n/a start it again, 10 times now; /data/mode changes each time"
    );
    assert_eq!(scenario.plugin.status_text(), Some(text));
    let mut waits = Vec::new();
    for mode in ["on", "off", "on"] {
        let (wait, _) = scenario.reconcile(Some(mode));
        waits.push(wait.expect("a wait"));
        // Another event of the same kind does not shorten the delay.
        assert_eq!(scenario.reconcile(Some(mode)).0, wait);
        advance(wait.expect("a wait")).await;
        let (wait, found) = scenario.reconcile(Some(mode));
        assert!(wait.is_none() && found.is_some_and(|found| !found.is_new));
    }
    assert_eq!(waits, [1, 2, 4].map(Duration::from_secs));
}

#[tokio::test(start_paused = true)]
async fn a_loop_ends_with_a_reconcile_that_writes_nothing() {
    let mut scenario = Scenario::new();
    scenario.flip_until_found();
    let (wait, _) = scenario.reconcile(None);
    advance(wait.expect("a wait")).await;
    assert!(scenario.reconcile(None).1.is_none());
    assert_eq!(scenario.plugin.status_text(), None);
    scenario.event(None, "theirs");
    assert!(scenario.reconcile(Some("on")).0.is_none(), "the next reconcile is not delayed");
    assert!(scenario.reconcile(None).0.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_change_by_somebody_else_is_not_delayed() {
    let mut scenario = Scenario::new();
    scenario.flip_until_found();
    assert!(scenario.reconcile(Some("on")).0.is_some());
    scenario.event(None, "theirs");
    assert!(scenario.reconcile(Some("on")).0.is_none());
}

#[tokio::test(start_paused = true)]
async fn progress_is_not_a_loop_unless_it_never_ends() {
    let mut scenario = Scenario::new();
    for step in 0..MAX_ROUNDS {
        assert!(scenario.reconcile(Some(&step.to_string())).1.is_none(), "step {step}");
    }
    scenario.reconcile(Some("another"));
    let (_, found) = scenario.reconcile(Some("and another"));
    assert!(found.is_none() || found.is_some_and(|found| found.rounds >= MAX_ROUNDS));
}

#[tokio::test(start_paused = true)]
async fn a_status_write_after_each_change_by_others_is_not_a_loop() {
    let mut scenario = Scenario::new();
    for round in 0..200_u32 {
        scenario.event(None, &round.to_string());
        assert!(scenario.reconcile(Some(&format!("seen {round}"))).1.is_none());
        if round % 3 != 0 {
            // In the other rounds, the event of the own write comes together with the next change.
            assert!(scenario.reconcile(None).1.is_none());
        }
    }
    assert_eq!(scenario.plugin.status_text(), None);
}

#[tokio::test(start_paused = true)]
async fn rounds_with_long_pauses_between_them_are_not_a_loop() {
    let mut scenario = Scenario::new();
    for round in 0..100 {
        advance(WINDOW * 2).await;
        assert!(scenario.reconcile(Some(if round % 2 == 0 { "on" } else { "off" })).1.is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn two_plugins_that_react_to_each_other_are_both_reported() {
    let mut scenario = Scenario::new();
    let mut found = None;
    for _ in 0..30 {
        found = scenario.reconcile(Some("mine")).1;
        if found.is_some() {
            break;
        }
        assert!(scenario.reconcile(None).1.is_none(), "the event of the own write leaves nothing to do");
        scenario.event(Some("other_plugin"), "theirs");
    }
    let text = found.expect("a loop").to_string();
    assert!(text.contains("this plugin and other_plugin") && text.contains("/data/mode"), "{text}");
}

/// On a busy machine the cache is ahead of the events. A reconcile that the plugin's own write triggered then already reacts to the other plugin's
/// next write, and that write's event leaves nothing to do.
#[tokio::test(start_paused = true)]
async fn two_plugins_are_reported_even_if_each_reacts_before_the_event() {
    let Scenario { plugin, authors, .. } = Scenario::new();
    let event = |version, mode| receive(&plugin, version, mode);
    let mut found = None;
    for (theirs, mine) in (0..30).map(|round| (2 * round + 2, 2 * round + 3)) {
        authors.record_write(
            &"other_plugin".into(),
            &WriteOutcome::Object(resource(), map("a", theirs, "theirs")),
        );
        assert!(plugin.begin(&item(), &[Reason::Updated]).is_none());
        plugin.record_write(Some(&item()), &WriteOutcome::Object(resource(), map("a", mine, "mine")));
        found = plugin.end(&item());
        if found.is_some() {
            break;
        }
        event(theirs, "theirs");
        assert!(plugin.begin(&item(), &[Reason::Updated]).is_none());
        assert!(plugin.end(&item()).is_none(), "there is nothing to do");
        event(mine, "mine");
    }
    let text = found.expect("a loop").to_string();
    assert!(text.contains("this plugin and other_plugin") && text.contains("/data/mode"), "{text}");
}

/// The watch event of the other plugin's write can come before the other plugin has the response. Its author is not known yet when the reconcile begins.
#[tokio::test(start_paused = true)]
async fn two_plugins_are_reported_even_if_the_author_is_known_only_during_the_reconcile() {
    let Scenario { plugin, authors, .. } = Scenario::new();
    let event = |version, mode| receive(&plugin, version, mode);
    let mut found = None;
    for (theirs, mine) in (0..30).map(|round| (2 * round + 2, 2 * round + 3)) {
        event(theirs, "theirs");
        assert!(plugin.begin(&item(), &[Reason::Updated]).is_none());
        authors.record_write(
            &"other_plugin".into(),
            &WriteOutcome::Object(resource(), map("a", theirs, "theirs")),
        );
        plugin.record_write(Some(&item()), &WriteOutcome::Object(resource(), map("a", mine, "mine")));
        found = plugin.end(&item());
        if found.is_some() {
            break;
        }
        event(mine, "mine");
        assert!(plugin.begin(&item(), &[Reason::Updated]).is_none());
        assert!(plugin.end(&item()).is_none(), "there is nothing to do");
    }
    let text = found.expect("a loop").to_string();
    assert!(text.contains("this plugin and other_plugin") && text.contains("/data/mode"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn keys_are_tracked_only_for_a_while_after_a_write_and_up_to_a_limit() {
    let mut scenario = Scenario::new();
    scenario.event(None, "theirs");
    scenario.reconcile(None);
    assert!(scenario.plugin.is_idle());
    scenario.reconcile(Some("on"));
    assert!(!scenario.plugin.is_idle());
    advance(WINDOW * 2).await;
    scenario.plugin.forget_expired();
    assert!(scenario.plugin.is_idle());
    for number in 0..MAX_KEYS * 2 {
        let item = ReconcileKey { watch: "maps".into(), key: ObjectKey::new("n", &number.to_string()) };
        scenario.plugin.record_write(Some(&item), &WriteOutcome::Object(resource(), map("a", 1, "")));
    }
    assert_eq!(scenario.plugin.keys.lock().len(), MAX_KEYS);
}

#[tokio::test(start_paused = true)]
async fn states_are_charged_and_without_room_for_them_a_loop_is_found_later() {
    let memory = HostMemory::default();
    let mut scenario = Scenario::new();
    scenario.plugin = scenario.plugin.charged_to(&memory);
    scenario.flip_until_found();
    assert!(memory.used() > 0);
    scenario.plugin.forget_all();
    assert_eq!(memory.used(), 0);

    memory.set_limit(100);
    let (_, found) = scenario.flip_until_found();
    assert_eq!((found.rounds, memory.used()), (MAX_ROUNDS, 0));
    assert!(found.object.is_none() && found.fields.is_empty());
}

#[tokio::test(start_paused = true)]
async fn large_states_are_not_compared() {
    let mut scenario = Scenario::new();
    let (on, off) = ("on".repeat(200_000), "off".repeat(200_000));
    let mode = |round: u32| if round.is_multiple_of(2) { on.as_str() } else { off.as_str() };
    let found = (0..100).find_map(|round| scenario.reconcile(Some(mode(round))).1).expect("a loop");
    assert_eq!(found.rounds, MAX_ROUNDS);
    assert!(found.object.is_none() && found.fields.is_empty());
}
