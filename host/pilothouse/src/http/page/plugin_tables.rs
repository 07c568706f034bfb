//! The tables of a plugin's page that only list something: history, watches, grants, limits and counts.

use maud::{Markup, html};
use pilothouse_controller::{PluginDetails, PluginStatus, StateChange};

use super::layout::{scrolling, short, state, text, time};

/// The counters of a limit that was reached, with what it is.
const LIMIT_COUNTERS: [(&str, &str); 6] = [
    ("hostMemoryRefusals", "Work that was refused because of limits.hostMemory"),
    ("throttledRequests", "Requests that waited because of limits.clientQps"),
    ("droppedEvents", "Events that were dropped because of limits.eventsPerSecond"),
    ("timeouts", "Calls that exceeded their time limit"),
    ("traps", "Calls that trapped, among them those that exceeded a limit of memory"),
    ("hotLoops", "Keys that were slowed down because they triggered themselves"),
];

/// Renders the changes of the state, the newest first.
pub(super) fn history(changes: &[StateChange]) -> Markup {
    html! {
        h2 id="history-heading" { "History" }
        (scrolling("Table of the changes of the state", &html! {
            table {
                caption { "Changes of the state, the newest first" }
                thead { tr { th scope="col" { "Time" } th scope="col" { "State" } th scope="col" { "Reason" } } }
                tbody {
                    @for change in changes.iter().rev() {
                        tr {
                            td { (time(&change.time)) }
                            td { (state(change.state.as_str())) }
                            td { (text(&change.reason)) }
                        }
                    }
                }
            }
        }))
    }
}

/// Renders the watches of the running version.
pub(super) fn watches(details: &PluginDetails) -> Markup {
    html! {
        h2 id="watches-heading" { "Watches" }
        @if details.watches.is_empty() {
            p { "No version runs, or it watches nothing." }
        } @else {
            (scrolling("Table of the watches", &html! {
                table {
                    caption { "Watches of the running version" }
                    thead {
                        tr {
                            th scope="col" { "Watch" } th scope="col" { "Resource" } th scope="col" { "Namespaces" }
                            th scope="col" { "Selectors" } th scope="col" { "Reconciled" } th scope="col" { "State" }
                        }
                    }
                    tbody {
                        @for watch in &details.watches {
                            tr {
                                th scope="row" { (short(&watch.name)) }
                                td { (short(&watch.resource)) }
                                td { (names(&watch.namespaces, "all")) }
                                td { (text(&watch.label_selector)) " " (text(&watch.field_selector)) }
                                td { @if watch.is_target { "yes" } @else { "no" } }
                                td {
                                    @if let Some(error) = &watch.error { span.problem { (text(error)) } }
                                    @else if watch.synced { "in sync" }
                                    @else { "waits for its first list" }
                                }
                            }
                        }
                    }
                }
            }))
        }
    }
}

/// Renders what the plugin may do.
pub(super) fn grants(plugin: &str, details: &PluginDetails) -> Markup {
    html! {
        h2 id="grants-heading" { "Grants" }
        @if let Some(grants) = &details.grants {
            dl {
                dt { "Acts as" }
                dd { @if let Some(account) = &grants.service_account { (short(account)) } @else { "the host" } }
                dt { "HTTP hosts" } dd { (names(&grants.http, "none")) }
                dt { "Its CRDs" }
                dd {
                    @match grants.crds {
                        Some(true) => { "are applied" }
                        Some(false) => { "are not applied" }
                        None => { "as the host's configuration says" }
                    }
                }
            }
            @if grants.writes.is_empty() {
                p { "It may write nothing." }
            } @else {
                (scrolling("Table of the granted requests", &html! {
                    table {
                        caption { "Requests that the descriptor asks for and the sidecar allows" }
                        thead {
                            tr {
                                th scope="col" { "Resources" } th scope="col" { "API groups" } th scope="col" { "Verbs" }
                                th scope="col" { "Namespaces" }
                            }
                        }
                        tbody {
                            @for rule in &grants.writes {
                                tr {
                                    th scope="row" { (names(&rule.resources, "none")) }
                                    td { (groups(&rule.api_groups)) }
                                    td { (names(&rule.verbs, "none")) }
                                    td { (names(&rule.namespaces, "all")) }
                                }
                            }
                        }
                    }
                }))
            }
        } @else {
            p { "Nothing is granted: " code { (short(plugin)) ".yaml" } " was not read yet, or is invalid." }
        }
    }
}

