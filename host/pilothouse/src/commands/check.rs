//! `pilothouse check`: loads a plugin without running it and reports what it is and needs.

use std::collections::BTreeSet;

use pilothouse_controller::descriptor::{Index, Rule, Trigger};
use pilothouse_controller::{
    Availability, CheckReport, CheckedRule, CheckedWatch, RequiredPermission, printable,
};
use serde_json::json;

use super::check_files::check_configuration;
use super::crd_files;
use super::run::{HostConfig, read_config};
use crate::cli::Check;
use crate::{CommandError, CommandResult, output, plugin_check};

pub(crate) async fn run(flags: Check) -> CommandResult {
    #[cfg(feature = "registry")]
    if let Some(file) = flags.file.as_deref().filter(|file| super::registry::is_reference(file)) {
        let pulled = super::registry::pull_for_check(file, &flags.registry).await?;
        return check(Check { file: Some(pulled.file.clone()), ..flags }).await;
    }
    check(flags).await
}

async fn check(flags: Check) -> CommandResult {
    let Some(file) = &flags.file else {
        return check_configuration(&flags);
    };
    let HostConfig { grant_crds, grants, .. } = read_config(flags.config.as_deref())?;
    let crds = flags.crds.as_deref().map(crd_files::read).transpose()?.unwrap_or_default();
    let (cluster, host) = (flags.kubeconfig.as_deref(), (grant_crds, grants));
    let report = match plugin_check::check_file_for(file, cluster, crds, host).await {
        Ok(report) => report,
        Err(CommandError::Failure(problem)) if flags.json => {
            // Nothing else is known about a file that cannot be loaded, but consumers of JSON still get an object.
            let document = json!({"runs": false, "problems": [problem]});
            output::print_line(format_args!("{document:#}"));
            return Err(CommandError::Failure(problem));
        }
        Err(error) => return Err(error),
    };
    if flags.json {
        let text = serde_json::to_string_pretty(&report)
            .map_err(|error| CommandError::Failure(error.to_string()))?;
        output::print_line(text);
    } else {
        print_report(&report);
    }
    if report.runs { Ok(()) } else { Err(plugin_check::problems_error(file, &report)) }
}

/// Prints a labelled line. Escapes control characters, because parts of the text come from the plugin.
fn print_field(label: &str, text: &str) {
    output::print_line(format_args!("  {label:<9} {}", printable(text)));
}

fn print_report(report: &CheckReport) {
    let title = [report.name.as_str(), &report.version].join(" ");
    let dash = if report.summary.is_empty() { "" } else { " — " };
    output::print_line(printable(&format!("{}{dash}{}", title.trim_end(), report.summary)));
    let form = if report.form == "component" { "a component" } else { "a core module" };
    print_field("file", &format!("{form} of {} KiB, sha256 {}", report.size.div_ceil(1024), report.digest));
    let exports = report.exports.join(", ");
    print_field(
        "contract",
        &format!("pilothouse:controller@{}, world {}: exports {exports}", report.contract, report.world),
    );
    print_field("imports", &describe_imports(&report.imports));
    print_field("limits", &describe_limits(report));
    if let Some(account) = &report.service_account {
        print_field("acts as", &format!("the service account {account}"));
    }
    for watch in &report.watches {
        print_field("watches", &describe_watch(watch));
    }
    for (label, text) in report.writes.iter().flat_map(describe_writes) {
        print_field(label, &text);
    }
    if !report.http.is_empty() {
        print_field("sends", &format!("HTTP requests to {}", report.http.join(", ")));
    }
    for crd in &report.crds {
        print_field("installs", &format!("CRD {crd}{}", describe_crd_grant(report.grants_crds)));
    }
    print_field("rights", &describe_permissions(&report.permissions));
    for text in &report.log {
        print_field("logged", text);
    }
    for warning in &report.warnings {
        print_field("warning", warning);
    }
    for problem in &report.problems {
        print_field("PROBLEM", problem);
    }
}

