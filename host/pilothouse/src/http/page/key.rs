//! The page of one key: why it was reconciled, or was not, and what happened to it.

use maud::{Markup, html};
use pilothouse_controller::Explanation;

use super::events_path;
use super::layout::{Page, link, plugin_path, scrolling, short, text, time};
use crate::explanation;

/// Renders the explanation of a key. The page is brought up to date if `is_live`.
pub(super) fn render(explained: &Explanation, is_live: bool) -> String {
    let Explanation { plugin, watch, key, code, verdict, now, then } = explained;
    let content = html! {
        (path(plugin))
        h1 { (short(key)) }
        div id="explanation" data-live {
            p.verdict aria-live="polite" { strong { (maud::display(code)) } ": " (text(verdict)) }
            h2 { "Now" }
            (scrolling("Table of what decides", &html! {
                table {
                    caption {
                        "What decides whether the key is reconciled" @if !watch.is_empty() { ", in the watch " (short(watch)) }
                    }
                    tbody {
                        @for row in explanation::situation(now) {
                            tr { th scope="row" { (row.name) } td { (text(&row.value)) } }
                        }
                    }
                }
            }))
            h2 { "Journal" }
            @if then.is_empty() {
                p { "The journal has nothing about this key." }
            } @else {
                (scrolling("Table of what happened", &html! {
                    table {
                        caption { "What happened to the key, the oldest first" }
                        thead { tr { th scope="col" { "Time" } th scope="col" { "What happened" } } }
                        tbody {
                            @for entry in then {
                                tr { td { (time(&entry.time)) } td { (text(&explanation::entry_text(entry))) } }
                            }
                        }
                    }
                }))
            }
        }
        @if is_live {
            p { code { "pilothouse explain " (short(plugin)) " " (short(key)) " --follow" } " shows the same in a terminal." }
        }
    };
    let events = is_live.then(|| events_path(plugin));
    Page { title: key, events: events.as_deref(), content }.render()
}

/// Renders the page of a question that cannot be answered.
pub(super) fn render_problem(plugin: &str, key: &str, problem: &str) -> String {
    let content = html! {
        (path(plugin))
        h1 { (short(key)) }
        p.problem { (text(problem)) }
    };
    Page { title: key, events: None, content }.render()
}

fn path(plugin: &str) -> Markup {
    html! {
        nav.path aria-label="Path" {
            a href="/" { "Plugins" } " › " (link(plugin_path(plugin).as_deref(), &short(plugin)))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_verdict_comes_first_and_the_journal_last() {
        let then = json!([{"time": "2026-01-02T03:04:05.006Z", "type": "write", "verb": "patch", "code": 409, "resourceVersion": 0, "sameKey": true}]);
        let page = render(&explanation::tests::explanation(&json!({}), &then), true);
        for part in [
            "<h1>shop/a</h1>",
            "<strong>PredicateFalse</strong>: a &lt; b is false",
            "<th scope=\"row\">queue</th><td>not pending</td>",
            "patch: HTTP 409",
            "<a href=\"/plugins/p\">p</a>",
            "in the watch foos",
            "data-events=\"/page/events?plugin=p\"",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        let empty = render(&explanation::tests::explanation(&json!({}), &json!([])), false);
        assert!(empty.contains("The journal has nothing") && !empty.contains("data-events"), "{empty}");
    }

    #[test]
    fn a_key_that_cannot_be_explained_stays_text() {
        let key = "<img src=x onerror=alert(1)>\u{202e}".repeat(2000);
        let page = render_problem("\"><b>", &key, "key has more than 317 bytes <now>");
        assert!(page.len() < 8 << 10, "{} bytes", page.len());
        assert!(!page.contains("<img") && !page.contains("<b>") && !page.contains('\u{202e}'), "{page}");
        assert!(page.contains("more than 317 bytes &lt;now&gt;") && !page.contains("data-events"), "{page}");
    }
}
