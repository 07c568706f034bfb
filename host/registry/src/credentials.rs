//! Credentials from a docker `config.json`, which a Secret of the type `kubernetes.io/dockerconfigjson` holds, too.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::error::{Problem, RegistryError, excerpt};

/// The largest file that is read, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// What authenticates at one registry.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials {
    /// A user and a password.
    Password {
        /// The user's name.
        user: String,
        /// The password, or an access token in its place.
        password: String,
    },
    /// A token that is exchanged for another one.
    IdentityToken(String),
}

/// Does not show the secret.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Password { user, .. } => write!(f, "Password({user:?}, …)"),
            Self::IdentityToken(_) => f.write_str("IdentityToken(…)"),
        }
    }
}

impl Credentials {
    /// The value of the header `authorization`, if a user and a password are known.
    pub(crate) fn basic(&self) -> Option<String> {
        match self {
            Self::Password { user, password } => {
                Some(format!("Basic {}", STANDARD.encode(format!("{user}:{password}"))))
            }
            Self::IdentityToken(_) => None,
        }
    }
}

/// The credentials of all registries that a file names.
#[derive(Clone, Debug, Default)]
pub struct CredentialFile {
    by_registry: BTreeMap<String, Credentials>,
    has_helpers: bool,
}

#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    auths: BTreeMap<String, Entry>,
    #[serde(rename = "credsStore")]
    store: Option<IgnoredAny>,
    #[serde(rename = "credHelpers", default)]
    helpers: BTreeMap<String, IgnoredAny>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Entry {
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
    #[serde(rename = "identitytoken")]
    identity_token: Option<String>,
}

impl CredentialFile {
    /// Reads a file.
    ///
    /// # Errors
    /// Errors if the file cannot be read, or is no docker configuration. Neither shows the file's content.
    pub fn read(path: &Path) -> Result<Self, RegistryError> {
        let bytes = read_bounded(path, MAX_FILE, "credentials")?;
        Self::parse(&bytes).map_err(|error| error.in_context(path.display()))
    }

    /// Parses the text of a file.
    ///
    /// # Errors
    /// See [`read`](Self::read).
    pub fn parse(text: &[u8]) -> Result<Self, RegistryError> {
        // The error of the parser could show a part of a secret.
        let invalid = |problem: &str| {
            RegistryError::new(
                Problem::Invalid,
                format!(
                    "{problem}; write it with `docker login`, or `kubectl create secret docker-registry`"
                ),
            )
        };
        let document: Document =
            serde_json::from_slice(text).map_err(|_| invalid("this is no docker config.json"))?;
        let mut by_registry = BTreeMap::new();
        for (name, entry) in document.auths {
            let registry = registry_of(&name);
            if let Some(credentials) = entry.credentials().map_err(|problem| {
                invalid(&format!("the entry {:?} of auths {problem}", excerpt(&registry)))
            })? {
                by_registry.insert(registry, credentials);
            }
        }
        let has_helpers = document.store.is_some() || !document.helpers.is_empty();
        Ok(Self { by_registry, has_helpers })
    }

    /// Returns the credentials for a registry, if there are any.
    #[must_use]
    pub fn of(&self, registry: &str) -> Option<&Credentials> {
        self.by_registry.get(&registry_of(registry))
    }

    /// Whether the file names programs that hold credentials. They are not called.
    #[must_use]
    pub fn has_helpers(&self) -> bool {
        self.has_helpers
    }
}

impl Entry {
    fn credentials(self) -> Result<Option<Credentials>, &'static str> {
        if let Some(token) = self.identity_token.filter(|token| !token.is_empty()) {
            return Ok(Some(Credentials::IdentityToken(token)));
        }
        if let (Some(user), Some(password)) = (self.username, self.password) {
            return Ok(Some(Credentials::Password { user, password }));
        }
        let Some(auth) = self.auth.filter(|auth| !auth.is_empty()) else { return Ok(None) };
        let decoded = STANDARD.decode(auth.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let decoded = decoded.ok_or("has an auth that is not base64")?;
        let (user, password) = decoded.split_once(':').ok_or("has an auth without user and password")?;
        Ok(Some(Credentials::Password { user: user.to_owned(), password: password.to_owned() }))
    }
}

