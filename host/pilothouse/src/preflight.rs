//! Judges what `pilothouse preflight` found out. Does no I/O.

use jiff::Timestamp;
use jiff::fmt::rfc2822;
use serde_json::Value;

/// The oldest version of Kubernetes that a host works with, as major and minor.
const OLDEST: (u64, u64) = (1, 22);
/// A larger difference between the clocks makes tokens invalid.
const MAX_SKEW_SECONDS: i64 = 60;
/// A larger difference is worth a warning: times in logs and Events do not match.
const NOTABLE_SKEW_SECONDS: i64 = 5;

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed,
    /// The host works, but not as well as it could; or nothing is known.
    Warning,
    Failed,
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) check: &'static str,
    pub(crate) outcome: Outcome,
    /// What was found.
    pub(crate) text: String,
    /// What to do. Empty for a check that passed.
    pub(crate) remedy: String,
}

impl Finding {
    pub(crate) fn passed(check: &'static str, text: impl Into<String>) -> Self {
        Self { check, outcome: Outcome::Passed, text: text.into(), remedy: String::new() }
    }

    pub(crate) fn warning(check: &'static str, text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { check, outcome: Outcome::Warning, text: text.into(), remedy: remedy.into() }
    }

    pub(crate) fn failed(check: &'static str, text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { check, outcome: Outcome::Failed, text: text.into(), remedy: remedy.into() }
    }

    /// Returns the finding in one line.
    pub(crate) fn line(&self) -> String {
        let outcome = match self.outcome {
            Outcome::Passed => "ok",
            Outcome::Warning => "warn",
            Outcome::Failed => "FAIL",
        };
        let remedy = if self.remedy.is_empty() { String::new() } else { format!("; {}", self.remedy) };
        format!("{outcome:<4}  {:<13}  {}{remedy}", self.check, self.text).replace('\n', " ")
    }
}

/// What to do when the server refuses the credentials.
const RENEW: &str = "renew the token or the certificate of the kubeconfig's user";

/// Judges the response to `GET /version`. `message` is that of a `Status`.
pub(crate) fn server(status: u16, body: &str, message: &str) -> Finding {
    const CHECK: &str = "server";
    let answered = || format!("GET /version ended with {status} {message}").trim_end().to_owned();
    match status {
        200 => server_version(&serde_json::from_str(body).unwrap_or_default()),
        401 => Finding::failed(CHECK, "the server refuses the credentials (401)", RENEW),
        403 => Finding::warning(
            CHECK,
            format!("the version is unknown: {}", answered()),
            "bind the account to the role system:discovery, which discovery needs, too",
        ),
        _ => Finding::failed(
            CHECK,
            answered(),
            "check that the URL in the kubeconfig is that of a Kubernetes API server",
        ),
    }
}

/// Judges the version in the response.
fn server_version(version: &Value) -> Finding {
    const CHECK: &str = "server";
    let name = version["gitVersion"].as_str().unwrap_or_default();
    let number = |member: &str| {
        let digits: String =
            version[member].as_str().unwrap_or_default().chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<u64>().ok()
    };
    let (major, minor) = OLDEST;
    match number("major").zip(number("minor")) {
        Some(found) if found >= OLDEST => Finding::passed(CHECK, format!("Kubernetes {name}")),
        Some(_) => Finding::failed(
            CHECK,
            format!("Kubernetes {name} is older than {major}.{minor}"),
            format!("upgrade the cluster to {major}.{minor} or newer"),
        ),
        None => Finding::warning(
            CHECK,
            "the server does not say its version",
            format!("make sure that it is Kubernetes {major}.{minor} or newer"),
        ),
    }
}

