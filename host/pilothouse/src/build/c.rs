//! Builds C projects with zig, wasi-sdk or clang, whichever is installed. If none is, downloads zig from PyPI into the user's cache.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{Artifact, Job, zig};
use crate::CommandError;

/// Compiler flags in addition to the project's own.
const FLAGS: [&str; 7] = [
    "-mexec-model=reactor",
    "-Os",
    // Keeps function names, see `strip_debug_sections`.
    "-g1",
    "-ffunction-sections",
    "-fdata-sections",
    "-Wl,--gc-sections",
    "-Wl,-z,stack-size=262144",
];

pub(super) async fn build(job: &Job) -> Result<Artifact, CommandError> {
    let flags = project_flags(job.project()).map_err(|problem| job.error(problem))?;
    let sdk = sdk_folder(job.project(), &flags).ok_or_else(|| {
        job.error(
            "cannot find the SDK: add a line `-IFOLDER` to compile_flags.txt with the folder that contains pilothouse.c (the default \
             without that file is sdk); `pilothouse new NAME --lang c` creates a project that includes the SDK",
        )
    })?;
    let sources = sources(job.project()).map_err(|problem| job.error(problem))?;
    let compiler = find_compiler(job).await?;
    let file = job.scratch().join("plugin.wasm");
    let mut command = compiler.command();
    command.args(FLAGS).args(&flags).args(&sources);
    command.arg(sdk.join("pilothouse.c")).arg(sdk.join("bindings/bindings.c")).arg("-o").arg(&file);
    let output = job.run("compile", command).await?;
    for line in output.stderr.lines() {
        job.print(line);
    }
    let module = fs::read(&file)
        .map_err(|error| job.error(format_args!("the compiler's output cannot be read: {error}")))?;
    if let Some(module) = strip_debug_sections(&module) {
        fs::write(&file, module).map_err(|error| {
            job.error(format_args!("the plugin without debug sections cannot be written: {error}"))
        })?;
    }
    Ok(Artifact { name: job.folder_name(), file })
}

/// Returns the module without its DWARF sections, which are ten times as large as the code. Function names stay for the backtraces of
/// traps; zig itself can only drop both or neither. Returns `None` if the bytes are not a module.
fn strip_debug_sections(module: &[u8]) -> Option<Vec<u8>> {
    const HEADER: usize = 8;
    let mut stripped = module.get(..HEADER)?.to_vec();
    let mut rest = module.get(HEADER..)?;
    while let Some(id) = rest.first() {
        let (size, contents) = read_leb128(rest.get(1..)?)?;
        let section = rest.len() - contents.len() + size;
        let (name_size, name) = read_leb128(contents).unwrap_or((0, contents));
        let is_debug = *id == 0 && name.get(..name_size).is_some_and(|name| name.starts_with(b".debug_"));
        if !is_debug {
            stripped.extend_from_slice(rest.get(..section)?);
        }
        rest = rest.get(section..)?;
    }
    Some(stripped)
}

/// Reads an unsigned LEB128 number of at most five bytes. Returns it and the bytes after it.
fn read_leb128(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let end = bytes.iter().take(5).position(|byte| byte & 0x80 == 0)? + 1;
    let number = bytes[..end].iter().rev().fold(0, |number, byte| (number << 7) | usize::from(byte & 0x7f));
    Some((number, &bytes[end..]))
}

/// Returns the lines of `compile_flags.txt`, a file that clangd reads, too. Without it, returns the flag for the default SDK folder.
fn project_flags(project: &Path) -> Result<Vec<String>, String> {
    let file = project.join("compile_flags.txt");
    if !file.is_file() {
        return Ok(vec!["-Isdk".to_owned()]);
    }
    let text = fs::read_to_string(&file).map_err(|error| format!("compile_flags.txt: {error}"))?;
    Ok(text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect())
}

