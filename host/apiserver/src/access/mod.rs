//! Authentication, impersonation, and authorization by RBAC.
//!
//! [`policy::Policy`] decides; it is a pure value that [`policy_cache`] keeps consistent with the stored roles and bindings.
//! A server that allows every request has no policy.

mod attributes;
mod client_certificate;
mod credentials;
mod escalation;
mod impersonation;
mod policy;
mod policy_cache;
mod rule;
mod tokens;

use std::sync::Arc;

use http::HeaderMap;
use pilothouse_listen::ClientCertificate;

pub(crate) use attributes::Attributes;
pub(crate) use rule::PolicyRule;
pub(crate) use tokens::{AUDIENCE, Token, Tokens};

use crate::clock::Clock;
use crate::identifiers::Identifiers;
use crate::registry::Endpoint;
use crate::request::Request;
use crate::status::Status;
use crate::storage::Storage;
use crate::user::User;
use policy::Decision;
use policy_cache::PolicyCache;

/// The API group of roles and bindings.
pub(crate) const GROUP: &str = "rbac.authorization.k8s.io";

/// The paths that are served without credentials, for probes.
const PUBLIC_PATHS: [&str; 4] = ["/healthz", "/livez", "/readyz", "/version"];

/// How a server authorizes requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Authorization {
    /// Every authenticated request is allowed.
    #[default]
    AlwaysAllow,
    /// Requests are authorized by the stored roles and bindings, as in Kubernetes. [`crate::ApiServer::kubeconfig`]
    /// contains the administrator's credentials.
    Rbac,
}

/// Authenticates and authorizes requests.
pub(crate) struct Access {
    /// `None` if every request is allowed.
    rbac: Option<PolicyCache>,
    /// Whether requests over sockets may come without credentials.
    allow_anonymous: bool,
    /// The administrator's bearer token. Unpredictable, even if the server has a seed.
    admin_token: String,
    admin: Arc<User>,
    anonymous: Arc<User>,
    pub tokens: Tokens,
    clock: Arc<dyn Clock>,
}

/// The result of an access review.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReviewStatus {
    pub allowed: bool,
    /// The reason, as reviews show it; "" if there is none.
    pub reason: String,
}

impl Access {
    pub(crate) fn new(
        authorization: Authorization,
        allow_anonymous: bool,
        storage: &Storage,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            rbac: (authorization == Authorization::Rbac).then(|| PolicyCache::new(storage)),
            allow_anonymous,
            admin_token: Identifiers::default().token(),
            admin: Arc::new(User::admin()),
            anonymous: Arc::new(User::anonymous()),
            tokens: Tokens::new(storage),
            clock,
        }
    }

    /// Whether requests are authorized by RBAC.
    pub(crate) fn is_enforced(&self) -> bool {
        self.rbac.is_some()
    }

    /// Returns the administrator, the default user of requests within the process.
    pub(crate) fn admin(&self) -> &Arc<User> {
        &self.admin
    }

    /// Returns the user of requests over a socket without credentials, or `None` if such requests are refused.
    pub(crate) fn user_without_credentials(&self) -> Option<&Arc<User>> {
        let user = if self.is_enforced() { &self.anonymous } else { &self.admin };
        self.allow_anonymous.then_some(user)
    }

    /// Returns the administrator's token, or `None` if no credentials are required.
    pub(crate) fn admin_token(&self) -> Option<&str> {
        (self.is_enforced() || !self.allow_anonymous).then_some(&*self.admin_token)
    }

    /// Whether `text` is the administrator's token.
    pub(crate) fn is_admin_token(&self, text: &str) -> bool {
        credentials::are_equal(text, &self.admin_token)
    }

    /// Returns the user to authorize a request for: the impersonated user, or else the sender.
    ///
    /// # Errors
    /// 403 if the sender may not impersonate the user.
    pub(crate) fn effective_user(&self, request: &Request) -> Result<Arc<User>, Status> {
        let sender = &request.sender;
        let user = impersonation::impersonated_user(&request.headers, sender, |attributes| {
            self.authorize(sender, attributes)
        })?;
        Ok(user.map_or_else(|| Arc::clone(sender), Arc::new))
    }

    /// Returns the user of the client certificate, or else of the credentials in the request's headers, or else `default`.
    ///
    /// # Errors
    /// 401 if the credentials are invalid, or if there are neither credentials nor a default user and `path` is not
    /// that of a probe.
    pub(crate) fn authenticate(
        &self,
        certificate: Option<&ClientCertificate>,
        headers: &HeaderMap,
        path: &str,
        default: Option<&Arc<User>>,
    ) -> Result<Arc<User>, Status> {
        if let Some(user) = certificate.and_then(client_certificate::user) {
            return Ok(Arc::new(user));
        }
        let Some(token) = credentials::token(headers) else {
            let public = PUBLIC_PATHS.contains(&path).then_some(&self.anonymous);
            return default.or(public).cloned().ok_or_else(Status::unauthorized);
        };
        if self.is_admin_token(&token) {
            return Ok(Arc::clone(&self.admin));
        }
        match (self.tokens.find(&token, self.clock.now()), default) {
            (Some(found), _) if found.is_for(AUDIENCE) => Ok(Arc::new(found.user())),
            // No credentials are required, so invalid ones are ignored.
            (_, Some(user)) if !self.is_enforced() => Ok(Arc::clone(user)),
            _ => Err(Status::unauthorized()),
        }
    }

    /// Returns whether a user may make a request, and why, as access reviews report it.
    pub(crate) fn review(&self, user: &User, attributes: &Attributes<'_>) -> ReviewStatus {
        let Some(rbac) = &self.rbac else {
            return ReviewStatus { allowed: true, reason: String::new() };
        };
        match rbac.read().decide(user, attributes) {
            Decision::Allowed(None) => ReviewStatus { allowed: true, reason: String::new() },
            Decision::Allowed(Some(grant)) => {
                ReviewStatus { allowed: true, reason: format!("RBAC: allowed by {grant}") }
            }
            Decision::Denied(problems) => {
                ReviewStatus { allowed: false, reason: policy::describe(&problems) }
            }
        }
    }

    /// Errors with 403 unless the user may make a request with these attributes.
    pub(crate) fn authorize(&self, user: &User, attributes: &Attributes<'_>) -> Result<(), Status> {
        let Some(rbac) = &self.rbac else { return Ok(()) };
        match rbac.read().decide(user, attributes) {
            Decision::Allowed(_) => Ok(()),
            Decision::Denied(problems) => Err(attributes.forbidden(&user.name, &policy::describe(&problems))),
        }
    }

    /// Errors with 403 unless `author` may create the object. A PUT or an apply that creates an object requires this in
    /// addition to `update` or `patch`.
    pub(crate) fn authorize_create(
        &self,
        author: Option<&Arc<User>>,
        endpoint: &Endpoint,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<(), Status> {
        let Some(user) = author else { return Ok(()) };
        let namespace = namespace.unwrap_or_default();
        let attributes = Attributes::resource("create", &endpoint.group, &endpoint.resource.names.plural);
        self.authorize(user, &attributes.in_namespace(namespace).named(name))
    }

    /// Returns the rules that apply to a user in a namespace and in the cluster, and a description of the roles that could
    /// not be found; "" if none is missing.
    pub(crate) fn rules(&self, user: &User, namespace: &str) -> (Vec<PolicyRule>, String) {
        match &self.rbac {
            None => (PolicyRule::cluster_admin().to_vec(), String::new()),
            Some(rbac) => {
                let (rules, problems) = rbac.read().rules(user, namespace);
                (rules, policy::describe(&problems))
            }
        }
    }
}
