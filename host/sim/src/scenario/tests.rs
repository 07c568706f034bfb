//! Whole scenario files: the examples of the documentation, errors, and arbitrary text.

use proptest::prelude::*;

use super::*;

const HEADER: &str = "apiVersion: pilothouse.dev/v1alpha1\nkind: Simulation\n";
const ZOO_CRD: &str = "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: zoos.example.com}, \
     spec: {group: example.com, scope: Namespaced, names: {kind: Zoo, plural: zoos}, \
     versions: [{name: v1, served: true, storage: true, subresources: {status: {}}, schema: {openAPIV3Schema: {type: object}}}]}}";

fn parse(text: &str) -> Result<Scenario, String> {
    let read = |path: &Path| match path.to_str() {
        Some("simulations/zoo-crd.yaml") => Ok(ZOO_CRD.to_owned()),
        Some("simulations/zoo-a.yaml") => {
            Ok("apiVersion: example.com/v1\nkind: Zoo\nmetadata: {name: a}\n".to_owned())
        }
        Some("simulations/cert-crds.yaml") => {
            let crd = |kind: &str| {
                ZOO_CRD.replace("Zoo", kind).replace("zoos", &format!("{}s", kind.to_lowercase()))
            };
            Ok(format!("{}\n---\n{}\n", crd("Cert"), crd("Request")))
        }
        Some("simulations/../manifests/foo.yaml") => {
            Ok(include_str!("../../../../examples/sample-controller/manifests/foo.yaml").to_owned())
        }
        Some("simulations/empty.yaml") => Ok("# nothing\n".to_owned()),
        _ => Err("no such file".to_owned()),
    };
    Scenario::parse(Path::new("simulations/zoo.yaml"), text, &Kinds::built_in(), &read)
}

const FULL: &str = r#"
apiVersion: pilothouse.dev/v1alpha1
kind: Simulation
plugins: [zoo.wasm, {file: ../b.wasm, sidecar: {config: {size: 3}}}]
crds: [zoo-crd.yaml]
objects:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: shop}}
- {apiVersion: v1, kind: Namespace, metadata: {name: shop}}
actors:
- name: volumes
  forEach: {kind: Zoo, when: "!has(object.metadata.deletionTimestamp)"}
  ensure: |
    {apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data-${name}, labels: {app: ${name}}, annotations: {zoo-uid: ${uid}}}}
- name: user
  steps:
  - create: {file: zoo-a.yaml}
  - wait: "exists('PersistentVolumeClaim', 'data-a')"
  - delete: Zoo/a
  - wait: "!exists('Zoo', 'a')"
  - create: {file: zoo-a.yaml}
faults: {restart: 1, stale: {max: 60s}, relist: 1}
invariants:
- name: no volume of a living Zoo is deleted
  onWrite: {verb: delete, kind: PersistentVolumeClaim, by: plugin}
  expect: "objects('Zoo').all(z, z.metadata.uid != before.metadata.annotations['zoo-uid'] || has(z.metadata.deletionTimestamp))"
- name: one machine
  always: http.cloud.machines.size() <= 1
oracles:
  orphan: {off: The volumes outlive their Zoo.}
http:
- name: cloud
  host: cloud.example.com
  state: {machines: []}
  routes: [{method: GET, path: /machines, body: "${state.machines}"}]
controllers: [garbage-collector-controller]
guarantees: none
"#;

#[test]
fn a_full_scenario_is_parsed() {
    let scenario = parse(FULL).expect("valid");
    assert_eq!(scenario.name, "zoo");
    let files: Vec<_> =
        scenario.plugins.iter().map(|plugin| plugin.file.to_string_lossy().into_owned()).collect();
    assert_eq!(files, ["simulations/zoo.wasm", "simulations/../b.wasm"]);
    assert_eq!(scenario.plugins[1].sidecar["config"]["size"], 3);
    assert_eq!(Scenario::plugins_of(Path::new("simulations/zoo.yaml"), FULL), Ok(scenario.plugins.clone()));
    assert_eq!(scenario.kinds.resolve("Zoo").map(|zoo| zoo.has_status), Ok(true));
    assert_eq!((scenario.crds.len(), scenario.objects.len()), (1, 2));
    let names: Vec<_> = scenario.actors(1).iter().map(|actor| actor.name().to_owned()).collect();
    assert_eq!(names, ["volumes", "user"]);
    let faults = scenario.faults.as_ref().expect("bounds");
    assert_eq!((faults.restart, faults.crash, faults.stale.max_ms), (1, 0, 60_000));
    assert_eq!(scenario.invariants.len(), 2);
    assert!(scenario.http_services().is_some() && !scenario.guarantees);
    assert_eq!(scenario.http.hosts().collect::<Vec<_>>(), ["cloud.example.com"]);
}

