//! Which writes a webhook or a policy is for: rules, selectors and `matchPolicy`.

use std::sync::Arc;

use pilothouse_model::LabelSelector;
use serde_json::Value;

use super::request::{Objects, Operation, WriteRequest};
use super::rules::Rule;
use crate::registry::{Endpoint, Registry};
use crate::status::{ResourceRef, Status};
use crate::storage::Table;

/// The resource of the error for a namespace that does not exist.
const NAMESPACES: ResourceRef<'static> = ResourceRef { group: "", plural: "namespaces", kind: "Namespace" };

/// The conditions on a write, apart from CEL.
#[derive(Clone, Debug)]
pub(crate) struct Criteria {
    namespaces: LabelSelector,
    objects: LabelSelector,
    /// `None` matches every resource.
    rules: Option<Vec<Rule>>,
    excluded: Vec<Rule>,
    /// Whether a rule also matches a write to another version or group of the same objects.
    matches_equivalents: bool,
}

/// The version in which a matching webhook or policy sees the objects.
#[derive(Clone, Debug)]
pub(crate) enum MatchedVersion {
    /// That of the request.
    Requested,
    /// Another one of the same objects, which a rule named.
    Equivalent(Arc<Endpoint>),
}

impl MatchedVersion {
    /// Returns the endpoint of this version.
    pub(crate) fn endpoint<'a>(&'a self, requested: &'a Endpoint) -> &'a Endpoint {
        match self {
            Self::Requested => requested,
            Self::Equivalent(endpoint) => endpoint,
        }
    }

    /// Converts an object of the write from the requested version to this one.
    ///
    /// # Errors
    /// A conversion webhook failed.
    pub(crate) async fn convert(
        &self,
        write: &WriteRequest<'_>,
        object: Option<&Value>,
    ) -> Result<Option<Value>, Status> {
        let Some(object) = object.cloned() else { return Ok(None) };
        match self.other_version(write) {
            Some(endpoint) => convert(write.endpoint, endpoint, object).await.map(Some),
            None => Ok(Some(object)),
        }
    }

    /// Converts an object of the write from this version to the requested one.
    ///
    /// # Errors
    /// A conversion webhook failed.
    pub(crate) async fn convert_back(
        &self,
        write: &WriteRequest<'_>,
        object: Value,
    ) -> Result<Value, Status> {
        match self.other_version(write) {
            Some(endpoint) => convert(endpoint, write.endpoint, object).await,
            None => Ok(object),
        }
    }

    /// Returns the endpoint of this version, if the objects of the write need conversion for it.
    fn other_version(&self, write: &WriteRequest<'_>) -> Option<&Endpoint> {
        match self {
            Self::Equivalent(endpoint) if !write.has_own_kind() => Some(endpoint),
            _ => None,
        }
    }
}

async fn convert(from: &Endpoint, to: &Endpoint, object: Value) -> Result<Value, Status> {
    let Some(webhook) = &to.webhook else { return Ok(to.to_served(from.to_stored(object))) };
    let converted = webhook.convert(std::slice::from_ref(&object), &to.api_version).await?;
    Ok(converted.into_iter().next().unwrap_or_default())
}

impl Criteria {
    /// Reads the criteria of a webhook.
    pub(crate) fn of_webhook(webhook: &Value) -> Result<Self, String> {
        Self::parse(webhook, Some(Rule::parse_all(&webhook["rules"])))
    }

    /// Reads the `matchConstraints` of a policy, or the `matchResources` of a binding. Without rules, they match every resource.
    pub(crate) fn of_policy(resources: &Value) -> Result<Self, String> {
        let rules = Rule::parse_all(&resources["resourceRules"]);
        Self::parse(resources, (!rules.is_empty()).then_some(rules))
    }

