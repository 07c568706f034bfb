//! The kinds that manage Pods: Deployments, ReplicaSets, StatefulSets, DaemonSets, ReplicationControllers, Jobs and CronJobs.

use std::borrow::Cow;

use pilothouse_model::LabelSelector;
use serde_json::{Map, Value, json};

use super::{
    has, job_policies, job_success, metadata, percentage, pod, pod_annotations, stateful_set, text,
    validate_amount, validate_at_most_all, validate_label_selector, validate_non_negative, validate_one_of,
};
use crate::schema::{cron, field};
use crate::status::{Cause, Causes};

const TEMPLATE: &str = "spec.template";
/// The most characters of the name of a CronJob.
const MAX_CRON_JOB_NAME: usize = 52;

/// The fields of a StatefulSet's specification that an update may change.
const MUTABLE_OF_STATEFUL_SET: [&str; 7] = [
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
];

pub(super) fn validate_deployment(spec: &Value, old: Option<&Value>, causes: &mut Causes) {
    validate_non_negative(spec, "replicas", "spec", causes);
    validate_selector_and_template(spec, "deployment", causes);
    validate_strategy(&spec["strategy"], causes);
    validate_non_negative(spec, "minReadySeconds", "spec", causes);
    validate_non_negative(spec, "revisionHistoryLimit", "spec", causes);
    validate_non_negative(spec, "progressDeadlineSeconds", "spec", causes);
    let ready = spec["minReadySeconds"].as_i64().unwrap_or(0);
    let deadline = &spec["progressDeadlineSeconds"];
    if deadline.as_i64().is_some_and(|seconds| seconds <= ready) {
        let detail = "must be greater than minReadySeconds";
        causes.push(field::invalid("spec.progressDeadlineSeconds", deadline, detail));
    }
    validate_unchanged(spec, old, "selector", causes);
}

fn validate_strategy(strategy: &Value, causes: &mut Causes) {
    const PATH: &str = "spec.strategy.rollingUpdate";
    let update = &strategy["rollingUpdate"];
    match text(strategy, "type") {
        "Recreate" if !update.is_null() => {
            let detail = "may not be specified when strategy `type` is 'Recreate'";
            causes.push(field::forbidden(PATH, detail));
        }
        // A strategy without a type was not defaulted yet.
        "Recreate" | "" => {}
        "RollingUpdate" => {
            validate_amount(update, "maxUnavailable", PATH, causes);
            validate_amount(update, "maxSurge", PATH, causes);
            if is_zero(&update["maxUnavailable"]) && is_zero(&update["maxSurge"]) {
                let path = field::child(PATH, "maxUnavailable");
                let detail = "may not be 0 when `maxSurge` is 0";
                causes.push(field::invalid(&path, &update["maxUnavailable"], detail));
            }
            validate_at_most_all(update, "maxUnavailable", PATH, causes);
        }
        _ => {
            let (max_unavailable, max_surge) = (&update["maxUnavailable"], &update["maxSurge"]);
            let update = match update {
                Value::Null => "null".to_owned(),
                _ => format!("{{\"MaxUnavailable\":{max_unavailable},\"MaxSurge\":{max_surge}}}"),
            };
            let shown = format!("{{\"Type\":{},\"RollingUpdate\":{update}}}", strategy["type"]);
            causes.push(field::not_supported_shown("spec.strategy", &shown, &["Recreate", "RollingUpdate"]));
        }
    }
}

/// Whether an amount is 0 or a text that is no amount, which counts as 0.
fn is_zero(amount: &Value) -> bool {
    match amount {
        Value::String(text) => match percentage(text) {
            Some(percent) => percent == 0,
            None => text.parse::<i64>().unwrap_or(0) == 0,
        },
        other => other.as_i64().unwrap_or(0) == 0,
    }
}

pub(super) fn validate_replica_set(spec: &Value, old: Option<&Value>, causes: &mut Causes) {
    validate_non_negative(spec, "replicas", "spec", causes);
    validate_non_negative(spec, "minReadySeconds", "spec", causes);
    validate_selector_and_template(spec, "deployment", causes);
    validate_unchanged(spec, old, "selector", causes);
}

