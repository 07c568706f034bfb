//! The members of the host's configuration file that are about plugins in registries.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::error::{Problem, RegistryError, excerpt};
use crate::reference::Reference;

/// The most plugins of one host.
pub(super) const MAX_PLUGINS: usize = 10_000;
/// The shortest interval at which a tag is looked at.
const SHORTEST_POLL: Duration = Duration::from_secs(10);
/// The interval without `poll`.
pub(super) const DEFAULT_POLL: Duration = Duration::from_secs(60);

/// A plugin that comes from a registry: an entry of `plugins`.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PluginEntry {
    /// The plugin's name, as if its file were `NAME.wasm`.
    #[schemars(regex(pattern = "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"))]
    pub name: String,
    /// The reference, with or without `oci://`.
    #[schemars(regex(pattern = "^(oci://)?[^/@]+/[^@]+(@sha256:[0-9a-f]{64})?$"))]
    pub image: String,
    /// How often a tag is looked at, such as `60s` or `5m`, at least `10s`. A digest is not looked at again.
    #[serde(default)]
    #[schemars(regex(pattern = "^(0*[1-9][0-9]+s|0*[1-9][0-9]*[mh])$"))]
    pub poll: Option<String>,
    /// The members of the plugin's sidecar (`sidecar.schema.json`). It is the operator's; an artifact has none.
    #[serde(default)]
    pub sidecar: Option<serde_json::Map<String, serde_json::Value>>,
    /// Why the sidecar is invalid, if whoever read the entry found that. Such a plugin is not pulled, and shows the problem.
    #[serde(skip)]
    pub sidecar_problem: Option<String>,
}

/// What concerns all registries: the member `registries`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RegistrySettings {
    /// The directory for what was pulled; in a pod, a volume.
    #[serde(default)]
    pub cache_dir: Option<PathBuf>,
    /// The size to which the cache is pruned, in bytes; 256 MiB by default. What is in use is kept in any case.
    #[serde(default)]
    pub cache_size: Option<u64>,
    /// A docker `config.json`, or the file `.dockerconfigjson` of a mounted Secret. Read at each attempt.
    #[serde(default)]
    pub credentials: Option<PathBuf>,
    /// The signature policy. Without one, no signature is verified.
    #[serde(default)]
    pub policy: Option<PathBuf>,
    /// What happens to a running plugin that a changed policy does not allow any more.
    #[serde(default)]
    pub on_violation: OnViolation,
    /// A PEM file with the certificates of private authorities.
    #[serde(default)]
    pub certificate_authority: Option<PathBuf>,
    /// Registries that are contacted without TLS, as `host` or `host:port`.
    #[serde(default)]
    pub plain_http: Vec<String>,
    /// Hosts, as `host` or `host:port`, to which registries may refer although their addresses are private.
    #[serde(default)]
    pub trusted_hosts: Vec<String>,
    /// The size of a plugin, in bytes; 256 MiB by default, which is also the most.
    #[serde(default)]
    pub max_artifact_size: Option<u64>,
}

/// What happens to a running plugin that a changed policy does not allow any more.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub enum OnViolation {
    /// It runs on, and its status shows the violation. A restart of the host does not load it.
    #[default]
    Report,
    /// It is stopped.
    Stop,
}

impl RegistrySettings {
    /// Checks the entries together.
    ///
    /// # Errors
    /// Errors if a name is invalid or is used twice, so that a plugin could not even be shown. Other mistakes of an entry concern its plugin only.
    pub fn check(&self, plugins: &[PluginEntry]) -> Result<(), RegistryError> {
        let invalid = |problem: String, remedy: &str| {
            Err(RegistryError::new(Problem::Invalid, format!("plugins: {problem}; {remedy}")))
        };
        if plugins.len() > MAX_PLUGINS {
            return invalid(format!("there are {} entries", plugins.len()), "run several hosts");
        }
        let mut names = BTreeSet::new();
        for plugin in plugins {
            let name = excerpt(&plugin.name);
            if !is_label(&plugin.name) {
                return invalid(
                    format!("{name:?} cannot name a plugin"),
                    "use lower-case letters, digits and '-', at most 63, beginning and ending with a letter or digit",
                );
            }
            if !names.insert(&plugin.name) {
                return invalid(format!("two entries have the name {name:?}"), "rename one");
            }
        }
        Ok(())
    }
}

impl PluginEntry {
    /// Checks the reference and the interval. The host checks the sidecar, when it loads the plugin.
    ///
    /// # Errors
    /// Errors with what is wrong, and what to write.
    pub fn check(&self) -> Result<(), RegistryError> {
        self.check_image()?;
        self.check_poll()
    }

