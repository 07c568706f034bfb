//! The limits of what is logged about a plugin, in paused time.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use super::*;
use crate::name::PluginName;

fn name(name: &str) -> PluginName {
    PluginName::of_file(Path::new(&format!("{name}.wasm"))).expect("a name")
}

/// Lines as the host writes them in JSON.
#[derive(Clone, Default)]
struct CapturedOutput(Arc<Mutex<Vec<u8>>>);

impl Write for CapturedOutput {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl CapturedOutput {
    fn by(says: impl FnOnce()) -> String {
        let written = Self::default();
        let writer = written.clone();
        let subscriber =
            tracing_subscriber::fmt().json().flatten_event(true).with_writer(move || writer.clone()).finish();
        // While there is only one dispatcher, a callsite that another test's thread uses first is switched off for all threads.
        let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::new());
        tracing::subscriber::with_default(subscriber, says);
        let bytes = written.0.lock().clone();
        String::from_utf8(bytes).expect("UTF-8")
    }
}

#[tokio::test(start_paused = true)]
async fn all_log_lines_of_a_plugin_share_one_limit() {
    let (logs, limits) =
        (PluginLogs::default(), InstanceLimits { log_lines_per_second: 10, ..InstanceLimits::default() });
    logs.for_plugin(&name("p")).set_limits(&limits);
    for number in 0..1000 {
        // As a new version, or the file that was removed and came again, would.
        let log = logs.for_plugin(&name("p"));
        log.guest(LogSource::Log, LogLevel::Info, "a line", &[], Vec::new());
        log.host(LogLevel::Warn, format_args!("observe failed"), &[]);
        log.failure(LogLevel::Warn, format_args!("failed: {number}"), &"again", &[]);
    }
    logs.for_plugin(&name("q")).guest(LogSource::Log, LogLevel::Info, "a neighbour's line", &[], Vec::new());
    let kept = logs.after(0, None);
    let lines = kept.iter().filter(|line| line.plugin == "p" && !line.message.contains("dropped")).count();
    assert_eq!(lines, 100);
    assert_eq!(kept.iter().filter(|line| line.plugin == "q").count(), 1);
    tokio::time::advance(Duration::from_secs(1)).await;
    logs.for_plugin(&name("p")).flush_reports();
    let dropped: u64 = logs
        .after(0, None)
        .iter()
        .filter_map(|line| {
            line.message
                .strip_suffix(" log lines dropped: limits.logLinesPerSecond is 10")?
                .parse::<u64>()
                .ok()
        })
        .sum();
    assert_eq!(dropped, 2900);
}

