//! What a step waits for, and one attempt to reach it.

use std::time::Duration;

use pilothouse_controller::{PluginHost, PluginName};
use serde_json::Value;

use super::cluster::{Cluster, Lookup, describe};
use super::object_reference::ObjectReference;
use super::partial_match::differences;
use super::scenario::{EventExpectation, Expectation, Patch, PluginExpectation};
use super::{event, failure_details};
use crate::commands::developer_tools::apply::Manifest;

/// The maximum number of differences or Events that are shown.
const MAX_LINES: usize = 20;

/// What a step waits for.
pub(super) enum Goal<'a> {
    /// The manifest is applied.
    Applied(&'a Manifest),
    /// The object is created.
    Created(&'a Manifest),
    /// The patch is carried out.
    Patched(&'a Patch),
    /// The object with this UID does not exist any more.
    Gone { object: &'a ObjectReference, uid: &'a str },
    /// The object is as expected.
    Object(&'a Expectation),
    /// There is no such object.
    Absent(&'a ObjectReference),
    /// There is such an Event.
    Event(&'a EventExpectation),
    /// The plugin is as expected.
    Plugin(&'a PluginExpectation),
    /// The plugin's log has a line that contains this text.
    Log(&'a str),
}

/// The result of an attempt.
pub(super) enum Attempt {
    Reached,
    /// A later attempt may succeed.
    NotYet(Problem),
    /// No later attempt will succeed.
    Failed(Problem),
}

/// Why a goal was not reached.
pub(super) struct Problem {
    /// One line.
    pub(super) text: String,
    lines: Vec<String>,
    /// The object as it is.
    object: Option<Value>,
}

impl Problem {
    /// Returns a problem that is explained by one line.
    pub(super) fn new(text: String) -> Self {
        Self { text, lines: Vec::new(), object: None }
    }

    fn with_lines(self, mut lines: Vec<String>) -> Self {
        let hidden = lines.len().saturating_sub(MAX_LINES);
        lines.truncate(MAX_LINES);
        if hidden > 0 {
            lines.push(format!("… and {hidden} more"));
        }
        Self { lines, ..self }
    }

    /// Returns the problem with the time that passed.
    pub(super) fn after(mut self, timeout: Duration) -> Self {
        self.text = format!("{} (waited {} s)", self.text, timeout.as_secs_f64());
        self
    }

    /// Returns the lines that explain the problem, among them the object.
    pub(super) fn into_details(self) -> Vec<String> {
        let mut details: Vec<String> = self.lines.into_iter().map(|line| format!("  {line}")).collect();
        if let Some(object) = self.object {
            details.push("the object:".to_owned());
            details.extend(failure_details::of_object(object));
        }
        details
    }
}

impl Goal<'_> {
    /// Tries to reach the goal.
    pub(super) async fn attempt(
        &self,
        cluster: &mut Cluster,
        host: &PluginHost,
        plugin: &PluginName,
    ) -> Attempt {
        match self {
            Self::Applied(manifest) => written(
                &format!("cannot apply {}", manifest.short_name()),
                manifest.try_apply(cluster.client()).await,
            ),
            Self::Created(manifest) => written(
                &format!("cannot create {}", manifest.short_name()),
                manifest.try_create(cluster.client()).await,
            ),
            Self::Patched(patch) => match cluster.patch(patch).await {
                Ok(true) => Attempt::Reached,
                Ok(false) => not_served(&patch.object),
                Err(problem) => Attempt::Failed(Problem::new(problem)),
            },
            Self::Gone { object, uid } => match cluster.get(object).await {
                Ok(Lookup::Found(found)) if found["metadata"]["uid"] == **uid => still_there(found),
                Ok(_) => Attempt::Reached,
                Err(problem) => Attempt::Failed(Problem::new(problem)),
            },
            Self::Absent(object) => match cluster.get(object).await {
                Ok(Lookup::Found(found)) => still_there(found),
                Ok(Lookup::Absent) => Attempt::Reached,
                // The kind may be misspelled, so its absence shows nothing.
                Ok(Lookup::NotServed) => not_served(object),
                Err(problem) => Attempt::Failed(Problem::new(problem)),
            },
            Self::Object(expectation) => match cluster.get(&expectation.object).await {
                Ok(Lookup::Found(found)) => check_object(expectation, found),
                Ok(Lookup::Absent) => Attempt::NotYet(Problem::new("there is no such object".to_owned())),
                Ok(Lookup::NotServed) => not_served(&expectation.object),
                Err(problem) => Attempt::Failed(Problem::new(problem)),
            },
            Self::Event(expectation) => match check_events(expectation, cluster).await {
                Ok(attempt) => attempt,
                Err(problem) => Attempt::Failed(Problem::new(problem)),
            },
            Self::Plugin(expectation) => check_plugin(expectation, host, plugin),
            Self::Log(text) => check_log(text, host, plugin),
        }
    }
}

/// Returns the attempt of a write, given whether the kind is served.
fn written(purpose: &str, result: Result<bool, kube::Error>) -> Attempt {
    match result {
        Ok(true) => Attempt::Reached,
        Ok(false) => {
            Attempt::NotYet(Problem::new(format!("{purpose}: the API server does not serve its kind")))
        }
        Err(error) => Attempt::Failed(Problem::new(format!("{purpose}: {}", describe(&error)))),
    }
}

fn not_served(object: &ObjectReference) -> Attempt {
    Attempt::NotYet(Problem::new(format!("the API server does not serve {}", object.kind)))
}

fn still_there(object: Value) -> Attempt {
    let text = if object["metadata"]["deletionTimestamp"].is_null() {
        "the object exists".to_owned()
    } else {
        format!("the object is being deleted, but has the finalizers {}", object["metadata"]["finalizers"])
    };
    Attempt::NotYet(Problem { object: Some(object), ..Problem::new(text) })
}

fn check_object(expectation: &Expectation, object: Value) -> Attempt {
    let mut found = Vec::new();
    if let Some(fields) = &expectation.fields {
        let fields = Value::Object(fields.clone());
        found.extend(differences(&fields, &object).iter().map(ToString::to_string));
    }
    if let Some(condition) = &expectation.condition {
        found.extend(condition.check(&object).err());
    }
    if found.is_empty() {
        return Attempt::Reached;
    }
    let problem =
        Problem { object: Some(object), ..Problem::new("the object is not as expected".to_owned()) };
    Attempt::NotYet(problem.with_lines(found))
}

async fn check_events(expectation: &EventExpectation, cluster: &mut Cluster) -> Result<Attempt, String> {
    let resource = match &expectation.object {
        Some(object) => cluster.resource(object).await?,
        None => None,
    };
    let events = cluster.events().await?;
    if events.iter().any(|found| event::is_as_expected(expectation, resource.as_ref(), found)) {
        return Ok(Attempt::Reached);
    }
    let lines = events.iter().map(|found| format!("there is: {}", event::line_of(found))).collect();
    let problem = Problem::new(format!("there is no such Event among {}", events.len()));
    Ok(Attempt::NotYet(problem.with_lines(lines)))
}

fn check_plugin(expectation: &PluginExpectation, host: &PluginHost, plugin: &PluginName) -> Attempt {
    let status = host.status().into_iter().find(|status| status.name == plugin.as_str());
    let Some(status) = status else {
        return Attempt::NotYet(Problem::new("the host has not found the plugin".to_owned()));
    };
    let has_state = expectation.state.is_none_or(|state| state == status.state);
    let last_error = status.last_error.as_ref().map_or("", |error| error.message.as_str());
    let has_error = expectation
        .error
        .as_ref()
        .is_none_or(|part| status.error.contains(part.as_str()) || last_error.contains(part.as_str()));
    match (has_state, has_error) {
        (true, true) => Attempt::Reached,
        (false, _) => Attempt::NotYet(Problem::new(format!("the plugin is {}", status.state.as_str()))),
        (true, false) => Attempt::NotYet(Problem::new("the plugin has no such error".to_owned())),
    }
}

fn check_log(text: &str, host: &PluginHost, plugin: &PluginName) -> Attempt {
    let lines = host.logs().after(0, Some(plugin));
    if lines.iter().any(|line| failure_details::log_line(line).contains(text)) {
        return Attempt::Reached;
    }
    Attempt::NotYet(Problem::new(format!("no line of the plugin's log contains {text:?}")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::condition::Condition;
    use super::*;

    fn expectation(fields: &Value, condition: Option<&str>) -> Expectation {
        Expectation {
            object: ObjectReference::parse("Foo/a").expect("a reference"),
            fields: fields.as_object().cloned(),
            condition: condition.map(|text| Box::new(Condition::compile(text).expect(text))),
        }
    }

    #[test]
    fn fields_and_condition_must_both_hold() {
        let object = json!({"spec": {"size": 2}});
        let check = |fields: &Value, condition| check_object(&expectation(fields, condition), object.clone());
        let two = json!({"spec": {"size": 2}});
        assert!(matches!(check(&two, Some("object.spec.size > 1")), Attempt::Reached));
        assert!(matches!(check(&Value::Null, None), Attempt::Reached), "it exists");
        let Attempt::NotYet(problem) = check(&json!({"spec": {"size": 3}}), Some("object.spec.size > 2"))
        else {
            panic!("neither holds")
        };
        let problem = problem.after(Duration::from_millis(1500));
        assert_eq!(problem.text, "the object is not as expected (waited 1.5 s)");
        assert_eq!(
            problem.into_details(),
            [
                "  spec.size: expected 3, but it is 2",
                "  object.spec.size > 2 is false",
                "the object:",
                "  spec:",
                "    size: 2",
            ]
        );
    }

    #[test]
    fn only_some_lines_are_shown() {
        let lines = (0..MAX_LINES + 5).map(|number| number.to_string()).collect();
        let details = Problem::new(String::new()).with_lines(lines).into_details();
        assert_eq!((details.len(), details[MAX_LINES].as_str()), (MAX_LINES + 1, "  … and 5 more"));
    }

    #[test]
    fn an_object_that_waits_for_finalizers_is_explained() {
        let object = json!({"metadata": {"deletionTimestamp": "2030-01-01T00:00:00Z", "finalizers": ["example.com/a"]}});
        let Attempt::NotYet(problem) = still_there(object) else { panic!("it is there") };
        assert!(problem.text.contains("[\"example.com/a\"]"), "{}", problem.text);
    }
}