/// Compares the `Date` header of a response with this machine's time when the response arrived.
pub(crate) fn clock(date: Option<&str>, now: Timestamp) -> Finding {
    const CHECK: &str = "clock";
    let parsed = date.and_then(|date| rfc2822::DateTimeParser::new().parse_timestamp(date).ok());
    let Some(server) = parsed else {
        return Finding::warning(
            CHECK,
            "the server's response has no valid Date header",
            "compare the clocks yourself",
        );
    };
    let skew = now.as_second() - server.as_second();
    let text = format!(
        "this machine's clock is {} s {} the server's",
        skew.abs(),
        if skew < 0 { "behind" } else { "ahead of" }
    );
    let remedy = "synchronise the clocks of this machine and of the control plane, for example with chrony";
    match skew.abs() {
        skew if skew <= NOTABLE_SKEW_SECONDS => Finding::passed(CHECK, text),
        skew if skew <= MAX_SKEW_SECONDS => Finding::warning(CHECK, text, remedy),
        _ => Finding::failed(CHECK, text, remedy),
    }
}

/// Judges the status of a streaming list.
pub(crate) fn streaming_lists(status: u16, message: &str) -> Finding {
    const CHECK: &str = "watch-list";
    match status {
        200 => Finding::passed(CHECK, "the server streams lists (WatchList)"),
        401 => Finding::failed(CHECK, "the server refuses the credentials (401)", RENEW),
        403 => Finding::warning(
            CHECK,
            "unknown: the account may not watch ConfigMaps in its namespace",
            "nothing to do; without streaming, the host lists in pages",
        ),
        _ => Finding::warning(
            CHECK,
            format!("the server does not stream lists: {status} {message}"),
            "enable the feature gate WatchList, or set `lists: plain` in --config to save a request at each start",
        ),
    }
}

/// Judges the permissions that a plugin needs, from the report of `check`. `rbac` and `check` are the arguments of the commands that say more.
pub(crate) fn rights(
    plugin: &str,
    (rbac, check): (&str, &str),
    problems: &[String],
    (allowed, needed): (usize, usize),
) -> Finding {
    const CHECK: &str = "rights";
    if problems.is_empty() {
        return Finding::passed(CHECK, format!("{plugin}: {allowed} of {needed} allowed"));
    }
    let more = problems.len() - 1;
    let more = if more == 0 { String::new() } else { format!(" (and {more} more)") };
    Finding::failed(
        CHECK,
        format!("{plugin}: {}{more}", problems[0]),
        format!(
            "apply what `pilothouse rbac {rbac}` prints; `pilothouse check {check} --kubeconfig FILE` lists all problems"
        ),
    )
}

/// Judges whether the kinds of a plugin's own CRDs will be served. `missing` are the watched ones that the server lacks, such as `Greeting`.
pub(crate) fn crds(plugin: &str, file: &str, missing: &[String], may_apply: bool) -> Option<Finding> {
    const CHECK: &str = "crds";
    match missing {
        [] => None,
        _ if may_apply => Some(Finding::passed(
            CHECK,
            format!("{plugin}: the host applies those of {}", missing.join(", ")),
        )),
        _ => Some(Finding::failed(
            CHECK,
            format!(
                "{plugin}: the API server does not serve {}, and the host may not apply the CRDs",
                missing.join(", ")
            ),
            format!(
                "install the CRDs of {file} with kubectl, or set `grants.crds: true` in the sidecar or `grantCrds: true` in the configuration"
            ),
        )),
    }
}

/// Judges whether the kind `Plugin` is served, from the status of its discovery document.
#[cfg(feature = "registry")]
pub(crate) fn plugin_kind(served: Result<u16, String>) -> Finding {
    const CHECK: &str = "plugin-kind";
    let remedy = "apply deploy/chart/files/plugins.pilothouse.dev.yaml, or set pluginResource.enabled in the chart's values";
    match served {
        Ok(200) => Finding::passed(CHECK, "the API server serves plugins.pilothouse.dev"),
        Ok(404) => Finding::failed(CHECK, "the API server does not serve plugins.pilothouse.dev", remedy),
        Ok(status) => Finding::failed(
            CHECK,
            format!("GET /apis/pilothouse.dev/v1alpha1 ended with {status}"),
            "check the credentials in the kubeconfig",
        ),
        Err(problem) => Finding::failed(CHECK, problem, "try again once the API server answers"),
    }
}

