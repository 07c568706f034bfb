//! Tells the story of a trace and that of the same plan with another version: what both share, and what happened only in either.

use super::{Step, align};

/// A story, and what it was made with.
#[derive(Clone, Copy, Debug)]
pub struct VersionStory<'a> {
    /// The steps.
    pub steps: &'a [Step],
    /// The files.
    pub files: &'a str,
}

/// Returns the lines of both stories. The steps before the first difference are told once. `renamed` has the plugins' names in the trace and in the run.
#[must_use]
pub fn compare_versions(
    recorded: VersionStory<'_>,
    replayed: VersionStory<'_>,
    renamed: &[(String, String)],
) -> Vec<String> {
    let new_name = |name: &str| renamed.iter().find(|(old, _)| old == name).map(|(_, new)| new.clone());
    let is_same = |(old, new): &(&Step, &Step)| {
        *old == *new || new_name(&old.who).is_some_and(|who| Step { who, ..(*old).clone() } == **new)
    };
    let shared = recorded.steps.iter().zip(replayed.steps).take_while(is_same).count();
    let mut lines = Vec::new();
    if shared > 0 {
        lines.push("in the trace and in this run:".to_owned());
        lines.extend(align(&replayed.steps[..shared]));
    }
    let (of_trace, of_run) = (&recorded.steps[shared..], &replayed.steps[shared..]);
    if of_trace.is_empty() && of_run.is_empty() {
        return lines;
    }
    let titles = [
        format!("only in the trace, which was made with {} and ends with its error:", recorded.files),
        format!("only in this run, with {}:", replayed.files),
    ];
    for (title, steps) in titles.into_iter().zip([of_trace, of_run]) {
        lines.push(if steps.is_empty() { format!("{title} nothing") } else { title });
        lines.extend(align(steps));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(texts: &[(&str, &str)]) -> Vec<Step> {
        let step = |(who, text): &(&str, &str)| Step {
            time: 0,
            who: (*who).to_owned(),
            text: (*text).to_owned(),
            fault: String::new(),
        };
        texts.iter().map(step).collect()
    }

    fn compared(recorded: &[(&str, &str)], replayed: &[(&str, &str)]) -> Vec<String> {
        let (recorded, replayed) = (steps(recorded), steps(replayed));
        let recorded = VersionStory { steps: &recorded, files: "old.wasm" };
        let replayed = VersionStory { steps: &replayed, files: "new.wasm" };
        let lines = compare_versions(recorded, replayed, &[("old".to_owned(), "new".to_owned())]);
        lines.iter().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    }

    #[test]
    fn what_the_old_version_did_is_not_attributed_to_the_new_one() {
        let before = [("user", "create"), ("old", "reconcile a"), ("old", "reconcile b"), ("oracle", "trap")];
        let after = [("user", "create"), ("new", "reconcile a"), ("new", "reconcile c")];
        assert_eq!(
            compared(&before, &after),
            [
                "in the trace and in this run:",
                "0.000 user create",
                "0.000 new reconcile a",
                "only in the trace, which was made with old.wasm and ends with its error:",
                "0.000 old reconcile b",
                "0.000 oracle trap",
                "only in this run, with new.wasm:",
                "0.000 new reconcile c",
            ]
        );
    }

    #[test]
    fn equal_stories_are_told_once_and_different_ones_have_no_common_part() {
        let [old, new] = [[("old", "reconcile a")], [("new", "reconcile a")]];
        assert_eq!(compared(&old, &new), ["in the trace and in this run:", "0.000 new reconcile a"]);
        assert_eq!(
            compared(&old, &[]),
            [
                "only in the trace, which was made with old.wasm and ends with its error:",
                "0.000 old reconcile a",
                "only in this run, with new.wasm: nothing",
            ]
        );
        let lines = compared(&old, &[("other", "reconcile a")]);
        assert_eq!(lines.len(), 4, "{lines:?}");
        assert!(lines[0].starts_with("only in the trace"), "{lines:?}");
    }
}
