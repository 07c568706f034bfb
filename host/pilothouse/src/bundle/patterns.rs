//! Patterns of credentials in free text.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::redact::REDACTED;

/// A pattern, and what replaces it.
struct Rule {
    pattern: Regex,
    replacement: &'static str,
}

fn rule(pattern: &str, replacement: &'static str) -> Rule {
    Rule { pattern: Regex::new(pattern).expect("a constant pattern, which the tests compile"), replacement }
}

/// Names of values that are credentials.
const SENSITIVE: &str = "(?:password|passwd|passphrase|passcode|pwd|secret|account[_-]?key|shared[_-]?access[_-]?key|token|api[_-]?key|access[_-]?key|private[_-]?key|client[_-]?key|\
                         signing[_-]?key|encryption[_-]?key|credential|session[_-]?id|signature|cookie|connection[_-]?string|dsn)";

/// Names that are those of credentials as whole words only: within a word they mean nothing.
const SENSITIVE_WORDS: &str = "(?:sas|sig)";

static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    let quoted = r#"\\?"(?:[^"\\]|\\.)*\\?""#;
    vec![
        // Keys and certificates.
        rule(r"(?s)-----BEGIN .*?(?:-----END [A-Z0-9 ]+-----|\z)", "[redacted]"),
        // Headers: the rest of the line, because a value may have several parts.
        rule(
            r#"(?i)((?:authorization|cookie|x-api-key|x-auth-token|x-amz-security-token|impersonate-[a-z-]+)\\?["']?\s*[:=]\s*)[^\r\n]+"#,
            "$1[redacted]",
        ),
        // Credentials in URLs. They may contain a slash or an at sign.
        rule(r#"([A-Za-z][A-Za-z0-9+.-]*://)[^\s"'<>@]*(?:@[^\s"'<>@]*)*@"#, "$1[redacted]@"),
        // Credentials of a command line: `--token VALUE`, `-u NAME:VALUE`.
        rule(
            &format!(r#"(?i)((?-u:\B)--?[a-z-]*{SENSITIVE}[ =]\s*)({quoted}|'[^']*'|[^\s"'\-]\S*)"#),
            "$1[redacted]",
        ),
        rule(r"((?-u:\B)(?:-u|--user)[ =]?[^\s:]+:)\S+", "$1[redacted]"),
        rule(&format!(r"(?i)((?-u:\b){SENSITIVE_WORDS}=)[^\s&,;]+"), "$1[redacted]"),
        // `the password is: value`. Without `is:`, which a rule below would take for the value.
        rule(
            &format!(r#"(?i)({SENSITIVE})\s+(?:is|was)\s*[:=]\s*({quoted}|'[^']*'|[^\s"'\[]\S*)"#),
            "$1 [redacted]",
        ),
        // `name: value` to the end of the line or the next member, and `name=value`.
        rule(
            &format!(
                r#"(?i)([A-Za-z0-9_.-]*{SENSITIVE}[A-Za-z0-9_.-]*\\?["']?\s*[:=]\s*)({quoted}|'[^']*')"#
            ),
            "$1[redacted]",
        ),
        rule(
            &format!(
                r#"(?i)([A-Za-z0-9_.-]*{SENSITIVE}[A-Za-z0-9_.-]*["']?\s*:\s+)[^\s,;}}"'][^,;}}"'\r\n]*"#
            ),
            "$1[redacted]",
        ),
        rule(
            &format!(r#"(?i)([A-Za-z0-9_.-]*{SENSITIVE}[A-Za-z0-9_.-]*["']?\s*[:=]\s*)[^\s,;&}}"']+"#),
            "$1[redacted]",
        ),
        rule(
            &format!(
                r#"(?i)((?-u:\b)(?:password|passwd|passphrase|passcode|pwd|token|credentials?|secret|api[_-]?key)\s+(?:(?:is|was|of)\s+)?)({quoted}|'[^']*')"#
            ),
            "$1[redacted]",
        ),
        rule(
            r#"(?i)((?-u:\b)(?:password|passwd|passphrase|passcode|pwd|api[_-]?key)\s+(?:(?:is|was)\s+)?)[^\s"'\[]\S*"#,
            "$1[redacted]",
        ),
        rule(r"(?i)((?-u:\b)(?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{6,}", "$1[redacted]"),
        rule(r"(?-u:\b)eyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_.-]+", "[redacted]"),
        // Values of objects in the errors of API servers and parsers.
        rule(&format!(r"((?:Invalid|Unsupported|Duplicate) value: )({quoted})"), "$1[redacted]"),
        rule(r#"((?:Invalid|Unsupported|Duplicate) value: )[^"\[\r\n][^\r\n]*"#, "$1[redacted]"),
        rule(
            &format!(r"(invalid (?:type|value): (?:string|character|byte array) )({quoted})"),
            "$1[redacted]",
        ),
        rule(r"(unknown variant )`[^`]*`", "$1[redacted]"),
        // Maps as Go prints them.
        rule(r"map\[[^\r\n]*\]", "map[[redacted]]"),
    ]
});

/// Parameters in the queries of URLs that are no credentials.
const PLAIN_PARAMETERS: [&str; 16] = [
    "watch",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "timeoutSeconds",
    "timeout",
    "allowWatchBookmarks",
    "sendInitialEvents",
    "fieldManager",
    "force",
    "dryRun",
    "follow",
    "plugin",
    "labelSelector",
    "fieldSelector",
    "fieldValidation",
];

static PARAMETER: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"([?&])([A-Za-z0-9_.\[\]-]+)=([^&\s"'<>#]+)"#).expect("a constant pattern")
});

static OPAQUE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new("[A-Za-z0-9+_-]{20,}={0,2}").expect("a constant pattern"));

