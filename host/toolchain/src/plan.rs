//! Decides how to get a toolchain: a pure function of what was found on the machine.
//!
//! The order is that of docs/decisions/0002-building-guests.md: an installed target is used without a download, rustup comes before the
//! distribution, and packages are installed last.

use std::path::PathBuf;

/// The target of all guests.
pub const TARGET: &str = "wasm32-unknown-unknown";

/// The oldest compiler that builds guests (`rust-version` in examples/Cargo.toml).
pub(crate) const MINIMUM_RUST: (u32, u32) = (1, 95);

/// The Debian packages of the compiler, its cargo and the sources of std.
pub(crate) const DEBIAN_PACKAGES: [&str; 3] = ["rustc-web", "cargo-web", "rust-web-src"];

/// An attempt to install something.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) enum Attempt {
    #[default]
    NotMade,
    /// With a summary of the command's error output.
    Failed(String),
}

/// What was found on the machine. It is probed again after each step that changes it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    /// Whether the sysroot of the active toolchain has a compiled std for [`TARGET`].
    pub target_installed: bool,
    /// Whether the active toolchain is one of rustup's.
    pub rustup: bool,
    /// `rustup target add` in this run.
    pub target_add: Attempt,
    /// The version of `/usr/bin/rustc`, if `/usr/bin/cargo` is there too.
    pub system_rust: Option<(u32, u32)>,
    /// Whether the sysroot of `/usr/bin/rustc` has the sources of std.
    pub system_std_sources: bool,
    /// A linker for wasm: rustup's `rust-lld` or LLVM's `wasm-ld`.
    pub wasm_linker: Option<PathBuf>,
    /// Whether `apt-get` is installed.
    pub debian: bool,
    /// Whether this process is root and so can install packages.
    pub root: bool,
    /// Whether the caller allows the installation of packages.
    pub may_install: bool,
    /// `apt-get install` in this run.
    pub package_install: Attempt,
}

/// The next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Build with the toolchain as it is.
    UseInstalledTarget,
    /// Run `rustup target add`, then decide again.
    AddTarget,
    /// Install these packages, then decide again.
    InstallPackages(Vec<&'static str>),
    /// Build with `/usr/bin/cargo`, which compiles std from source.
    BuildStd { linker: PathBuf },
    /// There is no alternative left. The text says what was tried and which commands help.
    GiveUp(String),
}

/// Returns the next step. Repeated calls end in a build or in [`Step::GiveUp`], because each step that changes the machine is taken at most
/// once.
pub(crate) fn next(facts: &Facts) -> Step {
    if facts.target_installed {
        return Step::UseInstalledTarget;
    }
    if facts.rustup && facts.target_add == Attempt::NotMade {
        return Step::AddTarget;
    }
    let missing = missing_packages(facts);
    match &facts.wasm_linker {
        Some(linker) if missing.is_empty() => Step::BuildStd { linker: linker.clone() },
        _ if facts.debian && facts.root && facts.may_install && facts.package_install == Attempt::NotMade => {
            Step::InstallPackages(missing)
        }
        _ => Step::GiveUp(explain(facts)),
    }
}

fn missing_packages(facts: &Facts) -> Vec<&'static str> {
    let mut packages = Vec::new();
    let compiler = facts.system_rust.is_some_and(|version| version >= MINIMUM_RUST);
    if !compiler || !facts.system_std_sources {
        packages.extend(DEBIAN_PACKAGES);
    }
    if facts.wasm_linker.is_none() {
        packages.push("lld");
    }
    packages
}

