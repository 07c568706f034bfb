//! Which versions run beside which others after which events.

use proptest::prelude::*;

use super::*;
use crate::config::canary_share::CanaryShare;

const PERIOD: Duration = Duration::from_secs(300);
const TIME: Timestamp = Timestamp::UNIX_EPOCH;

fn version(name: &str) -> KnownVersion {
    KnownVersion::for_test(name)
}

/// A plugin whose sidecar has `rollout.canary`.
struct Plugin {
    state: RolloutState,
    now: Instant,
    /// The counters of the versions beside canaries, and those of canaries.
    counters: [Counts; 2],
    probation: Option<Duration>,
    wants_canary: bool,
    file: KnownVersion,
    /// The canary that runs.
    canary: Option<KnownVersion>,
}

impl Plugin {
    /// A plugin whose first version runs.
    fn new() -> Self {
        let mut plugin = Self {
            state: RolloutState::default(),
            now: Instant::now(),
            counters: [Counts::default(); 2],
            probation: Some(PERIOD),
            wants_canary: true,
            file: version("none"),
            canary: None,
        };
        plugin.install("1");
        plugin
    }

    /// Loads what is to run, as the plugin's task does.
    fn load(&mut self) -> Installed {
        let plan = self.state.decide_versions(&self.file.digest, self.wants_canary);
        let stable = plan.replacement.unwrap_or_else(|| self.file.clone());
        let is_running = self.state.running.as_ref().is_some_and(|running| running.version == stable);
        let mut installed = Installed::default();
        if !is_running {
            let installation = Installation {
                version: stable,
                file_digest: self.file.digest.clone(),
                probation: self.probation,
                counts: self.counters[0],
                previous_backs_off: false,
                awaits_canary: plan.has_canary,
            };
            // A swap ends the canary.
            self.canary = None;
            installed = self.state.record_installation(&installation, self.now, TIME);
        } else if !plan.has_canary {
            self.state.record_unchanged(&self.file.digest);
            self.canary = None;
        }
        if plan.has_canary && self.canary.as_ref() != Some(&self.file) {
            self.canary = Some(self.file.clone());
            let share = CanaryShare::Percent(10);
            let start = CanaryStart {
                version: self.file.clone(),
                share,
                probation: self.probation,
                counts: self.counters[1],
            };
            self.state.record_canary(start, self.now);
        }
        installed
    }

    fn install(&mut self, name: &str) -> Installed {
        self.file = version(name);
        self.state.file_changed();
        self.load()
    }

    fn work(&mut self, stable: (u64, u64), canary: (u64, u64)) {
        for (counters, (reconciles, errors)) in self.counters.iter_mut().zip([stable, canary]) {
            *counters = counters.plus(Counts { reconciles, errors });
        }
    }

    /// Checks the canary after this time, and carries out what follows.
    fn check(&mut self, after: Duration, is_backing_off: bool) -> Option<Decision> {
        self.now += after;
        let sample = Sample { counts: self.counters[1], is_backing_off, ..Sample::default() };
        let decision = self.state.check_canary(&sample, self.counters[0], (self.now, TIME));
        if matches!(decision, Some(Decision::Pass | Decision::RollBack(_))) {
            self.load();
        }
        decision
    }

    fn choose(&mut self, digest: Option<&str>) -> Result<(), NoTarget> {
        let target = self.state.target(digest)?;
        self.state.choose(target, TIME);
        self.load();
        Ok(())
    }

    fn promote(&mut self) {
        let target = self.state.promotable().expect("a canary");
        self.state.choose(target, TIME);
        self.load();
    }

    /// Returns the version that runs, and its canary.
    fn running(&self) -> (&str, Option<&str>) {
        let running = &self.state.running.as_ref().expect("a version runs").version.version;
        (running, self.canary.as_ref().map(|canary| canary.version.as_str()))
    }
}

#[test]
fn the_first_version_is_no_canary_and_a_new_one_runs_beside_it() {
    let mut plugin = Plugin::new();
    assert_eq!(plugin.running(), ("1", None));
    plugin.install("2");
    assert_eq!(plugin.running(), ("1", Some("2")));
    assert_eq!(plugin.state.text(), None, "nobody has rolled it back");
    plugin.install("3");
    assert_eq!(plugin.running(), ("1", Some("3")), "a newer file replaces the canary");
    plugin.install("1");
    assert_eq!(plugin.running(), ("1", None), "the file is that of the running version");
    plugin.wants_canary = false;
    plugin.install("2");
    assert_eq!(plugin.running(), ("2", None));
}

