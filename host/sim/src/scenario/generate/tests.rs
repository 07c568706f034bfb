//! What is generated for the kinds that a plugin watches.

use super::super::Kinds;
use super::*;
use crate::actor::{Actor, ActorPoll, Operation, PollMoment, WriteOutcome};
use crate::scenario::actor::ActorState;
use crate::scenario::test_view::TestView;

fn built_in(kind: &str, role: Role, label_selector: &str) -> WatchedKind {
    let kind = Kinds::built_in().resolve(kind).expect("built in").clone();
    WatchedKind {
        name: kind.resource.plural.clone(),
        kind,
        role,
        label_selector: label_selector.to_owned(),
        namespaces: Vec::new(),
        references: Vec::new(),
        writes_status: false,
        may_delete: true,
    }
}

fn zoo() -> WatchedKind {
    let mut zoo = built_in("ConfigMap", Role::Reconciled, "");
    zoo.kind.resource.group = "example.com".to_owned();
    zoo.kind.resource.kind = "Zoo".to_owned();
    zoo.kind.resource.plural = "zoos".to_owned();
    zoo.kind.schema = Some(json!({"type": "object", "properties": {"spec": {
        "type": "object", "required": ["size"], "properties": {"size": {"type": "integer", "minimum": 1}},
    }}}));
    zoo
}

fn titles(generated: &Generated) -> Vec<&str> {
    let Behaviour::Steps(steps) = &generated.user.as_ref().expect("a user").behaviour else {
        panic!("steps")
    };
    steps.iter().map(|step| step.title.as_str()).collect()
}

#[test]
fn a_user_creates_changes_deletes_and_recreates_objects() {
    let watched = [zoo(), built_in("Secret", Role::Read, ""), built_in("Deployment", Role::Owned, "")];
    let generated = generate(&watched, &[], 1);
    assert_eq!(generated.problems, [""; 0]);
    assert_eq!(
        titles(&generated),
        [
            "create Secret sample-a",
            "create Secret sample-b",
            "create Zoo sample-a",
            "create Zoo sample-b",
            "add an owner to Secret sample-b",
            "add an owner to Zoo sample-b",
            "delete the first Deployment",
            "label and annotate the first Deployment",
            "start the first Deployment",
            "change Secret sample-a",
            "label Secret sample-a",
            "change Zoo sample-a",
            "label Zoo sample-a",
            "change Zoo sample-a",
            "delete Zoo sample-a",
            "recreate Zoo sample-a",
            "delete Zoo sample-b",
            "remove the finalizer of Zoo sample-b",
            "delete Secret sample-a",
            "recreate Secret sample-a",
            "delete Secret sample-b",
            "remove the finalizer of Secret sample-b",
        ]
    );
}

#[test]
fn the_steps_can_be_taken() {
    let watched = [zoo(), built_in("Deployment", Role::Owned, "")];
    let user = generate(&watched, &[], 1).user.expect("a user");
    let mut actor = ActorState::new(user, 1);
    let deployment = |name: &str, owners: Value| json!({"kind": "Deployment", "metadata": {"name": name, "namespace": "default", "ownerReferences": owners}});
    let view = TestView::new(vec![deployment("other", json!([])), deployment("web", json!([{"uid": "1"}]))]);
    let mut writes = Vec::new();
    loop {
        match actor.poll(&view, PollMoment { now_ms: 0, at_rest: true }) {
            ActorPoll::Write(write) => writes.push((write.step, write.resource.kind, write.name)),
            ActorPoll::Done => break,
            other => panic!("{other:?}"),
        }
        actor.written(&WriteOutcome { status: 200, message: String::new() }, 0);
    }
    for (index, step) in [(2, 4), (3, 5)] {
        assert_eq!(writes[index], (step, "Deployment".to_owned(), "web".to_owned()));
    }
    assert_eq!(writes.len(), 11);
}

/// Otherwise, the end would depend on how far the plugin is, and a plugin that scales the Deployment would be reported.
#[test]
fn a_status_that_repeats_the_specification_is_written_at_rests_only() {
    let title_of_hurried = |kind: &str| {
        let user = generate(&[built_in(kind, Role::Reconciled, "")], &[], 1).user.expect("a user");
        let Behaviour::Steps(steps) = &user.behaviour else { panic!("steps") };
        let start = steps.iter().position(|step| step.title.starts_with("start")).expect("a status");
        let titles: Vec<_> = steps.iter().map(|step| step.title.clone()).collect();
        let mut actor = ActorState::new(user.clone(), 1);
        let object = |name: &str| json!({"kind": kind, "metadata": {"name": name, "namespace": "default"}, "spec": {"containers": []}});
        let namespace = json!({"kind": "Namespace", "metadata": {"name": "default", "uid": "1"}});
        let view = TestView::new(vec![object("sample-a"), object("sample-b"), namespace]);
        for _ in 0..start {
            let poll = actor.poll(&view, PollMoment { now_ms: 0, at_rest: true });
            assert!(matches!(poll, ActorPoll::Write(_)), "{poll:?}");
            actor.written(&WriteOutcome { status: 200, message: String::new() }, 0);
        }
        actor.take_next_step();
        match actor.poll(&view, PollMoment { now_ms: 0, at_rest: false }) {
            ActorPoll::Write(write) => titles.get(write.step as usize - 1).cloned(),
            _ => None,
        }
    };
    assert_eq!(title_of_hurried("Pod").as_deref(), Some("start Pod sample-a"));
    assert_eq!(title_of_hurried("Deployment"), None);
}

