//! The hosts to which a plugin may send HTTP requests: those that its descriptor asks for, if the sidecar
//! grants them.
//!
//! A pattern is `[SCHEME://]HOST[:PORT]`. The default scheme is `https`; the other one is `http`. The default
//! port is that of the scheme; `*` stands for all ports. The host is a name, `*.` and a name for all names
//! below it, an address, or `*` for every host.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use super::AddressScope;
use crate::config::current_grants::CurrentGrants;

/// A pattern for hosts, as written in descriptors and sidecars.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    tls: bool,
    host: HostPattern,
    /// `None` for all ports.
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum HostPattern {
    Any,
    /// The names below a name, which is stored with a leading dot.
    Below(String),
    One(Host),
}

/// A normalized host: lower case, without a final dot, and IPv4-mapped IPv6 addresses as IPv4.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Host {
    Name(String),
    Address(IpAddr),
}

/// The destination of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) tls: bool,
    pub(crate) host: Host,
    pub(crate) port: u16,
}

/// A pattern that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?}: {problem}; {}", Self::REMEDY)]
pub struct PatternError {
    /// The text of the pattern.
    pub text: String,
    /// What is wrong with it.
    pub problem: &'static str,
}

impl PatternError {
    pub(crate) const REMEDY: &str =
        "write a host such as \"api.example.com\", \"*.example.com\" or \"http://10.0.0.7:8080\"";
}

/// The HTTP grants of one version.
#[derive(Clone, Default)]
pub(crate) struct HttpGrants {
    requested: Vec<Pattern>,
    current_grants: CurrentGrants,
}

impl HttpGrants {
    /// Parses the hosts that the descriptor asks for. Of these, the hosts in the sidecar at the time of each
    /// request are granted.
    pub(crate) fn parse(requested: &[String], current_grants: CurrentGrants) -> Result<Self, PatternError> {
        Ok(Self { requested: parse_patterns(requested)?, current_grants })
    }

    /// Returns the addresses that a request to the target may use.
    ///
    /// # Errors
    /// Returns what is missing, and where to add it.
    pub(crate) fn check(&self, target: &Target) -> Result<AddressScope, String> {
        let sidecar_grants = self.current_grants.sidecar_grants();
        let granted = sidecar_grants.iter().flat_map(|sidecar_grants| &sidecar_grants.http);
        let granted = granted.filter(|pattern| pattern.covers(target)).map(Pattern::address_scope).max();
        let requested = self.requested.iter().any(|pattern| pattern.covers(target));
        match (requested, granted) {
            (true, Some(address_scope)) => Ok(address_scope),
            (false, Some(_)) => Err(format!(
                "the HTTP request to {target} is denied: the plugin's descriptor does not ask for that host; add \"{target}\" to its http"
            )),
            (_, None) => Err(format!(
                "the HTTP request to {target} is denied: the sidecar does not grant that host; add \"{target}\" to its grants.http"
            )),
        }
    }
}

/// Parses all patterns.
///
/// # Errors
/// Returns the first pattern that cannot be parsed.
pub(crate) fn parse_patterns(texts: &[String]) -> Result<Vec<Pattern>, PatternError> {
    texts.iter().map(|text| Pattern::parse(text)).collect()
}

impl Pattern {
    fn parse(text: &str) -> Result<Self, PatternError> {
        let error = |problem| PatternError { text: text.to_owned(), problem };
        let (tls, rest) = match text.split_once("://") {
            None => (true, text),
            Some(("https", rest)) => (true, rest),
            Some(("http", rest)) => (false, rest),
            Some(_) => return Err(error("the scheme is neither https nor http")),
        };
        if rest.contains(['/', '?', '#']) {
            return Err(error("a host is granted, not a path"));
        }
        if rest.contains('@') {
            return Err(error("a host is granted, not a user"));
        }
        let (host, port) =
            split_port(rest).ok_or_else(|| error("an IPv6 address stands in brackets: [::1]"))?;
        let port = match port {
            None => Some(default_port(tls)),
            Some("*") => None,
            Some(port) => {
                Some(parse_port(port).ok_or_else(|| error("the port is not a number of 1 to 65535"))?)
            }
        };
        let host = match host.strip_prefix('*') {
            Some("") => HostPattern::Any,
            Some(below) => match below.strip_prefix('.').and_then(Host::parse) {
                Some(Host::Name(name)) => HostPattern::Below(format!(".{name}")),
                _ => return Err(error("a star stands alone or before a dot and a name")),
            },
            None => HostPattern::One(
                Host::parse(host).ok_or_else(|| error("the host is not a DNS name and not an address"))?,
            ),
        };
        Ok(Self { tls, host, port })
    }

