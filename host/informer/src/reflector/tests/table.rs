//! Checks that the table in the module documentation matches the code.

use std::collections::BTreeSet;

const DOCUMENTATION: &str = include_str!("../mod.rs");
const PHASES: &str = include_str!("../phase.rs");
const TESTS: [&str; 7] = [
    include_str!("hostile.rs"),
    include_str!("interrupted.rs"),
    include_str!("list.rs"),
    include_str!("server_recovery.rs"),
    include_str!("restored.rs"),
    include_str!("streaming.rs"),
    include_str!("watching.rs"),
];

/// Returns the cells of each row, without the head of the table.
fn rows() -> Vec<Vec<&'static str>> {
    DOCUMENTATION
        .lines()
        .filter_map(|line| line.strip_prefix("//! | ")?.strip_suffix(" |"))
        .map(|row| row.split(" | ").collect())
        .skip(1)
        .collect()
}

fn tests() -> BTreeSet<&'static str> {
    let names = TESTS.iter().flat_map(|source| source.split("#[tokio::test(start_paused = true)]").skip(1));
    names
        .map(|test| {
            test.trim().strip_prefix("async fn ").and_then(|rest| rest.split('(').next()).expect("a test")
        })
        .collect()
}

#[test]
fn each_row_names_an_existing_test() {
    let (rows, tests) = (rows(), tests());
    assert!(rows.len() > 30 && tests.len() > 40, "{} rows, {} tests", rows.len(), tests.len());
    for row in &rows {
        let [_, _, _, _, named] = row[..] else { panic!("a row of five cells: {row:?}") };
        for name in named.split(", ") {
            let name = name.trim_matches('`');
            assert!(tests.contains(name), "no such test: {name} in {row:?}");
        }
    }
}

#[test]
fn each_state_has_rows() {
    let variants =
        PHASES.split("enum Phase {").nth(1).and_then(|rest| rest.split("\n}").next()).expect("the states");
    let states: BTreeSet<_> = variants
        .lines()
        .map(str::trim)
        .filter(|line| line.starts_with(char::is_uppercase))
        .map(|line| {
            line.split(|char: char| !char.is_alphanumeric()).next().unwrap_or_default().to_lowercase()
        })
        .collect();
    let described: BTreeSet<_> =
        rows().iter().map(|row| row[0].to_owned()).filter(|state| state != "any").collect();
    assert_eq!(described, states);
}
