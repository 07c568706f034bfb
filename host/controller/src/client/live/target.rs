//! The target of a plugin's request: validated, checked against the grants, and only then discovered.

use pilothouse_model::names::{guess_plural, is_dns_1035_label, is_dns_label, is_object_name};
use pilothouse_model::{GroupVersionKind, ObjectKey, ResourceType};
use pilothouse_plugin::{ApiError, Cause, LogLevel, ObjectType, Rule};
use serde::Deserialize;

use super::{LiveClient, MAX_LOGGED_DENIALS};
use crate::client::DiscoveryError;
use crate::client::discovery::Freshness;
use crate::client::write_grants::MissingGrant;
use crate::config::descriptor;
use crate::config::rule_match::AccessRequest;

/// The verb and the target of a request.
#[derive(Clone, Copy)]
pub(super) struct TargetRequest<'a> {
    pub(super) verb: &'static str,
    /// "" for all namespaces and for cluster scope.
    pub(super) namespace: &'a str,
    /// "" for the resource itself.
    pub(super) subresource: &'a str,
}

/// The target of a manifest.
pub(super) struct ManifestTarget {
    /// The resource that the request goes to; for a subresource, its parent.
    pub(super) resource: ResourceType,
    pub(super) key: ObjectKey,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ManifestHead {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    metadata: ManifestMetadata,
}

#[derive(Default, Deserialize)]
struct ManifestMetadata {
    #[serde(default)]
    name: String,
    #[serde(default)]
    namespace: String,
}

impl LiveClient {
    /// Returns the resource of a kind, if the request is granted.
    pub(super) async fn resolve(
        &self,
        target: &ObjectType,
        request: TargetRequest<'_>,
    ) -> Result<ResourceType, ApiError> {
        let kind = type_of(&target.api_version, &target.kind)?;
        request.check()?;
        self.check_grant_before_discovery(&[kind.group()], kind.kind(), request)?;
        let resource =
            self.discovery.resolve(kind, None, Freshness::Cached).await.map_err(discovery_error)?;
        check_scope(&resource, request.namespace, request.verb == "list")?;
        self.check_grant(&resource, request)?;
        Ok(resource)
    }

    /// Returns the target of a manifest, if the request is granted.
    pub(super) async fn resolve_manifest(
        &self,
        text: &str,
        verb: &'static str,
        subresource: &str,
    ) -> Result<ManifestTarget, ApiError> {
        let head: ManifestHead =
            serde_json::from_str(text).map_err(|error| invalid("", &error.to_string()))?;
        for (field, value) in [("apiVersion", &head.api_version), ("kind", &head.kind)] {
            if value.is_empty() {
                return Err(invalid(field, "the manifest must set it"));
            }
        }
        let kind = type_of(&head.api_version, &head.kind)?;
        let request = TargetRequest { verb, namespace: &head.metadata.namespace, subresource };
        request.check()?;
        check_name(&head.metadata.name)?;
        let resource = if subresource.is_empty() {
            self.check_grant_before_discovery(&[kind.group()], kind.kind(), request)?;
            self.discovery.resolve(kind, None, Freshness::Cached).await
        } else {
            // The parent may be in the core group, as for evictions and tokens.
            self.check_grant_before_discovery(&[kind.group(), ""], kind.kind(), request)?;
            self.discovery.parent(kind, subresource).await
        };
        let resource = resource.map_err(discovery_error)?;
        check_scope(&resource, request.namespace, false)?;
        self.check_grant(&resource, request)?;
        let key = ObjectKey::new(&head.metadata.namespace, &head.metadata.name);
        Ok(ManifestTarget { resource, key })
    }

    /// Checks the grants before discovery: no request is sent for what no rule covers.
    fn check_grant_before_discovery(
        &self,
        groups: &[&str],
        kind: &str,
        request: TargetRequest<'_>,
    ) -> Result<(), ApiError> {
        let resource = request.resource(&guess_plural(kind));
        let TargetRequest { verb, namespace, .. } = request;
        let mut missing = None;
        for group in groups {
            let access = AccessRequest { group, resource: &resource, verb, namespace, namespaced: true };
            match self.grants.check_before_discovery(access) {
                Ok(()) => return Ok(()),
                Err(grant) => missing = missing.or(Some(grant)),
            }
        }
        missing.map_or(Ok(()), |missing| Err(self.deny_and_log(missing)))
    }

    /// Checks the grants for the resource that discovery found.
    fn check_grant(&self, resource: &ResourceType, request: TargetRequest<'_>) -> Result<(), ApiError> {
        self.check_grant_quietly(resource, request).map_err(|missing| self.deny_and_log(missing))
    }

    /// Like [`check_grant`](Self::check_grant), but logs nothing: the caller may do without the grant.
    pub(super) fn check_grant_quietly(
        &self,
        resource: &ResourceType,
        request: TargetRequest<'_>,
    ) -> Result<(), MissingGrant> {
        let name = request.resource(&resource.plural);
        let TargetRequest { verb, namespace, .. } = request;
        let (group, namespaced) = (&resource.group, resource.namespaced);
        self.grants.check(AccessRequest { group, resource: &name, verb, namespace, namespaced })
    }