pub(super) fn validate_stateful_set(spec: &Value, old: Option<&Value>, causes: &mut Causes) {
    let policy = &spec["podManagementPolicy"];
    match policy.as_str() {
        Some("") => causes.push(field::required("spec.podManagementPolicy", "")),
        None | Some("OrderedReady" | "Parallel") => {}
        Some(_) => {
            let detail = "must be 'OrderedReady' or 'Parallel'";
            causes.push(field::invalid("spec.podManagementPolicy", policy, detail));
        }
    }
    stateful_set::validate(spec, causes);
    if old.is_none() {
        stateful_set::validate_claims(spec, causes);
    }
    validate_non_negative(spec, "replicas", "spec", causes);
    validate_non_negative(spec, "minReadySeconds", "spec", causes);
    validate_non_negative(&spec["ordinals"], "start", "spec.ordinals", causes);
    if old.is_none() {
        stateful_set::validate_service_name(spec, causes);
    }
    validate_selector_and_template(spec, "statefulset", causes);
    let fixed = |spec: &Value| {
        let mut members = spec.as_object().cloned().unwrap_or_default();
        members.retain(|name, value| !MUTABLE_OF_STATEFUL_SET.contains(&name.as_str()) && !value.is_null());
        members
    };
    if let Some(before) = old.and_then(|old| old.get("spec"))
        && fixed(before) != fixed(spec)
    {
        let (last, others) = MUTABLE_OF_STATEFUL_SET.split_last().expect("it is not empty");
        let others: Vec<String> = others.iter().map(|name| format!("'{name}'")).collect();
        let detail = format!(
            "updates to statefulset spec for fields other than {} and '{last}' are forbidden",
            others.join(", ")
        );
        causes.push(field::forbidden("spec", &detail));
    }
}

pub(super) fn validate_daemon_set(spec: &Value, old: Option<&Value>, causes: &mut Causes) {
    validate_unchanged(spec, old, "selector", causes);
    validate_selector_and_template(spec, "daemonset", causes);
    validate_non_negative(spec, "minReadySeconds", "spec", causes);
    validate_daemon_set_strategy(&spec["updateStrategy"], causes);
    validate_non_negative(spec, "revisionHistoryLimit", "spec", causes);
}

fn validate_daemon_set_strategy(strategy: &Value, causes: &mut Causes) {
    const PATH: &str = "spec.updateStrategy.rollingUpdate";
    let update = &strategy["rollingUpdate"];
    let (unavailable, surge) = (&update["maxUnavailable"], &update["maxSurge"]);
    match text(strategy, "type") {
        "OnDelete" | "" => {}
        "RollingUpdate" => {
            for name in ["maxUnavailable", "maxSurge"] {
                validate_amount(update, name, PATH, causes);
            }
            for name in ["maxUnavailable", "maxSurge"] {
                validate_at_most_all(update, name, PATH, causes);
            }
            match (is_zero(unavailable), is_zero(surge)) {
                (false, false) => {
                    let detail = "may not be set when maxUnavailable is non-zero";
                    causes.push(field::invalid(&field::child(PATH, "maxSurge"), surge, detail));
                }
                (true, true) => {
                    let path = field::child(PATH, "maxUnavailable");
                    causes.push(field::required(&path, "cannot be 0 when maxSurge is 0"));
                }
                _ => {}
            }
        }
        _ => {
            let update = match update {
                Value::Null => "null".to_owned(),
                _ => format!("{{\"MaxUnavailable\":{unavailable},\"MaxSurge\":{surge}}}"),
            };
            let shown = format!("{{\"Type\":{},\"RollingUpdate\":{update}}}", strategy["type"]);
            let supported = ["RollingUpdate", "OnDelete"];
            causes.push(field::not_supported_shown("spec.updateStrategy", &shown, &supported));
        }
    }
}