    fn covers(&self, target: &Target) -> bool {
        let covers_host = match (&self.host, &target.host) {
            (HostPattern::Any, _) => true,
            (HostPattern::Below(suffix), Host::Name(name)) => name.ends_with(suffix.as_str()),
            (HostPattern::Below(_), Host::Address(_)) => false,
            (HostPattern::One(host), requested_host) => host == requested_host,
        };
        covers_host && self.tls == target.tls && self.port.is_none_or(|port| port == target.port)
    }

    fn address_scope(&self) -> AddressScope {
        match &self.host {
            HostPattern::One(Host::Address(_)) => AddressScope::ThisAddress,
            HostPattern::One(Host::Name(name)) if name == "localhost" => AddressScope::Loopback,
            _ => AddressScope::Network,
        }
    }
}

impl Host {
    /// Parses the host of a URL or a pattern.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if let Some(address) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            return address.parse::<Ipv6Addr>().ok().map(|address| Self::Address(address.to_canonical()));
        }
        if let Ok(address) = text.parse::<std::net::Ipv4Addr>() {
            return Some(Self::Address(address.into()));
        }
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        is_dns_name(&name).then_some(Self::Name(name))
    }
}

/// Whether this is a DNS name (RFC 1123). Its last label must not be a number: resolvers take `127.1` and
/// `0x7f000001` for addresses.
fn is_dns_name(name: &str) -> bool {
    let is_label = |label: &str| {
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        label.len() <= 63
            && label.bytes().next().is_some_and(is_plain)
            && label.bytes().last().is_some_and(is_plain)
            && label.bytes().all(|byte| is_plain(byte) || byte == b'-')
    };
    let is_number = |label: &str| {
        let hexadecimal =
            label.strip_prefix("0x").is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_hexdigit()));
        hexadecimal || label.bytes().all(|byte| byte.is_ascii_digit())
    };
    name.len() <= 253 && name.split('.').all(is_label) && !name.rsplit('.').next().is_some_and(is_number)
}

/// Splits an authority into host and port; `None` if it has colons that belong to neither.
fn split_port(authority: &str) -> Option<(&str, Option<&str>)> {
    let after_address = authority.rfind(']').map_or(0, |end| end + 1);
    match authority[after_address..].split_once(':') {
        None => Some((authority, None)),
        Some((host, port)) if !port.contains(':') => {
            Some((&authority[..after_address + host.len()], Some(port)))
        }
        Some(_) => None,
    }
}

fn parse_port(text: &str) -> Option<u16> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|port| is_plain && *port != 0)
}

fn default_port(tls: bool) -> u16 {
    if tls { 443 } else { 80 }
}

