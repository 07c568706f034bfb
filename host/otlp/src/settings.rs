//! Where and how spans are sent: from flags, and from the environment variables that the specification of OpenTelemetry defines. Pure.

use std::path::PathBuf;
use std::time::Duration;

use http::uri::{PathAndQuery, Scheme};
use http::{HeaderMap, Uri};

use crate::environment::{Environment, parse_headers, parse_list};

/// The share of reconciles that are exported by default.
const DEFAULT_RATIO: f64 = 0.01;
/// How long a collector may take to answer by default.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
/// The path for traces at a collector.
const PATH: &str = "/v1/traces";

/// A setting that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{setting}: {problem}; {remedy}")]
pub struct SettingsError {
    setting: String,
    problem: String,
    remedy: String,
}

impl SettingsError {
    pub(crate) fn new(setting: &str, problem: impl Into<String>, remedy: &str) -> Self {
        Self { setting: setting.to_owned(), problem: problem.into(), remedy: remedy.to_owned() }
    }
}

/// Where and how spans are sent.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The URL that spans are posted to.
    pub endpoint: Uri,
    /// The headers of each request.
    pub headers: HeaderMap,
    /// How long a request may take.
    pub timeout: Duration,
    /// A PEM file with the authorities that the collector's certificate may come from, besides those of the system.
    pub certificate: Option<PathBuf>,
    /// Describes the process: names and values.
    pub resource: Vec<(String, String)>,
    /// The share of reconciles that are exported, from 0 to 1.
    pub ratio: f64,
}

