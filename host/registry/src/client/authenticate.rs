//! Answers a registry that asks for credentials.

use bytes::Bytes;
use http::Method;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use serde::Deserialize;

use super::RegistryClient;
use crate::challenge::{Challenge, encode, token_query};
use crate::credentials::Credentials;
use crate::error::{Problem, RegistryError};
use crate::exchange::{OutgoingRequest, PendingResponse, send};
use crate::origin::{Location, address_scope, invalid_realm};

/// The largest response with a token, in bytes.
const MAX_TOKEN: usize = 64 << 10;

#[derive(Deserialize)]
struct TokenResponse {
    token: Option<String>,
    access_token: Option<String>,
}

impl RegistryClient {
    /// Returns the header `authorization` that the response asks for.
    pub(super) async fn authenticate(
        &self,
        response: &PendingResponse,
        scope: &str,
    ) -> Result<HeaderValue, RegistryError> {
        match Challenge::parse(&self.registry, response.headers(WWW_AUTHENTICATE.as_str()))? {
            Challenge::Basic => {
                let basic = self.credentials.as_ref().and_then(Credentials::basic);
                let basic = basic.ok_or_else(|| {
                    RegistryError::new(
                        Problem::Denied,
                        format!(
                            "{} asks for a user and a password, and there are none for it; add them to the docker config.json",
                            self.registry
                        ),
                    )
                })?;
                self.header(&basic)
            }
            Challenge::Bearer { realm, service, .. } => {
                // The registry's own scope is not used: it could ask for more than the request needs.
                let token = self.token(&realm, service.as_deref(), scope).await?;
                self.header(&format!("Bearer {token}"))
            }
        }
    }

    async fn token(&self, realm: &str, service: Option<&str>, scope: &str) -> Result<String, RegistryError> {
        let context = || format!("a token for {}", self.registry);
        let mut location = Location::realm(&self.registry, realm)?;
        let addresses = address_scope(&self.origin, &location.origin, &self.options.trusted_hosts)
            .map_err(|error| error.in_context(context()))?;
        let mut outgoing = OutgoingRequest::get("application/json");
        if let Some(Credentials::IdentityToken(token)) = &self.credentials {
            outgoing.method = Method::POST;
            outgoing
                .headers
                .insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
            let form = token_query(Some("grant_type=refresh_token&client_id=pilothouse"), service, scope);
            outgoing.body = Bytes::from(format!("{form}&refresh_token={}", encode(token)));
        } else {
            let query = token_query(location.path.query(), service, scope);
            location.path = format!("{}?{query}", location.path.path())
                .parse()
                .map_err(|_| invalid_realm(&self.registry, realm, "its query is too long"))?;
            if let Some(basic) = self.credentials.as_ref().and_then(Credentials::basic) {
                outgoing.headers.insert(AUTHORIZATION, self.header(&basic)?);
            }
        }
        // A redirect is not followed: it could lead the credentials elsewhere.
        let response = send(&outgoing, &location, addresses, &self.tls, self.options.timeouts)
            .await
            .map_err(|error| error.in_context(context()))?;
        let status = response.status();
        if !status.is_success() {
            let (problem, remedy) = match status.as_u16() {
                400 | 401 | 403 => (Problem::Denied, self.denied_remedy()),
                429 | 500..=599 => (Problem::Busy, "it is tried again later"),
                _ => (Problem::Protocol, "check the registry's configuration"),
            };
            return Err(RegistryError::new(
                problem,
                format!("{}: {} responds with {}; {remedy}", context(), location.origin, status.as_u16()),
            ));
        }
        let body = response.body(MAX_TOKEN, "a token").await.map_err(|error| error.in_context(context()))?;
        let parsed = serde_json::from_slice::<TokenResponse>(&body).ok();
        let token =
            parsed.and_then(|parsed| parsed.token.or(parsed.access_token)).filter(|token| !token.is_empty());
        token.ok_or_else(|| {
            RegistryError::new(
                Problem::Protocol,
                format!(
                    "{}: the response of {} has none; check the registry's configuration",
                    context(),
                    location.origin
                ),
            )
        })
    }

    /// Makes a header's value that logs do not show.
    fn header(&self, text: &str) -> Result<HeaderValue, RegistryError> {
        let mut value = HeaderValue::from_str(text).map_err(|_| {
            RegistryError::new(
                Problem::Denied,
                format!(
                    "the credentials for {} contain characters that no header may have; replace them",
                    self.registry
                ),
            )
        })?;
        value.set_sensitive(true);
        Ok(value)
    }
}
