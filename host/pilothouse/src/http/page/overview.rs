//! The overview: a table of the plugins that can be searched, filtered, sorted and paged through by links and a form.

use std::collections::BTreeMap;

use maud::{Markup, html};
use pilothouse_controller::{LoadProgress, PluginStatus};
use serde::Deserialize;

use super::layout::{EVENTS_PATH, Page, link, plugin_path, scrolling, short, state, time};
use super::order::{Column, Order, reconciles, severity};
use crate::commands::percent_encoded;
use crate::summary;

/// The number of plugins on a page.
const PAGE_SIZE: usize = 100;
/// The maximum number of characters of a search that are used.
const MAX_SEARCH: usize = 100;

/// The parameters of the overview. Unknown values count as absent.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct OverviewQuery {
    /// Text that the name, the version or a problem contains.
    pub(super) q: String,
    /// The only state to show.
    pub(super) state: String,
    /// The column by which to sort, with `-` before it for the reverse order.
    pub(super) sort: String,
    /// The number of the page, from 1.
    pub(super) page: String,
    /// The plugin of a question about a key, which has a page of its own.
    pub(super) plugin: String,
    /// The key of that question.
    pub(super) key: String,
    /// The watch of that question.
    pub(super) watch: String,
}

impl OverviewQuery {
    /// Returns the path of the overview with these parameters, of which the empty ones are left out.
    fn path(&self, order: Order, page: usize) -> String {
        let page = if page > 1 { page.to_string() } else { String::new() };
        let sort = if order == Order::parse("") { String::new() } else { order.parameter() };
        let parameters = [("q", &self.q), ("state", &self.state), ("sort", &sort), ("page", &page)];
        let parameters: Vec<String> = parameters
            .iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(name, value)| format!("{name}={}", percent_encoded(value)))
            .collect();
        if parameters.is_empty() { "/".to_owned() } else { format!("/?{}", parameters.join("&")) }
    }

    fn selects(&self, plugin: &PluginStatus, search: &str) -> bool {
        if !self.state.is_empty() && summary::state(plugin) != self.state {
            return false;
        }
        let has = |text: &str| text.to_lowercase().contains(search);
        search.is_empty()
            || has(&plugin.name)
            || has(&plugin.version)
            || summary::problems(plugin).iter().any(|problem| has(problem))
    }
}

/// Renders the overview. It is brought up to date if `is_live`.
pub(super) fn render(plugins: &[PluginStatus], query: &OverviewQuery, is_live: bool) -> String {
    // Links repeat the search, so a long one is cut before it is used.
    let q = query.q.chars().take(MAX_SEARCH).collect::<String>();
    let query = OverviewQuery { q, state: query.state.chars().take(MAX_SEARCH).collect(), ..query.clone() };
    let order = Order::parse(&query.sort);
    let search = query.q.to_lowercase();
    let mut selected: Vec<&PluginStatus> =
        plugins.iter().filter(|plugin| query.selects(plugin, &search)).collect();
    order.sort(&mut selected);
    let pages = selected.len().div_ceil(PAGE_SIZE).max(1);
    let page = query.page.parse::<usize>().unwrap_or(1).clamp(1, pages);
    let first = (page - 1) * PAGE_SIZE;
    let shown = &selected[first..(first + PAGE_SIZE).min(selected.len())];
    let content = html! {
        h1 { "Plugins" }
        @if plugins.is_empty() {
            p id="summary" data-live aria-live="polite" {
                "No plugins. Copy a " code { ".wasm" } " file into the plugins directory."
            }
        } @else {
            (summary_line(plugins, &query, order))
            (form(plugins, &query, order))
        }
        section id="plugins" data-live aria-label="Selected plugins" {
            @if selected.is_empty() && !plugins.is_empty() {
                p { "No plugin matches. " a href="/" { "Show all" } }
            } @else if !plugins.is_empty() {
                p { (first + 1) "–" (first + shown.len()) " of " (selected.len()) }
                (scrolling("Table of the plugins", &table(shown, &query, order)))
                @if pages > 1 { (page_links(&query, order, page, pages)) }
            }
        }
    };
    Page { title: "Plugins", events: is_live.then_some(EVENTS_PATH), content }.render()
}

