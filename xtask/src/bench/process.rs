//! Runs a consumer against its own fixture server and measures its memory and CPU time.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

/// The kernel counts CPU time in hundredths of a second.
const TICK: f64 = 0.01;

/// Changes of many kinds to Pods of 400 workloads, as in clusters.
pub(super) const REALISTIC: &str = "realistic";
/// Versions that differ in the resource version and two timestamps.
pub(super) const UNIFORM: &str = "uniform";

/// The objects and events that the fixture server sends.
#[derive(Clone, Debug)]
pub(super) struct Workload {
    pub(super) objects: usize,
    pub(super) events: usize,
    /// [`REALISTIC`] or [`UNIFORM`].
    pub(super) traffic: &'static str,
    /// `packed`: 64 KiB of events per HTTP chunk; `chunked`: one chunk per event.
    pub(super) framing: &'static str,
    /// Events per second; `None` for as fast as possible.
    pub(super) rate: Option<usize>,
    /// Whether the objects have 300 bytes instead of 3.5 KB.
    pub(super) small: bool,
    /// Folder with the response bodies for a client that uses protobuf.
    pub(super) protobuf: Option<PathBuf>,
}

/// How long to wait until an allocator has returned its free memory, which takes up to ten seconds.
pub(super) const ALLOCATOR_RELEASE_TIME: Duration = Duration::from_secs(12);

/// The resources that a process has used.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    pub(super) resident_mib: f64,
    /// The part of the resident memory that is not mapped from files.
    pub(super) private_mib: f64,
    pub(super) peak_mib: f64,
    pub(super) cpu_seconds: f64,
}

/// One run of one consumer.
#[derive(Clone, Debug, Default)]
pub(super) struct Run {
    /// Seconds from the consumer's start until its cache was in sync.
    pub(super) list_seconds: f64,
    /// Seconds from the start of the events until the consumer had received the last one.
    pub(super) event_seconds: f64,
    /// Number of delivered events.
    pub(super) delivered: f64,
    /// Usage after the list.
    pub(super) listed: Usage,
    /// Usage after the events.
    pub(super) done: Usage,
    /// Usage [`ALLOCATOR_RELEASE_TIME`] after `done`, if the run waited for it.
    pub(super) idle: Option<Usage>,
    /// The JSON line that the consumer printed at the end.
    pub(super) output: Value,
}

/// A child process whose standard output is read. Dropping this kills the process.
pub(super) struct PipedProcess {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl PipedProcess {
    /// Returns the process ID.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn start(program: &Path, arguments: &[String]) -> Result<Self> {
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("start {}", program.display()))?;
        let lines = BufReader::new(child.stdout.take().context("it has no output")?);
        Ok(Self { child, lines })
    }

    /// Starts a process without reading its output.
    pub(super) fn start_in_background(program: &Path, arguments: &[String]) -> Result<BackgroundProcess> {
        let started = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Ok(BackgroundProcess(started.with_context(|| format!("start {}", program.display()))?))
    }

    /// Reads the next line that the process prints.
    pub(super) fn read_line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.lines.read_line(&mut line).context("read the output of a process")?;
        ensure!(!line.is_empty(), "a process exited early: {:?}", self.child.wait());
        Ok(line)
    }

    /// Reads the next line, which is JSON.
    pub(super) fn read_json(&mut self) -> Result<Value> {
        let line = self.read_line()?;
        serde_json::from_str(&line).with_context(|| format!("a process printed {line:?} instead of JSON"))
    }

    pub(super) fn usage(&self) -> Result<Usage> {
        usage(self.id())
    }
}

/// A child process whose output is discarded. Dropping this kills the process.
pub(super) struct BackgroundProcess(Child);

impl BackgroundProcess {
    /// Returns the process ID.
    pub(super) fn id(&self) -> u32 {
        self.0.id()
    }

    pub(super) fn usage(&self) -> Result<Usage> {
        usage(self.id())
    }
}