    /// Returns the error for the guest, and logs what the guest cannot know: which of descriptor and sidecar lacks the rule.
    pub(super) fn deny_and_log(&self, missing: MissingGrant) -> ApiError {
        if self.record_denial(&missing.suggestion) {
            let (problem, remedy) = missing.describe(&self.field_manager);
            self.writer.log().failure(
                LogLevel::Warn,
                format_args!("request denied: {problem}"),
                &remedy,
                &[],
            );
        }
        let missing = missing.rule;
        ApiError::Denied(Rule {
            api_groups: missing.api_groups,
            resources: missing.resources,
            verbs: missing.verbs,
            namespaces: missing.namespaces,
        })
    }

    /// Records a missing rule. Returns whether it is to be logged: each rule is logged once, so that a loop of denied requests does not use up the
    /// plugin's log limit.
    fn record_denial(&self, missing: &descriptor::Rule) -> bool {
        let mut logged = self.logged_denials.lock();
        let is_new = logged.len() < MAX_LOGGED_DENIALS && !logged.contains(missing);
        if is_new {
            logged.push(missing.clone());
        }
        is_new
    }
}

impl TargetRequest<'_> {
    fn check(&self) -> Result<(), ApiError> {
        if !(self.subresource.is_empty() || is_dns_1035_label(self.subresource)) {
            return Err(invalid("subresource", "it is not the name of a subresource, such as \"status\""));
        }
        if !(self.namespace.is_empty() || is_dns_label(self.namespace)) {
            return Err(invalid("metadata.namespace", "it is not the name of a namespace"));
        }
        Ok(())
    }

    /// The resource as RBAC rules name it.
    fn resource(&self, plural: &str) -> String {
        match self.subresource {
            "" => plural.to_owned(),
            subresource => format!("{plural}/{subresource}"),
        }
    }
}

pub(super) fn object_path(
    resource: &ResourceType,
    key: &ObjectKey,
    subresource: &str,
) -> Result<String, ApiError> {
    if key.name().is_empty() {
        return Err(invalid("metadata.name", "it is empty"));
    }
    check_name(key.name())?;
    let mut path = resource.object_path(key);
    if !subresource.is_empty() {
        path.push('/');
        path.push_str(subresource);
    }
    Ok(path)
}

fn type_of<'a>(api_version: &'a str, kind: &'a str) -> Result<GroupVersionKind<'a>, ApiError> {
    GroupVersionKind::parse(api_version, kind).map_err(|error| invalid(error.field(), &error.to_string()))
}

/// There is no default namespace: a plugin's own namespace is not that of its objects. Without a namespace
/// the path would be that of all namespaces, which only a list may use.
fn check_scope(resource: &ResourceType, namespace: &str, is_list: bool) -> Result<(), ApiError> {
    if resource.namespaced && namespace.is_empty() && !is_list {
        let message = format!("it is empty, but {resource} are namespaced: name a namespace");
        return Err(invalid("metadata.namespace", &message));
    }
    if !resource.namespaced && !namespace.is_empty() {
        let message = format!("{resource} are cluster-scoped: leave the namespace out");
        return Err(invalid("metadata.namespace", &message));
    }
    Ok(())
}

/// The name may be empty, because a manifest may leave it to the server.
fn check_name(name: &str) -> Result<(), ApiError> {
    if name.is_empty() || is_object_name(name) {
        return Ok(());
    }
    Err(invalid(
        "metadata.name",
        "it cannot name an object: at most 253 bytes, without '/', '%' and control characters, and neither \".\" nor \"..\"",
    ))
}

/// Server-side apply identifies managers by name: with another manager's name, a plugin could take over its
/// fields without a conflict, including the host's and `kubectl`'s. Only names below the plugin's own are
/// allowed; they have a slash, which no plugin's name has.
pub(super) fn check_manager(manager: &str, own: &str) -> Result<(), ApiError> {
    let below = manager.strip_prefix(own).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    // The maximum length is the API server's.
    if below && manager.len() <= 128 && !manager.contains(char::is_control) {
        return Ok(());
    }
    let message = format!("write {own:?}, {own}/ and a name of your own, or leave it out; at most 128 bytes");
    Err(invalid("fieldManager", &message))
}

fn discovery_error(error: DiscoveryError) -> ApiError {
    match error {
        DiscoveryError::NotServed { .. } => ApiError::NotFound(error.to_string()),
        DiscoveryError::Request { source, .. } => source.into_api_error(),
        DiscoveryError::InvalidList { .. } => ApiError::Unavailable(error.to_string()),
    }
}

pub(super) fn invalid(field: &str, message: &str) -> ApiError {
    ApiError::Invalid(vec![Cause {
        field: field.to_owned(),
        reason: "FieldValueInvalid".to_owned(),
        message: message.to_owned(),
    }])
}