/// Checks the selector and the template of a kind with a label selector; `kind` is its name in messages.
fn validate_selector_and_template(spec: &Value, kind: &str, causes: &mut Causes) {
    const PATH: &str = "spec.selector";
    let selector = spec.get("selector").filter(|selector| selector.is_object());
    let is_empty = |selector: &Value| {
        ["matchLabels", "matchExpressions"].iter().all(|name| {
            let value = &selector[*name];
            value.as_array().is_none_or(Vec::is_empty) && value.as_object().is_none_or(Map::is_empty)
        })
    };
    let mut own = Causes::default();
    match selector {
        None if kind != "daemonset" => causes.push(field::required(PATH, "")),
        Some(selector) => validate_label_selector(selector, PATH, &mut own),
        None => {}
    }
    let is_valid = own.is_empty();
    causes.append(&mut own);
    let refuse_empty = |causes: &mut Causes| {
        if let Some(selector) = selector.filter(|selector| is_empty(selector)) {
            let detail = format!("empty selector is invalid for {kind}");
            causes.push(field::invalid(PATH, selector, &detail));
        }
    };
    if kind != "daemonset" {
        refuse_empty(causes);
    }
    let template = match kind {
        "statefulset" => stateful_set::completed_template(spec),
        _ => Cow::Borrowed(spec.get("template").unwrap_or(&Value::Null)),
    };
    let parsed = selector.filter(|_| is_valid).and_then(|selector| LabelSelector::from_json(selector).ok());
    if selector.is_some() && parsed.is_none() && kind != "daemonset" {
        let detail = if kind == "statefulset" { "" } else { "invalid label selector" };
        causes.push(field::invalid(PATH, selector.unwrap_or(&Value::Null), detail));
        // Without a selector, kube-apiserver does not look at the template.
        return;
    }
    if !selector.is_some_and(is_empty) && (is_valid || kind != "daemonset") {
        let labels = template.pointer("/metadata/labels").unwrap_or(&Value::Null);
        let matches =
            parsed.is_some_and(|parsed| parsed.matches(|key| labels.get(key).and_then(Value::as_str)));
        if !matches {
            causes.push(unmatched_labels(labels));
        }
    }
    if kind == "daemonset" {
        refuse_empty(causes);
    }
    let kind = match kind {
        "statefulset" => "StatefulSet",
        "daemonset" => "DaemonSet",
        _ => "ReplicaSet",
    };
    validate_template_of_replicas(&template, kind, causes);
}

fn unmatched_labels(labels: &Value) -> Cause {
    let detail = "`selector` does not match template `labels`";
    field::invalid("spec.template.metadata.labels", labels, detail)
}

/// Checks the template of Pods that are replaced when they end; `kind` is that of the object which does so.
fn validate_template_of_replicas(template: &Value, kind: &str, causes: &mut Causes) {
    validate_template(template, TEMPLATE, causes);
    let spec = &template["spec"];
    let policy = text(spec, "restartPolicy");
    if !policy.is_empty() && policy != "Always" {
        let path = "spec.template.spec.restartPolicy";
        causes.push(field::not_supported(path, &Value::from(policy), &["Always"]));
    }
    if has(spec, "activeDeadlineSeconds") {
        let detail = format!("activeDeadlineSeconds in {kind} is not Supported");
        causes.push(field::forbidden("spec.template.spec.activeDeadlineSeconds", &detail));
    }
}

/// Checks the template of Pods at `path`.
pub(super) fn validate_template(template: &Value, path: &str, causes: &mut Causes) {
    if let Some(meta) = template.get("metadata").and_then(Value::as_object) {
        metadata::validate_labels_and_annotations(meta, path, causes);
    }
    let (annotations, spec_path) = (&template["metadata"]["annotations"], field::child(path, "spec"));
    pod_annotations::validate(annotations, &template["spec"], &field::child(path, "annotations"), causes);
    pod::validate_spec(&template["spec"], &spec_path, causes);
    pod_annotations::validate_profiles(annotations, &template["spec"], &spec_path, causes);
    if template["spec"]["ephemeralContainers"].as_array().is_some_and(|list| !list.is_empty()) {
        let detail = "ephemeral containers not allowed in pod template";
        causes.push(field::forbidden(&field::child(&spec_path, "ephemeralContainers"), detail));
    }
}

