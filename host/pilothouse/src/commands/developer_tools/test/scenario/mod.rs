//! Scenarios: what is applied at the start, the steps, and what is expected. Parses the YAML of a scenario file; reads no file itself.

mod document;
mod manifest_reader;

use std::path::{Path, PathBuf};
use std::time::Duration;

use pilothouse_controller::{PluginState, printable};
use serde_json::{Map, Value};

use super::condition::Condition;
use super::object_reference::ObjectReference;
use crate::commands::developer_tools::apply::Manifest;
use document::{StepDocument, check_header, deletion_of, parse_document, parse_timeout};
use manifest_reader::ManifestReader;

/// Limit in bytes for a scenario, and for each file of manifests that it names.
pub(super) const MAX_FILE_SIZE: usize = 1 << 20;
/// How long an expectation may take to hold, unless the scenario or the step has another timeout.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// A scenario.
#[derive(Debug)]
pub(super) struct Scenario {
    pub(super) name: String,
    pub(super) file: PathBuf,
    /// How long the plugin may wait for something before the first step: the scenario's timeout, but at least the default, because the
    /// start takes a while on a busy machine.
    pub(super) start_timeout: Duration,
    /// What is applied before the plugin starts: CRDs first, then Namespaces.
    pub(super) objects: Vec<Manifest>,
    pub(super) steps: Vec<Step>,
}

/// A step, which waits for its effect or for what it expects.
#[derive(Debug)]
pub(super) struct Step {
    /// The line in the scenario's file.
    pub(super) line: u64,
    /// What the step does, in a few words.
    pub(super) title: String,
    pub(super) timeout: Duration,
    pub(super) action: Action,
}

/// What a step does.
#[derive(Debug)]
pub(super) enum Action {
    /// Applies manifests by server-side apply.
    Apply(Vec<Manifest>),
    /// Creates objects, which must not exist.
    Create(Vec<Manifest>),
    /// Changes an object by a merge patch.
    Patch(Patch),
    /// Deletes an object.
    Delete(Deletion),
    /// Expects that an object exists and has some fields.
    Expect(Expectation),
    /// Expects that an object does not exist.
    ExpectAbsent(ObjectReference),
    /// Expects an Event.
    ExpectEvent(EventExpectation),
    /// Expects a state of the plugin.
    ExpectPlugin(PluginExpectation),
    /// Expects a line in the plugin's log that contains this text.
    ExpectLog(String),
}

/// A merge patch.
#[derive(Debug)]
pub(super) struct Patch {
    pub(super) object: ObjectReference,
    /// `status` or `scale`; `None` for the object itself.
    pub(super) subresource: Option<String>,
    pub(super) merge: Map<String, Value>,
}

/// A deletion.
#[derive(Debug)]
pub(super) struct Deletion {
    pub(super) object: ObjectReference,
    /// Whether the step waits until the object is gone.
    pub(super) wait: bool,
}

/// What is expected of an object. Without `fields` and `condition`, it only has to exist.
#[derive(Debug)]
pub(super) struct Expectation {
    pub(super) object: ObjectReference,
    pub(super) fields: Option<Map<String, Value>>,
    pub(super) condition: Option<Box<Condition>>,
}

/// What is expected of an Event. What is absent is not compared.
#[derive(Debug)]
pub(super) struct EventExpectation {
    /// The object that the Event is about.
    pub(super) object: Option<ObjectReference>,
    /// `Normal` or `Warning`.
    pub(super) severity: Option<String>,
    pub(super) reason: Option<String>,
    /// A part of the Event's note.
    pub(super) note: Option<String>,
}

/// What is expected of the plugin. What is absent is not compared.
#[derive(Debug)]
pub(super) struct PluginExpectation {
    pub(super) state: Option<PluginState>,
    /// A part of the plugin's error.
    pub(super) error: Option<String>,
}

impl Scenario {
    /// Whether the steps begin as soon as the plugin's file is there. Otherwise they begin once the plugin runs.
    pub(super) fn starts_without_plugin(&self) -> bool {
        matches!(self.steps.first(), Some(Step { action: Action::ExpectPlugin(_), .. }))
    }

    /// Parses the text of a scenario file. `read` returns the text of another file, which the scenario names.
    ///
    /// # Errors
    /// Errors with one line that names the file, the line in it and what to do.
    pub(super) fn parse(
        file: &Path,
        text: &str,
        read: &dyn Fn(&Path) -> Result<String, String>,
    ) -> Result<Self, String> {
        let located = |problem: String| format!("{}: {problem}", file.display());
        let document = parse_document(text).map_err(located)?;
        check_header(&document).map_err(located)?;
        let timeout = match &document.timeout {
            Some(text) => parse_timeout(text).map_err(located)?,
            None => DEFAULT_TIMEOUT,
        };
        let reader = ManifestReader { file, read };
        let mut objects = Vec::new();
        for entry in document.objects {
            let line = entry.referenced.line();
            objects.extend(reader.manifests(entry.value).map_err(|problem| located(at(line, &problem)))?);
        }
        objects.sort_by_key(Manifest::rank);
        let mut steps = Vec::new();
        for entry in document.steps {
            let line = entry.referenced.line();
            let step = Step::new(entry.value, line, timeout, &reader);
            steps.push(step.map_err(|problem| located(at(line, &problem)))?);
        }
        if steps.is_empty() {
            return Err(located("it has no steps; add a step that expects something".to_owned()));
        }
        let name = document.name.unwrap_or_else(|| stem(file));
        let start_timeout = timeout.max(DEFAULT_TIMEOUT);
        Ok(Self { name, file: file.to_owned(), start_timeout, objects, steps })
    }
}

