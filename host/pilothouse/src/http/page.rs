//! The HTML status page: a table of the plugins, and the explanation of a key, without scripts or external resources.

use std::fmt::Write;

use pilothouse_controller::{Explanation, LoadProgress, PluginStatus};

use super::explain::ExplainQuery;
use crate::{explanation, summary};

/// Renders the page for the given plugins, with the answer to a question about a key.
pub(super) fn render(
    plugins: &[PluginStatus],
    query: &ExplainQuery,
    answer: Option<&Result<Explanation, String>>,
) -> String {
    // A reload would remove what somebody is typing into the form.
    let is_reloaded = query.is_empty() || matches!(answer, Some(Ok(_)));
    let reload = if is_reloaded { "<meta http-equiv=\"refresh\" content=\"5\">" } else { "" };
    let mut page = format!("<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">{reload}");
    page.push_str(
        "<title>Pilothouse</title><style>body{font:15px system-ui,sans-serif;margin:2rem;color:#1b2530}\
         table{border-collapse:collapse}th,td{text-align:left;padding:.35rem .9rem;border-bottom:1px solid #d5dde5}\
         th{font-weight:600}.running{color:#0a7a34}.failed,.failing,.backing-off,.error{color:#b3261e}\
         .stopped,.draining,.removed,.paused{color:#5b6770}code{font-size:13px}</style><h1>Pilothouse</h1>",
    );
    if plugins.is_empty() {
        page.push_str("<p>No plugins. Drop a <code>.wasm</code> into the plugins directory.</p>");
    } else {
        let progress = LoadProgress::of(plugins);
        if !progress.is_complete() {
            let _ = write!(page, "<p>{progress}</p>");
        }
        page.push_str(
            "<table><tr><th>Plugin<th>Version<th>State<th>Generation<th>Queue<th>Backoff<th>Reconciles<th>Errors<th>Digest",
        );
        for plugin in plugins {
            row(&mut page, plugin);
        }
        page.push_str("</table>");
        if !query.is_empty() {
            explain(&mut page, query, answer);
        }
    }
    page.push_str(
        "<p><a href=\"/api/plugins\">/api/plugins</a> · <a href=\"/metrics\">/metrics</a></p></html>",
    );
    page
}

/// Adds the form for a question about a key, and the answer.
fn explain(page: &mut String, query: &ExplainQuery, answer: Option<&Result<Explanation, String>>) {
    page.push_str("<h2>Why was a key (not) reconciled?</h2><form action=\"/\">");
    for (name, label, value) in [
        ("plugin", "Plugin", &query.plugin),
        ("key", "Key (namespace/name)", &query.key),
        ("watch", "Watch, if there are several", &query.watch),
    ] {
        let value = escape(value);
        let _ = write!(page, "<label>{label} <input name=\"{name}\" value=\"{value}\"></label> ");
    }
    page.push_str("<button>Explain</button></form>");
    match answer {
        None => {}
        Some(Ok(explained)) => {
            page.push_str("<pre>");
            for line in explanation::lines(explained) {
                let _ = writeln!(page, "{}", escape(&line.text));
            }
            page.push_str("</pre>");
        }
        Some(Err(problem)) => {
            let _ = write!(page, "<p class=\"error\">{}</p>", escape(problem));
        }
    }
}

fn row(page: &mut String, plugin: &PluginStatus) {
    let count = |name: &str| plugin.counters.get(name).copied().unwrap_or_default();
    let state = summary::state(plugin);
    let mut name = escape(&plugin.name);
    // A file that cannot be a plugin may have any name.
    if plugin.name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        name = format!("<a href=\"/?plugin={name}\" title=\"Why was a key (not) reconciled?\">{name}</a>");
    }
    // Writing to a String cannot fail.
    let _ = write!(
        page,
        "<tr><td>{name}<td>{}<td class=\"{state}\">{state}<td>{}<td>{}<td>{}<td>{}<td>{}<td><code>{}</code>",
        escape(&plugin.version),
        plugin.generation,
        plugin.queue_depth,
        plugin.keys_in_backoff,
        count("reconciles"),
        summary::errors(plugin),
        plugin.digest.get(..12).unwrap_or_default(),
    );
    for problem in summary::problems(plugin) {
        let _ = write!(page, "<tr><td><td colspan=\"8\" class=\"error\">{}", escape(&problem));
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn plugin(members: &Value) -> PluginStatus {
        let mut plugin = json!({
            "name": "p", "version": "1", "state": "running", "generation": 1, "error": "", "digest": "", "queueDepth": 3,
            "counters": {"reconciles": 7, "errors": 2, "observeErrors": 4},
        });
        plugin.as_object_mut().expect("an object").extend(members.as_object().expect("members").clone());
        serde_json::from_value(plugin).expect("a status")
    }

    fn rendered(plugins: &[PluginStatus]) -> String {
        render(plugins, &ExplainQuery::default(), None)
    }

    #[test]
    fn the_explanation_of_a_key_is_shown_below_the_plugins() {
        let query =
            ExplainQuery { plugin: "p".to_owned(), key: "\"><b>".to_owned(), ..ExplainQuery::default() };
        let explained = explanation::tests::explanation(&json!({}), &json!([]));
        let page = render(&[plugin(&json!({}))], &query, Some(&Ok(explained)));
        assert!(page.contains("PredicateFalse: a &lt; b is false\n"), "{page}");
        assert!(page.contains("name=\"key\" value=\"&quot;&gt;&lt;b&gt;\""), "{page}");
        let page = render(&[plugin(&json!({}))], &query, Some(&Err("no <plugin>".to_owned())));
        assert!(page.contains("no &lt;plugin&gt;") && !page.contains("<pre>"), "{page}");
        assert!(!page.contains("http-equiv=\"refresh\""), "a reload would clear the form: {page}");
        let page = rendered(&[plugin(&json!({})), plugin(&json!({"name": "a\"b"}))]);
        assert!(page.contains("<a href=\"/?plugin=p\"") && page.contains("<td>a&quot;b<td>"), "{page}");
        assert!(page.contains("http-equiv=\"refresh\"") && !page.contains("<form"), "{page}");
    }

    #[test]
    fn plugin_text_is_escaped_as_html() {
        let members = json!({"version": "<script>", "state": "failed", "error": "a < b & \"c\""});
        let page = rendered(&[plugin(&members)]);
        assert!(!page.contains("<script>"));
        assert!(page.contains("&lt;script&gt;") && page.contains("a &lt; b &amp; &quot;c&quot;"));
        assert!(page.contains("<td>7<td>6<td>"), "reconciles and errors of all kinds: {page}");
    }

    #[test]
    fn the_progress_is_shown_until_all_plugins_are_loaded() {
        let compiling = plugin(&json!({"state": "compiling"}));
        let page = rendered(&[plugin(&json!({})), compiling]);
        assert!(page.contains("<p>plugins loaded: 1 of 2</p>"), "{page}");
        assert!(!rendered(&[plugin(&json!({}))]).contains("plugins loaded"));
    }

    #[test]
    fn a_removed_plugin_is_not_shown_as_an_error() {
        let members = json!({"state": "stopped", "removed": true, "error": "its file was removed"});
        let page = rendered(&[plugin(&members)]);
        assert!(page.contains("<td class=\"removed\">removed<td>"), "{page}");
        assert!(!page.contains("class=\"error\""), "{page}");
        let page = rendered(&[plugin(&json!({"failing": true, "consecutiveErrors": 3}))]);
        assert!(page.contains("<td class=\"failing\">failing<td>"), "{page}");
    }
}
