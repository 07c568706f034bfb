//! Scenarios: what is applied at the start, the steps, and what is expected. Parses the YAML of a scenario file; reads no file itself.

use std::path::{Path, PathBuf};
use std::time::Duration;

use pilothouse_controller::{PluginState, printable};
use serde::Deserialize;
use serde_json::{Map, Value};
use serde_saphyr::Spanned;

use super::condition::Condition;
use super::object_reference::ObjectReference;
use crate::commands::developer_tools::apply::{self, Manifest};

/// Limit in bytes for a scenario, and for each file of manifests that it names.
pub(super) const MAX_FILE_SIZE: usize = 1 << 20;
const API_VERSION: &str = "pilothouse.dev/v1alpha1";
const KIND: &str = "Scenario";
/// How long an expectation may take to hold, unless the scenario or the step has another timeout.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_TIMEOUT: Duration = Duration::from_secs(3600);
const MAX_NAME_CHARS: usize = 100;
/// The member by which an entry names a file with manifests, relative to the scenario's folder.
const FILE: &str = "file";

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

/// A scenario as it is written.
#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Document {
    /// `pilothouse.dev/v1alpha1`.
    api_version: String,
    /// `Scenario`.
    kind: String,
    /// The scenario's name; by default that of the file without its extension.
    name: Option<String>,
    /// How long each step may take, such as `500ms`, `30s` or `2m`; 10 s by default.
    timeout: Option<String>,
    /// Manifests that are applied before the plugin starts, or `{file: PATH}`.
    #[serde(default)]
    #[cfg_attr(test, schemars(with = "Vec<Value>"))]
    objects: Vec<Spanned<Value>>,
    /// What is done and expected, in this order.
    #[serde(default)]
    #[cfg_attr(test, schemars(with = "Vec<StepDocument>"))]
    steps: Vec<Spanned<StepDocument>>,
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct StepDocument {
    /// How long the step may take, in place of the scenario's `timeout`.
    timeout: Option<String>,
    /// A manifest that is applied by server-side apply, or `{file: PATH}`.
    apply: Option<Value>,
    /// A manifest of an object that must not exist, or `{file: PATH}`.
    create: Option<Value>,
    /// Changes an object by a merge patch.
    patch: Option<PatchDocument>,
    /// A reference, or an object with the members of [`DeletionDocument`].
    delete: Option<Value>,
    /// Waits until an object exists and is as described.
    expect: Option<ExpectationDocument>,
    /// Waits until there is no such object.
    expect_absent: Option<String>,
    /// Waits until there is such an Event.
    expect_event: Option<EventDocument>,
    /// Waits until the plugin has this state or error.
    expect_plugin: Option<PluginDocument>,
    /// Waits until a line of the plugin's log contains this text.
    expect_log: Option<String>,
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PatchDocument {
    object: String,
    subresource: Option<String>,
    merge: Map<String, Value>,
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct DeletionDocument {
    object: String,
    wait: Option<bool>,
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ExpectationDocument {
    object: String,
    #[serde(rename = "match")]
    fields: Option<Map<String, Value>>,
    cel: Option<String>,
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct EventDocument {
    object: Option<String>,
    #[serde(rename = "type")]
    severity: Option<String>,
    reason: Option<String>,
    note: Option<String>,
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PluginDocument {
    state: Option<PluginState>,
    error: Option<String>,
}

impl PatchDocument {
    fn validate(self) -> Result<Patch, String> {
        let is_known = |name: &str| matches!(name, "status" | "scale");
        if let Some(name) = self.subresource.as_deref().filter(|name| !is_known(name)) {
            return Err(format!("patch.subresource: {name:?} is neither status nor scale"));
        }
        let object = ObjectReference::parse(&self.object)?;
        Ok(Patch { object, subresource: self.subresource, merge: self.merge })
    }
}

impl ExpectationDocument {
    fn validate(self) -> Result<Expectation, String> {
        let condition = match self.cel {
            Some(text) => {
                let condition =
                    Condition::compile(&text).map_err(|problem| format!("expect.cel: {problem}"))?;
                Some(Box::new(condition))
            }
            None => None,
        };
        Ok(Expectation { object: ObjectReference::parse(&self.object)?, fields: self.fields, condition })
    }
}

impl EventDocument {
    fn validate(self) -> Result<EventExpectation, String> {
        if let Some(severity) = self.severity.as_deref().filter(|text| !matches!(*text, "Normal" | "Warning"))
        {
            return Err(format!("expectEvent.type: {severity:?} is neither Normal nor Warning"));
        }
        let object = self.object.as_deref().map(ObjectReference::parse).transpose()?;
        Ok(EventExpectation { object, severity: self.severity, reason: self.reason, note: self.note })
    }
}

impl PluginDocument {
    fn validate(self) -> Result<PluginExpectation, String> {
        if self.state.is_none() && self.error.is_none() {
            return Err("expectPlugin: give a state, an error, or both".to_owned());
        }
        Ok(PluginExpectation { state: self.state, error: self.error })
    }
}

/// Parses `KIND/NAME`, or an object that may say not to wait.
fn deletion_of(value: Value) -> Result<Deletion, String> {
    let document = match value {
        Value::String(object) => DeletionDocument { object, wait: None },
        value => serde_json::from_value(value)
            .map_err(|error| format!("delete: {error}; write KIND/NAME, or object and wait"))?,
    };
    Ok(Deletion { object: ObjectReference::parse(&document.object)?, wait: document.wait.unwrap_or(true) })
}

/// Parses the YAML within bounds.
fn parse_document(text: &str) -> Result<Document, String> {
    if text.len() > MAX_FILE_SIZE {
        return Err(format!("it has {} bytes, and a scenario may have {MAX_FILE_SIZE}", text.len()));
    }
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: 64,
            max_nodes: 50_000,
            max_aliases: 1000,
            max_anchors: 1000,
            max_documents: 1,
            max_total_scalar_bytes: 4 << 20,
        },
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let text = error.to_string();
        // The parser shows the place in the lines below the first, which also names the line.
        let line = text.lines().next().unwrap_or_default();
        printable(line.strip_prefix("error: ").unwrap_or(line)).to_string()
    })
}

fn check_header(document: &Document) -> Result<(), String> {
    if document.api_version != API_VERSION || document.kind != KIND {
        return Err(format!(
            "apiVersion {:?} and kind {:?} are unknown; write apiVersion: {API_VERSION} and kind: {KIND}",
            document.api_version, document.kind
        ));
    }
    match &document.name {
        Some(name) if name.is_empty() || name.chars().count() > MAX_NAME_CHARS || name.contains('\n') => {
            Err(format!("the name {name:?} is not one line of at most {MAX_NAME_CHARS} characters"))
        }
        _ => Ok(()),
    }
}

/// Parses a number with the unit `ms`, `s` or `m`.
fn parse_timeout(text: &str) -> Result<Duration, String> {
    let digits = text.find(|char: char| !char.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = match unit {
        "ms" => Some(1),
        "s" => Some(1000),
        "m" => Some(60_000),
        _ => None,
    };
    let milliseconds = factor.and_then(|factor| number.parse::<u64>().ok()?.checked_mul(factor));
    let timeout = milliseconds.map(Duration::from_millis).filter(|timeout| *timeout <= MAX_TIMEOUT);
    timeout.ok_or_else(|| {
        format!("timeout: {text:?} is not a duration of at most an hour, such as 500ms, 30s or 2m")
    })
}

/// Reads manifests that a scenario contains or names.
struct ManifestReader<'a> {
    /// The scenario's file.
    file: &'a Path,
    read: &'a dyn Fn(&Path) -> Result<String, String>,
}

impl ManifestReader<'_> {
    /// Returns the manifest itself, or those in the file that the entry names.
    fn manifests(&self, entry: Value) -> Result<Vec<Manifest>, String> {
        let name = match &entry {
            Value::Object(members) if members.len() == 1 => members.get(FILE).and_then(Value::as_str),
            _ => None,
        };
        let Some(name) = name else { return Ok(vec![Manifest::new(self.file, entry)?]) };
        let path = self.file.parent().unwrap_or(Path::new("")).join(name);
        let located = |problem: String| format!("file {}: {problem}", path.display());
        let text = (self.read)(&path).map_err(located)?;
        let mut manifests = apply::parse(&path, &text).map_err(located)?;
        if manifests.is_empty() {
            return Err(located("it has no manifest".to_owned()));
        }
        manifests.sort_by_key(Manifest::rank);
        Ok(manifests)
    }
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
    fn the_published_schema_of_scenarios_matches_the_types() {
        crate::published_schema::assert_matches::<Document>(
            "scenario.schema.json",
            "Pilothouse scenario (pilothouse.dev/v1alpha1)",
        );
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
            (step("expectPlugin: {}"), "give a state"),
            (step("expectPlugin: {state: working}"), "line 4"),
            (step("patch: {object: Foo/a, subresource: logs, merge: {}}"), "neither status nor scale"),
            (HEADER.to_owned(), "it has no steps"),
            (
                HEADER.replace("Scenario", "Simulation"),
                "write apiVersion: pilothouse.dev/v1alpha1 and kind: Scenario",
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