#[test]
fn the_examples_of_the_documentation_are_valid() {
    let text = include_str!("../../../../docs/simulation-scenarios.md");
    let examples: Vec<_> =
        text.split("```yaml\n").skip(1).filter_map(|rest| rest.split_once("```")).collect();
    assert_eq!(examples.len(), 3);
    for (example, _) in examples {
        let scenario = parse(example).expect(example);
        assert!(!scenario.invariants.is_empty());
    }
}

#[test]
fn the_scenario_of_new_projects_is_valid() {
    let crd = ZOO_CRD
        .replace("Zoo", "Foo")
        .replace("zoos", "foos")
        .replace("example.com", "samplecontroller.k8s.io");
    let text = include_str!("../../../../examples/sample-controller/simulations/recreation.yaml");
    let scenario = parse(&format!("{text}crds: [{crd}]\n")).expect("valid");
    assert_eq!((scenario.actors.len(), scenario.invariants.len()), (1, 2));
}

#[test]
fn a_scenario_without_members_is_valid() {
    let scenario = parse(HEADER).expect("valid");
    assert!(scenario.actors(1).is_empty() && scenario.http_services().is_none() && scenario.guarantees);
    assert_eq!(scenario.faults, None);
}

#[test]
fn each_error_is_one_line_with_file_line_and_remedy() {
    let with = |members: &str| format!("{HEADER}{members}\n");
    for (text, expected) in [
        (with("actor: []"), "unknown field `actor`"),
        (with("actor: []"), "did you mean actors?"),
        (with("actor: []"), "line 3"),
        (
            with("actors:\n- {name: a, forEach: {kind: Zo}, delete: true}"),
            "line 4: actor \"a\": unknown kind \"Zo\"",
        ),
        (with("actors:\n- name: a\n  steps:\n  - delete: Pod/a\n  - delete: Pood/a"), "line 7: "),
        (with("actors:\n- name: a\n  steps:\n  - delete: Pod/a\n  - delte: Pod/a"), "did you mean delete?"),
        (
            with("actors:\n- {name: a, steps: []}\n- {name: a, steps: []}"),
            "line 5: the actor \"a\" is there twice",
        ),
        (with("plugins: [{fil: a}]"), "line 3: plugins: "),
        (with("crds: [absent.yaml]"), "line 3: crds: file simulations/absent.yaml: no such file"),
        (with("crds: [zoo-a.yaml]"), "list other objects under objects"),
        (with("objects: [{file: empty.yaml}]"), "it has no manifest"),
        (
            with("objects: [{apiVersion: example.com/v1, kind: Zoo, metadata: {name: a}}]"),
            "list its CRD under crds",
        ),
        (with("faults:\n  crash: 5000"), "line 4: faults.crash is 5000"),
        (with("faults:\n  delay: {max: 2m}"), "line 4: faults.delay.max is 120 s; write at most 60 s"),
        (
            with("invariants:\n- {name: i, always: 'objects(\"Pod\").sze() > 0'}"),
            "line 4: invariant \"i\": the expression",
        ),
        (
            with("invariants: [{name: i, always: 'true'}, {name: i, always: 'true'}]"),
            "the name is there twice",
        ),
        (with("invariants: [{name: i, always: http.cloud.a}]"), "unknown variable \"http\""),
        (with("oracles: {orphan: {off: ''}}"), "write why"),
        (with("oracles: {orphan: off}"), "line 3"),
        (
            with("oracles:\n  trap: {off: why}\n  orphans: {off: why}"),
            "line 5: oracles: unknown oracle \"orphans\"; did you mean orphan?",
        ),
        (with("controllers: [job, garbagecollection]"), "line 3: controllers: "),
        (with("guarantees: some"), "line 3: guarantees: \"some\" is neither on nor none"),
        (
            with("actors:\n- name: a\n  forEach: {kind: Pod, count: \"'500'\"}\n  delete: true"),
            "line 4: actor \"a\": forEach.count: the expression \"'500'\": it is of the type string, not int",
        ),
        (
            with(
                "actors:\n- name: a\n  forEach: {kind: Pod, when: name}\n  delete: true\n- name: b\n  forEach: {kind: Pod, when: 'name.size()'}\n  delete: true",
            ),
            "line 7: actor \"b\": forEach.when: the condition \"name.size()\": it is of the type int, not bool",
        ),
        (with("name: ''"), "the name \"\""),
        (HEADER.replace("Simulation", "Scenario"), "or write kind: Simulation"),
        (
            HEADER.replace("Simulation", "Test"),
            "write apiVersion: pilothouse.dev/v1alpha1 and kind: Simulation",
        ),
        (String::new(), "simulations/zoo.yaml: "),
        ("- a list".to_owned(), "line 1"),
    ] {
        let error = parse(&text).map(|_| ()).expect_err(&text);
        assert!(error.starts_with("simulations/zoo.yaml: ") && error.contains(expected), "{text}: {error}");
        assert!(!error.contains('\n'), "{error}");
    }
}

