//! Where a webhook is: the `clientConfig` of a configuration.

use std::sync::Arc;

use http::Uri;
use rustls::ClientConfig;
use serde_json::Value;

use super::tls;

/// Where a webhook is, and which certificates its server may have.
#[derive(Clone, Debug)]
pub(crate) struct Destination {
    pub(super) address: Address,
    /// The TLS settings of `caBundle`; `None` for the system's certificate authorities.
    pub(super) tls: Option<Arc<ClientConfig>>,
}

/// The address of a webhook.
#[derive(Clone, Debug)]
pub(super) enum Address {
    Url(Uri),
    Service { namespace: String, name: String, port: u16, path: String },
}

impl Destination {
    /// Reads a `clientConfig` that was validated when it was written.
    ///
    /// # Errors
    /// Why no webhook can be called with it.
    pub(crate) fn parse(config: &Value) -> Result<Self, String> {
        let service = &config["service"];
        let address = match (config["url"].as_str(), service.is_object()) {
            (Some(url), false) => Address::Url(parse_url(url)?),
            (None, true) => {
                let text = |name: &str| service[name].as_str().unwrap_or_default().to_owned();
                let port = service["port"].as_u64().unwrap_or(443);
                Address::Service {
                    namespace: text("namespace"),
                    name: text("name"),
                    port: u16::try_from(port).map_err(|_| format!("{port} is not a port"))?,
                    path: clean_path(&text("path")),
                }
            }
            _ => return Err("exactly one of url or service is required".to_owned()),
        };
        let tls = match config.get("caBundle").filter(|bundle| !bundle.is_null()) {
            Some(bundle) => tls::with_bundle(bundle)?,
            None => None,
        };
        Ok(Self { address, tls })
    }

    /// Reads a `clientConfig` as [`Self::parse`] does, without its `caBundle`.
    ///
    /// # Errors
    /// Why no webhook can be called at the address.
    pub(crate) fn check_address(config: &Value) -> Result<(), String> {
        let mut config = config.clone();
        config.as_object_mut().map(|config| config.remove("caBundle"));
        Self::parse(&config).map(drop)
    }

    /// Returns what is wrong with the `caBundle` of a `clientConfig`; `None` if it is valid or absent.
    pub(crate) fn bundle_problem(config: &Value) -> Option<String> {
        let bundle = config.get("caBundle").filter(|bundle| !bundle.is_null())?;
        let problem = tls::with_bundle(bundle).err()?;
        Some(problem.trim_start_matches("caBundle: ").to_owned())
    }

    /// Returns the URL of requests, as error messages show it.
    pub(super) fn url(&self) -> String {
        match &self.address {
            Address::Url(url) => url.to_string(),
            Address::Service { namespace, name, port, path } => {
                format!("https://{name}.{namespace}.svc:{port}{path}")
            }
        }
    }
}

/// Parses the URL of a webhook; only https is allowed, without user information, query and fragment.
fn parse_url(url: &str) -> Result<Uri, String> {
    let parsed: Uri = url.parse().map_err(|error| format!("the URL of the webhook is malformed: {error}"))?;
    let (scheme, host) = (parsed.scheme_str(), parsed.host().unwrap_or_default());
    // Errors show the URL of a request, which must not contain a password.
    if parsed.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return Err("user information is not permitted in the URL of a webhook".to_owned());
    }
    if scheme != Some("https") || host.is_empty() {
        return Err(format!("{url:?} is not an https URL with a host"));
    }
    if parsed.query().is_some_and(|query| !query.is_empty()) || url.contains('#') {
        return Err(format!("{url:?} has a query or a fragment, which the URL of a webhook may not have"));
    }
    let authority = parsed.authority().map(ToString::to_string).unwrap_or_default();
    let cleaned = format!("https://{authority}{}", clean_path(parsed.path()));
    cleaned.parse().map_err(|error| format!("the URL of the webhook is malformed: {error}"))
}

/// Returns a path as client-go requests it: it begins with one `/`, and has no empty, `.` or `..` segments and no `/` at its end.
fn clean_path(path: &str) -> String {
    let mut segments = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            _ => segments.push(segment),
        }
    }
    format!("/{}", segments.join("/"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn url_of_a_destination_follows_its_client_config() {
        let url = |config: Value| Destination::parse(&config).map(|destination| destination.url());
        assert_eq!(url(json!({"url": "https://a.b:9/c"})), Ok("https://a.b:9/c".to_owned()));
        // envtest adds a slash before a path that begins with one.
        assert_eq!(url(json!({"url": "https://a.b:9//c"})), Ok("https://a.b:9/c".to_owned()));
        assert_eq!(url(json!({"url": "https://a.b/../c/./d/"})), Ok("https://a.b/c/d".to_owned()));
        assert_eq!(url(json!({"url": "https://a.b"})), Ok("https://a.b/".to_owned()));
        let service = json!({"service": {"namespace": "n", "name": "s", "path": "validate"}});
        assert_eq!(url(service), Ok("https://s.n.svc:443/validate".to_owned()));
        let service = json!({"service": {"namespace": "n", "name": "s", "port": 8443}});
        assert_eq!(url(service), Ok("https://s.n.svc:8443/".to_owned()));
    }

    #[test]
    fn url_with_user_information_a_query_or_a_fragment_is_refused() {
        for url in ["https://user:secret@a/b", "https://a/b?c=d", "https://a/b#c"] {
            let problem = Destination::parse(&json!({"url": url})).expect_err(url);
            assert!(!problem.contains("secret"), "{problem}");
        }
        assert!(Destination::parse(&json!({"url": "https://a/b?"})).is_ok());
    }

    #[test]
    fn client_config_without_an_https_url_is_refused() {
        let both = json!({"url": "https://a", "service": {"namespace": "n", "name": "s"}});
        for config in [json!({}), both, json!({"url": "http://a"}), json!({"url": "file:///etc/passwd"})] {
            assert!(Destination::parse(&config).is_err(), "{config}");
        }
        assert!(
            Destination::parse(&json!({"url": "https://a", "caBundle": "eA=="})).is_err(),
            "no certificate"
        );
    }
}
