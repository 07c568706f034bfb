//! Redacts whole files, by their form, and finds the secrets and names in them.

#[cfg(feature = "registry")]
use base64::Engine;
#[cfg(feature = "registry")]
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use super::redact::{REDACTED, Redactor};
use super::{Form, RawFile};

/// What of a document is no secret.
enum Shown {
    All,
    /// Of each item of a list.
    Each(&'static Self),
    /// Of these members. All others are secrets, also those that a later version may add.
    Members(&'static [(&'static str, Self)]),
}

/// What of a sidecar is no secret.
const SIDECAR: Shown = Shown::Members(&[
    ("enabled", Shown::All),
    ("workers", Shown::All),
    ("limits", Shown::All),
    ("grants", Shown::All),
    ("serviceAccount", Shown::All),
    ("rollout", Shown::All),
    ("shadow", Shown::All),
]);
/// What of a plugin from a registry is no secret. Its name occurs in all other files.
const PLUGIN: Shown = Shown::Members(&[
    ("name", Shown::All),
    ("image", Shown::All),
    ("poll", Shown::All),
    ("sidecar", SIDECAR),
]);
/// What of the host's configuration is no secret. Credentials are in files, which it names.
const CONFIG: Shown = Shown::Members(&[
    ("grants", Shown::All),
    ("grantCrds", Shown::All),
    ("cache", Shown::All),
    ("lists", Shown::All),
    // The endpoint may contain a credential.
    ("tracing", Shown::Members(&[("sampleRatio", Shown::All), ("slow", Shown::All)])),
    ("pluginResource", Shown::All),
    ("plugins", Shown::Each(&PLUGIN)),
    (
        "registries",
        Shown::Members(&[
            ("cacheDir", Shown::All),
            ("cacheSize", Shown::All),
            ("credentials", Shown::All),
            ("policy", Shown::All),
            ("onViolation", Shown::All),
            ("certificateAuthority", Shown::All),
            ("plainHttp", Shown::All),
            ("trustedHosts", Shown::All),
            ("maxArtifactSize", Shown::All),
        ]),
    ),
]);
/// Numbers with fewer digits are no secrets.
const MIN_SECRET_DIGITS: usize = 6;

/// Parses YAML into a tree of bounded size.
///
/// # Errors
/// Returns the parser's message in one line.
pub(super) fn parse_yaml(text: &str) -> Result<Value, String> {
    let only_comments = text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#'));
    if only_comments {
        return Ok(Value::Object(serde_json::Map::new()));
    }
    pilothouse_yaml::from_str(text)
}

/// Returns the file's text without secrets.
///
/// # Errors
/// Returns why the file cannot be redacted, and is left out.
pub(super) fn redacted(file: &RawFile, redactor: &Redactor) -> Result<String, String> {
    match file.form {
        Form::Text => Ok(redactor.text(&file.text)),
        Form::Json => Ok(map_json(&file.text, |value| redactor.json(value))),
        Form::JsonLines => Ok(map_json_lines(&file.text, |value| redactor.json(value))),
        Form::Sidecar => configuration(&file.text, &SIDECAR, redactor),
        Form::HostConfig => configuration(&file.text, &CONFIG, redactor),
    }
}

/// Returns the configuration with the values that are shown, and without comments.
fn configuration(text: &str, shown: &Shown, redactor: &Redactor) -> Result<String, String> {
    // The parser's message may quote the text.
    let value = parse_yaml(text)
        .map_err(|_| "it is not valid YAML, so secrets cannot be told from settings".to_owned())?;
    serde_saphyr::to_string(&redactor.json(mask_hidden(value, shown))).map_err(|error| error.to_string())
}

/// Replaces all values that are not shown.
fn mask_hidden(value: Value, shown: &Shown) -> Value {
    match (shown, value) {
        (Shown::All, value) => value,
        (Shown::Each(item), Value::Array(values)) => {
            values.into_iter().map(|value| mask_hidden(value, item)).collect()
        }
        (Shown::Members(members), Value::Object(object)) => {
            let masked = object.into_iter().map(|(name, value)| {
                let value = match member(members, &name) {
                    Some(shown) => mask_hidden(value, shown),
                    None => mask(value),
                };
                (name, value)
            });
            masked.collect()
        }
        (Shown::Each(_) | Shown::Members(_), other) => mask(other),
    }
}

/// Collects the values that are not shown.
fn collect_hidden(value: &Value, shown: &Shown, texts: &mut Vec<String>) {
    match (shown, value) {
        (Shown::All, _) => {}
        (Shown::Each(item), Value::Array(values)) => {
            values.iter().for_each(|value| collect_hidden(value, item, texts));
        }
        (Shown::Members(members), Value::Object(object)) => {
            for (name, value) in object {
                match member(members, name) {
                    Some(shown) => collect_hidden(value, shown, texts),
                    None => collect_texts(value, texts),
                }
            }
        }
        (Shown::Each(_) | Shown::Members(_), other) => collect_texts(other, texts),
    }
}

