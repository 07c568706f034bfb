//! Clients of registries for the command line.

use std::path::{Path, PathBuf};
use std::time::Duration;

use pilothouse_registry::{
    ClientOptions, Problem, Reference, RegistryClient, RegistryError, SCHEME, Tls, credentials,
};
use tokio::time::timeout;

use crate::CommandError;
use crate::cli::registry::RegistryFlags;

/// The time limit of a command. A registry that sends a byte now and then would take longer.
const LONGEST: Duration = Duration::from_secs(1800);

/// Whether an argument that may also be a file names an artifact in a registry: it begins with `oci://`, or is
/// a reference without that, and there is no such file.
pub(crate) fn is_reference(argument: &Path) -> bool {
    argument.to_str().is_some_and(|text| {
        text.starts_with(SCHEME) || text.parse::<Reference>().is_ok() && !argument.exists()
    })
}

/// Parses a reference, with or without `oci://`.
pub(super) fn reference(text: &str) -> Result<Reference, CommandError> {
    text.parse::<Reference>().map_err(|error| command_error(&error))
}

/// Creates a client of the reference's registry.
pub(super) fn client(reference: &Reference, flags: &RegistryFlags) -> Result<RegistryClient, CommandError> {
    let file = flags.credentials.clone().or_else(docker_config);
    let credentials =
        credentials(file.as_deref(), reference.registry()).map_err(|error| command_error(&error))?;
    let tls = Tls::new(flags.certificate_authority.as_deref()).map_err(|error| command_error(&error))?;
    let options = ClientOptions {
        plain_http: flags.plain_http,
        trusted_hosts: flags.trusted_host.clone(),
        ..ClientOptions::default()
    };
    RegistryClient::new(reference, tls, credentials, options).map_err(|error| command_error(&error))
}

/// Returns the file that docker reads, if it exists.
fn docker_config() -> Option<PathBuf> {
    let folder = std::env::var_os("DOCKER_CONFIG").map(PathBuf::from);
    let folder = folder.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".docker")))?;
    Some(folder.join("config.json")).filter(|file| file.is_file())
}

/// Waits for work with a registry, but not for ever.
pub(super) async fn within<T>(
    work: impl Future<Output = Result<T, RegistryError>>,
) -> Result<T, CommandError> {
    match timeout(LONGEST, work).await {
        Ok(result) => result.map_err(|error| command_error(&error)),
        Err(_) => Err(CommandError::Failure(format!(
            "the registry did not finish within {} minutes; try again",
            LONGEST.as_secs() / 60
        ))),
    }
}

pub(super) fn command_error(error: &RegistryError) -> CommandError {
    match error.problem() {
        Problem::Invalid => CommandError::Usage(error.to_string()),
        _ => CommandError::Failure(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_may_begin_with_its_scheme() {
        for text in ["oci://r.example/a:1", "r.example/a:1", "localhost:5000/t/a:1"] {
            assert!(is_reference(Path::new(text)), "{text}");
            assert!(
                reference(text).is_ok_and(|reference| reference.to_string().starts_with(SCHEME)),
                "{text}"
            );
        }
        for text in ["oci://r.example/a", "r.example/a", "a.wasm", "https://r.example/a:1"] {
            assert!(matches!(reference(text), Err(CommandError::Usage(_))), "{text}");
        }
    }

    #[test]
    fn a_path_is_no_reference() {
        for text in ["a.wasm", "plugins/a.wasm", "./a.b/a.wasm", "../x/a:1", "/tmp/a.b/c:1", "a.b/c"] {
            assert!(!is_reference(Path::new(text)), "{text}");
        }
        let folder = tempfile::tempdir().expect("a folder");
        assert!(!is_reference(folder.path()), "it exists");
        assert!(is_reference(Path::new("oci://absent")), "its error is that of a reference");
    }
}
