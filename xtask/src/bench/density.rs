//! Renders the results of the benchmark `density` as a section of the report.

use std::fmt::Write;

use serde_json::Value;

use super::report::machine;

/// Returns the section.
pub(super) fn section(results: &Value) -> String {
    let mut text = format!("## Idle plugins\n\n{}\n\n", machine());
    targets(&mut text, results);
    hosts(&mut text, results);
    let peers = &results["peers"];
    if peers.is_object() {
        let _ = writeln!(
            text,
            "| peer | processes | resident KiB each | private KiB each |\n|---|---|---|---|\n| {} | {} | {} | {} |\n",
            peers["peer"].as_str().unwrap_or("?"),
            peers["processes"],
            peers["residentKib"],
            peers["privateKib"]
        );
    }
    text.push_str("| guest | waking ms: map, link, instantiate | from a kept instance ms |\n|---|---|---|\n");
    for guest in list(results, "waking") {
        let _ = writeln!(
            text,
            "| {} | {} | {} |",
            guest["guest"].as_str().unwrap_or("?"),
            decimal(&guest["unmappedMs"], 2),
            decimal(&guest["pooledMs"], 3)
        );
    }
    text
}

fn list<'a>(results: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    results[name].as_array().into_iter().flatten()
}

fn targets(text: &mut String, results: &Value) {
    text.push_str("### Targets\n\n| what | target | reached |\n|---|---|---|\n");
    let peer = results["peers"]["privateKib"].as_f64();
    for host in list(results, "hosts") {
        let Some(target) = host["eachKibTarget"].as_u64() else { continue };
        let each = host["eachKib"].as_f64().unwrap_or(f64::NAN);
        let language = host["language"].as_str().unwrap_or("?");
        let _ = writeln!(
            text,
            "| private memory of each of {} idle plugins in {language}, KiB | ≤ {target} | {each:.0} |",
            host["plugins"]
        );
        if let Some(peer) = peer {
            let ratio = peer / each.max(1.0);
            let _ =
                writeln!(text, "| memory of a kube-rs process, relative to such a plugin |  | {ratio:.0} |");
        }
    }
    text.push('\n');
}

fn hosts(text: &mut String, results: &Value) {
    text.push_str(
        "### Plugins\n\n| guest | plugins | start s, compiled / cached | private KiB | idle: private KiB | resident KiB | private KiB each |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for host in list(results, "hosts") {
        let started = match (&host["compiledStartSeconds"], &host["cachedStartSeconds"]) {
            (Value::Null, _) => String::new(),
            (compiled, cached) => format!("{} / {}", decimal(compiled, 1), decimal(cached, 1)),
        };
        let _ = writeln!(
            text,
            "| {} | {} | {started} | {} | {} | {} | {} |",
            host["guest"].as_str().unwrap_or("?"),
            host["plugins"],
            host["runningPrivateKib"],
            host["idlePrivateKib"],
            host["idleResidentKib"],
            host["eachKib"].as_u64().map_or_else(String::new, |each| each.to_string()),
        );
    }
    text.push_str(
        "\nprivate: anonymous memory of the process. Mapped files are not counted, because the kernel can drop them. The files of one guest differ in a \
         custom section, so that each is compiled, mapped and instantiated separately. Files that a smaller host has used are not compiled again.\n\n",
    );
}

fn decimal(value: &Value, digits: usize) -> String {
    value.as_f64().map_or_else(|| "–".to_owned(), |value| format!("{value:.digits$}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_host_has_a_row_and_its_targets() {
        let host = json!({
            "guest": "g", "language": "Rust", "plugins": 100, "compiledStartSeconds": 27.51, "cachedStartSeconds": 0.4,
            "runningPrivateKib": 16_684, "idlePrivateKib": 11_768, "idleResidentKib": 37_084, "eachKib": 80, "eachKibTarget": 100,
        });
        let empty = json!({"guest": "none", "plugins": 0, "runningPrivateKib": 3, "idlePrivateKib": 4, "idleResidentKib": 5});
        let peers = json!({"peer": "kube-rs", "processes": 9, "residentKib": 8_534, "privateKib": 1_040});
        let section = section(&json!({"hosts": [empty, host], "peers": peers, "waking": []}));
        for line in [
            "| private memory of each of 100 idle plugins in Rust, KiB | ≤ 100 | 80 |",
            "| memory of a kube-rs process, relative to such a plugin |  | 13 |",
            "| none | 0 |  | 3 | 4 | 5 |  |",
            "| g | 100 | 27.5 / 0.4 | 16684 | 11768 | 37084 | 80 |",
            "| kube-rs | 9 | 8534 | 1040 |",
        ] {
            assert!(section.lines().any(|found| found == line), "{line}: {section}");
        }
    }
}