#[test]
fn a_scenario_is_generated_from_watched_kinds() {
    let kinds = Kinds::built_in();
    let watched = ["ConfigMap", "Event"].map(|kind| WatchedKind {
        name: kind.to_owned(),
        references: Vec::new(),
        kind: kinds.find("", kind).expect("built in").clone(),
        role: generate::Role::Reconciled,
        label_selector: String::new(),
        namespaces: vec!["shop".to_owned()],
        writes_status: false,
        may_delete: false,
    });
    let (scenario, problems) = Scenario::generated(&watched, &[], kinds, 1);
    assert_eq!((scenario.actors(1).len(), scenario.objects.len(), problems.len()), (1, 1, 1));
    assert!(problems[0].contains("Event"), "{problems:?}");
}

#[test]
fn an_invariant_on_the_writes_of_nobody_is_refused() {
    let of = |name: &str| {
        let invariant = format!("{{name: i, onWrite: {{by: {name}}}, expect: 'true'}}");
        let text = format!("{HEADER}actors: [{{name: user, steps: []}}]\ninvariants:\n- {invariant}\n");
        parse(&text).expect(name)
    };
    for known in ["user", "zoo", "plugin", "actor", "controller"] {
        assert_eq!(of(known).check_authors(&["zoo"]), Ok(()), "{known}");
    }
    let problem = of("zoos").check_authors(&["zoo"]).expect_err("unknown");
    assert_eq!(
        problem,
        "line 5: invariant \"i\": onWrite.by: unknown plugin or actor \"zoos\"; did you mean zoo?"
    );
}

#[test]
fn too_many_entries_are_refused() {
    for (member, entry, count) in [
        ("objects", "{apiVersion: v1, kind: Pod, metadata: {name: a}}", 1001),
        ("plugins", "a.wasm", 11),
        ("actors", "{name: a, steps: []}", 51),
        ("invariants", "{name: a, always: 'true'}", 101),
    ] {
        let text = format!("{HEADER}{member}:\n{}", format!("- {entry}\n").repeat(count));
        let error = parse(&text).map(|_| ()).expect_err(member);
        assert!(error.contains("are allowed"), "{error}");
    }
}

#[test]
fn the_error_of_a_name_with_a_line_break_is_one_line() {
    let error =
        parse(&format!("{HEADER}plugins:\n- {{\"a\\nb\": zoo.wasm}}\n")).map(|_| ()).expect_err("unknown");
    assert!(error.contains("unknown field `a\\nb`") && !error.contains('\n'), "{error}");
}

#[test]
fn scenarios_are_shared_between_threads() {
    fn is_shared<T: Send + Sync>(_: &T) {}
    is_shared(&parse(FULL).expect("valid"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn no_text_makes_the_parser_panic(text in "[ -~\n]{0,300}") {
        let _ = parse(&text);
        let _ = parse(&format!("{HEADER}{text}"));
    }

    #[test]
    fn no_change_of_a_scenario_makes_the_parser_panic(
        start in 0..FULL.len(), length in 0_usize..60, inserted in "[ -~\n]{0,8}|\\$\\{[a-z]{0,3}|: |- |\\{|\\[",
    ) {
        let end = (start + length).min(FULL.len());
        if let (Some(before), Some(after)) = (FULL.get(..start), FULL.get(end..))
            && let Err(error) = parse(&format!("{before}{inserted}{after}"))
        {
            prop_assert!(error.starts_with("simulations/zoo.yaml: ") && !error.contains('\n'), "{}", error);
        }
    }
}
