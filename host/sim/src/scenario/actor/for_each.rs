//! An actor that does something for each object of a kind.

use std::collections::BTreeMap;

use pilothouse_cel::Value as CelValue;
use serde_json::Value;

use super::super::manifest::Manifest;
use super::super::merge::{contains, merged};
use super::super::program::{ValueCache, ViewValues, now_value};
use super::{Effect, ForEach, MAX_ATTEMPTS, mix, retry_interval};
use crate::actor::{ActorPoll, ActorWrite, ObjectView, Operation, PollMoment, WriteOutcome};

/// The most writes of an actor in one run. One that needs more fights the plugin.
const MAX_WRITES: u32 = 1000;
/// The most times that an effect is wanted for one object.
const MAX_COUNT: i64 = 100;
/// How often conditions that depend on the time are evaluated, in virtual milliseconds.
const CLOCK_INTERVAL_MS: u64 = 1000;

/// An object, by namespace and name, and the index of the effect among those that are wanted for it, from 0.
type Key = (String, String, i64);

/// What the actor knows of an object that needs its effect.
#[derive(Debug, Default)]
struct Pending {
    due: u64,
    attempts: u32,
}

/// A write that the world carries out.
#[derive(Debug)]
struct InFlightWrite {
    key: Key,
    write: ActorWrite,
    /// The version of the object that it changes. The same write is not repeated while the object has this version.
    version: Value,
}

/// Which objects need the actor's effect, and since when.
#[derive(Debug)]
pub(super) struct ForEachState {
    seed: u64,
    pending: BTreeMap<Key, Pending>,
    /// The last write for each key.
    last: BTreeMap<Key, (ActorWrite, Value)>,
    in_flight: Option<InFlightWrite>,
    writes: u32,
    hurried: u32,
    /// The revision that was evaluated last, and what the actor waits for since then.
    evaluated: Option<(u64, Option<u64>)>,
    failure: Option<String>,
    cache: ValueCache,
}

impl ForEachState {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            seed,
            pending: BTreeMap::new(),
            last: BTreeMap::new(),
            in_flight: None,
            writes: 0,
            hurried: 0,
            evaluated: None,
            failure: None,
            cache: ValueCache::default(),
        }
    }

    pub(super) fn poll(
        &mut self,
        for_each: &ForEach,
        view: &dyn ObjectView,
        moment: PollMoment,
    ) -> ActorPoll {
        if let Some(failure) = &self.failure {
            return ActorPoll::Failed(failure.clone());
        }
        let revision = view.revision();
        if let Some((known, until)) = self.evaluated
            && known == revision
            && self.hurried == 0
            && until.is_none_or(|until| moment.now_ms < until)
        {
            return ActorPoll::Wait { until, for_rest: false };
        }
        let needed = needed(for_each, &ViewValues { view, cache: &self.cache }, moment.now_ms);
        self.pending.retain(|key, _| needed.iter().any(|(known, ..)| known == key));
        self.last.retain(|key, _| needed.iter().any(|(known, ..)| known == key));
        let mut next: Option<(u64, InFlightWrite)> = None;
        for (key, write, version) in needed {
            let is_known = |(last, seen): &(ActorWrite, Value)| *last == write && *seen == version;
            let is_repeated = self.last.get(&key).is_some_and(is_known);
            if is_repeated {
                continue;
            }
            let random = mix(self.seed, &format!("{}/{}/{}/{}", key.0, key.1, key.2, self.writes));
            let pending = self.pending.entry(key.clone()).or_insert_with(|| Pending {
                due: moment.now_ms.saturating_add(for_each.after.select(random)),
                attempts: 0,
            });
            if next.as_ref().is_none_or(|(due, _)| pending.due < *due) {
                next = Some((pending.due, InFlightWrite { key, write, version }));
            }
        }
        match next {
            Some((due, written)) if due <= moment.now_ms || self.hurried > 0 => self.send(written),
            next => {
                let clock = for_each.uses_now().then_some(moment.now_ms + CLOCK_INTERVAL_MS);
                let until = next.map(|(due, _)| due).into_iter().chain(clock).min();
                self.evaluated = Some((revision, until));
                ActorPoll::Wait { until, for_rest: false }
            }
        }
    }

    fn send(&mut self, mut written: InFlightWrite) -> ActorPoll {
        self.hurried = self.hurried.saturating_sub(1);
        self.evaluated = None;
        if self.writes == MAX_WRITES {
            let failure = format!("it wrote {MAX_WRITES} times; its effect is undone again and again");
            self.failure = Some(failure.clone());
            return ActorPoll::Failed(failure);
        }
        self.writes += 1;
        let write = ActorWrite { step: self.writes, ..written.write.clone() };
        written.write.step = 0;
        self.in_flight = Some(written);
        ActorPoll::Write(Box::new(write))
    }

    pub(super) fn written(&mut self, outcome: &WriteOutcome, now_ms: u64) {
        let Some(written) = self.in_flight.take() else { return };
        if (200..300).contains(&outcome.status) {
            self.pending.remove(&written.key);
            self.last.insert(written.key, (written.write, written.version));
            return;
        }
        let pending = self.pending.entry(written.key).or_default();
        pending.attempts += 1;
        pending.due = now_ms + retry_interval(pending.attempts);
        if pending.attempts == MAX_ATTEMPTS {
            self.failure = Some(format!(
                "a write failed {MAX_ATTEMPTS} times, at last with {}: {}",
                outcome.status, outcome.message
            ));
        }
    }

    pub(super) fn take_next_step(&mut self) {
        self.hurried = self.hurried.saturating_add(1);
    }
}

