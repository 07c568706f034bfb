//! Projects that build fast: a Rust plugin without dependencies, not even the SDK, which compiles in about a second, and a project with
//! a build command.

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::check::write_plugin;

/// Returns the Cargo.toml of a plugin with the given name.
pub(crate) fn manifest(name: &str) -> String {
    format!(
        "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[lib]\ncrate-type = [\"cdylib\"]\n\n[workspace]\n"
    )
}

/// Returns the source of a plugin with the given version. The plugin logs `described as VERSION` when it is described.
pub(crate) fn source(version: &str) -> String {
    SOURCE.replace("VERSION", version)
}

const SOURCE: &str = r##"
//! Implements the contract without an SDK.

const DESCRIPTOR: &str = r#"{"apiVersion": "pilothouse.dev/v1alpha1", "kind": "Plugin", "version": "VERSION",
    "watches": [{"name": "maps", "apiVersion": "v1", "kind": "ConfigMap", "trigger": "self"}]}"#;
const MESSAGE: &str = "described as VERSION";

#[repr(C)]
pub struct Answer(u32, *const u8, usize);

#[link(wasm_import_module = "pilothouse:controller/log@0.1.1")]
unsafe extern "C" {
    fn log(level: u32, message: *const u8, length: usize, fields: *const u8, count: usize);
}

#[unsafe(export_name = "pilothouse:controller/plugin@0.1.1#describe")]
pub extern "C" fn describe(_config: *const u8, _length: usize) -> *const Answer {
    unsafe { log(1, MESSAGE.as_ptr(), MESSAGE.len(), std::ptr::null(), 0) };
    Box::leak(Box::new(Answer(0, DESCRIPTOR.as_ptr(), DESCRIPTOR.len())))
}

#[unsafe(export_name = "pilothouse:controller/reconcile@0.1.1#reconcile")]
#[allow(clippy::too_many_arguments)]
pub extern "C" fn reconcile(_: u32, _: u32, _: u32, _: u32, _: u32, _: u32, _: u32, _: u32, _: u32, _: u32, _: u32) -> *const u64 {
    static DONE: [u64; 8] = [0; 8];
    DONE.as_ptr()
}

#[unsafe(no_mangle)]
pub extern "C" fn cabi_realloc(_old: *mut u8, _old_size: usize, align: usize, size: usize) -> *mut u8 {
    unsafe { std::alloc::alloc(std::alloc::Layout::from_size_align_unchecked(size.max(1), align)) }
}
"##;

/// Writes a project with the given name and source to the folder.
pub(crate) fn write(folder: &Path, name: &str, source: &str) {
    fs::create_dir_all(folder.join("src")).expect("made");
    fs::write(folder.join("Cargo.toml"), manifest(name)).expect("written");
    fs::write(folder.join("src/lib.rs"), source).expect("written");
}

/// Writes a project with a build command, which runs `src/build.sh`. The script has the given text, and can copy the plugin `source`.
pub(crate) fn write_with_command(folder: &Path, script: &str) {
    fs::create_dir_all(folder.join("src")).expect("made");
    write_plugin(folder, &json!({}), &json!({}));
    fs::rename(folder.join("plugin.wasm"), folder.join("source")).expect("renamed");
    fs::write(folder.join("src/build.sh"), script).expect("written");
    let command = "build:\n  run: sh -e src/build.sh\n  output: out/built.wasm\n  watch: [src]\n";
    fs::write(folder.join("pilothouse.yaml"), command).expect("written");
}