impl Step {
    fn new(
        document: StepDocument,
        line: u64,
        timeout: Duration,
        reader: &ManifestReader<'_>,
    ) -> Result<Self, String> {
        let timeout = document.timeout.as_deref().map_or(Ok(timeout), parse_timeout)?;
        let mut found = Vec::new();
        let StepDocument {
            timeout: _,
            apply,
            create,
            patch,
            delete,
            expect,
            expect_absent,
            expect_event,
            expect_plugin,
            expect_log,
        } = document;
        if let Some(entry) = apply {
            found.push(manifests_action("apply", reader.manifests(entry)?, Action::Apply));
        }
        if let Some(entry) = create {
            found.push(manifests_action("create", reader.manifests(entry)?, Action::Create));
        }
        if let Some(patch) = patch {
            let patch = patch.validate()?;
            found.push((format!("patch {}", patch.object), Action::Patch(patch)));
        }
        if let Some(deletion) = delete {
            let deletion = deletion_of(deletion)?;
            found.push((format!("delete {}", deletion.object), Action::Delete(deletion)));
        }
        if let Some(expectation) = expect {
            let expectation = expectation.validate()?;
            found.push((format!("expect {}", expectation.object), Action::Expect(expectation)));
        }
        if let Some(object) = expect_absent {
            let object = ObjectReference::parse(&object)?;
            found.push((format!("expectAbsent {object}"), Action::ExpectAbsent(object)));
        }
        if let Some(event) = expect_event {
            let event = event.validate()?;
            found.push(("expectEvent".to_owned(), Action::ExpectEvent(event)));
        }
        if let Some(plugin) = expect_plugin {
            let plugin = plugin.validate()?;
            found.push(("expectPlugin".to_owned(), Action::ExpectPlugin(plugin)));
        }
        if let Some(text) = expect_log {
            found.push(("expectLog".to_owned(), Action::ExpectLog(text)));
        }
        match (found.pop(), found.is_empty()) {
            (Some((title, action)), true) => Ok(Self { line, title, timeout, action }),
            (None, _) => Err("the step does nothing; give it one action, such as apply or expect".to_owned()),
            (Some(_), false) => {
                Err("the step has several actions; make each a step of its own, in their order".to_owned())
            }
        }
    }
}

/// Returns the title and the action of a step that applies or creates manifests.
fn manifests_action(
    verb: &str,
    manifests: Vec<Manifest>,
    action: fn(Vec<Manifest>) -> Action,
) -> (String, Action) {
    let title = match manifests.as_slice() {
        [one] => format!("{verb} {}", one.short_name()),
        several => format!("{verb} {} objects", several.len()),
    };
    (title, action(manifests))
}

fn at(line: u64, problem: &str) -> String {
    format!("line {line}: {}", printable(problem))
}

