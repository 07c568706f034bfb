//! Who asks, and what they may do: authentication, impersonation, RBAC.
//!
//! [`Policy`] decides; it is a pure value that [`live`] keeps in step with the stored roles and bindings. A server that
//! allows everything asks none of this, except for reviews.

mod bootstrap;
mod credentials;
mod escalation;
mod impersonation;
mod live;
mod policy;
mod question;
mod rule;
mod tokens;
mod user;

use std::sync::Arc;

use http::HeaderMap;

pub(crate) use bootstrap::bootstrap;
pub(crate) use question::Question;
pub(crate) use rule::Rule;
pub(crate) use tokens::{AUDIENCE, Token, Tokens};
pub use user::User;

use crate::clock::Clock;
use crate::registry::Endpoint;
use crate::request::Request;
use crate::status::Status;
use crate::storage::Storage;
use live::Live;
use policy::Decision;

/// The API group of roles and bindings.
pub(crate) const GROUP: &str = "rbac.authorization.k8s.io";

/// What answers without credentials, for probes.
const PUBLIC_PATHS: [&str; 4] = ["/healthz", "/livez", "/readyz", "/version"];

/// How a server decides what a request may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Authorization {
    /// Everything is allowed to everyone who is served.
    #[default]
    AlwaysAllow,
    /// By the roles and bindings that are stored, as in Kubernetes. [`crate::ApiServer::kubeconfig`] has the
    /// administrator's credentials.
    Rbac,
}

/// Answers who asks and what they may do.
pub(crate) struct Access {
    /// None when everything is allowed.
    rbac: Option<Live>,
    /// Whether requests over sockets may come without credentials.
    allows_anonymous: bool,
    /// What the administrator authenticates with.
    admin_token: String,
    admin: Arc<User>,
    anonymous: Arc<User>,
    pub tokens: Tokens,
    clock: Arc<dyn Clock>,
}

/// The answer to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub allowed: bool,
    /// What led to it, as reviews show it; "" where there is nothing to say.
    pub reason: String,
}

impl Access {
    pub(crate) fn new(
        authorization: Authorization,
        allows_anonymous: bool,
        storage: &Storage,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            rbac: (authorization == Authorization::Rbac).then(|| Live::new(storage)),
            allows_anonymous,
            admin_token: tokens::random(),
            admin: Arc::new(User::admin()),
            anonymous: Arc::new(User::anonymous()),
            tokens: Tokens::new(storage),
            clock,
        }
    }

    /// Whether requests are judged at all.
    pub(crate) fn is_enforced(&self) -> bool {
        self.rbac.is_some()
    }

    /// The administrator, whom requests within the process come from where they do not say otherwise.
    pub(crate) fn admin(&self) -> &Arc<User> {
        &self.admin
    }

    /// Whom requests without credentials over a socket come from; none if they are refused.
    pub(crate) fn stranger(&self) -> Option<&Arc<User>> {
        let user = if self.is_enforced() { &self.anonymous } else { &self.admin };
        self.allows_anonymous.then_some(user)
    }

    /// The administrator's token; none where nobody needs one.
    pub(crate) fn admin_token(&self) -> Option<&str> {
        (self.is_enforced() || !self.allows_anonymous).then_some(&*self.admin_token)
    }

    /// Whether a text is the administrator's token.
    pub(crate) fn is_admin_token(&self, text: &str) -> bool {
        credentials::are_equal(text, &self.admin_token)
    }

    /// Whom a request is to be judged as: who sent it, or whom the sender may and wants to impersonate.
    pub(crate) fn user_of(&self, request: &Request) -> Result<Arc<User>, Status> {
        let sender = &request.sender;
        let user = impersonation::user(&request.headers, sender, |question| self.require(sender, question))?;
        Ok(user.map_or_else(|| Arc::clone(sender), Arc::new))
    }

    /// Who sends a request for `path`: whose credentials it has, or `otherwise`. Without both it is refused with 401, unless
    /// it asks whether the server is well.
    pub(crate) fn authenticate(
        &self,
        headers: &HeaderMap,
        path: &str,
        otherwise: Option<&Arc<User>>,
    ) -> Result<Arc<User>, Status> {
        let Some(token) = credentials::token(headers) else {
            let public = PUBLIC_PATHS.contains(&path).then_some(&self.anonymous);
            return otherwise.or(public).cloned().ok_or_else(Status::unauthorized);
        };
        if self.is_admin_token(&token) {
            return Ok(Arc::clone(&self.admin));
        }
        match (self.tokens.find(&token, self.clock.now()), otherwise) {
            (Some(found), _) if found.is_for(AUDIENCE) => Ok(Arc::new(found.user())),
            // Nobody needs credentials, so wrong ones do no harm.
            (_, Some(user)) if !self.is_enforced() => Ok(Arc::clone(user)),
            _ => Err(Status::unauthorized()),
        }
    }

    /// What a user may do.
    pub(crate) fn judge(&self, user: &User, question: &Question<'_>) -> Verdict {
        let Some(rbac) = &self.rbac else {
            return Verdict { allowed: true, reason: "this server authorizes every request".into() };
        };
        match rbac.read().decide(user, question) {
            Decision::Allowed(None) => Verdict { allowed: true, reason: String::new() },
            Decision::Allowed(Some(grant)) => {
                Verdict { allowed: true, reason: format!("RBAC: allowed by {grant}") }
            }
            Decision::Denied(problems) => Verdict { allowed: false, reason: policy::describe(&problems) },
        }
    }

    /// 403 unless the user may do this.
    pub(crate) fn require(&self, user: &User, question: &Question<'_>) -> Result<(), Status> {
        let Some(rbac) = &self.rbac else { return Ok(()) };
        match rbac.read().decide(user, question) {
            Decision::Allowed(_) => Ok(()),
            Decision::Denied(problems) => Err(question.forbidden(&user.name, &policy::describe(&problems))),
        }
    }

    /// For a PUT or an apply that makes a new object: it needs the right to create, too.
    pub(crate) fn require_create(
        &self,
        author: Option<&Arc<User>>,
        endpoint: &Endpoint,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<(), Status> {
        let Some(user) = author else { return Ok(()) };
        let namespace = namespace.unwrap_or_default();
        let question = Question::resource("create", &endpoint.group, &endpoint.resource.names.plural);
        self.require(user, &question.within(namespace).named(name))
    }

    /// The rules that hold for a user, in a namespace and in the cluster, and what kept others from being found.
    pub(crate) fn rules(&self, user: &User, namespace: &str) -> (Vec<Rule>, String) {
        match &self.rbac {
            None => (Rule::everything().to_vec(), String::new()),
            Some(rbac) => {
                let (rules, problems) = rbac.read().rules(user, namespace);
                (rules, policy::describe(&problems))
            }
        }
    }
}
