//! `cargo xtask registries`: pushes the chart, and pushes, signs, verifies and runs a plugin, with two registries and with cosign.
//!
//! The registries differ in what they support: distribution has no referrers API, so cosign stores bundles behind a tag, and the registry of
//! go-containerregistry has it. Each case runs with each registry, with both formats of signatures by cosign 3, and
//! with those by cosign 2.

mod cosign;
mod keyless;
mod registry;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde_json::{Value, json};

use self::cosign::{Cosign, Format};
use self::registry::Registry;
use crate::chart::Server;
use crate::demo::Api;
use crate::running_host::{HostFiles, RunningHost};
use crate::{delivery, guests, host, monitoring};

/// The plugin that is pushed, and the one that the tag is moved to.
const PLUGINS: [&str; 2] = ["sample-controller", "delete-everything"];

/// Options of `cargo xtask registries`.
#[derive(Debug, Args)]
pub(crate) struct RegistriesArguments {
    /// `pilothouse`. By default, it is built.
    #[arg(long, value_name = "FILE")]
    host: Option<PathBuf>,
}

/// Builds `pilothouse` if the arguments do not name it, and runs all cases.
///
/// # Errors
/// As [`test_built`].
pub(crate) fn run(root: &Path, arguments: &RegistriesArguments) -> Result<()> {
    test_built(root, &host::given_or_built(root, arguments.host.as_deref())?)
}

/// Runs all cases with a program that was built before.
///
/// # Errors
/// Errors if a program cannot be built or started, or if a case fails.
pub(crate) fn test_built(root: &Path, pilothouse: &Path) -> Result<()> {
    let built = guests::build(root, &PLUGINS, || Ok(pilothouse.to_owned()))?;
    let wasm = |name: &str| {
        let guest = built.iter().find(|guest| guest.name == name);
        guest.map(|guest| guest.wasm.clone()).with_context(|| format!("{name} was not built"))
    };
    let (plugin, other) = (wasm(PLUGINS[0])?, wasm(PLUGINS[1])?);
    let folder = empty_folder(root)?;
    let registries = [Registry::distribution(&folder)?, Registry::with_referrers(root)?];
    for registry in &registries {
        let repository = format!("oci://{}/charts", registry.address());
        delivery::package_and_push_chart(root, &folder.join("chart"), &repository)
            .with_context(|| format!("the chart and the registry {}", registry.name()))?;
        println!("registries: {}: the chart was pushed and is returned unchanged", registry.name());
    }
    let (cosign, cosign_2) = (Cosign::install(&folder)?, Cosign::install_2(&folder)?);
    for registry in registries {
        let folder = folder.join(registry.name());
        fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
        for cosign in [&cosign, &cosign_2] {
            for format in cosign.formats() {
                let name = format!("{}-{}", cosign.name(), format.name());
                let (registry, format, folder) = (&registry, *format, &folder);
                Cases { name, pilothouse, cosign, registry, format, folder }.run(&plugin)?;
            }
        }
        keyless::run(root, pilothouse, &registry, &folder, &plugin)?;
        run_host(pilothouse, &cosign, registry, &folder, [&plugin, &other])?;
    }
    Ok(())
}

/// The cases of one registry, one version of cosign and one format of signatures. They build on each other: signatures are only added.
struct Cases<'a> {
    /// The name of the version and the format.
    name: String,
    pilothouse: &'a Path,
    cosign: &'a Cosign,
    registry: &'a Registry,
    format: Format,
    folder: &'a Path,
}

