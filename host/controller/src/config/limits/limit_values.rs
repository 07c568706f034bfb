//! The member `limits` of a sidecar or descriptor, as it was written.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::table::{LIMITS, REQUESTABLE, names};
use super::{Limit, LimitError, Unit};

/// A value before it is parsed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
enum Value {
    Text(String),
    Number(u32),
}

/// Limits by name. Absent ones leave the request of the plugin, or the default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
struct LimitValues(BTreeMap<&'static str, Value>);

impl LimitValues {
    fn get(&self, limit: &Limit) -> Result<Option<u64>, LimitError> {
        let Some(value) = self.0.get(limit.name) else { return Ok(None) };
        let error = |problem| LimitError { field: limit.name, problem, remedy: limit.unit.remedy() };
        let (value, written) = match value {
            Value::Text(text) => (limit.unit.parse(text).map_err(error)?, format!("{text:?}")),
            Value::Number(number) => (u64::from(*number), number.to_string()),
        };
        if limit.range.contains(&value) {
            return Ok(Some(value));
        }
        let [least, most] = [limit.range.start(), limit.range.end()].map(|end| limit.unit.format(*end));
        Err(error(format!("{written} is not between {least} and {most}")))
    }
}

/// The limits of a sidecar: any of [`LIMITS`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SidecarLimits(LimitValues);

impl SidecarLimits {
    /// Returns the value of a limit in its unit's base, or `None` where the sidecar does not set it.
    pub(super) fn get(&self, limit: &Limit) -> Result<Option<u64>, LimitError> {
        self.0.get(limit)
    }
}

impl<'de> Deserialize<'de> for SidecarLimits {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        const NAMES: &[&str] = &names::<{ LIMITS.len() }>(false);
        deserializer.deserialize_map(Members(NAMES)).map(Self)
    }
}

/// The limits that a descriptor requests. The plugin gets them up to a bound; its sidecar may give it more or less.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct RequestedLimits(LimitValues);

impl RequestedLimits {
    const NAMES: &[&str] = &names::<REQUESTABLE>(true);

    /// Returns the value of a limit in its unit's base, or `None` where the descriptor does not request it.
    pub(super) fn get(&self, limit: &Limit) -> Result<Option<u64>, LimitError> {
        self.0.get(limit)
    }
}

impl<'de> Deserialize<'de> for RequestedLimits {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Members(Self::NAMES)).map(Self)
    }
}

impl JsonSchema for RequestedLimits {
    fn schema_name() -> Cow<'static, str> {
        "Limits".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schemars::json_schema!({
            "type": "object",
            "description": "Limits that the plugin requests. It gets them up to a bound (docs/limits.md); its sidecar may give it more or less.",
            "properties": properties(|limit| limit.max_request.is_some()),
            "additionalProperties": false,
        })
    }
}

impl JsonSchema for SidecarLimits {
    fn schema_name() -> Cow<'static, str> {
        "SidecarLimits".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schemars::json_schema!({
            "type": "object",
            "description": "Limits, which override those that the plugin requests (docs/limits.md).",
            "properties": properties(|_| true),
            "additionalProperties": false,
        })
    }
}

/// Returns the schemas of the limits that are included.
fn properties(is_included: fn(&Limit) -> bool) -> serde_json::Map<String, serde_json::Value> {
    let included = LIMITS.iter().filter(|limit| is_included(limit));
    included
        .map(|limit| {
            let mut property = match limit.unit {
                Unit::Count => json!({"type": ["integer", "null"], "format": "uint32", "minimum": 0}),
                Unit::Bytes | Unit::Duration => json!({"type": ["string", "null"]}),
            };
            let description = limit.description;
            property["description"] = match limit.unit.example() {
                Some(example) => format!("Limit on the {description}, {example}.").into(),
                None => format!("Limit on the {description}.").into(),
            };
            (limit.name.to_owned(), property)
        })
        .collect()
}

/// Reads a map whose members are limits of these names.
struct Members(&'static [&'static str]);

impl<'de> Visitor<'de> for Members {
    type Value = LimitValues;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a map of limits")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<LimitValues, A::Error> {
        let mut values = LimitValues::default();
        while let Some(limit) = map.next_key_seed(Name(self.0))? {
            let value = match limit.unit {
                Unit::Count => map.next_value::<Option<u32>>()?.map(Value::Number),
                Unit::Bytes | Unit::Duration => map.next_value::<Option<String>>()?.map(Value::Text),
            };
            let Some(value) = value else { continue };
            if values.0.insert(limit.name, value).is_some() {
                return Err(A::Error::duplicate_field(limit.name));
            }
        }
        Ok(values)
    }
}

/// Reads the name of one limit.
struct Name(&'static [&'static str]);

impl<'de> DeserializeSeed<'de> for Name {
    type Value = &'static Limit;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl Visitor<'_> for Name {
    type Value = &'static Limit;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the name of a limit")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        let known = self.0.contains(&name).then(|| LIMITS.iter().find(|limit| limit.name == name)).flatten();
        known.ok_or_else(|| E::unknown_field(name, self.0))
    }
}
