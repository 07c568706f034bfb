//! `cargo xtask container-test`: runs the host in a container as the chart says, with exactly the permissions that the chart and
//! `pilothouse rbac` give it.
//!
//! The API server authorizes by RBAC and writes an audit log. No request of the host may be refused, and each permission must be used by one,
//! or be explained in [`EXPLANATIONS`].

mod permissions;
mod pod;
mod sandbox;
mod scenario;
mod scripts;
#[cfg(target_os = "linux")]
mod seccomp;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow, ensure};
use clap::Args;
use serde_json::{Value, json};
use tempfile::TempDir;

use self::permissions::{Findings, Permission, Request, Unused, compare};
use self::pod::{Pod, Source};
use self::sandbox::Sandbox;
use self::scenario::{Scenario, Tokens};
use crate::chart::{Helm, RELEASE, Server};
use crate::delivery::{ImageConfiguration, assemble_image, unpack_image};
use crate::demo::Api;
use crate::guests::Guest;
use crate::{host, loopback, tools};

/// The plugins: one with a custom resource of its own, and one that uses each verb.
const PLUGIN: &str = "sample-controller";
const ACCEPTANCE: &str = "acceptance-rust";
/// The folder of the plugins in the image.
const PLUGINS: &str = "plugins";
/// Accounts of the namespace `default`: one that may read metrics, one that may read the whole status port, and one that may read nothing.
const ACCOUNTS: [&str; 3] = ["prometheus", "operator", "stranger"];
/// The system calls of the host and of container runtimes.
#[cfg(target_os = "linux")]
const SECCOMP_PROFILE: &str = "deploy/seccomp/pilothouse.json";
/// The chart's role of those who may read the status port.
const STATUS_READER: &str = "pilothouse:status-reader";

/// Permissions that the host needs in situations that the scenario does not have.
const EXPLANATIONS: [Unused; 2] = [
    Unused {
        verb: "list",
        resource: "namespaces",
        reason: "the host lists where the server has no streaming lists, and the embedded server has them",
    },
    Unused {
        verb: "patch",
        resource: "foos/status",
        reason: "the descriptor of the plugin asks for both ways to write a status, and the plugin uses `update`",
    },
];

/// Options of `cargo xtask container-test`.
#[derive(Debug, Args)]
pub(crate) struct ContainerTestArguments {
    /// `pilothouse` for the API server and the container. By default, it is built.
    #[arg(long, value_name = "FILE")]
    host: Option<PathBuf>,
    /// Run this image, which `cargo xtask image` has written. By default, the container has the files of such an image with the program of --host.
    #[arg(long, value_name = "FOLDER")]
    layout: Option<PathBuf>,
    /// sample-controller.wasm. By default, it is built.
    #[arg(long, value_name = "FILE")]
    plugin: Option<PathBuf>,
    /// acceptance-rust.wasm. By default, it is built.
    #[arg(long, value_name = "FILE")]
    acceptance: Option<PathBuf>,
}

/// Builds what the arguments do not name, and runs the test.
///
/// # Errors
/// Errors if a program is missing, or with a list of everything that is wrong.
pub(crate) fn run(root: &Path, arguments: &ContainerTestArguments) -> Result<()> {
    let (given_host, given_plugin) = (arguments.host.as_deref(), arguments.plugin.as_deref());
    let (pilothouse, plugin) = host::build_with_plugin(root, PLUGIN, given_host, given_plugin)?;
    let given_acceptance = arguments.acceptance.as_deref();
    let (_, acceptance) = host::build_with_plugin(root, ACCEPTANCE, Some(&pilothouse), given_acceptance)?;
    test(root, &pilothouse, arguments.layout.as_deref(), [&plugin, &acceptance])
}

/// Runs the test with a program and plugins that were built before.
///
/// # Errors
/// As [`run`].
pub(crate) fn test_built(root: &Path, pilothouse: &Path, guests: &[Guest]) -> Result<()> {
    let wasm = |name: &str| {
        let guest = guests.iter().find(|guest| guest.name == name);
        guest.map(|guest| guest.wasm.as_path()).with_context(|| format!("{name} was not built"))
    };
    test(root, pilothouse, None, [wasm(PLUGIN)?, wasm(ACCEPTANCE)?])
}

