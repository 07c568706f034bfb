//! Logs the API server's warnings: the `Warning` headers of its responses, such as `299 - "unknown field \"spec.replcas\""`.

use std::collections::BTreeSet;
use std::sync::Arc;

use http::HeaderMap;
use http::header::WARNING;
use parking_lot::Mutex;
use pilothouse_plugin::LogLevel;

use crate::logs::PluginLog;

/// How many different warnings are logged for each version of a plugin.
const MAX_LOGGED: usize = 32;
/// Limit in bytes for the text of a warning.
const MAX_TEXT: usize = 1024;

/// Writes each warning to a plugin's log once.
#[derive(Clone)]
pub(super) struct WarningLog {
    log: PluginLog,
    logged: Arc<Mutex<BTreeSet<String>>>,
}

impl WarningLog {
    pub(super) fn new(log: PluginLog) -> Self {
        Self { log, logged: Arc::default() }
    }

    /// Logs the warnings of a response.
    pub(super) fn record(&self, headers: &HeaderMap) {
        for header in headers.get_all(WARNING) {
            let Some(text) = text_of(&String::from_utf8_lossy(header.as_bytes())) else { continue };
            if self.record_warning(&text) {
                self.log.host(LogLevel::Warn, format_args!("the API server warns: {text}"), &[]);
            }
        }
    }

    /// Records a warning. Returns whether it is to be logged: each is logged once.
    fn record_warning(&self, text: &str) -> bool {
        let mut logged = self.logged.lock();
        logged.len() < MAX_LOGGED && logged.insert(text.to_owned())
    }
}

/// Returns the text of `299 AGENT "TEXT"`, which is the only form that API servers send.
fn text_of(header: &str) -> Option<String> {
    let (_agent, quoted) = header.strip_prefix("299 ")?.split_once(' ')?;
    let mut characters = quoted.strip_prefix('"')?.chars();
    let mut text = String::new();
    while text.len() < MAX_TEXT {
        match characters.next()? {
            '"' => break,
            '\\' => text.push(characters.next()?),
            character => text.push(character),
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::path::Path;

    use http::Request;
    use kube::client::Body;

    use super::*;
    use crate::client::ApiClient;
    use crate::logs::PluginLogs;
    use crate::name::PluginName;

    #[test]
    fn the_text_of_a_warning_is_unquoted_and_bounded() {
        for (header, expected) in [
            (r#"299 - "unknown field \"spec.x\"""#, Some(r#"unknown field "spec.x""#)),
            (r#"299 - "a \\ b" "Wed, 21 Oct 2015 07:28:00 GMT""#, Some(r"a \ b")),
            (r#"299 - """#, Some("")),
            (r#"110 - "stale""#, None),
            (r#"299 - "unfinished"#, None),
            (r#"299 - "unfinished\"#, None),
            ("299 -", None),
            ("", None),
        ] {
            assert_eq!(text_of(header).as_deref(), expected, "{header}");
        }
        let long = text_of(&format!("299 - \"{}\"", "x".repeat(1 << 20))).expect("a text");
        assert_eq!(long.len(), MAX_TEXT);
    }

    /// Returns the lines in the log of a plugin after requests whose responses have these warnings.
    async fn logged(warnings: impl IntoIterator<Item = String>) -> Vec<String> {
        let service = tower::service_fn(async |request: Request<Body>| {
            let warning = request.uri().query().unwrap_or_default().replace('+', " ");
            let response = http::Response::builder()
                .header(WARNING, format!("299 - \"{warning}\""))
                .header(WARNING, "299 - \"another one\"");
            Ok::<_, Infallible>(response.body(Body::empty()).expect("a response"))
        });
        let logs = PluginLogs::default();
        let log = logs.for_plugin(&PluginName::of_file(Path::new("p.wasm")).expect("a name"));
        let server = ApiClient::new(kube::Client::new(service, "default")).with_warnings_in(log);
        for warning in warnings {
            server.get(&format!("/?{warning}")).await.expect("answered").expect("a body");
        }
        logs.after(0, None).into_iter().map(|line| line.message).collect()
    }

    #[tokio::test]
    async fn each_warning_is_logged_once_and_at_most_32_of_them() {
        let repeated = ["unknown+field", "unknown+field", "deprecated"].map(str::to_owned);
        assert_eq!(
            logged(repeated).await,
            ["unknown field", "another one", "deprecated"]
                .map(|text| format!("the API server warns: {text}"))
        );
        let many = logged((0..100).map(|number| number.to_string())).await;
        assert_eq!(many.len(), MAX_LOGGED);
    }
}