/// Renders the limits that the plugin has reached.
pub(super) fn limits(status: &PluginStatus) -> Markup {
    let reached = LIMIT_COUNTERS.iter().filter_map(|(name, label)| {
        let count = status.counters.get(*name).copied().filter(|count| *count > 0)?;
        Some((*label, count))
    });
    let reached: Vec<_> = reached.collect();
    let memory = &status.host_memory;
    html! {
        h2 id="limits-heading" { "Limits" }
        @if memory.limit > 0 {
            p { "Host memory: " (kibibytes(memory.used)) " of " (kibibytes(memory.limit)) }
        }
        @if reached.is_empty() {
            p { "No limit was reached since the host started." }
        } @else {
            (scrolling("Table of limits that were reached", &html! {
                table {
                    caption { "Limits that were reached since the host started" }
                    thead { tr { th scope="col" { "Limit" } th scope="col" { "Count" } } }
                    tbody {
                        @for (label, count) in reached {
                            tr { th scope="row" { (label) } td.number { (count) } }
                        }
                    }
                }
            }))
        }
    }
}

/// Renders all counters.
pub(super) fn counts(status: &PluginStatus) -> Markup {
    html! {
        h2 id="counts-heading" { "Counts" }
        (scrolling("Table of the counts", &html! {
            table {
                caption { "Counts since the host started" }
                thead { tr { th scope="col" { "What" } th scope="col" { "Count" } } }
                tbody {
                    @for (name, count) in &status.counters {
                        tr { th scope="row" { (short(name)) } td.number { (count) } }
                    }
                }
            }
        }))
    }
}

/// Renders names with commas between them.
fn names(names: &[String], if_empty: &str) -> Markup {
    html! {
        @if names.is_empty() { (if_empty) }
        @for (position, name) in names.iter().enumerate() {
            @if position > 0 { ", " }
            (short(name))
        }
    }
}

/// Renders API groups. The core group has the name "".
fn groups(groups: &[String]) -> Markup {
    html! {
        @for (position, group) in groups.iter().enumerate() {
            @if position > 0 { ", " }
            @if group.is_empty() { "core" } @else { (short(group)) }
        }
    }
}

fn kibibytes(bytes: usize) -> String {
    format!("{} KiB", bytes.div_ceil(1024))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::http::page::tests::plugin;

    #[test]
    fn limits_are_listed_once_they_were_reached() {
        let memory = json!({"used": 1025, "limit": 4096, "byKind": {}});
        let idle = limits(&plugin(&json!({"hostMemory": memory, "counters": {"timeouts": 0}}))).into_string();
        assert!(idle.contains("2 KiB of 4 KiB") && idle.contains("No limit was reached"), "{idle}");
        let busy = limits(&plugin(&json!({"counters": {"timeouts": 3}}))).into_string();
        assert!(busy.contains("exceeded their time limit</th><td class=\"number\">3</td>"), "{busy}");
    }

    #[test]
    fn grants_name_the_core_group_and_all_namespaces() {
        let details: PluginDetails = serde_json::from_value(json!({"grants": {
            "serviceAccount": "shop/robot", "http": [], "crds": false,
            "writes": [{"apiGroups": ["", "apps"], "resources": ["secrets", "deployments"], "verbs": ["get"]}],
        }}))
        .expect("details");
        let shown = grants("p", &details).into_string();
        for part in [
            "shop/robot",
            "are not applied",
            "<th scope=\"row\">secrets, deployments</th><td>core, apps</td><td>get</td><td>all</td>",
        ] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
    }
}
