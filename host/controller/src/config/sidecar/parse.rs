//! Parses a sidecar, and checks its values and sizes.

use std::ops::RangeInclusive;
use std::path::{Component, Path};

use pilothouse_model::names::is_dns_label;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::{Sidecar, SidecarError};
use crate::config::descriptor::bounds::{self, MAX_HTTP_HOSTS, MAX_RULE_ENTRIES, MAX_RULES};
use crate::config::limits;
use crate::logs::printable;
use crate::outgoing::parse_patterns;

/// Limit in bytes for a sidecar, and for its `config` as JSON.
pub(crate) const MAX_SIDECAR: usize = 1 << 20;

/// The possible numbers of workers.
const WORKERS: RangeInclusive<u16> = 1..=64;

/// Reads a number of workers. One that does not fit into the type is refused with the same range as any other.
pub(super) fn workers<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u16>, D::Error> {
    let Some(number) = Option::<i128>::deserialize(deserializer)? else { return Ok(None) };
    let out_of_range = |_| D::Error::custom(format!("workers: {number} is not between 1 and 64"));
    u16::try_from(number).map(Some).map_err(out_of_range)
}

impl Sidecar {
    /// Parses the members of a sidecar that is a part of something else, such as the configuration of the host.
    ///
    /// # Errors
    /// The same as for [`parse`](Self::parse), but an error names the path of the field. There is no text whose lines an operator could look up.
    pub fn parse_members(members: &serde_json::Map<String, serde_json::Value>) -> Result<Self, SidecarError> {
        let members = serde_json::Value::Object(members.clone());
        // JSON is YAML, too. Its reader accepts a number as a text, as in a file.
        Self::parse(&members.to_string()).map_err(|error| match error {
            SidecarError::Yaml(problem) => match pilothouse_yaml::from_value::<Self>(members) {
                Err(error) => {
                    let problem = printable(&error.problem).to_string();
                    SidecarError::Members(pilothouse_yaml::ValueError { problem, ..error })
                }
                Ok(_) => SidecarError::Yaml(problem),
            },
            error => error,
        })
    }

    /// Parses the YAML text. The empty text is a sidecar without any settings.
    ///
    /// # Errors
    /// Returns the field that is wrong, and what belongs there.
    pub fn parse(text: &str) -> Result<Self, SidecarError> {
        let only_comments =
            text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#'));
        if only_comments {
            return Ok(Self::default());
        }
        if text.len() > MAX_SIDECAR {
            return Err(SidecarError::TooLarge(text.len()));
        }
        let sidecar: Self = pilothouse_yaml::from_str(text)
            .map_err(|problem| SidecarError::Yaml(printable(&problem).to_string()))?;
        limits::check(&sidecar.limits)?;
        check_bounds(&sidecar)?;
        parse_patterns(&sidecar.grants.http)?;
        // The namespaces become parts of the URLs of the host's own watches.
        let watched = sidecar.grants.watches.iter().flatten().flat_map(|rule| &rule.namespaces);
        if let Some(name) = watched.into_iter().find(|name| !(*name == "*" || is_dns_label(name))) {
            return Err(SidecarError::Namespace(name.clone()));
        }
        if let Some(shadow) = sidecar.shadow.as_ref().filter(|shadow| !is_below(&shadow.file)) {
            return Err(SidecarError::Shadow(printable(&shadow.file).to_string()));
        }
        match sidecar.workers {
            Some(workers) if !WORKERS.contains(&workers) => Err(SidecarError::Workers(workers)),
            _ => Ok(sidecar),
        }
    }
}

/// Checks the sizes in the sidecar against their limits.
fn check_bounds(sidecar: &Sidecar) -> Result<(), SidecarError> {
    at_most("config", sidecar.config_json().len(), MAX_SIDECAR, "bytes")?;
    at_most("grants.http", sidecar.grants.http.len(), MAX_HTTP_HOSTS, "hosts")?;
    let watches = sidecar.grants.watches.as_deref().unwrap_or_default();
    at_most("grants.watches", watches.len(), MAX_RULES, "rules")?;
    for rule in watches {
        for list in [&rule.api_groups, &rule.resources, &rule.namespaces] {
            at_most("grants.watches", list.len(), MAX_RULE_ENTRIES, "entries in one list")?;
        }
    }
    let writes = sidecar.grants.writes.as_deref().unwrap_or_default();
    at_most("grants.writes", writes.len(), MAX_RULES, "rules")?;
    match writes.iter().find_map(bounds::oversized_list) {
        Some((list, count)) => at_most(&format!("grants.writes.{list}"), count, MAX_RULE_ENTRIES, "entries"),
        None => Ok(()),
    }
}

fn at_most(member: &str, count: usize, bound: usize, what: &'static str) -> Result<(), SidecarError> {
    if count <= bound {
        return Ok(());
    }
    Err(SidecarError::TooMany { member: member.to_owned(), count, what, bound })
}

/// Whether a relative path leads to something below its directory.
fn is_below(path: &str) -> bool {
    let mut components = Path::new(path).components().peekable();
    components.peek().is_some() && components.all(|component| matches!(component, Component::Normal(_)))
}
