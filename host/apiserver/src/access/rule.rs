//! RBAC rules.

use std::fmt;

use serde_json::{Map, Value, json};

use super::attributes::{Attributes, RequestKind, ResourceAttributes};

const ALL: &str = "*";

/// `rbac.authorization.k8s.io/v1 PolicyRule`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PolicyRule {
    pub verbs: Vec<String>,
    pub groups: Vec<String>,
    pub resources: Vec<String>,
    /// Resource names.
    pub names: Vec<String>,
    /// Non-resource URLs; a rule has either these or resources.
    pub paths: Vec<String>,
}

impl PolicyRule {
    /// Parses the `rules` of a role.
    pub(crate) fn parse_all(rules: &Value) -> Vec<Self> {
        rules.as_array().into_iter().flatten().map(Self::parse).collect()
    }

    fn parse(rule: &Value) -> Self {
        let list = |name: &str| {
            let items = rule[name].as_array().into_iter().flatten();
            items.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        Self {
            verbs: list("verbs"),
            groups: list("apiGroups"),
            resources: list("resources"),
            names: list("resourceNames"),
            paths: list("nonResourceURLs"),
        }
    }

    /// Returns the rule as JSON.
    pub(crate) fn to_value(&self) -> Value {
        let mut value = Map::new();
        for (name, list) in [
            ("apiGroups", &self.groups),
            ("nonResourceURLs", &self.paths),
            ("resourceNames", &self.names),
            ("resources", &self.resources),
            ("verbs", &self.verbs),
        ] {
            if !list.is_empty() {
                value.insert(name.into(), json!(list));
            }
        }
        Value::Object(value)
    }

    /// Returns the rules of `cluster-admin`, which allow everything.
    pub(crate) fn cluster_admin() -> [Self; 2] {
        let all = || vec![ALL.to_owned()];
        [
            Self { verbs: all(), groups: all(), resources: all(), ..Self::default() },
            Self { verbs: all(), paths: all(), ..Self::default() },
        ]
    }

    /// Whether the rule allows a request with these attributes.
    pub(super) fn allows(&self, attributes: &Attributes<'_>) -> bool {
        has(&self.verbs, &attributes.verb)
            && match &attributes.kind {
                RequestKind::NonResource(path) => self.paths.iter().any(|rule| path_covers(rule, path)),
                RequestKind::Resource(target) => {
                    has(&self.groups, &target.group)
                        && (self.names.is_empty() || self.names.iter().any(|name| *name == *target.name))
                        && self.allows_resource(target)
                }
            }
    }

    fn allows_resource(&self, target: &ResourceAttributes<'_>) -> bool {
        // A review may have the subresource in its resource, too.
        let requested = match &*target.subresource {
            "" => target.resource.to_string(),
            subresource => format!("{}/{subresource}", target.resource),
        };
        self.resources.iter().any(|rule| {
            let is_of_any = || {
                rule.strip_prefix("*/").is_some_and(|rule| !rule.is_empty() && *rule == *target.subresource)
            };
            rule == ALL || *rule == requested || is_of_any()
        })
    }

    /// Whether this rule alone grants everything that `other` grants.
    pub(super) fn covers(&self, other: &Self) -> bool {
        let all = |mine: &[String], theirs: &[String]| theirs.iter().all(|one| has(mine, one));
        let names = match other.names.as_slice() {
            [] => self.names.is_empty(),
            theirs => self.names.is_empty() || theirs.iter().all(|name| self.names.contains(name)),
        };
        names
            && all(&self.verbs, &other.verbs)
            && all(&self.groups, &other.groups)
            && other.resources.iter().all(|resource| self.covers_resource(resource))
            && other.paths.iter().all(|path| self.paths.iter().any(|mine| path_covers(mine, path)))
    }

    fn covers_resource(&self, resource: &str) -> bool {
        has(&self.resources, resource)
            || resource.split_once('/').is_some_and(|(_, subresource)| {
                self.resources.iter().any(|mine| mine.strip_prefix("*/") == Some(subresource))
            })
    }

    /// Splits the rule into rules that each name one verb and one resource or path.
    pub(super) fn split(&self) -> Vec<Self> {
        let mut parts = Vec::new();
        for verb in &self.verbs {
            let of = |text: &String| vec![text.clone()];
            for path in &self.paths {
                parts.push(Self { verbs: of(verb), paths: of(path), ..Self::default() });
            }
            for group in &self.groups {
                for resource in &self.resources {
                    let part = Self {
                        verbs: of(verb),
                        groups: of(group),
                        resources: of(resource),
                        ..Self::default()
                    };
                    if self.names.is_empty() {
                        parts.push(part);
                    } else {
                        parts.extend(self.names.iter().map(|name| Self { names: of(name), ..part.clone() }));
                    }
                }
            }
        }
        parts
    }
}

/// Formats the rule as Go does in the error message about an escalation.
impl fmt::Display for PolicyRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lead = "{";
        for (name, list) in [
            ("APIGroups", &self.groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.paths),
            ("ResourceNames", &self.names),
            ("Verbs", &self.verbs),
        ] {
            if !list.is_empty() {
                write!(f, "{lead}{name}:{}", quoted(list))?;
                lead = ", ";
            }
        }
        f.write_str("}")
    }
}