static SENSITIVE_NAME: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(&format!("(?i)(?:{SENSITIVE}|authorization)"))
        .expect("a constant pattern, which the tests compile")
});

/// Whether a value of this name is a credential.
pub(super) fn is_sensitive_name(name: &str) -> bool {
    SENSITIVE_NAME.is_match(name)
}

/// Replaces what looks like a credential.
pub(super) fn redact(text: &str) -> String {
    let mut text = text.to_owned();
    for Rule { pattern, replacement } in &*RULES {
        // `replace_all` returns the text itself if nothing matches.
        let replaced = match pattern.replace_all(&text, *replacement) {
            Cow::Owned(replaced) => Some(replaced),
            Cow::Borrowed(_) => None,
        };
        text = replaced.unwrap_or(text);
    }
    let text = PARAMETER.replace_all(&text, |found: &Captures<'_>| {
        if PLAIN_PARAMETERS.contains(&&found[2]) {
            found[0].to_owned()
        } else {
            format!("{}{}={REDACTED}", &found[1], &found[2])
        }
    });
    let text = OPAQUE.replace_all(&text, |found: &Captures<'_>| {
        let start = found.get(0).map_or(0, |word| word.start());
        let is_plain = is_digest(&text[..start], &found[0]) || !is_opaque(&found[0]);
        if is_plain { found[0].to_owned() } else { REDACTED.to_owned() }
    });
    without_objects(&text)
}

/// Whether a word is the hexadecimal part of a digest such as `sha256:…`, which names a version of a plugin. `before` is the text before it.
fn is_digest(before: &str, word: &str) -> bool {
    before.ends_with("sha256:") && word.len() == 64 && word.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Whether a long word looks like random text: base64, or hexadecimal. Names in Kubernetes have no upper-case letters, and UIDs have dashes.
fn is_opaque(word: &str) -> bool {
    let has = |predicate: fn(&u8) -> bool| word.as_bytes().iter().any(predicate);
    let (upper, lower, digit) =
        (has(u8::is_ascii_uppercase), has(u8::is_ascii_lowercase), has(u8::is_ascii_digit));
    let is_hex = word.len() >= 32 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    // All upper case with underscores is the name of a constant or an environment variable.
    let is_constant = upper && !lower && word.contains('_');
    is_hex || (upper && digit && !is_constant) || (upper && lower && word.len() >= 40)
}

/// Replaces JSON objects in a text, which may be objects of the cluster. Rules of RBAC stay: errors name the rule that is missing.
fn without_objects(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('{') {
        let (before, tail) = rest.split_at(start);
        result.push_str(before);
        let inner = tail[1..].trim_start_matches([' ', '\\', '\n', '\t']);
        if !inner.starts_with('"') {
            result.push('{');
            rest = &tail[1..];
            continue;
        }
        let (object, after) = tail.split_at(object_end(tail));
        result.push_str(if is_rule(object) { object } else { "{[redacted]}" });
        rest = after;
    }
    result + rest
}

/// Returns the length of the object at the start of the text. An object without an end takes the whole text.
fn object_end(text: &str) -> usize {
    let (mut depth, mut in_string, mut is_escaped) = (0_usize, false, false);
    for (position, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_string => is_escaped = true,
            b'"' => in_string = !in_string,
            b'{' if !in_string => depth += 1,
            b'}' if !in_string => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return position + 1;
                }
            }
            _ => {}
        }
    }
    text.len()
}