#[test]
fn the_second_object_of_a_kind_that_users_make_has_metadata_of_other_clients() {
    let mut named = built_in("ConfigMap", Role::Read, "zoo");
    named.references = vec![reference(Place::Label("zoo".to_owned()), NameForm::Name, "zoos")];
    let watched = [zoo(), built_in("Secret", Role::Read, ""), named, built_in("Node", Role::Owned, "")];
    let generated = generate(&watched, &[], 1);
    for (title, is_marked) in [
        ("create Zoo sample-a", false),
        ("create Zoo sample-b", true),
        ("create Secret sample-b", true),
        // They may be the plugin's own.
        ("create ConfigMap sample-b", false),
    ] {
        let object = created(&generated, title);
        let marks = FOREIGN_METADATA.iter().filter(|pointer| object.pointer(pointer).is_some()).count();
        assert_eq!(
            (marks, object["metadata"].get("finalizers").is_some()),
            (if is_marked { 2 } else { 0 }, is_marked),
            "{title}"
        );
    }
    let titles = titles(&generated);
    for step in ["add an owner to", "delete", "remove the finalizer of"] {
        for object in ["Zoo sample-b", "Secret sample-b"] {
            assert!(titles.contains(&format!("{step} {object}").as_str()), "{titles:?}");
        }
        assert!(!titles.contains(&format!("{step} Zoo sample-a").as_str()) || step == "delete", "{titles:?}");
    }
}

#[test]
fn objects_get_the_statuses_that_components_of_a_cluster_write() {
    let written = |writes_status: bool| {
        let watched = [
            WatchedKind { writes_status, ..built_in("Pod", Role::Reconciled, "") },
            built_in("Job", Role::Owned, ""),
        ];
        let generated = generate(&watched, &[], 1);
        let mut titles: Vec<_> = titles(&generated).into_iter().map(str::to_owned).collect();
        titles.retain(|title| ["start", "finish", "fail"].iter().any(|verb| title.starts_with(verb)));
        titles
    };
    let of_jobs = ["start the first Job", "finish the first Job"];
    assert_eq!(
        written(false),
        [
            "start Pod sample-a",
            "start Pod sample-b",
            of_jobs[0],
            "finish Pod sample-a",
            "fail Pod sample-b",
            of_jobs[1]
        ]
    );
    assert_eq!(written(true), of_jobs, "the plugin writes the status of Pods itself");
}

#[test]
fn every_built_in_kind_is_generated_or_known_not_to_be() {
    for info in Kinds::built_in().iter() {
        let kind = info.resource.kind.clone();
        let watched =
            WatchedKind { namespaces: vec!["shop".to_owned()], ..built_in(&kind, Role::Reconciled, "") };
        let generated = generate(&[watched], &[], 1);
        if ["Event", "CustomResourceDefinition"].contains(&kind.as_str()) {
            assert!(generated.problems[0].contains("--objects"), "{kind}");
            continue;
        }
        assert_eq!(generated.problems, [""; 0], "{kind}");
        assert!(titles(&generated).contains(&format!("change {kind} sample-a").as_str()));
        assert_eq!(generated.objects.len(), usize::from(info.resource.namespaced), "{kind}");
    }
}

#[test]
fn objects_have_the_labels_that_the_watch_selects() {
    for (selector, expected) in [
        ("", json!({})),
        ("app=web,tier in (b, a),canary", json!({"app": "web", "tier": "a", "canary": "true"})),
        ("!copy,app!=web", json!({})),
    ] {
        assert_eq!(labels(selector).map(|labels| json!(labels)), Ok(expected), "{selector}");
    }
    let generated = generate(&[built_in("Secret", Role::Reconciled, "a=b,!a")], &[], 1);
    assert!(generated.user.is_none());
    assert!(generated.problems[0].contains("no labels satisfy"), "{:?}", generated.problems);
}

