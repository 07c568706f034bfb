//! Pushes, pulls and verifies single plugins.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use pilothouse_registry::{
    Artifact, Cache, Decision, Layout, ManifestDocument, Reference, RegistryClient, RegistryError,
    SignaturePolicy, collect_signatures, fetch,
};

use super::access::{client, command_error, reference, within};
use crate::cli::registry::{Pull, Push, PushLayout, RegistryFlags, Verify};
use crate::{CommandError, CommandResult, output};

/// The largest plugin that is pushed, in bytes. A host pulls none that is larger.
const MAX_SIZE: u64 = 256 << 20;

pub(super) async fn push(flags: Push) -> CommandResult {
    let reference = reference(&flags.reference)?;
    let wasm = read_plugin(&flags.file)?;
    let layout = match flags.layout {
        PushLayout::Cncf => Layout::Cncf,
        PushLayout::Legacy => Layout::Legacy,
    };
    let artifact = Artifact::of(&wasm, layout)
        .map_err(|error| command_error(&error.in_context(flags.file.display())))?;
    let client = client(&reference, &flags.registry)?;
    let digest = within(client.push(&reference, &artifact, wasm.into())).await?;
    output::print_line(format_args!("pushed  {reference}"));
    output::print_line(format_args!("digest  {}", reference.pinned(digest)));
    Ok(())
}

pub(super) async fn pull(flags: Pull) -> CommandResult {
    let reference = reference(&flags.reference)?;
    let policy = read_policy(flags.policy.as_deref())?;
    let target = flags.output.clone().unwrap_or_else(|| default_file(&reference));
    if flags.output.is_none() && target.exists() {
        return Err(CommandError::Usage(format!(
            "{} exists; name the file to write with --output",
            target.display()
        )));
    }
    let client = client(&reference, &flags.registry)?;
    let folder = temporary_folder()?;
    let (wasm, document, decision) =
        within(download(&client, &reference, policy.as_ref(), folder.path())).await?;
    write_whole(&target, &wasm)?;
    output::print_line(format_args!("pulled  {}", reference.pinned(document.digest)));
    output::print_line(format_args!("file    {}", target.display()));
    output::print_line(format_args!("verify  {decision}"));
    Ok(())
}

pub(super) async fn verify(flags: Verify) -> CommandResult {
    let reference = reference(&flags.reference)?;
    let policy = read_policy(Some(&flags.policy))?;
    let client = client(&reference, &flags.registry)?;
    let (document, decision) = within(resolve(&client, &reference, policy.as_ref())).await?;
    output::print_line(format_args!("plugin  {}", reference.pinned(document.digest)));
    output::print_line(format_args!("verify  {decision}"));
    Ok(())
}

/// A pulled plugin in a directory that is removed with this value.
pub(crate) struct TemporaryPlugin {
    _folder: tempfile::TempDir,
    pub(crate) file: PathBuf,
}

/// Pulls the plugin that `check` names.
pub(crate) async fn pull_for_check(
    argument: &Path,
    flags: &RegistryFlags,
) -> Result<TemporaryPlugin, CommandError> {
    let reference = reference(argument.to_str().unwrap_or_default())?;
    let client = client(&reference, flags)?;
    let folder = temporary_folder()?;
    let (wasm, ..) = within(download(&client, &reference, None, folder.path())).await?;
    let file = folder.path().join(default_file(&reference));
    write_whole(&file, &wasm)?;
    Ok(TemporaryPlugin { _folder: folder, file })
}

/// Resolves a reference, and judges its signatures.
pub(super) async fn resolve(
    client: &RegistryClient,
    reference: &Reference,
    policy: Option<&SignaturePolicy>,
) -> Result<(ManifestDocument, Decision), RegistryError> {
    let document = client.manifest(reference).await?;
    let signatures = match policy {
        Some(policy) if !policy.allows_unsigned(reference) => {
            collect_signatures(client, policy, reference, &document).await?
        }
        _ => Vec::new(),
    };
    let decision = pilothouse_registry::verify(policy, reference, &document, &signatures)?;
    Ok((document, decision))
}

/// Verifies a plugin, and downloads it by its digest. `folder` is for what is downloaded.
#[expect(clippy::disallowed_methods, reason = "files have times of the system clock")]
pub(super) async fn download(
    client: &RegistryClient,
    reference: &Reference,
    policy: Option<&SignaturePolicy>,
    folder: &Path,
) -> Result<(Vec<u8>, ManifestDocument, Decision), RegistryError> {
    let (document, decision) = resolve(client, reference, policy).await?;
    let cache = Cache::open(&folder.join("cache"), SystemTime::now())?;
    let plugin = fetch(client, &cache, reference, &document).await?;
    let wasm = plugin.wasm(&cache, client.limits().artifact, &reference.to_string())?;
    Ok((wasm, document, decision))
}

fn read_policy(path: Option<&Path>) -> Result<Option<SignaturePolicy>, CommandError> {
    path.map(SignaturePolicy::read).transpose().map_err(|error| command_error(&error))
}

/// The file of a plugin in the current directory: the last part of its repository.
fn default_file(reference: &Reference) -> PathBuf {
    let name = reference.repository().rsplit('/').next().unwrap_or_default();
    PathBuf::from(format!("{}.wasm", name.replace(['.', '_'], "-")))
}

fn read_plugin(path: &Path) -> Result<Vec<u8>, CommandError> {
    let failed = |problem: String| {
        CommandError::Usage(format!("{}: {problem}; give the path of a .wasm file", path.display()))
    };
    let metadata = fs::metadata(path).map_err(|error| failed(error.to_string()))?;
    if !metadata.is_file() {
        return Err(failed("it is not a regular file".to_owned()));
    }
    if metadata.len() > MAX_SIZE {
        return Err(failed(format!("it has more than {} MiB", MAX_SIZE >> 20)));
    }
    fs::read(path).map_err(|error| failed(error.to_string()))
}

/// Writes a file beside the target and renames it, so that a host that watches the directory never sees a part of it.
pub(super) fn write_whole(target: &Path, content: &[u8]) -> CommandResult {
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let written = || -> io::Result<()> {
        let mut builder = tempfile::Builder::new();
        builder.prefix(".pilothouse-");
        // A plugin is no secret, and a host may run as another user. The umask applies.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let mut file = builder.tempfile_in(folder)?;
        file.write_all(content)?;
        file.persist(target).map_err(io::Error::from)?;
        Ok(())
    };
    written().map_err(|error| {
        CommandError::Failure(format!(
            "cannot write {}: {error}; name another file with --output",
            target.display()
        ))
    })
}

pub(super) fn temporary_folder() -> Result<tempfile::TempDir, CommandError> {
    tempfile::tempdir().map_err(|error| {
        CommandError::Failure(format!("cannot create a temporary directory: {error}; set TMPDIR"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pulled_file_can_name_a_plugin() {
        let file = |text: &str| default_file(&text.parse().expect("a reference"));
        assert_eq!(file("r.example/team/greeter:1"), PathBuf::from("greeter.wasm"));
        assert_eq!(file("r.example/my_plugin.v2:1"), PathBuf::from("my-plugin-v2.wasm"));
    }

    #[test]
    fn a_file_is_written_as_a_whole_or_not_at_all() {
        let folder = tempfile::tempdir().expect("a folder");
        let target = folder.path().join("a.wasm");
        write_whole(&target, b"one").expect("written");
        write_whole(&target, b"two").expect("replaced");
        assert_eq!(fs::read(&target).expect("a file"), b"two");
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
        assert!(write_whole(&folder.path().join("absent/a.wasm"), b"x").is_err());
    }
}
