//! JUnit's XML, which CI systems show: a document with one test suite. Pure.

/// A test suite.
pub(super) struct Suite {
    pub(super) name: String,
    pub(super) seconds: f64,
    pub(super) cases: Vec<Case>,
    /// The lines of `system-out`; no element if there are none.
    pub(super) output: Vec<String>,
}

/// A test case.
pub(super) struct Case {
    pub(super) name: String,
    /// `None` if it has no duration of its own.
    pub(super) seconds: Option<f64>,
    pub(super) outcome: Outcome,
    /// The lines of `system-out`; no element if there are none.
    pub(super) output: Vec<String>,
}

/// How a test case ended.
pub(super) enum Outcome {
    Passed,
    /// With the reason.
    #[cfg_attr(
        all(not(feature = "simulation"), not(test)),
        expect(dead_code, reason = "only oracles have nothing to judge")
    )]
    Skipped(String),
    Failed(Vec<Failure>),
}

/// Why a test case failed.
pub(super) struct Failure {
    pub(super) message: String,
    pub(super) details: Vec<String>,
}

impl Suite {
    /// Returns the document.
    pub(super) fn to_xml(&self) -> String {
        let failed = self.cases.iter().filter(|case| matches!(case.outcome, Outcome::Failed(_))).count();
        let (name, tests, seconds) = (escaped(&self.name), self.cases.len(), self.seconds);
        let counts = format!("tests=\"{tests}\" failures=\"{failed}\" time=\"{seconds:.3}\"");
        let mut text = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {counts}>\n  <testsuite name=\"{name}\" {counts}>\n"
        );
        for case in &self.cases {
            case.append_to(&mut text, &name);
        }
        append_output(&mut text, "    ", &self.output);
        text.push_str("  </testsuite>\n</testsuites>");
        text
    }
}

impl Case {
    /// `suite` is escaped.
    fn append_to(&self, text: &mut String, suite: &str) {
        text.push_str(&format!("    <testcase classname=\"{suite}\" name=\"{}\"", escaped(&self.name)));
        if let Some(seconds) = self.seconds {
            text.push_str(&format!(" time=\"{seconds:.3}\""));
        }
        if matches!(self.outcome, Outcome::Passed) && self.output.is_empty() {
            text.push_str("/>\n");
            return;
        }
        text.push_str(">\n");
        match &self.outcome {
            Outcome::Passed => {}
            Outcome::Skipped(reason) => {
                text.push_str(&format!("      <skipped message=\"{}\"/>\n", escaped(reason)));
            }
            Outcome::Failed(failures) => {
                for Failure { message, details } in failures {
                    let (message, details) = (escaped(message), escaped(&details.join("\n")));
                    text.push_str(&format!("      <failure message=\"{message}\">{details}</failure>\n"));
                }
            }
        }
        append_output(text, "      ", &self.output);
        text.push_str("    </testcase>\n");
    }
}

fn append_output(text: &mut String, indent: &str, lines: &[String]) {
    if !lines.is_empty() {
        text.push_str(&format!("{indent}<system-out>{}</system-out>\n", escaped(&lines.join("\n"))));
    }
}

/// Escapes text for XML. Characters that XML cannot contain are replaced.
fn escaped(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => result.push_str("&amp;"),
            '<' => result.push_str("&lt;"),
            '>' => result.push_str("&gt;"),
            '"' => result.push_str("&quot;"),
            '\n' | '\t' => result.push(char),
            char if char.is_control() || matches!(char, '\u{fffe}' | '\u{ffff}') => {
                result.push(char::REPLACEMENT_CHARACTER);
            }
            char => result.push(char),
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(name: &str, outcome: Outcome) -> Case {
        Case { name: name.to_owned(), seconds: None, outcome, output: Vec::new() }
    }

    #[test]
    fn a_document_has_the_cases_their_outcomes_and_what_was_printed() {
        let failure = |message: &str, details: &[&str]| Failure {
            message: message.to_owned(),
            details: details.iter().map(|&line| line.to_owned()).collect(),
        };
        let failures = vec![failure("<not>", &["\"x\" & \u{1b}[31m", "\u{ffff}"]), failure("again", &[])];
        let suite = Suite {
            name: "a&b".to_owned(),
            seconds: 1.25,
            cases: vec![
                Case { seconds: Some(1.23), ..case("good", Outcome::Passed) },
                Case { output: vec!["one".to_owned(), "two".to_owned()], ..case("noisy", Outcome::Passed) },
                case("bad", Outcome::Failed(failures)),
                case("idle", Outcome::Skipped("not <here>".to_owned())),
            ],
            output: vec!["the end".to_owned()],
        };
        let expected = [
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>",
            "<testsuites tests=\"4\" failures=\"1\" time=\"1.250\">",
            "  <testsuite name=\"a&amp;b\" tests=\"4\" failures=\"1\" time=\"1.250\">",
            "    <testcase classname=\"a&amp;b\" name=\"good\" time=\"1.230\"/>",
            "    <testcase classname=\"a&amp;b\" name=\"noisy\">",
            "      <system-out>one",
            "two</system-out>",
            "    </testcase>",
            "    <testcase classname=\"a&amp;b\" name=\"bad\">",
            "      <failure message=\"&lt;not&gt;\">&quot;x&quot; &amp; \u{fffd}[31m",
            "\u{fffd}</failure>",
            "      <failure message=\"again\"></failure>",
            "    </testcase>",
            "    <testcase classname=\"a&amp;b\" name=\"idle\">",
            "      <skipped message=\"not &lt;here&gt;\"/>",
            "    </testcase>",
            "    <system-out>the end</system-out>",
            "  </testsuite>",
            "</testsuites>",
        ];
        assert_eq!(suite.to_xml().split('\n').collect::<Vec<_>>(), expected);
    }
}
