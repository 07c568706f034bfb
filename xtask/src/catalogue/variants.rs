//! Other ways to simulate the catalogue: with generated objects, with many master seeds, and with the host's guarantees on.

use std::fs;

use anyhow::{Context, Result, ensure};

use super::Setting;
use super::outcome::{self, CaseOutcome};
use super::table::{Case, Twin};

/// The share of master seeds with which each wrong twin must be found, in percent.
const REQUIRED_SHARE: u64 = 95;
/// The faults from which the host's guarantees protect. Lost answers, and requests so late that nobody waits for them, are the documented
/// exception for generated names. After a restart, a process does not know what it had written, so an old list is no fault of the guarantees.
const FAULTS: &str = "faults: {crash: 4, restart: 4, past: 0, relist: 4, conflict: 4, reload: 4, stale: {max: 10m, count: 4}, \
                      controllers: {max: 10m, count: 4}, errors: {codes: [429, 500, 503, 504], max: 4}}\n";

/// Simulates each plugin of the cases with generated objects, and prints a line for each.
///
/// # Errors
/// Errors if the simulation cannot run, fewer than half of the wrong twins are found, or a right one is reported.
pub(super) fn without_scenarios(setting: &Setting<'_>, cases: &[&Case]) -> Result<()> {
    let (mut found, mut problems) = (0, Vec::new());
    for case in cases {
        for twin in [Twin::Wrong, Twin::Right] {
            let report = setting.simulate(case, twin, None, &[])?;
            println!("{}", outcome::line(case, twin, &report, &CaseOutcome::Correct));
            match (twin, report.findings.first()) {
                (Twin::Wrong, first) => found += usize::from(first.is_some()),
                (Twin::Right, None) => {}
                (Twin::Right, Some(finding)) => {
                    problems.push(format!(
                        "{}: {}: {}",
                        case.plugin(twin),
                        finding.oracle,
                        finding.explanation
                    ));
                }
            }
        }
    }
    println!("found {found} of {} wrong twins", cases.len());
    ensure!(problems.is_empty(), "right twins were reported:\n  {}", problems.join("\n  "));
    ensure!(found * 2 >= cases.len(), "fewer than half of the wrong twins were found");
    Ok(())
}

/// Simulates each wrong twin with the master seeds 1 to `seeds`, and prints with how many of them it was found.
///
/// # Errors
/// Errors if the simulation cannot run, or a wrong twin is found with too few of them.
pub(super) fn with_master_seeds(setting: &Setting<'_>, cases: &[&Case], seeds: u64) -> Result<()> {
    let mut problems = Vec::new();
    for case in cases {
        let mut missed = Vec::new();
        for seed in 1..=seeds {
            let scenario = setting.scenario(case);
            let report =
                setting.simulate(case, Twin::Wrong, Some(&scenario), &["--seed", &seed.to_string()])?;
            if report.findings.is_empty() {
                missed.push(seed);
            }
        }
        let line = share_line(case, seeds, &missed);
        println!("{line}");
        if !is_enough(seeds, missed.len()) {
            problems.push(line);
        }
    }
    ensure!(
        problems.is_empty(),
        "less than {REQUIRED_SHARE} % of the master seeds suffice for:\n  {}",
        problems.join("\n  ")
    );
    Ok(())
}

fn share_line(case: &Case, seeds: u64, missed: &[u64]) -> String {
    let found = seeds - missed.len() as u64;
    let (number, name) = (case.number, &case.name);
    let line = format!("{number:>3}  {name:<22} found with {found} of {seeds} master seeds");
    match missed {
        [] => line,
        missed => {
            let missed: Vec<_> = missed.iter().map(u64::to_string).collect();
            format!("{line}, not with {}", missed.join(", "))
        }
    }
}

fn is_enough(seeds: u64, missed: usize) -> bool {
    (seeds - missed as u64) * 100 >= seeds * REQUIRED_SHARE
}

/// Simulates each plugin of the cases with the host's guarantees on, and prints a line for each.
///
/// # Errors
/// Errors if the simulation cannot run, or something is found.
pub(super) fn with_guarantees(setting: &Setting<'_>, cases: &[&Case]) -> Result<()> {
    let mut problems = Vec::new();
    for case in cases {
        let scenario = setting.scenario(case);
        let text = fs::read_to_string(&scenario).with_context(|| format!("read {}", scenario.display()))?;
        let bounded = setting.plugins.join(format!("{}-bounded.yaml", case.name));
        fs::write(&bounded, with_bounds(&text)?).with_context(|| format!("write {}", bounded.display()))?;
        for twin in [Twin::Wrong, Twin::Right] {
            let report = setting.simulate(case, twin, Some(&bounded), &["--guarantees", "on"])?;
            println!("{}", outcome::line(case, twin, &report, &CaseOutcome::Correct));
            if let Some(finding) = report.findings.first() {
                problems.push(format!("{}: {}: {}", case.plugin(twin), finding.oracle, finding.explanation));
            }
        }
    }
    ensure!(problems.is_empty(), "found in spite of the host's guarantees:\n  {}", problems.join("\n  "));
    Ok(())
}

/// Adds the bounds of the faults to a scenario.
fn with_bounds(scenario: &str) -> Result<String> {
    ensure!(
        !scenario.lines().any(|line| line.starts_with("faults:")),
        "a scenario with the guarantees off must not have bounds of faults"
    );
    Ok(format!("{}\n{FAULTS}", scenario.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::super::table::tests::catalogue;
    use super::*;

    #[test]
    fn bounds_are_added_to_a_scenario_that_has_none() {
        let bounded = with_bounds("kind: Simulation\n").expect("bounded");
        assert!(bounded.starts_with("kind: Simulation\nfaults: {crash: 4,"), "{bounded}");
        assert!(with_bounds(&bounded).is_err());
    }

    #[test]
    fn the_share_of_master_seeds_is_printed_and_has_a_limit() {
        let catalogue = catalogue("gaps: []\n");
        let case = &catalogue.cases[0];
        assert_eq!(share_line(case, 20, &[]), "  1  a                      found with 20 of 20 master seeds");
        let missed = share_line(case, 20, &[7, 9]);
        assert!(missed.ends_with("found with 18 of 20 master seeds, not with 7, 9"), "{missed}");
        assert!(is_enough(20, 0) && is_enough(20, 1) && !is_enough(20, 2) && is_enough(1, 0));
    }
}
