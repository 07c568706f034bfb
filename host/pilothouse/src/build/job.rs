//! A build under way: what a recipe may use.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::Progress;
use crate::Failed;

/// A build under way.
#[derive(Debug)]
pub(crate) struct Job {
    project: PathBuf,
    scratch: PathBuf,
    progress: Progress,
    stop: CancellationToken,
}

/// What a tool that succeeded has said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// How long a tool may take to end when it is asked to.
const GRACE: Duration = Duration::from_secs(2);
/// How long output is still read after a tool's end: a process that it left behind may hold the pipe open.
const LAST_OUTPUT: Duration = Duration::from_millis(500);

impl Job {
    pub(super) fn new(
        project: PathBuf,
        scratch: PathBuf,
        progress: Progress,
        stop: CancellationToken,
    ) -> Self {
        Self { project, scratch, progress, stop }
    }

    /// The project's folder, absolute.
    pub(crate) fn project(&self) -> &Path {
        &self.project
    }

    /// A folder for this build's own files; it goes when the build has ended.
    pub(crate) fn scratch(&self) -> &Path {
        &self.scratch
    }

    /// The folder's name: what a project without a manifest is called.
    pub(crate) fn folder_name(&self) -> String {
        self.project.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Where the tool is in PATH.
    ///
    /// # Errors
    /// It is not: the text says what needs it and has `install`, the line that brings it, such as
    /// `sudo apt-get install golang-go`, or an address and what to choose there.
    pub(crate) fn tool(&self, name: &str, install: &str) -> Result<PathBuf, Failed> {
        find_in_path(name).ok_or_else(|| {
            let project = self.project.display();
            Failed::Work(format!("{project}: {name} is needed and is not in PATH; install it: {install}"))
        })
    }

    /// A failure of this project, for faults that a recipe finds itself. The text says what is wrong and what to do.
    pub(crate) fn failed(&self, problem: impl std::fmt::Display) -> Failed {
        Failed::Work(format!("{}: {problem}", self.project.display()))
    }

    /// Says a line to the person who waits.
    pub(crate) fn say(&self, line: &str) {
        self.progress.say(line);
    }

    /// Runs a tool to its end, under the step's name. Its output is kept back, and shown if it fails. A command without a
    /// directory of its own runs in the project's folder.
    ///
    /// # Errors
    /// It cannot be started, it fails, or the build is interrupted (then it and its children are ended).
    pub(crate) async fn run(&self, step: &str, mut command: Command) -> Result<Said, Failed> {
        if command.get_current_dir().is_none() {
            command.current_dir(&self.project);
        }
        let program = command.get_program().to_string_lossy().into_owned();
        let mut command = tokio::process::Command::from(command);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        // A group of its own, so that the compilers behind cargo or npm end with it.
        command.process_group(0);
        let mut child =
            command.spawn().map_err(|error| self.failed(format_args!("{step}: start {program}: {error}")))?;
        let group = Group::of(&child);
        let (stdout, stderr) = (Captured::from(child.stdout.take()), Captured::from(child.stderr.take()));
        let waiting = async {
            let status = child.wait().await;
            let _ = timeout(LAST_OUTPUT, async { (stdout.end().await, stderr.end().await) }).await;
            status
        };
        let ended = tokio::select! {
            ended = self.progress.during(step, waiting) => ended,
            () = self.stop.cancelled() => {
                group.signal(Signal::TERM);
                let _ = timeout(GRACE, child.wait()).await;
                return Err(self.interrupted());
            }
        };
        let status =
            ended.map_err(|error| self.failed(format_args!("{step}: wait for {program}: {error}")))?;
        group.has_ended();
        let said = Said { stdout: stdout.text(), stderr: stderr.text() };
        if status.success() {
            return Ok(said);
        }
        for line in said.stdout.lines().chain(said.stderr.lines()) {
            self.progress.say(line);
        }
        Err(self.failed(format_args!("{step}: {program} failed ({status}); its output is above")))
    }

    /// Waits for something of our own, under the step's name.
    ///
    /// # Errors
    /// The build is interrupted.
    pub(crate) async fn wait<T>(&self, step: &str, work: impl Future<Output = T>) -> Result<T, Failed> {
        tokio::select! {
            done = self.progress.during(step, work) => Ok(done),
            () = self.stop.cancelled() => Err(self.interrupted()),
        }
    }

    /// As [`Job::wait`], for work that blocks. An interruption does not end the work itself.
    ///
    /// # Errors
    /// The build is interrupted.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        step: &str,
        work: impl FnOnce(&Progress) -> T + Send + 'static,
    ) -> Result<T, Failed> {
        let progress = self.progress.clone();
        let work = tokio::task::spawn_blocking(move || work(&progress));
        self.wait(step, work).await?.map_err(|error| self.failed(format_args!("{step}: {error}")))
    }

