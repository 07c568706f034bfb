//! cosign, which signs what the cases push.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::tools;

/// A format of signatures.
#[derive(Clone, Copy)]
pub(super) enum Format {
    /// A bundle that refers to the plugin: cosign's default since version 3.
    Bundle,
    /// An image in the tag `sha256-DIGEST.sig`.
    Legacy,
}

impl Format {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Bundle => "bundle",
            Self::Legacy => "legacy",
        }
    }
}

/// The program in one version, with keys in a folder. The keys have an empty password.
pub(super) struct Cosign {
    name: &'static str,
    program: PathBuf,
    keys: PathBuf,
    formats: &'static [Format],
    /// Flags of `sign` that only this version has.
    flags: &'static [&'static str],
}

impl Cosign {
    /// Installs version 3, and creates a folder for its keys in `folder`.
    pub(super) fn install(folder: &Path) -> Result<Self> {
        Ok(Self {
            name: "cosign-3",
            program: tools::COSIGN.install()?,
            keys: key_folder(folder, "cosign-3")?,
            formats: &[Format::Bundle, Format::Legacy],
            flags: &["--use-signing-config=false"],
        })
    }

    /// Installs version 2, and creates a folder for its keys in `folder`. It signs in its default format, which is the older one.
    pub(super) fn install_2(folder: &Path) -> Result<Self> {
        Ok(Self {
            name: "cosign-2",
            program: tools::COSIGN_2.install()?,
            keys: key_folder(folder, "cosign-2")?,
            formats: &[Format::Legacy],
            flags: &[],
        })
    }

    /// Returns the program's name with its version.
    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the formats that the cases sign with this version.
    pub(super) fn formats(&self) -> &'static [Format] {
        self.formats
    }

    /// Returns the path of a private key, and creates it the first time. The public key is beside it, with the ending `pub`.
    pub(super) fn key(&self, name: &str) -> Result<PathBuf> {
        let key = self.keys.join(format!("{name}.key"));
        if !key.exists() {
            self.run(&["generate-key-pair", "--output-key-prefix", name])?;
        }
        Ok(key)
    }

    /// Signs the digest that `reference` names. No transparency log is contacted.
    pub(super) fn sign(
        &self,
        reference: &str,
        key: &Path,
        format: Format,
        annotation: Option<&str>,
    ) -> Result<()> {
        let key = key.to_string_lossy();
        let mut arguments =
            vec!["sign", "--yes", "--key", &key, "--tlog-upload=false", "--allow-http-registry"];
        arguments.extend(self.flags);
        if self.formats.len() > 1 {
            arguments.push(match format {
                Format::Bundle => "--new-bundle-format=true",
                Format::Legacy => "--new-bundle-format=false",
            });
        }
        if let Some(annotation) = annotation {
            arguments.extend(["--annotations", annotation]);
        }
        arguments.push(reference);
        self.run(&arguments)
    }

    fn run(&self, arguments: &[&str]) -> Result<()> {
        let output = Command::new(&self.program)
            .args(arguments)
            .current_dir(&self.keys)
            .env("COSIGN_PASSWORD", "")
            .output()
            .with_context(|| format!("start {}", self.program.display()))?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "cosign {} failed: {error}", arguments.join(" "));
        Ok(())
    }
}

fn key_folder(folder: &Path, name: &str) -> Result<PathBuf> {
    let folder = folder.join(name);
    fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    Ok(folder)
}
