//! What kubectl printed, and its comparison with what was recorded. Pure, apart from the file.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::super::outcome::{Outcome, Outcomes};

/// The result of a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Answer {
    /// The exit code.
    pub(super) code: i32,
    /// The lines that it printed, normalised. Those of the standard output come first.
    pub(super) output: Vec<String>,
}

/// The results of all commands, by the file and the way in which it is applied.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Answers(BTreeMap<String, Answer>);

impl Answers {
    /// Adds the result of a command.
    pub(super) fn insert(&mut self, command: String, answer: Answer) {
        self.0.insert(command, answer);
    }

    /// Reads recorded answers.
    ///
    /// # Errors
    /// Errors if the file is missing or invalid.
    pub(super) fn read(file: &Path) -> Result<Self> {
        let text = fs::read_to_string(file).with_context(|| {
            format!("read {}: `cargo xtask peers-tests --only manifests --record` writes it", file.display())
        })?;
        serde_json::from_str(&text).with_context(|| format!("read {}", file.display()))
    }

    /// Writes the answers, a line for each command.
    ///
    /// # Errors
    /// Errors if the file cannot be written.
    pub(super) fn write(&self, file: &Path) -> Result<()> {
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
        }
        let lines: Result<Vec<String>, serde_json::Error> = self
            .0
            .iter()
            .map(|(command, answer)| {
                Ok(format!("{}: {}", serde_json::to_string(command)?, serde_json::to_string(answer)?))
            })
            .collect();
        let lines = lines.context("serialize the answers")?.join(",\n");
        fs::write(file, format!("{{\n{lines}\n}}\n")).with_context(|| format!("write {}", file.display()))
    }

    /// Returns, for each command, whether the answer is the recorded one.
    pub(super) fn compare(&self, recorded: &Self) -> Outcomes {
        let mut outcomes = Outcomes::default();
        for (command, answer) in &self.0 {
            let outcome = match recorded.0.get(command) {
                Some(expected) if expected == answer => Outcome::Passed,
                Some(expected) => {
                    Outcome::Failed(format!("{}in place of\n{}", printed(answer), printed(expected)))
                }
                None => Outcome::Failed(format!("{}no answer was recorded", printed(answer))),
            };
            outcomes.insert(command, outcome);
        }
        for command in recorded.0.keys().filter(|command| !self.0.contains_key(*command)) {
            outcomes.insert(command, Outcome::Failed("is recorded, but did not run".to_owned()));
        }
        outcomes
    }
}

fn printed(answer: &Answer) -> String {
    let lines: String = answer.output.iter().map(|line| format!("  {line}\n")).collect();
    format!("exit code {}\n{lines}", answer.code)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(list: &[(&str, i32, &str)]) -> Answers {
        let mut answers = Answers::default();
        for (command, code, line) in list {
            answers.insert((*command).to_owned(), Answer { code: *code, output: vec![(*line).to_owned()] });
        }
        answers
    }

    #[test]
    fn an_answer_passes_if_code_and_lines_are_those_recorded() {
        let recorded =
            answers(&[("a", 0, "created"), ("b", 1, "invalid"), ("c", 0, "created"), ("d", 0, "created")]);
        let found =
            answers(&[("a", 0, "created"), ("b", 0, "invalid"), ("c", 0, "configured"), ("e", 0, "created")]);
        let mut expected = Outcomes::default();
        expected.insert("a", Outcome::Passed);
        let different = "exit code 0\n  invalid\nin place of\nexit code 1\n  invalid\n";
        expected.insert("b", Outcome::Failed(different.to_owned()));
        let different = "exit code 0\n  configured\nin place of\nexit code 0\n  created\n";
        expected.insert("c", Outcome::Failed(different.to_owned()));
        expected.insert("d", Outcome::Failed("is recorded, but did not run".to_owned()));
        let unknown = "exit code 0\n  created\nno answer was recorded";
        expected.insert("e", Outcome::Failed(unknown.to_owned()));
        assert_eq!(found.compare(&recorded), expected);
    }

    #[test]
    fn written_answers_are_read_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("new/a.json");
        let written = answers(&[("a", 1, "invalid")]);
        written.write(&file).expect("written");
        assert_eq!(Answers::read(&file).expect("read"), written);
        let error = Answers::read(&folder.path().join("b.json")).expect_err("missing");
        assert!(error.to_string().contains("--record"), "{error}");
    }
}