/// Reduces a key of `auths` to `host` or `host:port`. Docker writes its own registry as `https://index.docker.io/v1/`.
fn registry_of(name: &str) -> String {
    let rest = name.split_once("://").map_or(name, |(_, rest)| rest);
    let host = rest.split('/').next().unwrap_or_default().to_ascii_lowercase();
    if host == "index.docker.io" || host == "registry-1.docker.io" { "docker.io".to_owned() } else { host }
}

/// Reads a file that an operator named, up to a size.
pub(crate) fn read_bounded(path: &Path, limit: u64, what: &str) -> Result<Vec<u8>, RegistryError> {
    use std::io::Read;

    let failed = |problem: String, remedy: &str| {
        RegistryError::new(
            Problem::Invalid,
            format!("the file with {what}, {}, cannot be read: {problem}; {remedy}", path.display()),
        )
    };
    let io = |error: std::io::Error| failed(error.to_string(), "check its path and its permissions");
    // Opening a pipe could block, and a device could have no end.
    if !std::fs::metadata(path).map_err(io)?.is_file() {
        return Err(failed("it is not a regular file".to_owned(), "name a file"));
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path).map_err(io)?.take(limit + 1).read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() as u64 > limit {
        return Err(failed(format!("it has more than {limit} bytes"), "name a smaller file"));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn password(user: &str, password: &str) -> Credentials {
        Credentials::Password { user: user.to_owned(), password: password.to_owned() }
    }

    #[test]
    fn all_forms_of_entries_are_read() {
        let text = r#"{"auths":{
            "https://index.docker.io/v1/":{"auth":"dXNlcjpwYTpzcw=="},
            "GHCR.io":{"username":"bot","password":"t"},
            "r.example:5000":{"identitytoken":"id","auth":"eDo="},
            "empty.example":{}},
            "credHelpers":{"gcr.io":"gcloud"},"HttpHeaders":{}}"#;
        let file = CredentialFile::parse(text.as_bytes()).expect("a file");
        assert_eq!(file.of("docker.io"), Some(&password("user", "pa:ss")));
        assert_eq!(file.of("ghcr.io"), Some(&password("bot", "t")));
        assert_eq!(file.of("r.example:5000"), Some(&Credentials::IdentityToken("id".into())));
        assert_eq!((file.of("r.example"), file.of("empty.example")), (None, None));
        assert!(file.has_helpers());
        assert_eq!(file.of("ghcr.io").and_then(Credentials::basic), Some("Basic Ym90OnQ=".to_owned()));
    }

    #[test]
    fn no_secret_is_shown() {
        for text in [
            r#"{"auths":{"r.example":{"auth":"aHVudGVyMg=="}}}"#,
            r#"{"auths":{"r.example":{"auth":"hunter2!"}}}"#,
            r#"{"auths":"hunter2"}"#,
        ] {
            let error = CredentialFile::parse(text.as_bytes()).expect_err(text).to_string();
            assert!(!error.contains("hunter2") && !error.contains("aHVudGVyMg"), "{error}");
            assert!(error.contains("docker login"), "{error}");
        }
        assert!(!format!("{:?}", password("a", "hunter2")).contains("hunter2"));
    }

    #[test]
    fn only_a_regular_file_of_a_limited_size_is_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("config.json");
        assert!(CredentialFile::read(&path).is_err());
        assert!(CredentialFile::read(folder.path()).is_err());
        std::fs::write(&path, "{}").expect("written");
        assert!(CredentialFile::read(&path).is_ok());
        std::fs::write(&path, " ".repeat(2 << 20)).expect("written");
        assert!(CredentialFile::read(&path).expect_err("too large").to_string().contains("more than"));
        assert!(CredentialFile::read(Path::new("/dev/zero")).is_err());
    }
}
