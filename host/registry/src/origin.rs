//! Where a request goes, and which of the hosts that a registry names are contacted.

use std::fmt;

use http::Uri;
use http::uri::PathAndQuery;

use crate::error::{Problem, RegistryError, excerpt};

/// A scheme, a host and a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Origin {
    pub(crate) tls: bool,
    /// In lower case; an IPv6 address is in brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// A URL that a registry named, split into what is needed to request it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Location {
    pub(crate) origin: Origin,
    pub(crate) path: PathAndQuery,
}

/// Which addresses a host may resolve to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddressScope {
    /// An operator named the host.
    Any,
    /// Only the registry named the host.
    Public,
}

impl Origin {
    /// The origin of a registry, which is `host` or `host:port`.
    pub(crate) fn of_registry(registry: &str, plain_http: bool) -> Result<Self, RegistryError> {
        // Docker's registry is known by a name that does not serve it.
        let host = if registry == "docker.io" { "registry-1.docker.io" } else { registry };
        let scheme = if plain_http { "http" } else { "https" };
        let location = Location::parse(&format!("{scheme}://{host}/")).map_err(|problem| {
            RegistryError::new(
                Problem::Invalid,
                format!(
                    "the registry {:?} cannot be contacted: {problem}; write a host, or host:port",
                    excerpt(registry)
                ),
            )
        })?;
        Ok(location.origin)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tls, host, port } = self;
        write!(f, "{}://{host}", if *tls { "https" } else { "http" })?;
        if *port == default_port(*tls) { Ok(()) } else { write!(f, ":{port}") }
    }
}

fn default_port(tls: bool) -> u16 {
    if tls { 443 } else { 80 }
}

impl Location {
    /// Parses an absolute URL. Errors say what is wrong with it.
    fn parse(text: &str) -> Result<Self, &'static str> {
        let uri: Uri = text.parse().map_err(|_| "it is not a valid URL")?;
        let tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err("its scheme is neither https nor http"),
        };
        let authority = uri.authority().ok_or("it has no host")?;
        if authority.as_str().contains('@') {
            return Err("it contains a user");
        }
        let host = authority.host().to_ascii_lowercase();
        let has_port = authority.as_str().len() > authority.host().len();
        let port = match (authority.port_u16(), has_port) {
            (Some(port), _) if port > 0 => port,
            (None, false) => default_port(tls),
            _ => return Err("its port is not valid"),
        };
        if host.is_empty() {
            return Err("it has no host");
        }
        let path = uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
        Ok(Self { origin: Origin { tls, host, port }, path })
    }

    /// Parses the realm of a challenge: the URL at which a registry's tokens are issued.
    pub(crate) fn realm(registry: &str, text: &str) -> Result<Self, RegistryError> {
        Self::parse(text).map_err(|problem| invalid_realm(registry, text, problem))
    }

    /// Parses the header `location` of a response to a request to `base`.
    pub(crate) fn relative_to(base: &Origin, text: &str) -> Result<Self, RegistryError> {
        let parsed = if !text.starts_with('/') || text.starts_with("//") {
            Self::parse(text)
        } else {
            let path = text.parse().map_err(|_| "it is not a valid path");
            path.map(|path| Self { origin: base.clone(), path })
        };
        parsed.map_err(|problem| {
            let text = excerpt(text);
            RegistryError::new(
                Problem::Protocol,
                format!(
                    "{base} refers to {text:?}, but {problem}; check that it is a registry, and that no proxy changes its responses"
                ),
            )
        })
    }
}

/// The error of a realm that cannot be requested.
pub(crate) fn invalid_realm(registry: &str, realm: &str, problem: &str) -> RegistryError {
    let realm = excerpt(realm);
    RegistryError::new(
        Problem::Protocol,
        format!(
            "{registry} issues tokens at {realm:?}, but {problem}; correct the realm in the registry's configuration, and check that no proxy responds in its place"
        ),
    )
}

