//! Settings of traces that cannot be used end `run` at its start, with a remedy.

use crate::binary::{CommandOutput, assert_fails, pilothouse};

#[test]
fn a_wrong_trace_setting_is_refused_with_a_remedy() {
    let folder = tempfile::tempdir().expect("a folder");
    let parts = ["the trace endpoint: ", "is not a URL with http or https; write a URL such as"];
    assert_fails(folder.path(), &["run", "--trace-endpoint", "collector:4318"], 2, &parts);
    assert_fails(folder.path(), &["run", "--trace-ratio", "2"], 2, &["write a number from 0 to 1"]);
    for (member, part) in [
        ("endpoint: 'http://user:canary@collector'", "tracing.endpoint: it contains a user name"),
        ("sampleRatio: -1", "tracing.sampleRatio: -1 is not a ratio"),
        ("slow: soon", "tracing.slow: \"soon\" is not a duration"),
    ] {
        std::fs::write(folder.path().join("config.yaml"), format!("tracing: {{{member}}}\n"))
            .expect("written");
        let output = assert_fails(folder.path(), &["run", "--config", "config.yaml"], 2, &[part]);
        assert!(!output.stderr.contains("canary"), "{}", output.stderr);
    }
    let variables =
        [("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4317"), ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")];
    let output = pilothouse(folder.path()).arg("run").envs(variables).output().expect("it runs");
    let output = CommandOutput::from(output);
    assert_eq!(output.code, Some(2), "{output:#?}");
    assert!(output.stderr.contains("OTEL_EXPORTER_OTLP_PROTOCOL: \"grpc\" is not supported"), "{output:#?}");
}