#[test]
fn a_canary_that_passes_its_probation_is_promoted_and_is_in_no_other() {
    let mut plugin = Plugin::new();
    plugin.install("2");
    plugin.work((100, 0), (10, 0));
    assert_eq!(plugin.check(PERIOD / 2, false), Some(Decision::Wait));
    assert_eq!(plugin.check(PERIOD / 2, false), Some(Decision::Pass));
    assert_eq!((plugin.running(), plugin.state.probation.is_none()), (("2", None), true));
    assert_eq!(plugin.state.target(None), Ok(version("1")), "it can be rolled back");
}

#[test]
fn a_canary_that_has_reconciled_nothing_is_not_promoted() {
    let mut plugin = Plugin::new();
    plugin.install("2");
    assert_eq!(plugin.check(2 * PERIOD, false), Some(Decision::Wait));
    plugin.work((0, 0), (1, 0));
    assert_eq!(plugin.check(Duration::ZERO, false), Some(Decision::Pass));
}

#[test]
fn a_canary_that_fails_is_rolled_back_until_the_file_changes() {
    let mut plugin = Plugin::new();
    plugin.install("2");
    assert!(matches!(plugin.check(Duration::ZERO, true), Some(Decision::RollBack(_))));
    assert_eq!(plugin.running(), ("1", None));
    let text = plugin.state.text().expect("a problem");
    assert!(text.contains("runs in place of the file's") && text.contains("backs off"), "{text}");
    plugin.load();
    assert_eq!(plugin.running(), ("1", None), "a changed sidecar does not load it again");
    plugin.install("3");
    assert_eq!((plugin.running(), plugin.state.text()), (("1", Some("3")), None));
}

#[test]
fn the_canary_is_compared_with_the_version_beside_it() {
    let mut plugin = Plugin::new();
    plugin.work((1000, 0), (0, 0));
    plugin.install("2");
    plugin.work((1000, 400), (100, 22));
    assert_eq!(plugin.check(Duration::ZERO, false), Some(Decision::Wait), "20 % of the others failed, too");
    plugin.work((0, 0), (100, 40));
    assert!(matches!(plugin.check(Duration::ZERO, false), Some(Decision::RollBack(_))));
}

#[test]
fn without_a_probation_a_canary_runs_until_an_operator_decides() {
    let mut plugin = Plugin::new();
    plugin.probation = None;
    plugin.install("2");
    assert_eq!((plugin.check(PERIOD, true), plugin.running()), (None, ("1", Some("2"))));
    plugin.promote();
    assert_eq!((plugin.running(), plugin.state.promotable()), (("2", None), None));
    plugin.install("3");
    plugin.choose(None).expect("the version beside the canary");
    assert_eq!(plugin.running(), ("2", None));
    assert_eq!(plugin.state.held_back.as_ref().map(|held_back| held_back.is_automatic), Some(false));
    // By its digest, the version that was rolled back runs alone.
    plugin.choose(Some(&version("3").digest)).expect("it is the file's");
    assert_eq!((plugin.running(), plugin.state.text()), (("3", None), None));
}

#[test]
fn an_operator_names_versions_by_their_digests_beside_a_canary() {
    let mut plugin = Plugin::new();
    plugin.install("2");
    plugin.promote();
    plugin.install("3");
    assert_eq!(plugin.running(), ("2", Some("3")));
    plugin.choose(Some(&version("1").digest)).expect("it is kept");
    assert_eq!(plugin.running(), ("1", None));
    plugin.install("4");
    plugin.choose(Some(&version("4").digest)).expect("the canary");
    assert_eq!(plugin.running(), ("4", None));
    plugin.install("5");
    plugin.choose(Some(&version("4").digest)).expect("the version beside the canary");
    assert_eq!(plugin.running(), ("4", None));
}

#[test]
fn a_canary_whose_file_has_changed_is_not_promoted_by_the_host() {
    let mut plugin = Plugin::new();
    plugin.install("2");
    plugin.work((10, 0), (10, 0));
    // The newer file is refused.
    plugin.file = version("3");
    plugin.state.file_changed();
    assert_eq!(plugin.check(PERIOD, false), Some(Decision::Pass));
    assert_eq!(plugin.state.requested(), None);
}

