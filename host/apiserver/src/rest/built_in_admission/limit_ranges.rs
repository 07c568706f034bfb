//! LimitRanges: the defaults that new Pods get from those of their namespace, and the bounds of Pods and claims, after
//! `k8s.io/kubernetes/plugin/pkg/admission/limitranger`.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::admission_plugins::AdmissionPlugin;
use crate::meta;
use crate::registry::Endpoint;
use crate::schema::quantity;
use crate::state::State;
use crate::status::Status;

/// The annotation that says which amounts of a Pod are defaults.
const ANNOTATION: &str = "kubernetes.io/limit-ranger";
/// The lists of containers, with the word for one.
const CONTAINERS: [(&str, &str); 2] = [("containers", "container"), ("initContainers", "init container")];
/// The resources that the resources of a Pod as a whole replace.
const POD_RESOURCES: [&str; 2] = ["cpu", "memory"];

type Amounts = Map<String, Value>;

/// Sets the defaults of a new Pod. Other objects stay as they are.
pub(super) fn set_defaults_of_pod(state: &State, endpoint: &Endpoint, value: &mut Value) {
    if endpoint.is_core("pods") && value["spec"].is_object() {
        let ranges = limit_ranges(state, meta::text(value, "namespace"));
        ranges.iter().for_each(|range| set_defaults(range, value));
    }
}

/// Checks a Pod or a claim. Other objects pass.
///
/// # Errors
/// 403 if the object exceeds a bound of a LimitRange of its namespace.
pub(super) fn check(state: &State, endpoint: &Endpoint, value: &Value) -> Result<(), Status> {
    let (is_pod, is_claim) = (endpoint.is_core("pods"), endpoint.is_core("persistentvolumeclaims"));
    if !is_pod && !is_claim {
        return Ok(());
    }
    for range in &limit_ranges(state, meta::text(value, "namespace")) {
        let problems = if is_pod { problems_of_pod(range, value) } else { problems_of_claim(range, value) };
        if let Some(problem) = aggregated(problems) {
            return Err(Status::forbidden(endpoint.resource_ref(), meta::text(value, "name"), &problem));
        }
    }
    Ok(())
}

/// Returns the LimitRanges of a namespace, by name; none if the plugin is disabled.
fn limit_ranges(state: &State, namespace: &str) -> Vec<Value> {
    if !state.plugins.acts(AdmissionPlugin::LimitRanger) {
        return Vec::new();
    }
    let registry = state.registry();
    let Some(ranges) = registry.endpoint("", "v1", "limitranges") else { return Vec::new() };
    ranges.resource.table.list(Some(namespace)).0.iter().map(|range| range.value()).collect()
}

/// Returns the limits of one type: `Container`, `Pod` or `PersistentVolumeClaim`.
fn limits_of<'r>(range: &'r Value, kind: &'static str) -> impl Iterator<Item = &'r Value> {
    range["spec"]["limits"].as_array().into_iter().flatten().filter(move |limit| limit["type"] == kind)
}

fn amounts(value: &Value) -> Amounts {
    value.as_object().cloned().unwrap_or_default()
}

fn set_defaults(range: &Value, pod: &mut Value) {
    let defaults = [("requests", "defaultRequest"), ("limits", "default")].map(|(of, from)| {
        let all: Amounts = limits_of(range, "Container").flat_map(|limit| amounts(&limit[from])).collect();
        (of, all)
    });
    if defaults.iter().all(|(_, amounts)| amounts.is_empty()) {
        return;
    }
    let mut set = Vec::new();
    for (list, word) in CONTAINERS {
        let containers = pod["spec"].get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let name = container["name"].as_str().unwrap_or_default().to_owned();
            for (of, defaults) in &defaults {
                let names = add_missing(&mut container["resources"], of, defaults);
                if !names.is_empty() {
                    let of = of.trim_end_matches('s');
                    set.push(format!("{} {of} for {word} {name}", names.join(", ")));
                }
            }
        }
    }
    if !set.is_empty() {
        pod["metadata"]["annotations"][ANNOTATION] =
            format!("LimitRanger plugin set: {}", set.join("; ")).into();
    }
}

