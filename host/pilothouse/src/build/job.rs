//! The services that a language's builder uses: finding and running tools, progress, and a scratch folder.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::Progress;
use crate::CommandError;

/// A build in progress.
#[derive(Debug)]
pub(crate) struct Job {
    project: PathBuf,
    scratch: PathBuf,
    progress: Progress,
    stop: CancellationToken,
}

/// The output of a tool that succeeded.
#[derive(Debug)]
pub(crate) struct ToolOutput {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// What a tool's output is for.
#[derive(Clone, Copy)]
pub(crate) struct OutputFormat {
    /// Whether standard output is data for the builder, which is never shown.
    pub(crate) has_data_on_stdout: bool,
    /// Whether a line of standard error only reports progress. Such a line is not shown after a failure.
    pub(crate) is_progress: fn(&str) -> bool,
    /// Describes how far the tool has got, given its standard error so far.
    pub(crate) describe_progress: fn(&str) -> Option<String>,
}

impl OutputFormat {
    /// Both streams are text for people, without progress.
    pub(crate) const TEXT: Self =
        Self { has_data_on_stdout: false, is_progress: |_| false, describe_progress: |_| None };

    /// Returns the lines that explain a failure.
    fn failure_lines(self, output: &ToolOutput) -> impl Iterator<Item = &str> {
        let stdout = if self.has_data_on_stdout { "" } else { output.stdout.as_str() };
        let stderr = output.stderr.lines().filter(move |line| !(self.is_progress)(line));
        stdout.lines().chain(stderr)
    }
}

/// How long a tool may take to exit after SIGTERM before it is killed.
const GRACE_PERIOD: Duration = Duration::from_secs(2);
/// How long to keep reading output after a tool has exited. A process that the tool left behind may hold the pipe open.
const OUTPUT_DRAIN_TIMEOUT: Duration = Duration::from_millis(500);

impl Job {
    pub(super) fn new(
        project: PathBuf,
        scratch: PathBuf,
        progress: Progress,
        stop: CancellationToken,
    ) -> Self {
        Self { project, scratch, progress, stop }
    }

    /// Returns the absolute path of the project's folder.
    pub(crate) fn project(&self) -> &Path {
        &self.project
    }

    /// Returns a folder for temporary files. It is removed at the end of the build.
    pub(crate) fn scratch(&self) -> &Path {
        &self.scratch
    }

    /// Returns the name of the project's folder, which is the plugin's name if the project has no manifest.
    pub(crate) fn folder_name(&self) -> String {
        self.project.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Returns the path of a tool in PATH.
    ///
    /// # Errors
    /// Errors if the tool is not in PATH. The text includes `install`: the command that installs it, such as
    /// `sudo apt-get install golang-go`, or where to download it.
    pub(crate) fn find_tool(&self, name: &str, install: &str) -> Result<PathBuf, CommandError> {
        find_in_path(name).ok_or_else(|| {
            let project = self.project.display();
            CommandError::Failure(format!(
                "{project}: {name} is required but not in PATH; install it: {install}"
            ))
        })
    }

    /// Returns an error about this project. `problem` says what is wrong and what to do.
    pub(crate) fn error(&self, problem: impl std::fmt::Display) -> CommandError {
        CommandError::Failure(format!("{}: {problem}", self.project.display()))
    }

    /// Prints a line to the user.
    pub(crate) fn print(&self, line: &str) {
        self.progress.print(line);
    }

    /// Runs a tool until it exits and shows the step's name as progress. The tool's output is captured, and printed only if the
    /// tool fails. A command without a working directory runs in the project's folder.
    ///
    /// Cancelling the build or dropping the future terminates the tool and its child processes.
    ///
    /// # Errors
    /// Errors if the tool cannot be started or fails, or the build is interrupted.
    pub(crate) async fn run(&self, step: &str, command: Command) -> Result<ToolOutput, CommandError> {
        self.run_with_format(step, command, OutputFormat::TEXT).await
    }

    /// Runs a tool like [`run`](Self::run), whose output has the given format.
    ///
    /// # Errors
    /// See [`run`](Self::run).
    pub(crate) async fn run_with_format(
        &self,
        step: &str,
        mut command: Command,
        format: OutputFormat,
    ) -> Result<ToolOutput, CommandError> {
        if command.get_current_dir().is_none() {
            command.current_dir(&self.project);
        }
        let program = command.get_program().to_string_lossy().into_owned();
        let mut command = tokio::process::Command::from(command);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        // A process group of its own, so that a signal also reaches the compilers that cargo or npm started.
        command.process_group(0);
        let mut child = command
            .spawn()
            .map_err(|error| self.error(format_args!("{step}: cannot start {program}: {error}")))?;
        let group = ProcessGroup::of(&child);
        let (stdout, stderr) =
            (OutputCapture::from(child.stdout.take()), OutputCapture::from(child.stderr.take()));
        let exit = async {
            let status = child.wait().await;
            let _ = timeout(OUTPUT_DRAIN_TIMEOUT, async { (stdout.end().await, stderr.end().await) }).await;
            status
        };
        let detail = || (format.describe_progress)(&stderr.text());
        let status = tokio::select! {
            status = self.progress.show_while(step, &detail, exit) => status,
            () = self.stop.cancelled() => {
                group.signal(Signal::TERM);
                let _ = timeout(GRACE_PERIOD, child.wait()).await;
                return Err(self.interrupted());
            }
        };
        let status =
            status.map_err(|error| self.error(format_args!("{step}: cannot wait for {program}: {error}")))?;
        group.disarm();
        let output = ToolOutput { stdout: stdout.text(), stderr: stderr.text() };
        if status.success() {
            return Ok(output);
        }
        for line in format.failure_lines(&output) {
            self.progress.print(line);
        }
        Err(self.error(format_args!("{step}: {program} failed ({status}); see its output above")))
    }

    /// Awaits a future and shows the step's name as progress.
    ///
    /// # Errors
    /// Errors if the build is interrupted.
    pub(crate) async fn wait<T>(&self, step: &str, work: impl Future<Output = T>) -> Result<T, CommandError> {
        tokio::select! {
            output = self.progress.show_while(step, &|| None, work) => Ok(output),
            () = self.stop.cancelled() => Err(self.interrupted()),
        }
    }

    /// Runs blocking work on another thread and shows the step's name as progress. An interruption does not stop the work itself.
    ///
    /// # Errors
    /// Errors if the work panics or the build is interrupted.
    pub(crate) async fn run_blocking<T: Send + 'static>(
        &self,
        step: &str,
        work: impl FnOnce(&Progress) -> T + Send + 'static,
    ) -> Result<T, CommandError> {
        let progress = self.progress.clone();
        let work = tokio::task::spawn_blocking(move || work(&progress));
        self.wait(step, work).await?.map_err(|error| self.error(format_args!("{step}: {error}")))
    }

