//! The recorded answers of kube-apiserver: a file for each group, with a line for each answer.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::case::Case;

#[derive(Deserialize, Serialize)]
struct Line {
    case: String,
    step: usize,
    answer: Value,
}

/// The answers of each case, by the case's name.
pub(crate) type Recording = BTreeMap<String, Vec<Value>>;

/// Reads all recorded answers.
pub(crate) fn read_all(folder: &Path) -> Recording {
    let mut recording = Recording::new();
    for entry in fs::read_dir(folder).expect("recorded answers") {
        let file = entry.expect("an entry").path();
        if file.extension().is_none_or(|extension| extension != "jsonl") {
            continue;
        }
        let text = fs::read_to_string(&file).expect("a readable file");
        for line in text.lines() {
            let Line { case, step, answer } =
                serde_json::from_str(line).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            let answers = recording.entry(case).or_default();
            answers.push(answer);
            assert_eq!(answers.len(), step, "{}: a step is missing", file.display());
        }
    }
    recording
}

/// Replaces the recorded answers of the cases' groups.
pub(crate) fn write(folder: &Path, cases: &[Case], answers: &[Vec<Value>]) {
    let mut groups: BTreeMap<&str, String> = BTreeMap::new();
    for (case, answers) in cases.iter().zip(answers) {
        for (index, answer) in answers.iter().enumerate() {
            let line = Line { case: case.name.clone(), step: index + 1, answer: answer.clone() };
            let line = serde_json::to_string(&line).expect("JSON");
            let text = groups.entry(&case.group).or_default();
            text.push_str(&line);
            text.push('\n');
        }
    }
    for (group, text) in groups {
        fs::write(folder.join(format!("{group}.jsonl")), text).expect("the recording is written");
    }
}
