//! `cargo xtask page-test`: tests the status page of a host with a thousand plugins in Chromium, with playwright-core and axe-core.
//!
//! xtask/page-test/page.mjs has the checks. This module provides what they need: the host, plugins with hostile names, the browser and the
//! packages, which npm downloads.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use crate::demo::{Api, Dev};
use crate::host;

/// Names the browser, if it is not on PATH.
const VARIABLE: &str = "PILOTHOUSE_CHROMIUM";
/// The names under which Chromium is installed.
const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
/// The folder with the test and its packages.
const SOURCES: &str = "xtask/page-test";
/// The plugin that works, and the key of its object.
const PLUGIN: &str = "sample-controller";
const KEY: &str = "default/example-foo";
const FOO: &str = "/apis/samplecontroller.k8s.io/v1alpha1/namespaces/default/foos/example-foo";
/// The number of plugins, most of which are no WebAssembly.
const PLUGINS: usize = 1000;
/// How many requests are measured of each kind.
const REQUESTS: usize = 21;
/// Names of files that would do something in a page if they were not written as text.
const HOSTILE_NAMES: [&str; 4] =
    ["<img src=x onerror=alert(1)>", "\"onmouseover=\"alert(1)", "a\u{202e}lmth.exe", "\u{1b}[2J&lt;b&gt;"];

/// Options of `cargo xtask page-test`.
#[derive(Debug, Args)]
pub(crate) struct PageTestArguments {
    /// `pilothouse`. By default, it is built.
    #[arg(long, value_name = "FILE")]
    host: Option<PathBuf>,
}

/// Runs the test.
///
/// # Errors
/// Errors if a program is missing, with what to install, or if the page is not as it should be.
pub(crate) fn run(root: &Path, arguments: &PageTestArguments) -> Result<()> {
    browser()?;
    test_built(root, &host::given_or_built(root, arguments.host.as_deref())?)
}