impl Drop for BackgroundProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns what the process with this ID has used.
pub(super) fn usage(id: u32) -> Result<Usage> {
    let read = |file: &str| {
        let path = format!("/proc/{id}/{file}");
        fs::read_to_string(&path).with_context(|| format!("read {path}"))
    };
    let (status, stat) = (read("status")?, read("stat")?);
    let mib = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        line.split_ascii_whitespace().nth(1).and_then(|kib| kib.parse::<f64>().ok()).unwrap_or_default()
            / 1024.0
    };
    // Skips the name, which is in parentheses and may contain spaces. The 12th and 13th of the following fields are the user and
    // the system time.
    let fields: Vec<_> = stat.rsplit(')').next().unwrap_or_default().split_ascii_whitespace().collect();
    let ticks =
        |index: usize| fields.get(index).and_then(|ticks| ticks.parse::<f64>().ok()).unwrap_or_default();
    Ok(Usage {
        resident_mib: mib("VmRSS"),
        private_mib: mib("RssAnon"),
        peak_mib: mib("VmHWM"),
        cpu_seconds: (ticks(11) + ticks(12)) * TICK,
    })
}

impl Drop for PipedProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Lets the consumer that uses protobuf write the fixture's objects and events as protobuf to `folder`.
pub(super) fn write_protobuf(fixture: &Path, writer: &Path, work: &Workload, folder: &Path) -> Result<()> {
    let (objects, events) = (work.objects.to_string(), work.events.to_string());
    let served = ["--objects", &objects, "--events", &events, "--traffic", work.traffic].map(str::to_owned);
    let mut fixture = PipedProcess::start(fixture, &served)?;
    let listening = fixture.read_json()?;
    let server = listening["listening"].as_str().context("the fixture server did not print its address")?;
    fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
    let written = Command::new(writer)
        .args(["--server", server, "--objects", &objects, "--events", &events, "--write-protobuf"])
        .arg(folder)
        .status()
        .with_context(|| format!("start {}", writer.display()))?;
    ensure!(written.success(), "{} could not write the fixture as protobuf: {written}", writer.display());
    Ok(())
}

/// Starts a fixture server and returns it with its URL.
pub(super) fn serve(fixture: &Path, work: &Workload) -> Result<(PipedProcess, String)> {
    let (objects, events) = (work.objects.to_string(), work.events.to_string());
    let served = ["--objects", &objects, "--events", &events, "--traffic", work.traffic];
    let mut served: Vec<String> = served.map(str::to_owned).into();
    served.extend(["--framing", work.framing].map(str::to_owned));
    if let Some(rate) = work.rate {
        served.extend(["--rate".to_owned(), rate.to_string()]);
    }
    if work.small {
        served.push("--small".to_owned());
    }
    if let Some(folder) = &work.protobuf {
        served.extend(["--protobuf-dir".to_owned(), folder.display().to_string()]);
    }
    let mut fixture = PipedProcess::start(fixture, &served)?;
    let listening = fixture.read_json()?;
    let Some(server) = listening["listening"].as_str() else {
        bail!("the fixture server printed {listening}")
    };
    Ok((fixture, server.to_owned()))
}

/// A fixture server and a consumer whose cache is in sync.
pub(super) struct SyncedConsumer {
    // Declared before the server, so that it is dropped first.
    process: PipedProcess,
    _fixture: PipedProcess,
    server: String,
    list_seconds: f64,
    usage: Usage,
}

impl SyncedConsumer {
    #[expect(clippy::disallowed_methods, reason = "another process works meanwhile, in real time")]
    fn start(fixture: &Path, consumer: &Path, mode: &[&str], work: &Workload) -> Result<Self> {
        let (objects, events) = (work.objects.to_string(), work.events.to_string());
        let (fixture, server) = serve(fixture, work)?;
        let mut arguments: Vec<String> =
            ["--server", &server, "--objects", &objects, "--events", &events].map(str::to_owned).into();
        arguments.extend(mode.iter().map(|&word| word.to_owned()));
        let start = SystemTime::now();
        let mut process = PipedProcess::start(consumer, &arguments)?;
        ensure!(process.read_json()?["at"] == "listed", "the consumer did not report the end of the list");
        let list_seconds = start.elapsed().unwrap_or_default().as_secs_f64();
        settle();
        let usage = process.usage()?;
        Ok(Self { process, _fixture: fixture, server, list_seconds, usage })
    }
}