/// Returns labelled lines for a write rule: what the sidecar grants of it, and the rule itself if that is less.
fn describe_writes(checked: &CheckedRule) -> Vec<(&'static str, String)> {
    let mut lines: Vec<_> = checked.granted.iter().map(|rule| ("writes", describe_rule(rule))).collect();
    let declared = describe_rule(&checked.rule);
    if lines.is_empty() {
        lines.push(("denied", format!("{declared}: the sidecar does not grant it")));
    } else if !checked.granted.contains(&checked.rule) {
        lines.push(("declared", format!("{declared}, of which the sidecar grants the writes above")));
    }
    lines
}

fn describe_rule(rule: &Rule) -> String {
    let (verbs, resources) = (rule.verbs.join(","), rule.resources.join(","));
    let namespaces = match rule.namespaces.as_slice() {
        [] => String::new(),
        namespaces => format!(" in {}", namespaces.join(",")),
    };
    format!("{verbs} {resources} of group {:?}{namespaces}", rule.api_groups.join(","))
}

/// Returns on whom it depends that a CRD is applied, as the end of a line; "" if the sidecar grants it.
fn describe_crd_grant(granted: Option<bool>) -> &'static str {
    match granted {
        Some(true) => "",
        Some(false) => ": NOT GRANTED by the sidecar",
        None => ", in `run` only with grants.crds in the sidecar or grantCrds in --config",
    }
}

/// Returns the imports in one line: the contract's interfaces, then the packages of WASI, of which language runtimes import every interface.
fn describe_imports(imports: &[String]) -> String {
    let mut names = Vec::new();
    let mut packages = BTreeSet::new();
    for import in imports {
        let without_version = import.split('@').next().unwrap_or(import);
        if let Some(interface) = without_version.strip_prefix("pilothouse:controller/") {
            names.push(interface);
        } else if let Some((package, _)) =
            without_version.strip_prefix("wasi:").and_then(|name| name.split_once('/'))
        {
            packages.insert(package);
        } else {
            names.push(import);
        }
    }
    let packages = packages.into_iter().collect::<Vec<_>>().join(", ");
    match (names.is_empty(), packages.is_empty()) {
        (true, true) => "none".to_owned(),
        (false, true) => names.join(", "),
        (true, false) => format!("WASI ({packages})"),
        (false, false) => format!("{}, WASI ({packages})", names.join(", ")),
    }
}

fn describe_limits(report: &CheckReport) -> String {
    let limits = &report.limits;
    let guest = &limits.effective.instance;
    let workers =
        if limits.workers == 1 { "1 worker".to_owned() } else { format!("{} workers", limits.workers) };
    let source = if report.has_sidecar { " (with its sidecar)" } else { "" };
    format!(
        "{} MiB per instance, {} ms per reconcile, {} handles, {workers}{source}",
        guest.memory >> 20,
        guest.reconcile_timeout.as_millis(),
        guest.handles
    )
}

fn describe_watch(checked: &CheckedWatch) -> String {
    let watch = &checked.watch;
    let served = match checked.served {
        Availability::Yes => "served",
        Availability::No => "NOT SERVED",
        Availability::ByOwnCrd => "served by the plugin's own CRD",
        Availability::Unverified => "unverified",
    };
    let mut text = format!("{}: {} in {} ({served})", watch.name, watch.kind, watch.api_version);
    if !watch.namespaces.is_empty() {
        text += &format!(", namespaces {}", watch.namespaces.join(","));
    }
    for (name, selector) in [("labels", &watch.label_selector), ("fields", &watch.field_selector)] {
        if !selector.is_empty() {
            text += &format!(", {name} {selector}");
        }
    }
    if let Some(trigger) = &watch.trigger {
        text += &format!(", queues {}", describe_trigger(trigger));
    }
    if !watch.predicate.is_empty() {
        text += &format!(" when {}", watch.predicate);
    }
    if watch.notify {
        text += ", notifies";
    }
    if !watch.indexes.is_empty() {
        let indexes: Vec<_> = watch.indexes.iter().map(describe_index).collect();
        text += &format!(", indexes {}", indexes.join(", "));
    }
    text
}

