//! Tests of parsing, of the texts of errors and of the schema.

use pilothouse_yaml::FieldPath;
use serde_json::json;

use super::*;
use crate::config::limits;

#[test]
fn a_value_of_another_type_is_described_without_types_of_rust() {
    for (text, expected) in [
        ("workers: many", "line 1 column 10: workers: expected a whole number"),
        ("workers: 70000", "line 1 column 10: workers: 70000 is not between 1 and 64"),
        (
            "workers: 99999999999999999999",
            "line 1 column 10: workers: 99999999999999999999 is not between 1 and 64",
        ),
        ("workers: 1\nworkers: 2", "line 2 column 1: the key `workers` occurs twice; remove one of them"),
        ("enabled: perhaps", "line 1 column 10: enabled: expected true or false"),
    ] {
        let error = Sidecar::parse(text).expect_err(text).to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn an_unknown_field_is_named_with_its_line() {
    let error = Sidecar::parse("enabled: true\nworkerz: 3\n").expect_err("a misspelt field").to_string();
    assert!(error.starts_with("line 2 column 1: unknown field `workerz`"), "{error}");
}

#[test]
fn all_fields_are_parsed() {
    let sidecar = Sidecar::parse(
        "# ours\nenabled: true\nconfig: {colour: blue, deep: {list: [1, 2]}}\nworkers: 4\n\
         limits: {memory: 16Mi, reconcileTimeout: 5s, httpBody: 1Mi, httpRequests: 2}\ngrants:\n  crds: false\n  http: [api.example.com, \"http://10.0.0.7:8080\"]\n  writes:\n    - apiGroups: ['']\n      resources: [configmaps]\n      verbs: ['*']\n",
    )
    .expect("valid");
    assert_eq!(sidecar.workers, Some(4));
    assert_eq!(sidecar.config["deep"]["list"][1], 2);
    assert_eq!(sidecar.grants.crds, Some(false));
    assert_eq!(sidecar.grants.http, ["api.example.com", "http://10.0.0.7:8080"]);
    assert_eq!(sidecar.grants.writes.expect("rules")[0].resources, ["configmaps"]);
}

#[test]
fn the_service_account_and_watch_grants_are_parsed() {
    let sidecar = Sidecar::parse(
        "serviceAccount: shop/robot\ngrants:\n  watches:\n    - apiGroups: [apps]\n      resources: [deployments]\n      \
         namespaces: [shop]\n    - {apiGroups: [''], resources: [nodes]}\n",
    )
    .expect("valid");
    assert_eq!(sidecar.service_account.expect("an account").to_string(), "shop/robot");
    let watches = sidecar.grants.watches.expect("rules");
    assert_eq!((watches[0].namespaces.len(), watches[1].namespaces.len()), (1, 0));
}

#[test]
fn the_probation_of_new_versions_is_parsed() {
    let probation = |text| Sidecar::parse(text).expect(text).rollout.probation;
    let period = probation("rollout: {probation: 1m30s}").expect("a probation");
    assert_eq!(period.duration(), std::time::Duration::from_secs(90));
    assert_eq!((probation("rollout: {}"), probation("workers: 1")), (None, None));
}

#[test]
fn the_share_of_a_canary_is_parsed() {
    let canary = |text| Sidecar::parse(text).expect(text).rollout.canary;
    assert_eq!(canary("rollout: {canary: {percent: 10}, probation: 5m}"), Some(CanaryShare::Percent(10)));
    let names = vec!["shop".to_owned(), "test".to_owned()];
    assert_eq!(canary("rollout: {canary: {namespaces: [test, shop]}}"), Some(CanaryShare::Namespaces(names)));
    assert_eq!(canary("rollout: {probation: 5m}"), None);
}

#[test]
fn only_the_share_of_a_canary_can_change_without_a_reload() {
    let same = |left, right| Sidecar::differ_only_in_canary(left, right);
    let (ten, fifty) = ("rollout: {canary: {percent: 10}}", "rollout: {canary: {percent: 50}}");
    assert!(same(ten, fifty) && same("workers: 1", "workers: 1\nrollout: {canary: {percent: 10}}"));
    assert!(!same(ten, "workers: 2\nrollout: {canary: {percent: 50}}"));
    assert!(!same(ten, "rollout: {canary: {percent: 50}, probation: 5m}"));
    assert!(!same(ten, "rollout: [") && !same("# a", "# b"), "the canary is the same");
}

#[test]
fn the_file_of_a_shadow_is_below_the_plugins_directory() {
    let sidecar = Sidecar::parse("shadow: {file: shadows/new.wasm}").expect("valid");
    assert_eq!(sidecar.shadow.expect("a shadow").file, "shadows/new.wasm");
    for path in ["/etc/passwd", "../new.wasm", "shadows/../../new.wasm", "\"\""] {
        let error = Sidecar::parse(&format!("shadow: {{file: {path}}}")).expect_err(path);
        assert_eq!(error.member(), Some(FieldPath::of_members("shadow.file")), "{path}: {error}");
    }
}

#[test]
fn an_empty_sidecar_has_the_defaults() {
    assert_eq!(Sidecar::parse("# nothing yet\n\n").expect("valid"), Sidecar::default());
}

#[test]
fn each_error_is_one_line_that_names_the_field() {
    for (text, expected) in [
        ("worker: 3", "expected one of enabled, config, workers, limits, grants"),
        ("limits: {memry: 1Mi}", "expected one of memory, tableElements, instances, reconcileTimeout"),
        ("limits: {clientQps: -1}", "line 1"),
        ("limits: {clientQps: 0}", "limits.clientQps: 0 is not between 1 and 1000000"),
        ("workers: 0", "workers: 0 is not between 1 and 64"),
        ("workers: many", "workers"),
        ("limits: {memory: lots}", "limits.memory: \"lots\" is not a quantity"),
        ("grants: {http: [\"ftp://a.example.com\"]}", "grants.http: \"ftp://a.example.com\": the scheme"),
        ("enabled: [", "line"),
        ("- a list", "line"),
        ("serviceAccount: robot", "\"robot\" is not a service account; write it as NAMESPACE/NAME"),
        ("grants: {watches: [{apiGroups: [''], resources: [pods], verbs: [get]}]}", "verbs"),
        ("grants: {watches: [{resources: [pods]}]}", "apiGroups"),
        ("rollout: {probation: soon}", "rollout.probation: \"soon\" is not a duration"),
        ("rollout: {probation: 48h}", "rollout.probation: \"48h\" is not between 1s and 24h"),
        ("rollout: {canry: {percent: 10}}", "canary"),
        ("rollout: {canary: {percent: 0}}", "rollout.canary.percent: 0 is not between 1 and 100"),
        ("rollout: {canary: {percent: 1000}}", "rollout.canary.percent: 1000 is not between 1 and 100"),
        ("rollout: {canary: {percent: -1}}", "rollout.canary.percent: -1 is not between 1 and 100"),
        (
            "rollout: {probation: 300}",
            "rollout.probation: \"300\" is not a duration between 1s and 24h; write for example",
        ),
        ("rollout: {probation: -5m}", "is not a duration between 1s and 24h"),
        ("rollout: {canary: {namespaces: [a/b]}}", "rollout.canary.namespaces: \"a/b\" is not the name"),
        ("rollout: {canary: {}}", "rollout.canary: write either namespaces"),
        (
            "grants: {watches: [{apiGroups: [''], resources: [pods], namespaces: [a/../b]}]}",
            "grants.watches: \"a/../b\" is not the name of a namespace",
        ),
    ] {
        let error = Sidecar::parse(text).expect_err(text).to_string();
        assert!(error.contains(expected), "{text}: {error}");
        assert!(!error.contains('\n'), "{error}");
    }
}

const SCHEMA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/sidecar.schema.json");

/// With `PILOTHOUSE_UPDATE_SCHEMA=1` the file is written instead of compared.
#[test]
fn the_published_schema_of_sidecars_matches_the_types() {
    let text = format!("{:#}\n", schema());
    if std::env::var_os("PILOTHOUSE_UPDATE_SCHEMA").is_some() {
        std::fs::write(SCHEMA, &text).expect("written");
    }
    let published = std::fs::read_to_string(SCHEMA).expect("docs/sidecar.schema.json is there");
    assert!(
        published == text,
        "docs/sidecar.schema.json is not up to date: run \
         PILOTHOUSE_UPDATE_SCHEMA=1 cargo test -p pilothouse-controller --lib schema"
    );
}

#[test]
fn the_schema_has_all_limits_and_the_form_of_a_service_account() {
    let schema = schema();
    let limits = schema["$defs"]["SidecarLimits"]["properties"].as_object().expect("limits");
    assert_eq!(limits.len(), limits::LIMITS.len());
    assert_eq!(schema["properties"]["serviceAccount"]["type"][0], "string");
    assert_eq!(schema["additionalProperties"], false);
}

#[test]
fn an_error_has_the_field_that_is_wrong() {
    for (text, member) in [
        ("limits: {memory: lots}", Some("limits.memory")),
        ("grants: {http: ['ftp://a.example.com']}", Some("grants.http")),
        ("workers: 0", Some("workers")),
        ("worker: 1", None),
    ] {
        let error = Sidecar::parse(text).expect_err(text);
        assert_eq!(error.member(), member.map(FieldPath::of_members), "{text}");
    }
}

#[test]
fn an_error_of_a_sidecar_in_something_else_names_the_path() {
    let spec = FieldPath::of_members("spec");
    for (members, text) in [
        (json!({"worker": 1}), "spec.worker: unknown field `worker`, expected one of"),
        (json!({"workers": "many"}), "spec.workers: invalid type: string \"many\""),
        (json!({"workers": 0}), "spec.workers: 0 is not between 1 and 64"),
        (json!({"workers": 70000}), "spec.workers: 70000 is not between 1 and 64"),
        (json!({"limits": {"memory": "lots"}}), "spec.limits.memory: \"lots\" is not a quantity"),
        (
            json!({"grants": {"watches": [{"apiGroups": [""], "resources": ["pods"]}, {"resources": []}]}}),
            "spec.grants.watches[1]: missing field `apiGroups`",
        ),
        (
            json!({"grants": {"writes": [{"verbs": "get"}]}}),
            "spec.grants.writes[0].verbs: invalid type: string \"get\", expected a list",
        ),
        (
            json!({"rollout": {"probation": "48h"}}),
            "spec.rollout.probation: \"48h\" is not between 1s and 24h",
        ),
        (
            json!({"rollout": {"canary": {"percent": 0}}}),
            "spec.rollout.canary.percent: 0 is not between 1 and 100",
        ),
        (json!({"serviceAccount": "robot"}), "spec.serviceAccount: \"robot\" is not a service account"),
    ] {
        let members = members.as_object().expect("members");
        let error = Sidecar::parse_members(members).expect_err(text).below(&spec);
        assert!(error.starts_with(text), "{error}");
    }
    let numbers =
        json!({"grants": {"watches": [{"apiGroups": [""], "resources": ["pods"], "namespaces": [123]}]}});
    let sidecar = Sidecar::parse_members(numbers.as_object().expect("members")).expect("as in a file");
    assert_eq!(sidecar.grants.watches.expect("rules")[0].namespaces, ["123"]);
}

#[test]
fn an_oversized_sidecar_is_refused() {
    let bomb = (1..9).fold("config:\n  a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned(), |text, level| {
        let again = vec![format!("*a{}", level - 1); 9].join(", ");
        format!("{text}  a{level}: &a{level} [{again}]\n")
    });
    for (text, problem) in [
        (format!("config: {{a: \"{}\"}}", "x".repeat(MAX_SIDECAR)), "may have 1048576"),
        (format!("config: {}", "[".repeat(5000)), "line"),
        (format!("config: {{a: {}1{}}}", "[".repeat(80), "]".repeat(80)), "line"),
        (bomb, "line"),
        (format!("grants: {{http: [{}]}}", vec!["a.example.com"; 257].join(", ")), "257 hosts"),
        (format!("grants: {{writes: [{}]}}", vec!["{verbs: [get]}"; 257].join(", ")), "257 rules"),
        (format!("grants: {{writes: [{{verbs: [{}]}}]}}", vec!["get"; 257].join(", ")), "257 entries"),
        (
            format!("grants: {{watches: [{{apiGroups: [a], resources: [{}]}}]}}", vec!["b"; 257].join(", ")),
            "257 entries in one list",
        ),
    ] {
        let error = Sidecar::parse(&text).expect_err(problem).to_string();
        assert!(error.contains(problem), "{problem}: {error}");
        assert!(!error.contains('\n') && error.len() < 1000, "{error:.1000}");
    }
}
