//! A consumer at work against a fixture server of its own, and what the kernel says of it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

/// The kernel counts CPU time in hundredths of a second.
const TICK: f64 = 0.01;

/// What the fixture serves.
#[derive(Clone, Debug)]
pub(super) struct Work {
    pub(super) objects: usize,
    pub(super) events: usize,
    pub(super) framing: &'static str,
    pub(super) rate: Option<usize>,
    pub(super) small: bool,
    /// Where the bodies for a client that speaks protobuf are.
    pub(super) protobuf: Option<PathBuf>,
}

/// Allocators give back within ten seconds what is free.
pub(super) const GIVEN_BACK: Duration = Duration::from_secs(12);

/// What a process has used.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    pub(super) resident_mib: f64,
    /// Of that, what is not mapped from files.
    pub(super) private_mib: f64,
    pub(super) peak_mib: f64,
    pub(super) cpu_seconds: f64,
}

/// One run of one consumer.
#[derive(Clone, Debug, Default)]
pub(super) struct Run {
    /// From its start to its cache's sync.
    pub(super) list_seconds: f64,
    pub(super) event_seconds: f64,
    pub(super) delivered: f64,
    pub(super) listed: Usage,
    pub(super) done: Usage,
    /// As `done`, after [`GIVEN_BACK`] more, where that was waited for.
    pub(super) rested: Option<Usage>,
    /// The line that it printed at the end.
    pub(super) said: Value,
}

/// Ends a process with its owner.
pub(super) struct Running {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Running {
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

    /// One whose output nobody reads.
    pub(super) fn start_quietly(program: &Path, arguments: &[String]) -> Result<Quiet> {
        let started = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Ok(Quiet(started.with_context(|| format!("start {}", program.display()))?))
    }

    /// The next line that it prints.
    pub(super) fn text(&mut self) -> Result<String> {
        let mut line = String::new();
        self.lines.read_line(&mut line).context("read what it says")?;
        ensure!(!line.is_empty(), "it ended early: {:?}", self.child.wait());
        Ok(line)
    }

    fn line(&mut self) -> Result<Value> {
        let line = self.text()?;
        serde_json::from_str(&line).with_context(|| format!("it said {line:?}"))
    }