    fn interrupted(&self) -> Failed {
        self.failed("interrupted; what was there is still there")
    }
}

/// The executable of that name.
fn find_in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// A tool with all that it has started; ended when this is dropped before the tool has.
struct Group(Option<Pid>);

impl Group {
    fn of(child: &tokio::process::Child) -> Self {
        Self(child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)))
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = self.0 {
            // It may have ended on its own in between.
            let _ = kill_process_group(pid, signal);
        }
    }

    fn has_ended(mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

/// A pipe that is read as it fills, so that its writer never waits.
struct Captured {
    bytes: Arc<Mutex<Vec<u8>>>,
    ended: CancellationToken,
}

impl Captured {
    fn from(pipe: Option<impl AsyncRead + Unpin + Send + 'static>) -> Self {
        let (bytes, ended) = (Arc::<Mutex<Vec<u8>>>::default(), CancellationToken::new());
        let (kept, end) = (Arc::clone(&bytes), ended.clone().drop_guard());
        tokio::spawn(async move {
            let _end = end;
            let Some(mut pipe) = pipe else { return };
            let mut chunk = vec![0; 8192];
            while let Ok(count @ 1..) = pipe.read(&mut chunk).await {
                kept.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&chunk[..count]);
            }
        });
        Self { bytes, ended }
    }

    async fn end(&self) {
        self.ended.cancelled().await;
    }

    fn text(&self) -> String {
        let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(stop: &CancellationToken) -> Job {
        let here = std::env::temp_dir();
        Job::new(here.clone(), here, Progress::plain(), stop.clone())
    }

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    fn text(failed: Failed) -> String {
        match failed {
            Failed::Work(text) | Failed::Usage(text) => text,
        }
    }

    #[tokio::test]
    async fn the_output_of_a_tool_is_kept_apart() {
        let said = job(&CancellationToken::new()).run("say", shell("echo out; echo err >&2")).await;
        let said = said.expect("it succeeds");
        assert_eq!((said.stdout.as_str(), said.stderr.as_str()), ("out\n", "err\n"));
    }

    #[tokio::test]
    async fn a_failing_tool_fails_the_step_by_name() {
        let failed = job(&CancellationToken::new()).run("compile", shell("exit 3")).await.expect_err("fails");
        let text = text(failed);
        assert!(text.contains("compile: sh failed") && text.contains("exit status: 3"), "{text}");
    }

    #[tokio::test]
    async fn a_missing_tool_gets_its_install_line() {
        let failed =
            job(&CancellationToken::new()).tool("no-such-tool", "apt install it").expect_err("missing");
        let text = text(failed);
        assert!(
            text.contains("no-such-tool is needed") && text.ends_with("install it: apt install it"),
            "{text}"
        );
    }

    #[tokio::test]
    async fn an_interruption_ends_the_tool_with_all_that_it_started() {
        let stop = CancellationToken::new();
        let folder = tempfile::tempdir().expect("a folder");
        let pid_file = folder.path().join("pid");
        let script = format!("sleep 600 & echo $! > {}.new; mv {0}.new {0}; wait", pid_file.display());
        let interrupt = async {
            while !pid_file.exists() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            stop.cancel();
        };
        let job = job(&stop);
        let (ended, ()) = tokio::join!(job.run("sleep", shell(&script)), interrupt);
        assert!(text(ended.expect_err("interrupted")).contains("interrupted"));
        let pid = std::fs::read_to_string(&pid_file).expect("written");
        // A process that has ended may still be listed until its new parent has asked for its end.
        loop {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
            if stat.is_empty() || stat.contains(") Z ") {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    #[tokio::test]
    async fn a_process_left_behind_does_not_hold_the_step() {
        let said = job(&CancellationToken::new()).run("leave", shell("sleep 5 & echo done")).await;
        assert_eq!(said.expect("it succeeds").stdout, "done\n");
    }
}