    fn parse(source: &Value, rules: Option<Vec<Rule>>) -> Result<Self, String> {
        let selector =
            |name: &str| LabelSelector::from_json(&source[name]).map_err(|error| format!("{name}: {error}"));
        Ok(Self {
            namespaces: selector("namespaceSelector")?,
            objects: selector("objectSelector")?,
            rules,
            excluded: Rule::parse_all(&source["excludeResourceRules"]),
            matches_equivalents: source["matchPolicy"] != "Exact",
        })
    }

    /// Returns the version to use, or `None` if the write does not match.
    ///
    /// # Errors
    /// The write matches, but its namespace does not exist.
    pub(crate) fn matches(
        &self,
        write: &WriteRequest<'_>,
        objects: Objects<'_>,
        registry: &Registry,
        namespaces: &Table,
    ) -> Result<Option<MatchedVersion>, Status> {
        let in_namespace = self.matches_namespace(write, objects, namespaces);
        if matches!(in_namespace, Ok(false)) || !self.matches_object(objects) {
            return Ok(None);
        }
        if self.find(&self.excluded, write, registry).is_some() {
            return Ok(None);
        }
        let matched = match &self.rules {
            None => Some(MatchedVersion::Requested),
            Some(rules) => self.find(rules, write, registry),
        };
        // An error of the selector matters only to writes that match otherwise.
        if matched.is_some() {
            in_namespace?;
        }
        Ok(matched)
    }

    fn find(&self, rules: &[Rule], write: &WriteRequest<'_>, registry: &Registry) -> Option<MatchedVersion> {
        let target = write.rule_target(write.endpoint);
        if rules.iter().any(|rule| rule.matches(&target)) {
            return Some(MatchedVersion::Requested);
        }
        if !self.matches_equivalents || rules.is_empty() {
            return None;
        }
        let mut equivalents = write.equivalents(registry);
        let found = equivalents.find(|endpoint| {
            let target = write.rule_target(endpoint);
            rules.iter().any(|rule| rule.matches(&target))
        })?;
        Some(MatchedVersion::Equivalent(Arc::clone(found)))
    }

    fn matches_namespace(
        &self,
        write: &WriteRequest<'_>,
        objects: Objects<'_>,
        namespaces: &Table,
    ) -> Result<bool, Status> {
        let is_namespace = write.endpoint.is_core("namespaces");
        let name = write.request_namespace();
        if self.namespaces.is_empty() || (name.is_empty() && !is_namespace) {
            return Ok(true);
        }
        // The labels of a namespace that is being written are those that it will have.
        if is_namespace && write.subresource.is_empty() && write.operation != Operation::Delete {
            return Ok(objects.new.is_some_and(|object| has_labels(&self.namespaces, object)));
        }
        match namespaces.get("", name) {
            Some(found) => Ok(self.namespaces.matches(|key| found.labels.get(key).cloned())),
            None => Err(Status::not_found(NAMESPACES, name)),
        }
    }

    fn matches_object(&self, objects: Objects<'_>) -> bool {
        self.objects.is_empty()
            || [objects.new, objects.old]
                .into_iter()
                .flatten()
                .any(|object| has_labels(&self.objects, object))
    }
}