/// Runs the test with the program in a container like that of the image, or with the image of a layout.
///
/// # Errors
/// As [`run`].
fn test(root: &Path, pilothouse: &Path, layout: Option<&Path>, plugins: [&Path; 2]) -> Result<()> {
    let helm = Helm::new(tools::HELM.install()?, root, "container")?;
    let folder = helm.folder().to_owned();
    let audit = folder.join("audit.log");
    let flags = ["--enable-faults", "--authorization", "rbac", "--audit-log"].map(OsStr::new);
    let server = Server::start_with(pilothouse, &folder, &[&flags[..], &[audit.as_os_str()]].concat())?;
    let api = Api::of_kubeconfig(server.kubeconfig())?;

    let inside = folder_for_everybody()?;
    let image = inside.path().join("image");
    fs::create_dir(&image).with_context(|| format!("create {}", image.display()))?;
    let configuration = match layout {
        Some(layout) => unpack_image(layout, &image)?,
        None => assemble_image(root, pilothouse, &image)?,
    };
    let in_image = [PLUGIN, ACCEPTANCE].map(|name| image.join(PLUGINS).join(format!("{name}.wasm")));
    for (plugin, in_image) in plugins.into_iter().zip(&in_image) {
        fs::copy(plugin, in_image).with_context(|| format!("copy {}", plugin.display()))?;
    }

    let address = loopback::free_address()?;
    install(&helm, &server, pilothouse, &in_image, &address)?;
    let pod = api.get(&format!("/apis/apps/v1/namespaces/{RELEASE}/deployments/{RELEASE}"))?;
    let pod = Pod::parse(&pod.context("the chart has no Deployment")?["spec"]["template"]["spec"], RELEASE)?;

    let seccomp = folder.join("seccomp.bpf");
    fs::write(&seccomp, seccomp_program(root)?).with_context(|| format!("write {}", seccomp.display()))?;
    let files = ClusterFiles { api: &api, server: &server, folder: inside.path() };
    files.write(&pod)?;
    let (config_maps, account) = (files.config_maps(), files.account());
    let sandbox = Sandbox {
        pod: &pod,
        root: &image,
        config_maps: &config_maps,
        account: &account,
        environment: environment(&configuration, &pod, server.kubeconfig())?,
        needs_libraries: configuration.needs_libraries,
        seccomp: &seccomp,
    };
    sandbox.create_mount_points()?;
    let log = folder.join("host.log");
    let mut container = sandbox.start(&log)?;
    let manifest = root.join("examples").join(PLUGIN).join("manifests/foo.yaml");
    let manifest = fs::read_to_string(&manifest).with_context(|| format!("read {}", manifest.display()))?;
    let [metrics, status, stranger] = ACCOUNTS.map(|account| files.token("default", account));
    let scenario = Scenario {
        api: &api,
        status: &format!("http://{address}"),
        namespace: RELEASE,
        manifest: &manifest,
        plugin: &in_image[0],
        acceptance: ACCEPTANCE,
        tokens: Tokens { metrics: metrics?, status: status?, stranger: stranger? },
    };
    scenario.run(&mut container).with_context(|| format!("the log of the host is {}", log.display()))?;
    let permissions = permissions_of(&api, RELEASE, RELEASE)?;
    let log = fs::read_to_string(&audit).with_context(|| format!("read {}", audit.display()))?;
    let requests = Request::parse_log(&log, &format!("system:serviceaccount:{RELEASE}:{RELEASE}"));
    println!(
        "container-test: {} requests, {} permissions, of which one is a verb on a resource",
        requests.len(),
        permissions.len()
    );
    report(&compare(&permissions, &requests, &EXPLANATIONS))
}

/// Creates a folder with what the container sees. A container that root starts runs as another user, who cannot enter root's home folder, so
/// the folder is elsewhere.
fn folder_for_everybody() -> Result<TempDir> {
    let folder = tempfile::Builder::new().prefix("pilothouse-container-").tempdir();
    let folder = folder.context("create a folder for the container")?;
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))
        .with_context(|| format!("let everybody read {}", folder.path().display()))?;
    Ok(folder)
}

/// Returns the program of the seccomp profile in `deploy/seccomp`.
///
/// # Errors
/// Errors if the profile allows a call that container runtimes refuse by default. The default profile is downloaded with its Go module.
#[cfg(target_os = "linux")]
fn seccomp_program(root: &Path) -> Result<Vec<u8>> {
    let profile = read_profile(&root.join(SECCOMP_PROFILE))?;
    let default = read_profile(&tools::SECCOMP_PROFILE.download()?.join("default.json"))?;
    let calls = seccomp::calls_beyond(&profile, &default)?;
    ensure!(
        calls.is_empty(),
        "{SECCOMP_PROFILE} allows {}, which container runtimes refuse by default",
        calls.join(", ")
    );
    seccomp::program(&profile)
}