fn is_rule(object: &str) -> bool {
    let members = ["apiGroups", "resources", "verbs", "namespaces"];
    let Ok(serde_json::Value::Object(object)) = serde_json::from_str(object) else { return false };
    object.keys().all(|member| members.contains(&member.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_replaced_and_their_context_stays() {
        for (text, expected) in [
            ("Authorization: Bearer abc", "Authorization: [redacted]"),
            ("got bearer abc123xyz back", "got bearer [redacted] back"),
            ("GET https://u:p@ss/w@host.example/a", "GET https://[redacted]@host.example/a"),
            ("GET /a?token=abc&limit=5&x=1", "GET /a?token=[redacted]&limit=5&x=[redacted]"),
            ("db_password=hunter2 retries=3", "db_password=[redacted] retries=3"),
            ("password: correct horse, retry", "password: [redacted], retry"),
            (r#"{"apiKey": "a\"b"}"#, "{[redacted]}"),
            ("the password is hunter2", "the password is [redacted]"),
            ("the password is: 'hunter2' now", "the password [redacted] now"),
            ("the token was: hunter2", "the token [redacted]"),
            ("run --token hunter2 --limit 5", "run --token [redacted] --limit 5"),
            ("run --api-key=hunter2", "run --api-key=[redacted]"),
            ("run --db-password \"a b\" -v", "run --db-password [redacted] -v"),
            ("curl -u admin:hunter2 https://a", "curl -u admin:[redacted] https://a"),
            ("AccountName=a;AccountKey=hunter2;Endpoint=b", "AccountName=a;AccountKey=[redacted];Endpoint=b"),
            ("sas=hunter2", "sas=[redacted]"),
            ("pwd hunter2", "pwd [redacted]"),
            ("apikey hunter2", "apikey [redacted]"),
            ("credentials 'hunter2' refused", "credentials [redacted] refused"),
            ("secret \"hunter2\"", "secret [redacted]"),
            ("spec.a: Invalid value: \"x y\": no", "spec.a: Invalid value: [redacted]: no"),
            ("spec.a: Invalid value: map[string]any{\"a\":\"b\"}: no", "spec.a: Invalid value: [redacted]"),
            ("invalid type: string \"x\", expected u16", "invalid type: string [redacted], expected u16"),
            ("object {\"data\":{\"a\":\"b\"}} end", "object {[redacted]} end"),
            ("torn {\"data\":\"a", "torn {[redacted]}"),
            ("labels map[a:b c:d] end", "labels map[[redacted]] end"),
            ("key -----BEGIN X KEY-----\nabc\n-----END X KEY----- end", "key [redacted] end"),
            ("id AKIAIOSFODNN7EXAMPLEX", "id [redacted]"),
        ] {
            assert_eq!(redact(text), expected, "{text}");
        }
    }

    #[test]
    fn digests_of_plugins_stay() {
        let hex = "0123456789abcdef".repeat(4);
        for text in [
            format!("image registry.example/team/a@sha256:{hex}"),
            format!("the version sha256:{hex} runs on"),
        ] {
            assert_eq!(redact(&text), text);
        }
        for text in [format!("a {hex}"), format!("sha256:{hex}00"), format!("sha256:{}", &hex[..60])] {
            assert!(redact(&text).contains(REDACTED), "{text}");
        }
    }

    #[test]
    fn what_explains_a_failure_stays() {
        for text in [
            "deployments.apps \"web-7c9f8b6d5-x2x4z\" is forbidden: User \"system:serviceaccount:shop:robot\" cannot get it",
            "lacks the rule {\"apiGroups\":[\"apps\"],\"resources\":[\"deployments\"],\"verbs\":[\"get\"],\"namespaces\":[]}",
            "GET /api/v1/pods?watch=true&resourceVersion=812: 410 Gone",
            "uid 0f2a4d6c-1b2c-4d5e-8f90-a1b2c3d4e5f6",
            "PILOTHOUSE_CACHE_COMPRESSION=zstd",
            "the secrets of namespace shop cannot be listed: secrets \"db\" is forbidden",
            "--token-file is missing; -u is no flag",
        ] {
            assert_eq!(redact(text), text);
        }
    }
}
