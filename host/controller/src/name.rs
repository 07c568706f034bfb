//! A plugin's name, which is derived from its file.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::client::FIELD_MANAGER;

/// A plugin's identity: the stem of its file, an RFC 1123 label. Its queue, field manager, metrics and sidecar are named after it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PluginName(Arc<str>);

/// Why a file cannot be a plugin.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "{file:?} cannot name a plugin: {problem}; rename it to {} (lower-case letters, digits and '-', at most 63 of them, \
     beginning and ending with a letter or digit)", self.suggestion()
)]
pub struct NameError {
    file: String,
    problem: &'static str,
}

impl NameError {
    /// Returns the file's name without its extension.
    #[must_use]
    pub fn stem(&self) -> &str {
        self.file.rsplit_once('.').map_or(&self.file, |(stem, _)| stem)
    }

    /// Returns a similar name that is valid. Cargo, for example, puts underscores into file names.
    fn suggestion(&self) -> String {
        let suggestion = self.stem().to_ascii_lowercase().replace(['_', '.', ' '], "-") + ".wasm";
        match PluginName::of_file(Path::new(&suggestion)) {
            Ok(_) => suggestion,
            Err(_) => "a name such as sample-controller.wasm".to_owned(),
        }
    }
}

impl PluginName {
    /// Returns the name of the plugin in a file.
    ///
    /// # Errors
    /// The file's stem is not an RFC 1123 label, or is the host's own field manager.
    pub fn of_file(path: &Path) -> Result<Self, NameError> {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let error = |problem| NameError {
            file: path.file_name().unwrap_or_default().to_string_lossy().into(),
            problem,
        };
        let is_alphanumeric =
            |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        if stem.len() > 63 {
            return Err(error("it is longer than 63 characters"));
        }
        if !stem.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-') {
            return Err(error("it has other characters than lower-case letters, digits and '-'"));
        }
        if !is_alphanumeric(stem.bytes().next()) || !is_alphanumeric(stem.bytes().last()) {
            return Err(error("it does not begin and end with a letter or digit"));
        }
        if stem == FIELD_MANAGER {
            return Err(error("it is the field manager under which the host applies CRDs"));
        }
        Ok(Self(Arc::from(&*stem)))
    }

    /// Returns the name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the name as shared text.
    #[must_use]
    pub fn to_shared(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }
}

impl fmt::Display for PluginName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_whose_stem_is_a_label_names_a_plugin() {
        let name = PluginName::of_file(Path::new("/plugins/sample-controller.wasm")).expect("a label");
        assert_eq!(name.as_str(), "sample-controller");
    }

    /// A plugin applies under its own name, so with this name it could take over fields of CRDs.
    #[test]
    fn a_plugin_cannot_have_the_name_of_the_hosts_field_manager() {
        let error = PluginName::of_file(Path::new("pilothouse-crds.wasm")).expect_err("reserved").to_string();
        assert!(error.contains("field manager under which the host applies CRDs; rename it"), "{error}");
    }

    #[test]
    fn other_stems_are_refused_with_a_suggestion() {
        for file in
            ["Sample.wasm", "a_b.wasm", "-a.wasm", "a-.wasm", "é.wasm", &format!("{}.wasm", "a".repeat(64))]
        {
            let error = PluginName::of_file(Path::new(file)).expect_err(file).to_string();
            assert!(error.contains(file) && error.contains("rename it"), "{error}");
        }
        let error = PluginName::of_file(Path::new("/x/Delete_Everything.wasm")).expect_err("underscores");
        assert!(error.to_string().contains("rename it to delete-everything.wasm"), "{error}");
        assert_eq!(error.stem(), "Delete_Everything");
    }
}
