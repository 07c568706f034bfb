//! Values that a structural schema allows, and changes of them.

mod texts;

use serde_json::{Map, Value, json};

use super::kind_fields::is_kind;
use super::pattern;
use super::random::Random;
use super::validate::validate;
use crate::scenario::merge::merged;

pub(super) use texts::{text_fields, with_text};

/// The most levels of nesting. Optional members below it are left out.
const MAX_DEPTH: usize = 8;
/// The most optional members of a generated object.
const MAX_OPTIONAL: usize = 100;
/// The most values that are generated for one object. Further values are null.
const MAX_VALUES: usize = 5000;
/// How many values are tried until one satisfies the rules of the schema.
const ATTEMPTS: u64 = 200;
/// The members of an object that a user does not write.
pub(super) const NOT_WRITTEN: [&str; 4] = ["apiVersion", "kind", "metadata", "status"];

/// Generates the members of a custom resource beside `metadata`, such as `spec`. `kinds` are the kinds, in lower case, that its fields may name.
///
/// # Errors
/// Errors with one line if no value was found that the schema allows.
pub(super) fn generate(
    schema: &Value,
    name: &str,
    kinds: &[String],
    seed: u64,
) -> Result<Map<String, Value>, String> {
    let mut problem = String::new();
    for attempt in 0..ATTEMPTS {
        let random = Random::new(seed.wrapping_add(attempt));
        let mut generator = Generator { random, name, kinds, sparse: attempt, left: MAX_OPTIONAL, values: 0 };
        let value = generator.root(schema);
        match validate(schema, &with_metadata(&value, name), None) {
            Ok(()) => return Ok(value.as_object().cloned().unwrap_or_default()),
            Err(other) => problem = other,
        }
    }
    Err(format!("{problem} in all {ATTEMPTS} objects that were tried"))
}

/// Generates a merge patch that changes an object within the schema; `None` if no change was found. Names are changed only if
/// there is nothing else. The first change (`round` 0) raises a number, the next one lowers it again, but not as far.
pub(super) fn change(
    schema: &Value,
    object: &Map<String, Value>,
    name: &str,
    kinds: &[String],
    seed: u64,
    round: usize,
) -> Option<Value> {
    let value = Value::Object(object.clone());
    let mut random = Random::new(seed);
    let mut leaves = Vec::new();
    for (member, value) in sorted(object) {
        collect_leaves(&schema["properties"][member], value, kinds, &mut vec![member.clone()], &mut leaves);
    }
    leaves.sort_by_key(|leaf| leaf.rank);
    let old = with_metadata(&value, name);
    for leaf in &leaves {
        let random = Random::new(random.next());
        let mut generator = Generator { random, name, kinds, sparse: 0, left: MAX_OPTIONAL, values: 0 };
        for after in generator.replacements(leaf, round) {
            let patch = leaf.path.iter().rev().fold(after, |inner, member| json!({ member: inner }));
            let changed = merged(&value, &patch);
            if changed != value && validate(schema, &with_metadata(&changed, name), Some(&old)).is_ok() {
                return Some(patch);
            }
        }
    }
    None
}

/// Rules may read the name of an object.
fn with_metadata(value: &Value, name: &str) -> Value {
    let mut object = value.clone();
    if let Some(members) = object.as_object_mut() {
        members.insert("metadata".to_owned(), json!({ "name": name }));
        members.entry("apiVersion").or_insert_with(|| "v1".into());
        members.entry("kind").or_insert_with(|| "Kind".into());
    }
    object
}

/// A scalar, or a list, that a change can replace.
struct Leaf<'a> {
    schema: &'a Value,
    path: Vec<String>,
    value: &'a Value,
    /// Numbers first, names last: another name may mean another object.
    rank: u8,
}

fn collect_leaves<'a>(
    schema: &'a Value,
    value: &'a Value,
    kinds: &[String],
    path: &mut Vec<String>,
    leaves: &mut Vec<Leaf<'a>>,
) {
    if let Value::Object(members) = value {
        for (member, value) in sorted(members) {
            let own = schema["properties"].get(member);
            if let Some(schema) =
                own.or_else(|| schema.get("additionalProperties").filter(|other| other.is_object()))
            {
                path.push(member.clone());
                collect_leaves(schema, value, kinds, path, leaves);
                path.pop();
            }
        }
        return;
    }
    let is_name = is_name(path.last().map_or("", String::as_str), kinds);
    let rank = match value {
        Value::Number(_) => 0,
        Value::Bool(_) => 1,
        Value::String(_) if schema["enum"].is_array() => 2,
        Value::String(_) if !is_name => 3,
        Value::Array(_) if !is_name => 4,
        _ => 5,
    };
    leaves.push(Leaf { schema, path: path.clone(), value, rank });
}

/// Returns members in an order that does not depend on how the map stores them.
pub(super) fn sorted(members: &Map<String, Value>) -> Vec<(&String, &Value)> {
    let mut members: Vec<_> = members.iter().collect();
    members.sort_by_key(|(name, _)| *name);
    members
}

