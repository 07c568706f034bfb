//! Programs and sources of others that `cargo xtask test --full` needs. Each is named here with its version, built from a published Go module
//! and kept outside of the repository.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use sha2::{Digest, Sha256};

use crate::cargo::cargo;

/// Lints, renders and installs the chart.
pub(crate) const HELM: Program =
    Program { name: "helm", package: "helm.sh/helm/v3/cmd/helm", version: "v3.22.0" };

/// Signs plugins in registries.
pub(crate) const COSIGN: Program =
    Program { name: "cosign", package: "github.com/sigstore/cosign/v3/cmd/cosign", version: "v3.1.3" };

/// The last version of cosign whose default is the older format of signatures.
pub(crate) const COSIGN_2: Program =
    Program { name: "cosign", package: "github.com/sigstore/cosign/v2/cmd/cosign", version: "v2.6.5" };

/// A registry without the referrers API.
pub(crate) const DISTRIBUTION: Program = Program {
    name: "registry",
    package: "github.com/distribution/distribution/v3/cmd/registry",
    version: "v3.1.2",
};

/// The server that the embedded one is compared with.
pub(crate) const KUBE_APISERVER: LocalProgram = LocalProgram {
    name: "kube-apiserver",
    version: "v1.36.3",
    folder: "xtask/kube-apiserver",
    version_variables: &[("gitVersion", "v1.36.3"), ("gitMajor", "1"), ("gitMinor", "36")],
};

/// A collector that receives traces and writes them to a file.
pub(crate) const COLLECTOR: LocalProgram = LocalProgram {
    name: "collector",
    version: "v0.165.0",
    folder: "xtask/collector",
    version_variables: &[],
};

/// Signs without a key, with a certificate authority and a transparency log of its own. The version is that of sigstore-go.
pub(crate) const KEYLESS_SIGNER: LocalProgram = LocalProgram {
    name: "keyless-signer",
    version: "v1.2.2",
    folder: "xtask/keyless-signer",
    version_variables: &[],
};

/// The CRDs of PodMonitor, ServiceMonitor and PrometheusRule.
pub(crate) const PROMETHEUS_OPERATOR: Module =
    Module::new("github.com/prometheus-operator/prometheus-operator", "v0.85.0");

/// The seccomp profile of containers, from which `RuntimeDefault` of container runtimes is derived.
#[cfg(target_os = "linux")]
pub(crate) const SECCOMP_PROFILE: Module = Module::new("github.com/moby/profiles/seccomp", "v0.3.0");

/// A program in a published Go module.
pub(crate) struct Program {
    name: &'static str,
    package: &'static str,
    version: &'static str,
}

/// A program of this repository whose dependencies are published Go modules.
pub(crate) struct LocalProgram {
    name: &'static str,
    version: &'static str,
    /// The folder of its module.
    folder: &'static str,
    /// Variables of `k8s.io/component-base/version` that the linker sets.
    version_variables: &'static [(&'static str, &'static str)],
}

/// A published Go module.
pub(crate) struct Module {
    path: &'static str,
    version: &'static str,
}

/// A published Rust crate.
pub(crate) struct Crate {
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
}

impl Program {
    /// Returns the path of the program. Builds it if it was not built before, which takes minutes.
    ///
    /// # Errors
    /// Errors if Go is missing, or cannot download or build the module.
    pub(crate) fn install(&self) -> Result<PathBuf> {
        let path = self.path(&cache()?);
        if path.is_file() {
            return Ok(path);
        }
        println!("tools: building {} {} (takes several minutes the first time)", self.name, self.version);
        let folder = path.parent().context("the path of a program has no folder")?;
        // Renamed at the end, so that an interrupted build leaves no program.
        let unfinished = folder.with_extension("unfinished");
        let status = go()
            .arg("install")
            .arg(format!("{}@{}", self.package, self.version))
            .env("GOBIN", &unfinished)
            .env("CGO_ENABLED", "0")
            .status()
            .with_context(|| format!("start go to build {}: install Go (https://go.dev/dl)", self.name))?;
        ensure!(status.success(), "go could not build {} {} (see above): {status}", self.name, self.version);
        fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
        let built = unfinished.join(path.file_name().unwrap_or_default());
        fs::rename(&built, &path)
            .with_context(|| format!("rename {} to {}", built.display(), path.display()))?;
        // The empty folder does no harm.
        let _ = fs::remove_dir(&unfinished);
        Ok(path)
    }

