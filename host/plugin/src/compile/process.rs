//! A process that compiles one plugin and ends, so that the compiler's memory goes with it and its crash is one plugin's failure.
//!
//! It gets the plugin on its standard input, which stays open: when that ends, its host is gone, and so should it be. Its standard output
//! is the file for the result. Its last line on standard error, where it ends with 1, says what is wrong with the plugin.

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

/// How a compiler process is started. It is given the size of the plugin as its last argument, and does
/// [`write_compiled`](crate::write_compiled).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompilerProcess {
    /// The executable: this process's own, so that both have the same engine.
    pub program: PathBuf,
    /// What comes before the size.
    pub arguments: Vec<OsString>,
    /// How long it may take.
    pub timeout: Duration,
}

/// What begins the line that says what is wrong with the plugin.
const REFUSAL: &str = "error: ";
/// What begins the line by which a compiler process says how many MiB it may take.
pub const COMPILER_MEMORY: &str = "memory in MiB: ";
/// Bytes of standard error that are kept: its end.
const KEPT: usize = 8 << 10;

impl CompilerProcess {
    /// Compiles a plugin into a file without a name.
    ///
    /// # Cancel safety
    /// Dropping the future ends the process.
    pub(super) async fn compile(&self, bytes: Vec<u8>) -> Result<File, LoadError> {
        let file = artifact::anonymous().map_err(|error| LoadError::no_file(&error))?;
        let output = file.try_clone().map_err(|error| LoadError::no_file(&error))?;
        let unstarted = |error: std::io::Error| {
            LoadError::Internal(format!(
                "the compiler process {} can't be started: {error}",
                self.program.display()
            ))
        };
        let mut child = Command::new(&self.program)
            .args(&self.arguments)
            .arg(bytes.len().to_string())
            // Nothing of this process's surroundings is the compiler's business.
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(output)
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(unstarted)?;
        let (mut stdin, stderr) = (child.stdin.take(), child.stderr.take());
        let running = async {
            if let Some(stdin) = &mut stdin {
                // A process that ended early says why at its end.
                let _ = stdin.write_all(&bytes).await;
                let _ = stdin.flush().await;
            }
            drop(bytes);
            let said = match stderr {
                Some(stderr) => end_of(stderr).await,
                None => String::new(),
            };
            (child.wait().await, said)
        };
        let Ok((ended, said)) = timeout(self.timeout, running).await else {
            return Err(LoadError::Compile {
                message: format!(
                    "the compiler has not ended in {} s, which is its limit: make the plugin smaller, or free this machine",
                    self.timeout.as_secs()
                ),
            });
        };
        let status = ended.map_err(unstarted)?;
        if status.success() { Ok(file) } else { Err(refusal(status, &said)) }
    }
}

/// The end of what a process says, when it has closed the stream.
async fn end_of(mut stream: impl AsyncRead + Unpin) -> String {
    let mut said = Vec::new();
    let mut buffer = vec![0; 4096];
    while let Ok(read @ 1..) = stream.read(&mut buffer).await {
        said.extend_from_slice(&buffer[..read]);
        said.drain(..said.len().saturating_sub(KEPT));
    }
    String::from_utf8_lossy(&said).into_owned()
}

/// What a compiler's bad end means.
fn refusal(status: ExitStatus, said: &str) -> LoadError {
    let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    match (status.code(), last.strip_prefix(REFUSAL)) {
        (Some(1), Some(refusal)) => LoadError::Refused(one_line(refusal)),
        _ => {
            // An allocator aborts where there is no more. Who ends it by signal 9 is not known.
            if status.signal() == Some(6)
                && let Some(mebibytes) =
                    said.lines().find_map(|line| line.strip_prefix(COMPILER_MEMORY)?.parse().ok())
            {
                return LoadError::CompilerMemory { mebibytes };
            }
            let how = match (status.code(), status.signal()) {
                (_, Some(signal)) => format!("was ended by signal {signal}"),
                (Some(code), _) => format!("ended with {code}"),
                _ => "ended badly".to_owned(),
            };
            LoadError::CompilerEnded { how, said: one_line(said) }
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

    async fn refused(script: &str) -> String {
        shell(script).compile(b"bytes".to_vec()).await.expect_err("no result").to_string()
    }

    #[tokio::test]
    async fn the_result_is_what_the_process_writes_and_the_size_is_its_last_argument() {
        use std::io::{Read, Seek};

        let mut file =
            shell("head -c $1; echo $1; echo noise >&2").compile(b"bytes".to_vec()).await.expect("a result");
        let mut text = String::new();
        file.rewind().expect("rewound");
        file.read_to_string(&mut text).expect("text");
        assert_eq!(text, "bytes5\n");
    }

    #[tokio::test]
    async fn a_refusal_is_passed_on_as_it_is() {
        assert_eq!(
            refused("echo a warning >&2; echo 'error: not a plugin' >&2; exit 1").await,
            "not a plugin"
        );
    }

    #[tokio::test]
    async fn a_crash_says_how_it_ended_and_what_was_said() {
        let text = refused("echo 'memory allocation of 9 bytes failed' >&2; kill -ABRT $$").await;
        assert!(text.contains("signal 6") && text.contains("memory allocation of 9 bytes failed"), "{text}");
        let text = refused("exit 101").await;
        assert!(text.contains("ended with 101"), "{text}");
    }

    #[tokio::test]
    async fn one_that_needs_too_much_memory_is_the_plugins_fault_and_the_bound_is_said() {
        let ended_by = async |signal: &str| {
            refused(&format!("echo '{COMPILER_MEMORY}512' >&2; kill -{signal} $$")).await
        };
        let text = ended_by("ABRT").await;
        assert!(text.starts_with("compiling it took more than 512 MiB"), "{text}");
        // The kernel may have done it, or a person.
        let text = ended_by("KILL").await;
        assert!(text.contains("was ended by signal 9") && text.contains("512"), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_does_not_end_is_ended() {
        // Its input never ends, and virtual time runs to the limit at once.
        let text = refused("cat >/dev/null").await;
        assert!(text.contains("60 s"), "{text}");
    }

    #[tokio::test]
    async fn a_program_that_is_not_there_is_the_hosts_fault() {
        let process = CompilerProcess { program: "/nowhere/compiler".into(), ..shell("") };
        let error = process.compile(Vec::new()).await.expect_err("no result");
        assert!(matches!(error, LoadError::Internal(_)), "{error}");
    }
}