impl ForEach {
    /// Whether what the actor does depends on the time.
    fn uses_now(&self) -> bool {
        let programs = [&self.when, &self.count];
        programs.into_iter().flatten().any(|program| program.uses("now"))
    }

    /// Whether a condition or the template contains the time.
    fn reads_now(&self) -> bool {
        let is_in_template = match &self.effect {
            Effect::Ensure(template) | Effect::Apply(template) | Effect::Patch(template, _) => {
                template.uses("now")
            }
            Effect::Delete { .. } => false,
        };
        is_in_template || self.uses_now()
    }
}

/// Returns the writes that are needed at this moment, in the order of namespace and name, each with the version of the
/// object that it changes, or the view's revision if it creates one. A condition or template whose evaluation fails needs nothing: what it reads may not exist yet.
fn needed(for_each: &ForEach, values: &ViewValues<'_>, now_ms: u64) -> Vec<(Key, ActorWrite, Value)> {
    let mut found = Vec::new();
    let now = if for_each.reads_now() { now_value(now_ms) } else { CelValue::Null };
    for object in values.view.list(&for_each.resource) {
        let metadata = &object["metadata"];
        let text = |field: &str| metadata[field].as_str().unwrap_or_default();
        let (namespace, name) = (text("namespace"), text("name"));
        if for_each.namespace.as_deref().is_some_and(|wanted| wanted != namespace) {
            continue;
        }
        let mut variables = vec![
            ("object", values.cache.value(&object)),
            ("name", CelValue::from(name)),
            ("namespace", CelValue::from(namespace)),
            ("uid", CelValue::from(text("uid"))),
            ("now", now.clone()),
        ];
        let holds =
            |program: &super::super::program::Program| program.holds(variables.clone(), values) == Ok(true);
        if !for_each.when.as_ref().is_none_or(holds) {
            continue;
        }
        let count = match &for_each.count {
            None => 1,
            Some(program) => match program.evaluate(variables.clone(), values) {
                Ok(CelValue::Int(count)) => count.clamp(0, MAX_COUNT),
                _ => 0,
            },
        };
        for index in 0..count {
            variables.push(("index", CelValue::Int(index)));
            if let Some((write, version)) = needed_write(for_each, values, &object, &variables) {
                found.push(((namespace.to_owned(), name.to_owned(), index), write, version));
            }
            variables.pop();
        }
    }
    found
}

/// Returns the write that produces the effect, with the version of the object that it changes; `None` if the effect is there
/// already.
fn needed_write(
    for_each: &ForEach,
    values: &ViewValues<'_>,
    object: &Value,
    variables: &[(&str, CelValue)],
) -> Option<(ActorWrite, Value)> {
    let metadata = &object["metadata"];
    let text = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
    let own = |subresource: &str, operation: Operation| ActorWrite {
        step: 0,
        resource: for_each.resource.clone(),
        subresource: subresource.to_owned(),
        namespace: text("namespace"),
        name: text("name"),
        operation,
    };
    let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
    let absent = Value::from(values.view.revision());
    let rendered = |template: &super::super::template::Template| template.render(variables, values).ok();
    let manifest = |template| {
        let namespace = text("namespace");
        let namespace =
            if namespace.is_empty() { super::super::object_reference::DEFAULT_NAMESPACE } else { &namespace };
        Manifest::new(rendered(template)?, namespace, &for_each.kinds)
            .ok()
            .filter(|manifest| !manifest.name.is_empty())
    };
    match &for_each.effect {
        Effect::Ensure(template) => {
            let manifest = manifest(template)?;
            let present = values.view.get(&manifest.resource, &manifest.namespace, &manifest.name);
            present.is_none().then(|| (manifest.write(Operation::Create), absent))
        }
        Effect::Apply(template) => {
            let manifest = manifest(template)?;
            let present = values.view.get(&manifest.resource, &manifest.namespace, &manifest.name);
            let is_there = present.as_ref().is_some_and(|present| contains(present, &manifest.object));
            let version = present.map_or(absent, |present| version(&present));
            (!is_there).then(|| (manifest.write(Operation::Apply), version))
        }
        Effect::Patch(template, is_status) => {
            let patch = rendered(template)?;
            let subresource = if *is_status { "status" } else { "" };
            let is_there = merged(object, &patch) == *object;
            (!is_there).then(|| (own(subresource, Operation::MergePatch(patch)), version(object)))
        }
        Effect::Delete { propagation } => {
            let is_deleted = metadata.get("deletionTimestamp").is_some();
            let uid = metadata["uid"].as_str().map(str::to_owned);
            let operation = Operation::Delete { propagation: propagation.clone(), uid };
            (!is_deleted).then(|| (own("", operation), version(object)))
        }
    }
}