    /// Checks the reference.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn check_image(&self) -> Result<(), RegistryError> {
        self.image.parse::<Reference>().map(drop)
    }

    /// Checks the interval.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn check_poll(&self) -> Result<(), RegistryError> {
        self.poll_interval().map(drop)
    }

    /// Returns what to pull, unless only another entry can help.
    pub(super) fn reference(&self) -> Result<Reference, RegistryError> {
        match &self.sidecar_problem {
            Some(problem) => Err(RegistryError::new(Problem::Invalid, problem)),
            None => self.image.parse(),
        }
    }

    /// Returns the reference with `oci://`, as messages and the status show it. An invalid one stays as it was written.
    #[must_use]
    pub fn shown_image(&self) -> String {
        self.image.parse::<Reference>().map_or_else(|_| self.image.clone(), |reference| reference.to_string())
    }

    /// Returns the interval at which a tag is looked at.
    pub(super) fn poll_interval(&self) -> Result<Duration, RegistryError> {
        let Some(text) = &self.poll else { return Ok(DEFAULT_POLL) };
        let invalid = || {
            let text = excerpt(text);
            RegistryError::new(
                Problem::Invalid,
                format!("poll: {text:?} is no interval of at least 10s; write for example 60s or 5m"),
            )
        };
        let digits = text.trim_end_matches(|c: char| c.is_ascii_lowercase());
        let seconds = match &text[digits.len()..] {
            "s" => 1,
            "m" => 60,
            "h" => 3600,
            _ => return Err(invalid()),
        };
        let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit());
        let number = digits.parse::<u32>().ok().filter(|_| is_plain).ok_or_else(invalid)?;
        let interval = Duration::from_secs(u64::from(number) * seconds);
        if interval < SHORTEST_POLL { Err(invalid()) } else { Ok(interval) }
    }

    /// Returns the text of the plugin's sidecar.
    #[must_use]
    pub fn sidecar_text(&self) -> String {
        // JSON is YAML, too.
        let members = self.sidecar.clone().unwrap_or_default();
        serde_json::Value::Object(members).to_string()
    }
}

/// Whether this is an RFC 1123 label. The name becomes a file's name.
pub(crate) fn is_label(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = name.as_bytes();
    (1..=63).contains(&bytes.len())
        && bytes.iter().all(|&byte| is_plain(byte) || byte == b'-')
        && bytes.first().is_some_and(|&byte| is_plain(byte))
        && bytes.last().is_some_and(|&byte| is_plain(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, poll: Option<&str>) -> PluginEntry {
        PluginEntry {
            name: name.to_owned(),
            image: String::new(),
            poll: poll.map(str::to_owned),
            sidecar: None,
            sidecar_problem: None,
        }
    }

    #[test]
    fn an_interval_has_a_unit_and_a_minimum() {
        let seconds = |poll| entry("p", poll).poll_interval().map(|poll| poll.as_secs()).ok();
        assert_eq!(seconds(None), Some(60));
        assert_eq!(
            (seconds(Some("10s")), seconds(Some("5m")), seconds(Some("2h"))),
            (Some(10), Some(300), Some(7200))
        );
        for poll in ["", "60", "9s", "-1m", "+60s", "1.5m", "5 m", "1d", "99999999999s", "ms"] {
            assert_eq!(seconds(Some(poll)), None, "{poll}");
        }
    }

    #[test]
    fn a_name_that_cannot_be_shown_is_a_mistake_of_the_whole_file() {
        let check = |names: &[&str]| {
            let entries: Vec<_> = names.iter().map(|name| entry(name, None)).collect();
            RegistrySettings::default().check(&entries).map_err(|error| error.to_string())
        };
        assert_eq!(check(&["a", "b-1"]), Ok(()));
        assert!(check(&["a", "a"]).expect_err("twice").contains("two entries"));
        for name in ["", "A", "a/b", "..", "-a", "a_b", &"a".repeat(64)] {
            assert!(check(&[name]).expect_err(name).contains("cannot name"), "{name}");
        }
    }

    #[test]
    fn an_entry_is_checked_without_a_registry() {
        let checked = |image: &str, poll| {
            let entry = PluginEntry { image: image.to_owned(), ..entry("p", poll) };
            entry.check().map_err(|error| error.to_string())
        };
        assert_eq!(checked("oci://r.example/p:1", Some("10s")), Ok(()));
        assert!(checked("r.example/p", None).expect_err("no tag").contains("neither a tag nor a digest"));
        assert!(checked("r.example/p:1", Some("3s")).expect_err("too often").contains("poll"));
    }

    #[test]
    fn a_reference_is_shown_in_one_form() {
        let shown = |image: &str| PluginEntry { image: image.to_owned(), ..entry("p", None) }.shown_image();
        assert_eq!(shown("R.example/p:1"), "oci://r.example/p:1");
        assert_eq!(shown("oci://r.example/p:1"), "oci://r.example/p:1");
        assert_eq!(shown("nonsense"), "nonsense");
    }

    #[test]
    fn a_sidecar_is_written_as_it_was_given() {
        let entry: PluginEntry =
            serde_json::from_str(r#"{"name":"p","image":"x","sidecar":{"workers":2}}"#).expect("an entry");
        assert_eq!(entry.sidecar_text(), r#"{"workers":2}"#);
        assert!(serde_json::from_str::<PluginEntry>(r#"{"name":"p","image":"x","unknown":2}"#).is_err());
    }
}