/// Renders how many plugins are in each state, with links to them.
fn summary_line(plugins: &[PluginStatus], query: &OverviewQuery, order: Order) -> Markup {
    let mut counts: BTreeMap<(u8, &str), usize> = BTreeMap::new();
    for plugin in plugins {
        let state = summary::state(plugin);
        *counts.entry((severity(state), state)).or_default() += 1;
    }
    let progress = LoadProgress::of(plugins);
    html! {
        div id="summary" data-live aria-live="polite" {
            ul.states {
                @for ((_, name), count) in counts {
                    @let only = OverviewQuery { state: name.to_owned(), ..query.clone() };
                    li { a href=(only.path(order, 1)) { (count) " " (state(name)) } }
                }
            }
            @if !progress.is_complete() { p { (maud::display(progress)) } }
        }
    }
}

fn form(plugins: &[PluginStatus], query: &OverviewQuery, order: Order) -> Markup {
    let mut states: Vec<&str> = plugins.iter().map(summary::state).collect();
    states.sort_unstable();
    states.dedup();
    html! {
        form.filter action="/" role="search" {
            label { "Search " input type="search" name="q" value=(short(&query.q)) maxlength=(MAX_SEARCH); }
            label {
                "State "
                select name="state" {
                    option value="" { "all" }
                    @for state in states {
                        option value=(state) selected[query.state == state] { (state) }
                    }
                }
            }
            label {
                "Sort by "
                select name="sort" {
                    @for column in Column::ALL {
                        @for is_reverse in [false, true] {
                            @let option = Order { column, is_reverse };
                            option value=(option.parameter()) selected[option == order] {
                                (column.names().1) @if is_reverse { ", descending" }
                            }
                        }
                    }
                }
            }
            button { "Show" }
        }
    }
}

fn table(plugins: &[&PluginStatus], query: &OverviewQuery, order: Order) -> Markup {
    html! {
        table {
            caption { "Plugins, with what is wrong or waited for. A heading sorts the table." }
            thead {
                tr {
                    @for column in Column::ALL {
                        th scope="col" class=[column.class()] aria-sort=[direction(order, column)] {
                            a href=(query.path(order.after_click(column), 1)) { (column.names().1) }
                        }
                    }
                    th.wide scope="col" { "Version" }
                }
            }
            tbody { @for plugin in plugins { (row(plugin)) } }
        }
    }
}

/// Returns the value of `aria-sort`; `None` for a column by which the table is not sorted.
fn direction(order: Order, column: Column) -> Option<&'static str> {
    (order.column == column).then_some(if order.is_reverse { "descending" } else { "ascending" })
}

fn row(plugin: &PluginStatus) -> Markup {
    html! {
        tr {
            th scope="row" {
                (link(plugin_path(&plugin.name).as_deref(), &short(&plugin.name)))
                @for problem in summary::problems(plugin) { p.problem { (short(&problem)) } }
            }
            td { (state(summary::state(plugin))) }
            td.wide { (time(&plugin.since)) }
            td.wide.number { (plugin.queue_depth) }
            td.wide.number { (plugin.keys_in_backoff) }
            td.wide.number { (reconciles(plugin)) }
            td.number { (summary::errors(plugin)) }
            td.wide { (short(&plugin.version)) }
        }
    }
}

