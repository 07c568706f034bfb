//! Why a data directory cannot be used.

use std::fmt::Display;
use std::path::{Path, PathBuf};

/// A data directory cannot be used. Its files are left as they are.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// A file or directory cannot be read or written.
    #[error("cannot {action} {path}: {problem}", path = path.display())]
    Io {
        /// What failed, such as `write`.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        problem: String,
    },
    /// Another process has opened the database.
    #[error("{path} is in use by another process; stop that process or choose another directory", path = path.display())]
    InUse {
        /// The database.
        path: PathBuf,
    },
    /// The file is not a database of this server.
    #[error("{path} is not a database of this server: {problem}; choose another directory", path = path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What it is instead.
        problem: String,
    },
    /// The database is damaged.
    #[error("{path} is damaged: {problem}; restore the file from a copy, or move it away to start without objects", path = path.display())]
    Damaged {
        /// The database.
        path: PathBuf,
        /// The damage.
        problem: String,
    },
}

impl DataError {
    pub(super) fn io(path: &Path, action: &'static str, problem: &impl Display) -> Self {
        Self::Io { action, path: path.to_owned(), problem: problem.to_string() }
    }

    pub(super) fn write(path: &Path, problem: &impl Display) -> Self {
        Self::io(path, "write", problem)
    }

    pub(super) fn damaged(path: &Path, problem: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), problem: problem.into() }
    }

    pub(super) fn foreign(path: &Path, problem: impl Into<String>) -> Self {
        Self::Foreign { path: path.to_owned(), problem: problem.into() }
    }
}
