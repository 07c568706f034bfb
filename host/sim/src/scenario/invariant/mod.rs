//! Invariants of a scenario: CEL conditions over the objects of the server in the course of a run.

mod judge;
mod store;

use std::sync::Arc;

use pilothouse_model::ResourceType;
use serde_json::Value;

pub use judge::{InvariantResult, Judgement, judge};

use super::document::{InvariantDocument, WriteSelectorDocument, check_name};
use super::kinds::Kinds;
use super::program::Program;
use super::text::{duration_ms, quoted};

const VERBS: [&str; 5] = ["create", "update", "patch", "delete", "deletecollection"];

/// A condition that must hold.
#[derive(Debug)]
pub struct Invariant {
    /// What a finding is called.
    pub name: String,
    /// The line in the scenario's file.
    pub line: u64,
    /// When the condition must hold.
    pub form: InvariantForm,
    /// The condition.
    pub condition: Program,
}

/// When a condition must hold.
#[derive(Debug)]
pub enum InvariantForm {
    /// After every change of the objects that it reads.
    Always,
    /// When nothing is left to do.
    AtRest {
        /// Whether it must hold at each rest, not only at the last.
        each: bool,
        /// How much virtual time in milliseconds may pass after the last step and fault.
        within_ms: Option<u64>,
    },
    /// After each write that the selector matches.
    OnWrite(WriteSelector),
}

/// Selects writes. What is absent matches all.
#[derive(Debug, Default)]
pub struct WriteSelector {
    /// The verbs; empty for all.
    pub verbs: Vec<String>,
    /// The resource.
    pub resource: Option<ResourceType>,
    /// The subresource, "" for the object itself.
    pub subresource: Option<String>,
    /// Who writes.
    pub by: Option<By>,
}

/// Who writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum By {
    /// Any plugin.
    Plugin,
    /// Any actor.
    Actor,
    /// The server's built-in controllers.
    Controller,
    /// The plugin or actor of this name.
    Name(String),
}

impl Invariant {
    /// Validates an invariant. `authors` are the names of the actors.
    ///
    /// # Errors
    /// Errors with one line.
    pub(super) fn new(
        document: InvariantDocument,
        line: u64,
        has_http: bool,
        kinds: &Arc<Kinds>,
    ) -> Result<Self, String> {
        let InvariantDocument { name, always, at_rest, rests, within, on_write, expect } = document;
        check_name("the name", &name)?;
        let mut variables = vec!["now"];
        if has_http {
            variables.push("http");
        }
        if at_rest.is_none() && (rests.is_some() || within.is_some()) {
            return Err("rests and within belong to atRest; add it, or remove them".to_owned());
        }
        if on_write.is_some() != expect.is_some() {
            return Err("onWrite and expect belong together; add the other one".to_owned());
        }
        let (form, text) = match (always, at_rest, on_write, expect) {
            (Some(text), None, None, None) => (InvariantForm::Always, text),
            (None, Some(text), None, None) => {
                let each = match rests.as_deref() {
                    None | Some("last") => false,
                    Some("each") => true,
                    Some(other) => return Err(format!("rests: {} is neither last nor each", quoted(other))),
                };
                let within_ms = within
                    .as_deref()
                    .map(|text| duration_ms(text).map_err(|problem| format!("within: {problem}")))
                    .transpose()?;
                (InvariantForm::AtRest { each, within_ms }, text)
            }
            (None, None, Some(selector), Some(text)) => {
                variables.extend(["before", "after", "write"]);
                (InvariantForm::OnWrite(WriteSelector::new(selector, kinds)?), text)
            }
            _ => return Err("it needs exactly one of always, atRest, and onWrite with expect; make the others invariants of their own".to_owned()),
        };
        let condition = Program::compile_condition(&text, &variables, kinds)?;
        Ok(Self { name, line, form, condition })
    }
}

impl WriteSelector {
    fn new(document: WriteSelectorDocument, kinds: &Kinds) -> Result<Self, String> {
        let verbs = match document.verb {
            None => Vec::new(),
            Some(Value::String(verb)) => vec![verb],
            Some(Value::Array(verbs)) if verbs.len() <= VERBS.len() => {
                let text = |verb: &Value| verb.as_str().map(str::to_owned);
                verbs.iter().map(text).collect::<Option<_>>().ok_or("onWrite.verb: write verbs as texts")?
            }
            Some(_) => return Err("onWrite.verb: write a verb such as delete, or a list of verbs".to_owned()),
        };
        if let Some(verb) = verbs.iter().find(|verb| !VERBS.contains(&verb.as_str())) {
            return Err(format!("onWrite.verb: {} is none of {}", quoted(verb), VERBS.join(", ")));
        }
        let resource = document.kind.map(|kind| kinds.resolve(&kind).map(|info| info.resource.clone()));
        let by = document.by.map(|by| match by.as_str() {
            "plugin" => By::Plugin,
            "actor" => By::Actor,
            "controller" => By::Controller,
            _ => By::Name(by),
        });
        Ok(Self { verbs, resource: resource.transpose()?, subresource: document.subresource, by })
    }
}

#[cfg(test)]
mod tests;
