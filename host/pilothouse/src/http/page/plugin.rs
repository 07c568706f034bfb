//! The page of one plugin: its state and how it came to it, its versions, keys, grants and limits, and the end of its log.

use maud::{Markup, html};
use pilothouse_controller::{
    KeyStateName, PluginDetails, PluginKeys, PluginLogLine, PluginStatus, QueuedKey,
};

use super::layout::{Page, key_path, link, scrolling, short, state, text, time};
use super::plugin_shadow::shadow;
use super::plugin_tables::{counts, grants, history, limits, watches};
use super::plugin_versions::versions;
use super::{duration, events_path};
use crate::summary;

/// The number of pending keys that the page lists.
pub(super) const MAX_KEYS: usize = 50;
/// The number of log lines that the page shows.
pub(super) const MAX_LINES: usize = 50;

/// What the page shows.
#[derive(Clone, Copy)]
pub(super) struct PluginContent<'a> {
    pub(super) status: &'a PluginStatus,
    /// `None` for a file that cannot be a plugin.
    pub(super) details: Option<&'a PluginDetails>,
    /// `None` for such a file, too.
    pub(super) keys: Option<&'a PluginKeys>,
    /// The last lines of its log, the oldest first.
    pub(super) log: &'a [PluginLogLine],
    /// Whether the page is brought up to date.
    pub(super) is_live: bool,
}

/// Renders the page.
pub(super) fn render(plugin: PluginContent<'_>) -> String {
    let PluginContent { status, details, keys, log, is_live } = plugin;
    let name = &status.name;
    let content = html! {
        nav.path aria-label="Path" { a href="/" { "Plugins" } }
        h1 { (short(name)) }
        @if let Some(details) = details {
            @if !details.summary.is_empty() { p { (text(&details.summary)) } }
        }
        section id="state" data-live aria-labelledby="state-heading" { (state_section(status, details)) }
        @if let Some(keys) = keys {
            section id="keys-section" aria-labelledby="keys-heading" {
                h2 id="keys-heading" { "Keys" }
                (question(name))
                div id="keys" data-live { (keys_section(name, keys)) }
            }
        }
        section id="versions" data-live aria-labelledby="versions-heading" {
            (versions(name, status.rollout.as_ref()))
        }
        @if let Some(status) = &status.shadow {
            section id="shadow" data-live aria-labelledby="shadow-heading" { (shadow(status)) }
        }
        @if let Some(details) = details {
            section id="slow" data-live aria-labelledby="slow-heading" { (slow(name, details)) }
            section id="watches" data-live aria-labelledby="watches-heading" { (watches(details)) }
            section id="grants" data-live aria-labelledby="grants-heading" { (grants(name, details)) }
        }
        section id="limits" data-live aria-labelledby="limits-heading" { (limits(status)) }
        section id="counts" data-live aria-labelledby="counts-heading" { (counts(status)) }
        @if let Some(details) = details {
            section id="history" data-live aria-labelledby="history-heading" { (history(&details.history)) }
        }
        section id="log" data-live aria-labelledby="log-heading" { (log_section(name, log, is_live)) }
    };
    let events = is_live.then(|| events_path(name));
    Page { title: name, events: events.as_deref(), content }.render()
}

fn state_section(status: &PluginStatus, details: Option<&PluginDetails>) -> Markup {
    let missing = details.and_then(|details| details.missing.as_ref());
    let problems = summary::problems(status);
    // The problem mostly says what is missing, too.
    let missing = missing.filter(|missing| !problems.iter().any(|problem| problem.contains(&missing.text)));
    html! {
        h2 id="state-heading" { "State" }
        div aria-live="polite" {
            p { (state(summary::state(status))) @if !status.since.is_empty() { " since " (time(&status.since)) } }
            @for problem in &problems { p.problem { (text(problem)) } }
            @if let Some(missing) = missing { p.problem { "It waits: " (text(&missing.text)) } }
            @if let Some(next) = &status.next_try { p { "Next try: " (time(next)) } }
            @if let Some(since) = &status.compiling_since { p { "Code is being compiled since " (time(since)) } }
        }
        dl {
            dt { "Version" } dd { (short(&status.version)) }
            dt { "SHA-256" } dd { code { (short(&status.digest)) } }
            @if let Some(source) = &status.source {
                dt { "Image" } dd { (text(&source.image)) }
                dt { "Artifact" } dd { code { (text(&source.digest)) } }
                dt { "Signature policy" } dd { (text(&source.decision)) }
                @if let Some(checked_at) = &source.checked_at { dt { "Checked" } dd { (time(checked_at)) } }
            }
            dt { "Generation" } dd { (status.generation) }
            dt { "Ready keys" } dd { (status.queue_depth) }
            dt { "Keys in backoff" } dd { (status.keys_in_backoff) }
            dt { "Errors in a row" } dd { (status.consecutive_errors) }
        }
        @if let Some(last) = &status.last_error {
            p {
                "Last error " (time(&last.time))
                @if !last.key.is_empty() {
                    " at "
                    (link(key_path(&status.name, &last.watch, &last.key).as_deref(), &short(&last.key)))
                }
                ": " (text(&last.message))
            }
        }
    }
}