/// A namespace that every cluster has, for members that name one. Objects can be created in it.
const OTHER_NAMESPACE: &str = "kube-public";

/// Whether a member probably names an object.
fn is_name(member: &str, kinds: &[String]) -> bool {
    let lower = member.to_lowercase();
    lower.ends_with("name") || lower.ends_with("ref") || lower.ends_with("selector") || is_kind(member, kinds)
}

struct Generator<'a> {
    random: Random,
    /// The object's name, which texts contain.
    name: &'a str,
    /// The kinds, in lower case, that its members may name.
    kinds: &'a [String],
    /// The attempt. The later ones contain fewer optional members.
    sparse: u64,
    /// How many more optional members the object may have.
    left: usize,
    /// How many values were generated.
    values: usize,
}

impl Generator<'_> {
    fn root(&mut self, schema: &Value) -> Value {
        let mut value = Map::new();
        if let Some(properties) = schema["properties"].as_object() {
            for (member, schema) in sorted(properties) {
                if !NOT_WRITTEN.contains(&member.as_str()) {
                    value.insert(member.clone(), self.value(schema, member, 1));
                }
            }
        }
        Value::Object(value)
    }

    fn value(&mut self, schema: &Value, member: &str, depth: usize) -> Value {
        self.values += 1;
        if self.values > MAX_VALUES {
            return Value::Null;
        }
        if let Some(default) = schema.get("default")
            && (depth < MAX_DEPTH || default.is_object())
            && self.random.below(4) > 0
        {
            return default.clone();
        }
        if let Some(values) = schema["enum"].as_array() {
            return self.random.one_of(values).cloned().unwrap_or(Value::Null);
        }
        if schema["x-kubernetes-int-or-string"] == true {
            return json!(1 + self.random.below(100));
        }
        match schema["type"].as_str() {
            Some("string") => Value::String(self.text(schema, member)),
            Some("integer") => self.integer(schema),
            Some("number") => self.integer(schema).as_i64().map_or(Value::Null, |number| json!(number)),
            Some("boolean") => Value::Bool(self.random.below(2) == 1),
            Some("array") => self.array(schema, member, depth),
            _ => self.object(schema, depth),
        }
    }

    /// Returns a small number in the range: many controllers create as many objects.
    fn integer(&mut self, schema: &Value) -> Value {
        let whole = |number: f64| {
            // Beyond this range, an f64 does not hold every integer.
            #[allow(clippy::cast_possible_truncation, reason = "the number is clamped")]
            let whole = number.clamp(-9e15, 9e15) as i64;
            whole
        };
        let step = schema["multipleOf"].as_f64().filter(|step| *step >= 1.0).map_or(1, whole);
        let min = schema["minimum"].as_f64().map(|min| {
            whole(min.ceil()) + i64::from(schema["exclusiveMinimum"] == true && min.fract() == 0.0)
        });
        let max = schema["maximum"].as_f64().map(|max| {
            whole(max.floor()) - i64::from(schema["exclusiveMaximum"] == true && max.fract() == 0.0)
        });
        let low = min.unwrap_or(1).max(max.map_or(1, |max| max.min(1)));
        let low = min.map_or(low, |min| low.max(min));
        let high = max.unwrap_or(i64::MAX).min(low.saturating_add(2_i64.saturating_mul(step)));
        let count = usize::try_from(high.saturating_sub(low) / step).unwrap_or_default() + 1;
        let offset = i64::try_from(self.random.below(count)).unwrap_or_default() * step;
        let first = low + (step - low.rem_euclid(step)) % step;
        json!(first.saturating_add(offset))
    }

    fn text(&mut self, schema: &Value, member: &str) -> String {
        if let Some(pattern) = schema["pattern"].as_str() {
            let name = self.name.to_owned();
            let is_fitting = |text: &String| validate(schema, &json!(text), None).is_ok();
            let fixed = Some(name).filter(|name| is_name(member, self.kinds) && is_fitting(name));
            // Several texts, because the length may have bounds, too.
            let mut generated = || pattern::matching(pattern, &mut self.random);
            return fixed
                .or_else(|| (0..20).find_map(|_| generated().filter(is_fitting)))
                .unwrap_or_else(|| "unsupported-pattern".to_owned());
        }
        if let Some(text) = self.formatted(schema["format"].as_str().unwrap_or_default()) {
            return text;
        }
        let mut text = if is_name(member, self.kinds) {
            self.name.to_owned()
        } else if member.to_lowercase().ends_with("namespace") {
            OTHER_NAMESPACE.to_owned()
        } else {
            format!("{}-{}", self.name, self.random.below(1000))
        };
        let limit = |field: &str| schema[field].as_u64().and_then(|limit| usize::try_from(limit).ok());
        let (min, max) = (limit("minLength").unwrap_or_default().min(10_000), limit("maxLength"));
        while text.len() < min {
            text.push('x');
        }
        if let Some(max) = max
            && text.len() > max
        {
            // The end differs more often than the start.
            text = text.split_off(text.len() - max);
        }
        text
    }

    fn formatted(&mut self, format: &str) -> Option<String> {
        let number = 1 + self.random.below(28);
        Some(match format {
            "date-time" => format!("2026-01-{number:02}T00:00:00Z"),
            "date" => format!("2026-01-{number:02}"),
            "duration" => format!("{number}s"),
            "byte" => ["b25l", "dHdv", "c2l4"].get(number % 3)?.to_string(),
            "uri" | "url" => format!("https://example.com/{}/{number}", self.name),
            "hostname" => format!("{}-{number}.example.com", self.name),
            "email" => format!("{}@example.com", self.name),
            "ipv4" | "ip" => format!("192.0.2.{number}"),
            "ipv6" => format!("2001:db8::{number}"),
            "cidr" => format!("198.51.{number}.0/24"),
            "mac" => format!("00:00:5e:00:53:{number:02}"),
            "uuid" | "uuid4" => format!("00000000-0000-4000-8000-0000000000{number:02}"),
            _ => return None,
        })
    }

    /// Decides about an optional member. An object has most of the members near its root.
    fn wants_optional(&mut self, depth: usize) -> bool {
        let eighths = match depth {
            0..=1 => 7_usize,
            2 => 4,
            _ => 2,
        };
        let eighths = eighths.saturating_sub(usize::try_from(self.sparse % 8).unwrap_or_default());
        let is_wanted = self.left > 0 && self.random.below(8) < eighths;
        self.left -= usize::from(is_wanted);
        is_wanted
    }

    /// Returns values that may replace a leaf, the best first.
    fn replacements(&mut self, leaf: &Leaf<'_>, round: usize) -> Vec<Value> {
        let mut found = match leaf.value {
            Value::Bool(value) => return vec![json!(!value)],
            Value::Number(number) => number.as_i64().map_or_else(Vec::new, |number| {
                let steps = if round.is_multiple_of(2) { [2, 1, -1] } else { [-1, 1, -2] };
                steps.into_iter().map(|step| json!(number.saturating_add(step))).collect()
            }),
            Value::Array(items) => {
                let added = self.value(&leaf.schema["items"], "", 2);
                vec![Value::Array(items.iter().cloned().chain([added]).collect())]
            }
            _ => Vec::new(),
        };
        let member = leaf.path.last().map_or("", String::as_str);
        found.extend((0..10).map(|_| self.value(leaf.schema, member, MAX_DEPTH)));
        found
    }

    fn array(&mut self, schema: &Value, member: &str, depth: usize) -> Value {
        let min = schema["minItems"].as_u64().and_then(|min| usize::try_from(min).ok()).unwrap_or(0).min(100);
        let is_limited = depth >= MAX_DEPTH || schema["maxItems"] == 0;
        let count = if is_limited { min } else { min.max(1) };
        let mut items: Vec<Value> = Vec::new();
        for _ in 0..count {
            // Lists that are sets must not contain an element twice.
            let item = (0..10)
                .map(|_| self.value(&schema["items"], member, depth + 1))
                .find(|item| !items.contains(item));
            items.extend(item);
        }
        Value::Array(items)
    }

    fn object(&mut self, schema: &Value, depth: usize) -> Value {
        let mut value = Map::new();
        let mut required: Vec<&str> = strings(&schema["required"]);
        // With alternatives, only the members of one are written.
        let mut excluded: Vec<&str> = Vec::new();
        for alternatives in [&schema["oneOf"], &schema["anyOf"]].into_iter().filter_map(Value::as_array) {
            let chosen = self.random.below(alternatives.len());
            for (index, alternative) in alternatives.iter().enumerate() {
                let names = strings(&alternative["required"]);
                if index == chosen { &mut required } else { &mut excluded }.extend(names);
            }
        }
        if let Some(properties) = schema["properties"].as_object() {
            for (member, schema) in sorted(properties) {
                let is_required = required.contains(&member.as_str());
                let is_excluded = excluded.contains(&member.as_str());
                if is_required || depth < MAX_DEPTH && !is_excluded && self.wants_optional(depth) {
                    value.insert(member.clone(), self.value(schema, member, depth + 1));
                }
            }
        }
        let min =
            schema["minProperties"].as_u64().and_then(|min| usize::try_from(min).ok()).unwrap_or(0).min(100);
        if let Some(entries) = schema.get("additionalProperties").filter(|entries| entries.is_object())
            && depth < MAX_DEPTH
        {
            for index in 0..min.max(1) {
                value.insert(format!("key-{index}"), self.value(entries, "", depth + 1));
            }
        }
        Value::Object(value)
    }
}

fn strings(list: &Value) -> Vec<&str> {
    list.as_array().map_or_else(Vec::new, |list| list.iter().filter_map(Value::as_str).collect())
}

#[cfg(test)]
mod tests;
