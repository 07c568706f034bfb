//! A support bundle: files about a host, without secrets, in an archive of bounded size.
//!
//! This module does no I/O. `commands::bundle` collects a [`Material`], and [`assemble`] redacts, anonymises and packs it.
//! [`BundleContents`] is what `commands::show` reads of a bundle.

mod anonymise;
mod archive;
mod contents;
mod documents;
mod environment;
mod known_secrets;
mod patterns;
mod redact;
#[cfg(test)]
mod tests;

use std::io;

use serde_json::Value;

pub(crate) use contents::BundleContents;
pub(crate) use environment::{EnvironmentFacts, environment_facts};
pub(crate) use redact::Redactor;

use anonymise::Anonymiser;
use archive::Archive;

/// The maximum size of a bundle in bytes.
pub(crate) const MAX_BUNDLE: usize = 20 << 20;

/// The maximum size of all files before they are compressed, in bytes.
const MAX_COLLECTED: usize = 256 << 20;

/// How a file's content is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A JSON document.
    Json,
    /// A JSON document in each line.
    JsonLines,
    /// Text.
    Text,
    /// A plugin's sidecar, in YAML.
    Sidecar,
    /// The host's configuration file, in YAML.
    HostConfig,
}

/// A file as it was collected.
#[derive(Clone, Debug)]
pub(crate) struct RawFile {
    /// The path in the bundle.
    pub(crate) path: String,
    pub(crate) form: Form,
    pub(crate) text: String,
}

/// Something that the bundle lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LeftOut {
    pub(crate) what: String,
    pub(crate) reason: String,
}

/// What was collected.
#[derive(Clone, Debug, Default)]
pub(crate) struct Material {
    /// The files, the most important first.
    pub(crate) files: Vec<RawFile>,
    /// Texts that no file of the bundle may contain, such as the credentials of the kubeconfig.
    pub(crate) secrets: Vec<String>,
    /// Names that are anonymised, besides those in the files.
    pub(crate) names: Vec<String>,
    pub(crate) left_out: Vec<LeftOut>,
    /// The size of the files.
    collected_bytes: usize,
}

impl Material {
    /// Adds a file, unless what was collected would need too much memory.
    pub(crate) fn add(&mut self, path: impl Into<String>, form: Form, text: impl Into<String>) {
        let (path, text) = (path.into(), text.into());
        if self.collected_bytes + text.len() > MAX_COLLECTED {
            self.leave_out(path, format!("more than {} MiB were collected before it", MAX_COLLECTED >> 20));
            return;
        }
        self.collected_bytes += text.len();
        self.files.push(RawFile { path, form, text });
    }

    /// Records that something is missing.
    pub(crate) fn leave_out(&mut self, what: impl Into<String>, reason: impl Into<String>) {
        self.left_out.push(LeftOut { what: what.into(), reason: reason.into() });
    }

    /// Adds the credentials of a kubeconfig, which itself is not part of the bundle. Returns the paths of the files that have further tokens.
    pub(crate) fn add_kubeconfig(&mut self, text: &str) -> Vec<String> {
        match documents::parse_yaml(text) {
            Ok(kubeconfig) => {
                self.secrets.extend(documents::kubeconfig_secrets(&kubeconfig));
                documents::kubeconfig_token_files(&kubeconfig)
            }
            Err(_) => {
                self.secrets.extend(documents::values_of_lines(text));
                Vec::new()
            }
        }
    }

    /// Adds the credentials of registries in a configuration file of docker, which itself is not part of the bundle.
    #[cfg(feature = "registry")]
    pub(crate) fn add_registry_credentials(&mut self, text: &str) {
        match serde_json::from_str(text) {
            Ok(config) => self.secrets.extend(documents::registry_secrets(&config)),
            Err(_) => self.secrets.extend(documents::values_of_lines(text)),
        }
    }
}

/// How a bundle is made.
#[derive(Clone, Debug)]
pub(crate) struct BundleOptions {
    /// Whether values are left as they are.
    pub(crate) unredacted: bool,
    /// The key with which names are hashed; `None` leaves names as they are.
    pub(crate) anonymise: Option<[u8; 32]>,
    /// When the bundle was made, in seconds since 1970.
    pub(crate) created: u64,
    /// The maximum size in bytes.
    pub(crate) max_bytes: usize,
}