/// Adds the amounts that the resources lack. Returns their names, sorted.
fn add_missing(resources: &mut Value, of: &str, defaults: &Amounts) -> Vec<String> {
    let mut names = Vec::new();
    for (name, amount) in defaults {
        if resources[of][name].is_null() {
            resources[of][name] = amount.clone();
            names.push(name.clone());
        }
    }
    names.sort();
    names
}

fn problems_of_pod(range: &Value, pod: &Value) -> Vec<String> {
    let (mut problems, mut totals) = (Vec::new(), None);
    for limit in range["spec"]["limits"].as_array().into_iter().flatten() {
        match limit["type"].as_str() {
            Some(kind @ "Container") => {
                for (list, _) in CONTAINERS {
                    for container in pod["spec"][list].as_array().into_iter().flatten() {
                        let resources = &container["resources"];
                        let (requests, limits) =
                            (amounts(&resources["requests"]), amounts(&resources["limits"]));
                        problems.extend(problems_of(limit, kind, &requests, &limits));
                    }
                }
            }
            Some(kind @ "Pod") => {
                let (requests, limits) =
                    totals.get_or_insert_with(|| (total(pod, "requests"), total(pod, "limits")));
                problems.extend(problems_of(limit, kind, requests, limits));
            }
            _ => {}
        }
    }
    problems
}

fn problems_of(limit: &Value, kind: &str, requests: &Amounts, limits: &Amounts) -> Vec<String> {
    let each = |bound: &str| amounts(&limit[bound]);
    let of = |name: &str| [("request", requests.get(name)), ("limit", limits.get(name))];
    let below = each("min")
        .into_iter()
        .filter_map(|(name, least)| out_of_bound("minimum", kind, (&name, &least), &of(&name)));
    let above = each("max").into_iter().filter_map(|(name, most)| {
        let [request, limit] = of(&name);
        out_of_bound("maximum", kind, (&name, &most), &[limit, request])
    });
    let ratio = each("maxLimitRequestRatio")
        .into_iter()
        .filter_map(|(name, most)| above_ratio(kind, &name, &most, requests.get(&name), limits.get(&name)));
    below.chain(above).chain(ratio).collect()
}

fn problems_of_claim(range: &Value, claim: &Value) -> Vec<String> {
    const KIND: &str = "PersistentVolumeClaim";
    let requests = amounts(&claim["spec"]["resources"]["requests"]);
    let mut problems = Vec::new();
    for limit in limits_of(range, KIND) {
        for (bound, field) in [("minimum", "min"), ("maximum", "max")] {
            for (name, allowed) in amounts(&limit[field]) {
                let request = ("request", requests.get(&name));
                problems.extend(out_of_bound(bound, KIND, (&name, &allowed), &[request]));
            }
        }
    }
    problems
}

/// Returns the problem if an amount is below the minimum or above the maximum, or if the first amount is absent.
fn out_of_bound(
    bound: &str,
    kind: &str,
    (name, allowed): (&str, &Value),
    given: &[(&str, Option<&Value>)],
) -> Option<String> {
    let usage = format!("{bound} {name} usage per {kind} is {}", shown(allowed));
    if let Some((what, None)) = given.first() {
        return Some(format!("{usage}.  No {what} is specified"));
    }
    let allowed = quantity::nanos(allowed)?;
    let is_out = |amount: i128| if bound == "minimum" { amount < allowed } else { amount > allowed };
    given.iter().find_map(|(what, amount)| {
        let amount = (*amount)?;
        is_out(quantity::nanos(amount)?).then(|| format!("{usage}, but {what} is {}", shown(amount)))
    })
}

fn above_ratio(
    kind: &str,
    name: &str,
    most: &Value,
    request: Option<&Value>,
    limit: Option<&Value>,
) -> Option<String> {
    let nanos = |amount: Option<&Value>| amount.and_then(quantity::nanos).unwrap_or_default() as f64;
    let (request, limit) = (nanos(request), nanos(limit));
    let bound = format!("{name} max limit to request ratio per {kind} is {}", shown(most));
    if request == 0.0 {
        return Some(format!("{bound}, but no request is specified or request is 0"));
    }
    if limit == 0.0 {
        return Some(format!("{bound}, but no limit is specified or limit is 0"));
    }
    let ratio = limit / request;
    let most = nanos(Some(most)) / 1e9;
    (ratio > most).then(|| format!("{bound}, but provided ratio is {ratio:.6}"))
}