fn explain(facts: &Facts) -> String {
    let mut tried = Vec::new();
    let mut remedies = Vec::new();
    if facts.rustup {
        if let Attempt::Failed(error) = &facts.target_add {
            tried.push(format!("`rustup target add {TARGET}` failed: {error}"));
        }
        remedies.push(format!("with a network that rustup can use: rustup target add {TARGET}"));
    } else {
        tried.push(format!("the active toolchain has no std for {TARGET}, and is not one of rustup's"));
        remedies.push(format!("install rustup (https://rustup.rs), then: rustup target add {TARGET}"));
    }
    if facts.debian {
        let packages = missing_packages(facts).join(" ");
        match (&facts.package_install, facts.system_rust) {
            (Attempt::Failed(error), _) => {
                tried.push(format!("`apt-get install {packages}` failed: {error}"));
            }
            (_, Some((major, minor))) if (major, minor) < MINIMUM_RUST => tried.push(format!(
                "/usr/bin/rustc is {major}.{minor}, and {}.{} is needed",
                MINIMUM_RUST.0, MINIMUM_RUST.1
            )),
            _ if !facts.may_install => tried.push(format!("not installed: {packages}")),
            _ if !facts.root => tried.push("installing packages needs root".to_owned()),
            _ => tried.push(format!("still missing after the installation: {packages}")),
        }
        remedies.push(format!(
            "from Debian (with the security archive of the release): sudo apt-get update && \
             sudo apt-get install -y --no-install-recommends {packages}"
        ));
    } else {
        tried.push("this is not a Debian system, so there are no packages to fall back to".to_owned());
    }
    format!(
        "no Rust toolchain for {TARGET}\n\
         What was tried:\n  - {}\nRun one of these, then the same command again:\n  - {}",
        tried.join("\n  - "),
        remedies.join("\n  - ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rustup_machine() -> Facts {
        Facts { rustup: true, wasm_linker: Some("/sysroot/rust-lld".into()), ..Facts::default() }
    }

    fn offline_debian() -> Facts {
        Facts {
            target_add: Attempt::Failed("could not download".into()),
            debian: true,
            root: true,
            may_install: true,
            ..rustup_machine()
        }
    }

    #[test]
    fn an_installed_target_is_used_without_any_installation() {
        let facts = Facts { target_installed: true, ..offline_debian() };
        assert_eq!(next(&facts), Step::UseInstalledTarget);
    }

    #[test]
    fn rustup_is_tried_before_installed_packages() {
        let facts = Facts {
            target_add: Attempt::NotMade,
            system_rust: Some((1, 96)),
            system_std_sources: true,
            ..offline_debian()
        };
        assert_eq!(next(&facts), Step::AddTarget);
    }

    #[test]
    fn without_a_download_the_packages_are_installed_once_and_then_std_is_built() {
        let mut facts = offline_debian();
        assert_eq!(next(&facts), Step::InstallPackages(DEBIAN_PACKAGES.to_vec()));
        facts.system_rust = Some((1, 96));
        facts.system_std_sources = true;
        assert_eq!(next(&facts), Step::BuildStd { linker: "/sysroot/rust-lld".into() });
    }

    #[test]
    fn installed_packages_need_no_root() {
        let facts =
            Facts { root: false, system_rust: Some((1, 96)), system_std_sources: true, ..offline_debian() };
        assert_eq!(next(&facts), Step::BuildStd { linker: "/sysroot/rust-lld".into() });
    }

    #[test]
    fn a_missing_linker_is_a_missing_package() {
        let facts = Facts {
            wasm_linker: None,
            system_rust: Some((1, 96)),
            system_std_sources: true,
            ..offline_debian()
        };
        assert_eq!(next(&facts), Step::InstallPackages(vec!["lld"]));
    }

    #[test]
    fn an_old_distribution_compiler_is_not_used() {
        let facts = Facts { system_rust: Some((1, 85)), system_std_sources: true, ..offline_debian() };
        assert_eq!(next(&facts), Step::InstallPackages(DEBIAN_PACKAGES.to_vec()));
    }

    fn reason(facts: &Facts) -> String {
        match next(facts) {
            Step::GiveUp(text) => text,
            step => panic!("expected to give up, got {step:?}"),
        }
    }

    #[test]
    fn giving_up_names_what_failed_and_which_commands_help() {
        let text =
            reason(&Facts { package_install: Attempt::Failed("no such package".into()), ..offline_debian() });
        assert!(
            text.contains("`rustup target add wasm32-unknown-unknown` failed: could not download"),
            "{text}"
        );
        assert!(
            text.contains("`apt-get install rustc-web cargo-web rust-web-src` failed: no such package"),
            "{text}"
        );
        assert!(text.contains("sudo apt-get install -y --no-install-recommends rustc-web"), "{text}");
    }

    #[test]
    fn giving_up_without_root_says_so() {
        let text = reason(&Facts { root: false, ..offline_debian() });
        assert!(text.contains("installing packages needs root"), "{text}");
    }

    #[test]
    fn packages_are_not_installed_unasked() {
        let text = reason(&Facts { may_install: false, ..offline_debian() });
        assert!(text.contains("not installed: rustc-web"), "{text}");
        assert!(text.contains("sudo apt-get install -y --no-install-recommends rustc-web"), "{text}");
    }

    #[test]
    fn giving_up_with_an_old_compiler_names_the_needed_version() {
        let text = reason(&Facts {
            system_rust: Some((1, 85)),
            system_std_sources: true,
            root: false,
            ..offline_debian()
        });
        assert!(text.contains("/usr/bin/rustc is 1.85, and 1.95 is needed"), "{text}");
    }

    #[test]
    fn without_rustup_and_debian_the_remedy_is_rustup() {
        let text = reason(&Facts::default());
        assert!(text.contains("https://rustup.rs"), "{text}");
        assert!(!text.contains("apt-get"), "{text}");
    }
}
