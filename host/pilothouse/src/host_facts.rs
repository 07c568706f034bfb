//! Facts about this process for bug reports: its version, features, arguments and own environment variables, without secrets.

use serde_json::{Value, json};

use crate::bundle::{Redactor, environment_facts};
use crate::process_facts;

/// Returns what was built.
pub(crate) fn build() -> Value {
    let features: Vec<&str> = [
        ("compressed-cache", cfg!(feature = "compressed-cache")),
        ("developer-tools", cfg!(feature = "developer-tools")),
        ("embedded-server", cfg!(feature = "embedded-server")),
        ("jemalloc", cfg!(feature = "jemalloc")),
        ("persistence", cfg!(feature = "persistence")),
        ("registry", cfg!(feature = "registry")),
        ("simulation", cfg!(feature = "simulation")),
        ("traces", cfg!(feature = "traces")),
    ]
    .into_iter()
    .filter_map(|(name, is_enabled)| is_enabled.then_some(name))
    .collect();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "features": features,
        "os": std::env::consts::OS,
        "architecture": std::env::consts::ARCH,
        "cpus": std::thread::available_parallelism().map_or(0, std::num::NonZero::get),
    })
}

/// Returns what was built, how this process was started, and what it uses.
pub(crate) fn process() -> Value {
    let arguments = std::env::args_os().map(|argument| argument.to_string_lossy().into_owned());
    let variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.to_string_lossy().into_owned())));
    let environment = environment_facts(variables);
    let redactor = Redactor::new(&environment.secrets);
    let mut facts = build();
    facts["arguments"] = redacted(&redactor, arguments);
    facts["environment"] = redacted(&redactor, environment.own);
    facts["memory"] = process_facts::memory();
    facts["threads"] = process_facts::threads();
    facts
}

fn redacted(redactor: &Redactor, texts: impl IntoIterator<Item = String>) -> Value {
    texts.into_iter().map(|text| Value::String(redactor.text(&text))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_in_arguments_are_redacted() {
        let arguments =
            ["run", "--plugins", "p", "--server", "http://u:canary@127.0.0.1:1"].map(str::to_owned);
        let shown = redacted(&Redactor::default(), arguments).to_string();
        assert!(shown.contains("--plugins") && !shown.contains("canary"), "{shown}");
    }

    #[test]
    fn the_build_has_its_version_and_features() {
        let build = build();
        assert_eq!(build["version"], env!("CARGO_PKG_VERSION"));
        assert!(build["features"].is_array());
    }
}