fn shown(amount: &Value) -> String {
    quantity::canonical(amount).unwrap_or_default()
}

/// Returns the requests or limits of a Pod: those of its containers together, or what an init container needs if that is more. The resources of
/// the Pod as a whole replace them.
fn total(pod: &Value, of: &str) -> Amounts {
    let containers = |list: &str| pod["spec"][list].as_array().into_iter().flatten();
    let mut sum = Amounts::new();
    for container in containers("containers") {
        add(&mut sum, &container["resources"][of]);
    }
    // Init containers that keep running need their resources beside the containers.
    let (mut running, mut most) = (Amounts::new(), Amounts::new());
    for container in containers("initContainers") {
        let own = &container["resources"][of];
        // What the container does not need itself was counted when the others started.
        let of_running = |running: &Amounts| -> Amounts {
            let names = own.as_object().into_iter().flat_map(Map::keys);
            names
                .filter_map(|name| running.get_key_value(name))
                .map(|(n, a)| (n.clone(), a.clone()))
                .collect()
        };
        let needed = if container["restartPolicy"] == "Always" {
            add(&mut sum, own);
            add(&mut running, own);
            of_running(&running)
        } else {
            let mut needed = of_running(&running);
            add(&mut needed, own);
            needed
        };
        raise(&mut most, needed);
    }
    raise(&mut sum, most);
    let of_pod = amounts(&pod["spec"]["resources"][of]);
    sum.extend(of_pod.into_iter().filter(|(name, _)| POD_RESOURCES.contains(&name.as_str())));
    sum
}

fn add(sum: &mut Amounts, added: &Value) {
    for (name, amount) in amounts(added) {
        let before = sum.get(&name).and_then(quantity::nanos).unwrap_or_default();
        let nanos = before.saturating_add(quantity::nanos(&amount).unwrap_or_default());
        // The sum has the suffixes of the amounts.
        let text = if shown(&amount).ends_with('i') && nanos % 1_000_000_000 == 0 {
            quantity::binary(nanos / 1_000_000_000)
        } else {
            format!("{nanos}n")
        };
        sum.insert(name, quantity::canonical(&text.into()).unwrap_or_default().into());
    }
}

/// Raises each amount to that of the other list.
fn raise(list: &mut Amounts, other: Amounts) {
    for (name, amount) in other {
        let is_more = list.get(&name).is_none_or(|known| quantity::nanos(known) < quantity::nanos(&amount));
        if is_more {
            list.insert(name, amount);
        }
    }
}