/// Checks that an update does not change a field of the specification.
fn validate_unchanged(spec: &Value, old: Option<&Value>, name: &str, causes: &mut Causes) {
    if let Some(before) = old.and_then(|old| old.pointer("/spec")?.get(name))
        && spec.get(name) != Some(before)
    {
        let value = spec.get(name).unwrap_or(&Value::Null);
        causes.push(field::invalid(&field::child("spec", name), value, "field is immutable"));
    }
}

pub(super) fn validate_replication_controller(spec: &Value, causes: &mut Causes) {
    validate_non_negative(spec, "minReadySeconds", "spec", causes);
    let selector = spec.get("selector").and_then(Value::as_object).filter(|selector| !selector.is_empty());
    if selector.is_none() {
        causes.push(field::required("spec.selector", ""));
    }
    validate_non_negative(spec, "replicas", "spec", causes);
    let template = &spec["template"];
    if template.is_null() {
        causes.push(field::required(TEMPLATE, ""));
        return;
    }
    let labels = template.pointer("/metadata/labels").unwrap_or(&Value::Null);
    if selector.into_iter().flatten().any(|(key, value)| labels.get(key) != Some(value)) {
        causes.push(unmatched_labels(labels));
    }
    validate_template_of_replicas(template, "ReplicationController", causes);
}

pub(super) fn validate_job(job: &Value, old: Option<&Value>, causes: &mut Causes) {
    let spec = &job["spec"];
    if old.is_none() {
        job_policies::validate_generated(job, causes);
    }
    validate_job_spec(spec, "spec", causes);
    match spec.get("selector").filter(|selector| selector.is_object()) {
        None => causes.push(field::required("spec.selector", "")),
        Some(selector) => validate_label_selector(selector, "spec.selector", causes),
    }
    let labels = spec.pointer("/template/metadata/labels").unwrap_or(&Value::Null);
    let selector = spec.get("selector").and_then(|selector| LabelSelector::from_json(selector).ok());
    if !selector.is_some_and(|selector| selector.matches(|key| labels.get(key).and_then(Value::as_str))) {
        causes.push(unmatched_labels(labels));
    }
    let Some(old) = old else { return };
    validate_unchanged(spec, Some(old), "selector", causes);
    if !job_policies::is_template_mutable(old) {
        validate_unchanged(spec, Some(old), "template", causes);
    } else if job_policies::is_fixed_part_changed(&old["spec"]["template"], &spec["template"]) {
        let pod = &spec["template"]["spec"];
        causes.push(field::invalid("spec.template.spec", pod, "field is immutable"));
    }
    validate_unchanged(spec, Some(old), "completionMode", causes);
    for name in ["podFailurePolicy", "backoffLimitPerIndex", "managedBy"] {
        let (before, after) = (&old["spec"][name], &spec[name]);
        if before != after {
            causes.push(field::invalid(&field::child("spec", name), after, "field is immutable"));
        }
    }
    if old["spec"]["successPolicy"] != spec["successPolicy"] {
        let shown = job_success::as_go(&spec["successPolicy"]);
        causes.push(field::invalid_shown("spec.successPolicy", &shown, "field is immutable"));
    }
    if text(spec, "completionMode") != "Indexed" {
        validate_unchanged(spec, Some(old), "completions", causes);
    } else if old["spec"]["completions"] != spec["completions"]
        && !spec["completions"].is_null()
        && spec["completions"] != spec["parallelism"]
    {
        let detail = "can only be modified in tandem with spec.parallelism";
        causes.push(field::invalid("spec.completions", &spec["completions"], detail));
    }
}

