//! Why a plugin cannot be loaded, and whether a retry may help.

use std::io;
use std::path::{Path, PathBuf};

use pilothouse_model::JsonPathError;
use pilothouse_plugin::{DescribeError, HostMemoryExceeded, LoadError, PreviousCrash};

use crate::cache::indexer::NoInstance;
use crate::client::{CrdError, DiscoveryError};
use crate::config::descriptor::DescriptorError;
use crate::config::limits::LimitError;
use crate::config::sidecar::{Sidecar, SidecarError};
use crate::directory::plugin_file::FileProblem;
use crate::name::PluginName;
use crate::outgoing::PatternError;
use crate::rollout::{KnownVersion, short};
use crate::runtime::predicate::PredicateError;

/// The maximum length in bytes of a plugin's own refusal message.
const MAX_REFUSAL_SIZE: usize = 4 << 10;

/// Why a plugin's files cannot be loaded as they are.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadProblem {
    #[error("{} cannot be read: {source}; {}", .path.display(), remedy(.source))]
    Read { path: PathBuf, source: io::Error },
    #[error("{} is a symbolic link to {}, which cannot be read: {source}; create that file, or remove the link", .path.display(), .target.display())]
    DanglingLink { path: PathBuf, target: PathBuf, source: io::Error },
    #[error("{} has more than {limit} bytes, which are not read; put the plugin's own file there", .path.display())]
    TooLarge { path: PathBuf, limit: u64 },
    #[error("{} is {what}; only a regular file is read, so put the plugin's own file there", .path.display())]
    NotRegular { path: PathBuf, what: &'static str },
    #[error(
        "{} is a symbolic link to {}, outside of the plugins directory; copy that file in its place",
        .path.display(), .target.display()
    )]
    Outside { path: PathBuf, target: PathBuf },
    #[error(
        "{} is not read; rename it to {}", .short.file_name().unwrap_or_default().display(),
        .path.file_name().unwrap_or_default().display()
    )]
    ShortEnding { short: PathBuf, path: PathBuf },
    #[error("{place}: {source}")]
    Sidecar {
        /// Where the operator writes the sidecar.
        place: String,
        source: SidecarError,
    },
    #[error(transparent)]
    Code(#[from] LoadError),
    #[error("{} changed while it was read; it is still being written", .path.display())]
    Changing { path: PathBuf },
    #[error(
        "{version}, which is to run in place of {}, is not in the cache of compiled plugins any more; deliver another version, or run \
         that one with `pilothouse rollback {plugin} {}`",
        .path.display(), short(.file_digest)
    )]
    NotKept { path: PathBuf, plugin: PluginName, version: KnownVersion, file_digest: String },
    #[error(
        "it cannot run beside the running version, as rollout.canary wants: {problem}; run it alone with `pilothouse promote {plugin}`, \
         or deliver another version"
    )]
    Canary { problem: String, plugin: PluginName },
    #[error(transparent)]
    PreviousCrash(#[from] PreviousCrash),
    #[error("describe failed: {0}")]
    Describe(DescribeError),
    #[error("the plugin refuses the config in {}: {message}", .sidecar.display())]
    Config { sidecar: PathBuf, message: String },
    #[error(
        "the plugin refuses to run: {message}; it has no config; put one into {}",
        .sidecar.display()
    )]
    NoConfig { sidecar: PathBuf, message: String },
    #[error(transparent)]
    Descriptor(#[from] DescriptorError),
    #[error("limits.{0}")]
    Limits(#[from] LimitError),
    #[error("grants.http: {0}")]
    Http(#[from] PatternError),
    #[error(transparent)]
    Crd(#[from] CrdError),
    #[error("{problem}; the CRD {crds} had already been applied and remains")]
    AfterCrds { problem: Box<LoadProblem>, crds: String },
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
    #[error("watches.{watch}: {kind} is cluster-scoped; leave out namespaces")]
    ClusterScoped { watch: String, kind: String },
    #[error("watches.{watch}: the trigger namespace queues nothing, because {problem}; use another trigger")]
    NamespaceTrigger { watch: String, problem: String },
    #[error("the informer of watch {watch:?} has stopped: {problem}")]
    Informer { watch: String, problem: String },
    #[error("the indexes of its watches do not fit: it {0}, or raise limits.hostMemory")]
    IndexMemory(#[from] HostMemoryExceeded),
    #[error(transparent)]
    NoIndexInstance(#[from] NoInstance),
    #[error(
        "its computed indexes are still behind after {rounds} attempts: objects change faster than the plugin computes index values; \
         make index cheaper, or watch fewer objects"
    )]
    IndexesBehind { rounds: u32 },
    #[error("loading failed inside the host: {0}; please report this")]
    Internal(String),
}

impl LoadProblem {
    /// The problem of a file that was not read.
    pub(crate) fn from_file(path: &Path, problem: FileProblem) -> Self {
        let path = path.to_owned();
        match problem {
            FileProblem::Io(source) => match std::fs::read_link(&path) {
                Ok(target) if source.kind() == io::ErrorKind::NotFound => {
                    Self::DanglingLink { path, target, source }
                }
                _ => Self::Read { path, source },
            },
            FileProblem::NotRegular(what) => Self::NotRegular { path, what },
            FileProblem::Outside(target) => Self::Outside { path, target },
            FileProblem::TooLarge(limit) => Self::TooLarge { path, limit },
        }
    }

    /// The problem of a failed `describe`, depending on whether the plugin was given a config.
    pub(crate) fn from_describe(source: DescribeError, sidecar: &Sidecar, path: &Path) -> Self {
        // The message is kept for `status`, and a plugin may send as much as a call can carry.
        let cut = |mut message: String| {
            message.truncate(message.floor_char_boundary(MAX_REFUSAL_SIZE));
            message
        };
        match source {
            DescribeError::Refused(message) if sidecar.config.is_empty() => {
                Self::NoConfig { sidecar: path.to_owned(), message: cut(message) }
            }
            DescribeError::Refused(message) => {
                Self::Config { sidecar: path.to_owned(), message: cut(message) }
            }
            fault @ DescribeError::Fault(_) => Self::Describe(fault),
        }
    }

    /// Whether the same files may load later without a change to them. Such a load is retried.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Read { source, .. } => {
                !matches!(source.kind(), io::ErrorKind::InvalidData | io::ErrorKind::IsADirectory)
            }
            // The target may be created, which does not change the link.
            Self::DanglingLink { .. } => true,
            // A busy machine makes a describe slow; any other fault will happen again.
            Self::Describe(DescribeError::Fault(fault)) => fault.is_timeout(),
            // Somebody may give up the fields, migrate the objects, or grant the host the permission.
            Self::Crd(
                CrdError::StoredVersion { .. } | CrdError::Managed { .. } | CrdError::OfOtherPlugin { .. },
            ) => true,
            Self::AfterCrds { problem, .. } => problem.is_transient(),
            Self::Crd(CrdError::Refused { source, .. }) => matches!(source.code(), Some(403 | 409)),
            // The kernel may have killed the compiler for lack of memory.
            Self::Code(
                LoadError::CompilerFailed { .. } | LoadError::CompilerMemory { .. } | LoadError::Internal(_),
            ) => true,
            // Memory may be short only for now, and the rate of changes may drop.
            Self::NoIndexInstance(_) | Self::IndexesBehind { .. } => true,
            // The mark of a crashed load may be removed.
            Self::PreviousCrash(_) => true,
            Self::Changing { .. } | Self::Discovery(_) | Self::Internal(_) => true,
            _ => false,
        }
    }
}

fn remedy(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::InvalidData => "write it in UTF-8",
        io::ErrorKind::IsADirectory => "put a file in its place",
        _ => "check its permissions",
    }
}
