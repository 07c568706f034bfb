//! Which code runs after which events.

use proptest::prelude::*;

use super::*;

const PERIOD: Duration = Duration::from_secs(300);

fn version(name: &str) -> KnownVersion {
    KnownVersion::for_test(name)
}

/// A plugin whose file and versions are named by short texts.
struct Plugin {
    state: RolloutState,
    now: Instant,
    counters: Counts,
    probation: Option<Duration>,
    previous_backs_off: bool,
    file: KnownVersion,
}

impl Plugin {
    fn new() -> Self {
        Self {
            state: RolloutState::default(),
            now: Instant::now(),
            counters: Counts::default(),
            probation: Some(PERIOD),
            previous_backs_off: false,
            file: version("none"),
        }
    }

    /// Loads what is to run, as the plugin's task does.
    fn load(&mut self) -> Installed {
        let code = self.state.replacement(&self.file.digest).unwrap_or_else(|| self.file.clone());
        let installation = Installation {
            version: code,
            file_digest: self.file.digest.clone(),
            probation: self.probation,
            counts: self.counters,
            previous_backs_off: self.previous_backs_off,
            awaits_canary: false,
        };
        self.state.record_installation(&installation, self.now, Timestamp::UNIX_EPOCH)
    }

    fn install(&mut self, name: &str) -> Installed {
        self.file = version(name);
        self.state.file_changed();
        self.load()
    }

    fn work(&mut self, reconciles: u64, errors: u64) {
        self.counters = self.counters.plus(Counts { reconciles, errors });
    }

    /// Checks the running version after this time.
    fn check(&mut self, after: Duration, is_backing_off: bool) -> Option<Decision> {
        self.now += after;
        let sample = Sample { counts: self.counters, is_backing_off, ..Sample::default() };
        self.state.check(&sample, self.now)
    }

    fn running(&self) -> &str {
        &self.state.running.as_ref().expect("a version runs").version.version
    }

    fn versions(&self) -> Vec<&str> {
        self.state.versions.iter().map(|version| version.version.as_str()).collect()
    }

    fn roll_back(&mut self, digest: Option<&str>) -> Result<Installed, NoTarget> {
        let target = self.state.target(digest)?;
        self.state.request(target);
        Ok(self.load())
    }
}

fn is_rolled_back(decision: Option<Decision>) -> bool {
    matches!(decision, Some(Decision::RollBack(_)))
}

#[test]
fn a_version_that_backs_off_is_rolled_back_until_the_file_changes() {
    let mut plugin = Plugin::new();
    assert_eq!(plugin.install("1"), Installed::default());
    assert_eq!(plugin.install("2").probation, Some((PERIOD, version("1"))));
    assert!(is_rolled_back(plugin.check(Duration::from_secs(1), true)));
    assert_eq!(plugin.running(), "2", "it runs until the other one is loaded");
    let installed = plugin.load();
    assert_eq!(installed.rollback, Some(("it backs off after faults".to_owned(), true)));
    assert_eq!((plugin.check(PERIOD, true), plugin.running()), (None, "1"));
    // A changed sidecar loads the files again.
    assert_eq!(plugin.load(), Installed::default());
    assert_eq!(plugin.running(), "1");
    let text = plugin.state.text().expect("a problem");
    assert!(text.contains("runs in place of the file's") && text.contains("backs off"), "{text}");
    // Another file, and then the same again.
    assert_eq!(plugin.install("3").probation, Some((PERIOD, version("1"))));
    assert_eq!((plugin.running(), plugin.state.text()), ("3", None));
    plugin.install("2");
    assert_eq!(plugin.running(), "2");
}

#[test]
fn a_version_that_passes_stays() {
    let mut plugin = Plugin::new();
    plugin.install("1");
    plugin.install("2");
    assert_eq!(plugin.check(PERIOD / 2, false), Some(Decision::Wait));
    assert_eq!(plugin.check(PERIOD / 2, false), Some(Decision::Pass));
    assert_eq!((plugin.check(PERIOD, true), plugin.running()), (None, "2"));
}