/// Formats a list like Go's `%q`.
pub(super) fn quoted(list: &[String]) -> String {
    let items: Vec<String> = list.iter().map(|item| format!("{item:?}")).collect();
    format!("[{}]", items.join(" "))
}

fn has(list: &[String], value: &str) -> bool {
    list.iter().any(|item| item == ALL || item == value)
}

/// Whether a rule's path, which may end in `*`, covers another path.
fn path_covers(rule: &str, path: &str) -> bool {
    rule == path || (rule.ends_with(ALL) && path.starts_with(rule.trim_end_matches('*')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(value: &Value) -> PolicyRule {
        PolicyRule::parse(value)
    }

    fn pods<'a>(verb: &'a str) -> Attributes<'a> {
        Attributes::resource(verb, "", "pods")
    }

    #[test]
    fn rules_for_resources_and_for_subresources_are_distinct() {
        let of =
            |resources: Value| rule(&json!({"verbs": ["get"], "apiGroups": [""], "resources": resources}));
        let log = pods("get").subresource("log");
        for (resources, plain, with_log) in [
            (json!(["pods"]), true, false),
            (json!(["pods/log"]), false, true),
            (json!(["*/log"]), false, true),
            (json!(["pods/*"]), false, false),
            (json!(["*"]), true, true),
            (json!(["*/scale"]), false, false),
            (json!([]), false, false),
        ] {
            let rule = of(resources.clone());
            assert_eq!((rule.allows(&pods("get")), rule.allows(&log)), (plain, with_log), "{resources}");
        }
    }

    #[test]
    fn rule_with_resource_names_does_not_allow_the_collection() {
        let named = rule(&json!({
            "verbs": ["*"], "apiGroups": ["*"], "resources": ["pods"], "resourceNames": ["a"],
        }));
        assert!(named.allows(&pods("delete").named("a")));
        assert!(!named.allows(&pods("delete").named("b")) && !named.allows(&pods("list")));
    }

    #[test]
    fn path_ending_in_a_star_matches_by_prefix() {
        let rule = rule(&json!({"verbs": ["get"], "nonResourceURLs": ["/healthz", "/api/*"]}));
        for (path, allowed) in [("/healthz", true), ("/healthz/x", false), ("/api/v1", true), ("/api", false)]
        {
            assert_eq!(rule.allows(&Attributes::non_resource("get", path)), allowed, "{path}");
        }
        assert!(!rule.allows(&Attributes::non_resource("post", "/healthz")) && !rule.allows(&pods("get")));
    }

    #[test]
    fn rule_covers_exactly_what_it_grants() {
        let of = |names: Value, resources: Value| {
            rule(
                &json!({"verbs": ["get", "list"], "apiGroups": [""], "resources": resources, "resourceNames": names}),
            )
        };
        let all = of(json!([]), json!(["pods", "*/log"]));
        let named = of(json!(["a"]), json!(["pods"]));
        assert!(all.covers(&named) && !named.covers(&all));
        assert!(all.covers(&of(json!([]), json!(["pods/log"]))));
        assert!(!all.covers(&of(json!([]), json!(["*"]))));
        assert!(PolicyRule::cluster_admin()[0].covers(&all) && !PolicyRule::cluster_admin()[1].covers(&all));
        assert_eq!(all.split().len(), 4);
    }

    #[test]
    fn rule_is_formatted_as_in_go() {
        let text =
            rule(&json!({"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]})).to_string();
        assert_eq!(text, r#"{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}"#);
    }
}
