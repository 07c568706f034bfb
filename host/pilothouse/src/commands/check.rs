//! `pilothouse check`: what loading a plugin would find.

use pilothouse_controller::descriptor::{Index, Trigger};
use pilothouse_controller::{CheckReport, CheckedWatch, Right, Verdict, printable};
use serde_json::json;

use crate::cli::Check;
use crate::{Failed, Outcome, checking, output};

pub(crate) async fn run(flags: Check) -> Outcome {
    let report = match checking::report(&flags.file, flags.kubeconfig.as_deref()).await {
        Ok(report) => report,
        Err(Failed::Work(problem)) if flags.json => {
            // What could not be loaded has no more to report, and a reader of JSON still gets an object.
            let document = json!({"runs": false, "problems": [problem]});
            output::line(format_args!("{document:#}"));
            return Err(Failed::Work(problem));
        }
        Err(failed) => return Err(failed),
    };
    if flags.json {
        let text = serde_json::to_string_pretty(&report).map_err(|error| Failed::Work(error.to_string()))?;
        output::line(text);
    } else {
        print(&report);
    }
    if report.runs { Ok(()) } else { Err(checking::failed(&flags.file, &report)) }
}

/// The text is the plugin's in part: it must not steer the terminal.
fn line(label: &str, text: &str) {
    output::line(format_args!("  {label:<9} {}", printable(text)));
}

fn print(report: &CheckReport) {
    let title = [report.name.as_str(), &report.version].join(" ");
    let dash = if report.summary.is_empty() { "" } else { " — " };
    output::line(printable(&format!("{}{dash}{}", title.trim_end(), report.summary)));
    let form = if report.form == "component" { "a component" } else { "a core module" };
    line("file", &format!("{form} of {} KiB, sha256 {}", report.size.div_ceil(1024), report.digest));
    let exports = report.exports.join(", ");
    line(
        "contract",
        &format!("pilothouse:controller@{}, world {}: exports {exports}", report.contract, report.world),
    );
    line("imports", &imports(&report.imports));
    line("limits", &limits(report));
    for watch in &report.watches {
        line("watches", &watched(watch));
    }
    for rule in &report.writes {
        let (verbs, resources) = (rule.verbs.join(","), rule.resources.join(","));
        let place = if rule.namespaces.is_empty() {
            String::new()
        } else {
            format!(" in {}", rule.namespaces.join(","))
        };
        line("writes", &format!("{verbs} {resources} of group {:?}{place}", rule.api_groups.join(",")));
    }
    if !report.http.is_empty() {
        line("sends", &format!("HTTP requests to {}", report.http.join(", ")));
    }
    for crd in &report.crds {
        line("brings", &format!("the CRD {crd}"));
    }
    line("rights", &rights(&report.rights));
    for text in &report.log {
        line("logged", text);
    }
    for warning in &report.warnings {
        line("warning", warning);
    }
    for problem in &report.problems {
        line("PROBLEM", problem);
    }
}

/// Short: of the contract's interfaces the names alone.
fn imports(imports: &[String]) -> String {
    let short = |name: &String| match name.strip_prefix("pilothouse:controller/") {
        Some(rest) => rest.split('@').next().unwrap_or(rest).to_owned(),
        None => name.clone(),
    };
    if imports.is_empty() {
        "nothing".to_owned()
    } else {
        imports.iter().map(short).collect::<Vec<_>>().join(", ")
    }
}

fn limits(report: &CheckReport) -> String {
    let limits = &report.limits;
    let guest = &limits.effective.guest;
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

fn watched(checked: &CheckedWatch) -> String {
    let watch = &checked.watch;
    let served = match checked.served {
        Verdict::Yes => "served",
        Verdict::No => "NOT SERVED",
        Verdict::ByOwnCrd => "by the plugin's own CRD",
        Verdict::Unverified => "unverified",
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
        text += &format!(", queues {}", queued(trigger));
    }
    if !watch.predicate.is_empty() {
        text += &format!(" when {}", watch.predicate);
    }
    if watch.notify {
        text += ", notifies";
    }
    if !watch.indexes.is_empty() {
        let indexes: Vec<_> = watch.indexes.iter().map(indexed).collect();
        text += &format!(", indexes {}", indexes.join(", "));
    }
    text
}

fn queued(trigger: &Trigger) -> String {
    match trigger {
        Trigger::Itself => "itself".to_owned(),
        Trigger::Owner { watch } => format!("its controlling owner in {watch}"),
        Trigger::OwnerAny { watch } => format!("its owners in {watch}"),
        Trigger::Label { key, watch } => format!("whom label {key} names in {watch}"),
        Trigger::Field { path, watch, .. } => format!("whom {path} names in {watch}"),
        Trigger::Index { watch, index } => format!("whom index {index} of {watch} has"),
    }
}

fn indexed(index: &Index) -> String {
    let Index { name, label, annotation, field, owner, .. } = index;
    let way = match (label, annotation, field, owner) {
        (Some(label), ..) => format!("label {label}"),
        (_, Some(annotation), ..) => format!("annotation {annotation}"),
        (_, _, Some(field), _) => field.clone(),
        (.., true) => "owner".to_owned(),
        _ => "computed".to_owned(),
    };
    format!("{name} ({way})")
}

fn rights(rights: &[Right]) -> String {
    let count = |wanted: Verdict| rights.iter().filter(|right| right.allowed == wanted).count();
    if count(Verdict::Unverified) == rights.len() {
        return "unverified: give --kubeconfig to ask a server; `pilothouse rbac` prints the roles"
            .to_owned();
    }
    format!("{} of {} allowed", count(Verdict::Yes), rights.len())
}