impl Cases<'_> {
    fn run(&self, plugin: &Path) -> Result<()> {
        let image = format!("{}/plugins/{}", self.registry.address(), self.name);
        let pushed = push(self.pilothouse, plugin, &format!("{image}:1"))?;
        ensure!(
            push(self.pilothouse, plugin, &format!("{image}:2"))? == pushed,
            "a second push has another digest"
        );
        let reference = format!("{image}@{pushed}");

        let (release, second) = (self.cosign.key("release")?, self.cosign.key("second")?);
        let policy = |name: &str, require: &str, signers: &[(&str, &Path)], annotations| {
            let signers: Vec<_> = signers
                .iter()
                .map(|(name, key)| json!({"name": name, "keyFile": key.with_extension("pub"), "annotations": annotations}))
                .collect();
            let rule = json!({"match": [format!("{}/**", self.registry.address())], "require": require, "signers": signers});
            self.write(name, &json!({"rules": [rule]}))
        };
        let no_annotations = json!({});
        let one = policy("one", "all", &[("release", &release)], &no_annotations)?;
        let both = policy("both", "all", &[("release", &release), ("second", &second)], &no_annotations)?;
        let any = policy("any", "any", &[("release", &release), ("second", &second)], &no_annotations)?;
        let annotated = policy("annotated", "all", &[("release", &release)], &json!({"env": "prod"}))?;

        self.expect("no signature", &reference, &one, false)?;
        self.sign(&reference, &self.cosign.key("stranger")?, None)?;
        self.expect("a signature by another key", &reference, &one, false)?;
        self.sign(&reference, &release, None)?;
        self.expect("a signature by the key", &reference, &one, true)?;
        self.expect("one of two required signatures", &reference, &both, false)?;
        self.expect("one of any", &reference, &any, true)?;
        self.expect("a signature without the annotation", &reference, &annotated, false)?;
        self.sign(&reference, &second, None)?;
        self.expect("both required signatures", &reference, &both, true)?;
        self.sign(&reference, &release, Some("env=prod"))?;
        self.expect("a signature with the annotation", &reference, &annotated, true)?;
        self.expect("the tag of a signed digest", &format!("{image}:2"), &both, true)?;
        let elsewhere = policy_for_another_registry(&release);
        self.expect("no rule for the registry", &reference, &self.write("elsewhere", &elsewhere)?, false)?;

        let pulled = self.folder.join(format!("{}.wasm", self.name));
        let output = self.pilothouse(&["pull", &oci(&reference), "--plain-http", "--output"], &[&pulled])?;
        ensure!(output.status.success(), "pull {reference} failed: {}", error_of(&output));
        let same = fs::read(&pulled).context("read the pulled plugin")?
            == fs::read(plugin).context("read the plugin")?;
        ensure!(same, "the pulled plugin differs from the pushed one");
        Ok(())
    }

    fn sign(&self, reference: &str, key: &Path, annotation: Option<&str>) -> Result<()> {
        self.cosign.sign(reference, key, self.format, annotation)
    }

    /// Verifies the reference and compares the result with the expected one.
    fn expect(&self, case: &str, reference: &str, policy: &Path, is_allowed: bool) -> Result<()> {
        let case = format!("{}, {}, {case}", self.registry.name(), self.name);
        Verification { pilothouse: self.pilothouse, case: &case, reference, policy }.expect(is_allowed)
    }

    fn pilothouse(&self, arguments: &[&str], paths: &[&Path]) -> Result<Output> {
        pilothouse(self.pilothouse, arguments, paths)
    }

    fn write(&self, name: &str, policy: &Value) -> Result<PathBuf> {
        write_policy(self.folder, &format!("{}-{name}", self.name), policy)
    }
}

/// Writes a policy. Returns its path.
fn write_policy(folder: &Path, name: &str, policy: &Value) -> Result<PathBuf> {
    let path = folder.join(format!("{name}.yaml"));
    // JSON is YAML.
    fs::write(&path, policy.to_string()).with_context(|| format!("write {}", path.display()))?;
    Ok(path)
}

/// The verification of a plugin by a policy.
struct Verification<'a> {
    pilothouse: &'a Path,
    /// What the case is about, with the registry and the signer.
    case: &'a str,
    reference: &'a str,
    policy: &'a Path,
}

impl Verification<'_> {
    /// Compares the result of `pilothouse verify` with the expected one.
    fn expect(&self, is_allowed: bool) -> Result<()> {
        let Self { pilothouse: binary, case, reference, policy } = self;
        let output = pilothouse(binary, &["verify", &oci(reference), "--plain-http", "--policy"], &[policy])?;
        let expected = if is_allowed { 0 } else { 1 };
        ensure!(
            output.status.code() == Some(expected),
            "{case}: verify ended with {} in place of {expected}: {}",
            output.status,
            error_of(&output)
        );
        println!("registries: {case}: {}", if is_allowed { "accepted" } else { "refused" });
        Ok(())
    }
}