/// Judges whether the host has the permissions that it needs itself, for this purpose.
pub(crate) fn host_permissions(
    purpose: &str,
    problems: &[String],
    permissions: usize,
    remedy: &'static str,
) -> Finding {
    const CHECK: &str = "rights";
    match problems {
        [] => Finding::passed(CHECK, format!("the host: all {permissions} permissions for {purpose}")),
        [first, others @ ..] => {
            let more = match others.len() {
                0 => String::new(),
                count => format!(" (and {count} more)"),
            };
            Finding::failed(CHECK, format!("the host: {first}{more}"), remedy)
        }
    }
}

/// Judges whether the system runs code from files in the cache directory.
pub(crate) fn cache(path: &str, problem: Option<&str>) -> Finding {
    const CHECK: &str = "cache";
    let remedy = "give a directory of the host's own user with --cache-dir; without it, each start compiles all plugins";
    match problem {
        Some(problem) => Finding::failed(CHECK, format!("{path}: {problem}"), remedy),
        None => Finding::passed(CHECK, format!("{path} is writable and executable")),
    }
}

/// Judges whether the cache of plugins from registries can be used. A problem names the directory.
#[cfg(feature = "registry")]
pub(crate) fn plugin_cache(path: &str, problem: Option<&str>) -> Finding {
    const CHECK: &str = "plugin-cache";
    match problem {
        None => Finding::passed(CHECK, format!("{path} is writable")),
        Some(problem) => Finding::failed(
            CHECK,
            problem,
            "set registries.cacheDir to a directory of the host's own user; until then no plugin of a registry runs",
        ),
    }
}

