//! Logs and metrics that fill disks or break their consumers.

use serde_json::{Value, json};

use super::{Attack, HostUnderAttack};

/// Maximum number of bytes that one attack may add to the host's log. The rate and size limits of log lines allow a few bursts.
const MAX_LOG_BYTES: usize = 64 << 20;

async fn run_attacks_with_log_limit(attacks: impl IntoIterator<Item = Attack>) {
    let mut target = HostUnderAttack::start().await;
    for attack in attacks {
        let before = target.host.log().len();
        target.run_attack(&attack).await;
        let written = target.host.log().len() - before;
        assert!(written < MAX_LOG_BYTES, "{} wrote {written} bytes", attack.name());
    }
    target.stop().await;
}

/// Returns attacks that write log lines in every available way.
pub(super) fn attacks() -> Vec<Attack> {
    let fills = json!({"repeat": "x", "times": 1 << 20});
    let quiet = |step: Value| json!([step]);
    vec![
        Attack::new("lines")
            .script(quiet(json!({"do": "log", "message": "a line", "times": 200_000})))
            .expect_message("dropped"),
        Attack::new("long-lines")
            .script(quiet(json!({"do": "log", "message": fills, "times": 2000})))
            .expect_message("dropped"),
        Attack::new("nul-lines")
            .script(quiet(json!({"do": "log", "message": {"repeat": "\u{0}", "times": 1 << 20}, "times": 2000})))
            .expect_message("dropped"),
        Attack::new("fields")
            .script(quiet(json!({"do": "log", "message": "m", "times": 2000, "fields": [[fills, fills], [fills, fills]]})))
            .expect_message("dropped"),
        Attack::new("stdout")
            .script(quiet(json!({"do": "stdout", "text": "a line", "times": 200_000})))
            .expect_message("dropped")
            .expect_message("done stdout"),
        Attack::new("stderr")
            .script(quiet(json!({"do": "stderr", "text": fills, "times": 200})))
            .expect_message("dropped")
            .expect_message("done stderr"),
        Attack::new("failures")
            .sidecar("workers", json!(8))
            .script(json!([
                {"do": "queue.add", "watch": "maps", "namespace": "{namespace}", "name": "failures", "quiet": true},
                {"do": "fail", "message": fills}
            ]))
            .expect_message("done failures"),
        Attack::new("escapes")
            .script(quiet(json!({"do": "log", "message": "\u{1b}[2J\u{1b}]0;title\u{7}\u{9b}31m\u{202e}"})))
            .expect_message("done escapes"),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn log_output_caused_by_a_plugin_is_bounded() {
    run_attacks_with_log_limit(attacks()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn control_characters_from_a_plugin_do_not_reach_the_terminal() {
    let mut target = HostUnderAttack::start().await;
    let text = "\u{1b}[2J\u{1b}]0;title\u{7}\u{9b}31m\u{202e}";
    let attack = Attack::new("terminal")
        .script(json!([{"do": "log", "message": text}, {"do": "fail", "message": text}]))
        .expect_message("title");
    attack.start(&target.host).await;
    attack.wait_for_evidence(&target.host).await;
    for command in [&["status"][..], &["logs", "terminal"][..]] {
        let output = target.host.pilothouse(command);
        let output = String::from_utf8(output.stdout).expect("text");
        let is_raw = |char: &char| (char.is_control() && *char != '\n') || *char == '\u{202e}';
        assert_eq!(output.chars().find(is_raw), None, "{command:?}: {output:?}");
    }
    target.assert_healthy("terminal").await;
    target.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn plugin_metrics_cannot_corrupt_the_metrics_endpoint() {
    let mut target = HostUnderAttack::start().await;
    let sample = |kind: &str, name: &str, labels: &Value| json!({"do": format!("metrics.{kind}"), "name": name, "labels": labels, "value": 1.0});
    let steps = json!([
        sample("counter", "twice", &json!([["a", "1"], ["a", "2"]])),
        sample("counter", "named", &json!([["__name__", "up"]])),
        sample("counter", "quantile", &json!([["quantile", "0.5"]])),
        sample("histogram", "bounded", &json!([["le", "1"]])),
        sample("counter", "owner", &json!([["plugin", "healthy"]])),
        sample("histogram", "h", &json!([])),
        sample("counter", "h_sum", &json!([])),
        sample("gauge", "h_count", &json!([])),
        sample("gauge", "h_bucket", &json!([["le", "1"]])),
        sample("counter", "c", &json!([])),
        sample("gauge", "c_total", &json!([])),
        sample("gauge", "c_created", &json!([])),
        sample("gauge", "quoted", &json!([["a", "\"\\\n\u{0}}"]])),
        sample("gauge", "not a name", &json!([])),
        sample("gauge", "good", &json!([["a", "b"]])),
    ]);
    let attack = Attack::new("series").script(steps).expect_message("done series");
    attack.start(&target.host).await;
    attack.wait_for_evidence(&target.host).await;
    let (status, scrape) = target.host.get("/metrics").await;
    assert_eq!(status, 200);
    assert!(scrape.contains("pilothouse_guest_good"), "{scrape}");
    let mut families = std::collections::BTreeSet::new();
    let mut series = std::collections::BTreeSet::new();
    for line in scrape.lines() {
        if let Some(family) = line.strip_prefix("# TYPE ") {
            assert!(families.insert(family.split(' ').next()), "a second family: {line}");
        } else if !line.starts_with('#') {
            let (name, _) = line.rsplit_once(' ').expect("a sample");
            assert!(series.insert(name), "a second sample: {line}");
            let labels = name.split_once('{').map_or("", |(_, labels)| labels);
            for reserved in ["__name__", "quantile"] {
                assert!(!labels.contains(&format!("{reserved}=")), "{line}");
            }
        }
    }
    target.assert_healthy("series").await;
    target.stop().await;
}
