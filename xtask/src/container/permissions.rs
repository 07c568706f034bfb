//! Compares the permissions of a service account with the requests that it sent. Pure.

use std::fmt;

use serde_json::Value;

/// One verb on one resource or path that a role allows the account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Permission {
    /// The role, as `Role NAMESPACE/NAME` or `ClusterRole NAME`.
    role: String,
    /// The namespace to which the binding limits the permission.
    namespace: Option<String>,
    verb: String,
    target: Target,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Target {
    Resource {
        group: String,
        /// With the subresource, if there is one, after a slash.
        resource: String,
        /// The only object, if the rule names objects.
        name: Option<String>,
    },
    Path(String),
}

/// A request in the audit log.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request {
    verb: String,
    group: String,
    resource: String,
    namespace: String,
    name: String,
    uri: String,
    code: u64,
}

/// A permission that the test need not use.
pub(super) struct Unused {
    pub(super) verb: &'static str,
    /// The resource, or `*` for all.
    pub(super) resource: &'static str,
    pub(super) reason: &'static str,
}

impl Request {
    /// Returns the requests of a user in an audit log, without those in which it impersonated another one.
    pub(super) fn parse_log(log: &str, user: &str) -> Vec<Self> {
        // The last line may be incomplete while the server runs.
        let events = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let of_user =
            events.filter(|event| event["user"]["username"] == user && event["impersonatedUser"].is_null());
        of_user.map(|event| Self::parse(&event)).collect()
    }

    fn parse(event: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let object = &event["objectRef"];
        let mut resource = text(&object["resource"]);
        if let Some(subresource) = object["subresource"].as_str() {
            resource = format!("{resource}/{subresource}");
        }
        Self {
            verb: text(&event["verb"]),
            group: text(&object["apiGroup"]),
            resource,
            namespace: text(&object["namespace"]),
            name: text(&object["name"]),
            uri: text(&event["requestURI"]),
            code: event["responseStatus"]["code"].as_u64().unwrap_or_default(),
        }
    }

    /// Whether the server has refused the request for want of a permission.
    pub(super) fn is_forbidden(&self) -> bool {
        self.code == 403
    }

    /// Whether the server has checked this verb for the request. A patch that creates an object needs `create`, too.
    fn needs(&self, verb: &str) -> bool {
        self.verb == verb || (verb == "create" && self.code == 201)
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.verb, self.uri, self.code)
    }
}

impl Permission {
    /// Returns the permissions of the rules of a role, which a binding in `namespace`, or in none, grants.
    pub(super) fn of_rules(role: &str, namespace: Option<&str>, rules: &Value) -> Vec<Self> {
        let mut permissions = Vec::new();
        for rule in rules.as_array().into_iter().flatten() {
            let list = |name: &str| {
                let texts = rule[name].as_array().into_iter().flatten().filter_map(Value::as_str);
                texts.map(str::to_owned).collect::<Vec<_>>()
            };
            let names: Vec<Option<String>> = match &list("resourceNames")[..] {
                [] => vec![None],
                names => names.iter().cloned().map(Some).collect(),
            };
            let mut targets: Vec<Target> = list("nonResourceURLs").into_iter().map(Target::Path).collect();
            for group in list("apiGroups") {
                for resource in list("resources") {
                    let (group, resource) = (&group, &resource);
                    targets.extend(names.iter().map(|name| Target::Resource {
                        group: group.clone(),
                        resource: resource.clone(),
                        name: name.clone(),
                    }));
                }
            }
            for verb in list("verbs") {
                permissions.extend(targets.iter().map(|target| Self {
                    role: role.to_owned(),
                    namespace: namespace.map(str::to_owned),
                    verb: verb.clone(),
                    target: target.clone(),
                }));
            }
        }
        permissions
    }

    /// Whether the permission allows what the request needed. Wildcards are not supported: the chart has none.
    fn is_used_by(&self, request: &Request) -> bool {
        let Self { namespace, verb, target, .. } = self;
        let is_target = match target {
            Target::Path(path) => request.resource.is_empty() && request.uri.split('?').next() == Some(path),
            Target::Resource { group, resource, name } => {
                // As in RBAC, a rule that names objects does not allow requests for a collection, which have no name.
                let is_object = name.as_ref().is_none_or(|name| *name == request.name);
                *group == request.group && *resource == request.resource && is_object
            }
        };
        let is_namespace = namespace.as_ref().is_none_or(|namespace| *namespace == request.namespace);
        is_target && is_namespace && !request.is_forbidden() && request.needs(verb)
    }

    fn is_explained_by(&self, unused: &Unused) -> bool {
        let is_resource = match &self.target {
            Target::Resource { resource, .. } => unused.resource == "*" || unused.resource == resource,
            Target::Path(path) => unused.resource == path,
        };
        self.verb == unused.verb && is_resource
    }
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.target {
            Target::Path(path) => write!(f, "{} {path} of {}", self.verb, self.role),
            Target::Resource { group, resource, name } => {
                write!(f, "{} {resource}", self.verb)?;
                if !group.is_empty() {
                    write!(f, ".{group}")?;
                }
                if let Some(name) = name {
                    write!(f, " {name:?}")?;
                }
                write!(f, " of {}", self.role)
            }
        }
    }
}

