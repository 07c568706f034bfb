//! Entries of the plugins directory that end in .wasm and cannot be plugins.

use std::path::{Path, PathBuf};

use crate::logs::printable;
use crate::name::NameError;

/// Why an entry is no plugin.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum RefusedFile {
    /// The file's name is not a plugin's name.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The file is a symbolic link that cannot be followed.
    #[error(
        "{} is a symbolic link to {}, which cannot be read: {problem}; create that file, or remove the link",
        printable(&.link.to_string_lossy()), printable(&.target.to_string_lossy())
    )]
    DanglingLink {
        /// The stem of the link's name.
        name: String,
        link: PathBuf,
        target: PathBuf,
        problem: String,
    },
}

impl RefusedFile {
    /// Returns the problem of a symbolic link that cannot be followed. `None` for everything else.
    pub(super) fn dangling_link(path: &Path) -> Option<Self> {
        let target = std::fs::read_link(path).ok()?;
        let problem = std::fs::metadata(path).err()?.to_string();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Some(Self::DanglingLink { name, link: path.to_owned(), target, problem })
    }

    /// Returns the file's name without its extension.
    pub(crate) fn stem(&self) -> &str {
        match self {
            Self::Name(error) => error.stem(),
            Self::DanglingLink { name, .. } => name,
        }
    }
}
