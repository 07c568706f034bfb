//! Everything that a plugin in the state `waiting` can wait for.

use std::fmt;

/// What a plugin waits for. Its text is the reason that `status`, the log and Events show.
///
/// A load reports it for a plugin whose new version cannot run yet. [`Access`](crate::access::Access) reports it for a running version that
/// must not work now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WaitingFor {
    /// A grant of the sidecar for a watch, or for more of its namespaces.
    WatchGrant(String),
    /// A sidecar that can be read and parsed. Without one, the running version has no grants.
    ValidSidecar(String),
    /// The sidecar names another service account than the one that the running version was loaded with; the new version is being loaded.
    VersionForAccount(String),
    /// A permission of the plugin's service account, or of the host to act for that account.
    AccountPermission(String),
    /// The API server's answer to a review of the service account's permissions.
    AccessReview(String),
    /// A permission of the host to list and watch.
    HostPermission(String),
    /// An API server that accepts the CRDs of the plugin, and that says whether they are established.
    CrdRequest(String),
    /// A CRD that was applied and is not established yet. Contains its name and the server's reason.
    EstablishedCrd(String),
    /// A kind that the API server does not serve yet, or that discovery does not find because a request fails.
    Kind { watch: String, problem: String },
    /// A grant of the sidecar for the plugin's own CRD of a kind that the API server does not serve yet.
    CrdGrant { watch: String, problem: String },
    /// The first list of a watch.
    FirstList { watch: String },
    /// The first list of a watch, which has failed.
    FailedList { watch: String, problem: String },
    /// The values of the plugin's computed indexes.
    ComputedIndexes,
}

impl fmt::Display for WaitingFor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WatchGrant(text)
            | Self::ValidSidecar(text)
            | Self::VersionForAccount(text)
            | Self::AccountPermission(text)
            | Self::AccessReview(text)
            | Self::HostPermission(text)
            | Self::CrdRequest(text) => formatter.write_str(text),
            Self::EstablishedCrd(crd) => write!(formatter, "the CRD {crd}"),
            Self::Kind { watch, problem }
            | Self::CrdGrant { watch, problem }
            | Self::FailedList { watch, problem } => write!(formatter, "watch {watch:?}: {problem}"),
            Self::FirstList { watch } => write!(formatter, "watch {watch:?}: its first list is under way"),
            Self::ComputedIndexes => formatter.write_str("its computed indexes are being built"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_says_which_watch_waits_for_what() {
        let (watch, problem) = ("pods".to_owned(), "HTTP 503".to_owned());
        for (waiting_for, text) in [
            (WaitingFor::WatchGrant("a rule is missing".into()), "a rule is missing"),
            (WaitingFor::EstablishedCrd("foos: it has no names".into()), "the CRD foos: it has no names"),
            (WaitingFor::FirstList { watch: watch.clone() }, "watch \"pods\": its first list is under way"),
            (WaitingFor::FailedList { watch, problem }, "watch \"pods\": HTTP 503"),
            (WaitingFor::ComputedIndexes, "its computed indexes are being built"),
        ] {
            assert_eq!(waiting_for.to_string(), text);
        }
    }
}