/// Runs a consumer: waits until it has listed, then sends the events.
pub(super) fn run(fixture: &Path, consumer: &Path, mode: &[&str], work: &Workload) -> Result<Run> {
    measure(fixture, consumer, mode, work, false)
}

/// Runs a consumer like [`run`] and also measures its usage once its allocator has returned free memory.
pub(super) fn run_and_idle(fixture: &Path, consumer: &Path, mode: &[&str], work: &Workload) -> Result<Run> {
    measure(fixture, consumer, mode, work, true)
}

#[expect(clippy::disallowed_methods, reason = "another process works meanwhile, in real time")]
fn measure(fixture: &Path, consumer: &Path, mode: &[&str], work: &Workload, wait_idle: bool) -> Result<Run> {
    let mut synced = SyncedConsumer::start(fixture, consumer, mode, work)?;
    let start = SystemTime::now();
    ureq::post(&format!("{}/fixture/start", synced.server)).send_empty().context("start the events")?;
    let output = synced.process.read_json()?;
    let event_seconds = start.elapsed().unwrap_or_default().as_secs_f64();
    settle();
    let done = synced.process.usage()?;
    let idle = if wait_idle {
        pause(ALLOCATOR_RELEASE_TIME);
        Some(synced.process.usage()?)
    } else {
        None
    };
    let delivered = output["delivered"].as_f64().unwrap_or_default();
    let SyncedConsumer { list_seconds, usage: listed, .. } = synced;
    Ok(Run { list_seconds, event_seconds, delivered, listed, done, idle, output })
}

/// The resident memory of a consumer before, during and after a relist.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Relist {
    pub(super) before_mib: f64,
    pub(super) peak_mib: f64,
    pub(super) after_mib: f64,
}

/// Runs a consumer, and lets it relist after `percent` percent of the objects have changed.
#[expect(clippy::disallowed_methods, reason = "another process works meanwhile, in real time")]
pub(super) fn relist(
    fixture: &Path,
    consumer: &Path,
    mode: &[&str],
    work: &Workload,
    percent: usize,
) -> Result<Relist> {
    let synced = SyncedConsumer::start(fixture, consumer, mode, work)?;
    // Writing 5 to clear_refs resets VmHWM, so that the peak is that of the relist.
    let peak = format!("/proc/{}/clear_refs", synced.process.child.id());
    fs::write(&peak, "5").with_context(|| format!("write {peak}"))?;
    let opened_watches = || -> Result<u64> {
        let url = format!("{}/fixture/watches", synced.server);
        let mut response = ureq::get(&url).call().with_context(|| format!("get {url}"))?;
        let body = response.body_mut().read_to_string().with_context(|| format!("read {url}"))?;
        let body: Value = serde_json::from_str(&body).with_context(|| format!("{url} is not JSON"))?;
        body["opened"].as_u64().with_context(|| format!("{url} has no number of watches"))
    };
    let before = opened_watches()?;
    let url = format!("{}/fixture/expire?changed={percent}", synced.server);
    ureq::post(&url).send_empty().context("let the watch expire")?;
    for _ in 0..1200 {
        if opened_watches()? > before {
            settle();
            let usage = synced.process.usage()?;
            return Ok(Relist {
                before_mib: synced.usage.resident_mib,
                peak_mib: usage.peak_mib,
                after_mib: usage.resident_mib,
            });
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    bail!("the consumer did not open a new watch within 60 s")
}

/// Waits until another process has written a file.
#[expect(clippy::disallowed_methods, reason = "another process works meanwhile, in real time")]
pub(super) fn wait_for_file(file: &Path) -> Result<()> {
    for _ in 0..600 {
        if file.exists() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    bail!("{} was not written within 30 s", file.display())
}

/// Waits a second, so that memory that a process frees right after its work is not counted.
pub(super) fn settle() {
    pause(Duration::from_secs(1));
}

/// Sleeps while other processes work.
#[expect(clippy::disallowed_methods, reason = "another process works meanwhile, in real time")]
pub(super) fn pause(time: Duration) {
    std::thread::sleep(time);
}