/// Returns the first include folder that contains the SDK, as written in the flags.
fn sdk_folder(project: &Path, flags: &[String]) -> Option<PathBuf> {
    let folders = flags.iter().filter_map(|flag| flag.strip_prefix("-I")).map(PathBuf::from);
    folders.into_iter().find(|folder| project.join(folder).join("pilothouse.c").is_file())
}

/// Returns the C files in the project's folder and in `src`, sorted. Other folders, such as `test`, contain separate programs.
fn sources(project: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    for folder in ["", "src"] {
        let Ok(entries) = fs::read_dir(project.join(folder)) else { continue };
        let files = entries.flatten().map(|entry| Path::new(folder).join(entry.file_name()));
        found.extend(files.filter(|file| file.extension().is_some_and(|end| end == "c")));
    }
    found.sort();
    if found.is_empty() {
        return Err("found no C file in the project's folder or in src".to_owned());
    }
    Ok(found)
}

/// A compiler that includes a C library for WASI.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Compiler {
    /// The zig executable.
    Zig(PathBuf),
    /// The Python interpreter that has zig installed as the package `ziglang`.
    PythonZig(PathBuf),
    /// The clang executable of a wasi-sdk or of the system.
    Clang(PathBuf),
}

impl Compiler {
    fn command(&self) -> Command {
        match self {
            Self::Zig(zig) => command(zig, &["cc", "-target", "wasm32-wasi"]),
            Self::PythonZig(python) => command(python, &["-m", "ziglang", "cc", "-target", "wasm32-wasi"]),
            Self::Clang(clang) => command(clang, &["--target=wasm32-wasi"]),
        }
    }
}

fn command(program: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments);
    command
}

/// Returns a compiler: the most explicit choice first (`WASI_SDK_PATH`), then zig in PATH, zig from an earlier download, Python's
/// `ziglang`, and the system's clang. Downloads zig if there is none.
async fn find_compiler(job: &Job) -> Result<Compiler, CommandError> {
    if let Some(folder) = env::var_os("WASI_SDK_PATH") {
        let clang = PathBuf::from(folder).join("bin/clang");
        if clang.is_file() {
            return Ok(Compiler::Clang(clang));
        }
        return Err(job.error(format_args!(
            "WASI_SDK_PATH is set, but {} does not exist; set it to the folder of a wasi-sdk, or unset it",
            clang.display()
        )));
    }
    if let Ok(zig) = job.find_tool("zig", "") {
        return Ok(Compiler::Zig(zig));
    }
    let python = job.find_tool("python3", "").ok();
    let cache = zig::cache_folder();
    let cached = cache.as_deref().map(|cache| zig::executable_in(cache, zig::DEFAULT_VERSION));
    if let Some(zig) = cached.filter(|zig| zig.is_file()) {
        return Ok(Compiler::Zig(zig));
    }
    let clang = job.find_tool("clang", "").ok();
    let (probed_python, probed_clang, scratch) = (python.clone(), clang.clone(), job.scratch().to_owned());
    let found = job
        .run_blocking("look for a C compiler", move |_| {
            let ziglang = probed_python
                .filter(|python| succeeds(command(python, &["-c", "import ziglang"])))
                .map(Compiler::PythonZig);
            ziglang.or_else(|| probed_clang.map(Compiler::Clang).filter(|clang| can_link(clang, &scratch)))
        })
        .await?;
    match (found, python, cache) {
        (Some(compiler), _, _) => Ok(compiler),
        (None, Some(python), Some(cache)) => {
            let reason = "found no C compiler for WebAssembly";
            let remedy = no_compiler_message();
            let zig = zig::download(job, &python, &cache, zig::DEFAULT_VERSION, reason, &remedy).await?;
            Ok(Compiler::Zig(zig))
        }
        (None, ..) => Err(job.error(no_compiler_message())),
    }
}