/// Runs a host that takes a plugin from the registry. The tag moves to an unsigned plugin and to a signed version, which is rolled back. Then
/// the registry is gone and the host starts again.
fn run_host(
    binary: &Path,
    cosign: &Cosign,
    registry: Registry,
    folder: &Path,
    [plugin, unsigned]: [&Path; 2],
) -> Result<()> {
    let name = registry.name();
    let image = format!("{}/running/plugin", registry.address());
    let tag = format!("{image}:stable");
    let digest = push(binary, plugin, &tag)?;
    let key = cosign.key("release")?;
    cosign.sign(&format!("{image}@{digest}"), &key, Format::Bundle, None)?;
    let signer = json!({"name": "release", "keyFile": key.with_extension("pub")});
    let rule = json!({"match": [format!("{}/**", registry.address())], "signers": [signer]});
    let policy = folder.join("host-policy.yaml");
    fs::write(&policy, json!({"rules": [rule]}).to_string()).context("write the host's policy")?;
    let config = folder.join("host.yaml");
    let settings = json!({
        "plugins": [{"name": PLUGINS[0], "image": tag, "poll": "10s", "sidecar": {"grants": {"crds": true}}}],
        "registries": {"cacheDir": folder.join("oci"), "policy": policy, "plainHttp": [registry.address()]},
    });
    fs::write(&config, settings.to_string()).context("write the host's configuration")?;

    let server = Server::start(binary, folder)?;
    let files = HostFiles {
        binary,
        folder,
        kubeconfig: server.kubeconfig(),
        plugins: &folder.join("plugins"),
        config: &config,
    };
    let host = RunningHost::start(&files)?;
    let status = Api::new(&host.status);
    wait_for_plugin(&status, "the signed plugin", |plugin| plugin["state"] == "running")?;
    println!("registries: {name}: the host runs the signed plugin");

    push(binary, unsigned, &tag)?;
    wait_for_plugin(&status, "the reason why the unsigned plugin is not loaded", |plugin| {
        plugin["state"] == "running" && plugin["error"].as_str().is_some_and(|error| error.contains("sign"))
    })?;
    println!("registries: {name}: the tag moved to an unsigned plugin, and the signed one runs on");

    let changed = with_custom_section(plugin, folder)?;
    let code = delivery::sha256(&fs::read(&changed).context("read the next version")?);
    let next = push(binary, &changed, &tag)?;
    cosign.sign(&format!("{image}@{next}"), &key, Format::Bundle, None)?;
    wait_for_plugin(&status, "the next signed version", |plugin| {
        plugin["state"] == "running"
            && plugin["digest"].as_str().is_some_and(|digest| digest.ends_with(&code))
    })?;
    let rollback = pilothouse(binary, &["rollback", PLUGINS[0], "--server", &host.status], &[])?;
    ensure!(rollback.status.success(), "rollback failed: {}", error_of(&rollback));
    require_series(&host.status, &monitoring::delivery_series())?;
    println!(
        "registries: {name}: the next version was rolled back, and the dashboard about delivery has data"
    );

    drop((host, registry));
    let host = RunningHost::start(&files)?;
    wait_for_plugin(&Api::new(&host.status), "the plugin of the cache", |plugin| {
        plugin["state"] == "running"
    })?;
    println!("registries: {name}: without the registry, a new host runs the plugin from its cache");
    drop(host);
    Ok(())
}

fn wait_for_plugin(status: &Api, condition: &str, is_met: impl Fn(&Value) -> bool) -> Result<()> {
    status.wait(condition, |status| {
        let answer = status.get("/api/plugins")?.unwrap_or_default();
        let plugins = answer["plugins"].as_array().or(answer.as_array()).cloned().unwrap_or_default();
        let plugin = plugins.iter().find(|plugin| plugin["name"] == PLUGINS[0]);
        Ok(plugin.is_some_and(&is_met).then_some(()))
    })
}

/// Errors unless the host's metrics have all these series.
fn require_series(status: &str, series: &BTreeSet<String>) -> Result<()> {
    let mut response = ureq::get(format!("{status}/metrics")).call().context("GET /metrics")?;
    let metrics = response.body_mut().read_to_string().context("read /metrics")?;
    let missing: Vec<_> =
        series.iter().filter(|name| !metrics.contains(&format!("\n{name}{{"))).map(String::as_str).collect();
    ensure!(missing.is_empty(), "the host has no values of {}", missing.join(", "));
    Ok(())
}

/// Writes a plugin that does the same and has another digest. Returns its path.
fn with_custom_section(plugin: &Path, folder: &Path) -> Result<PathBuf> {
    const CUSTOM_SECTION: [u8; 7] = [0, 5, 4, b'n', b'e', b'x', b't'];
    let mut bytes = fs::read(plugin).with_context(|| format!("read {}", plugin.display()))?;
    bytes.extend(CUSTOM_SECTION);
    let path = folder.join("next.wasm");
    fs::write(&path, bytes).with_context(|| format!("write {}", path.display()))?;
    Ok(path)
}

/// Pushes a plugin and returns its digest.
fn push(binary: &Path, plugin: &Path, reference: &str) -> Result<String> {
    let output = pilothouse(binary, &["push", "--plain-http"], &[plugin, Path::new(&oci(reference))])?;
    ensure!(output.status.success(), "push to {reference} failed: {}", error_of(&output));
    let text = String::from_utf8_lossy(&output.stdout);
    let Some(start) = text.find("sha256:") else { bail!("push printed no digest: {text}") };
    Ok(text[start..].chars().take_while(|character| !character.is_whitespace()).collect())
}

fn pilothouse(binary: &Path, arguments: &[&str], paths: &[&Path]) -> Result<Output> {
    let mut command = Command::new(binary);
    command.args(arguments).args(paths);
    command.output().with_context(|| format!("start {}", binary.display()))
}

fn policy_for_another_registry(key: &Path) -> Value {
    let signer = json!({"name": "release", "keyFile": key.with_extension("pub")});
    json!({"rules": [{"match": ["registry.example.org/**"], "signers": [signer]}]})
}

fn oci(reference: &str) -> String {
    format!("oci://{reference}")
}

fn error_of(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn empty_folder(root: &Path) -> Result<PathBuf> {
    let folder = root.join("target/registries");
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("remove {}", folder.display()))?;
    }
    fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    Ok(folder)
}
