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
pub use language::{Language, WAT, acceptance_implementations};
pub use plan::TARGET;

use plan::{Attempt, Facts, Step};

/// What a search may do to the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    /// Ask rustup for the target.
    Rustup,
    /// Also install Debian packages, where this process is root.
    Packages,
}

/// A way to build for [`TARGET`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Toolchain {
    /// The active toolchain has a compiled std.
    Installed,
    /// The distribution's compiler builds std itself, with this linker.
    BuildStd {
        /// rustup's `rust-lld`, or LLVM's `wasm-ld`.
        linker: PathBuf,
    },
}

/// Why there is no toolchain: what was tried, and what to type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoToolchain(String);

impl fmt::Display for NoToolchain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NoToolchain {}

impl Toolchain {
    /// Takes one step after another until a toolchain is there or no way is left. `directory` is where cargo will run:
    /// rustup chooses its toolchain by it. Told of each change to the machine, before and after, through `say`.
    ///
    /// # Errors
    /// What was tried and what to type.
    pub fn find(
        directory: &Path,
        permission: Permission,
        say: &mut dyn FnMut(&str),
    ) -> Result<Self, NoToolchain> {
        let mut target_add = Attempt::NotMade;
        let mut package_install = Attempt::NotMade;
        loop {
            let facts = Facts {
                target_add: target_add.clone(),
                package_install: package_install.clone(),
                may_install: permission == Permission::Packages,
                ..machine::probe(directory)
            };
            match plan::next(&facts) {
                Step::UseInstalledTarget => return Ok(Self::Installed),
                Step::BuildStd { linker } => return Ok(Self::BuildStd { linker }),
                Step::GiveUp(explanation) => return Err(NoToolchain(explanation)),
                Step::AddTarget => {
                    say(&format!("no std for {TARGET} yet; asking rustup: rustup target add {TARGET}"));
                    target_add = attempted(machine::add_target(directory), "rustup", say);
                }
                Step::InstallPackages(packages) => {
                    let packages_text = packages.join(" ");
                    say(&format!("installing Debian packages: apt-get install -y {packages_text}"));
                    package_install =
                        attempted(machine::install_packages(directory, &packages), "apt-get", say);
                }
            }
        }
    }

    /// What it is, for a person.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Installed => format!("the installed target {TARGET}"),
            Self::BuildStd { linker } => {
                format!("/usr/bin/cargo, which builds std first (linker {})", linker.display())
            }
        }
    }

    /// Cargo in that directory, without the variables of an outer cargo. The subcommand and its arguments come next.
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

/// An attempt is over either way: if it left nothing usable behind, it must not be made again.
fn attempted(result: Result<(), String>, program: &str, say: &mut dyn FnMut(&str)) -> Attempt {
    match result {
        Ok(()) => Attempt::Failed(format!("{program} said that it succeeded, but nothing usable is there")),
        Err(error) => {
            say(&format!("{program} could not: {error}"));
            Attempt::Failed(error)
        }
    }
}