#[cfg(target_os = "linux")]
fn read_profile(file: &Path) -> Result<Value> {
    let text = fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
    serde_json::from_str(&text).with_context(|| format!("read {}", file.display()))
}

#[cfg(not(target_os = "linux"))]
fn seccomp_program(_root: &Path) -> Result<Vec<u8>> {
    anyhow::bail!("this system has no seccomp: run container-test on Linux")
}

/// Installs the chart with the roles and grants of the plugins, and the status port at `address`.
fn install(
    helm: &Helm,
    server: &Server,
    pilothouse: &Path,
    plugins: &[PathBuf; 2],
    address: &str,
) -> Result<()> {
    // With `grants: explicit`, which the chart sets, a plugin gets nothing else.
    let all = |verbs: &[&str]| json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": verbs}]);
    let watches = json!([{"apiGroups": ["*"], "resources": ["*"]}]);
    let sidecars = [
        json!({"grants": {"crds": true, "watches": watches, "writes": all(&["*"])}}),
        json!({"grants": scripts::grants()}),
    ];
    let (host, port) = address.rsplit_once(':').context("the address has no port")?;
    let values = json!({
        "plugins": {"sidecars": {PLUGIN: sidecars[0], ACCEPTANCE: sidecars[1]}},
        "status": {"address": host, "port": port.parse::<u16>().context("the port")?, "auth": "kubernetes"},
        "prometheus": {"serviceAccounts": [{"name": ACCOUNTS[0], "namespace": "default"}]},
    });
    // `rbac` reads the sidecar beside the plugin; in the container, a mount is in its place.
    for (plugin, sidecar) in plugins.iter().zip(&sidecars) {
        let beside = plugin.with_extension("yaml");
        fs::write(&beside, sidecar.to_string()).with_context(|| format!("write {}", beside.display()))?;
    }
    let output = Command::new(pilothouse)
        .args(["rbac", "--format", "helm-values"])
        .args(plugins)
        .output()
        .with_context(|| format!("start {}", pilothouse.display()))?;
    ensure!(output.status.success(), "pilothouse rbac: {}", String::from_utf8_lossy(&output.stderr));
    let (roles, others) = (helm.folder().join("roles.yaml"), helm.folder().join("values.json"));
    fs::write(&roles, &output.stdout).with_context(|| format!("write {}", roles.display()))?;
    fs::write(&others, values.to_string()).with_context(|| format!("write {}", others.display()))?;

    let kubectl =
        |arguments: &[&str]| server.kubectl(arguments)?.map_err(|error| anyhow!("kubectl: {error}"));
    kubectl(&["create", "namespace", RELEASE])?;
    for account in ACCOUNTS {
        kubectl(&["create", "serviceaccount", account, "--namespace", "default"])?;
    }
    let (role, subject) =
        (format!("--clusterrole={STATUS_READER}"), format!("--serviceaccount=default:{}", ACCOUNTS[1]));
    kubectl(&["create", "clusterrolebinding", ACCOUNTS[1], &role, &subject])?;
    let files = [roles.to_string_lossy(), others.to_string_lossy()];
    let arguments = ["--values", &files[0], "--values", &files[1]];
    let installed = helm.release(server.kubeconfig(), "install", &arguments)?;
    installed.map_err(|error| anyhow!("helm install: {error}"))?;
    Ok(())
}

/// Returns the variables of the container: those of its image, of its pod, and of the kubelet.
fn environment(image: &ImageConfiguration, pod: &Pod, kubeconfig: &Path) -> Result<Vec<String>> {
    let text = fs::read_to_string(kubeconfig).with_context(|| format!("read {}", kubeconfig.display()))?;
    let file: Value = serde_json::from_str(&text).context("the kubeconfig is not JSON")?;
    let url = file["clusters"][0]["cluster"]["server"].as_str().context("the kubeconfig has no server")?;
    let address = url.trim_start_matches("https://").trim_end_matches('/');
    let (host, port) = address.rsplit_once(':').context("the API server's URL has no port")?;
    let mut environment = image.environment.clone();
    environment.extend(pod.environment.iter().map(|(name, value)| format!("{name}={value}")));
    environment.push(format!("KUBERNETES_SERVICE_HOST={host}"));
    environment.push(format!("KUBERNETES_SERVICE_PORT={port}"));
    Ok(environment)
}