fn validate_job_spec(spec: &Value, path: &str, causes: &mut Causes) {
    for name in
        ["parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"]
    {
        validate_non_negative(spec, name, path, causes);
    }
    job_policies::validate(spec, path, causes);
    let at = field::child(path, "template");
    validate_template(&spec["template"], &at, causes);
    let policy = spec.pointer("/template/spec").map_or("", |pod| text(pod, "restartPolicy"));
    if ["", "Always"].contains(&policy) {
        let detail = "valid values: \"OnFailure\", \"Never\"";
        causes.push(field::required(&field::child(&at, "spec.restartPolicy"), detail));
    } else if !["OnFailure", "Never"].contains(&policy) {
        let path = field::child(&at, "spec.restartPolicy");
        causes.push(field::not_supported(&path, &policy.into(), &["OnFailure", "Never"]));
    } else if has(spec, "podFailurePolicy") && policy != "Never" {
        let detail = "only \"Never\" is supported when podFailurePolicy is specified";
        causes.push(field::invalid(&field::child(&at, "spec.restartPolicy"), &policy.into(), detail));
    }
}

pub(super) fn validate_cron_job(object: &Value, old: Option<&Value>, causes: &mut Causes) {
    let spec = &object["spec"];
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    if old.is_none() && name.len() > MAX_CRON_JOB_NAME {
        // The names of its Jobs are longer by 11 characters.
        let detail = format!("must be no more than {MAX_CRON_JOB_NAME} characters");
        causes.push(field::invalid("metadata.name", &name.into(), &detail));
    }
    let before = |name: &str| old.and_then(|old| old.pointer("/spec")?.get(name)).and_then(Value::as_str);
    validate_schedule(text(spec, "schedule"), before("schedule").unwrap_or_default(), causes);
    validate_non_negative(spec, "startingDeadlineSeconds", "spec", causes);
    if let Some(zone) =
        spec.get("timeZone").and_then(Value::as_str).filter(|zone| before("timeZone") != Some(*zone))
    {
        validate_time_zone(zone, causes);
    }
    validate_one_of(spec, "concurrencyPolicy", "spec", &["Allow", "Forbid", "Replace"], causes);
    let template = spec.pointer("/jobTemplate/spec").unwrap_or(&Value::Null);
    validate_job_spec(template, "spec.jobTemplate.spec", causes);
    if has(template, "selector") {
        let detail = "`selector` will be auto-generated";
        causes.push(field::invalid("spec.jobTemplate.spec.selector", &template["selector"], detail));
    }
    if template["manualSelector"] == true {
        let path = "spec.jobTemplate.spec.manualSelector";
        causes.push(field::not_supported(path, &true.into(), &["nil", "false"]));
    }
    validate_non_negative(spec, "successfulJobsHistoryLimit", "spec", causes);
    validate_non_negative(spec, "failedJobsHistoryLimit", "spec", causes);
}

fn validate_schedule(schedule: &str, before: &str, causes: &mut Causes) {
    const PATH: &str = "spec.schedule";
    let has_time_zone = schedule.contains("TZ");
    if schedule.is_empty() {
        causes.push(field::required(PATH, ""));
    } else if has_time_zone && schedule != before {
        let detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
        causes.push(field::invalid(PATH, &Value::from(schedule), detail));
    } else if !has_time_zone && let Some(problem) = cron::error(schedule) {
        causes.push(field::invalid(PATH, &Value::from(schedule), &problem));
    }
}

fn validate_time_zone(zone: &str, causes: &mut Causes) {
    const PATH: &str = "spec.timeZone";
    let detail = if zone.is_empty() {
        "timeZone must be nil or non-empty string".to_owned()
    } else if zone.eq_ignore_ascii_case("local") {
        "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones".to_owned()
    } else {
        let database = jiff::tz::db();
        // On a machine without a time zone database, all zones are accepted.
        if database.is_definitively_empty() || database.get(zone).is_ok() {
            return;
        }
        format!("unknown time zone {zone}")
    };
    causes.push(field::invalid(PATH, &json!(zone), &detail));
}
