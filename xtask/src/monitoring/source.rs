//! The panels of the dashboards, as tables. `cargo xtask dashboards` writes the JSON that Grafana reads.
//!
//! In a query, `{@` stands for `{` and the selectors of job and instance, `{@plugin` selects the plugins, too, `[@]` is the range of a
//! rate, and `[@range]` the range that the reader has selected.

/// A dashboard.
pub(super) struct Dashboard {
    /// The name of the file, and the end of the dashboard's ID.
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// Whether the reader selects plugins.
    pub(super) has_plugins: bool,
    pub(super) rows: &'static [Row],
}

/// Panels below a heading.
pub(super) struct Row {
    pub(super) title: &'static str,
    pub(super) panels: &'static [Panel],
}

/// A panel.
pub(super) struct Panel {
    pub(super) kind: Kind,
    pub(super) title: &'static str,
    /// The unit, by Grafana's name.
    pub(super) unit: &'static str,
    pub(super) description: &'static str,
    /// Each query, with the text of the legend.
    pub(super) queries: &'static [(&'static str, &'static str)],
}

/// How a panel shows its values.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The last value, as a number.
    Number,
    /// The course of the values.
    Graph,
}

type Queries = &'static [(&'static str, &'static str)];

const fn number(
    title: &'static str,
    unit: &'static str,
    description: &'static str,
    queries: Queries,
) -> Panel {
    Panel { kind: Kind::Number, title, unit, description, queries }
}

const fn graph(
    title: &'static str,
    unit: &'static str,
    description: &'static str,
    queries: Queries,
) -> Panel {
    Panel { kind: Kind::Graph, title, unit, description, queries }
}

/// The dashboard about where plugins come from. Its metrics have values only where plugins come from a registry.
pub(super) const DELIVERY: &str = "delivery";

