//! Reads what the test programs of Rust print. Pure.

use super::outcome::Outcome;

/// The end of a line of `--list`.
const TEST: &str = ": test";

/// The beginning of the last line if one test ran and passed.
const ONE_PASSED: &str = "test result: ok. 1 passed;";

/// Returns the names in a list of tests.
pub(super) fn names(list: &str) -> impl Iterator<Item = &str> {
    list.lines().filter_map(|line| line.trim_end().strip_suffix(TEST))
}

/// Returns how a run of one test ended. `succeeded` is `None` if the test did not end in time.
pub(super) fn outcome(succeeded: Option<bool>, output: &str) -> Outcome {
    match succeeded {
        Some(true) if output.lines().any(|line| line.starts_with(ONE_PASSED)) => Outcome::Passed,
        Some(true) => Outcome::Skipped,
        Some(false) => Outcome::Failed(output.trim().to_owned()),
        None => Outcome::Failed(format!("did not end\n{}", output.trim())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_tests_only() {
        let list = "test::a: test\nbench: benchmark\napi::tests::b: test\n\n2 tests, 1 benchmark\n";
        assert_eq!(names(list).collect::<Vec<_>>(), ["test::a", "api::tests::b"]);
    }

    #[test]
    fn a_test_passes_only_if_it_ran() {
        let passed =
            "\nrunning 1 test\ntest a ... ok\n\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured\n";
        assert_eq!(outcome(Some(true), passed), Outcome::Passed);
        let none = "\nrunning 0 tests\n\ntest result: ok. 0 passed; 0 failed; 0 ignored\n";
        assert_eq!(outcome(Some(true), none), Outcome::Skipped);
        let failed = Outcome::Failed("Error: NotFound".to_owned());
        assert_eq!(outcome(Some(false), "Error: NotFound\n"), failed);
        let unfinished = Outcome::Failed("did not end\nrunning 1 test".to_owned());
        assert_eq!(outcome(None, "running 1 test\n"), unfinished);
    }
}
