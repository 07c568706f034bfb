//! The versions of a kind in which managers have written, as `versionconverter.go` of `k8s.io/apimachinery/pkg/util/managedfields` treats them.

use std::sync::Arc;

use serde_json::Value;

use super::diff::{self, Changes};
use super::managed::Managers;
use super::{ApplyError, Writer, typed};
use crate::schema::Schema;

/// The versions of the written kind.
#[derive(Clone, Copy, Debug)]
pub enum Versions<'a> {
    /// Those of a built-in kind of this name. They differ in `apiVersion` only, as far as fields are concerned.
    BuiltIn(&'a str),
    /// Those of a custom kind.
    Custom(&'a CustomVersions),
}

/// The versions of a custom kind, including those that are not served.
#[derive(Debug)]
pub struct CustomVersions {
    /// The kind's name.
    pub kind: String,
    /// The API versions, such as `example.com/v1`, with their schemas.
    pub schemas: Vec<(String, Arc<Schema>)>,
    /// Whether a webhook converts between the versions. Objects are then compared in the version of the write.
    pub by_webhook: bool,
}

/// What is known of an API version.
enum Version<'a> {
    /// Objects have the same fields as in the version of the write.
    Same,
    /// Objects differ in `apiVersion` only, and must fit this schema.
    Other(&'a Schema),
    /// A built-in kind does not have the version. Its managers are forgotten.
    Missing,
    /// A custom kind does not have the version. Objects cannot be converted to it.
    Invalid(String),
}

impl<'a> Writer<'a> {
    fn version(&self, api_version: &str) -> Version<'a> {
        if api_version == self.api_version {
            return Version::Same;
        }
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        match self.versions {
            Versions::BuiltIn(kind) if Schema::builtin(group, version, kind).is_some() => Version::Same,
            Versions::BuiltIn(_) => Version::Missing,
            Versions::Custom(versions) => match versions.schema(api_version) {
                Some(_) if versions.by_webhook => Version::Same,
                Some(schema) => Version::Other(schema),
                None => Version::Invalid(self.invalid_version(versions, api_version)),
            },
        }
    }

    fn invalid_version(&self, versions: &CustomVersions, api_version: &str) -> String {
        let group = |api_version: &str| api_version.rsplit_once('/').map(|(group, _)| group.to_owned());
        if group(api_version) == group(self.api_version) {
            return format!("request to convert CR to an invalid group/version: {api_version}");
        }
        format!(
            "{}, Kind={} is unstructured and is not suitable for converting to {api_version:?}",
            self.api_version, versions.kind
        )
    }

    /// Returns what is wrong if an object cannot be converted to the version of a manager.
    fn conversion_error(&self, object: &Value, api_version: &str) -> Option<String> {
        match self.version(api_version) {
            Version::Same | Version::Missing => None,
            Version::Invalid(problem) => Some(problem),
            Version::Other(schema) => {
                typed::check_with_duplicates(schema, object).err().map(|error| error.to_string())
            }
        }
    }
}

impl CustomVersions {
    fn schema(&self, api_version: &str) -> Option<&Schema> {
        let found = self.schemas.iter().find(|(known, _)| known == api_version);
        found.map(|(_, schema)| schema.as_ref())
    }
}

/// Forgets the managers of versions that a built-in kind does not have.
///
/// # Errors
/// The live object cannot be converted to the version of a manager, because it has a field that the version does not declare, or the custom kind
/// does not have the version any more.
pub(super) fn reconcile(
    managers: &mut Managers,
    live: &Value,
    writer: &Writer<'_>,
) -> Result<(), ApplyError> {
    managers.retain(|manager| !matches!(writer.version(&manager.api_version), Version::Missing));
    for manager in managers.managers() {
        if let Some(problem) = writer.conversion_error(live, &manager.api_version) {
            return Err(ApplyError::Unconvertible(problem));
        }
    }
    Ok(())
}

/// Errors if the result of an apply cannot be converted to the version of a manager. `last_version` is the one in which the writer applied before.
pub(super) fn check_merged(
    managers: &Managers,
    merged: &Value,
    writer: &Writer<'_>,
    last_version: Option<&str>,
) -> Result<(), ApplyError> {
    if let Some(problem) = last_version.and_then(|version| writer.conversion_error(merged, version)) {
        return Err(ApplyError::Unconvertible(format!(
            "failed to prune fields: failed to convert merged object to last applied version: {problem}"
        )));
    }
    for version in managers.managers().map(|manager| &manager.api_version) {
        let Some(problem) = writer.conversion_error(merged, version) else { continue };
        return Err(ApplyError::Unconvertible(match last_version {
            Some(_) => format!(
                "failed to prune fields: failed add back owned items: failed to convert merged object at version {version}: {problem}"
            ),
            None => format!("failed to convert new object: {problem}"),
        }));
    }
    Ok(())
}

/// The changes of a write, as the managers of each version see them.
pub(super) struct VersionedChanges<'a> {
    writer: &'a Writer<'a>,
    /// In the version of the write.
    own: Changes,
    others: Vec<(String, Changes)>,
}

impl<'a> VersionedChanges<'a> {
    pub(super) fn compare(
        schema: &Schema,
        old: &Value,
        new: &Value,
        managers: &Managers,
        writer: &'a Writer<'a>,
    ) -> Self {
        let mut others: Vec<(String, Changes)> = Vec::new();
        for manager in managers.managers() {
            let version = &manager.api_version;
            if let Version::Other(other) = writer.version(version)
                && !others.iter().any(|(known, _)| known == version)
            {
                others.push((version.clone(), diff::compare(other.root(), old, new)));
            }
        }
        Self { writer, own: diff::compare(schema.root(), old, new), others }
    }

    /// Returns the changes in the version of the write.
    pub(super) fn own(&self) -> &Changes {
        &self.own
    }

    /// Returns the changes in the version of a manager.
    pub(super) fn in_version(&self, api_version: &str) -> &Changes {
        if api_version == self.writer.api_version {
            return &self.own;
        }
        let found = self.others.iter().find(|(known, _)| known == api_version);
        found.map_or(&self.own, |(_, changes)| changes)
    }
}
