//! Checks `Host`, `Origin` and `Sec-Fetch-Site`, so that web pages cannot reach a local port through a user's browser.
//!
//! DNS rebinding needs a DNS name, so requests for IP addresses and `localhost` are allowed, and every other name must be
//! configured. Requests from pages of other sites are recognized by `Origin` or `Sec-Fetch-Site`, which scripts cannot set.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use http::header::{HOST, ORIGIN};
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderMap, Method};

/// The maximum number of characters of a refused name in an error message.
const MAX_NAME_CHARS: usize = 100;

/// Refuses requests for other hosts and requests from web pages of other sites.
#[derive(Clone, Debug)]
pub struct RequestGuard {
    scheme: &'static str,
    /// The allowed DNS names in lower case, in addition to `localhost`.
    allowed_hosts: Vec<String>,
}

/// The reason why a request was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The request has no `Host`, or more than one.
    NoHost,
    /// `Host` is neither an IP address nor an allowed name.
    ForeignHost(String),
    /// A web page of another site caused the request.
    CrossSite,
}

impl RequestGuard {
    /// Creates a guard for a port that serves `https`, or `http` if `is_tls` is false. `allowed_hosts` are its DNS names
    /// in addition to `localhost`.
    #[must_use]
    pub fn new(is_tls: bool, allowed_hosts: &[String]) -> Self {
        let allowed_hosts = allowed_hosts.iter().map(|name| name.to_ascii_lowercase()).collect();
        Self { scheme: if is_tls { "https" } else { "http" }, allowed_hosts }
    }

    /// Checks that a request may be answered.
    ///
    /// # Errors
    /// The reason to answer the request with 403.
    pub fn check(&self, request: &Parts) -> Result<(), Refusal> {
        let host = single_header(&request.headers, HOST.as_str()).map_err(|()| Refusal::NoHost)?;
        // HTTP/2 has an authority instead of a Host; a request may have both.
        let authority = request.uri.authority().map(Authority::as_str);
        for name in [authority, host].into_iter().flatten() {
            if !self.is_allowed_host(name) {
                return Err(Refusal::ForeignHost(name.chars().take(MAX_NAME_CHARS).collect()));
            }
        }
        let host = host.or(authority).ok_or(Refusal::NoHost)?;
        if self.is_cross_site(request, host) { Err(Refusal::CrossSite) } else { Ok(()) }
    }

    fn is_allowed_host(&self, authority: &str) -> bool {
        let Ok(authority) = authority.parse::<Authority>() else { return false };
        let name = authority.host();
        // Only a port may follow the name: no user name before it, no labels after an address in brackets.
        let rest = authority.as_str().strip_prefix(name).map(|rest| rest.strip_prefix(':').unwrap_or(rest));
        if !rest.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit())) {
            return false;
        }
        match name.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
            Some(address) => address.parse::<Ipv6Addr>().is_ok(),
            None => {
                name.parse::<Ipv4Addr>().is_ok()
                    || name.eq_ignore_ascii_case("localhost")
                    || self.allowed_hosts.iter().any(|allowed| name.eq_ignore_ascii_case(allowed))
            }
        }
    }

    fn is_cross_site(&self, request: &Parts, host: &str) -> bool {
        match single_header(&request.headers, ORIGIN.as_str()) {
            Err(()) => return true,
            Ok(Some(origin)) => {
                let same = origin.split_once("://").is_some_and(|(scheme, origin_host)| {
                    scheme == self.scheme && origin_host.eq_ignore_ascii_case(host)
                });
                if !same {
                    return true;
                }
            }
            Ok(None) => {}
        }
        match single_header(&request.headers, "sec-fetch-site") {
            Ok(None | Some("same-origin" | "none")) => false,
            _ => !is_navigation(request),
        }
    }
}

/// Whether the user follows a link to this port. The page that contains the link cannot read the response.
fn is_navigation(request: &Parts) -> bool {
    let is = |name, value| single_header(&request.headers, name) == Ok(Some(value));
    matches!(request.method, Method::GET | Method::HEAD)
        && is("sec-fetch-mode", "navigate")
        && is("sec-fetch-dest", "document")
}