/// What the comparison found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Findings {
    /// Permissions that no request used, and that are not explained.
    pub(super) unused: Vec<String>,
    /// Permissions that no request used, with the reason.
    pub(super) explained: Vec<String>,
    /// Explanations of permissions that were used, or that no role has.
    pub(super) outdated: Vec<String>,
    /// Requests that the server refused for want of a permission.
    pub(super) forbidden: Vec<String>,
}

/// Compares the permissions with the requests.
pub(super) fn compare(permissions: &[Permission], requests: &[Request], explanations: &[Unused]) -> Findings {
    let mut findings = Findings::default();
    let mut is_needed = vec![false; explanations.len()];
    for permission in permissions {
        if requests.iter().any(|request| permission.is_used_by(request)) {
            continue;
        }
        match explanations.iter().position(|unused| permission.is_explained_by(unused)) {
            Some(position) => {
                is_needed[position] = true;
                findings.explained.push(format!("{permission}: {}", explanations[position].reason));
            }
            None => findings.unused.push(permission.to_string()),
        }
    }
    let outdated = explanations.iter().zip(is_needed).filter(|(_, is_needed)| !is_needed);
    findings.outdated.extend(outdated.map(|(unused, _)| format!("{} {}", unused.verb, unused.resource)));
    findings
        .forbidden
        .extend(requests.iter().filter(|request| request.is_forbidden()).map(Request::to_string));
    findings
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(user: &str, verb: &str, object: &Value, code: u16) -> Value {
        json!({
            "verb": verb, "user": {"username": user}, "requestURI": "/version?a=b", "objectRef": object,
            "responseStatus": {"code": code},
        })
    }

    fn requests(events: &[Value]) -> Vec<Request> {
        let lines: Vec<String> = events.iter().map(Value::to_string).collect();
        Request::parse_log(&format!("{}\n{{\"verb\":", lines.join("\n")), "me")
    }

    fn compared(rules: &Value, namespace: Option<&str>, events: &[Value]) -> Findings {
        let permissions = Permission::of_rules("ClusterRole r", namespace, rules);
        compare(&permissions, &requests(events), &[])
    }

    #[test]
    fn a_permission_that_no_request_needed_is_unused() {
        let rules = json!([
            {"apiGroups": ["apps"], "resources": ["deployments", "deployments/status"], "verbs": ["get", "update"]},
            {"nonResourceURLs": ["/version", "/healthz"], "verbs": ["get"]},
        ]);
        let object = json!({"apiGroup": "apps", "resource": "deployments", "namespace": "shop", "name": "a"});
        let status = json!({"apiGroup": "apps", "resource": "deployments", "subresource": "status"});
        let found = compared(
            &rules,
            None,
            &[
                event("me", "get", &object, 200),
                event("me", "update", &status, 409),
                event("other", "update", &object, 200),
                event("me", "get", &Value::Null, 200),
            ],
        );
        let expected = ["get deployments/status.apps", "update deployments.apps", "get /healthz"];
        assert_eq!(found.unused, expected.map(|text| format!("{text} of ClusterRole r")));
        assert!(found.forbidden.is_empty());
    }

    #[test]
    fn a_binding_in_a_namespace_is_used_there_only() {
        let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]);
        let list = |namespace: &str| {
            event("me", "list", &json!({"resource": "configmaps", "namespace": namespace}), 200)
        };
        assert_eq!(compared(&rules, Some("shop"), &[list("shop")]).unused, Vec::<String>::new());
        assert_eq!(compared(&rules, Some("shop"), &[list("other")]).unused.len(), 1);
    }

    #[test]
    fn a_patch_that_creates_an_object_uses_both_verbs() {
        let rules = json!([
            {"apiGroups": ["a"], "resources": ["crds"], "resourceNames": ["x", "y"], "verbs": ["create", "patch"]},
        ]);
        let object = json!({"apiGroup": "a", "resource": "crds", "name": "x"});
        let found = compared(&rules, None, &[event("me", "patch", &object, 201)]);
        let unused = ["create crds.a \"y\" of ClusterRole r", "patch crds.a \"y\" of ClusterRole r"];
        assert_eq!(found.unused, unused);
    }

    #[test]
    fn a_refused_request_uses_nothing_and_is_reported() {
        let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
        let found = compared(&rules, None, &[event("me", "get", &json!({"resource": "pods"}), 403)]);
        assert_eq!(
            (found.unused.len(), &found.forbidden[..]),
            (1, &["get /version?a=b: 403".to_owned()][..])
        );
    }

    #[test]
    fn explanations_apply_to_unused_permissions_only() {
        let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}]);
        let permissions = Permission::of_rules("Role a/r", Some("a"), &rules);
        let watch = json!({"resource": "pods", "namespace": "a"});
        let requests = requests(&[event("me", "watch", &watch, 200)]);
        let explanation = |verb, resource| Unused { verb, resource, reason: "why" };
        let explanations =
            [explanation("list", "*"), explanation("watch", "pods"), explanation("get", "nodes")];
        let found = compare(&permissions, &requests, &explanations);
        assert_eq!(found.unused, ["get pods of Role a/r"]);
        assert_eq!(found.explained, ["list pods of Role a/r: why"]);
        assert_eq!(found.outdated, ["watch pods", "get nodes"]);
    }
}
