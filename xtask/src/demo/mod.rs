//! `cargo xtask demo`: shows the life of a plugin from start to reload. The output can be followed without knowing the project.

mod api;
mod picture;
mod process;
mod steps;
mod transcript;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::{guests, host};
use process::Dev;
use steps::Demo;
use transcript::Transcript;

/// Builds the host and the sample controller, runs the steps and stops the host. With `stay`, keeps the host running until Ctrl-C. Writes a
/// picture of the output to the file `picture`, if there is one.
pub(crate) fn run(root: &Path, stay: bool, picture: Option<&Path>) -> Result<()> {
    let binary = host::build(root)?;
    guests::build(root, &["sample-controller"], || host::build(root))?;
    let folder = root.join("target/demo");
    if folder.exists() {
        fs::remove_dir_all(&folder)
            .with_context(|| format!("remove {} of the previous demo", folder.display()))?;
    }
    fs::create_dir_all(folder.join("plugins")).with_context(|| format!("create {}", folder.display()))?;
    let transcript = Transcript::start();
    let dev = Dev::start(&binary, &folder)?;
    let demo = Demo::new(root, &folder, &binary, &dev, &transcript);
    let mut result = demo.and_then(|demo| demo.run());
    if result.is_ok()
        && let Some(file) = picture
    {
        result = picture::write(file, &transcript.lines(root));
    }
    if let Err(error) = &result {
        println!("\nThe demo failed: {error:#}\nThe host's log: {}", dev.log_path().display());
        dev.print_log_tail();
    } else if stay {
        println!("\nThe host keeps running; press Ctrl-C to stop it.");
        return dev.wait();
    }
    dev.stop()?;
    result
}
