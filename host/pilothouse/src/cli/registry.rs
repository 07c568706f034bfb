//! The commands for plugins in OCI registries, and the flags that `check` shares with them.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

#[derive(Debug, Subcommand)]
pub(crate) enum RegistryCommand {
    /// Push a plugin to an OCI registry.
    Push(Push),
    /// Pull a plugin from an OCI registry.
    Pull(Pull),
    /// Verify the signatures of a plugin in an OCI registry.
    Verify(Verify),
}

/// How a plugin is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PushLayout {
    /// The CNCF's layout for WebAssembly.
    Cncf,
    /// A layout for registries that refuse the CNCF's, such as GitLab's.
    Legacy,
}

#[derive(Debug, Args)]
pub(crate) struct Push {
    /// Plugin to push.
    #[arg(value_name = "FILE.wasm")]
    pub(crate) file: PathBuf,
    /// Where to push it: oci://REGISTRY/REPOSITORY:TAG. oci:// may be left out.
    pub(crate) reference: String,
    /// Layout of the artifact.
    #[arg(long, env = "PILOTHOUSE_LAYOUT", value_enum, default_value = "cncf")]
    pub(crate) layout: PushLayout,
    #[command(flatten)]
    pub(crate) registry: RegistryFlags,
}

#[derive(Debug, Args)]
pub(crate) struct Pull {
    /// What to pull: oci://REGISTRY/REPOSITORY:TAG or oci://REGISTRY/REPOSITORY@sha256:DIGEST. oci:// may be left out.
    pub(crate) reference: String,
    /// File to write. By default, the last part of REPOSITORY with the extension .wasm, which must not exist.
    #[arg(long, short, env = "PILOTHOUSE_OUTPUT", value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Signature policy (YAML) that the plugin has to satisfy. Without one, signatures are not verified.
    #[arg(long, env = "PILOTHOUSE_POLICY", value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) registry: RegistryFlags,
}

#[derive(Debug, Args)]
pub(crate) struct Verify {
    /// What to verify: oci://REGISTRY/REPOSITORY:TAG or oci://REGISTRY/REPOSITORY@sha256:DIGEST. oci:// may be left out.
    pub(crate) reference: String,
    /// Signature policy (YAML) that the plugin has to satisfy.
    #[arg(long, env = "PILOTHOUSE_POLICY", value_name = "FILE")]
    pub(crate) policy: PathBuf,
    #[command(flatten)]
    pub(crate) registry: RegistryFlags,
}

/// How registries are reached.
#[derive(Debug, Args)]
pub(crate) struct RegistryFlags {
    /// Docker config.json with the credentials for registries. By default, the one that docker would use.
    #[arg(long, env = "PILOTHOUSE_CREDENTIALS", value_name = "FILE")]
    pub(crate) credentials: Option<PathBuf>,
    /// PEM file with the certificates of private authorities.
    #[arg(long, env = "PILOTHOUSE_CERTIFICATE_AUTHORITY", value_name = "FILE")]
    pub(crate) certificate_authority: Option<PathBuf>,
    /// Comma-separated hosts, as HOST or HOST:PORT, to which the registry may refer although their addresses are private.
    #[arg(long, env = "PILOTHOUSE_TRUSTED_HOST", value_name = "HOSTS", value_delimiter = ',')]
    pub(crate) trusted_host: Vec<String>,
    /// Contact the registry without TLS.
    #[arg(long, env = "PILOTHOUSE_PLAIN_HTTP")]
    pub(crate) plain_http: bool,
}
