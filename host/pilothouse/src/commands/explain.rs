//! `pilothouse explain`: shows why a key of a plugin of a running host was reconciled, or was not.

use std::time::Duration;

use pilothouse_controller::{Explanation, printable};
use tokio::time::sleep;

use super::remote;
use crate::cli::{Explain, ExplainOutput};
use crate::explanation::Line;
use crate::{CommandError, CommandResult, explanation, output};

/// How often `--follow` queries the host.
const FOLLOW_INTERVAL: Duration = Duration::from_secs(1);

pub(crate) async fn run(flags: Explain) -> CommandResult {
    remote::check_plugin_name(&flags.plugin)?;
    let mut path =
        format!("/api/explain?plugin={}&key={}", flags.plugin, remote::percent_encoded(&flags.key));
    if let Some(watch) = &flags.watch_name {
        path = format!("{path}&watch={}", remote::percent_encoded(watch));
    }
    let server = &flags.server.server;
    if flags.output == ExplainOutput::Json && !flags.follow {
        output::print_line(remote::get_text(server, &path).await?);
        return Ok(());
    }
    let mut shown = Vec::new();
    loop {
        let text = remote::get_text(server, &path).await?;
        let explained: Explanation = serde_json::from_str(&text).map_err(|error| {
            CommandError::Failure(format!("{server}: the response is not that of a Pilothouse host: {error}"))
        })?;
        let lines = explanation::lines(&explained);
        let has_reader = match flags.output {
            ExplainOutput::Text => print_new_lines(&lines, &shown),
            ExplainOutput::Json => are_same(&lines, &shown) || output::print_line(in_one_line(&text)),
        };
        if !has_reader || !flags.follow {
            return Ok(());
        }
        shown = lines;
        sleep(FOLLOW_INTERVAL).await;
    }
}

/// Prints the lines that were not shown. Returns whether somebody reads them.
fn print_new_lines(lines: &[Line], shown: &[Line]) -> bool {
    lines.iter().filter(|line| !line.is_among(shown)).all(|line| output::print_line(printable(&line.text)))
}

/// Whether nothing but the time has changed.
fn are_same(lines: &[Line], shown: &[Line]) -> bool {
    lines.len() == shown.len() && lines.iter().all(|line| line.is_among(shown))
}

/// Returns a JSON document in one line. Line breaks of JSON are only between its parts.
fn in_one_line(document: &str) -> String {
    document.trim().replace(['\r', '\n'], " ")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::explanation::tests::explanation as explained;

    #[test]
    fn a_document_is_one_line() {
        let document = json!({"verdict": "a\nb", "now": {"x": [1]}});
        let text = in_one_line(&format!("{document:#}\n"));
        assert!(!text.contains('\n'), "{text}");
        assert_eq!(serde_json::from_str::<Value>(&text).expect("JSON"), document);
    }

    #[test]
    fn a_document_is_printed_again_when_more_than_the_time_has_changed() {
        let lines = |state: &str, milliseconds: u64, then: &Value| {
            let queue = json!({
                "state": state, "milliseconds": milliseconds, "attempts": 1, "openWrites": 0, "heldByWrites": false,
            });
            explanation::lines(&explained(&json!({"queue": queue}), then))
        };
        let first = lines("delayed", 1500, &json!([]));
        assert!(!are_same(&first, &[]), "the first document is printed");
        assert!(are_same(&lines("delayed", 500, &json!([])), &first));
        assert!(!are_same(&lines("ready", 500, &json!([])), &first));
        let write = json!([{"time": "T", "type": "write", "verb": "patch", "code": 200, "resourceVersion": 1, "sameKey": true}]);
        assert!(!are_same(&lines("delayed", 500, &write), &first));
    }
}