/// Renders the form that leads to the page of a key.
fn question(plugin: &str) -> Markup {
    html! {
        form.filter action="/" {
            input type="hidden" name="plugin" value=(text(plugin));
            label { "Key (namespace/name) " input name="key" required maxlength="317"; }
            label { "Watch, if there are several " input name="watch" maxlength="253"; }
            button { "Why was it (not) reconciled?" }
        }
    }
}

fn keys_section(plugin: &str, keys: &PluginKeys) -> Markup {
    html! {
        @if keys.keys.is_empty() {
            p { "No key is pending." }
        } @else {
            p { (keys.keys.len()) " of " (keys.pending) " pending keys" }
            (scrolling("Table of the pending keys", &html! {
                table {
                    caption { "Keys that are processed, that failed, that are ready, and that wait, in this order" }
                    thead {
                        tr {
                            th scope="col" { "Key" } th scope="col" { "Watch" } th scope="col" { "State" }
                            th scope="col" { "Failed attempts" } th scope="col" { "Last error" }
                        }
                    }
                    tbody {
                        @for key in &keys.keys {
                            tr {
                                th scope="row" {
                                    (link(key_path(plugin, &key.watch, &key.key).as_deref(), &short(&key.key)))
                                }
                                td { (short(&key.watch)) }
                                td { (key_state(key)) }
                                td.number { (key.attempts) }
                                td { @if let Some(error) = &key.last_error { (text(error)) } }
                            }
                        }
                    }
                }
            }))
        }
    }
}

/// Says what a key waits for, and for how long.
fn key_state(key: &QueuedKey) -> String {
    let time = duration(key.milliseconds);
    match key.state {
        KeyStateName::Processing => format!("processed for {time}"),
        KeyStateName::Ready => format!("ready for {time}"),
        KeyStateName::Delayed => format!("next try in {time}"),
    }
}

fn slow(plugin: &str, details: &PluginDetails) -> Markup {
    html! {
        h2 id="slow-heading" { "Slow reconciles" }
        @if details.slow_reconciles.is_empty() {
            p { "No reconcile has taken more than 100 ms." }
        } @else {
            (scrolling("Table of slow reconciles", &html! {
                table {
                    caption { "Keys whose reconciles took longest since the host started" }
                    thead {
                        tr {
                            th scope="col" { "Key" } th scope="col" { "Watch" } th scope="col" { "Time" } th scope="col" { "Ended" }
                        }
                    }
                    tbody {
                        @for slow in &details.slow_reconciles {
                            tr {
                                th scope="row" {
                                    (link(key_path(plugin, &slow.watch, &slow.key).as_deref(), &short(&slow.key)))
                                }
                                td { (short(&slow.watch)) }
                                td.number { (duration(slow.milliseconds)) }
                                td { (time(&slow.time)) }
                            }
                        }
                    }
                }
            }))
        }
    }
}

