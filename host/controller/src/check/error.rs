//! Why a plugin file could not be checked.

use std::fmt::Display;

/// Why a plugin file could not be checked. The text is the line that `status` would show for the file in the plugins directory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckError {
    /// The code cannot be compiled or described. Another compiler may be able to.
    #[error("{0}")]
    Code(String),
    /// The file, its sidecar or its descriptor is refused, whichever compiler is used.
    #[error("{0}")]
    Refused(String),
    /// A request to the API server failed, so that nothing is known about the plugin.
    #[error("{0}; check the server of the kubeconfig and the network")]
    Server(String),
}

impl CheckError {
    pub(super) fn code(error: impl Display) -> Self {
        Self::Code(error.to_string())
    }

    pub(super) fn refused(error: impl Display) -> Self {
        Self::Refused(error.to_string())
    }

    pub(super) fn server(error: impl Display) -> Self {
        Self::Server(error.to_string())
    }
}