impl Settings {
    /// Returns the settings, or `None` if no endpoint is configured. The arguments, which have precedence over the environment, come from flags
    /// or a file. An endpoint without a path gets `/v1/traces`.
    ///
    /// # Errors
    /// Names the variable that cannot be used, and what to do.
    pub fn resolve(
        endpoint: Option<&str>,
        ratio: Option<f64>,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, SettingsError> {
        let environment = Environment::new(environment);
        let is_disabled =
            environment.get("OTEL_SDK_DISABLED").is_some_and(|text| text.eq_ignore_ascii_case("true"));
        let endpoint = match endpoint {
            Some(endpoint) => Some(parse_endpoint("the trace endpoint", endpoint)?),
            None => endpoint_of(environment)?,
        };
        let Some(endpoint) = endpoint.filter(|_| !is_disabled) else { return Ok(None) };
        if let Some((name, protocol)) = environment.exporter("PROTOCOL")
            && protocol != "http/protobuf"
        {
            let remedy = "set http/protobuf, and the collector's port for OTLP over HTTP, usually 4318";
            return Err(SettingsError::new(&name, format!("{protocol:?} is not supported"), remedy));
        }
        let headers = match environment.exporter("HEADERS") {
            Some((name, list)) => parse_headers(&name, &list)?,
            None => HeaderMap::new(),
        };
        let timeout = match environment.exporter("TIMEOUT") {
            Some((name, text)) => milliseconds(&name, &text)?,
            None => DEFAULT_TIMEOUT,
        };
        let certificate = environment.exporter("CERTIFICATE").map(|(_, path)| PathBuf::from(path));
        let ratio = match ratio {
            Some(ratio) => ratio,
            None => ratio_of(environment)?,
        };
        let resource = resource_of(environment)?;
        Ok(Some(Self { endpoint, headers, timeout, certificate, resource, ratio }))
    }

    /// Returns the endpoint as text for people: without its query, which may contain a credential.
    #[must_use]
    pub fn endpoint_text(&self) -> String {
        without_query(&self.endpoint.to_string()).to_owned()
    }

    /// Describes the process further, unless the operator has set that attribute.
    #[must_use]
    pub fn with_default_attribute(mut self, name: &str, value: String) -> Self {
        if self.resource.iter().all(|(known, _)| known != name) {
            self.resource.push((name.to_owned(), value));
        }
        self
    }
}

/// Parses the URL of a collector. One without a path gets `/v1/traces`.
///
/// # Errors
/// Errors if it is no URL with `http` or `https`, or contains a password.
pub fn parse_endpoint(setting: &str, text: &str) -> Result<Uri, SettingsError> {
    let uri = parse_url(setting, text)?;
    if uri.path() == "/" { with_path(setting, uri, PATH) } else { Ok(uri) }
}

fn endpoint_of(environment: Environment<'_>) -> Result<Option<Uri>, SettingsError> {
    let exporter = environment.get("OTEL_TRACES_EXPORTER");
    if exporter.is_some_and(|exporter| !exporter.split(',').any(|name| name.trim() == "otlp")) {
        return Ok(None);
    }
    let specific = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
    if let Some(text) = environment.get(specific) {
        return parse_url(specific, &text).map(Some);
    }
    let general = "OTEL_EXPORTER_OTLP_ENDPOINT";
    let Some(text) = environment.get(general) else { return Ok(None) };
    let uri = parse_url(general, &text)?;
    let path = format!("{}{PATH}", uri.path().trim_end_matches('/'));
    with_path(general, uri, &path).map(Some)
}

fn parse_url(setting: &str, text: &str) -> Result<Uri, SettingsError> {
    let wrong =
        |problem: String| SettingsError::new(setting, problem, "write a URL such as http://collector:4318");
    let uri: Uri = text.parse().map_err(|_| wrong("it is not a URL".to_owned()))?;
    let has_scheme = [Scheme::HTTP, Scheme::HTTPS].iter().any(|scheme| uri.scheme() == Some(scheme));
    match uri.authority() {
        Some(authority) if authority.as_str().contains('@') => Err(SettingsError::new(
            setting,
            "it contains a user name",
            "put credentials into OTEL_EXPORTER_OTLP_HEADERS, as authorization=Basic%20…",
        )),
        Some(_) if has_scheme => Ok(uri),
        _ => Err(wrong(format!("{:?} is not a URL with http or https", without_query(text)))),
    }
}

/// Returns the URL up to its query.
fn without_query(url: &str) -> &str {
    url.split_once('?').map_or(url, |(start, _)| start)
}

/// Replaces the path of a URL. The query stays.
fn with_path(setting: &str, uri: Uri, path: &str) -> Result<Uri, SettingsError> {
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let mut parts = uri.into_parts();
    let wrong =
        |problem: String| SettingsError::new(setting, problem, "write a URL such as http://collector:4318");
    let path = PathAndQuery::try_from(format!("{path}{query}")).map_err(|error| wrong(error.to_string()))?;
    parts.path_and_query = Some(path);
    Uri::from_parts(parts).map_err(|error| wrong(error.to_string()))
}

fn milliseconds(name: &str, text: &str) -> Result<Duration, SettingsError> {
    match text.parse::<u32>() {
        Ok(milliseconds) if milliseconds > 0 => Ok(Duration::from_millis(milliseconds.into())),
        _ => Err(SettingsError::new(
            name,
            format!("{text:?} is not a time"),
            "write milliseconds, such as 10000",
        )),
    }
}

fn ratio_of(environment: Environment<'_>) -> Result<f64, SettingsError> {
    let name = "OTEL_TRACES_SAMPLER";
    let sampler = environment.get(name);
    match sampler.as_deref().map(|sampler| sampler.trim_start_matches("parentbased_")) {
        Some("always_on") => return Ok(1.0),
        Some("always_off") => return Ok(0.0),
        Some("traceidratio") | None => {}
        Some(_) => {
            let problem = format!("{:?} is not supported", sampler.unwrap_or_default());
            return Err(SettingsError::new(name, problem, "set always_on, always_off or traceidratio"));
        }
    }
    let name = "OTEL_TRACES_SAMPLER_ARG";
    let Some(text) = environment.get(name) else { return Ok(DEFAULT_RATIO) };
    match text.parse::<f64>() {
        Ok(ratio) if (0.0..=1.0).contains(&ratio) => Ok(ratio),
        _ => Err(SettingsError::new(name, format!("{text:?} is not a ratio"), "write a number from 0 to 1")),
    }
}

fn resource_of(environment: Environment<'_>) -> Result<Vec<(String, String)>, SettingsError> {
    let name = "OTEL_RESOURCE_ATTRIBUTES";
    let mut resource = match environment.get(name) {
        Some(list) => parse_list(name, &list)?,
        None => Vec::new(),
    };
    if let Some(service) = environment.get("OTEL_SERVICE_NAME") {
        resource.retain(|(name, _)| name != "service.name");
        resource.push(("service.name".to_owned(), service));
    }
    Ok(resource)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(
        endpoint: Option<&str>,
        ratio: Option<f64>,
        variables: &[(&str, &str)],
    ) -> Result<Option<Settings>, SettingsError> {
        let read = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        Settings::resolve(endpoint, ratio, &read)
    }

    #[test]
    fn nothing_is_sent_without_an_endpoint() {
        for variables in [
            &[("OTEL_EXPORTER_OTLP_ENDPOINT", " "), ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")][..],
            &[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318"), ("OTEL_TRACES_EXPORTER", "none")][..],
            &[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318"), ("OTEL_SDK_DISABLED", "True")][..],
            &[("OTEL_SERVICE_NAME", "s")][..],
        ] {
            assert!(resolve(None, None, variables).expect("settings").is_none(), "{variables:?}");
        }
    }

    #[test]
    fn an_argument_has_precedence_over_the_variable_about_traces_and_that_over_the_general_one() {
        let general = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://general:4318/base/");
        let specific = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://traces/own");
        for (argument, variables, expected) in [
            (Some("http://flag:4318"), &[general, specific][..], "http://flag:4318/v1/traces"),
            (Some("http://flag:4318/own"), &[general][..], "http://flag:4318/own"),
            (None, &[general, specific][..], "https://traces/own"),
            (None, &[general][..], "http://general:4318/base/v1/traces"),
        ] {
            let settings = resolve(argument, None, variables).expect("settings").expect("an endpoint");
            assert_eq!(settings.endpoint, expected);
        }
    }

    #[test]
    fn the_query_of_an_endpoint_is_sent_but_not_shown() {
        let variable = ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://c/base?key=secret");
        for (argument, sent, shown) in [
            (Some("https://c?key=secret"), "https://c/v1/traces?key=secret", "https://c/v1/traces"),
            (Some("https://c/own?key=secret"), "https://c/own?key=secret", "https://c/own"),
            (None, "https://c/base/v1/traces?key=secret", "https://c/base/v1/traces"),
        ] {
            let settings = resolve(argument, None, &[variable]).expect("settings").expect("an endpoint");
            assert_eq!((settings.endpoint.to_string().as_str(), &*settings.endpoint_text()), (sent, shown));
        }
        let error = resolve(Some("ftp://c?key=secret"), None, &[]).expect_err("no HTTP").to_string();
        assert!(error.contains("\"ftp://c\" is not a URL") && !error.contains("secret"), "{error}");
    }

    #[test]
    fn the_sampler_is_that_of_the_argument_or_of_the_variables() {
        let ratio = |argument, variables: &[(&str, &str)]| {
            resolve(Some("http://c"), argument, variables).expect("settings").expect("an endpoint").ratio
        };
        let argument = ("OTEL_TRACES_SAMPLER_ARG", "0.25");
        let sampler = |name| ("OTEL_TRACES_SAMPLER", name);
        let found = [
            ratio(None, &[]),
            ratio(None, &[argument]),
            ratio(Some(0.5), &[argument]),
            ratio(None, &[sampler("parentbased_traceidratio"), argument]),
            ratio(None, &[sampler("always_on"), argument]),
            ratio(None, &[sampler("parentbased_always_off")]),
        ];
        let expected = [0.01, 0.25, 0.5, 0.25, 1.0, 0.0];
        assert!(
            found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-9),
            "{found:?}"
        );
    }

    #[test]
    fn the_other_variables_are_those_of_the_specification() {
        let settings = resolve(
            Some("https://c"),
            None,
            &[
                ("OTEL_EXPORTER_OTLP_HEADERS", "a=1"),
                ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "b=2"),
                ("OTEL_EXPORTER_OTLP_TIMEOUT", "250"),
                ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/ca.pem"),
                ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
                ("OTEL_SERVICE_NAME", "mine"),
                ("OTEL_RESOURCE_ATTRIBUTES", "service.name=other,team=x%20y"),
            ],
        );
        let settings = settings.expect("settings").expect("an endpoint");
        assert_eq!((settings.headers.len(), settings.timeout.as_millis()), (1, 250));
        assert_eq!(settings.certificate, Some(PathBuf::from("/ca.pem")));
        let settings = settings.with_default_attribute("service.name", "pilothouse".to_owned());
        let settings = settings.with_default_attribute("host", "h".to_owned());
        let resource: Vec<_> =
            settings.resource.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(resource, ["team=x y", "service.name=mine", "host=h"]);
    }

    #[test]
    fn a_wrong_setting_is_named_with_a_remedy() {
        for (endpoint, variable, part) in [
            (
                "collector:4318",
                None,
                "the trace endpoint: \"collector:4318\" is not a URL with http or https; write",
            ),
            ("ftp://c", None, "is not a URL with http or https"),
            ("http://user:secret@c", None, "it contains a user name; put credentials into"),
            (
                "http://c",
                Some(("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")),
                "OTEL_EXPORTER_OTLP_PROTOCOL: \"grpc\" is not",
            ),
            (
                "http://c",
                Some(("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "1s")),
                "TRACES_TIMEOUT: \"1s\" is not a time",
            ),
            (
                "http://c",
                Some(("OTEL_TRACES_SAMPLER", "jaeger_remote")),
                "\"jaeger_remote\" is not supported",
            ),
            (
                "http://c",
                Some(("OTEL_TRACES_SAMPLER_ARG", "2")),
                "\"2\" is not a ratio; write a number from 0 to 1",
            ),
            (
                "http://c",
                Some(("OTEL_RESOURCE_ATTRIBUTES", "x")),
                "OTEL_RESOURCE_ATTRIBUTES: an entry has no `=`",
            ),
        ] {
            let variables: Vec<_> = variable.into_iter().collect();
            let error = resolve(Some(endpoint), None, &variables).expect_err(endpoint).to_string();
            assert!(error.contains(part) && !error.contains("secret"), "{error}");
        }
    }
}