/// Decides whether a location that the registry named is contacted. `trusted` are the hosts that the operator named besides the registry.
///
/// # Errors
/// Returns the remedy if it is not.
pub(crate) fn address_scope(
    registry: &Origin,
    named: &Origin,
    trusted: &[String],
) -> Result<AddressScope, RegistryError> {
    if named == registry {
        return Ok(AddressScope::Any);
    }
    let forbidden = |problem: &str, remedy: &str| {
        RegistryError::new(
            Problem::ForbiddenHost,
            format!("{registry} refers to {named}, {problem}; {remedy}"),
        )
    };
    if !named.tls {
        return Err(forbidden(
            "which is not contacted without TLS",
            "have the registry refer to an https URL",
        ));
    }
    let is_trusted = trusted.iter().any(|host| {
        host.eq_ignore_ascii_case(&named.host)
            || host.eq_ignore_ascii_case(&format!("{}:{}", named.host, named.port))
    });
    if is_trusted {
        return Ok(AddressScope::Any);
    }
    let host_without_port = |origin: &Origin| origin.host.clone();
    if host_without_port(registry) == host_without_port(named) {
        return Err(forbidden(
            "another port of the same host",
            &trust_remedy(&format!("{}:{}", named.host, named.port)),
        ));
    }
    Ok(AddressScope::Public)
}

/// What to do if the registry may refer to a host.
pub(crate) fn trust_remedy(host: &str) -> String {
    format!(
        "if that is meant, add {host:?} to registries.trustedHosts of the host's configuration, or pass it to --trusted-host"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(url: &str) -> Origin {
        Location::parse(url).expect(url).origin
    }

    #[test]
    fn a_registry_has_the_port_of_its_scheme() {
        assert_eq!(Origin::of_registry("ghcr.io", false), Ok(origin("https://ghcr.io:443/x")));
        assert_eq!(Origin::of_registry("localhost:5000", true), Ok(origin("http://localhost:5000")));
        assert_eq!(origin("https://[::1]:5000").host, "[::1]");
        assert_eq!(Origin::of_registry("docker.io", false).expect("an origin").host, "registry-1.docker.io");
    }

    #[test]
    fn a_location_may_be_relative_to_its_registry_only_by_a_path() {
        let base = origin("https://r.example");
        let found = Location::relative_to(&base, "/v2/a/blobs/uploads/1?state=x").expect("a path");
        assert_eq!((found.origin, found.path.as_str()), (base.clone(), "/v2/a/blobs/uploads/1?state=x"));
        assert_eq!(
            Location::relative_to(&base, "https://cdn.example/x").expect("a URL").origin,
            origin("https://cdn.example")
        );
        for text in [
            "//evil.example/x",
            "x",
            "",
            "ftp://x/",
            "https://user:secret@x/",
            "https://x:0/",
            "https://x:y/",
            "https://",
        ] {
            let error = Location::relative_to(&base, text).expect_err(text).to_string();
            assert!(error.starts_with("https://r.example refers to") && error.contains("; check"), "{error}");
            let error = Location::realm("r.example", text).expect_err(text).to_string();
            assert!(
                error.starts_with("r.example issues tokens at") && error.contains("; correct"),
                "{error}"
            );
        }
    }

    #[test]
    fn only_the_operators_hosts_may_have_private_addresses() {
        let registry = origin("https://r.example:5000");
        let scope = |named: &str, trusted: &[&str]| {
            let trusted: Vec<_> = trusted.iter().map(|&host| host.to_owned()).collect();
            address_scope(&registry, &origin(named), &trusted).map_err(|error| error.problem())
        };
        assert_eq!(scope("https://r.example:5000/token", &[]), Ok(AddressScope::Any));
        assert_eq!(scope("https://auth.example/token", &[]), Ok(AddressScope::Public));
        assert_eq!(scope("https://auth.example/token", &["Auth.example"]), Ok(AddressScope::Any));
        assert_eq!(scope("http://auth.example/token", &["auth.example"]), Err(Problem::ForbiddenHost));
        assert_eq!(scope("http://r.example:5000/token", &[]), Err(Problem::ForbiddenHost));
        assert_eq!(scope("https://r.example:22/token", &[]), Err(Problem::ForbiddenHost));
        assert_eq!(scope("https://r.example:22/token", &["r.example:22"]), Ok(AddressScope::Any));
    }
}
