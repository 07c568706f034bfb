//! `/healthz`, `/livez` and `/readyz`, with the checks of which they consist.

use std::fmt::Write as _;

use http::StatusCode;

use crate::request::Request;
use crate::respond::{self, ApiResponse, ResponseBody};
use crate::state::State;
use crate::status::Status;

/// The paths that report health.
const PATHS: [&str; 3] = ["healthz", "livez", "readyz"];

/// A check, by the name that kube-apiserver gives it, and whether it passes.
type Check = (&'static str, bool);

/// Answers a request for the health, or `None` if `path` is another one.
pub(super) fn answer(state: &State, path: &str, request: &Request) -> Option<Result<ApiResponse, Status>> {
    let (name, check) =
        path.trim_start_matches('/').split_once('/').unwrap_or((path.trim_start_matches('/'), ""));
    if !PATHS.contains(&name) {
        return None;
    }
    let checks = checks(state, name, request);
    if check.is_empty() {
        let excluded: Vec<&str> = request.query.values("exclude").collect();
        let verbose = request.query.values("verbose").next().is_some();
        return Some(Ok(response(&report(name, &checks, &excluded, verbose))));
    }
    let found = checks.into_iter().find(|(known, _)| *known == check);
    Some(Ok(found.map_or_else(respond::page_not_found, |(check, passes)| response(&single(check, passes)))))
}

/// Performs the checks of a path.
fn checks(state: &State, name: &str, request: &Request) -> Vec<Check> {
    // The storage is the stand-in for etcd: its revision is at least 1.
    let mut checks = vec![("ping", true), ("etcd", state.storage.revision() > 0)];
    if name == "readyz" {
        checks.push(("shutdown", !request.shutdown.is_cancelled()));
    }
    checks
}

/// Returns whether all checks pass, and the text of the response, after `k8s.io/apiserver/pkg/server/healthz`.
fn report(name: &str, checks: &[Check], excluded: &[&str], verbose: bool) -> (bool, String) {
    let mut passes = true;
    let mut text = String::new();
    for (check, passed) in checks {
        let line = if excluded.contains(check) {
            format!("[+]{check} excluded: ok")
        } else if *passed {
            format!("[+]{check} ok")
        } else {
            passes = false;
            format!("[-]{check} failed: reason withheld")
        };
        let _ = writeln!(text, "{line}");
    }
    let unknown: Vec<String> = excluded
        .iter()
        .filter(|name| !name.is_empty() && checks.iter().all(|(check, _)| check != *name))
        .map(|name| format!("{name:?}"))
        .collect();
    if !unknown.is_empty() {
        let names = unknown.join(",");
        let _ = writeln!(text, "warn: some health checks cannot be excluded: no matches for {names}");
    }
    match (passes, verbose) {
        (true, false) => (true, "ok".to_owned()),
        (true, true) => (true, format!("{text}{name} check passed\n")),
        (false, _) => (false, format!("{text}{name} check failed\n")),
    }
}

fn single(check: &str, passes: bool) -> (bool, String) {
    if passes {
        (true, "ok".to_owned())
    } else {
        (false, format!("internal server error: {check} failed: reason withheld\n"))
    }
}

fn response((passes, text): &(bool, String)) -> ApiResponse {
    let code = if *passes { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR };
    respond::with_body(code, "text/plain; charset=utf-8", ResponseBody::full(text.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_lists_checks_if_it_is_verbose_or_one_fails() {
        let good = [("ping", true), ("etcd", true)];
        assert_eq!(report("livez", &good, &[], false), (true, "ok".to_owned()));
        let verbose = "[+]ping ok\n[+]etcd ok\nlivez check passed\n";
        assert_eq!(report("livez", &good, &[], true), (true, verbose.to_owned()));
        let bad = [("ping", true), ("shutdown", false)];
        let failed = "[+]ping ok\n[-]shutdown failed: reason withheld\nreadyz check failed\n";
        assert_eq!(report("readyz", &bad, &[], false), (false, failed.to_owned()));
    }

    #[test]
    fn excluded_checks_do_not_count_and_unknown_names_are_reported() {
        let bad = [("ping", true), ("shutdown", false)];
        let (passes, text) = report("readyz", &bad, &["shutdown", "nothing"], true);
        assert!(passes);
        assert!(text.contains("[+]shutdown excluded: ok"), "{text}");
        assert!(text.contains("no matches for \"nothing\""), "{text}");
    }
}