/// Returns the problems in one line, each once.
fn aggregated(mut problems: Vec<String>) -> Option<String> {
    let mut seen = BTreeSet::new();
    problems.retain(|problem| seen.insert(problem.clone()));
    match problems.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        all => Some(format!("[{}]", all.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn range(limit: &Value) -> Value {
        json!({"spec": {"limits": [limit]}})
    }

    fn container(requests: &Value, limits: &Value) -> Value {
        json!({"name": "c", "resources": {"requests": requests, "limits": limits}})
    }

    #[test]
    fn containers_get_the_amounts_that_they_lack() {
        let range = range(&json!({
            "type": "Container", "default": {"cpu": "1", "memory": "1Gi"}, "defaultRequest": {"cpu": "500m"},
        }));
        let mut pod = json!({"metadata": {}, "spec": {
            "containers": [{"name": "a"}, container(&json!({"cpu": "2"}), &json!({"memory": "2Gi"}))],
            "initContainers": [{"name": "i"}],
        }});
        set_defaults(&range, &mut pod);
        let resources = |list: &str, index: usize| pod["spec"][list][index]["resources"].clone();
        let all = json!({"requests": {"cpu": "500m"}, "limits": {"cpu": "1", "memory": "1Gi"}});
        assert_eq!((resources("containers", 0), resources("initContainers", 0)), (all.clone(), all));
        assert_eq!(
            resources("containers", 1),
            json!({"requests": {"cpu": "2"}, "limits": {"cpu": "1", "memory": "2Gi"}})
        );
        assert_eq!(
            pod["metadata"]["annotations"][ANNOTATION],
            "LimitRanger plugin set: cpu request for container a; cpu, memory limit for container a; cpu limit for container c; \
             cpu request for init container i; cpu, memory limit for init container i"
        );
        let mut complete = json!({"metadata": {}, "spec": {"containers": []}});
        set_defaults(&range, &mut complete);
        assert_eq!(complete["metadata"], json!({}));
    }

    #[test]
    fn bounds_of_containers_are_checked_with_the_messages_of_kubernetes() {
        let problems = |limit: Value, requests: Value, limits: Value| {
            let pod = json!({"spec": {"containers": [container(&requests, &limits)]}});
            problems_of_pod(&range(&limit), &pod)
        };
        let least = json!({"type": "Container", "min": {"cpu": "100m"}});
        assert_eq!(
            problems(least.clone(), json!({}), json!({})),
            ["minimum cpu usage per Container is 100m.  No request is specified"]
        );
        assert_eq!(
            problems(least.clone(), json!({"cpu": "50m"}), json!({})),
            ["minimum cpu usage per Container is 100m, but request is 50m"]
        );
        assert!(problems(least, json!({"cpu": "0.1"}), json!({"cpu": 1})).is_empty());
        let most = json!({"type": "Container", "max": {"memory": "1Gi"}});
        assert_eq!(
            problems(most.clone(), json!({}), json!({"memory": "2Gi"})),
            ["maximum memory usage per Container is 1Gi, but limit is 2Gi"]
        );
        assert_eq!(
            problems(most.clone(), json!({"memory": "2Gi"}), json!({"memory": "1Gi"})),
            ["maximum memory usage per Container is 1Gi, but request is 2Gi"]
        );
        assert_eq!(
            problems(most, json!({}), json!({})),
            ["maximum memory usage per Container is 1Gi.  No limit is specified"]
        );
        let ratio = json!({"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}});
        assert_eq!(
            problems(ratio.clone(), json!({"cpu": "100m"}), json!({"cpu": "250m"})),
            ["cpu max limit to request ratio per Container is 2, but provided ratio is 2.500000"]
        );
        assert!(problems(ratio.clone(), json!({"cpu": "100m"}), json!({"cpu": "200m"})).is_empty());
        assert_eq!(problems(ratio, json!({}), json!({})).len(), 1);
    }

    #[test]
    fn a_pod_needs_what_its_containers_need_together_or_an_init_container_alone() {
        let request = |cpu: &str, memory: &str| container(&json!({"cpu": cpu, "memory": memory}), &json!({}));
        let mut sidecar = request("100m", "1Mi");
        sidecar["restartPolicy"] = "Always".into();
        let mut pod = json!({"spec": {
            "containers": [request("200m", "128Mi"), request("300m", "128Mi")],
            "initContainers": [sidecar, request("1", "1Mi")],
        }});
        assert_eq!(Value::Object(total(&pod, "requests")), json!({"cpu": "1100m", "memory": "257Mi"}));
        pod["spec"]["resources"] = json!({"requests": {"cpu": "4", "example.com/gpu": "1"}});
        assert_eq!(Value::Object(total(&pod, "requests")), json!({"cpu": "4", "memory": "257Mi"}));
        let limit = json!({"type": "Pod", "max": {"cpu": "2"}});
        let expected = ["maximum cpu usage per Pod is 2.  No limit is specified"];
        assert_eq!(problems_of_pod(&range(&limit), &pod), expected);
    }

    #[test]
    fn claims_are_bounded_by_their_requests() {
        let limit =
            json!({"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "2Gi"}});
        let problems = |requests: Value| {
            problems_of_claim(&range(&limit), &json!({"spec": {"resources": {"requests": requests}}}))
        };
        assert!(problems(json!({"storage": "1Gi"})).is_empty());
        assert_eq!(
            problems(json!({"storage": "3Gi"})),
            ["maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi"]
        );
        assert_eq!(problems(json!({})).len(), 2);
        assert_eq!(aggregated(problems(json!({}))).map(|text| text.starts_with('[')), Some(true));
        assert_eq!(aggregated(vec!["a".into(), "a".into()]).as_deref(), Some("a"));
    }
}
