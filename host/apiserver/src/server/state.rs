use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};

use crate::access::Access;
use crate::clock::{self, Clock};
use crate::openapi::Documents;
use crate::registry::Registry;
use crate::server::transport::Transport;
use crate::server::{Faults, RequestLog};
use crate::storage::{HistoryLimits, Storage, Table};

/// What all requests and controllers of one server share.
pub(crate) struct State {
    pub storage: Storage,
    registry: RwLock<Arc<Registry>>,
    /// Serialises changes of the registry, so that none is lost.
    pub crd_changes: Mutex<()>,
    pub namespaces: Arc<Table>,
    pub clock: Arc<dyn Clock>,
    pub access: Access,
    pub transport: Transport,
    pub bookmark_interval: Duration,
    pub documents: Documents,
    pub faults: Faults,
    pub log: RequestLog,
    /// Whether `/debug/faults` is served.
    pub faults_over_http: bool,
}

impl State {
    pub(crate) fn new(
        clock: Arc<dyn Clock>,
        history: HistoryLimits,
        first_revision: u64,
        bookmark_interval: Duration,
        access: impl FnOnce(&Storage, Arc<dyn Clock>) -> Access,
        transport: Transport,
    ) -> Self {
        let storage = Storage::new(history, first_revision);
        let registry = Registry::built_in(&storage);
        Self {
            namespaces: storage.table("", "namespaces"),
            registry: RwLock::new(Arc::new(registry)),
            crd_changes: Mutex::new(()),
            access: access(&storage, Arc::clone(&clock)),
            transport,
            storage,
            clock,
            bookmark_interval,
            documents: Documents::new(),
            faults: Faults::default(),
            log: RequestLog::default(),
            faults_over_http: false,
        }
    }

    /// What is served now.
    pub(crate) fn registry(&self) -> Arc<Registry> {
        Arc::clone(&self.registry.read())
    }

    /// Replaces what is served; the caller holds `crd_changes`.
    pub(crate) fn set_registry(&self, registry: Registry) {
        *self.registry.write() = Arc::new(registry);
    }

    /// The time, as `metav1.Time` prints it.
    pub(crate) fn now(&self) -> String {
        clock::seconds(self.clock.now())
    }
}
