//! The current grants of a plugin, from its sidecar. They belong to the plugin's name: they apply to whatever
//! version runs, not only to versions that are loaded later. So what a sidecar takes away takes effect as soon
//! as the sidecar is read, whatever becomes of the load that follows.

use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

use crate::config::descriptor::Rule;
use crate::config::sidecar::{GrantSettings, Sidecar, WatchRule};
use crate::config::sidecar_location::SidecarLocation;
use crate::config::watch_grants::granted_namespaces;
use crate::lifecycle::WaitingFor;
use crate::load::not_granted;
use crate::load::version::Version;
use crate::name::PluginName;
use crate::outgoing::{Pattern, PatternError, parse_patterns};
use crate::{GrantMode, ServiceAccount};

/// The grants that a sidecar gives its plugin.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SidecarGrants {
    /// `None` allows all that the descriptor declares.
    pub(crate) writes: Option<Vec<Rule>>,
    /// `None` allows all that the descriptor watches.
    pub(crate) watches: Option<Vec<WatchRule>>,
    /// `None` leaves the decision to the host's configuration.
    pub(crate) crds: Option<bool>,
    pub(crate) http: Vec<Pattern>,
    /// `None` stands for the host's own identity.
    pub(crate) service_account: Option<ServiceAccount>,
    /// Where the operator changes these grants.
    pub(crate) place: SidecarLocation,
}

/// The current grants of one plugin, shared by all its versions. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct CurrentGrants(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// The number of the newest load: a load that was cancelled must not overwrite what a later one has read.
    newest: Mutex<u64>,
    sidecar_grants: RwLock<Option<Arc<SidecarGrants>>>,
}

/// Sets the current grants on behalf of a load, until the next load starts.
#[derive(Clone)]
pub(crate) struct GrantsWriter {
    current_grants: CurrentGrants,
    number: u64,
}

impl SidecarGrants {
    /// Returns the grants of a sidecar that is a file.
    pub(crate) fn of(sidecar: &Sidecar) -> Result<Self, PatternError> {
        let GrantSettings { watches, writes, crds, http } = sidecar.grants.clone();
        let (http, service_account) = (parse_patterns(&http)?, sidecar.service_account.clone());
        Ok(Self { writes, watches, crds, http, service_account, place: SidecarLocation::File })
    }

    /// Whether both grant the same, wherever they come from.
    pub(crate) fn allows_the_same(&self, other: &Self) -> bool {
        Self { place: other.place, ..self.clone() } == *other
    }

    /// Returns why these grants do not allow a running version to continue as it is; `None` if they do.
    fn violation(&self, plugin: &PluginName, version: &Version) -> Option<WaitingFor> {
        if self.service_account != version.sidecar_grants.service_account {
            return Some(WaitingFor::VersionForAccount(format!(
                "{} names another service account; the running version is suspended until one is loaded for the new account",
                self.place.of(plugin.as_str())
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
                Err(missing) => {
                    Some(WaitingFor::WatchGrant(not_granted(name, &self.place.of(plugin.as_str()), &missing)))
                }
            }
        })
    }
}

impl CurrentGrants {
    /// Starts a load. Earlier loads can no longer set the grants.
    pub(crate) fn begin_load(&self) -> GrantsWriter {
        let mut newest = self.0.newest.lock();
        *newest += 1;
        GrantsWriter { current_grants: self.clone(), number: *newest }
    }

    /// The grants of the sidecar; `None`, which allows nothing, if the sidecar was not yet read or is invalid.
    pub(crate) fn sidecar_grants(&self) -> Option<Arc<SidecarGrants>> {
        self.0.sidecar_grants.read().clone()
    }
}

impl GrantsWriter {
    /// Puts the grants of a sidecar into effect, also for the running version.
    pub(crate) fn allow(
        &self,
        sidecar_grants: SidecarGrants,
        plugin: &PluginName,
        running: Option<&Version>,
    ) -> Arc<SidecarGrants> {
        let sidecar_grants = Arc::new(sidecar_grants);
        let violation = running.and_then(|running| sidecar_grants.violation(plugin, running));
        self.set(Some(Arc::clone(&sidecar_grants)), running, violation);
        sidecar_grants
    }

    /// Allows nothing until the sidecar is valid again: the operator may have meant to take something away.
    pub(crate) fn revoke_all(&self, reason: String, running: Option<&Version>) {
        self.set(None, running, Some(WaitingFor::ValidSidecar(reason)));
    }

    /// Suspends the running version while the new version waits.
    pub(crate) fn suspend(&self, reason: WaitingFor, running: &Version) {
        let newest = self.current_grants.0.newest.lock();
        if *newest == self.number {
            running.views.access.set_operator_suspension(Some(reason));
        }
    }

    fn set(
        &self,
        sidecar_grants: Option<Arc<SidecarGrants>>,
        running: Option<&Version>,
        reason: Option<WaitingFor>,
    ) {
        let newest = self.current_grants.0.newest.lock();
        if *newest != self.number {
            return;
        }
        *self.current_grants.0.sidecar_grants.write() = sidecar_grants;
        if let Some(running) = running {
            running.views.access.set_operator_suspension(reason);
        }
    }
}

#[cfg(test)]
impl CurrentGrants {
    /// The current grants of a plugin whose sidecar has these.
    pub(crate) fn granting(grants: GrantSettings) -> Self {
        let current_grants = Self::default();
        let sidecar_grants = SidecarGrants::of(&Sidecar { grants, ..Sidecar::default() }).expect("patterns");
        let name = PluginName::of_file(std::path::Path::new("test.wasm")).expect("a name");
        current_grants.begin_load().allow(sidecar_grants, &name, None);
        current_grants
    }

    /// The current grants of a plugin whose sidecar grants these writes; `None` grants those of the descriptor.
    pub(crate) fn granting_writes(writes: Option<Vec<Rule>>) -> Self {
        Self::granting(GrantSettings { writes, ..GrantSettings::default() })
    }
}

/// Applies the grant mode: `--grants explicit` grants nothing that the sidecar does not name.
pub(crate) fn apply_grant_mode(mode: GrantMode, mut sidecar: Sidecar) -> Sidecar {
    if mode == GrantMode::Explicit {
        let GrantSettings { watches, writes, crds, .. } = &mut sidecar.grants;
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

    fn sidecar_grants(sidecar: &str) -> SidecarGrants {
        SidecarGrants::of(&Sidecar::parse(sidecar).expect("a sidecar")).expect("patterns")
    }

    #[test]
    fn nothing_is_allowed_without_a_valid_sidecar() {
        let current_grants = CurrentGrants::default();
        assert!(current_grants.sidecar_grants().is_none());
        let writer = current_grants.begin_load();
        writer.allow(sidecar_grants("grants: {http: [a.example.com]}"), &name(), None);
        assert_eq!(current_grants.sidecar_grants().expect("read").http.len(), 1);
        current_grants.begin_load().revoke_all("torn".into(), None);
        assert!(current_grants.sidecar_grants().is_none());
    }

    #[test]
    fn a_cancelled_load_does_not_restore_revoked_terms() {
        let current_grants = CurrentGrants::default();
        let old = current_grants.begin_load();
        let new = current_grants.begin_load();
        new.allow(sidecar_grants("grants: {writes: []}"), &name(), None);
        old.allow(sidecar_grants(""), &name(), None);
        assert_eq!(current_grants.sidecar_grants().expect("read").writes, Some(vec![]));
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
        assert_eq!(sidecar("", GrantMode::Declared), GrantSettings::default());
    }
}