/// Files of the pod that come from the API server.
struct ClusterFiles<'a> {
    api: &'a Api,
    server: &'a Server,
    folder: &'a Path,
}

impl ClusterFiles<'_> {
    fn config_maps(&self) -> PathBuf {
        self.folder.join("config-maps")
    }

    fn account(&self) -> PathBuf {
        self.folder.join("account")
    }

    /// Writes the ConfigMaps that the pod mounts, and the files of its service account.
    fn write(&self, pod: &Pod) -> Result<()> {
        for mount in &pod.mounts {
            if let Source::ConfigMap { name, .. } = &mount.source {
                self.write_config_map(name, &self.config_maps().join(name))?;
            }
        }
        let account = self.account();
        self.write_config_map("kube-root-ca.crt", &account)?;
        for (name, text) in [("token", self.token(RELEASE, RELEASE)?), ("namespace", RELEASE.to_owned())] {
            let file = account.join(name);
            fs::write(&file, text).with_context(|| format!("write {}", file.display()))?;
        }
        Ok(())
    }

    /// Writes a file for each entry of a ConfigMap in the host's namespace.
    fn write_config_map(&self, name: &str, folder: &Path) -> Result<()> {
        let path = format!("/api/v1/namespaces/{RELEASE}/configmaps/{name}");
        let map = self.api.wait(&format!("the ConfigMap {name}"), |api| api.get(&path))?;
        fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
        for (entry, text) in map["data"].as_object().into_iter().flatten() {
            let file = folder.join(entry);
            fs::write(&file, text.as_str().unwrap_or_default())
                .with_context(|| format!("write {}", file.display()))?;
        }
        Ok(())
    }

    /// Returns a token of a service account.
    fn token(&self, namespace: &str, account: &str) -> Result<String> {
        let arguments = ["create", "token", account, "--namespace", namespace];
        let token = self.server.kubectl(&arguments)?.map_err(|error| anyhow!("kubectl: {error}"))?;
        Ok(token.trim().to_owned())
    }
}

/// Returns the permissions that bindings give to a service account itself, not to its groups.
fn permissions_of(api: &Api, namespace: &str, account: &str) -> Result<Vec<Permission>> {
    const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
    let mut permissions = Vec::new();
    for kind in ["clusterrolebindings", "rolebindings"] {
        let bindings = api.get(&format!("{RBAC}/{kind}"))?.unwrap_or_default();
        for binding in bindings["items"].as_array().into_iter().flatten() {
            let mut subjects = binding["subjects"].as_array().into_iter().flatten();
            let is_subject = |subject: &Value| {
                subject["kind"] == "ServiceAccount"
                    && subject["name"] == account
                    && subject["namespace"] == namespace
            };
            if !subjects.any(is_subject) {
                continue;
            }
            let bound_in = binding["metadata"]["namespace"].as_str();
            let name = binding["roleRef"]["name"].as_str().context("a binding has no role")?;
            let (path, role) = match (binding["roleRef"]["kind"].as_str(), bound_in) {
                (Some("Role"), Some(namespace)) => {
                    (format!("namespaces/{namespace}/roles/{name}"), format!("Role {namespace}/{name}"))
                }
                _ => (format!("clusterroles/{name}"), format!("ClusterRole {name}")),
            };
            let found = api.get(&format!("{RBAC}/{path}"))?.with_context(|| format!("there is no {role}"))?;
            permissions.extend(Permission::of_rules(&role, bound_in, &found["rules"]));
        }
    }
    ensure!(!permissions.is_empty(), "no role is bound to the service account {namespace}/{account}");
    Ok(permissions)
}

/// Prints the explained permissions. Errors with everything that is wrong.
fn report(findings: &Findings) -> Result<()> {
    for line in &findings.explained {
        println!("container-test: not used: {line}");
    }
    let lines =
        |kind: &str, found: &[String]| found.iter().map(|line| format!("\n  {kind}: {line}")).collect();
    let problems: [String; 3] = [
        lines("refused", &findings.forbidden),
        lines("not used, and not explained in xtask/src/container/mod.rs", &findings.unused),
        lines("explained, but used or not granted", &findings.outdated),
    ];
    let problems = problems.concat();
    ensure!(problems.is_empty(), "the permissions of the host are not exact:{problems}");
    println!("container-test: no request was refused, and every other permission was used");
    Ok(())
}
