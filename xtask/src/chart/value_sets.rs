//! Renders the value sets in `tests` of the chart, compares the manifests with what the sets expect, and applies them to an API server.
//!
//! Comments of a set in `tests/accepted` say what is expected: `# renders: TEXT` that the manifests contain a text, `# omits: TEXT` that they do
//! not. A `$` at the end of the text stands for the end of a line. A set in `tests/refused` names a part of helm's error with `# error: TEXT`.
//! A set for another cluster than the test's names a part of the API server's error with `# server: TEXT`. `# needs: PATH` leaves a set out if the
//! chart has no such file.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::helm::Helm;
use super::server::Server;
use super::{CHART, files};

/// What a value set expects.
#[derive(Debug, Default, PartialEq, Eq)]
struct Expected<'a> {
    renders: Vec<&'a str>,
    omits: Vec<&'a str>,
    error: Option<&'a str>,
    server_error: Option<&'a str>,
    needs: Vec<&'a str>,
}

impl<'a> Expected<'a> {
    fn parse(text: &'a str) -> Self {
        let mut expected = Self::default();
        for comment in text.lines().filter_map(|line| line.strip_prefix("# ")) {
            match comment.split_once(": ") {
                Some(("renders", text)) => expected.renders.push(text),
                Some(("omits", text)) => expected.omits.push(text),
                Some(("error", text)) => expected.error = Some(text),
                Some(("server", text)) => expected.server_error = Some(text),
                Some(("needs", path)) => expected.needs.push(path),
                // A sentence about the set.
                _ => {}
            }
        }
        expected
    }

    /// Returns a line for each difference between what is expected and what helm did.
    fn problems(&self, rendered: &Result<String, String>) -> Vec<String> {
        match (rendered, self.error) {
            (Ok(_), Some(error)) => vec![format!("helm accepts it; expected the error {error:?}")],
            (Err(found), None) => vec![format!("helm refuses it: {found}")],
            (Err(found), Some(error)) if found.contains(error) => Vec::new(),
            (Err(found), Some(error)) => {
                vec![format!("expected the error {error:?}, and helm says: {found}")]
            }
            (Ok(text), None) => {
                let missing = self.renders.iter().filter(|expected| !contains(text, expected));
                let present = self.omits.iter().filter(|unexpected| contains(text, unexpected));
                let missing = missing.map(|text| format!("the manifests do not contain {text:?}"));
                missing.chain(present.map(|text| format!("the manifests contain {text:?}"))).collect()
            }
        }
    }

    /// Returns what is wrong with the API server's answer; `None` if it is the expected one.
    fn server_problem(&self, error: Option<String>) -> Option<String> {
        match (error, self.server_error) {
            (None, Some(expected)) => {
                Some(format!("the API server accepts it; expected the error {expected:?}"))
            }
            (Some(error), Some(expected)) if error.contains(expected) => None,
            (error, _) => error,
        }
    }
}

fn contains(manifests: &str, text: &str) -> bool {
    match text.strip_suffix('$') {
        Some(end) => manifests.lines().any(|line| line.ends_with(end)),
        None => manifests.contains(text),
    }
}

/// Returns a line for everything in which a value set is not rendered, refused or applied as it expects.
pub(super) fn test(root: &Path, helm: &Helm, server: &Server) -> Result<Vec<String>> {
    let chart = root.join(CHART);
    let mut found = Vec::new();
    for kind in ["accepted", "refused"] {
        let sets = files(&chart.join("tests").join(kind))?;
        println!("chart: {} {kind} value sets", sets.len());
        for path in sets {
            let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
            let expected = Expected::parse(&text);
            let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
            if let Some(missing) = missing(&chart, &expected.needs)? {
                println!("chart: {name} was NOT checked: the chart has no {missing}");
                continue;
            }
            if (kind == "refused") != expected.error.is_some() {
                found
                    .push(format!("{name}: only a refused set has a comment `# error: TEXT`, and needs one"));
            }
            let rendered = helm.template(&["--values", &path.to_string_lossy()])?;
            found
                .extend(expected.problems(&rendered).into_iter().map(|problem| format!("{name}: {problem}")));
            if let Ok(manifests) = rendered {
                let problem = expected.server_problem(apply(helm, server, &manifests)?);
                found.extend(problem.map(|problem| format!("{name}: {problem}")));
            }
        }
    }
    Ok(found)
}

/// Returns the first of the paths that is no file of the chart, and no folder with files.
fn missing<'a>(chart: &Path, paths: &[&'a str]) -> Result<Option<&'a str>> {
    for path in paths {
        let needed = chart.join(path);
        if !needed.is_file() && files(&needed)?.is_empty() {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

/// Returns the error if the API server does not accept the manifests.
fn apply(helm: &Helm, server: &Server, manifests: &str) -> Result<Option<String>> {
    let file = helm.folder().join("manifests.yaml");
    fs::write(&file, manifests).with_context(|| format!("write {}", file.display()))?;
    let arguments = ["apply", "--dry-run=server", "--validate=strict", "--filename", &file.to_string_lossy()];
    Ok(server.kubectl(&arguments)?.err())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACCEPTED: &str =
        "# One pod: the default.\n# renders: kind: Pod\n# omits: kind: Service$\nreplicas: 1\n";

    #[test]
    fn comments_say_what_a_set_expects() {
        let expected = Expected::parse(ACCEPTED);
        assert_eq!((&*expected.renders, &*expected.omits), (&["kind: Pod"][..], &["kind: Service$"][..]));
        let refused = Expected::parse("# error: at '/a': no\n# needs: files/alerts.yaml\na: 1\n");
        assert_eq!((refused.error, &*refused.needs), (Some("at '/a': no"), &["files/alerts.yaml"][..]));
    }

    #[test]
    fn manifests_and_errors_that_are_not_expected_are_found() {
        let accepted = Expected::parse(ACCEPTED);
        let rendered = |text: &str| accepted.problems(&Ok(text.to_owned()));
        assert_eq!(rendered("kind: Pod\nkind: ServiceAccount\n"), Vec::<String>::new());
        assert_eq!(rendered("kind: Service\n").len(), 2);
        assert_eq!(accepted.problems(&Err("no".into())), ["helm refuses it: no"]);
        let refused = Expected::parse("# error: at '/a'\n");
        assert_eq!(refused.problems(&Err("Error: at '/a': no".into())), Vec::<String>::new());
        assert_eq!(refused.problems(&Err("Error: at '/b': no".into())).len(), 1);
        assert_eq!(refused.problems(&Ok(String::new())).len(), 1);
    }

    #[test]
    fn answer_of_the_server_is_compared_with_the_expected_one() {
        let of = |text: &str, error: Option<&str>| {
            Expected::parse(text).server_problem(error.map(str::to_owned)).is_some()
        };
        assert!(!of("a: 1\n", None) && of("a: 1\n", Some("no")));
        let refused = "# server: not configured\na: 1\n";
        assert!(
            !of(refused, Some("IPv6: not configured here")) && of(refused, Some("no")) && of(refused, None)
        );
    }
}
