//! A scenario as it is written in YAML: its members, and the parser with its bounds.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use serde_saphyr::Spanned;

use super::text::quoted;

/// Limit in bytes for a scenario, and for each file that it names.
pub const MAX_FILE_SIZE: usize = 1 << 20;
/// The version of the format.
pub const API_VERSION: &str = "pilothouse.dev/v1alpha1";
/// The kind of a scenario of `pilothouse sim`.
pub const KIND: &str = "Simulation";
/// The kind of the scenario files of `pilothouse test`.
const OTHER_KIND: &str = "Scenario";
const MAX_NAME_CHARS: usize = 100;

/// A scenario as it is written.
#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Document {
    /// `pilothouse.dev/v1alpha1`.
    pub(super) api_version: String,
    /// `Simulation`.
    pub(super) kind: String,
    /// The scenario's name; by default that of the file without its extension.
    pub(super) name: Option<String>,
    /// The plugins: a file, relative to the scenario, or `{file: PATH, sidecar: {…}}`. The command line takes precedence.
    #[serde(default)]
    #[cfg_attr(test, schemars(with = "Vec<Value>"))]
    pub(super) plugins: Vec<Spanned<Value>>,
    /// CRDs: a file, relative to the scenario, or a manifest. Those that a plugin brings need not be listed.
    #[serde(default)]
    #[cfg_attr(test, schemars(with = "Vec<Value>"))]
    pub(super) crds: Vec<Spanned<Value>>,
    /// Manifests that exist before the plugin starts, or `{file: PATH}`.
    #[serde(default)]
    #[cfg_attr(test, schemars(with = "Vec<Value>"))]
    pub(super) objects: Vec<Spanned<Value>>,
    /// Users and stand-ins for other controllers.
    #[serde(default)]
    #[cfg_attr(test, schemars(with = "Vec<ActorDocument>"))]
    pub(super) actors: Vec<Spanned<ActorDocument>>,
    /// Upper bounds of the faults in one run; if absent, all faults are allowed.
    #[cfg_attr(test, schemars(with = "Option<FaultsDocument>"))]
    pub(super) faults: Option<Spanned<FaultsDocument>>,
    /// What must hold.
    #[serde(default)]
    #[cfg_attr(test, schemars(with = "Vec<InvariantDocument>"))]
    pub(super) invariants: Vec<Spanned<InvariantDocument>>,
    /// Built-in oracles that are switched off, by name.
    #[serde(default)]
    #[cfg_attr(test, schemars(with = "BTreeMap<String, OracleDocument>"))]
    pub(super) oracles: BTreeMap<String, Spanned<OracleDocument>>,
    /// HTTP services that the plugin can call.
    #[serde(default)]
    #[cfg_attr(test, schemars(with = "Vec<HttpDocument>"))]
    pub(super) http: Vec<Spanned<HttpDocument>>,
    /// The built-in controllers that run, by name; by default those that a cluster without nodes needs.
    #[cfg_attr(test, schemars(with = "Option<Vec<String>>"))]
    pub(super) controllers: Option<Spanned<Vec<String>>>,
    /// `on` (default), or `none` to switch the host's guarantees off that hide some bugs.
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub(super) guarantees: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct PluginDocument {
    pub(super) file: String,
    pub(super) sidecar: Option<Map<String, Value>>,
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ActorDocument {
    /// The actor's name, unique in the scenario.
    pub(super) name: String,
    /// Steps in their order. The simulator chooses when each is taken; by default at the next rest.
    #[cfg_attr(test, schemars(with = "Option<Vec<StepDocument>>"))]
    pub(super) steps: Option<Vec<Spanned<StepDocument>>>,
    /// The objects for each of which the actor does something, in place of steps.
    pub(super) for_each: Option<ForEachDocument>,
    /// How long the actor waits until it acts: `5s`, or a range such as `2s..30s`; 0 by default.
    pub(super) after: Option<String>,
    /// A template of an object, which is created if it is absent.
    pub(super) ensure: Option<Value>,
    /// A template of an object, which is applied whenever the server's object differs from it.
    pub(super) apply: Option<Value>,
    /// A template of a merge patch for the object itself.
    pub(super) patch: Option<Value>,
    /// A template of the members of `status` that the object gets.
    pub(super) patch_status: Option<Value>,
    /// `true`, or `{propagation: Background}`: deletes the object itself.
    pub(super) delete: Option<Value>,
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ForEachDocument {
    /// `Kind`, or `Kind.group`.
    pub(super) kind: String,
    /// The namespace; all by default.
    pub(super) namespace: Option<String>,
    /// A CEL condition with the variables `object`, `name`, `namespace`, `uid` and `now`.
    pub(super) when: Option<String>,
    /// A CEL expression: how many times the actor acts for an object. The variable `index` counts from 0.
    pub(super) count: Option<String>,
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct StepDocument {
    /// A manifest, or `{file: PATH}`: creates objects.
    pub(super) create: Option<Value>,
    /// A manifest, or `{file: PATH}`: applies objects by server-side apply.
    pub(super) apply: Option<Value>,
    /// Changes an object by a merge patch.
    pub(super) patch: Option<PatchDocument>,
    /// `KIND/NAME`, or `{object: KIND/NAME, propagation: Foreground}`.
    pub(super) delete: Option<Value>,
    /// A CEL condition; the next steps wait until it holds.
    pub(super) wait: Option<String>,
    /// A duration of virtual time. The step after it does not wait for a rest.
    pub(super) sleep: Option<String>,
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct PatchDocument {
    pub(super) object: String,
    /// `status` or `scale`; the object itself by default.
    pub(super) subresource: Option<String>,
    pub(super) merge: Map<String, Value>,
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct DeletionDocument {
    pub(super) object: Option<String>,
    /// `Background`, `Foreground` or `Orphan`.
    pub(super) propagation: Option<String>,
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct FaultsDocument {
    /// Ends of the host's process beside a write.
    pub(super) crash: Option<u32>,
    /// Restarts of the host at other moments.
    pub(super) restart: Option<u32>,
    /// How many changes the first list after a restart may lack, per kind; 0 for current lists, any number by default.
    pub(super) past: Option<u32>,
    /// Watches that end and list again.
    pub(super) relist: Option<u32>,
    /// Writes of another client just before a request.
    pub(super) conflict: Option<u32>,
    /// Requests that are carried out and whose answer is lost.
    pub(super) unknown: Option<u32>,
    /// Reloads of the plugin.
    pub(super) reload: Option<u32>,
    /// Watches that deliver late.
    pub(super) stale: Option<DelayDocument>,
    /// Requests that take long.
    pub(super) delay: Option<DelayDocument>,
    /// Times at which the built-in controllers do nothing.
    pub(super) controllers: Option<DelayDocument>,
    /// Requests that are refused.
    pub(super) errors: Option<ErrorsDocument>,
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct DelayDocument {
    /// The longest delay.
    pub(super) max: String,
    /// How many; 1 by default.
    pub(super) count: Option<u32>,
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ErrorsDocument {
    /// HTTP statuses: 429, or 500 to 599.
    pub(super) codes: Vec<u16>,
    /// How many; 1 by default.
    pub(super) max: Option<u32>,
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct InvariantDocument {
    /// What a finding is called.
    pub(super) name: String,
    /// A CEL condition that holds after every change.
    pub(super) always: Option<String>,
    /// A CEL condition that holds when nothing is left to do.
    pub(super) at_rest: Option<String>,
    /// With `atRest`: `last` (default) for the rest at the end, or `each`.
    pub(super) rests: Option<String>,
    /// With `atRest`: how much virtual time may pass after the last step and fault.
    pub(super) within: Option<String>,
    /// Selects writes, for each of which `expect` must hold.
    pub(super) on_write: Option<WriteSelectorDocument>,
    /// With `onWrite`: a CEL condition with the variables `before`, `after` and `write`.
    pub(super) expect: Option<String>,
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct WriteSelectorDocument {
    /// `create`, `update`, `patch` or `delete`, or a list of these; all by default.
    pub(super) verb: Option<Value>,
    /// `Kind`, or `Kind.group`; all by default.
    pub(super) kind: Option<String>,
    /// `status`, for example; all by default, and "" for the object itself.
    pub(super) subresource: Option<String>,
    /// `plugin`, `actor`, `controller`, or the name of a plugin or an actor; all by default.
    pub(super) by: Option<String>,
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct OracleDocument {
    /// Why the oracle is switched off.
    pub(super) off: String,
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct HttpDocument {
    /// The service's name, unique in the scenario. Invariants read its state as `http.NAME`.
    pub(super) name: String,
    /// The host in the plugin's URLs, without the port.
    pub(super) host: String,
    /// The state at the start.
    #[serde(default)]
    pub(super) state: Map<String, Value>,
    /// The first route that matches a request answers it.
    #[cfg_attr(test, schemars(with = "Vec<RouteDocument>"))]
    pub(super) routes: Vec<Spanned<RouteDocument>>,
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RouteDocument {
    /// The method in upper case.
    pub(super) method: String,
    /// The path without the query; `{NAME}` stands for one segment.
    pub(super) path: String,
    /// A CEL condition.
    pub(super) when: Option<String>,
    /// How old the state is that the route reads; 0 by default.
    pub(super) lag: Option<String>,
    /// A template of the members of the state that the request changes, applied as a merge patch.
    pub(super) set: Option<Map<String, Value>>,
    /// The HTTP status; 200 by default.
    pub(super) status: Option<u16>,
    /// A template of the body: a text is sent as it is, another value as JSON; empty by default.
    pub(super) body: Option<Value>,
}

/// Parses YAML within bounds.
///
/// # Errors
/// Errors with one line, which names the line of the text and suggests a name for an unknown field.
pub(super) fn parse_yaml<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    if text.len() > MAX_FILE_SIZE {
        return Err(format!("it has {} bytes, and {MAX_FILE_SIZE} are allowed; split it", text.len()));
    }
    pilothouse_yaml::from_str(text)
}

/// Parses the YAML documents of a file within bounds.
///
/// # Errors
/// Errors with one line, which names the line of the text.
pub(super) fn parse_yaml_documents<T: DeserializeOwned>(text: &str) -> Result<Vec<T>, String> {
    if text.len() > MAX_FILE_SIZE {
        return Err(format!("it has {} bytes, and {MAX_FILE_SIZE} are allowed; split it", text.len()));
    }
    pilothouse_yaml::from_multiple(text)
}

/// Parses a scenario file and checks its header.
///
/// # Errors
/// Errors with one line. For a scenario of `pilothouse test`, it names that command, whatever else the file has.
pub(super) fn parse_document(text: &str) -> Result<Document, String> {
    /// The member that tells the files of `sim` and `test` apart.
    #[derive(Deserialize)]
    struct Header {
        kind: String,
    }
    let document = parse_yaml(text).map_err(|problem| match parse_yaml::<Header>(text) {
        Ok(Header { kind }) if kind == OTHER_KIND => other_command(),
        _ => problem,
    })?;
    check_header(&document)?;
    Ok(document)
}

fn other_command() -> String {
    format!(
        "it is a {OTHER_KIND}, which `pilothouse test` runs; name it with `pilothouse test --scenario`, or write kind: {KIND}"
    )
}

/// Checks the header and the name.
///
/// # Errors
/// Errors with one line if the file has another kind.
fn check_header(document: &Document) -> Result<(), String> {
    if document.kind == OTHER_KIND {
        return Err(other_command());
    }
    if document.api_version != API_VERSION || document.kind != KIND {
        return Err(format!(
            "apiVersion {} and kind {} are unknown; write apiVersion: {API_VERSION} and kind: {KIND}",
            quoted(&document.api_version),
            quoted(&document.kind)
        ));
    }
    document.name.as_deref().map_or(Ok(()), |name| check_name("the name", name))
}

/// Checks a name that is printed in findings.
///
/// # Errors
/// Errors with one line if the name is empty, too long, or more than one line.
pub(super) fn check_name(what: &str, name: &str) -> Result<(), String> {
    if name.is_empty() || name.chars().count() > MAX_NAME_CHARS || name.chars().any(char::is_control) {
        return Err(format!(
            "{what} {} is not one line of at most {MAX_NAME_CHARS} characters",
            quoted(name)
        ));
    }
    Ok(())
}

/// Checks how many entries a list has.
///
/// # Errors
/// Errors with one line if there are too many.
pub(super) fn check_count(what: &str, count: usize, limit: usize) -> Result<(), String> {
    if count > limit {
        return Err(format!("there are {count} {what}, and {limit} are allowed; leave some out"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With `PILOTHOUSE_UPDATE_SCHEMA=1`, the schema is written instead of compared.
    #[test]
    fn the_published_schema_of_simulations_matches_the_types() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/simulation.schema.json");
        let mut schema = schemars::schema_for!(Document).to_value();
        schema["title"] = "Pilothouse simulation (pilothouse.dev/v1alpha1)".into();
        let text = format!("{schema:#}\n");
        if std::env::var_os("PILOTHOUSE_UPDATE_SCHEMA").is_some() {
            std::fs::write(path, &text).expect("written");
        }
        let published = std::fs::read_to_string(path).expect("docs/simulation.schema.json");
        assert!(
            published == text,
            "docs/simulation.schema.json is not up to date: run PILOTHOUSE_UPDATE_SCHEMA=1 cargo test -p pilothouse-sim schema"
        );
    }

    #[test]
    fn a_scenario_of_the_other_command_names_that_command() {
        for rest in ["", "steps: [{apply: {}}]\n"] {
            let text = format!("apiVersion: {API_VERSION}\nkind: Scenario\n{rest}");
            let problem = parse_document(&text).err().expect("another kind");
            assert!(problem.contains("`pilothouse test --scenario`"), "{problem}");
        }
        let problem = parse_document("apiVersion: v1\nkind: Pod\n").err().expect("another kind");
        assert!(
            problem.contains("write apiVersion: pilothouse.dev/v1alpha1 and kind: Simulation"),
            "{problem}"
        );
    }

    #[test]
    fn yaml_has_bounds() {
        assert!(parse_yaml::<Value>(&"[".repeat(100)).is_err());
        let error = parse_yaml::<Value>(&"#".repeat(MAX_FILE_SIZE + 1)).expect_err("too long");
        assert!(error.contains("split it"), "{error}");
    }
}