    fn interrupted(&self) -> CommandError {
        self.error("interrupted; the previous plugin, if any, is unchanged")
    }
}

/// Returns the first executable with this name in PATH.
fn find_in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// A tool and its child processes. Dropping it kills them all, unless [`ProcessGroup::disarm`] was called.
struct ProcessGroup(Option<Pid>);

impl ProcessGroup {
    fn of(child: &tokio::process::Child) -> Self {
        Self(child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)))
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = self.0 {
            // Fails if the group has exited in the meantime.
            let _ = kill_process_group(pid, signal);
        }
    }

    /// Prevents the kill on drop. Called once the tool has exited, because its process id may then be reused.
    fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

/// Captures a pipe's output in a background task, so that the writer never blocks on a full pipe.
struct OutputCapture {
    bytes: Arc<Mutex<Vec<u8>>>,
    ended: CancellationToken,
}

impl OutputCapture {
    fn from(pipe: Option<impl AsyncRead + Unpin + Send + 'static>) -> Self {
        let (bytes, ended) = (Arc::<Mutex<Vec<u8>>>::default(), CancellationToken::new());
        let (buffer, end_guard) = (Arc::clone(&bytes), ended.clone().drop_guard());
        tokio::spawn(async move {
            let _end_guard = end_guard;
            let Some(mut pipe) = pipe else { return };
            let mut chunk = vec![0; 8192];
            while let Ok(count @ 1..) = pipe.read(&mut chunk).await {
                buffer.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&chunk[..count]);
            }
        });
        Self { bytes, ended }
    }

    /// Completes when the pipe has been closed.
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

    fn text(error: CommandError) -> String {
        match error {
            CommandError::Failure(text) | CommandError::Usage(text) => text,
        }
    }

    #[tokio::test]
    async fn stdout_and_stderr_are_captured_separately() {
        let output = job(&CancellationToken::new()).run("echo", shell("echo out; echo err >&2")).await;
        let output = output.expect("it succeeds");
        assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("out\n", "err\n"));
    }

    #[test]
    fn data_and_progress_are_not_shown_after_a_failure() {
        let output = ToolOutput { stdout: "out\n".to_owned(), stderr: "> one\nerror: no\n".to_owned() };
        let lines = |format: OutputFormat| format.failure_lines(&output).collect::<Vec<_>>().join("|");
        assert_eq!(lines(OutputFormat::TEXT), "out|> one|error: no");
        let is_progress: fn(&str) -> bool = |line| line.starts_with('>');
        let format = OutputFormat { has_data_on_stdout: true, is_progress, ..OutputFormat::TEXT };
        assert_eq!(lines(format), "error: no");
    }

    #[tokio::test]
    async fn error_of_a_failing_tool_names_the_step_and_the_exit_status() {
        let error = job(&CancellationToken::new()).run("compile", shell("exit 3")).await.expect_err("fails");
        let text = text(error);
        assert!(text.contains("compile: sh failed") && text.contains("exit status: 3"), "{text}");
    }

    #[tokio::test]
    async fn error_of_a_missing_tool_says_how_to_install_it() {
        let error =
            job(&CancellationToken::new()).find_tool("no-such-tool", "apt install it").expect_err("missing");
        let text = text(error);
        assert!(
            text.contains("no-such-tool is required") && text.ends_with("install it: apt install it"),
            "{text}"
        );
    }

    #[tokio::test]
    async fn an_interruption_terminates_the_tool_and_its_children() {
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
        let (result, ()) = tokio::join!(job.run("sleep", shell(&script)), interrupt);
        assert!(text(result.expect_err("interrupted")).contains("interrupted"));
        let pid = std::fs::read_to_string(&pid_file).expect("written");
        // A process that has exited remains as a zombie until its new parent waits for it.
        loop {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
            if stat.is_empty() || stat.contains(") Z ") {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    #[tokio::test]
    async fn a_background_process_does_not_delay_the_step() {
        let output = job(&CancellationToken::new()).run("leave", shell("sleep 5 & echo done")).await;
        assert_eq!(output.expect("it succeeds").stdout, "done\n");
    }
}
