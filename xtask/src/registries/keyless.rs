//! Signatures without a key of the signer's own: Sigstore's packages make them, with a trust root of their own (`xtask/keyless-signer`).

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::registry::Registry;
use super::{Verification, push, with_custom_section, write_policy};
use crate::tools;

const ISSUER: &str = "https://accounts.example.com";
const SIGNER: &str = "release@example.com";
const STRANGER: &str = "stranger@example.com";

/// Pushes a plugin and another version of it, signs both, and verifies them with several policies.
///
/// # Errors
/// Errors if the signer cannot be built, or if a case fails.
pub(super) fn run(
    root: &Path,
    pilothouse: &Path,
    registry: &Registry,
    folder: &Path,
    plugin: &Path,
) -> Result<()> {
    let signer = tools::KEYLESS_SIGNER.install(root)?;
    let image = format!("{}/keyless/plugin", registry.address());
    let signed = format!("{image}@{}", push(pilothouse, plugin, &format!("{image}:1"))?);
    let other = with_custom_section(plugin, folder)?;
    let signed_by_stranger = format!("{image}@{}", push(pilothouse, &other, &format!("{image}:2"))?);
    let (own, foreign) = (folder.join("trusted_root.json"), folder.join("foreign_root.json"));
    sign(&signer, &own, &[(SIGNER, &signed), (STRANGER, &signed_by_stranger)])?;
    // Another authority signs in the name of the same identity.
    sign(&signer, &foreign, &[(SIGNER, &signed_by_stranger)])?;

    let policy = |name: &str, trust_root: &Path, keyless: serde_json::Value| {
        let signer = json!({"name": "release", "keyless": keyless});
        let rule = json!({"match": [format!("{}/**", registry.address())], "signers": [signer]});
        let document = json!({"trustRoot": trust_root, "rules": [rule]});
        write_policy(folder, &format!("keyless-{name}"), &document)
    };
    let exact = json!({"issuer": ISSUER, "subject": SIGNER});
    let matching = policy("exact", &own, exact.clone())?;
    let pattern = json!({"issuer": ISSUER, "subjectRegex": ".*@example[.]com"});
    let pattern = policy("pattern", &own, pattern)?;
    let other_issuer =
        policy("issuer", &own, json!({"issuer": "https://other.example.com", "subject": SIGNER}))?;
    let other_root = policy("root", &foreign, exact)?;
    for (case, reference, policy, is_allowed) in [
        ("a keyless signature by the identity", &signed, &matching, true),
        ("a keyless signature by another identity", &signed_by_stranger, &matching, false),
        ("keyless signatures by identities that match", &signed_by_stranger, &pattern, true),
        ("a keyless signature with another issuer", &signed, &other_issuer, false),
        ("a keyless signature by another authority", &signed, &other_root, false),
        ("one of two keyless signatures is by the authority", &signed_by_stranger, &other_root, true),
    ] {
        let case = format!("{}, sigstore-go, {case}", registry.name());
        Verification { pilothouse, case: &case, reference, policy }.expect(is_allowed)?;
    }
    Ok(())
}

/// Signs references with a new authority, whose trust root it writes.
fn sign(signer: &Path, trust_root: &Path, signatures: &[(&str, &str)]) -> Result<()> {
    let signatures = signatures.iter().map(|(identity, reference)| format!("{identity}={reference}"));
    let output = Command::new(signer)
        .arg(trust_root)
        .arg(ISSUER)
        .args(signatures)
        .output()
        .with_context(|| format!("start {}", signer.display()))?;
    ensure!(output.status.success(), "keyless-signer failed: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}