fn no_compiler_message() -> String {
    format!(
        "found no C compiler for WebAssembly: no zig in PATH, no WASI_SDK_PATH, no ziglang in Python, no clang with wasi-libc; \
         install one: python3 -m pip install ziglang=={}, or on Debian: \
         sudo apt-get install clang lld wasi-libc libclang-rt-dev-wasm32",
        zig::DEFAULT_VERSION
    )
}

fn succeeds(mut command: Command) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

/// Returns whether this clang can link a plugin: it needs the target, a linker for it and a C library.
fn can_link(compiler: &Compiler, scratch: &Path) -> bool {
    let (source, linked) = (scratch.join("probe.c"), scratch.join("probe.wasm"));
    let text = "#include <stdlib.h>\n#include <stdio.h>\nvoid *probe(char *t) { snprintf(t, 9, \"%g\", 1.0); return malloc(9); }\n";
    if fs::write(&source, text).is_err() {
        return false;
    }
    let mut command = compiler.command();
    command.args(["-mexec-model=reactor", "-Wl,--export=probe"]).arg(source).arg("-o").arg(linked);
    succeeds(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn project(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            fs::write(path, text).expect("written");
        }
        folder
    }

    #[test]
    fn sdk_folder_comes_from_the_flags_and_defaults_to_sdk() {
        let with_flags = project(&[
            ("compile_flags.txt", "-std=c11\n\n-Iinclude\n-Ivendor/ph\n"),
            ("include/other.h", ""),
            ("vendor/ph/pilothouse.c", ""),
        ]);
        let flags = project_flags(with_flags.path()).expect("flags");
        assert_eq!(flags, ["-std=c11", "-Iinclude", "-Ivendor/ph"]);
        assert_eq!(sdk_folder(with_flags.path(), &flags), Some(PathBuf::from("vendor/ph")));

        let without = project(&[("sdk/pilothouse.c", "")]);
        let flags = project_flags(without.path()).expect("flags");
        assert_eq!(sdk_folder(without.path(), &flags), Some(PathBuf::from("sdk")));

        let neither = project(&[("plugin.c", "")]);
        assert_eq!(sdk_folder(neither.path(), &project_flags(neither.path()).expect("flags")), None);
    }

    #[test]
    fn sources_exclude_tests_and_the_sdk() {
        let folder = project(&[
            ("b.c", ""),
            ("a.h", ""),
            ("src/a.c", ""),
            ("test/test.c", ""),
            ("sdk/pilothouse.c", ""),
        ]);
        assert_eq!(sources(folder.path()), Ok(vec![PathBuf::from("b.c"), PathBuf::from("src/a.c")]));
        assert!(sources(project(&[("a.h", "")]).path()).expect_err("no C").contains("no C file"));
    }

    #[test]
    fn stripping_removes_debug_sections_and_keeps_names() {
        let header = b"\0asm\x01\0\0\0".as_slice();
        let types = [1, 1, 0].as_slice();
        let names = [0, 5, 4, b'n', b'a', b'm', b'e'].as_slice();
        let debug = [&[0, 0x8f, 0x01, 11][..], b".debug_info", &[7; 131]].concat();
        let module = [header, types, &debug, names].concat();
        assert_eq!(strip_debug_sections(&module), Some([header, types, names].concat()));
        assert_eq!(strip_debug_sections(&module[..module.len() - 1]), None, "truncated");
        assert_eq!(strip_debug_sections(b"elf"), None);
    }

    #[test]
    fn every_compiler_targets_wasi() {
        let line = |compiler: Compiler| format!("{:?}", compiler.command());
        assert_eq!(line(Compiler::Zig("/zig".into())), r#""/zig" "cc" "-target" "wasm32-wasi""#);
        assert!(line(Compiler::PythonZig("/py".into())).starts_with(r#""/py" "-m" "ziglang" "cc""#));
        assert_eq!(line(Compiler::Clang("/clang".into())), r#""/clang" "--target=wasm32-wasi""#);
    }
}