/// All dashboards.
#[rustfmt::skip]
pub(super) const DASHBOARDS: [Dashboard; 4] = [
    Dashboard { name: "overview", title: "Pilothouse / Overview", has_plugins: false, rows: &[
        Row { title: "Hosts", panels: &[
            number("Ready hosts", "short", "Hosts whose /readyz answers 200.", &[
                ("sum(pilothouse_ready{@})", "ready"),
            ]),
            number("Plugins that run", "short", "Plugins in the state running.", &[
                (r#"sum(pilothouse_plugin_state{@, state="running"})"#, "running"),
            ]),
            number("Plugins that do not run", "short", "Plugins that wait, back off or have failed.", &[
                (r#"sum(pilothouse_plugin_state{@, state=~"waiting|backing-off|failed"})"#, "not running"),
            ]),
            number("Versions", "short", "Hosts by version.", &[
                ("count by (version) (pilothouse_build_info{@})", "{{version}}"),
            ]),
            number("Failing watches", "short", "Informers that cannot watch.", &[
                ("sum(pilothouse_informer_failing{@})", "failing"),
            ]),
            number("Up since", "dateTimeFromNow", "When the host was started.", &[
                ("process_start_time_seconds{@} * 1000", "{{instance}}"),
            ]),
        ] },
        Row { title: "Work", panels: &[
            graph("Reconciles", "ops", "Reconciles per second, by plugin.", &[
                ("sum by (controller) (rate(controller_runtime_reconcile_total{@}[@]))", "{{controller}}"),
            ]),
            graph("Failed reconciles", "ops", "Reconciles per second that failed, by plugin.", &[
                ("sum by (controller) (rate(controller_runtime_reconcile_errors_total{@}[@]))", "{{controller}}"),
            ]),
            graph("Ready keys", "short", "Keys that wait for a worker, by plugin.", &[
                ("sum by (controller) (workqueue_depth{@})", "{{controller}}"),
            ]),
            graph("From change to reconcile, 99 %", "s", "How long one change in a hundred waits for its reconcile, by plugin.", &[
                ("histogram_quantile(0.99, sum by (controller, le) (rate(pilothouse_event_to_reconcile_seconds_bucket{@}[@])))", "{{controller}}"),
            ]),
            graph("From change to write, 99 %", "s", "How long it takes from a change until the API server has accepted the writes that follow, by plugin.", &[
                ("histogram_quantile(0.99, sum by (controller, le) (rate(pilothouse_event_to_write_seconds_bucket{@}[@])))", "{{controller}}"),
            ]),
            graph("Plugins by state", "short", "The number of plugins in each state.", &[
                ("sum by (state) (pilothouse_plugin_state{@})", "{{state}}"),
            ]),
        ] },
        Row { title: "Resources", panels: &[
            graph("Memory", "bytes", "Memory in use, and the limit of the container.", &[
                ("process_resident_memory_bytes{@}", "{{instance}}"),
                ("pilothouse_memory_limit_bytes{@}", "limit of {{instance}}"),
            ]),
            graph("Memory of the allocator", "bytes", "Allocations, and the memory that the allocator uses for them; guests' memories and compiled code are not part of it.", &[
                ("pilothouse_allocator_allocated_bytes{@}", "allocated by {{instance}}"),
                ("pilothouse_allocator_resident_bytes{@}", "used for {{instance}}"),
            ]),
            graph("Processor time", "percentunit", "Processors in use; 100 % is one.", &[
                ("rate(process_cpu_seconds_total{@}[@])", "{{instance}}"),
            ]),
            graph("File descriptors", "percentunit", "Open file descriptors, as a part of the limit.", &[
                ("process_open_fds{@} / process_max_fds{@}", "{{instance}}"),
            ]),
            graph("Threads", "short", "Threads of the host.", &[
                ("process_threads{@}", "{{instance}}"),
            ]),
            graph("Memory held for plugins", "bytes", "What the host holds for each plugin, without its instances.", &[
                ("sum by (controller) (pilothouse_plugin_host_memory_bytes{@})", "{{controller}}"),
            ]),
            graph("Loads of plugin code", "short", "Loads in each interval, by where the code came from.", &[
                ("sum by (outcome) (increase(pilothouse_plugin_code_total{@}[@]))", "{{outcome}}"),
            ]),
        ] },
    ] },
    Dashboard { name: "plugin", title: "Pilothouse / Plugin", has_plugins: true, rows: &[
        Row { title: "State", panels: &[
            number("State", "short", "The plugin's state.", &[
                ("sum by (controller, state) (pilothouse_plugin_state{@plugin} == 1)", "{{controller}}: {{state}}"),
            ]),
            number("Workers", "short", "Workers that reconcile, and all workers.", &[
                ("sum(controller_runtime_active_workers{@plugin})", "active"),
                ("sum(controller_runtime_max_concurrent_reconciles{@plugin})", "all"),
            ]),
            number("Longest reconcile", "s", "The time of the key that has been processed for longest.", &[
                ("max(workqueue_longest_running_processor_seconds{@plugin})", "longest"),
            ]),
            number("Refused loads", "short", "Files that were refused in the range.", &[
                (r#"sum(increase(pilothouse_plugin_reloads_total{@plugin, result="refused"}[@range]))"#, "refused"),
            ]),
            number("Hot loops", "short", "Keys found in a hot loop in the range.", &[
                ("sum(increase(pilothouse_hot_loops_total{@plugin}[@range]))", "found"),
            ]),
            number("Panics of the host", "short", "Panics of the plugin's tasks in the host: a defect of the host.", &[
                ("sum(increase(pilothouse_task_panics_total{@plugin}[@range]))", "panics"),
            ]),
        ] },
        Row { title: "Reconciles", panels: &[
            graph("Reconciles by result", "ops", "Reconciles per second.", &[
                ("sum by (result) (rate(controller_runtime_reconcile_total{@plugin}[@]))", "{{result}}"),
            ]),
            graph("Faults", "ops", "Reconciles per second that trapped, exceeded their time, or ended with a terminal error.", &[
                ("sum(rate(controller_runtime_reconcile_panics_total{@plugin}[@]))", "traps"),
                ("sum(rate(controller_runtime_reconcile_timeouts_total{@plugin}[@]))", "timeouts"),
                ("sum(rate(controller_runtime_terminal_reconcile_errors_total{@plugin}[@]))", "terminal errors"),
            ]),
            graph("Duration of reconciles", "s", "Time of a reconcile.", &[
                ("histogram_quantile(0.5, sum by (le) (rate(controller_runtime_reconcile_time_seconds_bucket{@plugin}[@])))", "50 %"),
                ("histogram_quantile(0.99, sum by (le) (rate(controller_runtime_reconcile_time_seconds_bucket{@plugin}[@])))", "99 %"),
            ]),
            graph("From change to reconcile", "s", "How long changes wait for their reconcile.", &[
                ("histogram_quantile(0.5, sum by (le) (rate(pilothouse_event_to_reconcile_seconds_bucket{@plugin}[@])))", "50 %"),
                ("histogram_quantile(0.99, sum by (le) (rate(pilothouse_event_to_reconcile_seconds_bucket{@plugin}[@])))", "99 %"),
            ]),
            graph("From change to write", "s", "How long it takes from a change until the API server has accepted the writes that follow.", &[
                ("histogram_quantile(0.5, sum by (le) (rate(pilothouse_event_to_write_seconds_bucket{@plugin}[@])))", "50 %"),
                ("histogram_quantile(0.99, sum by (le) (rate(pilothouse_event_to_write_seconds_bucket{@plugin}[@])))", "99 %"),
            ]),
            graph("State changes", "short", "Times that the plugin entered each state in each interval.", &[
                ("sum by (state) (increase(pilothouse_plugin_transitions_total{@plugin}[@]))", "{{state}}"),
            ]),
        ] },
        Row { title: "Queue", panels: &[
            graph("Ready keys", "short", "Keys that wait for a worker.", &[
                ("sum(workqueue_depth{@plugin})", "ready"),
            ]),
            graph("Added and retried keys", "ops", "Keys per second that became ready, and that were queued again after a failure.", &[
                ("sum(rate(workqueue_adds_total{@plugin}[@]))", "added"),
                ("sum(rate(workqueue_retries_total{@plugin}[@]))", "retried"),
            ]),
            graph("Time in the queue", "s", "How long keys are ready before a worker takes them.", &[
                ("histogram_quantile(0.5, sum by (le) (rate(workqueue_queue_duration_seconds_bucket{@plugin}[@])))", "50 %"),
                ("histogram_quantile(0.99, sum by (le) (rate(workqueue_queue_duration_seconds_bucket{@plugin}[@])))", "99 %"),
            ]),
            graph("Time with a worker", "s", "How long workers hold keys.", &[
                ("histogram_quantile(0.99, sum by (le) (rate(workqueue_work_duration_seconds_bucket{@plugin}[@])))", "99 %"),
            ]),
            graph("Unfinished work", "s", "Summed time of the keys that are being processed.", &[
                ("sum(workqueue_unfinished_work_seconds{@plugin})", "unfinished"),
            ]),
            graph("Rounds of hot loops", "ops", "Reconciles per second in a hot loop.", &[
                ("sum(rate(pilothouse_hot_loop_rounds_total{@plugin}[@]))", "rounds"),
            ]),
        ] },
        Row { title: "Requests and limits", panels: &[
            graph("Throttled requests", "ops", "Requests per second that wait because of limits.clientQps.", &[
                ("sum(rate(pilothouse_client_throttled_total{@plugin}[@]))", "throttled"),
            ]),
            graph("HTTP requests", "ops", "The plugin's own HTTP requests per second, by result.", &[
                ("sum by (result) (rate(pilothouse_http_requests_total{@plugin}[@]))", "{{result}}"),
            ]),
            graph("Memory of the host", "bytes", "What the host holds for the plugin by kind, and the limit.", &[
                ("sum by (kind) (pilothouse_plugin_host_memory_bytes{@plugin})", "{{kind}}"),
                ("sum(pilothouse_plugin_host_memory_limit_bytes{@plugin})", "limit"),
            ]),
            graph("Refused and dropped", "ops", "Work per second that limits have refused.", &[
                ("sum(rate(pilothouse_host_memory_refusals_total{@plugin}[@]))", "host memory"),
                ("sum(rate(pilothouse_events_dropped_total{@plugin}[@]))", "Events"),
                ("sum(rate(pilothouse_guest_metrics_refused_total{@plugin}[@]))", "metrics"),
            ]),
            graph("Observer", "ops", "Notifications per second that the observer processed, and its failures.", &[
                ("sum(rate(pilothouse_observed_notifications_total{@plugin}[@]))", "processed"),
                ("sum(rate(pilothouse_observe_errors_total{@plugin}[@]))", "failed"),
                ("sum(rate(pilothouse_observe_parked_total{@plugin}[@]))", "parked"),
            ]),
            graph("Other problems", "ops", "Failed predicates and index functions, and writes without a response, per second.", &[
                ("sum(rate(pilothouse_predicate_errors_total{@plugin}[@]))", "predicates"),
                ("sum(rate(pilothouse_index_errors_total{@plugin}[@]))", "indexes"),
                ("sum(rate(pilothouse_unknown_writes_total{@plugin}[@]))", "unknown writes"),
            ]),
        ] },
    ] },
    Dashboard { name: "informers", title: "Pilothouse / Informers and API", has_plugins: false, rows: &[
        Row { title: "Requests to the API server", panels: &[
            graph("Requests by code", "reqps", "Requests per second, by response.", &[
                ("sum by (code) (rate(rest_client_requests_total{@}[@]))", "{{code}}"),
            ]),
            graph("Requests by method", "reqps", "Requests per second, by method.", &[
                ("sum by (method) (rate(rest_client_requests_total{@}[@]))", "{{method}}"),
            ]),
            graph("Duration of requests, 99 %", "s", "Time until the head of the response, by method.", &[
                ("histogram_quantile(0.99, sum by (verb, le) (rate(rest_client_request_duration_seconds_bucket{@}[@])))", "{{verb}}"),
            ]),
        ] },
        Row { title: "Watches", panels: &[
            graph("Events", "ops", "Events read per second, by resource.", &[
                ("sum by (resource) (rate(pilothouse_informer_events_total{@}[@]))", "{{resource}}"),
            ]),
            graph("Received bytes", "Bps", "Bytes per second in lists and watches, by resource.", &[
                ("sum by (resource) (rate(pilothouse_informer_received_bytes_total{@}[@]))", "{{resource}}"),
            ]),
            graph("Failures", "ops", "Lists and watches per second that failed, by resource.", &[
                ("sum by (resource) (rate(pilothouse_informer_failures_total{@}[@]))", "{{resource}}"),
            ]),
            graph("Lists and watches", "reqps", "Requests per second, and watches that ended within a second.", &[
                ("sum(rate(reflector_lists_total{@}[@]))", "lists"),
                ("sum(rate(reflector_watches_total{@}[@]))", "watches"),
                ("sum(rate(reflector_short_watches_total{@}[@]))", "short watches"),
            ]),
            graph("Duration of lists, 99 %", "s", "Time from the request of a list to the end of its body, by resource.", &[
                ("histogram_quantile(0.99, sum by (resource, le) (rate(reflector_list_duration_seconds_bucket{@}[@])))", "{{resource}}"),
            ]),
            graph("Informers", "short", "Informers that run, that have their first list, and that fail.", &[
                ("sum(pilothouse_informer_running{@})", "running"),
                ("sum(pilothouse_informer_synced{@})", "synced"),
                ("sum(pilothouse_informer_failing{@})", "failing"),
            ]),
        ] },
        Row { title: "Caches and subscribers", panels: &[
            graph("Cached objects", "short", "Objects, by resource.", &[
                ("sum by (resource) (pilothouse_informer_store_objects{@})", "{{resource}}"),
            ]),
            graph("Memory of caches", "bytes", "Bytes of the cached objects without indexes, by resource.", &[
                ("sum by (resource) (pilothouse_informer_store_bytes{@})", "{{resource}}"),
            ]),
            graph("Subscribers", "short", "Subscribers, by resource.", &[
                ("sum by (resource) (pilothouse_informer_subscribers{@})", "{{resource}}"),
            ]),
            graph("Longest backlog", "short", "Notifications that wait for the subscriber that is furthest behind, by resource.", &[
                ("max by (resource) (pilothouse_informer_longest_backlog{@})", "{{resource}}"),
            ]),
            graph("Delta queue", "short", "Deltas that wait to be applied, by resource.", &[
                ("sum by (resource) (pilothouse_informer_delta_queue_depth{@})", "{{resource}}"),
            ]),
            graph("Merged and ignored", "ops", "Deltas and notifications per second that were merged, and events that were ignored as older than the cache.", &[
                ("sum(rate(pilothouse_informer_merged_deltas_total{@}[@]))", "merged deltas"),
                ("sum(rate(pilothouse_informer_merged_notifications_total{@}[@]))", "merged notifications"),
                ("sum(rate(pilothouse_informer_stale_events_total{@}[@]))", "stale events"),
            ]),
        ] },
    ] },
    Dashboard { name: DELIVERY, title: "Pilothouse / Delivery", has_plugins: true, rows: &[
        Row { title: "Versions", panels: &[
            number("Refused versions", "short", "Files and images that were refused in the range.", &[
                (r#"sum(increase(pilothouse_plugin_reloads_total{@plugin, result="refused"}[@range]))"#, "refused"),
            ]),
            number("Automatic rollbacks", "short", "Versions that failed in their probation in the range.", &[
                (r#"sum(increase(pilothouse_plugin_rollbacks_total{@plugin, result="automatic"}[@range]))"#, "rollbacks"),
            ]),
            number("Failed pulls", "short", "Pulls in the range that did not bring a plugin up to date.", &[
                (r#"sum(increase(pilothouse_oci_pulls_total{@plugin, result!="ok"}[@range]))"#, "failed"),
            ]),
            number("Unverified versions", "short", "Versions in the range whose signatures the policy refused.", &[
                (r#"sum(increase(pilothouse_oci_verifications_total{@plugin, result!="ok"}[@range]))"#, "unverified"),
            ]),
            graph("Reloads", "short", "Versions that were loaded or refused in each interval, by plugin.", &[
                ("sum by (controller, result) (increase(pilothouse_plugin_reloads_total{@plugin}[@]))", "{{controller}}: {{result}}"),
            ]),
            graph("Rollbacks", "short", "Versions in whose place an older one runs, in each interval, by plugin.", &[
                ("sum by (controller, result) (increase(pilothouse_plugin_rollbacks_total{@plugin}[@]))", "{{controller}}: {{result}}"),
            ]),
        ] },
        Row { title: "Registries", panels: &[
            graph("Pulls", "short", "Attempts to bring plugins up to date in each interval, by result.", &[
                ("sum by (result) (increase(pilothouse_oci_pulls_total{@plugin}[@]))", "{{result}}"),
            ]),
            graph("Failed pulls by plugin", "short", "Attempts in each interval that failed, by plugin and kind of the problem.", &[
                (r#"sum by (controller, result) (increase(pilothouse_oci_pulls_total{@plugin, result!="ok"}[@]))"#, "{{controller}}: {{result}}"),
            ]),
            graph("Verifications", "short", "Judgements of signatures by the policy in each interval, by plugin.", &[
                ("sum by (controller, result) (increase(pilothouse_oci_verifications_total{@plugin}[@]))", "{{controller}}: {{result}}"),
            ]),
        ] },
    ] },
];
