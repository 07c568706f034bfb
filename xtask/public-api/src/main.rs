//! Prints the public API of a crate, a line for each item: `print-public-api FILE.json`, with the JSON that rustdoc writes.
//!
//! Implementations that every type has, and those of `Send`, `Sync` and other auto traits, are left out.

use std::path::PathBuf;
use std::process::ExitCode;

use public_api::Builder;

fn main() -> ExitCode {
    let Some(json) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: print-public-api FILE.json");
        return ExitCode::from(2);
    };
    match Builder::from_rustdoc_json(&json).omit_blanket_impls(true).omit_auto_trait_impls(true).build() {
        Ok(api) => {
            print!("{api}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!(
                "error: cannot read {}: {error}; select the version of public-api for this compiler's JSON in xtask/public-api/Cargo.toml",
                json.display()
            );
            ExitCode::FAILURE
        }
    }
}
