//! Checks that `pilothouse run` accepts the flags that the Deployment gives it.

use super::CHART;

/// Returns a line for each flag in the Deployment that the help text of `run` does not have.
pub(super) fn unknown_flags(deployment: &str, help: &str) -> Vec<String> {
    let run = help.split("$ pilothouse run --help\n").nth(1).unwrap_or_default();
    let run = run.split("\n$ pilothouse ").next().unwrap_or_default();
    flags(deployment)
        .filter(|flag| !run.contains(&format!(" {flag} <")))
        .map(|flag| format!("{CHART}/templates/deployment.yaml: `pilothouse run` has no flag {flag}"))
        .collect()
}

/// Returns the flags with a value, such as `--listen` of `--listen={{ … }}`.
fn flags(deployment: &str) -> impl Iterator<Item = &str> {
    deployment.match_indices("--").filter_map(|(position, _)| {
        let (flag, _) = deployment[position..].split_once('=')?;
        flag.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-').then_some(flag)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_that_run_does_not_have_is_found() {
        let help = "$ pilothouse dev --help\n      --build <DIR>\n\n$ pilothouse run --help\n      --listen <ADDR>\n\n$ pilothouse check --help\n";
        let deployment = "---\nargs:\n  - --listen=a\n  - {{ printf \"--build=%s\" . }}\n";
        let found = unknown_flags(deployment, help);
        assert!(found.len() == 1 && found[0].ends_with("--build"), "{found:?}");
    }
}