#[test]
fn the_ratio_of_errors_is_compared_with_that_of_the_version_before() {
    let mut plugin = Plugin::new();
    plugin.install("1");
    plugin.work(100, 50);
    plugin.install("2");
    plugin.work(100, 54);
    assert_eq!(plugin.check(Duration::ZERO, false), Some(Decision::Wait));
    plugin.work(100, 100);
    assert!(is_rolled_back(plugin.check(Duration::ZERO, false)));
}

#[test]
fn a_file_that_is_replaced_in_its_probation_is_followed_by_one_for_the_next() {
    let mut plugin = Plugin::new();
    plugin.install("1");
    plugin.install("2");
    // Version 2 has not proved itself, so 3 is compared with 1.
    plugin.previous_backs_off = true;
    assert_eq!(plugin.install("3").probation, Some((PERIOD, version("1"))));
    assert!(is_rolled_back(plugin.check(Duration::ZERO, true)));
    plugin.load();
    assert_eq!(plugin.running(), "1");
}

#[test]
fn a_newer_file_wins_over_a_decision_about_an_older_one() {
    let mut plugin = Plugin::new();
    plugin.install("1");
    plugin.install("2");
    assert!(is_rolled_back(plugin.check(Duration::ZERO, true)));
    plugin.install("3");
    assert_eq!((plugin.running(), plugin.state.requested()), ("3", None));
}

#[test]
fn a_version_is_rolled_back_although_a_newer_file_is_refused() {
    let mut plugin = Plugin::new();
    plugin.install("1");
    plugin.install("2");
    assert!(is_rolled_back(plugin.check(Duration::ZERO, true)));
    assert_eq!(plugin.check(Duration::ZERO, true), Some(Decision::Wait), "the other version is being loaded");
    plugin.file = version("3");
    plugin.state.file_changed();
    plugin.state.give_up();
    assert!(is_rolled_back(plugin.check(Duration::ZERO, true)));
    plugin.load();
    assert_eq!(plugin.running(), "1");
    assert_eq!(
        plugin.state.held_back.as_ref().map(|held_back| &held_back.digest),
        Some(&version("3").digest)
    );
}

#[test]
fn a_version_is_rolled_back_while_a_newer_file_is_being_loaded_and_that_one_follows() {
    let mut plugin = Plugin::new();
    plugin.install("1");
    plugin.install("2");
    // The load of 3 waits, and 2 begins to fail.
    plugin.file = version("3");
    plugin.state.file_changed();
    assert!(is_rolled_back(plugin.check(Duration::ZERO, true)));
    let installed = plugin.load();
    assert_eq!((plugin.running(), installed.awaits_file), ("1", true));
    assert_eq!(installed.rollback, Some(("it backs off after faults".to_owned(), true)));
    assert_eq!(plugin.state.text(), None, "nothing is decided about 3");
    let installed = plugin.load();
    assert_eq!((plugin.running(), installed.awaits_file), ("3", false));
    assert_eq!(installed.probation, Some((PERIOD, version("1"))));
}

#[test]
fn a_changed_sidecar_that_is_being_loaded_does_not_run_a_version_again_that_was_rolled_back() {
    let mut plugin = Plugin::new();
    plugin.install("1");
    plugin.install("2");
    // The file was written again with the same content.
    plugin.state.file_changed();
    assert!(is_rolled_back(plugin.check(Duration::ZERO, true)));
    let installed = plugin.load();
    assert_eq!((plugin.running(), installed.awaits_file), ("1", false));
    plugin.load();
    assert_eq!(plugin.running(), "1");
}

#[test]
fn a_newer_file_is_loaded_if_the_version_to_roll_back_to_cannot_be() {
    let mut plugin = Plugin::new();
    plugin.install("1");
    plugin.install("2");
    plugin.file = version("3");
    plugin.state.file_changed();
    assert!(is_rolled_back(plugin.check(Duration::ZERO, true)));
    assert!(plugin.state.give_up(), "the load of 3 was cancelled");
    assert!(!plugin.state.give_up(), "3 was refused, too");
    assert_eq!((plugin.check(Duration::ZERO, true), plugin.running()), (None, "2"));
}

#[test]
fn without_a_better_version_there_is_no_probation() {
    let mut plugin = Plugin::new();
    plugin.install("1");
    plugin.previous_backs_off = true;
    assert_eq!(plugin.install("2").probation, None);
    plugin.previous_backs_off = false;
    plugin.probation = None;
    assert_eq!(plugin.install("3").probation, None);
    assert_eq!(plugin.check(PERIOD, true), None);
}