impl Target {
    /// Returns the target of a request with this URI.
    ///
    /// # Errors
    /// Returns what is wrong with the URI.
    pub(crate) fn of(uri: &http::Uri) -> Result<Self, &'static str> {
        let tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err("the scheme is neither https nor http"),
        };
        let authority = uri.authority().ok_or("it has no host")?.as_str();
        if authority.contains('@') {
            return Err("it has a user; send credentials in the header authorization");
        }
        let (host, port) = split_port(authority).ok_or("an IPv6 address stands in brackets")?;
        let host = Host::parse(host).ok_or("the host is not a DNS name and not an address")?;
        let port = match port {
            None => default_port(tls),
            Some(port) => parse_port(port).ok_or("the port is not a number of 1 to 65535")?,
        };
        Ok(Self { tls, host, port })
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.tls {
            f.write_str("http://")?;
        }
        match &self.host {
            HostPattern::Any => f.write_str("*")?,
            HostPattern::Below(suffix) => write!(f, "*{suffix}")?,
            HostPattern::One(host) => write!(f, "{host}")?,
        }
        match self.port {
            None => f.write_str(":*"),
            Some(port) if port == default_port(self.tls) => Ok(()),
            Some(port) => write!(f, ":{port}"),
        }
    }
}

/// Displays the pattern that covers exactly this target.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.tls {
            f.write_str("http://")?;
        }
        write!(f, "{}", self.host)?;
        if self.port == default_port(self.tls) { Ok(()) } else { write!(f, ":{}", self.port) }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(IpAddr::V4(address)) => write!(f, "{address}"),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn granting(host: &str) -> CurrentGrants {
        CurrentGrants::granting(crate::config::sidecar::GrantSettings {
            http: vec![host.to_owned()],
            ..Default::default()
        })
    }

    fn target(url: &str) -> Target {
        Target::of(&url.parse().unwrap_or_else(|error| panic!("{url}: {error}")))
            .unwrap_or_else(|problem| panic!("{url}: {problem}"))
    }

    fn covers(pattern: &str, url: &str) -> bool {
        Pattern::parse(pattern).expect("a pattern").covers(&target(url))
    }

    #[test]
    fn a_pattern_is_shown_as_it_is_written() {
        for text in ["api.example.com", "*.example.com:8443", "http://10.0.0.7:8080", "http://[::1]", "*:*"] {
            assert_eq!(Pattern::parse(text).expect(text).to_string(), text);
        }
        let with_default_port = Pattern::parse("https://Example.com:443").expect("a pattern");
        assert_eq!(with_default_port.to_string(), "example.com");
    }

    #[test]
    fn a_name_matches_only_with_its_scheme_and_port() {
        for url in ["https://api.example.com/x?y", "https://API.Example.com:443", "https://api.example.com."]
        {
            assert!(covers("api.example.com", url), "{url}");
        }
        for url in [
            "http://api.example.com",
            "https://api.example.com:8443",
            "http://api.example.com:443",
            "https://example.com",
            "https://x.api.example.com",
            "https://api.example.com.evil.org",
            "https://evilapi.example.com",
        ] {
            assert!(!covers("api.example.com", url), "{url}");
        }
        assert!(covers("https://api.example.com:8443", "https://api.example.com:8443"));
        assert!(covers("http://api.example.com", "http://api.example.com:80"));
        assert!(!covers("http://api.example.com", "https://api.example.com:80"));
        assert!(covers("api.example.com:*", "https://api.example.com:1"));
    }

    #[test]
    fn a_wildcard_matches_the_names_below_and_no_address() {
        assert!(covers("*.example.com", "https://a.example.com"));
        assert!(covers("*.example.com", "https://a.b.example.com"));
        assert!(!covers("*.example.com", "https://example.com"));
        assert!(!covers("*.example.com", "https://badexample.com"));
        assert!(!covers("*.example.com", "https://10.0.0.1"));
        assert!(covers("*", "https://example.com"));
        assert!(covers("*", "https://10.0.0.1"));
        assert!(!covers("*", "http://example.com"));
        assert!(!covers("*", "https://example.com:8443"));
        assert!(covers("http://*:*", "http://example.com:8080"));
    }

    #[test]
    fn all_notations_of_an_address_are_equal() {
        assert!(covers("http://10.0.0.7:8080", "http://10.0.0.7:8080"));
        assert!(covers("127.0.0.1", "https://[::ffff:127.0.0.1]"));
        assert!(covers("[::1]:8443", "https://[0:0:0:0:0:0:0:1]:8443"));
        assert!(!covers("127.0.0.1", "https://127.0.0.2"));
        assert!(!covers("127.0.0.1", "https://localhost"));
    }

    #[test]
    fn a_text_that_only_resolvers_take_for_an_address_is_not_a_host() {
        for host in [
            "127.1",
            "2130706433",
            "0x7f000001",
            "0177.0.0.1",
            "127.0.0.0x1",
            "a..b",
            "-a",
            "ä.org",
            "a_b",
            "",
        ] {
            assert_eq!(Host::parse(host), None, "{host}");
        }
        assert_eq!(Host::parse("1.example.com"), Some(Host::Name("1.example.com".into())));
    }

    #[test]
    fn each_error_of_a_pattern_is_named() {
        for (text, problem) in [
            ("", "not a DNS name"),
            ("https://", "not a DNS name"),
            ("ftp://example.com", "neither https nor http"),
            ("HTTPS://example.com", "neither https nor http"),
            ("example.com/path", "not a path"),
            ("https://user@example.com", "not a user"),
            ("example.com:0", "port"),
            ("example.com:+80", "port"),
            ("example.com:99999", "port"),
            ("example.com:", "port"),
            ("::1", "brackets"),
            ("[::1", "brackets"),
            ("[fe80::1%eth0]", "not a DNS name"),
            ("*example.com", "a star stands alone"),
            ("*.*.com", "a star stands alone"),
            ("*.10.0.0.1", "a star stands alone"),
            ("a.*.com", "not a DNS name"),
            ("127.1", "not a DNS name"),
            ("example.com evil.org", "not a DNS name"),
        ] {
            let error = Pattern::parse(text).expect_err(text).to_string();
            assert!(error.contains(problem), "{text}: {error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn a_request_needs_both_the_descriptor_and_the_grant_and_the_missing_one_is_named() {
        let grants = |requested: &str, granted: &str| {
            HttpGrants::parse(&[requested.to_owned()], granting(granted)).expect("patterns")
        };
        let api = target("https://api.example.com:8443/secret?token=1");
        assert_eq!(grants("*:*", "api.example.com:8443").check(&api), Ok(AddressScope::Network));
        let missing = grants("*:*", "api.example.com").check(&api).expect_err("another port");
        assert!(missing.contains("add \"api.example.com:8443\" to its grants.http"), "{missing}");
        assert!(!missing.contains("secret") && !missing.contains("token"), "{missing}");
        let missing = grants("other.example.com", "*:*").check(&api).expect_err("no wish");
        assert!(missing.contains("add \"api.example.com:8443\" to its http"), "{missing}");
        assert!(HttpGrants::default().check(&api).is_err());
        // The pattern that a denial proposes grants the request.
        for url in ["http://[::1]:9090/x", "https://a.example.com", "http://10.0.0.7"] {
            assert!(covers(&target(url).to_string(), url), "{url}");
        }
    }

    #[test]
    fn only_a_grant_that_names_it_reaches_this_machine() {
        let address_scope = |granted: &str, url: &str| {
            HttpGrants::parse(&["http://*:*".to_owned()], granting(granted))
                .expect("patterns")
                .check(&target(url))
        };
        assert_eq!(address_scope("http://localhost", "http://localhost"), Ok(AddressScope::Loopback));
        assert_eq!(address_scope("http://*", "http://localhost"), Ok(AddressScope::Network));
        assert_eq!(address_scope("http://127.0.0.1", "http://127.0.0.1"), Ok(AddressScope::ThisAddress));
        assert_eq!(address_scope("http://*", "http://127.0.0.1"), Ok(AddressScope::Network));
    }

    #[test]
    fn a_request_without_a_valid_host_is_refused() {
        for uri in [
            "https://user:pass@example.com",
            "ftp://example.com",
            "/path",
            "https://0x7f.1/",
            "https://example.com:0",
        ] {
            let uri: http::Uri = uri.parse().expect("a URI");
            assert!(Target::of(&uri).is_err(), "{uri}");
        }
    }
}