/// Returns the object that a step creates.
fn created(generated: &Generated, title: &str) -> Value {
    let Behaviour::Steps(steps) = &generated.user.as_ref().expect("a user").behaviour else {
        panic!("steps")
    };
    let step = steps.iter().find(|step| step.title == title).expect(title);
    match &step.action {
        StepAction::Try(write) => match &write.operation {
            Operation::Create(object) => object.clone(),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

fn reference(place: Place, form: NameForm, watch: &str) -> WatchReference {
    WatchReference { place, form, watch: watch.to_owned() }
}

#[test]
fn objects_name_each_other_where_the_watches_look_for_names() {
    let mut zoo = zoo();
    zoo.name = "zoos".to_owned();
    zoo.kind.schema = Some(json!({"type": "object", "properties": {"spec": {
        "type": "object", "required": ["nodes", "size"], "properties": {
            "nodes": {"type": "array", "items": {"type": "string"}},
            "size": {"type": "string", "enum": ["small"]},
        },
    }}}));
    let path = |path: &str| Place::Field(path.to_owned());
    zoo.references = vec![
        reference(path("{.spec.nodes[*]}"), NameForm::Key, "nodes"),
        reference(path("{.spec.size}"), NameForm::Key, "nodes"),
        reference(path("{.spec.size}"), NameForm::Key, "absent"),
    ];
    let mut secret = built_in("Secret", Role::Read, "zoo");
    let label = || Place::Label("zoo".to_owned());
    secret.references = vec![
        reference(label(), NameForm::Name, "zoos"),
        reference(Place::Annotation("in".to_owned()), NameForm::Namespace, "zoos"),
    ];
    let mut fixed = built_in("ConfigMap", Role::Read, "zoo=fixed");
    fixed.references = vec![reference(label(), NameForm::Name, "zoos")];
    let nodes = built_in("Node", Role::Read, "");
    let generated = generate(&[zoo, secret, fixed, nodes], &[], 1);
    assert_eq!(generated.problems, [""; 0]);
    let zoo = created(&generated, "create Zoo sample-b");
    assert_eq!(zoo["spec"], json!({"nodes": ["sample-b"], "size": "small"}), "the enum forbids a name");
    let secret = created(&generated, "create Secret sample-a");
    assert_eq!(secret["metadata"]["labels"], json!({"zoo": "sample-a"}));
    assert_eq!(secret["metadata"]["annotations"], json!({"in": "default"}));
    let map = created(&generated, "create ConfigMap sample-a");
    assert_eq!(map["metadata"]["labels"], json!({"zoo": "fixed"}), "the watch must select it");
}

#[test]
fn objects_name_each_other_in_fields_that_are_named_as_a_kind() {
    let mut zoo = zoo();
    let text = || json!({"type": "string"});
    zoo.kind.schema = Some(
        json!({"type": "object", "properties": {"spec": {"type": "object", "required": ["leaseName"], "properties": {
            "deployment": text(), "secretRef": {"type": "object", "properties": {"name": text()}}, "leaseName": text(),
        }}}}),
    );
    let watched = [
        zoo,
        built_in("Deployment", Role::Read, "app"),
        built_in("Deployment", Role::Read, "tier"),
        built_in("Secret", Role::ReadLive, ""),
        built_in("Node", Role::ReadLive, ""),
        built_in("Lease", Role::Owned, ""),
    ];
    let generated = generate(&watched, &[], 1);
    assert_eq!(generated.problems, [""; 0]);
    let zoo = created(&generated, "create Zoo sample-b");
    // The names of both watches are of the same kind: the last one wins.
    let expected =
        json!({"deployment": "sample-d", "secretRef": {"name": "sample-b"}, "leaseName": "sample-b"});
    assert_eq!(zoo["spec"], expected);
    let titles = titles(&generated);
    assert!(titles.contains(&"create Secret sample-b"), "it is named: {titles:?}");
    assert!(!titles.iter().any(|title| title.contains("Node")), "nothing names it: {titles:?}");
}

#[test]
fn kinds_that_a_plugin_may_only_read_leave_room_for_those_that_it_watches() {
    let secret = || built_in("Secret", Role::Read, "");
    let mut watched = vec![built_in("Node", Role::ReadLive, ""); MAX_KINDS];
    watched.push(secret());
    let generated = generate(&watched, &[], 1);
    assert!(titles(&generated).contains(&"create Secret sample-a"));
    assert!(!titles(&generated).contains(&"create Node sample-a"), "nothing names it");
}

#[test]
fn a_custom_resource_named_as_a_built_in_kind_has_a_status_of_its_own() {
    let mut job = zoo();
    job.kind.resource.kind = "Job".to_owned();
    let generated = generate(&[job], &[], 1);
    assert!(!titles(&generated).contains(&"start Job sample-a"), "{:?}", titles(&generated));
}

#[test]
fn a_watch_that_looks_for_names_in_all_labels_does_not_prevent_marks() {
    let mut zoo = zoo();
    zoo.references = vec![reference(Place::Field("{.metadata.labels}".to_owned()), NameForm::Name, "zoos")];
    let generated = generate(&[zoo], &[], 1);
    assert!(created(&generated, "create Zoo sample-b").pointer(FOREIGN_METADATA[0]).is_some());
}

#[test]
fn watches_of_one_kind_have_objects_of_their_own_unless_they_select_the_same() {
    let watched = [
        built_in("Secret", Role::Read, "a"),
        built_in("Secret", Role::Read, ""),
        built_in("Secret", Role::Reconciled, "a"),
    ];
    let generated = generate(&watched, &[], 1);
    let titles = titles(&generated);
    let creates: Vec<_> = titles.iter().filter(|title| title.starts_with("create ")).collect();
    assert_eq!(
        creates,
        [
            &"create Secret sample-c",
            &"create Secret sample-d",
            &"create Secret sample-a",
            &"create Secret sample-b"
        ]
    );
}

#[test]
fn examples_replace_generated_objects() {
    let object = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "token"}, "data": {"password": "YQ=="}});
    let example = Manifest::new(object, "default", &Kinds::built_in()).expect("valid");
    let generated = generate(&[built_in("Secret", Role::Reconciled, "")], &[example], 1);
    assert_eq!(
        titles(&generated),
        [
            "create Secret token",
            "change Secret token",
            "label Secret token",
            "delete Secret token",
            "recreate Secret token"
        ]
    );
}

