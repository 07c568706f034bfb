//! Apply conflicts, with the messages of `k8s.io/apimachinery/pkg/util/managedfields`.

use std::collections::BTreeMap;

use super::ApplyError;
use super::fieldset::FieldSet;
use crate::status::Cause;

/// The fields of another manager that an apply would change.
#[derive(Clone, Debug)]
pub struct Conflict {
    /// The other manager's name.
    pub manager: String,
    /// The subresource that the other manager wrote to; empty for the main resource.
    pub subresource: String,
    /// The API version of the other manager's writes, if they were updates and not applies.
    pub update_api_version: Option<String>,
    /// The fields in conflict.
    pub fields: FieldSet,
}

impl Conflict {
    /// Returns the other manager as error messages name it.
    fn owner(&self) -> String {
        let mut owner = format!("{:?}", self.manager);
        if !self.subresource.is_empty() {
            owner.push_str(&format!(" with subresource {:?}", self.subresource));
        }
        if let Some(version) = &self.update_api_version {
            owner.push_str(&format!(" using {version}"));
        }
        owner
    }
}

/// Returns the error that lists all conflicts.
pub(super) fn conflict_error(conflicts: &[Conflict]) -> ApplyError {
    let mut by_owner: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for conflict in conflicts {
        by_owner.entry(conflict.owner()).or_default().extend(conflict.fields.paths());
    }
    let causes = by_owner.iter().flat_map(|(owner, paths)| {
        paths.iter().map(move |path| Cause {
            reason: "FieldManagerConflict".into(),
            message: format!("conflict with {owner}"),
            field: path.clone(),
        })
    });
    let causes: Vec<Cause> = causes.collect();
    let message = match causes.as_slice() {
        [only] => format!("Apply failed with 1 conflict: {}: {}", only.message, only.field),
        many => {
            let mut lines = Vec::new();
            for (owner, paths) in &by_owner {
                lines.push(format!("conflicts with {owner}:"));
                lines.extend(paths.iter().map(|path| format!("- {path}")));
            }
            format!("Apply failed with {} conflicts: {}", many.len(), lines.join("\n"))
        }
    };
    ApplyError::Conflict { message, causes }
}
