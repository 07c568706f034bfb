//! The HTML status page: one table, without scripts or external resources.

use std::fmt::Write;

use pilothouse_controller::PluginStatus;

/// Renders the page for the given plugins.
pub(super) fn render(plugins: &[PluginStatus]) -> String {
    let mut page = String::from(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" content=\"5\">\
         <title>Pilothouse</title><style>body{font:15px system-ui,sans-serif;margin:2rem;color:#1b2530}\
         table{border-collapse:collapse}th,td{text-align:left;padding:.35rem .9rem;border-bottom:1px solid #d5dde5}\
         th{font-weight:600}.running{color:#0a7a34}.failed,.backing-off{color:#b3261e}.error{color:#b3261e}\
         code{font-size:13px}</style><h1>Pilothouse</h1>",
    );
    if plugins.is_empty() {
        page.push_str("<p>No plugins. Drop a <code>.wasm</code> into the plugins directory.</p>");
    } else {
        page.push_str(
            "<table><tr><th>Plugin<th>Version<th>State<th>Generation<th>Queue<th>Reconciles<th>Errors<th>Digest",
        );
        for plugin in plugins {
            row(&mut page, plugin);
        }
        page.push_str("</table>");
    }
    page.push_str(
        "<p><a href=\"/api/plugins\">/api/plugins</a> · <a href=\"/metrics\">/metrics</a></p></html>",
    );
    page
}

fn row(page: &mut String, plugin: &PluginStatus) {
    let count = |name: &str| plugin.counters.get(name).copied().unwrap_or_default();
    let state = plugin.state.as_str();
    // Writing to a String cannot fail.
    let _ = write!(
        page,
        "<tr><td>{}<td>{}<td class=\"{state}\">{state}<td>{}<td>{}<td>{}<td>{}<td><code>{}</code>",
        escape(&plugin.name),
        escape(&plugin.version),
        plugin.generation,
        plugin.queue_depth,
        count("reconciles"),
        count("errors"),
        plugin.digest.get(..12).unwrap_or_default(),
    );
    if !plugin.error.is_empty() {
        let _ = write!(page, "<tr><td><td colspan=\"7\" class=\"error\">{}", escape(&plugin.error));
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use pilothouse_controller::PluginState;

    use super::*;

    #[test]
    fn plugin_text_is_escaped_as_html() {
        let plugin = PluginStatus {
            name: "p".into(),
            version: "<script>".into(),
            state: PluginState::Failed,
            generation: 0,
            error: "a < b & \"c\"".into(),
            digest: String::new(),
            queue_depth: 3,
            counters: [("reconciles".to_owned(), 7)].into(),
            since: String::new(),
            next_try: None,
            host_memory: pilothouse_controller::HostMemoryStatus::default(),
        };
        let page = render(&[plugin]);
        assert!(!page.contains("<script>"));
        assert!(page.contains("&lt;script&gt;") && page.contains("a &lt; b &amp; &quot;c&quot;"));
        assert!(page.contains("<td>7<td>"));
    }
}
