//! The sidecar, `NAME.yaml` beside `NAME.wasm`: the operator's settings for a plugin.

use std::ops::RangeInclusive;
use std::path::{Component, Path};

use pilothouse_model::names::is_dns_label;
use pilothouse_yaml::FieldPath;
use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::access::ServiceAccount;
use crate::config::descriptor::Rule;
use crate::config::descriptor::bounds::{self, MAX_HTTP_HOSTS, MAX_RULE_ENTRIES, MAX_RULES};
use crate::config::limits::{self, SidecarLimits};
pub use crate::config::rollout_settings::{
    CanaryError, CanaryMembers, CanaryShare, ProbationError, ProbationPeriod, RolloutSettings,
};
use crate::logs::printable;
use crate::outgoing::{PatternError, parse_patterns};

/// The operator's settings for one plugin. Absent fields have their defaults.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Sidecar {
    /// Whether the plugin runs; `true` by default.
    #[serde(default)]
    pub enabled: Option<bool>,
    /// Passed to the plugin as JSON, by `describe` and by the import `config`.
    #[serde(default)]
    pub config: serde_json::Map<String, serde_json::Value>,
    /// The number of keys that are reconciled at the same time; 1 by default, as in controller-runtime.
    #[serde(default, deserialize_with = "workers")]
    #[schemars(range(min = 1, max = 64))]
    pub workers: Option<u16>,
    /// Limits, which override those that the plugin requests.
    #[serde(default)]
    pub limits: SidecarLimits,
    /// What the plugin may do; if absent, all that its descriptor asks for.
    #[serde(default)]
    pub grants: GrantSettings,
    /// The service account as which the plugin reads and writes; if absent, the host's own identity.
    #[serde(default)]
    #[schemars(
        with = "Option<String>",
        regex(pattern = "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?/[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$")
    )]
    pub service_account: Option<ServiceAccount>,
    /// How a new version replaces the running one.
    #[serde(default)]
    pub rollout: RolloutSettings,
    /// A new version that is compared with the running one.
    #[serde(default)]
    pub shadow: Option<ShadowSettings>,
}

/// A new version that runs in the shadow of the running one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ShadowSettings {
    /// Its file, relative to the plugins directory.
    pub file: String,
}

/// What is granted to a plugin where its sidecar says nothing, or if it has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum GrantMode {
    /// What the descriptor declares, except for HTTP.
    #[default]
    Declared,
    /// Nothing.
    Explicit,
}

/// What the operator grants. Each field restricts what the descriptor asks for.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Grants")]
pub struct GrantSettings {
    /// What may be watched; if absent, all that the descriptor watches.
    #[serde(default)]
    pub watches: Option<Vec<WatchRule>>,
    /// The allowed writes, as RBAC rules; if absent, those of the descriptor.
    #[serde(default)]
    pub writes: Option<Vec<Rule>>,
    /// Whether the plugin's CRDs may be applied; if absent, the host's default (`dev` applies them, `run`
    /// does not).
    #[serde(default)]
    pub crds: Option<bool>,
    /// Hosts to which the plugin may send HTTP requests, of those that its descriptor asks for; none by
    /// default.
    #[serde(default)]
    pub http: Vec<String>,
}

/// What may be watched: an RBAC rule without verbs, because a watch needs `list` and `watch` together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WatchRule {
    /// API groups; "" for core, `*` for all.
    pub api_groups: Vec<String>,
    /// Plural names; `*` for all.
    pub resources: Vec<String>,
    /// Namespaces; empty for all, and for cluster-scoped kinds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
}

/// The possible numbers of workers.
const WORKERS: RangeInclusive<u16> = 1..=64;

/// Reads a number of workers. One that does not fit into the type is refused with the same range as any other.
fn workers<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u16>, D::Error> {
    let Some(number) = Option::<i128>::deserialize(deserializer)? else { return Ok(None) };
    let out_of_range = |_| D::Error::custom(format!("workers: {number} is not between 1 and 64"));
    u16::try_from(number).map(Some).map_err(out_of_range)
}

