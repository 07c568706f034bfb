//! Tests of what the controllers of EndpointSlices and Endpoints plan.

use serde_json::{Value, json};

use super::endpoints_object::plan_endpoints;
use super::ports;
use super::slices::{MANAGED_BY, SERVICE_LABEL, plan_slices};
use crate::controllers::action::{Action, Plan};
use crate::controllers::kind::Kind;
use crate::controllers::object::items;

fn service() -> Value {
    json!({
        "metadata": {"name": "web", "namespace": "n", "uid": "s", "labels": {"a": "b"}},
        "spec": {"clusterIP": "10.96.0.9", "selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "http"}]},
    })
}

fn pod(number: usize, ready: bool) -> Value {
    let ready = if ready { "True" } else { "False" };
    json!({
        "metadata": {"name": format!("p{number:03}"), "namespace": "n", "uid": format!("u{number}")},
        "spec": {"nodeName": "node", "containers": [{"ports": [{"name": "http", "containerPort": 8080}]}]},
        "status": {
            "phase": "Running", "podIP": format!("10.128.0.{number}"),
            "conditions": [{"type": "Ready", "status": ready}],
        },
    })
}

#[test]
fn slice_has_the_addresses_conditions_and_resolved_ports() {
    let plan = plan_slices(&service(), &[pod(1, true), pod(2, false)], &[]);
    let [Action::Create(Kind::EndpointSlice, slice)] = plan.actions.as_slice() else { panic!("{plan:?}") };
    assert_eq!(slice["ports"], json!([{"name": "", "port": 8080, "protocol": "TCP"}]));
    assert_eq!(slice["endpoints"][0]["addresses"], json!(["10.128.0.1"]));
    assert_eq!(
        slice["endpoints"][1]["conditions"],
        json!({"ready": false, "serving": false, "terminating": false})
    );
    assert_eq!(
        slice["metadata"]["labels"],
        json!({"a": "b", SERVICE_LABEL: "web", MANAGED_BY.0: MANAGED_BY.1})
    );
    let settled = plan_slices(&service(), &[pod(1, true), pod(2, false)], std::slice::from_ref(slice));
    assert_eq!(settled, Plan::default());
}

#[test]
fn target_port_that_is_no_port_number_is_left_out() {
    let mut service = service();
    for target in [-5, 65536] {
        service["spec"]["ports"] = json!([{"port": 80, "targetPort": target}]);
        assert_eq!(ports(&service, &pod(1, true)), [Value::Null; 0]);
        let plan = plan_endpoints(&service, &[pod(1, true)], None);
        assert!(matches!(plan.actions.as_slice(), [Action::Create(Kind::Endpoints, _)]), "{plan:?}");
    }
}

#[test]
fn large_services_have_several_slices_and_superfluous_ones_are_deleted() {
    let pods: Vec<Value> = (0..250).map(|number| pod(number, true)).collect();
    let plan = plan_slices(&service(), &pods, &[]);
    let sizes: Vec<usize> = plan
        .actions
        .iter()
        .map(|action| match action {
            Action::Create(_, slice) => items(&slice["endpoints"]).len(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(sizes, [100, 100, 50]);
    let slices: Vec<Value> = plan
        .actions
        .into_iter()
        .enumerate()
        .map(|(number, action)| match action {
            Action::Create(_, mut slice) => {
                slice["metadata"]["name"] = format!("web-{number}").into();
                slice
            }
            other => panic!("{other:?}"),
        })
        .collect();
    let fewer = plan_slices(&service(), &pods[..100], &slices);
    assert_eq!(fewer.actions.len(), 2, "{fewer:?}");
    assert!(fewer.actions.iter().all(|action| matches!(action, Action::Delete { .. })));
}

#[test]
fn endpoints_separate_ready_and_unready_addresses() {
    let pods = [pod(1, true), pod(2, false)];
    let plan = plan_endpoints(&service(), &pods, None);
    let [Action::Create(Kind::Endpoints, endpoints)] = plan.actions.as_slice() else { panic!("{plan:?}") };
    let subset = &endpoints["subsets"][0];
    assert_eq!(
        (&subset["addresses"][0]["ip"], &subset["notReadyAddresses"][0]["ip"], &subset["ports"]),
        (&json!("10.128.0.1"), &json!("10.128.0.2"), &json!([{"port": 8080, "protocol": "TCP"}]))
    );
    assert_eq!(plan_endpoints(&service(), &pods, Some(endpoints)), Plan::default());
    let changed = plan_endpoints(&service(), &pods[..1], Some(endpoints));
    assert!(matches!(changed.actions.as_slice(), [Action::Patch(Kind::Endpoints, ..)]), "{changed:?}");
}