#[test]
fn a_canary_whose_file_is_written_again_is_still_promoted() {
    let mut plugin = Plugin::new();
    plugin.install("2");
    plugin.work((10, 0), (10, 0));
    plugin.install("2");
    assert_eq!(plugin.check(PERIOD, false), Some(Decision::Pass));
    assert_eq!(plugin.running(), ("2", None));
}

#[test]
fn a_canary_that_is_rolled_back_during_its_promotion_is_not_to_run() {
    let mut plugin = Plugin::new();
    plugin.install("2");
    let digest = version("2").digest;
    let canary = plugin.state.promotable().expect("a canary");
    plugin.state.choose(canary, TIME);
    assert!(!plugin.state.is_held_back(&digest), "it is being loaded");
    let before = plugin.state.target(None).expect("the version before");
    plugin.state.choose(before, TIME);
    assert!(plugin.state.is_held_back(&digest) && !plugin.state.has_canary());
    let again = plugin.state.target(Some(&digest)).expect("the version of the file");
    plugin.state.choose(again, TIME);
    assert!(!plugin.state.is_held_back(&digest), "an operator has chosen it since");
}

#[test]
fn a_promotion_that_cannot_be_loaded_leaves_the_canary() {
    let mut plugin = Plugin::new();
    plugin.install("2");
    let target = plugin.state.promotable().expect("a canary");
    plugin.state.choose(target, TIME);
    plugin.state.give_up();
    assert!(plugin.state.has_canary());
    plugin.load();
    assert_eq!(plugin.running(), ("1", Some("2")));
    plugin.work((10, 0), (10, 0));
    assert_eq!(plugin.check(PERIOD, false), Some(Decision::Pass), "it is still in probation");
}

#[test]
fn a_restart_of_the_canary_for_its_sidecar_continues_its_probation() {
    let mut plugin = Plugin::new();
    plugin.install("2");
    plugin.work((0, 0), (100, 0));
    plugin.check(PERIOD / 2, false);
    // The swap to the running version with the new sidecar ends the canary, and it begins again.
    plugin.canary = None;
    plugin.load();
    assert_eq!(plugin.check(PERIOD / 2, false), Some(Decision::Pass));
}

#[derive(Clone, Debug)]
enum Event {
    Install(u8),
    Load,
    Choose(Option<u8>),
    Promote,
    BacksOff,
    Time(u64),
    Settings(bool, bool),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        (0..5_u8).prop_map(Event::Install),
        Just(Event::Load),
        proptest::option::of(0..5_u8).prop_map(Event::Choose),
        Just(Event::Promote),
        Just(Event::BacksOff),
        (0..400_u64).prop_map(Event::Time),
        (any::<bool>(), any::<bool>()).prop_map(|(canary, probation)| Event::Settings(canary, probation)),
    ];
    proptest::collection::vec(event, 0..60)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_canary_is_always_the_files_version_beside_another(events in events()) {
        let mut plugin = Plugin::new();
        for event in events {
            match event {
                Event::Install(number) => drop(plugin.install(&number.to_string())),
                Event::Load => drop(plugin.load()),
                Event::Choose(number) => {
                    let digest = number.map(|number| version(&number.to_string()).digest);
                    let _ = plugin.choose(digest.as_deref());
                }
                Event::Promote => {
                    if plugin.state.promotable().is_some() {
                        plugin.promote();
                        prop_assert_eq!(plugin.running(), (plugin.file.version.as_str(), None));
                    }
                }
                Event::BacksOff => {
                    plugin.check(Duration::ZERO, true);
                }
                Event::Time(seconds) => {
                    plugin.work((10, 0), (10, 0));
                    plugin.check(Duration::from_secs(seconds), false);
                }
                Event::Settings(canary, probation) => {
                    plugin.wants_canary = canary;
                    plugin.probation = probation.then_some(PERIOD);
                    plugin.load();
                }
            }
            let (running, canary) = plugin.running();
            prop_assert_ne!(Some(running), canary);
            prop_assert!(canary.is_none_or(|canary| canary == plugin.file.version));
            prop_assert_eq!(plugin.state.has_canary(), canary.is_some(), "the state knows what runs");
            prop_assert!(!(plugin.state.has_canary() && plugin.state.held_back.is_some()));
            prop_assert!(plugin.state.versions.len() <= MAX_VERSIONS);
            prop_assert!(plugin.state.versions.iter().any(|version| version.version == running));
        }
    }
}
