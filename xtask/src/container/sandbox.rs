//! Runs a pod's container under bubblewrap.
//!
//! The container has namespaces of its own for users, processes, IPC and the host's name, no capability, and no way to new privileges. Its
//! image is read-only, and its system calls are those of the seccomp profile. It shares the network, in which the API server listens on
//! loopback. Unlike under a kubelet, it has no limit of memory.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use anyhow::{Context, Result, bail, ensure};

use super::pod::{ACCOUNT_FOLDER, Pod, Source};

const PROGRAM: &str = "bwrap";
/// Folders of this machine with shared libraries.
const LIBRARIES: [&str; 3] = ["/lib", "/lib64", "/usr/lib"];

/// What the container of a pod is made of.
pub(super) struct Sandbox<'a> {
    pub(super) pod: &'a Pod,
    /// The image's files.
    pub(super) root: &'a Path,
    /// The files of ConfigMaps, in a folder each.
    pub(super) config_maps: &'a Path,
    /// The files of the service account.
    pub(super) account: &'a Path,
    /// All variables, as `NAME=VALUE`. Later ones win.
    pub(super) environment: Vec<String>,
    /// Whether the container gets this machine's shared libraries.
    pub(super) needs_libraries: bool,
    /// The file with the seccomp program.
    pub(super) seccomp: &'a Path,
}

impl Sandbox<'_> {
    /// Creates the mount points in the image's files, as a container runtime does.
    ///
    /// # Errors
    /// Errors if one cannot be created.
    pub(super) fn create_mount_points(&self) -> Result<()> {
        for (path, is_folder) in self.mount_points() {
            let path = self.inside(path);
            let folder = if is_folder { Some(path.as_path()) } else { path.parent() };
            let created = folder.map_or(Ok(()), fs::create_dir_all);
            let created = created.and_then(|()| match is_folder || path.exists() {
                true => Ok(()),
                false => fs::write(&path, ""),
            });
            created.with_context(|| format!("create the mount point {}", path.display()))?;
        }
        Ok(())
    }

    /// Starts the container. Its output goes to `log`.
    ///
    /// # Errors
    /// Errors if bubblewrap is not installed.
    pub(super) fn start(&self, log: &Path) -> Result<Container> {
        let file = File::create(log).with_context(|| format!("create {}", log.display()))?;
        let errors = file.try_clone().context("share the log file")?;
        let mut command = Command::new(PROGRAM);
        let seccomp = File::open(self.seccomp).with_context(|| format!("open {}", self.seccomp.display()))?;
        // Bubblewrap reads the seccomp program from its input and closes it.
        command.args(self.arguments()).stdin(seccomp).stdout(file).stderr(errors);
        // A container of root's would be root outside of its namespace.
        if fs::metadata(log).is_ok_and(|metadata| metadata.uid() == 0) {
            command.uid(self.pod.user).gid(self.pod.group);
            // The namespace does not have the user root. The root folder would belong to nobody, and the host would not trust the cache in it.
            chown(self.root, Some(self.pod.user), Some(self.pod.group))
                .context("change the image's owner")?;
        }
        let child = command
            .spawn()
            .context("start bwrap: install bubblewrap (Debian, Ubuntu: apt install bubblewrap)")?;
        Ok(Container { child, log: log.to_owned() })
    }

    /// Returns the arguments of bubblewrap.
    fn arguments(&self) -> Vec<OsString> {
        let mut arguments = Arguments::default();
        for flag in ["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--new-session"] {
            arguments.add([flag]);
        }
        arguments.add(["--die-with-parent"]);
        arguments.add(["--cap-drop", "ALL", "--seccomp", "0"]);
        arguments.add(["--uid", &self.pod.user.to_string()]);
        arguments.add(["--gid", &self.pod.group.to_string()]);
        arguments.bind(self.root, "/");
        arguments.add(["--proc", "/proc"]);
        arguments.add(["--dev", "/dev"]);
        if self.needs_libraries {
            LIBRARIES.iter().filter(|path| Path::new(path).exists()).for_each(|path| {
                arguments.bind(Path::new(path), path);
            });
        }
        for mount in &self.pod.mounts {
            match &mount.source {
                Source::ConfigMap { name, file } => {
                    let folder = self.config_maps.join(name);
                    let source = file.as_ref().map_or_else(|| folder.clone(), |file| folder.join(file));
                    arguments.bind(&source, &mount.path);
                }
                // As a kubelet creates it: everybody may write, and only the owner of a file may replace it.
                Source::Memory { size } => {
                    arguments.add(["--perms", "1777", "--size", &size.to_string(), "--tmpfs", &mount.path]);
                }
            }
        }
        if self.pod.has_token {
            arguments.bind(self.account, ACCOUNT_FOLDER);
        }
        arguments.add(["--clearenv", "--chdir", "/"]);
        for variable in &self.environment {
            let (name, value) = variable.split_once('=').unwrap_or((variable, ""));
            arguments.add(["--setenv", name, value]);
        }
        arguments.add(["--"]);
        self.pod.command.iter().for_each(|argument| arguments.add([argument.as_str()]));
        arguments.0
    }

    /// Returns the paths at which something is mounted, and whether that is a folder.
    fn mount_points(&self) -> Vec<(&str, bool)> {
        let mut points = vec![("/proc", true), ("/dev", true)];
        if self.needs_libraries {
            points.extend(LIBRARIES.map(|path| (path, true)));
        }
        if self.pod.has_token {
            points.push((ACCOUNT_FOLDER, true));
        }
        let is_file = |source: &Source| matches!(source, Source::ConfigMap { file: Some(_), .. });
        points.extend(self.pod.mounts.iter().map(|mount| (mount.path.as_str(), !is_file(&mount.source))));
        points
    }

    fn inside(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }
}

