use pilothouse_model::{Object, ObjectKey, ResourceType};
use tokio::time::advance;

use super::chain::{FLIPS, ROUNDS, WINDOW};
use super::*;

fn item() -> Item {
    Item { watch: "maps".into(), key: ObjectKey::new("n", "a") }
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

/// One plugin and the object that it is about, at its version.
struct Scene {
    plugin: HotLoops,
    authors: Authors,
    version: u32,
}

impl Scene {
    fn new() -> Self {
        let authors = Authors::default();
        Self { plugin: HotLoops::new("flipper".into(), authors.clone()), authors, version: 1 }
    }

    /// Somebody writes the object, and its event comes.
    fn event(&mut self, author: Option<&str>, mode: &str) {
        self.version += 1;
        let new = map("a", self.version, mode);
        if let Some(author) = author {
            self.authors.wrote(&author.into(), &Written::Object(resource(), new.clone()));
        }
        let old = map("a", self.version - 1, "");
        self.plugin.woken(&item(), &Notification::Updated { old, new });
    }

    /// A reconcile that writes this mode, or nothing; the event comes before the answer, as it may.
    fn reconcile(&mut self, writes: Option<&str>) -> (Option<Duration>, Option<HotLoop>) {
        let wait = self.plugin.begin(&item(), &[Reason::Updated]);
        if wait.is_some() {
            return (wait, None);
        }
        if let Some(mode) = writes {
            self.event(None, mode);
            let written = Written::Object(resource(), map("a", self.version, mode));
            self.plugin.wrote(Some(&item()), &written);
        }
        (None, self.plugin.end(&item()))
    }

    /// Flips until the loop is found, and says after how many rounds.
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
async fn a_field_that_flips_is_found_named_and_slowed_down_more_and_more() {
    let mut scene = Scene::new();
    let (round, found) = scene.flip_until_found();
    assert_eq!((round, found.rounds), (FLIPS + 1, FLIPS), "the first write's own event was not expected yet");
    assert_eq!((found.fields.as_slice(), found.is_new), (["/data/mode".to_owned()].as_slice(), true));
    let text = found.to_string();
    assert_eq!(
        text,
        "hot loop: its own writes to n/a start it again, 10 times now; /data/mode changes each time"
    );
    assert_eq!(scene.plugin.trouble(), Some(text));
    let mut waits = Vec::new();
    for mode in ["on", "off", "on"] {
        let (wait, _) = scene.reconcile(Some(mode));
        waits.push(wait.expect("a wait"));
        // Another event of the same kind does not shorten it.
        assert_eq!(scene.reconcile(Some(mode)).0, wait);
        advance(wait.expect("a wait")).await;
        let (wait, again) = scene.reconcile(Some(mode));
        assert!(wait.is_none() && again.is_some_and(|again| !again.is_new));
    }
    assert_eq!(waits, [1, 2, 4].map(Duration::from_secs));
}

#[tokio::test(start_paused = true)]
async fn a_loop_ends_with_a_reconcile_that_writes_nothing() {
    let mut scene = Scene::new();
    scene.flip_until_found();
    let (wait, _) = scene.reconcile(None);
    advance(wait.expect("a wait")).await;
    assert!(scene.reconcile(None).1.is_none());
    assert_eq!(scene.plugin.trouble(), None);
    scene.event(None, "theirs");
    assert!(scene.reconcile(Some("on")).0.is_none(), "the next work does not wait");
    assert!(scene.reconcile(None).0.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_change_by_somebody_else_does_not_wait() {
    let mut scene = Scene::new();
    scene.flip_until_found();
    assert!(scene.reconcile(Some("on")).0.is_some());
    scene.event(None, "theirs");
    assert!(scene.reconcile(Some("on")).0.is_none());
}

#[tokio::test(start_paused = true)]
async fn steps_towards_something_are_no_loop_unless_they_have_no_end() {
    let mut scene = Scene::new();
    for step in 0..ROUNDS {
        assert!(scene.reconcile(Some(&step.to_string())).1.is_none(), "step {step}");
    }
    scene.reconcile(Some("another"));
    let (_, found) = scene.reconcile(Some("and another"));
    assert!(found.is_none() || found.is_some_and(|found| found.rounds >= ROUNDS));
}

#[tokio::test(start_paused = true)]
async fn a_status_write_after_each_change_of_others_is_no_loop() {
    let mut scene = Scene::new();
    for round in 0..200_u32 {
        scene.event(None, &round.to_string());
        assert!(scene.reconcile(Some(&format!("seen {round}"))).1.is_none());
        if round % 3 != 0 {
            // Sometimes its own event comes together with the next change.
            assert!(scene.reconcile(None).1.is_none());
        }
    }
    assert_eq!(scene.plugin.trouble(), None);
}

#[tokio::test(start_paused = true)]
async fn rounds_with_long_pauses_between_them_are_no_loop() {
    let mut scene = Scene::new();
    for round in 0..100 {
        advance(WINDOW * 2).await;
        assert!(scene.reconcile(Some(if round % 2 == 0 { "on" } else { "off" })).1.is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn two_plugins_that_answer_each_other_are_found_and_both_named() {
    let mut scene = Scene::new();
    let mut found = None;
    for _ in 0..30 {
        found = scene.reconcile(Some("mine")).1;
        if found.is_some() {
            break;
        }
        assert!(scene.reconcile(None).1.is_none(), "its own event finds nothing to do");
        scene.event(Some("rival"), "theirs");
    }
    let text = found.expect("a loop").to_string();
    assert!(text.contains("this plugin and rival") && text.contains("/data/mode"), "{text}");
}

/// On a busy machine the cache is ahead of the events: a reconcile that the plugin's own write has started finds the rival's
/// next one, and the event of that finds it answered.
#[tokio::test(start_paused = true)]
async fn two_plugins_are_found_though_each_answers_before_it_was_told() {
    let Scene { plugin, authors, .. } = Scene::new();
    let told = |version: u32, mode: &str| {
        let (old, new) = (map("a", version - 1, ""), map("a", version, mode));
        plugin.woken(&item(), &Notification::Updated { old, new });
    };
    let mut found = None;
    for (theirs, mine) in (0..30).map(|round| (2 * round + 2, 2 * round + 3)) {
        authors.wrote(&"rival".into(), &Written::Object(resource(), map("a", theirs, "theirs")));
        assert!(plugin.begin(&item(), &[Reason::Updated]).is_none());
        plugin.wrote(Some(&item()), &Written::Object(resource(), map("a", mine, "mine")));
        found = plugin.end(&item());
        if found.is_some() {
            break;
        }
        told(theirs, "theirs");
        assert!(plugin.begin(&item(), &[Reason::Updated]).is_none());
        assert!(plugin.end(&item()).is_none(), "it finds nothing to do");
        told(mine, "mine");
    }
    let text = found.expect("a loop").to_string();
    assert!(text.contains("this plugin and rival") && text.contains("/data/mode"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn plugins_that_write_nothing_and_keys_at_rest_are_not_kept() {
    let mut scene = Scene::new();
    scene.event(None, "theirs");
    scene.reconcile(None);
    assert!(scene.plugin.is_idle());
    scene.reconcile(Some("on"));
    assert!(!scene.plugin.is_idle());
    advance(WINDOW * 2).await;
    scene.plugin.forget_old();
    assert!(scene.plugin.is_idle());
    for number in 0..KEYS * 2 {
        let item = Item { watch: "maps".into(), key: ObjectKey::new("n", &number.to_string()) };
        scene.plugin.wrote(Some(&item), &Written::Object(resource(), map("a", 1, "")));
    }
    assert_eq!(scene.plugin.chains.lock().len(), KEYS);
}

#[tokio::test(start_paused = true)]
async fn states_are_charged_and_without_room_for_them_a_loop_is_found_by_its_length() {
    let memory = HostMemory::default();
    let mut scene = Scene::new();
    scene.plugin = scene.plugin.charged_to(&memory);
    scene.flip_until_found();
    assert!(memory.used() > 0);
    scene.plugin.forget_all();
    assert_eq!(memory.used(), 0);

    memory.set_limit(100);
    let (_, found) = scene.flip_until_found();
    assert_eq!((found.rounds, memory.used()), (ROUNDS, 0));
    assert!(found.object.is_none() && found.fields.is_empty());
}