/// Returns the name of a scenario that has none.
fn stem(file: &Path) -> String {
    file.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "apiVersion: pilothouse.dev/v1alpha1\nkind: Scenario\n";
    const FOO: &str = "{apiVersion: example.com/v1, kind: Foo, metadata: {name: a}}";

    fn parse(text: &str) -> Result<Scenario, String> {
        let read = |path: &Path| match path.to_str() {
            Some("scenarios/../manifests/foo.yaml") => Ok(format!("{FOO}\n---\n{FOO}\n")),
            Some("scenarios/empty.yaml") => Ok("# nothing\n".to_owned()),
            _ => Err("no such file".to_owned()),
        };
        Scenario::parse(Path::new("scenarios/first.yaml"), text, &read)
    }

    #[test]
    fn all_actions_are_parsed_in_their_order() {
        let scenario = parse(&format!(
            "{HEADER}timeout: 3s\nobjects:\n- {FOO}\n- {{apiVersion: v1, kind: Namespace, metadata: {{name: shop}}}}\nsteps:\n\
             - apply: {FOO}\n- create: {{file: ../manifests/foo.yaml}}\n\
             - patch: {{object: Foo/a, subresource: status, merge: {{status: {{ready: null}}}}}}\n- delete: Foo/shop/a\n\
             - delete: {{object: Foo/a, wait: false}}\n  timeout: 500ms\n\
             - expect: {{object: Foo/a, match: {{spec: {{size: 1}}}}, cel: object.spec.size == 1}}\n- expectAbsent: Foo/a\n\
             - expectEvent: {{object: Foo/a, type: Normal, reason: Synced, note: ok}}\n\
             - expectPlugin: {{state: backing-off, error: denied}}\n- expectLog: hello\n"
        ))
        .expect("valid");
        assert_eq!((scenario.name.as_str(), scenario.start_timeout), ("first", DEFAULT_TIMEOUT));
        let objects: Vec<_> = scenario.objects.iter().map(Manifest::short_name).collect();
        assert_eq!(objects, ["Namespace/shop", "Foo/a"], "what others need comes first");
        let steps: Vec<_> = scenario.steps.iter().map(|step| (step.line, step.title.as_str())).collect();
        assert_eq!(
            steps,
            [
                (8, "apply Foo/a"),
                (9, "create 2 objects"),
                (10, "patch Foo/a"),
                (11, "delete Foo/shop/a"),
                (12, "delete Foo/a"),
                (14, "expect Foo/a"),
                (15, "expectAbsent Foo/a"),
                (16, "expectEvent"),
                (17, "expectPlugin"),
                (18, "expectLog"),
            ]
        );
        let timeouts: Vec<_> = scenario.steps.iter().map(|step| step.timeout.as_millis()).collect();
        assert_eq!((timeouts[3], timeouts[4]), (3000, 500));
        let waits: Vec<_> = scenario
            .steps
            .iter()
            .filter_map(|step| match &step.action {
                Action::Delete(deletion) => Some(deletion.wait),
                _ => None,
            })
            .collect();
        assert_eq!(waits, [true, false]);
        assert!(!scenario.starts_without_plugin());
    }

    #[test]
    fn each_error_is_one_line_with_file_line_and_remedy() {
        let step = |step: &str| format!("{HEADER}steps:\n- {step}\n");
        for (text, expected) in [
            (
                format!("{HEADER}actors: []\n"),
                "unknown field `actors`, expected one of apiVersion, kind, name",
            ),
            (format!("{HEADER}actors: []\n"), "line 3"),
            (
                step("exepct: {}"),
                "expected one of timeout, apply, create, patch, delete, expect, expectAbsent",
            ),
            (step("expect: {objekt: Foo/a}"), "line 4"),
            (step("expect: {object: Foo}"), "line 4: \"Foo\" is not the name of an object"),
            (step("expect: {object: Foo/a, cel: foo.spec}"), "line 4: expect.cel: unknown variable \"foo\""),
            (step("expectLog: a\n  expectAbsent: Foo/a"), "line 4: the step has several actions"),
            (step("timeout: 1s"), "line 4: the step does nothing"),
            (step("expectLog: a\n  timeout: soon"), "line 4: timeout: \"soon\" is not a duration"),
            (step("expectLog: a\n  timeout: 61m"), "at most an hour"),
            (step("apply: {kind: Foo}"), "line 4: a document has no apiVersion"),
            (step("apply: {file: absent.yaml}"), "line 4: file scenarios/absent.yaml: no such file"),
            (step("apply: {file: empty.yaml}"), "it has no manifest"),
            (step("delete: {object: Foo/a, now: true}"), "unknown field `now`"),
            (step("expectEvent: {type: Odd}"), "neither Normal nor Warning"),
            (step("expectEvent: {}"), "expectEvent selects every Event"),
            (step("expectPlugin: {}"), "give a state"),
            (step("expectPlugin: {state: working}"), "line 4"),
            (step("patch: {object: Foo/a, subresource: logs, merge: {}}"), "neither status nor scale"),
            (HEADER.to_owned(), "it has no steps"),
            (
                HEADER.replace("Scenario", "Simulation"),
                "`pilothouse sim --scenario`, or write kind: Scenario",
            ),
            (
                format!("{}actors: []\n", HEADER.replace("Scenario", "Simulation")),
                "`pilothouse sim --scenario`, or write kind: Scenario",
            ),
            (
                HEADER.replace("Scenario", "Test"),
                "write apiVersion: pilothouse.dev/v1alpha1 and kind: Scenario",
            ),
            (
                step("expect: {object: Foo/a, cel: object.items.size()}"),
                "line 4: expect.cel: the condition \"object.items.size()\": it is of the type int, not bool",
            ),
            (format!("{HEADER}name: ''\nsteps: [{{expectLog: a}}]\n"), "the name \"\""),
            (String::new(), "scenarios/first.yaml: "),
            ("- a list".to_owned(), "line 1"),
        ] {
            let error = parse(&text).expect_err(&text);
            assert!(
                error.starts_with("scenarios/first.yaml: ") && error.contains(expected),
                "{text}: {error}"
            );
            assert!(!error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn a_scenario_about_a_plugin_that_does_not_run_begins_at_once() {
        let scenario =
            parse(&format!("{HEADER}steps: [{{expectPlugin: {{state: failed}}}}]\n")).expect("valid");
        assert!(scenario.starts_without_plugin());
    }
}