fn has_labels(selector: &LabelSelector, object: &Value) -> bool {
    selector.matches(|key| object["metadata"]["labels"][key].as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::storage::{HistoryLimits, ObjectDraft, Storage};

    struct World {
        storage: Storage,
        registry: Registry,
    }

    fn world() -> World {
        let storage = Storage::new(HistoryLimits { events: 10, bytes: 1 << 20 }, 1);
        let registry = Registry::built_in(&storage);
        for (name, labels) in [("default", json!({})), ("labelled", json!({"team": "a"}))] {
            let value = json!({"metadata": {"name": name, "labels": labels}});
            let draft = ObjectDraft { value, fields: Box::default(), schema: 0 };
            storage.table("", "namespaces").create(draft).expect("new");
        }
        World { storage, registry }
    }

    impl World {
        /// Whether a webhook matches the creation of a ConfigMap in a namespace.
        fn matches(&self, webhook: &Value, namespace: &str, labels: &Value) -> Result<bool, Status> {
            let endpoint = self.registry.endpoint("", "v1", "configmaps").expect("built in");
            let write = WriteRequest {
                operation: Operation::Create,
                endpoint,
                subresource: "",
                namespace,
                name: "a",
                dry_run: false,
            };
            let object = json!({"metadata": {"name": "a", "labels": labels}});
            let objects = Objects { new: Some(&object), old: None };
            let criteria = Criteria::of_webhook(webhook).expect("criteria");
            let namespaces = self.storage.table("", "namespaces");
            criteria.matches(&write, objects, &self.registry, &namespaces).map(|matched| matched.is_some())
        }
    }

    fn webhook(extra: &Value) -> Value {
        let mut webhook = json!({"rules": [{
            "operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
        }]});
        for (name, value) in extra.as_object().into_iter().flatten() {
            webhook[name] = value.clone();
        }
        webhook
    }

    #[test]
    fn selectors_limit_a_webhook_to_namespaces_and_objects() {
        let world = world();
        let team = json!({"matchLabels": {"team": "a"}});
        let by_namespace = webhook(&json!({"namespaceSelector": team}));
        assert_eq!(world.matches(&by_namespace, "labelled", &json!({})), Ok(true));
        assert_eq!(world.matches(&by_namespace, "default", &json!({"team": "a"})), Ok(false));
        let by_object = webhook(&json!({"objectSelector": team}));
        assert_eq!(world.matches(&by_object, "default", &json!({"team": "a"})), Ok(true));
        assert_eq!(world.matches(&by_object, "labelled", &json!({})), Ok(false));
        assert_eq!(world.matches(&webhook(&json!({})), "default", &json!({})), Ok(true));
    }

    #[test]
    fn missing_namespace_is_an_error_only_for_writes_that_match_otherwise() {
        let world = world();
        let selector = json!({"matchLabels": {"team": "a"}});
        let matching = webhook(&json!({"namespaceSelector": selector}));
        assert_eq!(world.matches(&matching, "none", &json!({})).map_err(|status| status.code), Err(404));
        let other = webhook(&json!({"namespaceSelector": selector, "rules": []}));
        assert_eq!(world.matches(&other, "none", &json!({})), Ok(false));
    }

    #[test]
    fn excluded_rules_win() {
        let world = world();
        let excluded = webhook(&json!({"excludeResourceRules": [{
            "operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"],
        }]}));
        assert_eq!(world.matches(&excluded, "default", &json!({})), Ok(false));
    }

    #[test]
    fn rules_of_another_version_match_unless_the_policy_is_exact() {
        let world = world();
        let endpoint = world.registry.endpoint("autoscaling", "v1", "horizontalpodautoscalers");
        let write = WriteRequest {
            operation: Operation::Create,
            endpoint: endpoint.expect("built in"),
            subresource: "",
            namespace: "default",
            name: "a",
            dry_run: false,
        };
        let object = json!({"metadata": {"name": "a"}});
        let objects = Objects { new: Some(&object), old: None };
        let namespaces = world.storage.table("", "namespaces");
        let version = |policy: &str| {
            let webhook = json!({"matchPolicy": policy, "rules": [{
                "operations": ["CREATE"], "apiGroups": ["autoscaling"], "apiVersions": ["v2"],
                "resources": ["horizontalpodautoscalers"],
            }]});
            let criteria = Criteria::of_webhook(&webhook).expect("criteria");
            let matched = criteria.matches(&write, objects, &world.registry, &namespaces).expect("no error");
            matched.map(|version| version.endpoint(write.endpoint).version.clone())
        };
        assert_eq!(version("Equivalent"), Some("v2".to_owned()));
        assert_eq!(version("Exact"), None);
    }
}