    pub(super) fn usage(&self) -> Result<Usage> {
        usage(&self.child)
    }
}

/// A process that says nothing, which ends with its owner.
pub(super) struct Quiet(Child);

impl Quiet {
    pub(super) fn usage(&self) -> Result<Usage> {
        usage(&self.0)
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn usage(child: &Child) -> Result<Usage> {
    let read = |file: &str| {
        let path = format!("/proc/{}/{file}", child.id());
        fs::read_to_string(&path).with_context(|| format!("read {path}"))
    };
    let (status, stat) = (read("status")?, read("stat")?);
    let mib = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        line.split_ascii_whitespace().nth(1).and_then(|kib| kib.parse::<f64>().ok()).unwrap_or_default()
            / 1024.0
    };
    // Behind the name, which is in brackets and may have spaces: the 12th and 13th are the user's and the system's time.
    let fields: Vec<_> = stat.rsplit(')').next().unwrap_or_default().split_ascii_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|ticks| ticks.parse::<f64>().ok()).unwrap_or_default();
    Ok(Usage {
        resident_mib: mib("VmRSS"),
        private_mib: mib("RssAnon"),
        peak_mib: mib("VmHWM"),
        cpu_seconds: (ticks(11) + ticks(12)) * TICK,
    })
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Has the fixture's objects and events written as protobuf, by the program that reads them so.
pub(super) fn write_protobuf(fixture: &Path, writer: &Path, work: &Work, folder: &Path) -> Result<()> {
    let (objects, events) = (work.objects.to_string(), work.events.to_string());
    let served = ["--objects", &objects, "--events", &events].map(str::to_owned);
    let mut fixture = Running::start(fixture, &served)?;
    let listening = fixture.line()?;
    let server = listening["listening"].as_str().context("the fixture server does not say where it is")?;
    let written = Command::new(writer)
        .args(["--server", server, "--objects", &objects, "--events", &events, "--write-protobuf"])
        .arg(folder)
        .status()
        .with_context(|| format!("start {}", writer.display()))?;
    ensure!(written.success(), "{} could not write the fixture as protobuf: {written}", writer.display());
    Ok(())
}

/// A fixture server and its URL.
pub(super) fn serve(fixture: &Path, work: &Work) -> Result<(Running, String)> {
    let (objects, events) = (work.objects.to_string(), work.events.to_string());
    let mut served: Vec<String> =
        ["--objects", &objects, "--events", &events, "--framing", work.framing].map(str::to_owned).into();
    if let Some(rate) = work.rate {
        served.extend(["--rate".to_owned(), rate.to_string()]);
    }
    if work.small {
        served.push("--small".to_owned());
    }
    if let Some(folder) = &work.protobuf {
        served.extend(["--protobuf-dir".to_owned(), folder.display().to_string()]);
    }
    let mut fixture = Running::start(fixture, &served)?;
    let listening = fixture.line()?;
    let Some(server) = listening["listening"].as_str() else { bail!("the fixture server said {listening}") };
    Ok((fixture, server.to_owned()))
}

/// A fixture server and a consumer whose cache is in sync.
pub(super) struct Listed {
    // The consumer ends before its server.
    consumer: Running,
    _fixture: Running,
    server: String,
    list_seconds: f64,
    usage: Usage,
}

impl Listed {
    fn start(fixture: &Path, consumer: &Path, mode: &[&str], work: &Work) -> Result<Self> {
        let (objects, events) = (work.objects.to_string(), work.events.to_string());
        let (fixture, server) = serve(fixture, work)?;
        let mut arguments: Vec<String> =
            ["--server", &server, "--objects", &objects, "--events", &events].map(str::to_owned).into();
        arguments.extend(mode.iter().map(|&word| word.to_owned()));
        let begun = SystemTime::now();
        let mut consumer = Running::start(consumer, &arguments)?;
        ensure!(consumer.line()?["at"] == "listed", "it did not say that it has listed");
        let list_seconds = begun.elapsed().unwrap_or_default().as_secs_f64();
        settle();
        let usage = consumer.usage()?;
        Ok(Self { consumer, _fixture: fixture, server, list_seconds, usage })
    }
}

/// Lets a consumer list, then sends it the events.
pub(super) fn run(fixture: &Path, consumer: &Path, mode: &[&str], work: &Work) -> Result<Run> {
    measured(fixture, consumer, mode, work, false)
}

/// As [`run`], and what it uses once its allocator has given back what is free.
pub(super) fn run_and_rest(fixture: &Path, consumer: &Path, mode: &[&str], work: &Work) -> Result<Run> {
    measured(fixture, consumer, mode, work, true)
}

fn measured(fixture: &Path, consumer: &Path, mode: &[&str], work: &Work, rests: bool) -> Result<Run> {
    let mut at_work = Listed::start(fixture, consumer, mode, work)?;
    let begun = SystemTime::now();
    ureq::post(&format!("{}/fixture/start", at_work.server)).send_empty().context("start the events")?;
    let said = at_work.consumer.line()?;
    let event_seconds = begun.elapsed().unwrap_or_default().as_secs_f64();
    settle();
    let done = at_work.consumer.usage()?;
    let rested = if rests {
        pause(GIVEN_BACK);
        Some(at_work.consumer.usage()?)
    } else {
        None
    };
    let delivered = said["delivered"].as_f64().unwrap_or_default();
    let Listed { list_seconds, usage: listed, .. } = at_work;
    Ok(Run { list_seconds, event_seconds, delivered, listed, done, rested, said })
}

/// What a consumer uses before, during and after a further list.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Relist {
    pub(super) before_mib: f64,
    pub(super) peak_mib: f64,
    pub(super) after_mib: f64,
}

/// Lets a consumer list, and list again when so many percent of the objects have changed.
#[expect(clippy::disallowed_methods, reason = "another process works meanwhile, in real time")]
pub(super) fn relist(
    fixture: &Path,
    consumer: &Path,
    mode: &[&str],
    work: &Work,
    percent: usize,
) -> Result<Relist> {
    let at_work = Listed::start(fixture, consumer, mode, work)?;
    // The peak counts from here.
    let peak = format!("/proc/{}/clear_refs", at_work.consumer.child.id());
    fs::write(&peak, "5").with_context(|| format!("write {peak}"))?;
    let opened = || -> Result<u64> {
        let url = format!("{}/fixture/watches", at_work.server);
        let mut answer = ureq::get(&url).call().with_context(|| format!("get {url}"))?;
        let answer = answer.body_mut().read_to_string().context("read its answer")?;
        let answer: Value = serde_json::from_str(&answer).context("its answer is not JSON")?;
        answer["opened"].as_u64().context("its answer tells no number of watches")
    };
    let before = opened()?;
    let url = format!("{}/fixture/expire?changed={percent}", at_work.server);
    ureq::post(&url).send_empty().context("let the watch expire")?;
    for _ in 0..1200 {
        if opened()? > before {
            settle();
            let usage = at_work.consumer.usage()?;
            return Ok(Relist {
                before_mib: at_work.usage.resident_mib,
                peak_mib: usage.peak_mib,
                after_mib: usage.resident_mib,
            });
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    bail!("it did not watch again within 60 s")
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

/// What a process frees after its work is not counted as its memory.
pub(super) fn settle() {
    pause(Duration::from_secs(1));
}

/// Another process works meanwhile.
#[expect(clippy::disallowed_methods, reason = "another process works meanwhile, in real time")]
pub(super) fn pause(time: Duration) {
    std::thread::sleep(time);
}
