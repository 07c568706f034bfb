//! Writes of the server itself, which are synchronous: those of the simulated controllers, and those that complete a write of a CRD.

use std::sync::Arc;

use futures::FutureExt;
use serde_json::Value;
use tokio::runtime::{Handle, RuntimeFlavor};

use crate::admission::Admission;
use crate::registry::Endpoint;
use crate::state::State;
use crate::status::Status;
use crate::user::User;

/// The admission of a write by a simulated controller.
///
/// Webhooks decide about it as about a request, while the thread waits. A runtime with a single thread cannot wait without stopping the
/// webhooks' connections; there, only policies decide.
pub(in crate::rest) struct ControllerAdmission<'a> {
    admission: Admission<'a>,
    may_wait: bool,
}

impl<'a> ControllerAdmission<'a> {
    /// Begins the admission of a write by the controller with this field manager.
    pub(in crate::rest) fn begin(state: &'a State, endpoint: &Endpoint, manager: &str) -> Self {
        let is_configured = state.admission.is_configured();
        if !is_configured && endpoint.webhook.is_none() {
            return Self { admission: Admission::bypassed(), may_wait: false };
        }
        let runtime = Handle::try_current().ok();
        let may_wait = runtime.is_some_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread);
        let user = Arc::new(User::new(&format!("system:{manager}"), &[]));
        let mut admission = state.admission.begin(&state.access, state.registry(), user, Value::Null);
        if !may_wait {
            admission.skip_webhooks();
        }
        Self { admission, may_wait }
    }

    pub(in crate::rest) fn admission(&self) -> &Admission<'a> {
        &self.admission
    }

    /// Completes the write.
    pub(in crate::rest) fn complete<T>(
        &self,
        write: impl Future<Output = Result<T, Status>>,
    ) -> Result<T, Status> {
        if self.may_wait {
            tokio::task::block_in_place(|| Handle::current().block_on(write))
        } else {
            complete(write)
        }
    }
}

/// Completes a write that calls no webhooks and therefore waits for nothing.
pub(in crate::rest) fn complete<T>(write: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
    write.now_or_never().unwrap_or_else(|| Err(Status::internal("a write of the server itself had to wait")))
}
