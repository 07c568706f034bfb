//! `cargo xtask demo`: the main job from beginning to end, readable without knowing the project.

mod api;
mod process;
mod steps;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::{guests, host};
use process::Dev;
use steps::Demo;

/// Builds what is needed, runs the steps, and stops; with `stay`, after Ctrl-C.
pub(crate) fn run(root: &Path, stay: bool) -> Result<()> {
    let binary = host::build(root)?;
    guests::build(root, &["sample-controller"], || host::build(root))?;
    let folder = root.join("target/demo");
    if folder.exists() {
        fs::remove_dir_all(&folder)
            .with_context(|| format!("remove the last demo's {}", folder.display()))?;
    }
    fs::create_dir_all(folder.join("plugins")).with_context(|| format!("make {}", folder.display()))?;
    let dev = Dev::start(&binary, &folder)?;
    let outcome = Demo::new(root, &folder, &binary, &dev).and_then(|demo| demo.run());
    if let Err(error) = &outcome {
        println!("\nThe demo failed: {error:#}\nThe host's log: {}", dev.log_path().display());
        dev.print_log_tail();
    } else if stay {
        println!("\nThe host stays up; Ctrl-C ends it.");
        return dev.wait();
    }
    dev.stop()?;
    outcome
}