#[tokio::test(start_paused = true)]
async fn the_bytes_logged_in_ten_seconds_are_bounded_with_any_escaping() {
    let hostile = [
        "\0".repeat(1 << 20),
        "\u{1b}[31m".repeat(1 << 16),
        "\"\\".repeat(1 << 18),
        "\u{202e}".repeat(1 << 16),
    ];
    let limits = InstanceLimits { log_bytes_per_second: 10 << 10, ..InstanceLimits::default() };
    for text in &hostile {
        let (logs, mut kept) = (PluginLogs::default(), 0);
        let log = logs.for_plugin(&name("p"));
        log.set_limits(&limits);
        let written = CapturedOutput::by(|| {
            for number in 0..500 {
                log.guest(
                    LogSource::Log,
                    LogLevel::Info,
                    text,
                    &[("key", text)],
                    vec![(text.clone(), text.clone())],
                );
                log.host(LogLevel::Warn, format_args!("{text}"), &[("key", text)]);
                log.failure(
                    LogLevel::Warn,
                    format_args!("failed: {number} {text}"),
                    &"again",
                    &[("key", text)],
                );
            }
            kept = logs.after(0, None).iter().map(|line| line.message.len()).max().unwrap_or_default();
        });
        // The burst, and the last line, which may go beyond it by its own size.
        assert!(written.len() < (100 << 10) + 4 * limits.log_line_size, "{} bytes", written.len());
        assert!(kept < 2 * limits.log_line_size, "{kept}");
        for line in written.lines() {
            assert!(line.len() < 4 * limits.log_line_size, "{} bytes in a line", line.len());
        }
        assert!(written.contains("logBytesPerSecond is 10Ki"), "the loss is said");
        assert!(!written.contains(['\u{1b}', '\u{202e}', '\0']));
    }
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_lines_does_not_hide_a_state_change() {
    let logs = PluginLogs::default();
    let log = logs.for_plugin(&name("p"));
    let written = CapturedOutput::by(|| {
        for _ in 0..100_000 {
            log.guest(LogSource::Log, LogLevel::Info, "a line", &[], Vec::new());
        }
        log.state(LogLevel::Info, format_args!("stopped: its file was removed"));
    });
    assert!(written.lines().last().is_some_and(|last| last.contains("stopped: its file was removed")));
    // State changes cannot bypass the limit either.
    let written = CapturedOutput::by(|| {
        for _ in 0..10_000 {
            log.state(LogLevel::Error, format_args!("not loaded: {}", "\0".repeat(1 << 16)));
        }
    });
    assert!(written.len() < 100 << 10, "{} bytes", written.len());
}

#[tokio::test(start_paused = true)]
async fn a_state_change_is_in_the_plugins_log() {
    let logs = PluginLogs::default();
    let log = logs.for_plugin(&name("p"));
    let crd = "a CRD\u{1b}";
    log.state(LogLevel::Warn, format_args!("waiting for {crd}"));
    let kept = logs.after(0, None);
    let [line] = &kept[..] else { panic!("{kept:?}") };
    assert_eq!((line.plugin.as_str(), line.level.as_str()), ("p", "warn"));
    assert_eq!(line.message, "waiting for a CRD\u{1b}", "readers of the log escape it");
    for _ in 0..1000 {
        log.state(LogLevel::Info, format_args!("{}", "x".repeat(1 << 20)));
    }
    tokio::time::advance(Duration::from_secs(1)).await;
    log.state(LogLevel::Info, format_args!("running version 2"));
    let kept = logs.after(0, None);
    assert!(kept.iter().all(|line| line.message.len() <= MAX_STATE_SIZE), "its size is limited");
    assert!(
        kept.iter().any(|line| line.message.ends_with("state changes were not written: there are too many"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_key_that_keeps_failing_makes_three_lines_and_a_summary_with_the_next_try() {
    let logs = PluginLogs::default();
    let log = logs.for_plugin(&name("p"));
    // As the queue retries a key: twice as long each time.
    for attempt in 0..10 {
        let delay = Duration::from_millis(5 << attempt);
        let retry = format!("tried again in {delay:?}");
        log.failure(LogLevel::Warn, format_args!("failed: no route"), &retry, &[("key", &"a/b")]);
        tokio::time::advance(delay).await;
    }
    tokio::time::advance(Duration::from_secs(5)).await;
    log.flush_reports();
    let lines: Vec<_> = logs.after(0, None).into_iter().map(|line| line.message).collect();
    let expected = [
        "failed: no route; tried again in 5ms",
        "failed: no route; tried again in 10ms",
        "failed: no route; tried again in 20ms",
        "repeated 7 more times, for a/b: failed: no route; tried again in 2.56s",
    ];
    assert_eq!(lines, expected);
}

#[tokio::test(start_paused = true)]
async fn repeated_failures_are_written_at_first_and_then_counted() {
    let logs = PluginLogs::default();
    let log = logs.for_plugin(&name("p"));
    for number in 0..5000 {
        log.failure(
            LogLevel::Warn,
            format_args!("failed: no route to host"),
            &"tried again",
            &[("key", &number)],
        );
    }
    assert_eq!(logs.after(0, None).len(), 10);
    tokio::time::advance(Duration::from_secs(10)).await;
    log.flush_reports();
    let last = logs.after(0, None).pop().expect("a line").message;
    assert_eq!(last, "repeated 4990 more times, for more than 256 keys: failed: no route to host");
}

#[tokio::test(start_paused = true)]
async fn failures_of_a_version_are_summarised_before_the_next_one_runs() {
    let logs = PluginLogs::default();
    let log = logs.for_plugin(&name("p"));
    let fail = || {
        log.failure(LogLevel::Warn, format_args!("failed: no route"), &"tried again", &[("key", &"a/b")]);
    };
    for _ in 0..12 {
        fail();
    }
    log.end_version();
    log.state(LogLevel::Info, format_args!("running version 2"));
    fail();
    tokio::time::advance(Duration::from_secs(10)).await;
    log.flush_reports();
    let lines: Vec<_> = logs.after(0, None).into_iter().map(|line| line.message).collect();
    let summary = "repeated 9 more times, for a/b: failed: no route; tried again";
    assert_eq!(lines[3..], [summary, "running version 2", "failed: no route; tried again"]);
}

#[test]
fn a_guest_cannot_write_or_crowd_out_the_fields_of_the_host() {
    let logs = PluginLogs::default();
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let forged = ["key", "watch", "trace_id", "attempt"].map(|name| pair(name, "forged"));
    let mut fields = forged.to_vec();
    fields.push(pair("long", &"x".repeat(1 << 20)));
    let written = CapturedOutput::by(|| {
        let context: Fields<'_> = &[("watch", &"maps"), ("key", &"shop/a")];
        logs.for_plugin(&name("p")).guest(LogSource::Log, LogLevel::Info, "a line", context, fields);
    });
    let line = logs.after(0, None).remove(0);
    assert_eq!(line.fields[..2], [pair("watch", "maps"), pair("key", "shop/a")]);
    assert_eq!((line.fields.len(), line.fields[2].0.as_str()), (3, "long"));
    assert!(!written.contains("forged"), "{written}");
    // In the host's own log, they are fields of their own and no part of the message.
    let written: serde_json::Value = serde_json::from_str(&written).expect("JSON");
    assert_eq!((&written["watch"], &written["key"]), (&"maps".into(), &"shop/a".into()));
}

#[test]
fn a_line_shows_who_wrote_it() {
    let logs = PluginLogs::default();
    let log = logs.for_plugin(&name("p"));
    for source in [LogSource::Log, LogSource::Stdout, LogSource::Stderr] {
        log.guest(source, LogLevel::Warn, "failed: forged", &[], Vec::new());
    }
    log.host(LogLevel::Warn, format_args!("failed: true"), &[]);
    log.state(LogLevel::Info, format_args!("running"));
    let lines = logs.after(0, None);
    let sources: Vec<_> = lines.iter().map(|line| line.source.as_str()).collect();
    assert_eq!(sources, ["log", "stdout", "stderr", "host", "host"]);
    let shown: Vec<_> =
        lines.iter().map(|line| format!("p{}: {}", line.source_suffix(), line.message)).collect();
    assert_eq!(
        shown,
        [
            "p: failed: forged",
            "p (stdout): failed: forged",
            "p (stderr): failed: forged",
            "p (host): failed: true",
            "p (host): running"
        ]
    );
}