/// Why a sidecar was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SidecarError {
    /// The text is not YAML, or does not have the sidecar's structure.
    #[error("{0}")]
    Yaml(String),
    /// The members of a sidecar that is a part of something else do not have its structure.
    #[error("{0}")]
    Members(#[from] pilothouse_yaml::ValueError),
    /// A limit that is invalid.
    #[error("limits.{0}")]
    Limits(#[from] limits::LimitError),
    /// A host that is invalid.
    #[error("grants.http: {0}")]
    Http(#[from] PatternError),
    /// A namespace that is invalid.
    #[error(
        "grants.watches: {0:?} is not the name of a namespace; write a whole name, \"*\" for all, or leave namespaces out"
    )]
    Namespace(String),
    /// A number of workers that is out of range.
    #[error(
        "workers: {0} is not between 1 and 64; leave it out for 1, or write enabled: false to stop the plugin"
    )]
    Workers(u16),
    /// A path of a shadow that is not below the plugins directory.
    #[error(
        "shadow.file: {0:?} is not a path below the plugins directory; write it relative to that, such as \"shadows/new.wasm\""
    )]
    Shadow(String),
    /// A text that is too long.
    #[error(
        "it has {0} bytes, and a sidecar may have {MAX_SIDECAR}; keep large values in a ConfigMap that the plugin reads"
    )]
    TooLarge(usize),
    /// More entries than a limit allows.
    #[error("{member}: there are {count} {what}, and a sidecar may have {bound}")]
    TooMany {
        /// The field.
        member: String,
        /// The number of entries.
        count: usize,
        /// What is counted.
        what: &'static str,
        /// The limit.
        bound: usize,
    },
}

impl SidecarError {
    /// Returns the field that is wrong, such as `limits.memory`. `None` if the whole text is, and the error has the line itself.
    #[must_use]
    pub fn member(&self) -> Option<FieldPath> {
        let names = match self {
            Self::Yaml(_) | Self::TooLarge(_) => return None,
            Self::Members(error) => return Some(error.path.clone()),
            Self::Limits(error) => &format!("limits.{}", error.field),
            Self::Http(_) => "grants.http",
            Self::Namespace(_) => "grants.watches",
            Self::Workers(_) => "workers",
            Self::Shadow(_) => "shadow.file",
            Self::TooMany { member, .. } => member,
        };
        Some(FieldPath::of_members(names))
    }

    /// Returns the error with the path of its member below another one, such as `spec.limits.memory` for `spec`.
    #[must_use]
    pub fn below(&self, outer: &FieldPath) -> String {
        match self {
            Self::Yaml(_) | Self::TooLarge(_) => format!("{outer}: {self}"),
            Self::Members(error) if error.path.steps().is_empty() => format!("{outer}: {self}"),
            _ => format!("{outer}.{self}"),
        }
    }
}

/// Returns the JSON Schema of a sidecar, as in `docs/sidecar.schema.json`.
#[must_use]
pub fn schema() -> serde_json::Value {
    let mut schema = schemars::schema_for!(Sidecar).to_value();
    schema["title"] = "Pilothouse sidecar".into();
    schema
}

/// Limit in bytes for a sidecar, and for its `config` as JSON.
pub(crate) const MAX_SIDECAR: usize = 1 << 20;

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

impl Sidecar {
    /// The plugin's config as JSON text, which is what the plugin receives.
    #[must_use]
    pub fn config_json(&self) -> String {
        serde_json::Value::Object(self.config.clone()).to_string()
    }

    /// Whether `rollout.canary` differs between the two texts, and nothing else that has an effect.
    pub(crate) fn differ_only_in_canary(left: &str, right: &str) -> bool {
        let [Ok(mut left), Ok(mut right)] = [left, right].map(Self::parse) else { return false };
        left.rollout.canary.take() != right.rollout.canary.take() && left == right
    }