fn page_links(query: &OverviewQuery, order: Order, page: usize, pages: usize) -> Markup {
    html! {
        nav.pages aria-label="Pages" {
            @if page > 1 { a rel="prev" href=(query.path(order, page - 1)) { "Previous page" } }
            span { "Page " (page) " of " (pages) }
            @if page < pages { a rel="next" href=(query.path(order, page + 1)) { "Next page" } }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::http::page::tests::plugin;

    fn shown(page: &str) -> Vec<&str> {
        let rows = page.split("<th scope=\"row\">").skip(1);
        rows.filter_map(|row| row.split("\">").nth(1)?.split("</a>").next()).collect()
    }

    fn render(plugins: &[PluginStatus], query: &OverviewQuery) -> String {
        super::render(plugins, query, true)
    }

    fn named(names: &[&str]) -> Vec<PluginStatus> {
        names.iter().map(|name| plugin(&json!({"name": name}))).collect()
    }

    #[test]
    fn plugins_are_searched_by_name_version_and_problem() {
        let plugins = [
            plugin(&json!({"name": "web"})),
            plugin(&json!({"name": "db", "version": "7-Web"})),
            plugin(&json!({"name": "broken", "state": "failed", "error": "no WEB here"})),
            plugin(&json!({"name": "other"})),
        ];
        let query = |q: &str, state: &str| OverviewQuery {
            q: q.to_owned(),
            state: state.to_owned(),
            ..OverviewQuery::default()
        };
        assert_eq!(shown(&render(&plugins, &query("web", ""))), ["broken", "db", "web"]);
        assert_eq!(shown(&render(&plugins, &query("web", "failed"))), ["broken"]);
        assert_eq!(shown(&render(&plugins, &query("", "running"))), ["db", "other", "web"]);
        let none = render(&plugins, &query("<b>", ""));
        assert!(none.contains("No plugin matches") && none.contains("value=\"&lt;b&gt;\""), "{none}");
        assert!(!none.contains("<b>"), "{none}");
    }

    #[test]
    fn a_heading_sorts_and_sorts_the_other_way() {
        let plugins = [
            plugin(&json!({"name": "a", "counters": {"errors": 5}})),
            plugin(&json!({"name": "b", "counters": {"errors": 9}, "state": "failed"})),
            plugin(&json!({"name": "c", "counters": {}})),
        ];
        let sorted = |sort: &str| {
            let query = OverviewQuery { sort: sort.to_owned(), ..OverviewQuery::default() };
            render(&plugins, &query)
        };
        let page = sorted("-errors");
        assert_eq!(shown(&page), ["b", "a", "c"]);
        assert!(page.contains("aria-sort=\"descending\"><a href=\"/?sort=errors\">Errors"), "{page}");
        let page = sorted("errors");
        assert_eq!(shown(&page), ["c", "a", "b"]);
        assert!(page.contains("aria-sort=\"ascending\"><a href=\"/?sort=-errors\">Errors"), "{page}");
        assert_eq!(shown(&sorted("state")), ["b", "a", "c"]);
        assert_eq!(shown(&sorted("\"><script>")), ["a", "b", "c"]);
    }

    #[test]
    fn a_thousand_plugins_are_shown_on_pages_of_bounded_size() {
        let error = "\u{202e}<\"&".repeat(1 << 10);
        let plugins: Vec<PluginStatus> = (0..1000)
            .map(|number| {
                let name = format!("plugin-with-a-rather-long-name-{number:04}");
                plugin(&json!({"name": name, "version": error, "state": "failed", "error": error}))
            })
            .collect();
        let first = render(&plugins, &OverviewQuery::default());
        assert!(first.len() < 300 << 10, "{} bytes", first.len());
        assert_eq!(shown(&first).len(), PAGE_SIZE);
        assert!(first.contains("1–100 of 1000") && first.contains("Page 1 of 10"), "{first}");
        let at = |page: &str| {
            render(&plugins, &OverviewQuery { page: page.to_owned(), ..OverviewQuery::default() })
        };
        assert!(at("10").contains("901–1000 of 1000"));
        assert!(at("99999999999999999999").contains("Page 1 of 10") && at("11").contains("Page 10 of 10"));
        assert!(at("2").contains("href=\"/?page=3\"") && at("2").contains("rel=\"prev\" href=\"/\""));
    }

    #[test]
    fn the_form_keeps_what_was_chosen() {
        let query = OverviewQuery {
            q: "a b".to_owned(),
            state: "running".to_owned(),
            sort: "-queue".to_owned(),
            ..OverviewQuery::default()
        };
        let page = render(&named(&["a b"]), &query);
        assert!(
            page.contains("value=\"a b\"") && page.contains("<option value=\"running\" selected>"),
            "{page}"
        );
        assert!(page.contains("<option value=\"-queue\" selected>Queue, descending"), "{page}");
        assert!(page.contains("href=\"/?q=a%20b&amp;state=running&amp;sort=queue\">Queue"), "{page}");
    }

    #[test]
    fn the_progress_is_shown_until_all_plugins_are_loaded() {
        let compiling = plugin(&json!({"state": "compiling"}));
        let page = render(&[plugin(&json!({})), compiling], &OverviewQuery::default());
        assert!(page.contains("<p>plugins loaded: 1 of 2</p>"), "{page}");
        assert!(!render(&named(&["a"]), &OverviewQuery::default()).contains("plugins loaded"));
        assert!(render(&[], &OverviewQuery::default()).contains("No plugins."));
    }

    #[test]
    fn a_removed_plugin_is_not_shown_as_an_error() {
        let members = json!({"state": "stopped", "removed": true, "error": "its file was removed"});
        let page = render(&[plugin(&members)], &OverviewQuery::default());
        assert!(page.contains("<span class=\"state removed\">removed</span>"), "{page}");
        assert!(!page.contains("class=\"problem\""), "{page}");
        let page = render(&[plugin(&json!({"failing": true}))], &OverviewQuery::default());
        assert!(page.contains("<span class=\"state failing\">failing</span>"), "{page}");
    }
}
