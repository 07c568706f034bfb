//! The state that all requests and controllers of one server share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};

use crate::access::{Access, Authorization};
use crate::admission::AdmissionControl;
use crate::admission_plugins::AdmissionPlugins;
use crate::clock::{self, Clock};
use crate::cluster_ip_range::ClusterIpRange;
use crate::identifiers::Identifiers;
use crate::registry::Registry;
use crate::storage::{ChangeLog, HistoryLimits, Storage, Table};
use crate::webhooks::WebhookClient;

/// The state of the simulated cluster: its objects, the resources it serves, and who may do what.
pub(crate) struct State {
    pub storage: Storage,
    registry: RwLock<Arc<Registry>>,
    /// Held while a new registry is built from the current one, so that concurrent CRD writes do not lose each
    /// other's changes.
    pub crd_changes: Mutex<()>,
    /// Whether a controller finishes the deletion of CRDs, so that requests do not.
    crds_finalized_later: AtomicBool,
    /// The table of Namespaces, which every creation of a namespaced object reads.
    pub namespaces: Arc<Table>,
    pub clock: Arc<dyn Clock>,
    pub identifiers: Identifiers,
    pub access: Access,
    pub admission: AdmissionControl,
    pub webhooks: Arc<WebhookClient>,
    /// The interval between the bookmarks of a watch.
    pub bookmark_interval: Duration,
    /// The built-in admission plugins that are enabled.
    pub plugins: AdmissionPlugins,
    /// The range of the cluster IPs of Services.
    pub cluster_ips: ClusterIpRange,
    /// How long Pods without a grace period stay marked for deletion before a request removes them.
    pub pod_removal_pause: Duration,
}

/// The parameters of [`State::new`].
pub(crate) struct StateOptions {
    pub clock: Arc<dyn Clock>,
    pub identifiers: Identifiers,
    pub history: HistoryLimits,
    /// The resourceVersion before the first write.
    pub first_revision: u64,
    pub bookmark_interval: Duration,
    pub authorization: Authorization,
    /// Whether requests over sockets may come without credentials.
    pub allow_anonymous: bool,
    /// Whether webhooks are called.
    pub webhooks: bool,
    /// The built-in admission plugins that are enabled.
    pub plugins: AdmissionPlugins,
    pub cluster_ips: ClusterIpRange,
    pub pod_removal_pause: Duration,
    /// Receive every change of an object.
    pub change_logs: Vec<Arc<dyn ChangeLog>>,
}

impl State {
    pub(crate) fn new(options: StateOptions) -> Self {
        let StateOptions {
            clock,
            identifiers,
            history,
            first_revision,
            bookmark_interval,
            authorization,
            allow_anonymous,
            webhooks,
            plugins,
            cluster_ips,
            pod_removal_pause,
            change_logs,
        } = options;
        let storage = Storage::new(history, first_revision).logged_to(change_logs);
        let registry = Registry::built_in(&storage);
        let client = Arc::new(WebhookClient::new(&storage, webhooks, identifiers.clone()));
        Self {
            namespaces: storage.table("", "namespaces"),
            registry: RwLock::new(Arc::new(registry)),
            crd_changes: Mutex::new(()),
            crds_finalized_later: AtomicBool::new(false),
            admission: AdmissionControl::new(&storage, Arc::clone(&client), plugins),
            webhooks: client,
            access: Access::new(authorization, allow_anonymous, &storage, Arc::clone(&clock)),
            storage,
            clock,
            identifiers,
            bookmark_interval,
            plugins,
            cluster_ips,
            pod_removal_pause,
        }
    }

    /// Returns a snapshot of the resources that are served now.
    pub(crate) fn registry(&self) -> Arc<Registry> {
        Arc::clone(&self.registry.read())
    }

    /// Replaces the registry. The caller holds `crd_changes`.
    pub(crate) fn set_registry(&self, registry: Registry) {
        *self.registry.write() = Arc::new(registry);
    }

    /// Whether a controller finishes the deletion of CRDs, so that requests do not.
    pub(crate) fn crds_finalized_later(&self) -> bool {
        self.crds_finalized_later.load(Ordering::Acquire)
    }

    /// Sets whether a controller finishes the deletion of CRDs.
    pub(crate) fn set_crds_finalized_later(&self, later: bool) {
        self.crds_finalized_later.store(later, Ordering::Release);
    }

    /// Returns the current time in the format of `metav1.Time`.
    pub(crate) fn now(&self) -> String {
        clock::rfc3339_seconds(self.clock.now())
    }
}
