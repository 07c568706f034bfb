//! `pilothouse check`: what loading a plugin would find.

use pilothouse_controller::{CheckReport, Served, check};
use pilothouse_plugin::{Engine, EngineOptions};

use crate::cli::Check;
use crate::{Failed, Outcome, cluster, output};

pub(crate) async fn run(flags: Check) -> Outcome {
    if !flags.file.is_file() {
        return Err(Failed::Usage(format!("{}: there is no such file; give a .wasm", flags.file.display())));
    }
    let client = match &flags.kubeconfig {
        Some(path) => Some(cluster::client(Some(path), None).await?),
        None => None,
    };
    let engine = Engine::new(EngineOptions::default())
        .map_err(|error| Failed::Work(format!("the wasm engine: {error}")))?;
    let report = check(&engine, &flags.file, client)
        .await
        .map_err(|problem| Failed::Work(format!("{}: {problem}", flags.file.display())))?;
    if flags.json {
        let text = serde_json::to_string_pretty(&report).map_err(|error| Failed::Work(error.to_string()))?;
        output::line(text);
    } else {
        print(&report);
    }
    Ok(())
}

fn print(report: &CheckReport) {
    output::line(format_args!("{} {} — {}", report.name, report.version, report.summary));
    output::line(format_args!("  size      {} KiB, sha256 {}", report.size.div_ceil(1024), report.digest));
    output::line(format_args!(
        "  contract  pilothouse:controller@{}, exports {}",
        report.contract,
        report.exports.join(", ")
    ));
    output::line(format_args!(
        "  limits    {} MiB per instance, {} ms per reconcile",
        report.memory_limit >> 20,
        report.reconcile_timeout_ms
    ));
    for watch in &report.watches {
        let served = match watch.served {
            Served::Yes => "served",
            Served::No => "NOT SERVED",
            Served::ByOwnCrd => "by the plugin's own CRD",
            Served::Unverified => "unverified: give --kubeconfig to ask a server",
        };
        output::line(format_args!(
            "  watches   {}: {} in {} ({served})",
            watch.name, watch.kind, watch.api_version
        ));
    }
    for rule in &report.writes {
        output::line(format_args!(
            "  writes    {} {} in group {:?}",
            rule.verbs.join(","),
            rule.resources.join(","),
            rule.api_groups.join(",")
        ));
    }
    for crd in &report.crds {
        output::line(format_args!("  brings    the CRD {crd}"));
    }
    for line in &report.log {
        output::line(format_args!("  logged    {}", line.escape_debug()));
    }
    for warning in &report.warnings {
        output::line(format_args!("  warning   {warning}"));
    }
}
