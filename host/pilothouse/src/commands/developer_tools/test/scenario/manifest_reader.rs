//! Reads the manifests that a scenario contains or names.

use std::path::Path;

use serde_json::Value;

use crate::commands::developer_tools::apply::{self, Manifest};

/// The member by which an entry names a file with manifests, relative to the scenario's folder.
const FILE: &str = "file";

/// Reads manifests that a scenario contains or names.
pub(super) struct ManifestReader<'a> {
    /// The scenario's file.
    pub(super) file: &'a Path,
    pub(super) read: &'a dyn Fn(&Path) -> Result<String, String>,
}

impl ManifestReader<'_> {
    /// Returns the manifest itself, or those in the file that the entry names.
    pub(super) fn manifests(&self, entry: Value) -> Result<Vec<Manifest>, String> {
        let name = match &entry {
            Value::Object(members) if members.len() == 1 => members.get(FILE).and_then(Value::as_str),
            _ => None,
        };
        let Some(name) = name else { return Ok(vec![Manifest::new(self.file, entry)?]) };
        let path = self.file.parent().unwrap_or(Path::new("")).join(name);
        let located = |problem: String| format!("file {}: {problem}", path.display());
        let text = (self.read)(&path).map_err(located)?;
        let mut manifests = apply::parse(&path, &text).map_err(located)?;
        if manifests.is_empty() {
            return Err(located("it has no manifest".to_owned()));
        }
        manifests.sort_by_key(Manifest::rank);
        Ok(manifests)
    }
}
