//! `cargo xtask demo`: shows the life of a plugin from start to reload. The output can be followed without knowing the project.

mod api;
mod picture;
mod process;
mod steps;
mod transcript;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, Parser};

#[cfg(feature = "full")]
pub(crate) use api::Api;
#[cfg(feature = "full")]
pub(crate) use process::Dev;
#[cfg(not(feature = "full"))]
use process::Dev;
use steps::Demo;
use transcript::Transcript;

/// The options of the demo.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Keep the host running afterwards until Ctrl-C.
    #[arg(long)]
    stay: bool,
    /// Write a picture of the output to this file, such as docs/demo.svg.
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
    /// The built host. `cargo xtask demo` passes it.
    #[arg(long, hide = true)]
    host: PathBuf,
    /// The built plugin. `cargo xtask demo` passes it.
    #[arg(long, hide = true)]
    plugin: PathBuf,
}

#[derive(Parser)]
#[command(name = "cargo xtask")]
enum Cli {
    /// Build the host and a plugin, and show the plugin at work on the embedded API server.
    Demo(Arguments),
}

/// Runs the demo with the process's arguments.
///
/// # Errors
/// See [`run`].
#[cfg_attr(feature = "full", allow(dead_code, reason = "the full form has a command line of its own"))]
pub(crate) fn run_from_command_line(root: &Path) -> Result<()> {
    let Cli::Demo(arguments) = Cli::parse();
    run(root, &arguments)
}

/// Runs the steps with the host and the plugin that were built, and stops the host.
///
/// # Errors
/// Errors if a step fails; the host's log is printed.
pub(crate) fn run(root: &Path, arguments: &Arguments) -> Result<()> {
    let folder = root.join("target/demo");
    if folder.exists() {
        fs::remove_dir_all(&folder)
            .with_context(|| format!("remove {} of the previous demo", folder.display()))?;
    }
    fs::create_dir_all(folder.join("plugins")).with_context(|| format!("create {}", folder.display()))?;
    let transcript = Transcript::start();
    let dev = Dev::start(&arguments.host, &folder)?;
    let demo = Demo::new(root, &folder, arguments, &dev, &transcript);
    let mut result = demo.and_then(|demo| demo.run());
    if result.is_ok()
        && let Some(file) = &arguments.picture
    {
        result = picture::write(file, &transcript.lines(root));
    }
    if let Err(error) = &result {
        println!("\nThe demo failed: {error:#}\nThe host's log: {}", dev.log_path().display());
        dev.print_log_tail();
    } else if arguments.stay {
        println!("\nThe host keeps running; press Ctrl-C to stop it.");
        return dev.wait();
    }
    dev.stop()?;
    result
}
