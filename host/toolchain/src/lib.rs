//! The guest languages, and how to find or install a Rust toolchain that builds guests. Used by `pilothouse build` and by
//! `cargo xtask build-guests`.
//!
//! docs/decisions/0002-building-guests.md lists the ways to get a toolchain and their order. All functions block.

mod environment;
mod language;
mod machine;
mod plan;

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

pub use environment::clean_command;
pub use language::{Language, WAT, WITH_BUILD_COMMAND, acceptance_implementations};
pub use plan::TARGET;

use plan::{Attempt, Facts, Step};

/// What [`Toolchain::find`] may install.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstallPolicy {
    /// The target, by `rustup target add`.
    RustupTarget,
    /// The target, and Debian packages if this process is root.
    DebianPackages,
}

/// A toolchain that builds for [`TARGET`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Toolchain {
    /// The active toolchain, which has a compiled std for the target.
    Installed,
    /// The distribution's toolchain, which compiles std from source.
    BuildStd {
        /// The linker: rustup's `rust-lld` or LLVM's `wasm-ld`.
        linker: PathBuf,
    },
}

/// The error if there is no toolchain: what was tried, and which commands help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoToolchain(String);

impl fmt::Display for NoToolchain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NoToolchain {}

impl Toolchain {
    /// Finds a toolchain, and installs what is missing as far as `policy` allows. `directory` is where cargo will run; rustup selects the
    /// toolchain by it. Each installation is announced through `report`, as is its failure.
    ///
    /// # Errors
    /// If there is no toolchain and none can be installed.
    pub fn find(
        directory: &Path,
        policy: InstallPolicy,
        report: &mut dyn FnMut(&str),
    ) -> Result<Self, NoToolchain> {
        let mut target_add = Attempt::NotMade;
        let mut package_install = Attempt::NotMade;
        loop {
            let facts = Facts {
                target_add: target_add.clone(),
                package_install: package_install.clone(),
                may_install: policy == InstallPolicy::DebianPackages,
                ..machine::probe(directory)
            };
            match plan::next(&facts) {
                Step::UseInstalledTarget => return Ok(Self::Installed),
                Step::BuildStd { linker } => return Ok(Self::BuildStd { linker }),
                Step::GiveUp(explanation) => return Err(NoToolchain(explanation)),
                Step::AddTarget => {
                    report(&format!("no std for {TARGET} is installed; running rustup target add {TARGET}"));
                    target_add = failed_attempt(machine::add_target(directory), "rustup", report);
                }
                Step::InstallPackages(packages) => {
                    let packages_text = packages.join(" ");
                    report(&format!("installing Debian packages: apt-get install -y {packages_text}"));
                    package_install =
                        failed_attempt(machine::install_packages(directory, &packages), "apt-get", report);
                }
            }
        }
    }

    /// Returns a description for the user.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Installed => format!("the installed target {TARGET}"),
            Self::BuildStd { linker } => {
                format!("/usr/bin/cargo, which compiles std first (linker {})", linker.display())
            }
        }
    }

    /// Creates a cargo command in this directory, without the variables of an outer cargo. The caller adds the subcommand and its arguments.
    #[must_use]
    pub fn cargo(&self, directory: &Path) -> Command {
        match self {
            Self::Installed => clean_command("cargo", directory),
            Self::BuildStd { linker } => {
                let mut command = clean_command("/usr/bin/cargo", directory);
                let path = std::env::var_os("PATH").unwrap_or_default();
                let directories = [PathBuf::from("/usr/bin")].into_iter().chain(std::env::split_paths(&path));
                if let Ok(path) = std::env::join_paths(directories) {
                    command.env("PATH", path);
                }
                command.env("RUSTC", "/usr/bin/rustc").env("RUSTC_BOOTSTRAP", "1");
                command.env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", linker);
                command.arg("-Zbuild-std=std,panic_abort");
                command
            }
        }
    }
}

/// Records an attempt as failed even if the command succeeded, so that it is not repeated. This only matters if the machine is probed again
/// and still lacks what the command should have installed.
fn failed_attempt(result: Result<(), String>, program: &str, report: &mut dyn FnMut(&str)) -> Attempt {
    match result {
        Ok(()) => Attempt::Failed(format!("{program} reported success, but did not install what is needed")),
        Err(error) => {
            report(&format!("{program} failed: {error}"));
            Attempt::Failed(error)
        }
    }
}
