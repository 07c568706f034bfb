//! Builds the program for delivery: static on Linux, without debug lines, without paths of this machine.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, Result, ensure};

use super::elf;
use super::metadata::PACKAGE;
use crate::{cargo, host, release};

/// Which Cargo features the program has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variant {
    /// All features.
    Full,
    /// What running plugins needs: no embedded API server, no templates, no builders.
    Small,
}

impl Variant {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Small => "small",
        }
    }

    /// Returns how the crates are optimised together: `fat` makes the program smaller, and its build longer.
    fn link_time_optimization(self) -> &'static str {
        match self {
            Self::Full => "thin",
            Self::Small => "fat",
        }
    }

    /// Returns cargo's arguments that optimise some crates for size instead of speed.
    fn optimization_arguments(self, profile: &str) -> Vec<String> {
        let crates = match self {
            Self::Full => &[][..],
            Self::Small => &SMALLER_CRATES,
        };
        let setting = |name| format!("--config=profile.{profile}.package.{name}.opt-level=\"s\"");
        crates.iter().map(setting).collect()
    }

    /// Returns cargo's arguments that select the features.
    pub(super) fn feature_arguments(self) -> &'static [&'static str] {
        match self {
            Self::Full => &[],
            Self::Small => {
                &["--no-default-features", "--features", "compressed-cache,jemalloc,registry,traces"]
            }
        }
    }
}

/// Crates that are optimised for size in the small program: those that compile plugins, which happens once for each digest, and HTTP/2, which
/// the host does not speak with the API server.
const SMALLER_CRATES: [&str; 13] = [
    "cranelift-assembler-x64",
    "cranelift-bforest",
    "cranelift-bitset",
    "cranelift-codegen",
    "cranelift-control",
    "cranelift-entity",
    "cranelift-frontend",
    "h2",
    "regalloc2",
    "wasmparser",
    "wasmtime-environ",
    "wasmtime-internal-component-util",
    "wasmtime-internal-cranelift",
];

/// A program for delivery.
pub(super) struct Built {
    pub(super) program: PathBuf,
    /// The file with the debug lines. `None` where they are not separated.
    pub(super) debug_lines: Option<PathBuf>,
}

/// The compiler of this machine.
pub(super) struct Compiler {
    /// The platform that it builds for.
    pub(super) target: String,
    pub(super) version: String,
}

impl Compiler {
    /// Asks rustc.
    ///
    /// # Errors
    /// Errors if rustc does not run.
    pub(super) fn find(root: &Path) -> Result<Self> {
        let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let output = Command::new(rustc).current_dir(root).arg("-vV").output().context("run rustc -vV")?;
        let text = String::from_utf8(output.stdout).context("the output of rustc -vV is not UTF-8")?;
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.map(str::to_owned).with_context(|| format!("rustc -vV has no line {name}"))
        };
        Ok(Self { target: field("host: ")?, version: field("release: ")? })
    }

    /// Whether the programs are for Linux.
    pub(super) fn is_for_linux(&self) -> bool {
        self.target.contains("-linux-")
    }
}

/// Builds `pilothouse` for this machine's platform in a target directory, and copies it to `delivery` there.
///
/// # Errors
/// Errors if a tool is missing, the build fails, or the result does not start or needs shared libraries on Linux.
pub(super) fn build(
    root: &Path,
    target_folder: &Path,
    compiler: &Compiler,
    variant: Variant,
) -> Result<Built> {
    host::require_make()?;
    println!("delivery: building pilothouse ({}) for {}", variant.name(), compiler.target);
    let profile = if compiler.is_for_linux() { "dist" } else { "release" };
    let mut command = cargo::cargo();
    command
        .current_dir(root)
        .args(["build", "--locked", "--profile", profile, "--package", PACKAGE, "--target", &compiler.target])
        .args(variant.feature_arguments())
        .args(variant.optimization_arguments(profile))
        .arg("--target-dir")
        .arg(target_folder)
        .env("CARGO_INCREMENTAL", "0")
        .env(format!("CARGO_PROFILE_{}_LTO", profile.to_uppercase()), variant.link_time_optimization());
    let folders = Folders { cargo: cargo_home()?, root: root.to_owned(), target: target_folder.to_owned() };
    if compiler.is_for_linux() {
        require_static_libc()?;
        // With `--target`, the flags do not reach build scripts and procedural macros. Those are loaded by rustc and cannot be static.
        command.env("CARGO_ENCODED_RUSTFLAGS", folders.rust_flags()?);
        command.env(format!("CFLAGS_{}", compiler.target.replace('-', "_")), folders.c_flags()?);
    }
    let built = host::find_executable(&host::run_cargo_json(&mut command)?, PACKAGE)?;
    let output = target_folder.join("delivery").join(variant.name());
    fs::create_dir_all(&output).with_context(|| format!("create {}", output.display()))?;
    let program = output.join(PACKAGE);
    if !compiler.is_for_linux() {
        fs::copy(&built, &program).with_context(|| format!("copy {}", built.display()))?;
        require_that_it_starts(&program)?;
        return Ok(Built { program, debug_lines: None });
    }
    let debug_lines = release::separate_debug_lines(&built, &program)?;
    let bytes = fs::read(&program).with_context(|| format!("read {}", program.display()))?;
    ensure!(
        elf::is_static(&bytes)?,
        "{} needs a dynamic loader: the linker ignored crt-static",
        program.display()
    );
    require_that_it_starts(&program)?;
    Ok(Built { program, debug_lines: Some(debug_lines) })
}

