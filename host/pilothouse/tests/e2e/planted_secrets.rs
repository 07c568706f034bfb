//! Secrets that tests plant, and the texts in a bundle, in which none may be. The unit tests of bundles include this file, too.

use std::collections::BTreeMap;
use std::io::Read;

/// The number of planted secrets.
pub(crate) const CANARIES: usize = 40;
/// The secret that is a value of a plugin's sidecar, and that another plugin logs.
pub(crate) const COLOUR: usize = 0;
/// The secret that is a credential of the environment or of the kubeconfig, and that a plugin logs.
pub(crate) const LOGIN: usize = 8;

/// Returns a secret, which is found again by its number.
pub(crate) fn canary(number: usize) -> String {
    format!("canary{number:02}zzq")
}

/// Returns the messages that a plugin logs. Each has secrets that only the text's form gives away, or the bundle's other sources.
pub(crate) fn logged() -> Vec<String> {
    let c = canary;
    vec![
        format!("GET https://user:{}@api.example.com/?key={} failed: Bearer {}", c(13), c(14), c(15)),
        format!("Authorization: Basic {}", c(17)),
        format!("sent authorization={}", c(18)),
        format!("password: {} and more", c(19)),
        format!("api_key={} tries=1", c(20)),
        format!("{{\"client_secret\": \"{}\"}}", c(21)),
        format!("the password is {}", c(22)),
        format!("object {{\"kind\":\"Secret\",\"data\":{{\"a\":\"{}\"}}}}", c(23)),
        format!("annotations map[example.com/note:{}]", c(24)),
        format!("{{\"metadata\":{{\"annotations\":{{\"note\":\"{}\"}}}}}}", c(25)),
        format!("metadata.annotations: Invalid value: {:?}: too long", c(26)),
        format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----", c(27)),
        format!("Cookie: session={}; theme=dark", c(28)),
        format!("the colour is {}", c(COLOUR)),
        format!("login with {}", c(LOGIN)),
        format!("jwt eyJhbGciOiJ9.{}.sig", c(29)),
        format!("postgres://app:{}@db/app", c(30)),
        format!("X-Api-Key: {}", c(31)),
        format!("proxy http://{}:x@proxy.example:3128", c(32)),
    ]
}

/// Returns the texts in a bundle by their paths.
pub(crate) fn unpack(bundle: &[u8]) -> BTreeMap<String, String> {
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(bundle));
    let entries = archive.entries().expect("entries").map(|entry| {
        let mut entry = entry.expect("an entry");
        let path = entry.path().expect("a path").display().to_string();
        let mut text = String::new();
        entry.read_to_string(&mut text).expect("text");
        (path.trim_start_matches("pilothouse-bundle/").to_owned(), text)
    });
    entries.collect()
}