/// Returns what is shown of a member; `None` if it is hidden.
fn member<'a>(members: &'a [(&'static str, Shown)], name: &str) -> Option<&'a Shown> {
    members.iter().find(|(known, _)| *known == name).map(|(_, shown)| shown)
}

/// Replaces all values, and keeps the structure. Booleans are no secrets.
fn mask(value: Value) -> Value {
    match value {
        Value::Null | Value::Bool(_) => value,
        Value::Number(_) | Value::String(_) => REDACTED.into(),
        Value::Array(values) => values.into_iter().map(mask).collect(),
        Value::Object(members) => members.into_iter().map(|(name, value)| (name, mask(value))).collect(),
    }
}

/// Returns the values that a configuration file hides, so that they are found in the other files, too.
pub(super) fn secrets_of_file(file: &RawFile) -> Vec<String> {
    let shown = match file.form {
        Form::Sidecar => &SIDECAR,
        Form::HostConfig => &CONFIG,
        Form::Json | Form::JsonLines | Form::Text => return Vec::new(),
    };
    let mut secrets = Vec::new();
    match parse_yaml(&file.text) {
        Ok(value) => collect_hidden(&value, shown, &mut secrets),
        Err(_) => secrets = values_of_lines(&file.text),
    }
    secrets
}

/// Returns what may be a value in a text that is not YAML: what follows a colon or a dash in each line, and the line itself.
pub(super) fn values_of_lines(text: &str) -> Vec<String> {
    let trimmed =
        |text: &str| text.trim().trim_matches(['"', '\'', '{', '}', '[', ']', ',']).trim().to_owned();
    text.lines()
        .flat_map(|line| {
            let value = line.split_once(':').map_or(line, |(_, value)| value);
            [trimmed(line), trimmed(value), trimmed(line.trim_start().trim_start_matches('-'))]
        })
        .collect()
}

/// Members of a kubeconfig's user that name files. Paths occur in errors that explain something.
const PATHS_OF_USER: [&str; 3] = ["client-certificate", "client-key", "tokenFile"];

/// Returns the credentials in a kubeconfig: all texts of its users except their names, the paths of files and commands.
pub(super) fn kubeconfig_secrets(kubeconfig: &Value) -> Vec<String> {
    let mut secrets = Vec::new();
    let users = kubeconfig["users"].as_array().into_iter().flatten();
    for (member, value) in users.filter_map(|user| user["user"].as_object()).flatten() {
        match (member.as_str(), value) {
            (path, _) if PATHS_OF_USER.contains(&path) => {}
            ("exec", Value::Object(exec)) => {
                let others = exec.iter().filter(|(name, _)| *name != "command");
                others.for_each(|(_, value)| collect_texts(value, &mut secrets));
            }
            _ => collect_texts(value, &mut secrets),
        }
    }
    secrets
}

/// Returns the paths of the files with tokens that a kubeconfig names.
pub(super) fn kubeconfig_token_files(kubeconfig: &Value) -> Vec<String> {
    let users = kubeconfig["users"].as_array().into_iter().flatten();
    users.filter_map(|user| user["user"]["tokenFile"].as_str()).map(str::to_owned).collect()
}

/// Returns the credentials in the configuration file of docker: all texts of its registries, and the passwords in them that are encoded.
#[cfg(feature = "registry")]
pub(super) fn registry_secrets(config: &Value) -> Vec<String> {
    let mut secrets = Vec::new();
    for registry in config["auths"].as_object().into_iter().flat_map(|registries| registries.values()) {
        collect_texts(registry, &mut secrets);
        let decoded = registry["auth"].as_str().and_then(|auth| BASE64_STANDARD.decode(auth).ok());
        let decoded = decoded.and_then(|bytes| String::from_utf8(bytes).ok());
        let password = decoded.as_deref().and_then(|text| text.split_once(':'));
        secrets.extend(password.map(|(_, password)| password.to_owned()));
    }
    secrets
}

fn collect_texts(value: &Value, texts: &mut Vec<String>) {
    match value {
        Value::String(text) => texts.push(text.clone()),
        Value::Number(number) => {
            let text = number.to_string();
            if text.len() >= MIN_SECRET_DIGITS {
                texts.push(text);
            }
        }
        Value::Array(values) => values.iter().for_each(|value| collect_texts(value, texts)),
        Value::Object(members) => members.values().for_each(|value| collect_texts(value, texts)),
        Value::Null | Value::Bool(_) => {}
    }
}

/// Maps a JSON document. A text that is no JSON is mapped as one string.
pub(super) fn map_json(text: &str, map: impl Fn(Value) -> Value) -> String {
    match serde_json::from_str(text) {
        Ok(value) => format!("{:#}\n", map(value)),
        Err(_) => text_of(map(text.into())),
    }
}

/// Maps the JSON document of each line.
pub(super) fn map_json_lines(text: &str, map: impl Fn(Value) -> Value) -> String {
    let line = |line: &str| match serde_json::from_str(line) {
        Ok(value) => map(value).to_string(),
        Err(_) => text_of(map(line.into())),
    };
    text.lines().map(|text| line(text) + "\n").collect()
}

fn text_of(value: Value) -> String {
    match value {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

/// Returns the documents in a file, in which names are looked up.
pub(super) fn values(file: &RawFile) -> Vec<Value> {
    match file.form {
        Form::Json => serde_json::from_str(&file.text).into_iter().collect(),
        Form::JsonLines => file.text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect(),
        Form::Sidecar | Form::HostConfig => parse_yaml(&file.text).into_iter().collect(),
        Form::Text => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sidecar(text: &str) -> RawFile {
        RawFile { path: "sidecars/a.yaml".to_owned(), form: Form::Sidecar, text: text.to_owned() }
    }

    #[test]
    fn a_sidecar_keeps_its_settings_and_loses_its_config_and_comments() {
        let file = sidecar(
            "# canary-comment\nworkers: 2\nconfig: {url: canary-url, deep: [canary-list, 7654321, true]}\ntypo: canary-typo\n\
             grants: {http: [api.example.com]}\n",
        );
        let text = redacted(&file, &Redactor::default()).expect("valid");
        assert!(!text.contains("canary") && !text.contains("7654321"), "{text}");
        let value: Value = serde_saphyr::from_str(&text).expect("YAML");
        assert_eq!(value["workers"], 2);
        assert_eq!(value["grants"]["http"][0], "api.example.com");
        assert_eq!(value["config"]["deep"][2], true);
        assert_eq!(value["config"]["url"], REDACTED);
        assert_eq!(value["typo"], REDACTED);
        let secrets = secrets_of_file(&file);
        for secret in ["canary-url", "canary-list", "7654321", "canary-typo"] {
            assert!(secrets.contains(&secret.to_owned()), "{secret}: {secrets:?}");
        }
    }

    #[test]
    fn a_configuration_keeps_its_plugins_and_registries_and_loses_the_config_of_sidecars() {
        let text = "registries: {policy: /etc/policy.yaml, plainHttp: [localhost:5000], other: canary-1}\n\
                    plugins:\n- {name: greeter, image: ghcr.io/team/greeter:1, typo: canary-2, sidecar: {workers: 2, config: {a: canary-3}}}\n\
                    - canary-4\ntracing: {headers: {a: canary-5}}\n";
        let file = RawFile { path: "config.yaml".to_owned(), form: Form::HostConfig, text: text.to_owned() };
        let shown = redacted(&file, &Redactor::default()).expect("valid");
        assert!(!shown.contains("canary"), "{shown}");
        let value: Value = serde_saphyr::from_str(&shown).expect("YAML");
        assert_eq!(value["plugins"][0]["name"], "greeter");
        assert_eq!(value["plugins"][0]["image"], "ghcr.io/team/greeter:1");
        assert_eq!(value["plugins"][0]["sidecar"]["workers"], 2);
        assert_eq!(value["registries"]["policy"], "/etc/policy.yaml");
        let secrets = secrets_of_file(&file);
        // A plugin's name is no secret: it would be removed from all other files.
        assert!(!secrets.iter().any(|secret| secret == "greeter"), "{secrets:?}");
        for number in 1..=5 {
            assert!(secrets.contains(&format!("canary-{number}")), "{number}: {secrets:?}");
        }
    }

    #[test]
    fn a_file_that_is_no_yaml_is_left_out_and_its_values_are_secrets() {
        let file = sidecar("config:\n  token: \"canary-1\"\n  - canary-2\n }");
        let error = redacted(&file, &Redactor::default()).expect_err("not YAML");
        assert!(!error.contains("canary"), "{error}");
        let secrets = secrets_of_file(&file);
        for secret in ["canary-1", "canary-2"] {
            assert!(secrets.contains(&secret.to_owned()), "{secret}: {secrets:?}");
        }
    }

    #[test]
    fn the_credentials_of_a_kubeconfig_are_secrets_and_its_paths_are_not() {
        let text = "users:\n- name: me\n  user: {token: canary-1, client-key: /etc/key.pem, exec: {env: [{name: A, value: canary-2}]}}\n";
        let secrets = kubeconfig_secrets(&parse_yaml(text).expect("YAML"));
        assert!(secrets.contains(&"canary-1".to_owned()) && secrets.contains(&"canary-2".to_owned()));
        assert!(!secrets.contains(&"/etc/key.pem".to_owned()) && !secrets.contains(&"me".to_owned()));
    }

    #[test]
    #[cfg(feature = "registry")]
    fn the_credentials_of_registries_are_secrets_also_encoded() {
        // `me:canary-2` in base64.
        let text = r#"{"auths": {"r.example": {"username": "me", "password": "canary-1"}, "s.example": {"auth": "bWU6Y2FuYXJ5LTI="}}}"#;
        let secrets = registry_secrets(&serde_json::from_str(text).expect("JSON"));
        for secret in ["canary-1", "canary-2", "bWU6Y2FuYXJ5LTI="] {
            assert!(secrets.contains(&secret.to_owned()), "{secret}: {secrets:?}");
        }
        assert_eq!(registry_secrets(&Value::Null), Vec::<String>::new());
    }
}