#[test]
fn a_sidecar_ends_or_changes_a_probation() {
    let mut plugin = Plugin::new();
    plugin.install("1");
    plugin.install("2");
    plugin.probation = Some(2 * PERIOD);
    assert_eq!(plugin.load().probation, None, "it has begun before");
    assert_eq!(plugin.check(PERIOD, false), Some(Decision::Wait));
    plugin.probation = None;
    plugin.load();
    assert_eq!(plugin.check(PERIOD, true), None);
}

#[test]
fn an_operator_rolls_back_and_forward() {
    let mut plugin = Plugin::new();
    assert_eq!(plugin.state.target(None), Err(NoTarget::NotRunning));
    plugin.install("1");
    assert_eq!(plugin.state.target(None), Err(NoTarget::NoOlder));
    plugin.install("2");
    plugin.install("3");
    let installed = plugin.roll_back(None).expect("2 is older");
    assert_eq!(
        (installed.rollback.map(|(_, is_automatic)| is_automatic), plugin.running()),
        (Some(false), "2")
    );
    assert_eq!(plugin.check(PERIOD, true), None, "an older version is not in probation");
    plugin.roll_back(None).expect("1 is older still");
    assert_eq!((plugin.running(), plugin.versions()), ("1", vec!["3", "2", "1"]));
    assert_eq!(plugin.state.target(None), Err(NoTarget::NoOlder));
    // Forward again, to the version of the file.
    let newest = version("3").digest;
    plugin.roll_back(Some(&newest[..8])).expect("3 is kept");
    assert_eq!((plugin.running(), plugin.state.text()), ("3", None));
    assert_eq!(plugin.state.target(Some(&newest)), Err(NoTarget::Runs));
    assert_eq!(plugin.state.target(Some(&format!("sha256:{newest}"))), Err(NoTarget::Runs));
    for unknown in ["", &newest[..5], "ffffffffffff"] {
        assert!(matches!(plugin.state.target(Some(unknown)), Err(NoTarget::Unknown(_))), "{unknown}");
    }
}

#[test]
fn a_version_that_was_rolled_back_is_not_the_one_to_roll_back_to() {
    let mut plugin = Plugin::new();
    plugin.install("1");
    plugin.install("2");
    plugin.check(Duration::ZERO, true);
    plugin.load();
    assert_eq!((plugin.running(), plugin.versions()), ("1", vec!["2", "1"]));
    assert_eq!(plugin.state.target(None), Err(NoTarget::NoOlder), "not forward to 2");
    // By its digest, an operator can run it again.
    plugin.roll_back(Some(&version("2").digest)).expect("it is kept");
    assert_eq!((plugin.running(), plugin.state.text()), ("2", None));
}

#[test]
fn a_choice_is_dropped_if_the_file_changes_or_the_version_cannot_be_loaded() {
    let mut plugin = Plugin::new();
    plugin.install("1");
    plugin.install("2");
    plugin.state.request(version("1"));
    plugin.install("3");
    assert_eq!(plugin.running(), "3");
    plugin.state.request(version("1"));
    plugin.state.give_up();
    plugin.load();
    assert_eq!(plugin.running(), "3");
}

#[test]
fn a_choice_of_an_operator_that_cannot_be_loaded_does_not_end_the_probation() {
    let mut plugin = Plugin::new();
    plugin.install("1");
    plugin.install("2");
    plugin.state.request(version("1"));
    plugin.state.give_up();
    assert_eq!(plugin.check(Duration::ZERO, false), Some(Decision::Wait));
    assert!(is_rolled_back(plugin.check(Duration::ZERO, true)));
    plugin.load();
    assert_eq!(plugin.running(), "1");
}

#[test]
fn a_version_is_not_rolled_back_again_if_the_one_before_cannot_be_loaded() {
    let mut plugin = Plugin::new();
    plugin.install("1");
    plugin.install("2");
    assert!(is_rolled_back(plugin.check(Duration::ZERO, true)));
    plugin.state.give_up();
    assert_eq!(plugin.check(Duration::ZERO, true), None, "it is not tried again and again");
    plugin.load();
    assert_eq!(plugin.running(), "2");
}

