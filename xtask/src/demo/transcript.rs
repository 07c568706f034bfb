//! The output of the demo, which is printed and recorded with its times.

use std::cell::RefCell;
use std::path::Path;
use std::time::{Duration, Instant};

/// How a line is shown in the picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// The command that the user typed.
    Command,
    /// The title of a step.
    Step,
    /// A line below a step's title.
    Detail,
}

/// A recorded line.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    /// Time since the demo started.
    pub(crate) at: Duration,
    pub(crate) style: Style,
    pub(crate) text: String,
}

/// Prints the lines of the demo and records them.
pub(crate) struct Transcript {
    started: Instant,
    lines: RefCell<Vec<Line>>,
}

impl Transcript {
    /// Starts with the command that runs the demo, which is recorded but not printed.
    pub(crate) fn start() -> Self {
        let command =
            Line { at: Duration::ZERO, style: Style::Command, text: "$ cargo xtask demo".to_owned() };
        #[expect(clippy::disallowed_methods, reason = "a demo of real processes runs in real time")]
        let started = Instant::now();
        Self { started, lines: RefCell::new(vec![command]) }
    }

    /// Prints the title of a step.
    pub(crate) fn step(&self, number: u32, title: &str) {
        println!();
        self.print(Style::Step, format!("[{number}] {title}"));
    }

    /// Prints a line below a step's title.
    pub(crate) fn detail(&self, text: &str) {
        self.print(Style::Detail, format!("    {text}"));
    }

    fn print(&self, style: Style, text: String) {
        println!("{text}");
        self.lines.borrow_mut().push(Line { at: self.started.elapsed(), style, text });
    }

    /// Returns the recorded lines, with paths in the repository relative to its root.
    pub(crate) fn lines(&self, root: &Path) -> Vec<Line> {
        let root = format!("{}/", root.display());
        let relative = |line: &Line| Line { text: line.text.replace(&root, ""), ..line.clone() };
        self.lines.borrow().iter().map(relative).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_recorded_in_order_with_relative_paths() {
        let transcript = Transcript::start();
        transcript.step(1, "It starts");
        transcript.detail("kubeconfig: /home/user/project/target/demo/kubeconfig");
        let lines = transcript.lines(Path::new("/home/user/project"));
        let found: Vec<_> = lines.iter().map(|line| (line.style, line.text.as_str())).collect();
        let expected = [
            (Style::Command, "$ cargo xtask demo"),
            (Style::Step, "[1] It starts"),
            (Style::Detail, "    kubeconfig: target/demo/kubeconfig"),
        ];
        assert_eq!(found, expected);
        assert!(lines.is_sorted_by_key(|line| line.at), "{lines:?}");
    }
}