    fn path(&self, cache: &Path) -> PathBuf {
        let file = format!("{}{}", self.name, std::env::consts::EXE_SUFFIX);
        cache.join(format!("{}-{}", self.name, self.version)).join(file)
    }
}

impl LocalProgram {
    /// Returns the path of the program. Builds it if it was not built before from the same sources.
    ///
    /// # Errors
    /// Errors if Go is missing, or cannot download a module or build the program.
    pub(crate) fn install(&self, root: &Path) -> Result<PathBuf> {
        if let Some(path) = self.installed(root)? {
            return Ok(path);
        }
        let path = self.path(root)?;
        println!("tools: building {} {} (takes up to half an hour the first time)", self.name, self.version);
        let folder = path.parent().context("the path of a program has no folder")?;
        fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
        // Renamed at the end, so that an interrupted build leaves no program.
        let unfinished = path.with_extension("unfinished");
        let variables = self.version_variables.iter();
        let variables: String = variables
            .map(|(name, value)| format!(" -X k8s.io/component-base/version.{name}={value}"))
            .collect();
        let status = go()
            .current_dir(root.join(self.folder))
            .args(["build", "-trimpath", "-ldflags"])
            .arg(format!("-s -w{variables}"))
            .arg("-o")
            .arg(&unfinished)
            .env("CGO_ENABLED", "0")
            .status()
            .with_context(|| format!("start go to build {}: install Go (https://go.dev/dl)", self.name))?;
        ensure!(status.success(), "go could not build {} (see above): {status}", self.folder);
        fs::rename(&unfinished, &path)
            .with_context(|| format!("rename {} to {}", unfinished.display(), path.display()))?;
        Ok(path)
    }

    /// Returns the path of the program if it was built from the same sources.
    ///
    /// # Errors
    /// Errors if its sources cannot be read.
    pub(crate) fn installed(&self, root: &Path) -> Result<Option<PathBuf>> {
        Ok(Some(self.path(root)?).filter(|path| path.is_file()))
    }

    /// Returns the path of the program, which contains a checksum of its sources.
    fn path(&self, root: &Path) -> Result<PathBuf> {
        let mut sources = Sha256::new();
        for name in ["go.mod", "go.sum", "main.go"] {
            let file = root.join(self.folder).join(name);
            sources.update(fs::read(&file).with_context(|| format!("read {}", file.display()))?);
        }
        let sources: String = sources.finalize().iter().take(6).map(|byte| format!("{byte:02x}")).collect();
        let file = format!("{}{}", self.name, std::env::consts::EXE_SUFFIX);
        Ok(cache()?.join(format!("{}-{}-{sources}", self.name, self.version)).join(file))
    }
}

impl Module {
    /// Returns the module with a path and a version.
    pub(crate) const fn new(path: &'static str, version: &'static str) -> Self {
        Self { path, version }
    }

    /// Returns the folder with the module's sources, which Go downloads into its own cache.
    ///
    /// # Errors
    /// Errors if Go is missing, or cannot download the module.
    pub(crate) fn download(&self) -> Result<PathBuf> {
        let output = go()
            .args(["mod", "download", "-json"])
            .arg(format!("{}@{}", self.path, self.version))
            // Outside of a module, because the module is none of its dependencies.
            .current_dir(std::env::temp_dir())
            .stderr(Stdio::inherit())
            .output()
            .with_context(|| format!("start go to download {}: install Go (https://go.dev/dl)", self.path))?;
        let answer: serde_json::Value = serde_json::from_slice(&output.stdout)
            .with_context(|| format!("read what go printed about {}", self.path))?;
        let folder = answer["Dir"].as_str().with_context(|| {
            format!("go could not download {} {}: {}", self.path, self.version, answer["Error"])
        })?;
        Ok(folder.into())
    }
}

