//! The current grants of a plugin, from its sidecar. They belong to the plugin's name: they apply to whatever
//! version runs, not only to versions that are loaded later. So what a sidecar takes away takes effect as soon
//! as the sidecar is read, whatever becomes of the load that follows.

use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

use crate::client::grants::granted_namespaces;
use crate::config::descriptor::Rule;
use crate::config::sidecar::{Grants, Sidecar, WatchRule};
use crate::lifecycle::WaitingFor;
use crate::load::not_granted;
use crate::load::version::Version;
use crate::name::PluginName;
use crate::outgoing::{Pattern, PatternError, parse_patterns};
use crate::{GrantMode, ServiceAccount};

/// The grants that a sidecar gives its plugin.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Terms {
    /// `None` allows all that the descriptor declares.
    pub(crate) writes: Option<Vec<Rule>>,
    /// `None` allows all that the descriptor watches.
    pub(crate) watches: Option<Vec<WatchRule>>,
    /// `None` leaves the decision to the host's configuration.
    pub(crate) crds: Option<bool>,
    pub(crate) http: Vec<Pattern>,
    /// `None` stands for the host's own identity.
    pub(crate) service_account: Option<ServiceAccount>,
}

/// The current grants of one plugin, shared by all its versions. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Operator(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// The number of the newest load: a load that was cancelled must not overwrite what a later one has read.
    newest: Mutex<u64>,
    terms: RwLock<Option<Arc<Terms>>>,
}

/// Sets the current grants on behalf of a load, until the next load starts.
#[derive(Clone)]
pub(crate) struct TermsWriter {
    operator: Operator,
    number: u64,
}

impl Terms {
    pub(crate) fn of(sidecar: &Sidecar) -> Result<Self, PatternError> {
        let Grants { watches, writes, crds, http } = sidecar.grants.clone();
        let (http, service_account) = (parse_patterns(&http)?, sidecar.service_account.clone());
        Ok(Self { writes, watches, crds, http, service_account })
    }

    /// Returns why these grants do not allow a running version to continue as it is; `None` if they do.
    fn violation(&self, plugin: &PluginName, version: &Version) -> Option<WaitingFor> {
        if self.service_account != version.terms.service_account {
            return Some(WaitingFor::VersionForAccount(format!(
                "{plugin}.yaml names another service account; the running version is suspended until one is loaded for the new account"
            )));
        }
        version.views.by_name.iter().find_map(|(name, view)| {
            let (kind, namespaces) = (&view.resource, &view.cache.namespaces);
            let asked = (kind.group.as_str(), kind.plural.as_str(), kind.namespaced);
            match granted_namespaces(self.watches.as_deref(), asked, namespaces) {
                Ok(granted) if granted == *namespaces => None,
                Ok(granted) => Some(WaitingFor::WatchGrant(format!(
                    "watch {name:?} is granted only in {}, but the running version watches more namespaces",
                    granted.join(", ")
                ))),
                Err(missing) => Some(WaitingFor::WatchGrant(not_granted(name, plugin, &missing))),
            }
        })
    }
}

impl Operator {
    /// Starts a load. Earlier loads can no longer set the grants.
    pub(crate) fn begin_load(&self) -> TermsWriter {
        let mut newest = self.0.newest.lock();
        *newest += 1;
        TermsWriter { operator: self.clone(), number: *newest }
    }

    /// The grants of the sidecar; `None`, which allows nothing, if the sidecar was not yet read or is invalid.
    pub(crate) fn terms(&self) -> Option<Arc<Terms>> {
        self.0.terms.read().clone()
    }
}

impl TermsWriter {
    /// Puts the grants of a sidecar into effect, also for the running version.
    pub(crate) fn allow(&self, terms: Terms, plugin: &PluginName, running: Option<&Version>) -> Arc<Terms> {
        let terms = Arc::new(terms);
        let violation = running.and_then(|running| terms.violation(plugin, running));
        self.set(Some(Arc::clone(&terms)), running, violation);
        terms
    }