/// Judges the lookup of a plugin in its registry: what was found, or what failed and what to do.
#[cfg(feature = "registry")]
pub(crate) fn registry(plugin: &str, result: Result<String, (String, &'static str)>) -> Finding {
    const CHECK: &str = "registry";
    match result {
        Ok(found) => Finding::passed(CHECK, format!("{plugin}: {found}")),
        Err((problem, remedy)) => Finding::failed(CHECK, format!("{plugin}: {problem}"), remedy),
    }
}

/// Adds that other plugins of the same registry were not looked up.
#[cfg(feature = "registry")]
pub(crate) fn with_other_plugins(finding: Finding, others: usize) -> Finding {
    match others {
        0 => finding,
        others => {
            let plural = if others == 1 { " was" } else { "s were" };
            let text = format!("{} ({others} more plugin{plural} not looked up there)", finding.text);
            Finding { text, ..finding }
        }
    }
}

/// Judges whether the signature policy, its keys and its trust root can be read.
#[cfg(feature = "registry")]
pub(crate) fn signature_policy(path: &str, problem: Option<&str>) -> Finding {
    const CHECK: &str = "policy";
    match problem {
        None => Finding::passed(CHECK, format!("{path} and the files that it names can be read")),
        Some(problem) => Finding::failed(
            CHECK,
            format!("{path}: {problem}"),
            "correct it, or registries.policy in --config; until then no plugin of a registry is loaded",
        ),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_old_server_fails_and_an_unknown_one_is_a_warning() {
        let outcome = |major: &str, minor: &str| {
            server_version(&json!({"major": major, "minor": minor, "gitVersion": "v"})).outcome
        };
        assert_eq!(outcome("1", "36"), Outcome::Passed);
        assert_eq!(outcome("1", "22+"), Outcome::Passed);
        assert_eq!(outcome("2", "0"), Outcome::Passed);
        assert_eq!(outcome("1", "21"), Outcome::Failed);
        assert_eq!(server_version(&json!({})).outcome, Outcome::Warning);
    }

    #[test]
    fn refused_credentials_fail_and_are_no_unknown_version() {
        assert_eq!(server(401, "{}", "Unauthorized").outcome, Outcome::Failed);
        assert!(server(401, "", "").text.contains("refuses the credentials"));
        assert_eq!(streaming_lists(401, "Unauthorized").outcome, Outcome::Failed);
        assert_eq!(streaming_lists(403, "forbidden").outcome, Outcome::Warning);
        let forbidden = server(403, "", "no access");
        assert!(
            forbidden.outcome == Outcome::Warning && forbidden.text.ends_with("403 no access"),
            "{forbidden:?}"
        );
        assert_eq!(server(502, "<html>", "").outcome, Outcome::Failed);
        let version = r#"{"major": "1", "minor": "33", "gitVersion": "v1.33.0"}"#;
        assert_eq!(server(200, version, "").outcome, Outcome::Passed);
        assert_eq!(server(200, "<html>", "").outcome, Outcome::Warning);
    }

    #[test]
    fn a_clock_that_is_far_off_fails() {
        let now: Timestamp = "2026-01-02T03:04:05Z".parse().expect("a time");
        for (date, outcome) in [
            (Some("Fri, 02 Jan 2026 03:04:05 GMT"), Outcome::Passed),
            (Some("Fri, 02 Jan 2026 03:04:00 GMT"), Outcome::Passed),
            (Some("Fri, 02 Jan 2026 03:04:20 GMT"), Outcome::Warning),
            (Some("Fri, 02 Jan 2026 03:02:00 GMT"), Outcome::Failed),
            (Some("yesterday"), Outcome::Warning),
            (None, Outcome::Warning),
        ] {
            assert_eq!(clock(date, now).outcome, outcome, "{date:?}");
        }
        let ahead = clock(Some("Fri, 02 Jan 2026 03:02:05 GMT"), now);
        assert!(ahead.text.contains("120 s ahead of"), "{ahead:?}");
    }

    #[test]
    fn each_finding_is_one_line_with_a_remedy_unless_it_passed() {
        let findings = [
            server_version(&json!({"major": "1", "minor": "2", "gitVersion": "v1.2\nx"})),
            server(401, "", ""),
            server(403, "", "no\naccess"),
            server(503, "", ""),
            clock(None, Timestamp::UNIX_EPOCH),
            streaming_lists(200, ""),
            streaming_lists(403, ""),
            streaming_lists(422, "sendInitialEvents is forbidden"),
            rights("a", ("p/a.wasm", "p/a.wasm"), &[], (3, 3)),
            rights("a", ("p/a.wasm", "p/a.wasm"), &["one".to_owned(), "two".to_owned()], (1, 3)),
            crds("a", "p/a.wasm", &["Greeting".to_owned()], true).expect("a finding"),
            crds("a", "p/a.wasm", &["Greeting".to_owned()], false).expect("a finding"),
            cache("/c", None),
            cache("/c", Some("no permission")),
            #[cfg(feature = "registry")]
            plugin_cache("/c/oci", None),
            #[cfg(feature = "registry")]
            plugin_cache("/c/oci", Some("the cache /c/oci cannot be used")),
            #[cfg(feature = "registry")]
            plugin_kind(Ok(200)),
            #[cfg(feature = "registry")]
            plugin_kind(Ok(404)),
            #[cfg(feature = "registry")]
            plugin_kind(Ok(403)),
            #[cfg(feature = "registry")]
            plugin_kind(Err("no answer".to_owned())),
            host_permissions("Plugin objects", &[], 3, "grant it"),
            host_permissions("Plugin objects", &["one".to_owned(), "two".to_owned()], 3, "grant it"),
            #[cfg(feature = "registry")]
            registry("a", Ok("r/a:1 is sha256:1".to_owned())),
            #[cfg(feature = "registry")]
            with_other_plugins(registry("a", Err(("no\nanswer".to_owned(), "check it"))), 2),
            #[cfg(feature = "registry")]
            signature_policy("p.yaml", None),
            #[cfg(feature = "registry")]
            signature_policy("p.yaml", Some("trusted_root.json is missing")),
        ];
        for finding in findings {
            assert_eq!(finding.line().lines().count(), 1, "{finding:?}");
            assert_eq!(finding.remedy.is_empty(), finding.outcome == Outcome::Passed, "{finding:?}");
        }
        let denied = rights("a", ("p/a.wasm", "p/a.wasm"), &["one".to_owned(), "two".to_owned()], (1, 3));
        assert!(denied.text.contains("and 1 more") && denied.remedy.contains("rbac p/a.wasm`"), "{denied:?}");
    }
}
