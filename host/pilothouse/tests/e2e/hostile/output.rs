//! Logs and metrics of a plugin, written to fill disks and to break who reads them.

use serde_json::{Value, json};

use super::{Arena, Attack};

/// What a plugin may write into the host's log during one attack. Its own lines have a rate and a size; there are no more than some bursts of
/// them here.
const LOG: usize = 64 << 20;

async fn logs_stay_small(attacks: impl IntoIterator<Item = Attack>) {
    let mut arena = Arena::start().await;
    for attack in attacks {
        let before = arena.host.log().len();
        arena.withstands(&attack).await;
        let written = arena.host.log().len() - before;
        assert!(written < LOG, "{} wrote {written} bytes", attack.name());
    }
    arena.ends().await;
}

/// Lines in every way that there is.
pub(super) fn attacks() -> Vec<Attack> {
    let fills = json!({"repeat": "x", "times": 1 << 20});
    let quiet = |step: Value| json!([step]);
    vec![
        Attack::new("lines")
            .script(quiet(json!({"do": "log", "message": "a line", "times": 200_000})))
            .says("dropped"),
        Attack::new("long-lines")
            .script(quiet(json!({"do": "log", "message": fills, "times": 2000})))
            .says("dropped"),
        Attack::new("nul-lines")
            .script(quiet(json!({"do": "log", "message": {"repeat": "\u{0}", "times": 1 << 20}, "times": 2000})))
            .says("dropped"),
        Attack::new("fields")
            .script(quiet(json!({"do": "log", "message": "m", "times": 2000, "fields": [[fills, fills], [fills, fills]]})))
            .says("dropped"),
        Attack::new("stdout")
            .script(quiet(json!({"do": "stdout", "text": "a line", "times": 200_000})))
            .says("dropped")
            .says("done stdout"),
        Attack::new("stderr")
            .script(quiet(json!({"do": "stderr", "text": fills, "times": 200})))
            .says("dropped")
            .says("done stderr"),
        Attack::new("failures")
            .sidecar("workers", json!(8))
            .script(json!([
                {"do": "queue.add", "watch": "maps", "namespace": "{namespace}", "name": "failures", "quiet": true},
                {"do": "fail", "message": fills}
            ]))
            .says("done failures"),
        Attack::new("escapes")
            .script(quiet(json!({"do": "log", "message": "\u{1b}[2J\u{1b}]0;title\u{7}\u{9b}31m\u{202e}"})))
            .says("done escapes"),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn log_output_caused_by_a_plugin_is_bounded() {
    logs_stay_small(attacks()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn control_characters_from_a_plugin_do_not_reach_the_terminal() {
    let mut arena = Arena::start().await;
    let text = "\u{1b}[2J\u{1b}]0;title\u{7}\u{9b}31m\u{202e}";
    let attack = Attack::new("terminal")
        .script(json!([{"do": "log", "message": text}, {"do": "fail", "message": text}]))
        .says("title");
    attack.begin(&arena.host).await;
    attack.is_named(&arena.host).await;
    for command in [&["status"][..], &["logs", "terminal"][..]] {
        let shown = arena.host.pilothouse(command);
        let shown = String::from_utf8(shown.stdout).expect("text");
        let is_raw = |char: &char| (char.is_control() && *char != '\n') || *char == '\u{202e}';
        assert_eq!(shown.chars().find(is_raw), None, "{command:?}: {shown:?}");
    }
    arena.goes_on("terminal").await;
    arena.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn plugin_metrics_cannot_corrupt_the_metrics_endpoint() {
    let mut arena = Arena::start().await;
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
    let attack = Attack::new("series").script(steps).says("done series");
    attack.begin(&arena.host).await;
    attack.is_named(&arena.host).await;
    let (status, scrape) = arena.host.get("/metrics").await;
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
    arena.goes_on("series").await;
    arena.ends().await;
}