#[test]
fn a_choice_made_during_a_swap_is_not_lost() {
    let mut plugin = Plugin::new();
    plugin.install("1");
    plugin.install("2");
    // The load of the file had begun before the operator chose.
    let file = version("3");
    plugin.file = file.clone();
    plugin.state.request(version("1"));
    let installation = Installation {
        version: file.clone(),
        file_digest: file.digest,
        probation: None,
        counts: Counts::default(),
        previous_backs_off: false,
        awaits_canary: false,
    };
    plugin.state.record_installation(&installation, plugin.now, Timestamp::UNIX_EPOCH);
    assert_eq!((plugin.running(), plugin.state.requested()), ("3", Some(&version("1"))));
    plugin.load();
    assert_eq!((plugin.running(), plugin.state.requested()), ("1", None));
}

#[test]
fn a_file_with_the_running_version_is_not_held_back() {
    let mut plugin = Plugin::new();
    plugin.install("1");
    plugin.install("2");
    plugin.roll_back(None).expect("1 is older");
    // The files lead to the running version, so nothing is installed.
    plugin.file = version("1");
    assert_eq!(plugin.state.replacement(&plugin.file.digest), None);
    plugin.state.record_unchanged(&version("1").digest);
    assert_eq!(plugin.state.text(), None);
}

#[test]
fn a_version_whose_code_is_not_kept_ends_the_probation() {
    let mut plugin = Plugin::new();
    plugin.install("1");
    plugin.install("2");
    assert!(!plugin.state.forget(&version("3").digest));
    assert!(plugin.state.forget(&version("1").digest));
    assert_eq!((plugin.check(PERIOD, true), plugin.versions()), (None, vec!["2"]));
}

/// What may happen to a plugin.
#[derive(Clone, Debug)]
enum Event {
    Install(u8),
    Reload,
    RollBack(Option<u8>),
    BacksOff,
    Time(u64),
    Settings(bool),
    NotKept(u8),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        (0..5_u8).prop_map(Event::Install),
        Just(Event::Reload),
        proptest::option::of(0..5_u8).prop_map(Event::RollBack),
        Just(Event::BacksOff),
        (0..400_u64).prop_map(Event::Time),
        any::<bool>().prop_map(Event::Settings),
        (0..5_u8).prop_map(Event::NotKept),
    ];
    proptest::collection::vec(event, 0..60)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_number_of_versions_is_bounded_and_the_needed_ones_are_kept(events in events()) {
        let mut plugin = Plugin::new();
        plugin.install("0");
        for event in events {
            match event {
                Event::Install(number) => drop(plugin.install(&number.to_string())),
                Event::Reload => drop(plugin.load()),
                Event::RollBack(number) => {
                    let digest = number.map(|number| version(&number.to_string()).digest);
                    let _ = plugin.roll_back(digest.as_deref());
                }
                Event::BacksOff => {
                    if is_rolled_back(plugin.check(Duration::ZERO, true)) {
                        plugin.load();
                        prop_assert!(plugin.running() != plugin.file.version);
                    }
                }
                Event::Time(seconds) => {
                    plugin.check(Duration::from_secs(seconds), false);
                }
                Event::Settings(has_probation) => plugin.probation = has_probation.then_some(PERIOD),
                Event::NotKept(number) => {
                    let number = number.to_string();
                    if plugin.running() != number {
                        plugin.state.forget(&version(&number).digest);
                    }
                }
            }
            let state = &plugin.state;
            prop_assert!(state.versions.len() <= MAX_VERSIONS);
            let mut digests: Vec<_> = state.versions.iter().map(|version| &version.digest).collect();
            digests.sort_unstable();
            digests.dedup();
            prop_assert_eq!(digests.len(), state.versions.len());
            if let Some(probation) = &state.probation {
                prop_assert_eq!(&state.running.as_ref().expect("it runs").version.digest, &probation.digest);
                prop_assert!(state.versions.contains(&probation.previous), "it can be rolled back");
                prop_assert!(state.held_back.is_none());
            }
            // What is held back does not run.
            if let Some(held_back) = &state.held_back {
                prop_assert!(state.running.as_ref().expect("it runs").version.digest != held_back.digest);
            }
        }
    }
}
