//! `NAME.yaml` beside `NAME.wasm`: what the operator says of a plugin.

use pilothouse_model::names::is_dns_label;
use serde::{Deserialize, Serialize};

use crate::access::ServiceAccount;
use crate::config::descriptor::Rule;
use crate::config::descriptor::bounds::{self, MAX_HTTP_HOSTS, MAX_RULE_ENTRIES, MAX_RULES};
use crate::config::limits::{self, SidecarLimits};
use crate::logs::printable;
use crate::outgoing::{PatternError, parse_patterns};

/// The operator's word on one plugin. Absent members leave the defaults.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Sidecar {
    /// Whether the plugin runs at all.
    #[serde(default)]
    pub enabled: Option<bool>,
    /// Handed to the plugin as JSON, by `describe` and by the import `config`.
    #[serde(default)]
    pub config: serde_json::Map<String, serde_json::Value>,
    /// How many keys are reconciled at the same time; 1 by default, as in controller-runtime.
    #[serde(default)]
    pub workers: Option<u16>,
    /// Limits, which override the plugin's wishes.
    #[serde(default)]
    pub limits: SidecarLimits,
    /// What the plugin may do; absent, all that its descriptor asks for.
    #[serde(default)]
    pub grants: Grants,
    /// The service account that the plugin reads and writes as; absent, the host's own identity.
    #[serde(default)]
    pub service_account: Option<ServiceAccount>,
}

/// What a plugin gets of what its sidecar does not mention, or where it has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum GrantMode {
    /// What its descriptor declares, but for HTTP.
    #[default]
    Declared,
    /// Nothing.
    Explicit,
}

/// What the operator grants, each as a narrowing of the descriptor.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Grants {
    /// What may be watched; absent, all that the descriptor watches.
    #[serde(default)]
    pub watches: Option<Vec<WatchRule>>,
    /// Writes that are allowed, as RBAC rules; absent, those of the descriptor.
    #[serde(default)]
    pub writes: Option<Vec<Rule>>,
    /// Whether the plugin's CRDs may be applied; absent, as the host's mode has it (`dev` does, `run` does not).
    #[serde(default)]
    pub crds: Option<bool>,
    /// Hosts to which the plugin may send HTTP requests, of those that its descriptor asks for; absent, none.
    #[serde(default)]
    pub http: Vec<String>,
}

/// What may be watched: an RBAC rule without verbs, because a watch takes `get`, `list` and `watch` together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WatchRule {
    /// API groups, "" for core, `*` for all.
    pub api_groups: Vec<String>,
    /// Plural names; `*` for all.
    pub resources: Vec<String>,
    /// Namespaces; empty for all, and for kinds that are in none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
}

/// Why a sidecar was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SidecarError {
    /// Not YAML, or not of the sidecar's shape.
    #[error("{0}")]
    Yaml(String),
    /// A limit that cannot be read.
    #[error("limits.{0}")]
    Limits(#[from] limits::LimitError),
    /// A host that cannot be read.
    #[error("grants.http: {0}")]
    Http(#[from] PatternError),
    /// What is no namespace.
    #[error(
        "grants.watches: {0:?} is not the name of a namespace; write a whole name, \"*\" for all, or leave namespaces out"
    )]
    Namespace(String),
    /// No worker at all, or too many.
    #[error(
        "workers: {0} is not between 1 and 64; leave it out for 1, or write enabled: false to stop the plugin"
    )]
    Workers(u16),
    /// More than a bound allows.
    #[error("{member}: there are {count} {what}, and a sidecar may have {bound}")]
    TooMany {
        /// The member.
        member: String,
        /// How many there are.
        count: usize,
        /// Of what.
        what: &'static str,
        /// How many there may be.
        bound: usize,
    },
}

/// Bytes of a sidecar, and of its `config` as JSON.
pub(crate) const MAX_SIDECAR: usize = 1 << 20;

/// Checks how much the sidecar has.
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
    match writes.iter().find_map(bounds::excess) {
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

impl Sidecar {
    /// The plugin's configuration as the JSON text that it gets.
    pub(crate) fn config_json(&self) -> String {
        serde_json::Value::Object(self.config.clone()).to_string()
    }

    /// Parses the YAML text; the empty text is a sidecar that says nothing.
    ///
    /// # Errors
    /// Names the member that is wrong and what belongs there.
    pub fn parse(text: &str) -> Result<Self, SidecarError> {
        let only_comments =
            text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#'));
        if only_comments {
            return Ok(Self::default());
        }
        at_most("the whole", text.len(), MAX_SIDECAR, "bytes")?;
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
        let sidecar: Self = serde_saphyr::from_str_with_options(text, options).map_err(|error| {
            let text = error.to_string();
            // The parser draws the place below its first line; one line is what a log and a status can show.
            let mut line = printable(text.lines().next().unwrap_or_default()).to_string();
            if !line.contains("expected one of") {
                line.push_str("; the members are enabled, config, workers, limits, grants, serviceAccount");
            }
            SidecarError::Yaml(line)
        })?;
        limits::check(&sidecar.limits)?;
        check_bounds(&sidecar)?;
        parse_patterns(&sidecar.grants.http)?;
        // They go into the URLs of the host's own watches.
        let watched = sidecar.grants.watches.iter().flatten().flat_map(|rule| &rule.namespaces);
        if let Some(name) = watched.into_iter().find(|name| !(*name == "*" || is_dns_label(name))) {
            return Err(SidecarError::Namespace(name.clone()));
        }
        match sidecar.workers {
            Some(workers) if !(1..=64).contains(&workers) => Err(SidecarError::Workers(workers)),
            _ => Ok(sidecar),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_members_are_read() {
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
    fn whose_rights_count_and_what_may_be_watched_is_read() {
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
    fn an_empty_sidecar_says_nothing() {
        assert_eq!(Sidecar::parse("# nothing yet\n\n").expect("valid"), Sidecar::default());
    }

    #[test]
    fn each_fault_is_one_line_that_names_the_member() {
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
            ("serviceAccount: robot", "\"robot\" names no service account; write it as NAMESPACE/NAME"),
            ("grants: {watches: [{apiGroups: [''], resources: [pods], verbs: [get]}]}", "verbs"),
            ("grants: {watches: [{resources: [pods]}]}", "apiGroups"),
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

    #[test]
    fn a_sidecar_beyond_a_bound_is_refused() {
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