    /// Allows nothing until the sidecar is valid again: the operator may have meant to take something away.
    pub(crate) fn withhold(&self, reason: String, running: Option<&Version>) {
        self.set(None, running, Some(WaitingFor::ValidSidecar(reason)));
    }

    /// Suspends the running version while the new version waits.
    pub(crate) fn suspend(&self, reason: WaitingFor, running: &Version) {
        let newest = self.operator.0.newest.lock();
        if *newest == self.number {
            running.views.access.set_operator_reason(Some(reason));
        }
    }

    fn set(&self, terms: Option<Arc<Terms>>, running: Option<&Version>, reason: Option<WaitingFor>) {
        let newest = self.operator.0.newest.lock();
        if *newest != self.number {
            return;
        }
        *self.operator.0.terms.write() = terms;
        if let Some(running) = running {
            running.views.access.set_operator_reason(reason);
        }
    }
}

#[cfg(test)]
impl Operator {
    /// The current grants of a plugin whose sidecar has these.
    pub(crate) fn granting(grants: Grants) -> Self {
        let operator = Self::default();
        let terms = Terms::of(&Sidecar { grants, ..Sidecar::default() }).expect("patterns");
        let name = PluginName::of_file(std::path::Path::new("test.wasm")).expect("a name");
        operator.begin_load().allow(terms, &name, None);
        operator
    }

    /// The current grants of a plugin whose sidecar grants these writes; `None` grants those of the descriptor.
    pub(crate) fn granting_writes(writes: Option<Vec<Rule>>) -> Self {
        Self::granting(Grants { writes, ..Grants::default() })
    }
}

/// Applies the grant mode: `--grants explicit` grants nothing that the sidecar does not name.
pub(crate) fn apply_grant_mode(mode: GrantMode, mut sidecar: Sidecar) -> Sidecar {
    if mode == GrantMode::Explicit {
        let Grants { watches, writes, crds, .. } = &mut sidecar.grants;
        watches.get_or_insert_default();
        writes.get_or_insert_default();
        crds.get_or_insert_default();
    }
    sidecar
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name() -> PluginName {
        PluginName::of_file(std::path::Path::new("p.wasm")).expect("a name")
    }

    fn terms(sidecar: &str) -> Terms {
        Terms::of(&Sidecar::parse(sidecar).expect("a sidecar")).expect("patterns")
    }

    #[test]
    fn nothing_is_allowed_without_a_valid_sidecar() {
        let operator = Operator::default();
        assert!(operator.terms().is_none());
        let writer = operator.begin_load();
        writer.allow(terms("grants: {http: [a.example.com]}"), &name(), None);
        assert_eq!(operator.terms().expect("read").http.len(), 1);
        operator.begin_load().withhold("torn".into(), None);
        assert!(operator.terms().is_none());
    }

    #[test]
    fn a_cancelled_load_does_not_restore_revoked_terms() {
        let operator = Operator::default();
        let old = operator.begin_load();
        let new = operator.begin_load();
        new.allow(terms("grants: {writes: []}"), &name(), None);
        old.allow(terms(""), &name(), None);
        assert_eq!(operator.terms().expect("read").writes, Some(vec![]));
    }

    #[test]
    fn explicit_mode_grants_only_what_is_named() {
        let sidecar = |text, mode| apply_grant_mode(mode, Sidecar::parse(text).expect("a sidecar")).grants;
        let none = sidecar("workers: 2", GrantMode::Explicit);
        assert_eq!((none.watches, none.writes, none.crds), (Some(vec![]), Some(vec![]), Some(false)));
        let some = sidecar(
            "grants: {crds: true, watches: [{apiGroups: [''], resources: [pods]}]}",
            GrantMode::Explicit,
        );
        assert_eq!(
            (some.watches.map(|rules| rules.len()), some.writes, some.crds),
            (Some(1), Some(vec![]), Some(true))
        );
        assert_eq!(sidecar("", GrantMode::Declared), Grants::default());
    }
}
