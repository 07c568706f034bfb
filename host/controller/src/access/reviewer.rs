//! Reviews whether a plugin's service account may read what the plugin watches.

use std::sync::Arc;

use pilothouse_model::{FieldSelector, ResourceType};

use super::access_state::{Suspension, summary};
use super::{ResourceAttributes, ServiceAccount, is_allowed, remedy};
use crate::client::{ApiClient, RequestError};
use crate::config::sidecar_location::SidecarLocation;
use crate::lifecycle::WaitingFor;
use crate::name::PluginName;

/// The verbs that reading a watch's objects needs. A cache answers `list`, and delivers what `watch` would; its answers to `get` are
/// parts of a list.
const READ_VERBS: [&str; 2] = ["list", "watch"];

/// Asks the API server, by SubjectAccessReviews, whether a plugin's service account may read what the plugin
/// watches, and whether the host may impersonate that account.
pub(crate) struct Reviewer {
    pub(crate) server: ApiClient,
    pub(crate) plugin: PluginName,
    /// Where the operator writes the plugin's sidecar, for the remedy.
    pub(crate) place: SidecarLocation,
    pub(crate) account: ServiceAccount,
    pub(crate) reads: Vec<RequiredRead>,
    /// Whether the plugin sends requests of its own.
    pub(crate) impersonates: bool,
}

/// The read access that one watch needs in one namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequiredRead {
    watch: Arc<str>,
    group: String,
    plural: String,
    /// "" for all namespaces, and for cluster-scoped resources.
    namespace: String,
    /// The only object that the watch selects; "" for any.
    name: String,
}

/// The outcome of a review.
#[derive(Debug)]
pub(crate) enum ReviewOutcome {
    /// Nothing is missing.
    Allowed,
    /// What is missing, according to the server.
    Missing(Vec<Suspension>),
    /// The server could not be asked.
    Unknown(RequestError),
}

impl RequiredRead {
    /// The reads that a watch of these namespaces needs.
    pub(crate) fn of(
        watch: &Arc<str>,
        resource: &ResourceType,
        namespaces: &[String],
        selector: &FieldSelector,
    ) -> Vec<Self> {
        let everywhere = [String::new()];
        let namespaces = if namespaces.is_empty() { &everywhere[..] } else { namespaces };
        let name = only_name(selector);
        let of = |namespace: &String| Self {
            watch: Arc::clone(watch),
            group: resource.group.clone(),
            plural: resource.plural.clone(),
            namespace: namespace.clone(),
            name: name.clone(),
        };
        namespaces.iter().map(of).collect()
    }
}

/// The only name that a field selector allows; "" for any. RBAC's `resourceNames` then apply to lists and
/// watches, too.
pub(crate) fn only_name(selector: &FieldSelector) -> String {
    let mut requirements = selector.requirements().iter();
    let name = requirements.find(|requirement| requirement.equal && requirement.path == "metadata.name");
    name.map(|requirement| requirement.value.clone()).unwrap_or_default()
}

impl Reviewer {
    /// Asks for each read in turn.
    pub(crate) async fn review(&self) -> ReviewOutcome {
        let mut missing = Vec::new();
        for read in &self.reads {
            match self.missing_verbs(read).await {
                Ok(verbs) if verbs.is_empty() => {}
                Ok(verbs) => missing.push(self.missing_read(read, &verbs)),
                Err(error) if error.code() == Some(403) => return self.missing_review_permission(&error),
                Err(error) => return ReviewOutcome::Unknown(error),
            }
        }
        match self.may_impersonate().await {
            Ok(true) => {}
            Ok(false) => missing.push(self.missing_impersonation()),
            Err(error) => return ReviewOutcome::Unknown(error),
        }
        if missing.is_empty() { ReviewOutcome::Allowed } else { ReviewOutcome::Missing(missing) }
    }

    async fn missing_verbs(&self, read: &RequiredRead) -> Result<Vec<&'static str>, RequestError> {
        let mut missing = Vec::new();
        for verb in READ_VERBS {
            let RequiredRead { group, plural, namespace, name, .. } = read;
            let attributes = ResourceAttributes { group, resource: plural, verb, namespace, name };
            if !is_allowed(&self.server, Some(&self.account), attributes).await? {
                missing.push(verb);
            }
        }
        Ok(missing)
    }

    async fn may_impersonate(&self) -> Result<bool, RequestError> {
        if !self.impersonates {
            return Ok(true);
        }
        let (namespace, name) = (self.account.namespace(), self.account.name());
        let attributes = ResourceAttributes {
            group: "",
            resource: "serviceaccounts",
            verb: "impersonate",
            namespace,
            name,
        };
        is_allowed(&self.server, None, attributes).await
    }

    fn missing_read(&self, read: &RequiredRead, verbs: &[&str]) -> Suspension {
        let Self { account, .. } = self;
        let RequiredRead { watch, plural, group, namespace, name, .. } = read;
        let (verbs, remedy) = (verbs.join(", "), remedy(&self.plugin, self.place));
        let dot = if group.is_empty() { "" } else { "." };
        let place = match namespace.as_str() {
            "" => "in all namespaces".to_owned(),
            namespace => format!("in namespace {namespace}"),
        };
        let one = if name.is_empty() { String::new() } else { format!(" named {name}") };
        let text = format!(
            "the service account {account} may not {verbs} {plural}{dot}{group}{one} {place}, which watch {watch:?} needs; \
             {remedy}"
        );
        Suspension { watch: Some(Arc::clone(watch)), reason: WaitingFor::AccountPermission(text) }
    }

    fn missing_impersonation(&self) -> Suspension {
        let Self { account, plugin, place, .. } = self;
        let remedy = remedy(plugin, *place);
        let text = format!(
            "the host may not impersonate the service account {account}, as which the plugin writes; {remedy}"
        );
        Suspension { watch: None, reason: WaitingFor::AccountPermission(text) }
    }

    fn missing_review_permission(&self, error: &RequestError) -> ReviewOutcome {
        let Self { account, plugin, place, .. } = self;
        let remedy = remedy(plugin, *place);
        let text =
            format!("the host may not ask what the service account {account} may read: {error}; {remedy}");
        ReviewOutcome::Missing(vec![Suspension { watch: None, reason: WaitingFor::AccountPermission(text) }])
    }
}

impl ReviewOutcome {
    /// What the plugin waits for; `None` if it may run.
    pub(crate) fn waiting_for(&self) -> Option<WaitingFor> {
        match self {
            Self::Allowed => None,
            Self::Missing(missing) => {
                Some(WaitingFor::AccountPermission(summary(missing.iter()).to_string()))
            }
            Self::Unknown(error) => {
                Some(WaitingFor::AccessReview(format!("its permissions cannot be reviewed: {error}")))
            }
        }
    }
}