fn log_section(plugin: &str, log: &[PluginLogLine], is_live: bool) -> Markup {
    html! {
        h2 id="log-heading" { "Log" }
        @if log.is_empty() {
            p { "The log is empty." }
        } @else {
            p {
                "The last " (log.len()) " lines."
                @if is_live { " " code { "pilothouse logs " (short(plugin)) " --follow" } " shows all that follow." }
            }
            div.scrolls.log role="region" aria-label="Lines of the log" tabindex="0" {
                ol {
                    @for line in log {
                        li {
                            (time(&line.time_text())) " " span class={ "level " (short(&line.level)) } { (short(&line.level)) } " "
                            @if !line.source.is_empty() { span.source { (short(&line.source)) } " " }
                            (text(&line.message))
                            @for (name, value) in &line.fields { " " span.field { (short(name)) "=" (short(value)) } }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::http::page::tests::plugin;

    fn details(members: &Value) -> PluginDetails {
        serde_json::from_value(members.clone()).expect("details")
    }

    fn page(status: &PluginStatus, details: Option<&PluginDetails>, keys: &Value, log: &Value) -> String {
        let keys: PluginKeys = serde_json::from_value(keys.clone()).expect("keys");
        let log: Vec<PluginLogLine> = serde_json::from_value(log.clone()).expect("lines");
        render(PluginContent { status, details, keys: Some(&keys), log: &log, is_live: true })
    }

    fn no_keys() -> Value {
        json!({"keys": [], "pending": 0})
    }

    #[test]
    fn a_plugin_that_waits_says_for_what() {
        let status = plugin(
            &json!({"state": "waiting", "since": "2026-01-02T03:04:05Z", "error": "grants.watches lacks secrets"}),
        );
        let missing = json!({
            "missing": {"kind": "grant", "text": "the permission to list secrets"},
            "history": [
                {"time": "2026-01-02T03:04:04Z", "state": "found", "reason": ""},
                {"time": "2026-01-02T03:04:05Z", "state": "waiting", "reason": "grants.watches lacks secrets"},
            ],
        });
        let shown = page(&status, Some(&details(&missing)), &no_keys(), &json!([]));
        for part in [
            "<span class=\"state waiting\">waiting</span>",
            "grants.watches lacks secrets",
            "It waits: the permission to list secrets",
            "<time datetime=\"2026-01-02T03:04:05Z\">",
            "No key is pending.",
            "The log is empty.",
            "Nothing is granted",
        ] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        assert!(
            shown.rfind("03:04:05Z\">2026") < shown.rfind("03:04:04Z\">2026"),
            "the newest change is first"
        );
    }

    #[test]
    fn keys_have_links_to_their_explanations() {
        let keys = json!({"pending": 70, "keys": [
            {"watch": "foos", "key": "shop/a", "state": "delayed", "milliseconds": 61_000, "attempts": 4, "lastError": "failed: 401"},
            {"watch": "foos", "key": "<b>", "state": "processing", "milliseconds": 20, "attempts": 0},
        ]});
        let slow = json!({"slowReconciles": [{"watch": "foos", "key": "shop/b", "milliseconds": 1500, "time": "2026-01-02T03:04:05Z"}]});
        let shown = page(&plugin(&json!({})), Some(&details(&slow)), &keys, &json!([]));
        for part in [
            "2 of 70 pending keys",
            "<a href=\"/plugins/p/keys/shop/a?watch=foos\">shop/a</a>",
            "next try in 1 min 1 s",
            "failed: 401",
            "<a href=\"/plugins/p/keys/%3Cb%3E?watch=foos\">&lt;b&gt;</a>",
            "processed for 20 ms",
            "<a href=\"/plugins/p/keys/shop/b?watch=foos\">shop/b</a>",
            "1.5 s",
        ] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
    }

    #[test]
    fn a_line_of_the_log_shows_who_wrote_it() {
        let line = |source: &str| {
            json!({
                "sequence": 1, "time": "2026-01-02T03:04:05Z", "plugin": "p", "level": "info", "source": source, "message": "stopped",
            })
        };
        let shown =
            page(&plugin(&json!({})), None, &no_keys(), &json!([line("host"), line("log"), line("")]));
        for part in [
            "<span class=\"source\">host</span> stopped",
            "<span class=\"source\">log</span> stopped",
            "</span> stopped",
        ] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
    }

    #[test]
    fn whatever_a_plugin_chose_stays_text() {
        let hostile = "\u{202e}<script>alert(1)</script>\"'&\u{0}";
        let status = plugin(&json!({
            "name": hostile, "version": hostile, "digest": hostile, "error": hostile, "since": hostile, "nextTry": hostile,
            "lastError": {"time": hostile, "watch": hostile, "key": hostile, "message": hostile}, "consecutiveErrors": 1,
            "counters": {hostile: 1},
        }));
        let all = details(&json!({
            "summary": hostile, "missing": {"kind": "other", "text": format!("more {hostile}")},
            "history": [{"time": hostile, "state": "failed", "reason": hostile}],
            "watches": [{"name": hostile, "resource": hostile, "namespaces": [hostile], "labelSelector": hostile, "fieldSelector": hostile, "error": hostile}],
            "grants": {"serviceAccount": hostile, "http": [hostile], "writes": [
                {"apiGroups": [hostile], "resources": [hostile], "verbs": [hostile], "namespaces": [hostile]},
            ]},
            "slowReconciles": [{"watch": hostile, "key": hostile, "milliseconds": 1, "time": hostile}],
        }));
        let key = json!({"watch": hostile, "key": hostile, "state": "ready", "milliseconds": 1, "attempts": 1, "lastError": hostile});
        let line = json!({
            "sequence": 1, "time": "2026-01-02T03:04:05Z", "plugin": hostile, "level": hostile, "source": hostile,
            "message": hostile, "fields": [[hostile, hostile]],
        });
        let shown = page(&status, Some(&all), &json!({"pending": 1, "keys": [key]}), &json!([line]));
        assert!(!shown.contains("<script>") && !shown.contains(['\u{202e}', '\u{0}']), "{shown}");
        assert!(!shown.contains("\"'"), "no attribute ends early: {shown}");
        assert!(shown.matches("&lt;script&gt;").count() > 25, "all of it is shown: {shown}");
    }

    #[test]
    fn a_file_that_cannot_be_a_plugin_has_a_page() {
        let status = plugin(&json!({"name": "a b", "state": "failed", "error": "it is a folder"}));
        let shown =
            render(PluginContent { status: &status, details: None, keys: None, log: &[], is_live: true });
        assert!(shown.contains("it is a folder") && !shown.contains("id=\"grants\""), "{shown}");
        // The script replaces only sections that the page had from the start.
        assert!(shown.contains("<section id=\"versions\" data-live"), "{shown}");
        assert!(shown.contains("There is no other version to run."), "{shown}");
        assert!(shown.contains("data-events=\"/page/events?plugin=a%20b\""), "{shown}");
    }
}
