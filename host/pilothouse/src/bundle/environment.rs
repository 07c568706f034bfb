//! What a bundle has of a process's environment: the host's own variables, and which values are credentials.

/// The variables of the host.
const PREFIX: &str = "PILOTHOUSE_";

/// Parts of the names of variables with credentials.
const SENSITIVE: [&str; 11] = [
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "CREDENTIAL",
    "API_KEY",
    "APIKEY",
    "ACCESS_KEY",
    "PRIVATE_KEY",
    // Of OpenTelemetry's exporters: they contain tokens.
    "HEADERS",
];

/// Ends of the names of variables that have the path of a file with credentials.
const PATHS: [&str; 3] = ["_FILE", "_PATH", "_DIR"];

/// What a bundle needs of an environment.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct EnvironmentFacts {
    /// `NAME=VALUE` of the host's own variables, sorted.
    pub(crate) own: Vec<String>,
    /// Values of variables with credentials, which no file of the bundle may contain.
    pub(crate) secrets: Vec<String>,
}

/// Divides an environment into the host's own variables and credentials. All others are dropped.
pub(crate) fn environment_facts(variables: impl IntoIterator<Item = (String, String)>) -> EnvironmentFacts {
    let mut facts = EnvironmentFacts::default();
    for (name, value) in variables {
        let upper = name.to_uppercase();
        let is_path = PATHS.iter().any(|end| upper.ends_with(end));
        if !is_path && SENSITIVE.iter().any(|part| upper.contains(part)) {
            facts.secrets.push(value);
        } else if name.starts_with(PREFIX) {
            facts.own.push(format!("{name}={value}"));
        }
    }
    facts.own.sort();
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_hosts_own_variables_are_shown_and_credentials_are_secrets() {
        let variables = [
            ("PILOTHOUSE_PLUGINS", "/plugins"),
            ("PILOTHOUSE_API_TOKEN", "canary-1"),
            ("DB_PASSWORD", "canary-2"),
            ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "authorization=canary-3"),
            ("QUEUE_PASSWORD", "/canary-4"),
            ("AWS_WEB_IDENTITY_TOKEN_FILE", "/var/run/token"),
            ("SSH_AUTH_SOCK", "/run/agent"),
            ("HOME", "/root"),
        ];
        let facts = environment_facts(variables.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert_eq!(facts.own, ["PILOTHOUSE_PLUGINS=/plugins"]);
        assert_eq!(facts.secrets, ["canary-1", "canary-2", "authorization=canary-3", "/canary-4"]);
    }
}
