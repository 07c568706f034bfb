//! A process that compiles or checks one plugin and ends. Its memory is freed when it ends, and a crash of it fails only the load of that plugin.
//!
//! The process reads the plugin from its standard input, which stays open: end of file means that the host is gone, and the process must
//! end. Its standard output is the file for the result. If it exits with 1, its last line on standard error says what is wrong with the
//! plugin.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;
use tokio::time::timeout;

use crate::LoadError;
use crate::artifact;
use crate::load::one_line;

/// How a compiler process is started. It gets the size of the plugin in bytes as its last argument, and calls
/// [`write_compiled`](crate::write_compiled). With [`CHECK_ARGUMENT`] after the size, it calls [`check_plugin`](crate::check_plugin) instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompilerProcess {
    /// The executable. It must be this process's own, so that both have the same engine.
    pub program: PathBuf,
    /// The arguments before the size.
    pub arguments: Vec<OsString>,
    /// How long the process may take.
    pub timeout: Duration,
}

/// Prefix of the line on standard error that says what is wrong with the plugin.
const REFUSAL_PREFIX: &str = "error: ";
/// Prefix of the line on standard error that says how much memory the compiler process may take, in MiB.
pub const COMPILER_MEMORY_PREFIX: &str = "memory in MiB: ";
/// The argument after the size of a process that only checks the plugin.
pub const CHECK_ARGUMENT: &str = "check";
/// How long a check may take. A file that takes longer is left to the compiler, which has a timeout of its own.
const CHECK_TIMEOUT: Duration = Duration::from_mins(1);
/// How much of the end of standard error is kept, in bytes.
const STDERR_TAIL_SIZE: usize = 8 << 10;

impl CompilerProcess {
    /// Compiles a plugin to an anonymous file.
    ///
    /// # Cancellation safety
    /// Dropping the future ends the process.
    pub(super) async fn compile(&self, bytes: Vec<u8>) -> Result<File, LoadError> {
        let file = artifact::anonymous().map_err(|error| LoadError::artifact_file(&error))?;
        let output = file.try_clone().map_err(|error| LoadError::artifact_file(&error))?;
        let running = self.run(bytes, &[], output.into());
        let Ok(ended) = timeout(self.timeout, running).await else {
            return Err(LoadError::Compile {
                message: format!(
                    "the compiler took longer than its limit of {} s: make the plugin smaller, or reduce the load of this machine",
                    self.timeout.as_secs()
                ),
            });
        };
        let (status, stderr) = ended?;
        if status.success() { Ok(file) } else { Err(load_error(status, &stderr)) }
    }

    /// Checks a plugin without compiling it. Errors only with what is wrong with the plugin: any other problem, such as a crash, is left to the
    /// compiler, which reports it.
    ///
    /// # Cancellation safety
    /// Dropping the future ends the process.
    pub(super) async fn check(&self, bytes: &[u8]) -> Result<(), LoadError> {
        let running = self.run(bytes, &[CHECK_ARGUMENT], Stdio::null());
        let Ok(Ok((status, stderr))) = timeout(CHECK_TIMEOUT, running).await else { return Ok(()) };
        match load_error(status, &stderr) {
            refused @ LoadError::Refused(_) => Err(refused),
            _ => Ok(()),
        }
    }

    /// Runs the process with these arguments after the size of the plugin. Returns its status and the end of its standard error.
    async fn run(
        &self,
        bytes: impl AsRef<[u8]>,
        arguments: &[&str],
        output: Stdio,
    ) -> Result<(ExitStatus, String), LoadError> {
        let spawn_error = |error: std::io::Error| {
            LoadError::Internal(format!(
                "cannot start the compiler process {}: {error}",
                self.program.display()
            ))
        };
        let mut child = Command::new(&self.program)
            .args(&self.arguments)
            .arg(bytes.as_ref().len().to_string())
            .args(arguments)
            // The compiler needs nothing of this process's environment.
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(output)
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            // An interruption at the terminal is for this process, which then drops the compiler. Without this, it would look like a crash.
            .process_group(0)
            .spawn()
            .map_err(spawn_error)?;
        let (mut stdin, stderr) = (child.stdin.take(), child.stderr.take());
        if let Some(stdin) = &mut stdin {
            // Writing fails if the process ended early; its status and standard error say why.
            let _ = stdin.write_all(bytes.as_ref()).await;
            let _ = stdin.flush().await;
        }
        drop(bytes);
        let stderr = match stderr {
            Some(stderr) => read_tail(stderr).await,
            None => String::new(),
        };
        Ok((child.wait().await.map_err(spawn_error)?, stderr))
    }
}