impl Crate {
    /// Returns the folder with the crate's sources, which cargo downloads into its own cache.
    ///
    /// # Errors
    /// Errors if cargo cannot download the crate.
    pub(crate) fn download(&self) -> Result<PathBuf> {
        // Cargo downloads what a package depends on.
        let package = cache()?.join(format!("download-{}-{}", self.name, self.version));
        let source = package.join("src");
        fs::create_dir_all(&source).with_context(|| format!("create {}", source.display()))?;
        for (name, text) in [("Cargo.toml", self.dependent()), ("src/lib.rs", String::new())] {
            let file = package.join(name);
            fs::write(&file, text).with_context(|| format!("write {}", file.display()))?;
        }
        let output = cargo()
            .args(["metadata", "--format-version", "1"])
            .current_dir(&package)
            .stderr(Stdio::inherit())
            .output()
            .context("start cargo")?;
        ensure!(output.status.success(), "cargo could not download {} {}", self.name, self.version);
        let metadata: serde_json::Value =
            serde_json::from_slice(&output.stdout).context("read what cargo printed")?;
        // It is read no more.
        let _ = fs::remove_dir_all(&package);
        self.folder(&metadata)
    }

    /// Returns the manifest of a package that depends on the crate.
    fn dependent(&self) -> String {
        format!(
            "[package]\nname = \"download\"\nedition = \"2024\"\n[dependencies]\n{} = \"={}\"\n[workspace]\n",
            self.name, self.version
        )
    }

    /// Returns the folder of the crate from what `cargo metadata` printed.
    fn folder(&self, metadata: &serde_json::Value) -> Result<PathBuf> {
        let packages = metadata["packages"].as_array().context("cargo printed no packages")?;
        let manifest = packages
            .iter()
            .find(|package| package["name"] == self.name && package["version"] == self.version)
            .and_then(|package| package["manifest_path"].as_str())
            .with_context(|| format!("cargo did not report the folder of {} {}", self.name, self.version))?;
        Ok(Path::new(manifest).parent().context("the path of a manifest has no folder")?.to_owned())
    }
}

/// Returns a command for `go` that ignores the workspace and the flags of the user.
pub(crate) fn go() -> Command {
    let mut command = Command::new("go");
    command.env("GOFLAGS", "-mod=mod").env("GOWORK", "off");
    command
}

/// Returns the folder of the programs, which all clones of the repository share.
pub(crate) fn cache() -> Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = set("XDG_CACHE_HOME")
        .or_else(|| set("HOME").map(|home| home.join(".cache")))
        .context("neither XDG_CACHE_HOME nor HOME is set: set one of them to a folder for programs")?;
    Ok(cache.join("pilothouse").join("tools"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_a_crate_is_that_of_its_version() {
        let metadata = serde_json::json!({"packages": [
            {"name": "kube", "version": "4.0.0", "manifest_path": "/c/kube-4.0.0/Cargo.toml"},
            {"name": "kube", "version": "5.0.0", "manifest_path": "/c/kube-5.0.0/Cargo.toml"},
        ]});
        let package = |version| Crate { name: "kube", version };
        assert_eq!(package("5.0.0").folder(&metadata).expect("there"), Path::new("/c/kube-5.0.0"));
        assert!(package("6.0.0").folder(&metadata).is_err());
    }

    #[test]
    fn versions_of_a_program_are_kept_apart() {
        let program = |version| Program { name: "helm", package: "helm.sh/helm", version };
        let path = program("v1.2.3").path(Path::new("/cache"));
        assert_eq!(
            path,
            Path::new("/cache/helm-v1.2.3").join(format!("helm{}", std::env::consts::EXE_SUFFIX))
        );
        assert_ne!(path, program("v1.2.4").path(Path::new("/cache")));
    }
}