    /// Parses the members of a sidecar that is a part of something else, such as the configuration of the host.
    ///
    /// # Errors
    /// As [`parse`](Self::parse), with the path of the field in place of the line and column of a text that nobody has written.
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_of_another_type_is_described_without_types_of_rust() {
        for (text, expected) in [
            ("workers: many", "line 1 column 10: workers: expected a whole number"),
            ("workers: 70000", "line 1 column 10: workers: 70000 is not between 1 and 64"),
            (
                "workers: 99999999999999999999",
                "line 1 column 10: workers: 99999999999999999999 is not between 1 and 64",
            ),
            ("workers: 1\nworkers: 2", "line 2 column 1: the key `workers` occurs twice; remove one of them"),
            ("enabled: perhaps", "line 1 column 10: enabled: expected true or false"),
        ] {
            let error = Sidecar::parse(text).expect_err(text).to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn an_unknown_field_is_named_with_its_line() {
        let error = Sidecar::parse("enabled: true\nworkerz: 3\n").expect_err("a misspelt field").to_string();
        assert!(error.starts_with("line 2 column 1: unknown field `workerz`"), "{error}");
    }

    #[test]
    fn all_fields_are_parsed() {
        let sidecar = Sidecar::parse(
            "# ours\nenabled: true\nconfig: {colour: blue, deep: {list: [1, 2]}}\nworkers: 4\n\
             limits: {memory: 16Mi, reconcileTimeout: 5s, httpBody: 1Mi, httpRequests: 2}\ngrants:\n  crds: false\n  http: [api.example.com, \"http://10.0.0.7:8080\"]\n  writes:\n    - apiGroups: ['']\n      resources: [configmaps]\n      verbs: ['*']\n",
        )
        .expect("valid");
        assert_eq!(sidecar.workers, Some(4));
        assert_eq!(sidecar.config["deep"]["list"][1], 2);
        assert_eq!(sidecar.grants.crds, Some(false));
        assert_eq!(sidecar.grants.http, ["api.example.com", "http://10.0.0.7:8080"]);
        assert_eq!(sidecar.grants.writes.expect("rules")[0].resources, ["configmaps"]);
    }

    #[test]
    fn the_service_account_and_watch_grants_are_parsed() {
        let sidecar = Sidecar::parse(
            "serviceAccount: shop/robot\ngrants:\n  watches:\n    - apiGroups: [apps]\n      resources: [deployments]\n      \
             namespaces: [shop]\n    - {apiGroups: [''], resources: [nodes]}\n",
        )
        .expect("valid");
        assert_eq!(sidecar.service_account.expect("an account").to_string(), "shop/robot");
        let watches = sidecar.grants.watches.expect("rules");
        assert_eq!((watches[0].namespaces.len(), watches[1].namespaces.len()), (1, 0));
    }

    #[test]
    fn the_probation_of_new_versions_is_parsed() {
        let probation = |text| Sidecar::parse(text).expect(text).rollout.probation;
        let period = probation("rollout: {probation: 1m30s}").expect("a probation");
        assert_eq!(period.duration(), std::time::Duration::from_secs(90));
        assert_eq!((probation("rollout: {}"), probation("workers: 1")), (None, None));
    }

    #[test]
    fn the_share_of_a_canary_is_parsed() {
        let canary = |text| Sidecar::parse(text).expect(text).rollout.canary;
        assert_eq!(canary("rollout: {canary: {percent: 10}, probation: 5m}"), Some(CanaryShare::Percent(10)));
        let names = vec!["shop".to_owned(), "test".to_owned()];
        assert_eq!(
            canary("rollout: {canary: {namespaces: [test, shop]}}"),
            Some(CanaryShare::Namespaces(names))
        );
        assert_eq!(canary("rollout: {probation: 5m}"), None);
    }

    #[test]
    fn only_the_share_of_a_canary_can_change_without_a_reload() {
        let same = |left, right| Sidecar::differ_only_in_canary(left, right);
        let (ten, fifty) = ("rollout: {canary: {percent: 10}}", "rollout: {canary: {percent: 50}}");
        assert!(same(ten, fifty) && same("workers: 1", "workers: 1\nrollout: {canary: {percent: 10}}"));
        assert!(!same(ten, "workers: 2\nrollout: {canary: {percent: 50}}"));
        assert!(!same(ten, "rollout: {canary: {percent: 50}, probation: 5m}"));
        assert!(!same(ten, "rollout: [") && !same("# a", "# b"), "the canary is the same");
    }

    #[test]
    fn the_file_of_a_shadow_is_below_the_plugins_directory() {
        let sidecar = Sidecar::parse("shadow: {file: shadows/new.wasm}").expect("valid");
        assert_eq!(sidecar.shadow.expect("a shadow").file, "shadows/new.wasm");
        for path in ["/etc/passwd", "../new.wasm", "shadows/../../new.wasm", "\"\""] {
            let error = Sidecar::parse(&format!("shadow: {{file: {path}}}")).expect_err(path);
            assert_eq!(error.member(), Some(FieldPath::of_members("shadow.file")), "{path}: {error}");
        }
    }

    #[test]
    fn an_empty_sidecar_has_the_defaults() {
        assert_eq!(Sidecar::parse("# nothing yet\n\n").expect("valid"), Sidecar::default());
    }

    #[test]
    fn each_error_is_one_line_that_names_the_field() {
        for (text, expected) in [
            ("worker: 3", "expected one of enabled, config, workers, limits, grants"),
            ("limits: {memry: 1Mi}", "expected one of memory, tableElements, instances, reconcileTimeout"),
            ("limits: {clientQps: -1}", "line 1"),
            ("limits: {clientQps: 0}", "limits.clientQps: 0 is not between 1 and 1000000"),
            ("workers: 0", "workers: 0 is not between 1 and 64"),
            ("workers: many", "workers"),
            ("limits: {memory: lots}", "limits.memory: \"lots\" is not a quantity"),
            ("grants: {http: [\"ftp://a.example.com\"]}", "grants.http: \"ftp://a.example.com\": the scheme"),
            ("enabled: [", "line"),
            ("- a list", "line"),
            ("serviceAccount: robot", "\"robot\" is not a service account; write it as NAMESPACE/NAME"),
            ("grants: {watches: [{apiGroups: [''], resources: [pods], verbs: [get]}]}", "verbs"),
            ("grants: {watches: [{resources: [pods]}]}", "apiGroups"),
            ("rollout: {probation: soon}", "rollout.probation: \"soon\" is not a duration"),
            ("rollout: {probation: 48h}", "rollout.probation: \"48h\" is not between 1s and 24h"),
            ("rollout: {canry: {percent: 10}}", "canary"),
            ("rollout: {canary: {percent: 0}}", "rollout.canary.percent: 0 is not between 1 and 100"),
            ("rollout: {canary: {percent: 1000}}", "rollout.canary.percent: 1000 is not between 1 and 100"),
            ("rollout: {canary: {percent: -1}}", "rollout.canary.percent: -1 is not between 1 and 100"),
            (
                "rollout: {probation: 300}",
                "rollout.probation: \"300\" is not a duration between 1s and 24h; write for example",
            ),
            ("rollout: {probation: -5m}", "is not a duration between 1s and 24h"),
            ("rollout: {canary: {namespaces: [a/b]}}", "rollout.canary.namespaces: \"a/b\" is not the name"),
            ("rollout: {canary: {}}", "rollout.canary: write either namespaces"),
            (
                "grants: {watches: [{apiGroups: [''], resources: [pods], namespaces: [a/../b]}]}",
                "grants.watches: \"a/../b\" is not the name of a namespace",
            ),
        ] {
            let error = Sidecar::parse(text).expect_err(text).to_string();
            assert!(error.contains(expected), "{text}: {error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }

    const SCHEMA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/sidecar.schema.json");

    /// With `PILOTHOUSE_UPDATE_SCHEMA=1` the file is written instead of compared.
    #[test]
    fn the_published_schema_of_sidecars_matches_the_types() {
        let text = format!("{:#}\n", schema());
        if std::env::var_os("PILOTHOUSE_UPDATE_SCHEMA").is_some() {
            std::fs::write(SCHEMA, &text).expect("written");
        }
        let published = std::fs::read_to_string(SCHEMA).expect("docs/sidecar.schema.json is there");
        assert!(
            published == text,
            "docs/sidecar.schema.json is not up to date: run \
             PILOTHOUSE_UPDATE_SCHEMA=1 cargo test -p pilothouse-controller --lib schema"
        );
    }

    #[test]
    fn the_schema_has_all_limits_and_the_form_of_a_service_account() {
        let schema = schema();
        let limits = schema["$defs"]["SidecarLimits"]["properties"].as_object().expect("limits");
        assert_eq!(limits.len(), limits::LIMITS.len());
        assert_eq!(schema["properties"]["serviceAccount"]["type"][0], "string");
        assert_eq!(schema["additionalProperties"], false);
    }

    #[test]
    fn an_error_has_the_field_that_is_wrong() {
        for (text, member) in [
            ("limits: {memory: lots}", Some("limits.memory")),
            ("grants: {http: ['ftp://a.example.com']}", Some("grants.http")),
            ("workers: 0", Some("workers")),
            ("worker: 1", None),
        ] {
            let error = Sidecar::parse(text).expect_err(text);
            assert_eq!(error.member(), member.map(FieldPath::of_members), "{text}");
        }
    }

    #[test]
    fn an_error_of_a_sidecar_in_something_else_names_the_path() {
        let spec = FieldPath::of_members("spec");
        for (members, text) in [
            (json!({"worker": 1}), "spec.worker: unknown field `worker`, expected one of"),
            (json!({"workers": "many"}), "spec.workers: invalid type: string \"many\""),
            (json!({"workers": 0}), "spec.workers: 0 is not between 1 and 64"),
            (json!({"workers": 70000}), "spec.workers: 70000 is not between 1 and 64"),
            (json!({"limits": {"memory": "lots"}}), "spec.limits.memory: \"lots\" is not a quantity"),
            (
                json!({"grants": {"watches": [{"apiGroups": [""], "resources": ["pods"]}, {"resources": []}]}}),
                "spec.grants.watches[1]: missing field `apiGroups`",
            ),
            (
                json!({"grants": {"writes": [{"verbs": "get"}]}}),
                "spec.grants.writes[0].verbs: invalid type: string \"get\", expected a list",
            ),
            (
                json!({"rollout": {"probation": "48h"}}),
                "spec.rollout.probation: \"48h\" is not between 1s and 24h",
            ),
            (
                json!({"rollout": {"canary": {"percent": 0}}}),
                "spec.rollout.canary.percent: 0 is not between 1 and 100",
            ),
            (json!({"serviceAccount": "robot"}), "spec.serviceAccount: \"robot\" is not a service account"),
        ] {
            let members = members.as_object().expect("members");
            let error = Sidecar::parse_members(members).expect_err(text).below(&spec);
            assert!(error.starts_with(text), "{error}");
        }
        let numbers =
            json!({"grants": {"watches": [{"apiGroups": [""], "resources": ["pods"], "namespaces": [123]}]}});
        let sidecar = Sidecar::parse_members(numbers.as_object().expect("members")).expect("as in a file");
        assert_eq!(sidecar.grants.watches.expect("rules")[0].namespaces, ["123"]);
    }

    #[test]
    fn an_oversized_sidecar_is_refused() {
        let bomb =
            (1..9).fold("config:\n  a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned(), |text, level| {
                let again = vec![format!("*a{}", level - 1); 9].join(", ");
                format!("{text}  a{level}: &a{level} [{again}]\n")
            });
        for (text, problem) in [
            (format!("config: {{a: \"{}\"}}", "x".repeat(MAX_SIDECAR)), "may have 1048576"),
            (format!("config: {}", "[".repeat(5000)), "line"),
            (format!("config: {{a: {}1{}}}", "[".repeat(80), "]".repeat(80)), "line"),
            (bomb, "line"),
            (format!("grants: {{http: [{}]}}", vec!["a.example.com"; 257].join(", ")), "257 hosts"),
            (format!("grants: {{writes: [{}]}}", vec!["{verbs: [get]}"; 257].join(", ")), "257 rules"),
            (format!("grants: {{writes: [{{verbs: [{}]}}]}}", vec!["get"; 257].join(", ")), "257 entries"),
            (
                format!(
                    "grants: {{watches: [{{apiGroups: [a], resources: [{}]}}]}}",
                    vec!["b"; 257].join(", ")
                ),
                "257 entries in one list",
            ),
        ] {
            let error = Sidecar::parse(&text).expect_err(problem).to_string();
            assert!(error.contains(problem), "{problem}: {error}");
            assert!(!error.contains('\n') && error.len() < 1000, "{error:.1000}");
        }
    }
}
