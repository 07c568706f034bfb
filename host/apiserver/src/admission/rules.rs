//! Which requests a rule matches, after `k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules`.

use serde_json::Value;

/// A `RuleWithOperations`, or a `NamedRuleWithOperations` of a policy.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    resources: Vec<String>,
    scope: Scope,
    /// The names of objects that the rule matches; empty for all.
    names: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Scope {
    #[default]
    All,
    Cluster,
    Namespaced,
}

/// What rules see of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RuleTarget<'a> {
    pub operation: &'a str,
    pub group: &'a str,
    pub version: &'a str,
    pub resource: &'a str,
    pub subresource: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
}

impl Rule {
    /// Reads a rule that was validated when it was written.
    pub(crate) fn parse(rule: &Value) -> Self {
        let texts = |name: &str| texts(&rule[name]);
        Self {
            operations: texts("operations"),
            groups: texts("apiGroups"),
            versions: texts("apiVersions"),
            resources: texts("resources"),
            scope: match rule["scope"].as_str() {
                Some("Cluster") => Scope::Cluster,
                Some("Namespaced") => Scope::Namespaced,
                _ => Scope::All,
            },
            names: texts("resourceNames"),
        }
    }

    /// Reads a list of rules.
    pub(crate) fn parse_all(rules: &Value) -> Vec<Self> {
        rules.as_array().into_iter().flatten().map(Self::parse).collect()
    }

    /// Whether the rule matches a request.
    pub(crate) fn matches(&self, target: &RuleTarget<'_>) -> bool {
        self.matches_scope(target)
            && contains(&self.operations, target.operation)
            && contains(&self.groups, target.group)
            && contains(&self.versions, target.version)
            && self.resources.iter().any(|resource| matches_resource(resource, target))
            && (self.names.is_empty() || self.names.iter().any(|name| name == target.name))
    }

    fn matches_scope(&self, target: &RuleTarget<'_>) -> bool {
        // The namespace of a request for a namespace is its own name.
        let is_namespace = target.group.is_empty() && target.resource == "namespaces";
        let is_namespaced = !target.namespace.is_empty() && !is_namespace;
        match self.scope {
            Scope::All => true,
            Scope::Cluster => !is_namespaced,
            Scope::Namespaced => is_namespaced,
        }
    }
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn contains(allowed: &[String], value: &str) -> bool {
    allowed.iter().any(|allowed| allowed == "*" || allowed == value)
}

/// Whether an entry of `resources`, such as `pods`, `pods/status`, `pods/*` or `*/scale`, matches.
fn matches_resource(entry: &str, target: &RuleTarget<'_>) -> bool {
    let (resource, subresource) = entry.split_once('/').unwrap_or((entry, ""));
    (resource == "*" || resource == target.resource)
        && (subresource == "*" || subresource == target.subresource)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const POD: RuleTarget<'static> = RuleTarget {
        operation: "CREATE",
        group: "",
        version: "v1",
        resource: "pods",
        subresource: "",
        namespace: "default",
        name: "a",
    };

    fn rule(changes: &Value) -> Rule {
        let mut rule =
            json!({"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]});
        for (name, value) in changes.as_object().into_iter().flatten() {
            rule[name] = value.clone();
        }
        Rule::parse(&rule)
    }

    #[test]
    fn every_part_of_a_rule_must_match() {
        for (changes, expected) in [
            (json!({}), true),
            (json!({"operations": ["UPDATE", "CREATE"]}), true),
            (json!({"operations": ["DELETE"]}), false),
            (json!({"apiGroups": [""]}), true),
            (json!({"apiGroups": ["apps"]}), false),
            (json!({"apiVersions": ["v1beta1", "v1"]}), true),
            (json!({"apiVersions": ["v2"]}), false),
            (json!({"resources": ["services"]}), false),
            (json!({"resources": []}), false),
            (json!({"scope": "Namespaced"}), true),
            (json!({"scope": "*"}), true),
            (json!({"scope": "Cluster"}), false),
            (json!({"resourceNames": ["a"]}), true),
            (json!({"resourceNames": ["b"]}), false),
        ] {
            assert_eq!(rule(&changes).matches(&POD), expected, "{changes}");
        }
    }

    #[test]
    fn subresources_match_only_if_they_are_named() {
        let status = RuleTarget { subresource: "status", ..POD };
        for (resources, object, subresource) in [
            ("pods", true, false),
            ("*", true, false),
            ("pods/status", false, true),
            ("pods/*", true, true),
            ("*/status", false, true),
            ("*/*", true, true),
            ("pods/scale", false, false),
        ] {
            let rule = rule(&json!({"resources": [resources]}));
            assert_eq!((rule.matches(&POD), rule.matches(&status)), (object, subresource), "{resources}");
        }
    }

    #[test]
    fn namespaces_and_cluster_scoped_objects_have_the_scope_cluster() {
        let namespace = RuleTarget { resource: "namespaces", namespace: "a", ..POD };
        let node = RuleTarget { resource: "nodes", namespace: "", ..POD };
        for target in [namespace, node] {
            assert!(rule(&json!({"scope": "Cluster"})).matches(&target), "{target:?}");
            assert!(!rule(&json!({"scope": "Namespaced"})).matches(&target), "{target:?}");
        }
    }
}