/// Reads a stream until it is closed, and returns its end.
async fn read_tail(mut stream: impl AsyncRead + Unpin) -> String {
    let mut tail = Vec::new();
    let mut buffer = vec![0; 4096];
    while let Ok(read @ 1..) = stream.read(&mut buffer).await {
        tail.extend_from_slice(&buffer[..read]);
        tail.drain(..tail.len().saturating_sub(STDERR_TAIL_SIZE));
    }
    String::from_utf8_lossy(&tail).into_owned()
}

/// Returns what the failure of a compiler process means for the plugin.
fn load_error(status: ExitStatus, stderr: &str) -> LoadError {
    let last = stderr.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    match (status.code(), last.strip_prefix(REFUSAL_PREFIX)) {
        (Some(1), Some(refusal)) => LoadError::Refused(one_line(refusal)),
        _ => {
            // The allocator aborts (signal 6) when it is out of memory. Signal 9 may have any sender.
            if status.signal() == Some(6)
                && let Some(mebibytes) =
                    stderr.lines().find_map(|line| line.strip_prefix(COMPILER_MEMORY_PREFIX)?.parse().ok())
            {
                return LoadError::CompilerMemory { mebibytes };
            }
            let status = match (status.code(), status.signal()) {
                (_, Some(signal)) => format!("was ended by signal {signal}"),
                (Some(code), _) => format!("ended with {code}"),
                _ => "failed".to_owned(),
            };
            LoadError::CompilerFailed { status, stderr: one_line(stderr) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> CompilerProcess {
        CompilerProcess {
            program: "/bin/sh".into(),
            arguments: vec!["-c".into(), script.into(), "sh".into()],
            timeout: Duration::from_secs(60),
        }
    }

    async fn error_of(script: &str) -> String {
        shell(script).compile(b"bytes".to_vec()).await.expect_err("no result").to_string()
    }

    #[tokio::test]
    async fn the_result_is_the_standard_output_and_the_last_argument_is_the_size() {
        use std::io::{Read, Seek};

        let mut file =
            shell("head -c $1; echo $1; echo noise >&2").compile(b"bytes".to_vec()).await.expect("a result");
        let mut text = String::new();
        file.rewind().expect("rewound");
        file.read_to_string(&mut text).expect("text");
        assert_eq!(text, "bytes5\n");
    }

    #[tokio::test]
    async fn a_refusal_becomes_the_error_message() {
        assert_eq!(
            error_of("echo a warning >&2; echo 'error: not a plugin' >&2; exit 1").await,
            "not a plugin"
        );
    }

    #[tokio::test]
    async fn the_error_of_a_crash_has_its_status_and_standard_error() {
        let text = error_of("echo 'memory allocation of 9 bytes failed' >&2; kill -ABRT $$").await;
        assert!(text.contains("signal 6") && text.contains("memory allocation of 9 bytes failed"), "{text}");
        let text = error_of("exit 101").await;
        assert!(text.contains("ended with 101"), "{text}");
    }

    #[tokio::test]
    async fn running_out_of_memory_is_reported_with_the_limit() {
        let ended_by = async |signal: &str| {
            error_of(&format!("echo '{COMPILER_MEMORY_PREFIX}512' >&2; kill -{signal} $$")).await
        };
        let text = ended_by("ABRT").await;
        assert!(text.starts_with("compiling it took more than 512 MiB"), "{text}");
        // The kernel or a user may have sent it.
        let text = ended_by("KILL").await;
        assert!(text.contains("was ended by signal 9") && text.contains("512"), "{text}");
    }

    #[tokio::test]
    async fn a_check_errors_only_with_what_is_wrong_with_the_plugin() {
        let check = async |script: &str| shell(script).check(b"bytes").await;
        let refused = check("echo \"error: $1 bytes for $2\" >&2; exit 1").await;
        assert_eq!(refused, Err(LoadError::Refused("5 bytes for check".to_owned())));
        assert_eq!(check("echo 'error: it succeeded' >&2").await, Ok(()));
        assert_eq!(check("kill -SEGV $$").await, Ok(()), "the compiler reports the crash");
        assert_eq!(check("exit 2").await, Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_check_that_does_not_end_is_left_to_the_compiler() {
        assert_eq!(shell("cat >/dev/null").check(b"").await, Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_that_does_not_end_is_killed_after_the_timeout() {
        // The standard input never ends, and virtual time advances to the limit at once.
        let text = error_of("cat >/dev/null").await;
        assert!(text.contains("60 s"), "{text}");
    }

    #[tokio::test]
    async fn a_missing_executable_is_an_internal_error() {
        let process = CompilerProcess { program: "/nowhere/compiler".into(), ..shell("") };
        let error = process.compile(Vec::new()).await.expect_err("no result");
        assert!(matches!(error, LoadError::Internal(_)), "{error}");
    }
}