/// Returns the titles of the steps on both ways of each history.
fn history_titles(generated: &Generated) -> Vec<[Vec<&str>; 2]> {
    let histories = generated.histories.iter();
    histories
        .map(|history| {
            [false, true].map(|is_shorter| {
                let Behaviour::Steps(steps) = &history.way(is_shorter).behaviour else { panic!("steps") };
                steps.iter().map(|step| step.title.as_str()).collect()
            })
        })
        .collect()
}

#[test]
fn a_user_comes_to_the_same_objects_on_several_ways() {
    let mut zoo = zoo();
    let text = || json!({"type": "string"});
    zoo.kind.schema = Some(
        json!({"type": "object", "properties": {"spec": {"type": "object", "required": ["size", "pool", "secretName"],
        "properties": {"size": {"type": "integer"}, "pool": text(), "secretName": text()}}}}),
    );
    let watched = [zoo, built_in("Secret", Role::Read, ""), built_in("Namespace", Role::Read, "")];
    let generated = generate(&watched, &[], 1);
    let read = ["create Secret sample-a", "create Namespace sample-a"];
    let with_read = |steps: &[&'static str]| [&read[..], steps].concat();
    let once = with_read(&["create Zoo sample-a"]);
    let in_both = ["create Namespace another"]
        .into_iter()
        .chain(read)
        .chain(["create Secret sample-a", "create Zoo sample-a"])
        .collect::<Vec<_>>();
    let held = ["create Namespace another", "create ConfigMap held", "delete Namespace another"];
    assert_eq!(
        history_titles(&generated),
        [
            [with_read(&["create Zoo sample-a", "change Zoo sample-a", "change Zoo sample-a"]), once.clone()],
            [with_read(&["create Zoo sample-a", "change Zoo sample-a"]), once.clone()],
            [with_read(&["create Zoo sample-a", "create Zoo sample-b", "delete Zoo sample-b"]), once.clone()],
            [[&in_both[..], &["create Zoo sample-a", "delete Zoo sample-a"]].concat(), in_both.clone()],
            [[&held[..], &once].concat(), once.clone()],
        ],
        "the Secret's name is another's"
    );
    let careful = watched.map(|watched| WatchedKind { may_delete: false, ..watched });
    assert_eq!(generate(&careful, &[], 1).histories.len(), 3, "texts are not replaced");
    let Behaviour::Steps(steps) = &generated.histories[1].way(false).behaviour else { panic!("steps") };
    let texts: Vec<_> = steps[2..]
        .iter()
        .map(|step| match &step.action {
            StepAction::Try(write) => match &write.operation {
                Operation::Create(object) | Operation::MergePatch(object) => object["spec"]["pool"].clone(),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(texts, ["plum", "quince"]);
}

#[test]
fn objects_without_texts_have_no_namesakes_of_their_children() {
    let generated = generate(&[zoo()], &[], 1);
    let titles = history_titles(&generated);
    assert_eq!(titles.len(), 2, "changed at once, and a namesake: {titles:?}");
    let mut own = zoo();
    own.namespaces = vec!["default".to_owned()];
    assert_eq!(history_titles(&generate(&[own], &[], 1)).len(), 1, "only one Namespace is watched");
}
