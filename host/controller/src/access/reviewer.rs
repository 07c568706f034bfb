//! Reviews whether a plugin's service account may read what the plugin watches.

use std::sync::Arc;

use pilothouse_model::{FieldSelector, ResourceType};

use super::permission::{Missing, list};
use super::{Attributes, ServiceAccount, may, remedy};
use crate::client::{Server, ServerError};
use crate::name::PluginName;

/// The verbs that reading a watch's objects needs: a cache answers `get` and `list`, and delivers what
/// `watch` would.
const READ: [&str; 3] = ["get", "list", "watch"];

/// Asks the API server, by SubjectAccessReviews, whether a plugin's service account may read what the plugin
/// watches, and whether the host may impersonate that account.
pub(crate) struct Reviewer {
    pub(crate) server: Server,
    pub(crate) plugin: PluginName,
    pub(crate) account: ServiceAccount,
    pub(crate) reads: Vec<Read>,
    /// Whether the plugin sends requests of its own.
    pub(crate) impersonates: bool,
}

/// The read access that one watch needs in one namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Read {
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
pub(crate) enum Reviewed {
    /// Nothing is missing.
    Allowed,
    /// What is missing, according to the server.
    Missing(Vec<Missing>),
    /// The server could not be asked.
    Unknown(ServerError),
}

impl Read {
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
    pub(crate) async fn review(&self) -> Reviewed {
        let mut missing = Vec::new();
        for read in &self.reads {
            match self.missing_verbs(read).await {
                Ok(verbs) if verbs.is_empty() => {}
                Ok(verbs) => missing.push(self.may_not(read, &verbs)),
                Err(error) if error.code() == Some(403) => return self.cannot_ask(&error),
                Err(error) => return Reviewed::Unknown(error),
            }
        }
        match self.may_impersonate().await {
            Ok(true) => {}
            Ok(false) => missing.push(self.no_impersonation()),
            Err(error) => return Reviewed::Unknown(error),
        }
        if missing.is_empty() { Reviewed::Allowed } else { Reviewed::Missing(missing) }
    }

    async fn missing_verbs(&self, read: &Read) -> Result<Vec<&'static str>, ServerError> {
        let mut missing = Vec::new();
        for verb in READ {
            let Read { group, plural, namespace, name, .. } = read;
            let asked = Attributes { group, resource: plural, verb, namespace, name };
            if !may(&self.server, Some(&self.account), asked).await? {
                missing.push(verb);
            }
        }
        Ok(missing)
    }

    async fn may_impersonate(&self) -> Result<bool, ServerError> {
        if !self.impersonates {
            return Ok(true);
        }
        let (namespace, name) = (self.account.namespace(), self.account.name());
        let asked =
            Attributes { group: "", resource: "serviceaccounts", verb: "impersonate", namespace, name };
        may(&self.server, None, asked).await
    }

    fn may_not(&self, read: &Read, verbs: &[&str]) -> Missing {
        let Self { account, .. } = self;
        let Read { watch, plural, group, namespace, name, .. } = read;
        let (verbs, remedy) = (verbs.join(", "), remedy(&self.plugin));
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
        Missing { watch: Some(Arc::clone(watch)), text }
    }

    fn no_impersonation(&self) -> Missing {
        let Self { account, plugin, .. } = self;
        let remedy = remedy(plugin);
        let text = format!(
            "the host may not impersonate the service account {account}, as which the plugin writes; {remedy}"
        );
        Missing { watch: None, text }
    }

    fn cannot_ask(&self, error: &ServerError) -> Reviewed {
        let Self { account, plugin, .. } = self;
        let remedy = remedy(plugin);
        let text =
            format!("the host may not ask what the service account {account} may read: {error}; {remedy}");
        Reviewed::Missing(vec![Missing { watch: None, text }])
    }
}

impl Reviewed {
    /// What keeps the plugin from running; `None` if nothing does.
    pub(crate) fn problem(&self) -> Option<String> {
        match self {
            Self::Allowed => None,
            Self::Missing(missing) => Some(list(missing.iter()).to_string()),
            Self::Unknown(error) => Some(format!("its rights cannot be reviewed: {error}")),
        }
    }
}
