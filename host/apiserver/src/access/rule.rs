use std::fmt;

use serde_json::{Map, Value, json};

use super::question::{Question, Target, Topic};

const ALL: &str = "*";

/// `rbac.authorization.k8s.io/v1 PolicyRule`: what may be done to what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rule {
    pub verbs: Vec<String>,
    pub groups: Vec<String>,
    pub resources: Vec<String>,
    pub names: Vec<String>,
    /// Paths that are no resources; a rule has either these or resources.
    pub paths: Vec<String>,
}

impl Rule {
    /// The rules of an object's list.
    pub(crate) fn read_all(rules: &Value) -> Vec<Self> {
        rules.as_array().into_iter().flatten().map(Self::read).collect()
    }

    fn read(rule: &Value) -> Self {
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

    /// The rule as an object has it.
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

    /// The rules of somebody who may do everything.
    pub(crate) fn everything() -> [Self; 2] {
        let all = || vec![ALL.to_owned()];
        [
            Self { verbs: all(), groups: all(), resources: all(), ..Self::default() },
            Self { verbs: all(), paths: all(), ..Self::default() },
        ]
    }

    /// Whether the rule allows this.
    pub(super) fn allows(&self, question: &Question<'_>) -> bool {
        has(&self.verbs, &question.verb)
            && match &question.topic {
                Topic::Path(path) => self.paths.iter().any(|rule| path_covers(rule, path)),
                Topic::Resource(target) => {
                    has(&self.groups, &target.group)
                        && (self.names.is_empty() || self.names.iter().any(|name| *name == *target.name))
                        && self.allows_resource(target)
                }
            }
    }

    fn allows_resource(&self, target: &Target<'_>) -> bool {
        self.resources.iter().any(|rule| match rule.split_once('/') {
            None => rule == ALL || (target.subresource.is_empty() && *rule == *target.resource),
            Some((resource, subresource)) => {
                !target.subresource.is_empty()
                    && *subresource == *target.subresource
                    && (resource == ALL || *resource == *target.resource)
            }
        })
    }

    /// Whether this rule alone grants all that `other` grants.
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

    /// The rule as many that each name one verb and one thing.
    pub(super) fn pieces(&self) -> Vec<Self> {
        let mut pieces = Vec::new();
        for verb in &self.verbs {
            let of = |text: &String| vec![text.clone()];
            for path in &self.paths {
                pieces.push(Self { verbs: of(verb), paths: of(path), ..Self::default() });
            }
            for group in &self.groups {
                for resource in &self.resources {
                    let piece = Self {
                        verbs: of(verb),
                        groups: of(group),
                        resources: of(resource),
                        ..Self::default()
                    };
                    if self.names.is_empty() {
                        pieces.push(piece);
                    } else {
                        pieces
                            .extend(self.names.iter().map(|name| Self { names: of(name), ..piece.clone() }));
                    }
                }
            }
        }
        pieces
    }
}

/// As Go prints it in the message about an escalation.
impl fmt::Display for Rule {
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

/// A list as Go's `%q` prints it.
pub(super) fn quoted(list: &[String]) -> String {
    let items: Vec<String> = list.iter().map(|item| format!("{item:?}")).collect();
    format!("[{}]", items.join(" "))
}

fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|item| item == ALL || item == wanted)
}

/// Whether a rule's path, which may end in `*`, covers another.
fn path_covers(rule: &str, path: &str) -> bool {
    rule == path || (rule.ends_with(ALL) && path.starts_with(rule.trim_end_matches('*')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(value: &Value) -> Rule {
        Rule::read(value)
    }

    fn pods<'a>(verb: &'a str) -> Question<'a> {
        Question::resource(verb, "", "pods")
    }

    #[test]
    fn resources_and_subresources_are_different_things() {
        let of =
            |resources: Value| rule(&json!({"verbs": ["get"], "apiGroups": [""], "resources": resources}));
        let log = pods("get").below("log");
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
    fn names_restrict_and_a_collection_has_none() {
        let named = rule(&json!({
            "verbs": ["*"], "apiGroups": ["*"], "resources": ["pods"], "resourceNames": ["a"],
        }));
        assert!(named.allows(&pods("delete").named("a")));
        assert!(!named.allows(&pods("delete").named("b")) && !named.allows(&pods("list")));
    }

    #[test]
    fn paths_may_end_in_a_star() {
        let rule = rule(&json!({"verbs": ["get"], "nonResourceURLs": ["/healthz", "/api/*"]}));
        for (path, allowed) in [("/healthz", true), ("/healthz/x", false), ("/api/v1", true), ("/api", false)]
        {
            assert_eq!(rule.allows(&Question::path("get", path)), allowed, "{path}");
        }
        assert!(!rule.allows(&Question::path("post", "/healthz")) && !rule.allows(&pods("get")));
    }

    #[test]
    fn a_rule_covers_what_it_grants_and_no_more() {
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
        assert!(Rule::everything()[0].covers(&all) && !Rule::everything()[1].covers(&all));
        assert_eq!(all.pieces().len(), 4);
    }

    #[test]
    fn a_rule_is_shown_as_go_shows_it() {
        let shown =
            rule(&json!({"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]})).to_string();
        assert_eq!(shown, r#"{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}"#);
    }
}