/// Finds the browser.
///
/// # Errors
/// Errors with what to install if there is none.
pub(crate) fn browser() -> Result<PathBuf> {
    if let Some(browser) = env::var_os(VARIABLE).filter(|browser| !browser.is_empty()) {
        let browser = PathBuf::from(browser);
        ensure!(browser.is_file(), "{VARIABLE} names {}, which is no file", browser.display());
        return Ok(browser);
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let found = find(&env::split_paths(&path).collect::<Vec<_>>());
    found.with_context(|| {
        format!("Chromium is not on PATH: install it (Debian: apt install chromium), or set {VARIABLE} to its path")
    })
}

fn find(folders: &[PathBuf]) -> Option<PathBuf> {
    let mut candidates = BROWSERS.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    candidates.find(|candidate| candidate.is_file())
}

/// Runs the test with a program that was built before.
///
/// # Errors
/// As [`run`].
pub(crate) fn test_built(root: &Path, pilothouse: &Path) -> Result<()> {
    let browser = browser()?;
    let folder = root.join("target/page-test");
    install_packages(root, &folder)?;
    let (binary, wasm) = host::build_with_plugin(root, PLUGIN, Some(pilothouse), None)?;
    let host_folder = folder.join("host");
    write_plugins(&host_folder, &wasm)?;
    let dev = Dev::start(&binary, &host_folder)?;
    let manifest = root.join("examples/sample-controller/manifests/foo.yaml");
    let manifest = fs::read_to_string(&manifest).with_context(|| format!("read {}", manifest.display()))?;
    // The CRD is served once the plugin has brought it.
    let server = Api::of_kubeconfig(&dev.kubeconfig)?;
    server.wait("the kind Foo", |server| Ok(server.apply(FOO, &manifest).ok()))?;
    Api::new(&dev.status).wait("all plugins", |status| {
        let Some(answer) = status.get("/api/plugins")? else { return Ok(None) };
        let count = answer["plugins"].as_array().map_or(0, Vec::len);
        Ok((count > PLUGINS && answer["loading"]["done"] == answer["loading"]["total"]).then_some(()))
    })?;
    print_latencies(&dev.status)?;
    let status = Command::new("node")
        .current_dir(&folder)
        .arg("page.mjs")
        .arg(&dev.status)
        .arg(&browser)
        .args([PLUGIN, KEY])
        .status()
        .context("start node: install Node.js 20 or newer (https://nodejs.org)")?;
    if !status.success() {
        bail!(
            "the status page is not as it should be (see above); the host's log is {}",
            dev.log_path().display()
        );
    }
    println!(
        "page-test: the status page is accessible, loads nothing from elsewhere, and works without scripts"
    );
    dev.stop()
}

/// Prints how long the host takes to answer. It is no test: the times depend on the machine and on the build of the host.
fn print_latencies(status: &str) -> Result<()> {
    for (what, goal, path) in [
        ("the overview", 200, "/".to_owned()),
        ("the page of a plugin", 200, format!("/plugins/{PLUGIN}")),
        ("explain", 50, format!("/api/explain?plugin={PLUGIN}&key={KEY}")),
    ] {
        let mut times = Vec::new();
        let mut bytes = 0;
        for _ in 0..REQUESTS {
            #[expect(clippy::disallowed_methods, reason = "it measures how long another process takes")]
            let started = Instant::now();
            let mut response =
                ureq::get(format!("{status}{path}")).call().with_context(|| format!("GET {path}"))?;
            bytes = response.body_mut().read_to_vec().with_context(|| format!("GET {path}"))?.len();
            times.push(started.elapsed());
        }
        let (median, longest) = median_and_longest(times);
        println!(
            "page-test: with {PLUGINS} plugins, {what} took {:.1} ms (median of {REQUESTS}; the longest {:.1} ms, the goal {goal} ms) and has {} KiB",
            median.as_secs_f64() * 1_000.0,
            longest.as_secs_f64() * 1_000.0,
            bytes.div_ceil(1024),
        );
    }
    Ok(())
}

/// Returns the median of the times, and the longest; zero if there are none.
fn median_and_longest(mut times: Vec<Duration>) -> (Duration, Duration) {
    times.sort();
    (times.get(times.len() / 2).copied().unwrap_or_default(), times.last().copied().unwrap_or_default())
}

/// Copies the test into a folder, and installs the packages that it needs there.
fn install_packages(root: &Path, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
    for file in ["package.json", "package-lock.json", "page.mjs"] {
        let source = root.join(SOURCES).join(file);
        fs::copy(&source, folder.join(file)).with_context(|| format!("copy {}", source.display()))?;
    }
    let status = Command::new("npm")
        .current_dir(folder)
        .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"])
        .status()
        .context("start npm: install Node.js 20 or newer (https://nodejs.org)")?;
    ensure!(status.success(), "npm ci in {} failed (see above): {status}", folder.display());
    Ok(())
}

/// Writes the plugins into an empty folder.
fn write_plugins(folder: &Path, wasm: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("remove {}", folder.display()))?;
    }
    let plugins = folder.join("plugins");
    fs::create_dir_all(&plugins).with_context(|| format!("create {}", plugins.display()))?;
    let numbered = (0..PLUGINS).map(|number| format!("plugin-{number:04}"));
    for name in numbered.chain(HOSTILE_NAMES.map(str::to_owned)) {
        let file = plugins.join(format!("{name}.wasm"));
        fs::write(&file, "no WebAssembly").with_context(|| format!("write {}", file.display()))?;
    }
    fs::copy(wasm, plugins.join(format!("{PLUGIN}.wasm")))
        .with_context(|| format!("copy {}", wasm.display()))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_browser_is_the_first_that_is_installed() {
        let (first, second) =
            (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        let folders = [first.path().to_owned(), second.path().to_owned()];
        assert_eq!(find(&folders), None);
        fs::write(second.path().join("google-chrome"), "").expect("written");
        assert_eq!(find(&folders), Some(second.path().join("google-chrome")));
        fs::write(second.path().join("chromium"), "").expect("written");
        fs::create_dir(first.path().join("chromium")).expect("created");
        assert_eq!(find(&folders), Some(second.path().join("chromium")), "a folder is no program");
    }

    #[test]
    fn the_median_is_that_of_the_sorted_times() {
        let times = [5, 1, 9, 3, 7].map(Duration::from_millis);
        assert_eq!(median_and_longest(times.to_vec()), (Duration::from_millis(5), Duration::from_millis(9)));
        assert_eq!(median_and_longest(Vec::new()), (Duration::ZERO, Duration::ZERO));
    }

    #[test]
    fn plugins_with_hostile_names_are_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let wasm = folder.path().join("built.wasm");
        fs::write(&wasm, "wasm").expect("written");
        write_plugins(&folder.path().join("host"), &wasm).expect("written");
        let count = fs::read_dir(folder.path().join("host/plugins")).expect("a folder").count();
        assert_eq!(count, PLUGINS + HOSTILE_NAMES.len() + 1);
    }
}