/// Returns the value of a header; `None` if it is absent, an error if it occurs twice or is not text.
fn single_header<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, ()> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(drop),
        _ => Err(()),
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoHost => f.write_str("the request has no Host header, or more than one; send one"),
            Self::ForeignHost(name) => write!(
                f,
                "the Host {name:?} is not served here; use an IP address or localhost, or start the server with \
                 --allowed-hosts and that name"
            ),
            Self::CrossSite => {
                f.write_str("the request was caused by a web page of another site; such requests are refused")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(method: &str, uri: &str, headers: &[(&'static str, &str)]) -> Result<(), Refusal> {
        let mut request = http::Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (parts, ()) = request.body(()).expect("a request").into_parts();
        RequestGuard::new(false, &["Host.Example".to_owned()]).check(&parts)
    }

    #[test]
    fn addresses_localhost_and_allowed_names_are_accepted() {
        for host in [
            "127.0.0.1:9464",
            "127.0.0.1",
            "[::1]:80",
            "10.1.2.3:9464",
            "localhost:1",
            "LOCALHOST",
            "host.example:9464",
        ] {
            assert_eq!(check("GET", "/api/logs", &[("host", host)]), Ok(()), "{host}");
        }
    }

    #[test]
    fn other_dns_names_are_refused() {
        for host in [
            "attacker.example",
            "attacker.example:9464",
            "127.0.0.1.attacker.example",
            "x.localhost",
            "host.example.attacker.example",
            "localhost@attacker.example",
            "2130706433",
            "0x7f.1",
            "[::1].attacker.example",
            "",
        ] {
            let refused = check("GET", "/", &[("host", host)]);
            assert!(matches!(refused, Err(Refusal::ForeignHost(_))), "{host}: {refused:?}");
        }
    }

    #[test]
    fn host_header_and_uri_authority_are_both_checked() {
        let local = ("host", "127.0.0.1:1");
        assert!(matches!(check("GET", "http://attacker.example/", &[local]), Err(Refusal::ForeignHost(_))));
        assert_eq!(check("GET", "http://127.0.0.1:1/", &[]), Ok(()));
        assert_eq!(check("GET", "/", &[]), Err(Refusal::NoHost));
        assert_eq!(check("GET", "/", &[local, local]), Err(Refusal::NoHost));
    }

    #[test]
    fn requests_from_other_sites_are_refused() {
        let host = ("host", "127.0.0.1:9464");
        assert_eq!(check("POST", "/x", &[host, ("origin", "http://127.0.0.1:9464")]), Ok(()));
        for origin in [
            "http://attacker.example",
            "null",
            "https://127.0.0.1:9464",
            "http://127.0.0.1:8080",
            "http://localhost:9464",
            "",
        ] {
            assert_eq!(check("POST", "/x", &[host, ("origin", origin)]), Err(Refusal::CrossSite), "{origin}");
        }
        for site in ["cross-site", "same-site", "new-value"] {
            let headers = [host, ("sec-fetch-site", site), ("sec-fetch-mode", "no-cors")];
            assert_eq!(check("GET", "/api/logs", &headers), Err(Refusal::CrossSite), "{site}");
        }
        for site in ["same-origin", "none"] {
            assert_eq!(check("GET", "/", &[host, ("sec-fetch-site", site)]), Ok(()), "{site}");
        }
    }

    #[test]
    fn links_to_the_port_work_but_frames_and_forms_do_not() {
        let host = ("host", "localhost:9464");
        let link = [host, ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")];
        let to = |method, dest| {
            let headers = [&link[..], &[("sec-fetch-dest", dest)]].concat();
            check(method, "/", &headers)
        };
        assert_eq!(to("GET", "document"), Ok(()));
        assert_eq!(to("GET", "iframe"), Err(Refusal::CrossSite));
        assert_eq!(to("POST", "document"), Err(Refusal::CrossSite));
    }

    #[test]
    fn error_message_truncates_a_long_name() {
        let long = "a".repeat(4000);
        let refused = check("GET", "/", &[("host", &long)]).expect_err("foreign").to_string();
        assert!(refused.len() < 300 && refused.contains("--allowed-hosts"), "{refused}");
    }
}