/// Errors if the program cannot print its version, for example because the allocator does not work in a static program.
fn require_that_it_starts(program: &Path) -> Result<()> {
    let output = Command::new(program).arg("--version").output();
    let output = output.with_context(|| format!("start {}", program.display()))?;
    ensure!(
        output.status.success(),
        "{} --version: {}: {}",
        program.display(),
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

/// Folders of this machine whose paths compilers write into programs, for messages and debug lines.
struct Folders {
    cargo: PathBuf,
    root: PathBuf,
    target: PathBuf,
}

impl Folders {
    /// Returns each folder with the name that replaces it. Compilers apply the last one that matches, so the target directory, which may be
    /// within the root, comes last.
    fn replacements(&self) -> Result<[String; 3]> {
        let replacement = |folder: &Path, name: &str| {
            let folder = folder.to_str().with_context(|| format!("{} is not UTF-8", folder.display()))?;
            ensure!(
                !folder.contains(char::is_whitespace) && !folder.contains('='),
                "cannot build reproducibly in {folder}: compilers cannot replace a path with spaces or '='; move the folder"
            );
            Ok(format!("{folder}={name}"))
        };
        Ok([
            replacement(&self.cargo, "/cargo")?,
            replacement(&self.root, "/pilothouse")?,
            replacement(&self.target, "/target")?,
        ])
    }

    /// Returns the flags of rustc, as cargo reads them.
    fn rust_flags(&self) -> Result<String> {
        let paths = self.replacements()?.map(|replacement| format!("--remap-path-prefix={replacement}"));
        Ok(format!("-Ctarget-feature=+crt-static\u{1f}{}", paths.join("\u{1f}")))
    }

    /// Returns the flags of the C compiler, for dependencies that contain C.
    fn c_flags(&self) -> Result<String> {
        Ok(self.replacements()?.map(|replacement| format!("-ffile-prefix-map={replacement}")).join(" "))
    }
}

fn cargo_home() -> Result<PathBuf> {
    let home = env::var_os("CARGO_HOME").filter(|folder| !folder.is_empty()).map(PathBuf::from);
    home.or_else(|| Some(env::home_dir()?.join(".cargo")))
        .context("neither CARGO_HOME nor HOME is set, so the path of cargo's downloads is unknown")
}

/// Errors if the C library is not there as an archive. The linker's own error would not say which package has it.
fn require_static_libc() -> Result<()> {
    let compiler = env::var_os("CC").unwrap_or_else(|| OsString::from("cc"));
    let output = Command::new(&compiler).arg("-print-file-name=libc.a").output();
    let output = output.context(
        "the C compiler does not run: install a C toolchain (Debian, Ubuntu: apt install build-essential)",
    )?;
    // The compiler prints the name alone if it does not find the file.
    let path = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    ensure!(
        path.is_absolute() && path.exists(),
        "libc.a is missing, so no static program can be linked: install it (Debian, Ubuntu: apt install libc6-dev; Fedora: dnf install glibc-static)"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folders(root: &str) -> Folders {
        let target = Path::new(root).join("target");
        Folders { cargo: "/home/user/.cargo".into(), root: root.into(), target }
    }

    #[test]
    fn the_folders_of_the_machine_are_replaced_and_the_inner_one_comes_last() {
        let folders = folders("/src");
        assert_eq!(
            folders.rust_flags().expect("flags").split('\u{1f}').collect::<Vec<_>>(),
            [
                "-Ctarget-feature=+crt-static",
                "--remap-path-prefix=/home/user/.cargo=/cargo",
                "--remap-path-prefix=/src=/pilothouse",
                "--remap-path-prefix=/src/target=/target",
            ]
        );
        assert!(folders.c_flags().expect("flags").ends_with(" -ffile-prefix-map=/src/target=/target"));
    }

    #[test]
    fn crates_optimised_for_size_in_the_small_program_are_optimised_for_speed_elsewhere() {
        let manifest = include_str!("../../../Cargo.toml");
        for name in SMALLER_CRATES {
            assert!(
                manifest.contains(&format!("\n{name} = {{ opt-level = 3 }}\n")),
                "{name} is optimised for size already"
            );
        }
        let arguments = Variant::Small.optimization_arguments("dist");
        assert_eq!(arguments[0], r#"--config=profile.dist.package.cranelift-assembler-x64.opt-level="s""#);
        assert_eq!(Variant::Full.optimization_arguments("dist"), Vec::<String>::new());
    }

    #[test]
    fn a_program_that_does_not_start_is_an_error() {
        assert!(require_that_it_starts(Path::new("true")).is_ok());
        for program in ["false", "/absent"] {
            assert!(require_that_it_starts(Path::new(program)).is_err(), "{program}");
        }
    }

    #[test]
    fn a_folder_that_flags_cannot_name_is_an_error() {
        for root in ["/my src", "/a=b"] {
            let error = folders(root).c_flags().expect_err("refused").to_string();
            assert!(error.contains(root), "{error}");
        }
    }
}