/// Returns which objects a change queues, as the object of the verb "queues".
fn describe_trigger(trigger: &Trigger) -> String {
    match trigger {
        Trigger::Itself => "itself".to_owned(),
        Trigger::Owner { watch } => format!("its controlling owner in {watch}"),
        Trigger::OwnerAny { watch } => format!("its owners in {watch}"),
        Trigger::Label { key, watch } => format!("the object in {watch} named by label {key}"),
        Trigger::Field { path, namespace_path: None, watch } => {
            format!("the objects in {watch} named by {path}")
        }
        Trigger::Field { path, namespace_path: Some(namespace), watch } => {
            format!("the objects in {watch} named by {path} in the namespace {namespace}")
        }
        Trigger::Index { watch, index } => format!("the objects in {watch} with its key in index {index}"),
        Trigger::Namespace { watch } => format!("the objects in {watch} in its namespace"),
    }
}

fn describe_index(index: &Index) -> String {
    let Index { name, label, annotation, field, owner, .. } = index;
    let source = match (label, annotation, field, owner) {
        (Some(label), ..) => format!("label {label}"),
        (_, Some(annotation), ..) => format!("annotation {annotation}"),
        (_, _, Some(field), _) => field.clone(),
        (.., true) => "owner".to_owned(),
        _ => "computed".to_owned(),
    };
    format!("{name} ({source})")
}

fn describe_permissions(permissions: &[RequiredPermission]) -> String {
    let count = |availability: Availability| {
        permissions.iter().filter(|permission| permission.allowed == availability).count()
    };
    if count(Availability::Unverified) == permissions.len() {
        return "unverified: pass --kubeconfig to review them in a cluster; `pilothouse rbac` prints the roles"
            .to_owned();
    }
    format!("{} of {} allowed", count(Availability::Yes), permissions.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(verbs: &[&str], namespaces: &[&str]) -> Rule {
        let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
        Rule {
            api_groups: vec!["apps".to_owned()],
            resources: vec!["deployments".to_owned()],
            verbs: owned(verbs),
            namespaces: owned(namespaces),
        }
    }

    #[test]
    fn a_trigger_by_a_field_is_shown_with_both_of_its_paths() {
        let field = |namespace_path: Option<&str>| Trigger::Field {
            path: "{.spec.name}".to_owned(),
            namespace_path: namespace_path.map(str::to_owned),
            watch: "foos".to_owned(),
        };
        assert_eq!(describe_trigger(&field(None)), "the objects in foos named by {.spec.name}");
        assert_eq!(
            describe_trigger(&field(Some("{.spec.namespace}"))),
            "the objects in foos named by {.spec.name} in the namespace {.spec.namespace}"
        );
    }

    #[test]
    fn the_imports_are_one_line_with_the_packages_of_wasi() {
        let line = |imports: &[&str]| {
            describe_imports(&imports.iter().map(|&import| import.to_owned()).collect::<Vec<_>>())
        };
        let contract = ["pilothouse:controller/cache@0.1.1", "pilothouse:controller/log@0.1.1"];
        let wasi = ["wasi:cli/stderr@0.2.6", "wasi:cli/stdout@0.2.6", "wasi:io/streams@0.2.6"];
        assert_eq!(line(&[]), "none");
        assert_eq!(line(&contract), "cache, log");
        assert_eq!(line(&wasi), "WASI (cli, io)");
        assert_eq!(line(&[&contract[..], &wasi].concat()), "cache, log, WASI (cli, io)");
    }

    #[test]
    fn writes_are_shown_as_far_as_the_sidecar_grants_them() {
        let lines = |granted: Vec<Rule>| {
            let lines = describe_writes(&CheckedRule { rule: rule(&["get", "update"], &[]), granted });
            lines.into_iter().map(|(label, text)| format!("{label} {text}")).collect::<Vec<_>>()
        };
        let whole = "get,update deployments of group \"apps\"";
        assert_eq!(lines(vec![rule(&["get", "update"], &[])]), [format!("writes {whole}")]);
        assert_eq!(lines(vec![]), [format!("denied {whole}: the sidecar does not grant it")]);
        assert_eq!(
            lines(vec![rule(&["get"], &["shop"])]),
            [
                "writes get deployments of group \"apps\" in shop".to_owned(),
                format!("declared {whole}, of which the sidecar grants the writes above"),
            ]
        );
    }
}
