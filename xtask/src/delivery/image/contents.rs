//! The files of the image.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use pem::{EncodeConfig, LineEnding, Pem};
use webpki_root_certs::TLS_SERVER_ROOT_CERTS;

use crate::delivery::archive::Entry;

/// The user and group that the host runs as. The ID is used by no other common image: the status port accepts requests that change
/// something from every process of the pod with the host's user ID (docs/decisions/0018-who-may-change-something-through-the-status-port.md).
pub(super) const USER: u32 = 64_946;

/// The path of the program.
pub(super) const PROGRAM: &str = "/usr/local/bin/pilothouse";

/// Returns what rarely changes: root certificates, users and empty folders. Registries and nodes keep this layer when the program changes.
pub(super) fn base() -> Vec<Entry> {
    let passwd =
        format!("root:x:0:0:root:/:/sbin/nologin\npilothouse:x:{USER}:{USER}:Pilothouse:/:/sbin/nologin\n");
    let group = format!("root:x:0:\npilothouse:x:{USER}:\n");
    vec![
        Entry::folder("etc", 0o755),
        Entry::file("etc/passwd", 0o644, passwd),
        Entry::file("etc/group", 0o644, group),
        // The sources of names that a static C library contains. It can load no others.
        Entry::file("etc/nsswitch.conf", 0o644, "passwd: files\ngroup: files\nhosts: files dns\n"),
        Entry::folder("etc/ssl", 0o755),
        Entry::folder("etc/ssl/certs", 0o755),
        Entry::file("etc/ssl/certs/ca-certificates.crt", 0o644, certificates()),
        Entry::folder("plugins", 0o755),
        // Nobody else may write to compiled plugins, or the host does not use them.
        Entry::folder("cache", 0o700).owned_by(USER),
        Entry::folder("tmp", 0o1777),
    ]
}

/// Returns the program, what it is made of, and its licence.
///
/// # Errors
/// Errors if a file cannot be read.
pub(super) fn program(root: &Path, program: &Path, sbom: String) -> Result<Vec<Entry>> {
    let read = |path: &Path| fs::read(path).with_context(|| format!("read {}", path.display()));
    let folders = [
        "usr",
        "usr/local",
        "usr/local/bin",
        "usr/share",
        "usr/share/doc",
        "usr/share/doc/pilothouse",
        "usr/share/sbom",
    ];
    let mut entries: Vec<Entry> = folders.map(|path| Entry::folder(path, 0o755)).into();
    entries.extend([
        Entry::file(PROGRAM.trim_start_matches('/'), 0o755, read(program)?),
        Entry::file("usr/share/doc/pilothouse/LICENSE", 0o644, read(&root.join("LICENSE"))?),
        Entry::file("usr/share/sbom/pilothouse.cdx.json", 0o644, sbom),
    ]);
    Ok(entries)
}

/// Returns Mozilla's root certificates as PEM.
fn certificates() -> String {
    let certificates: Vec<Pem> = TLS_SERVER_ROOT_CERTS
        .iter()
        .map(|certificate| Pem::new("CERTIFICATE", certificate.to_vec()))
        .collect();
    pem::encode_many_config(&certificates, EncodeConfig::new().set_line_ending(LineEnding::LF))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delivery::archive;

    #[test]
    fn two_base_layers_are_identical() {
        assert_eq!(archive::tar(base()).expect("an archive"), archive::tar(base()).expect("an archive"));
    }

    #[test]
    fn every_folder_above_an_entry_is_an_entry() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["LICENSE", "program"] {
            fs::write(folder.path().join(name), name).expect("written");
        }
        let program =
            program(folder.path(), &folder.path().join("program"), "{}".to_owned()).expect("entries");
        for entries in [base(), program] {
            for entry in &entries {
                let Some((parent, _)) = entry.path.rsplit_once('/') else { continue };
                let has_parent = entries.iter().any(|other| other.path == parent && other.content.is_none());
                assert!(has_parent, "{}", entry.path);
            }
        }
    }

    #[test]
    fn only_cache_and_tmp_can_be_written_by_the_host() {
        let writable = base().into_iter().filter(|entry| entry.owner != 0 || entry.mode & 0o022 != 0);
        let writable: Vec<String> =
            writable.map(|entry| format!("{} {:o}", entry.path, entry.mode)).collect();
        assert_eq!(writable, ["cache 700", "tmp 1777"]);
    }

    #[test]
    fn the_root_certificates_are_pem_with_unix_lines() {
        let text = certificates();
        let count = text.matches("-----BEGIN CERTIFICATE-----\n").count();
        assert!(count == TLS_SERVER_ROOT_CERTS.len() && count > 50, "{count}");
        assert!(!text.contains('\r'));
        let parsed = pem::parse_many(&text).expect("PEM");
        assert_eq!(parsed[0].contents(), &*TLS_SERVER_ROOT_CERTS[0]);
    }
}