#[derive(Default)]
struct Arguments(Vec<OsString>);

impl Arguments {
    fn add<'a>(&mut self, arguments: impl IntoIterator<Item = &'a str>) {
        self.0.extend(arguments.into_iter().map(OsString::from));
    }

    fn bind(&mut self, source: &Path, path: &str) {
        self.0.extend(["--ro-bind".into(), source.as_os_str().to_owned(), path.into()]);
    }
}

/// A running container. Dropping this ends it.
pub(super) struct Container {
    child: Child,
    log: PathBuf,
}

impl Container {
    /// Errors with the end of the log if the container has ended.
    pub(super) fn check(&mut self) -> Result<()> {
        let status = self.child.try_wait().context("look at the container")?;
        ensure!(status.is_none(), "the container has ended:\n{}", self.log_tail());
        Ok(())
    }

    /// Errors unless a process of the container has a seccomp filter.
    pub(super) fn require_seccomp(&self) -> Result<()> {
        let mut processes = vec![self.child.id().to_string()];
        while let Some(process) = processes.pop() {
            // Processes may end meanwhile.
            let read = |file: &str| fs::read_to_string(format!("/proc/{process}/{file}")).unwrap_or_default();
            if read("status").lines().any(|line| line == "Seccomp:\t2") {
                return Ok(());
            }
            let children = read(&format!("task/{process}/children"));
            processes.extend(children.split_ascii_whitespace().map(str::to_owned));
        }
        bail!("no process of the container has a seccomp filter")
    }

    /// Returns the last lines of the log.
    pub(super) fn log_tail(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        // It may have ended already. Its processes end with bubblewrap.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::super::pod::Mount;
    use super::*;

    fn pod() -> Pod {
        let mount = |path: &str, source| Mount { path: path.to_owned(), source };
        let map =
            |file: Option<&str>| Source::ConfigMap { name: "m".to_owned(), file: file.map(str::to_owned) };
        Pod {
            command: vec!["pilothouse".to_owned(), "run".to_owned()],
            environment: Default::default(),
            user: 7,
            group: 8,
            has_token: true,
            mounts: vec![
                mount("/etc/host", map(None)),
                mount("/plugins/a.yaml", map(Some("a.yaml"))),
                mount("/cache", Source::Memory { size: 9 }),
            ],
        }
    }

    fn sandbox<'a>(pod: &'a Pod, root: &'a Path) -> Sandbox<'a> {
        let (config_maps, account) = (Path::new("/maps"), Path::new("/account"));
        let environment = vec!["A=b=c".to_owned()];
        let seccomp = Path::new("/seccomp");
        Sandbox { pod, root, config_maps, account, environment, needs_libraries: false, seccomp }
    }

    #[test]
    fn the_container_gets_what_the_pod_says_and_nothing_else() {
        let pod = pod();
        let arguments = sandbox(&pod, Path::new("/image")).arguments();
        let arguments: Vec<_> = arguments.iter().map(|argument| argument.to_string_lossy()).collect();
        let line = arguments.join(" ");
        for part in [
            "--cap-drop ALL --seccomp 0 --uid 7 --gid 8 --ro-bind /image / ",
            " --ro-bind /maps/m /etc/host --ro-bind /maps/m/a.yaml /plugins/a.yaml ",
            " --perms 1777 --size 9 --tmpfs /cache ",
            " --ro-bind /account /var/run/secrets/kubernetes.io/serviceaccount ",
            " --clearenv --chdir / --setenv A b=c -- pilothouse run",
        ] {
            assert!(line.contains(part), "{part}: {line}");
        }
        assert!(!line.contains("--bind") && !line.contains("/usr/lib"), "{line}");
        let without_token = Pod { has_token: false, ..pod };
        let arguments = sandbox(&without_token, Path::new("/image")).arguments();
        assert!(!arguments.contains(&"/account".into()));
    }

    #[test]
    fn mount_points_are_created_without_changing_files_of_the_image() {
        let folder = tempfile::tempdir().expect("a folder");
        let pod = pod();
        let sandbox = sandbox(&pod, folder.path());
        fs::create_dir(folder.path().join("plugins")).expect("created");
        fs::write(folder.path().join("plugins/a.yaml"), "kept").expect("written");
        for _ in 0..2 {
            sandbox.create_mount_points().expect("created");
        }
        assert_eq!(fs::read_to_string(folder.path().join("plugins/a.yaml")).expect("a file"), "kept");
        for path in ["proc", "cache", "etc/host", "var/run/secrets/kubernetes.io/serviceaccount"] {
            assert!(folder.path().join(path).is_dir(), "{path}");
        }
    }
}
