use std::io;
use std::path::PathBuf;

use pilothouse_model::JsonPathError;
use pilothouse_plugin::{DescribeError, LoadError};

use crate::descriptor::DescriptorError;
use crate::limits::LimitError;
use crate::predicate::PredicateError;
use crate::server::{CrdError, DiscoveryError};
use crate::sidecar::SidecarError;

/// Why a plugin's files cannot run as they are. None of these passes by itself.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadProblem {
    #[error("{} cannot be read: {source}; {}", .path.display(), remedy(.source))]
    Read { path: PathBuf, source: io::Error },
    #[error("{} has {size} bytes, at most {limit} are read; put the plugin's own file there", .path.display())]
    TooLarge { path: PathBuf, size: u64, limit: u64 },
    #[error("the sidecar {}: {source}", .path.display())]
    Sidecar { path: PathBuf, source: SidecarError },
    #[error(transparent)]
    Code(#[from] LoadError),
    #[error("describe failed: {0}")]
    Describe(#[from] DescribeError),
    #[error(transparent)]
    Descriptor(#[from] DescriptorError),
    #[error("limits.{0}")]
    Limits(#[from] LimitError),
    #[error(transparent)]
    Crd(#[from] CrdError),
    #[error(transparent)]
    Discovery(#[from] DiscoveryError),
    #[error(transparent)]
    Path(#[from] JsonPathError),
    #[error("predicate: {0}")]
    Predicate(#[from] PredicateError),
    #[error(
        "the descriptor has triggers, but the plugin does not export reconcile; build it for the world reconciler or \
         controller"
    )]
    NoReconcile,
    #[error(
        "watches.{watch} has notify: true, but the plugin does not export observe; build it for the world observer or \
         controller, or leave notify out"
    )]
    NoObserve { watch: String },
    #[error(
        "watches.{watch}: the index {index:?} is computed, but the plugin does not export index; build it for the world \
         controller, or index by label, annotation, field or owner"
    )]
    NoIndex { watch: String, index: String },
    #[error(
        "no watch of the descriptor has a trigger, notify: true or a computed index, so the plugin would never be called; \
         give one watch {remedy}"
    )]
    NeverCalled { remedy: &'static str },
    #[error(
        "watches.{watch}: {kind} is cluster-scoped, its objects are in no namespace; leave out namespaces"
    )]
    ClusterScoped { watch: String, kind: String },
    #[error("the informer of watch {watch:?} has stopped: {problem}")]
    Informer { watch: String, problem: String },
    #[error("loading failed inside the host: {0}; please report this")]
    Internal(String),
}

fn remedy(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::InvalidData => "write it in UTF-8",
        io::ErrorKind::IsADirectory => "put a file in its place",
        _ => "check its permissions",
    }
}