/// Redacts, anonymises and packs what was collected. Returns the bytes of a .tar.gz file of at most `options.max_bytes`.
///
/// # Errors
/// Errors if a file's path is too long for an archive.
pub(crate) fn assemble(mut material: Material, options: &BundleOptions) -> io::Result<Vec<u8>> {
    let mut redactor = Redactor::new(&material.secrets);
    if !options.unredacted {
        redactor.learn(material.files.iter().flat_map(documents::secrets_of_file));
    }
    let mut files: Vec<RawFile> = Vec::with_capacity(material.files.len());
    for file in std::mem::take(&mut material.files) {
        if options.unredacted {
            files.push(file);
            continue;
        }
        match documents::redacted(&file, &redactor) {
            Ok(text) => files.push(RawFile { path: redactor.text(&file.path), text, ..file }),
            Err(reason) => material.leave_out(file.path, reason),
        }
    }
    if !options.unredacted {
        for left_out in &mut material.left_out {
            left_out.what = redactor.text(&left_out.what);
            left_out.reason = redactor.text(&left_out.reason);
        }
    }
    if let Some(key) = options.anonymise {
        anonymise_all(key, &mut files, &mut material);
    }
    let mut archive = Archive::new(options.max_bytes, options.created);
    archive.append("README.txt", &introduction(options))?;
    for file in files {
        if !archive.append(&file.path, &file.text)? {
            material.leave_out(file.path, format!("the bundle would exceed {} MiB", options.max_bytes >> 20));
        }
    }
    archive.finish(&left_out_text(&material.left_out, options))
}

fn anonymise_all(key: [u8; 32], files: &mut [RawFile], material: &mut Material) {
    let mut anonymiser = Anonymiser::new(key);
    for name in &material.names {
        anonymiser.learn(name);
    }
    for file in files.iter() {
        for value in documents::values(file) {
            anonymiser.learn_from(&value);
        }
    }
    for file in files {
        file.path = anonymiser.path(&file.path);
        file.text = match file.form {
            Form::Json => documents::map_json(&file.text, |value| anonymiser.json(value)),
            Form::JsonLines => documents::map_json_lines(&file.text, |value| anonymiser.json(value)),
            Form::Text | Form::Sidecar | Form::HostConfig => anonymiser.text(&file.text),
        };
    }
    for left_out in &mut material.left_out {
        left_out.what = anonymiser.path(&left_out.what);
        left_out.reason = anonymiser.text(&left_out.reason);
    }
}

fn introduction(options: &BundleOptions) -> String {
    let redaction = if options.unredacted {
        "Nothing is redacted: the files may contain secrets. Do not publish this bundle."
    } else {
        "Values of `config`, credentials, tokens, authorization headers, credentials in URLs, and JSON objects in texts are replaced by\n\
         [redacted]. Logs and errors are free text: read them before you publish the bundle."
    };
    let names = if options.anonymise.is_some() {
        "Names of objects, namespaces, accounts, plugins and machines are replaced by hashes with a key that was discarded. The same name\n\
         has the same hash in all files."
    } else {
        "Names of objects, namespaces, accounts, plugins and machines are not replaced; `--anonymise` does that."
    };
    format!(
        "A support bundle of Pilothouse.\n\n{redaction}\n{names}\n\nleft-out.txt lists what is missing, and why.\n"
    )
}

fn left_out_text(left_out: &[LeftOut], options: &BundleOptions) -> String {
    let mut text = String::new();
    if !options.unredacted {
        text += "values of `config` in sidecars, and unknown members: they may be secrets; `--unredacted` includes them\n\
                 comments in configuration files: they may contain secrets\n";
    }
    text += "the kubeconfig, and contents of objects: a bundle never contains them\n\
             environment variables other than PILOTHOUSE_*: a bundle never contains them\n";
    for LeftOut { what, reason } in left_out.iter().take(MAX_LEFT_OUT) {
        let line: String = format!("{what}: {reason}").chars().take(MAX_LEFT_OUT_LINE).collect();
        text += &line.replace('\n', " ");
        text.push('\n');
    }
    if left_out.len() > MAX_LEFT_OUT {
        text += &format!("and {} more\n", left_out.len() - MAX_LEFT_OUT);
    }
    text
}

/// The maximum number of lines about single files.
const MAX_LEFT_OUT: usize = 500;
/// The maximum length of such a line in characters.
const MAX_LEFT_OUT_LINE: usize = 250;

/// Returns the keys that failed, or that have been processed for a minute or longer, of the response of `/api/plugins/NAME/keys`.
pub(crate) fn stuck_keys(keys: &Value) -> Vec<Value> {
    const LONG_MILLISECONDS: u64 = 60_000;
    let is_stuck = |key: &&Value| {
        let is_slow = key["state"] == "processing" && key["milliseconds"].as_u64() >= Some(LONG_MILLISECONDS);
        is_slow || key["attempts"].as_u64() > Some(0)
    };
    keys["keys"].as_array().into_iter().flatten().filter(is_stuck).cloned().collect()
}
