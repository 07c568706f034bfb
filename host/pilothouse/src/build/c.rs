//! C: zig, wasi-sdk or clang, whichever is there; without any of them, zig from PyPI in the user's cache.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{Artifact, Job};
use crate::Failed;

/// The release of zig that is fetched where there is no compiler.
const ZIG: &str = "0.17.1";

/// Flags of the compiler beside those of the project.
const FLAGS: [&str; 7] = [
    "-mexec-model=reactor",
    "-Os",
    // For the functions' names, see `without_debug`.
    "-g1",
    "-ffunction-sections",
    "-fdata-sections",
    "-Wl,--gc-sections",
    "-Wl,-z,stack-size=262144",
];

pub(super) async fn build(job: &Job) -> Result<Artifact, Failed> {
    let flags = project_flags(job.project()).map_err(|problem| job.failed(problem))?;
    let sdk = sdk_folder(job.project(), &flags).ok_or_else(|| {
        job.failed(
            "the SDK is not found: a line `-IFOLDER` of compile_flags.txt has to name the folder with pilothouse.c (without \
             that file it is sdk); `pilothouse new NAME --lang c` makes a project that has it",
        )
    })?;
    let sources = sources(job.project()).map_err(|problem| job.failed(problem))?;
    let compiler = compiler(job).await?;
    let file = job.scratch().join("plugin.wasm");
    let mut command = compiler.command();
    command.args(FLAGS).args(&flags).args(&sources);
    command.arg(sdk.join("pilothouse.c")).arg(sdk.join("bindings/bindings.c")).arg("-o").arg(&file);
    let said = job.run("compile", command).await?;
    for line in said.stderr.lines() {
        job.say(line);
    }
    let module = fs::read(&file).map_err(|error| job.failed(format_args!("{}: {error}", file.display())))?;
    if let Some(module) = without_debug(&module) {
        fs::write(&file, module).map_err(|error| job.failed(format_args!("{}: {error}", file.display())))?;
    }
    Ok(Artifact { name: job.folder_name(), file })
}

/// A module without DWARF, which is ten times the code. The functions' names stay, for the backtrace of a trap: zig leaves both out or
/// neither. None for what does not look like a module.
fn without_debug(module: &[u8]) -> Option<Vec<u8>> {
    const HEADER: usize = 8;
    let mut kept = module.get(..HEADER)?.to_vec();
    let mut rest = module.get(HEADER..)?;
    while let Some(id) = rest.first() {
        let (size, contents) = unsigned(rest.get(1..)?)?;
        let section = rest.len() - contents.len() + size;
        let (name_size, name) = unsigned(contents).unwrap_or((0, contents));
        let is_debug = *id == 0 && name.get(..name_size).is_some_and(|name| name.starts_with(b".debug_"));
        if !is_debug {
            kept.extend_from_slice(rest.get(..section)?);
        }
        rest = rest.get(section..)?;
    }
    Some(kept)
}

/// A number in LEB128, and what follows it.
fn unsigned(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let end = bytes.iter().take(5).position(|byte| byte & 0x80 == 0)? + 1;
    let number = bytes[..end].iter().rev().fold(0, |number, byte| (number << 7) | usize::from(byte & 0x7f));
    Some((number, &bytes[end..]))
}

/// The lines of `compile_flags.txt`, which editors read too.
fn project_flags(project: &Path) -> Result<Vec<String>, String> {
    let file = project.join("compile_flags.txt");
    if !file.is_file() {
        return Ok(vec!["-Isdk".to_owned()]);
    }
    let text = fs::read_to_string(&file).map_err(|error| format!("compile_flags.txt: {error}"))?;
    Ok(text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect())
}

/// The first folder for headers that has the SDK in it, as the flags write it.
fn sdk_folder(project: &Path, flags: &[String]) -> Option<PathBuf> {
    let folders = flags.iter().filter_map(|flag| flag.strip_prefix("-I")).map(PathBuf::from);
    folders.into_iter().find(|folder| project.join(folder).join("pilothouse.c").is_file())
}

/// The C files of the project and of its `src`, in order. A `test` folder has programs of its own.
fn sources(project: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    for folder in ["", "src"] {
        let Ok(entries) = fs::read_dir(project.join(folder)) else { continue };
        let files = entries.flatten().map(|entry| Path::new(folder).join(entry.file_name()));
        found.extend(files.filter(|file| file.extension().is_some_and(|end| end == "c")));
    }
    found.sort();
    if found.is_empty() {
        return Err("there is no C file, neither here nor in src".to_owned());
    }
    Ok(found)
}

/// A compiler with a C library for WASI.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Compiler {
    /// An executable of zig.
    Zig(PathBuf),
    /// zig as a Python package, by this Python.
    PythonZig(PathBuf),
    /// clang, of wasi-sdk or of the system.
    Clang(PathBuf),
}

impl Compiler {
    fn command(&self) -> Command {
        match self {
            Self::Zig(zig) => with(zig, &["cc", "-target", "wasm32-wasi"]),
            Self::PythonZig(python) => with(python, &["-m", "ziglang", "cc", "-target", "wasm32-wasi"]),
            Self::Clang(clang) => with(clang, &["--target=wasm32-wasi"]),
        }
    }
}

fn with(program: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments);
    command
}

/// What is there already, in the order of how much it was chosen: a variable, a program in PATH, what an earlier build fetched.
async fn compiler(job: &Job) -> Result<Compiler, Failed> {
    if let Some(folder) = env::var_os("WASI_SDK_PATH") {
        let clang = PathBuf::from(folder).join("bin/clang");
        if clang.is_file() {
            return Ok(Compiler::Clang(clang));
        }
        return Err(job.failed(format_args!(
            "WASI_SDK_PATH is set, but there is no {}; set it to the folder of a wasi-sdk, or unset it",
            clang.display()
        )));
    }
    if let Ok(zig) = job.tool("zig", "") {
        return Ok(Compiler::Zig(zig));
    }
    let python = job.tool("python3", "").ok();
    let cache = cache_folder(env::var_os("XDG_CACHE_HOME").as_deref(), env::var_os("HOME").as_deref());
    if let Some(zig) = cache.as_deref().map(zig_in).filter(|zig| zig.is_file()) {
        return Ok(Compiler::Zig(zig));
    }
    let clang = job.tool("clang", "").ok();
    let (probed_python, probed_clang, scratch) = (python.clone(), clang.clone(), job.scratch().to_owned());
    let found = job
        .blocking("look for a C compiler", move |_| {
            let ziglang = probed_python
                .filter(|python| succeeds(with(python, &["-c", "import ziglang"])))
                .map(Compiler::PythonZig);
            ziglang.or_else(|| probed_clang.map(Compiler::Clang).filter(|clang| links(clang, &scratch)))
        })
        .await?;
    match (found, python, cache) {
        (Some(compiler), _, _) => Ok(compiler),
        (None, Some(python), Some(cache)) => fetch_zig(job, &python, &cache).await,
        (None, ..) => Err(job.failed(nothing())),
    }
}

fn nothing() -> String {
    format!(
        "no C compiler for WebAssembly: neither zig in PATH, nor WASI_SDK_PATH, nor Python's ziglang, nor a clang with wasi-libc; \
         install one: python3 -m pip install ziglang=={ZIG}, or on Debian: \
         sudo apt-get install clang lld wasi-libc libclang-rt-dev-wasm32"
    )
}

/// The user's cache, shared by projects: zig takes 80 MB to fetch.
fn cache_folder(xdg: Option<&std::ffi::OsStr>, home: Option<&std::ffi::OsStr>) -> Option<PathBuf> {
    let xdg = xdg.map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = xdg.or_else(|| Some(PathBuf::from(home?).join(".cache")))?;
    Some(cache.join("pilothouse"))
}

fn zig_in(cache: &Path) -> PathBuf {
    cache.join(format!("ziglang-{ZIG}")).join("ziglang").join("zig")
}

/// Fetches zig into the cache: whole, or not at all.
async fn fetch_zig(job: &Job, python: &Path, cache: &Path) -> Result<Compiler, Failed> {
    let unusable =
        |error: std::io::Error| job.failed(format_args!("{}: {error}; {}", cache.display(), nothing()));
    fs::create_dir_all(cache).map_err(unusable)?;
    let partial = tempfile::Builder::new().prefix(".ziglang-").tempdir_in(cache).map_err(unusable)?;
    job.say(&format!(
        "no C compiler for WebAssembly yet; fetching zig {ZIG} (80 MB) into {}",
        cache.display()
    ));
    let mut command = with(
        python,
        &["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--target"],
    );
    command.arg(partial.path()).arg(format!("ziglang=={ZIG}"));
    if let Err(failed) = job.run("fetch zig", command).await {
        job.say(&nothing());
        return Err(failed);
    }
    let zig = zig_in(cache);
    let folder = zig.ancestors().nth(2).unwrap_or(cache);
    // Another build may have been quicker; then its copy is as good.
    if fs::rename(partial.path(), folder).is_ok() {
        let _ = partial.keep();
    }
    if zig.is_file() {
        return Ok(Compiler::Zig(zig));
    }
    Err(job.failed(format_args!("pip made no {}; {}", zig.display(), nothing())))
}

fn succeeds(mut command: Command) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

/// Whether this clang has all that a plugin needs: the target, its linker, and a C library.
fn links(compiler: &Compiler, scratch: &Path) -> bool {
    let (source, made) = (scratch.join("probe.c"), scratch.join("probe.wasm"));
    let text = "#include <stdlib.h>\n#include <stdio.h>\nvoid *probe(char *t) { snprintf(t, 9, \"%g\", 1.0); return malloc(9); }\n";
    if fs::write(&source, text).is_err() {
        return false;
    }
    let mut command = compiler.command();
    command.args(["-mexec-model=reactor", "-Wl,--export=probe"]).arg(source).arg("-o").arg(made);
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
    fn the_sdk_is_where_the_flags_say_and_else_in_sdk() {
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
    fn the_sources_are_those_of_the_project_and_not_its_tests() {
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
    fn debugging_information_goes_and_names_stay() {
        let header = b"\0asm\x01\0\0\0".as_slice();
        let types = [1, 1, 0].as_slice();
        let names = [0, 5, 4, b'n', b'a', b'm', b'e'].as_slice();
        let debug = [&[0, 0x8f, 0x01, 11][..], b".debug_info", &[7; 131]].concat();
        let module = [header, types, &debug, names].concat();
        assert_eq!(without_debug(&module), Some([header, types, names].concat()));
        assert_eq!(without_debug(&module[..module.len() - 1]), None, "cut off");
        assert_eq!(without_debug(b"elf"), None);
    }

    #[test]
    fn the_cache_is_the_users() {
        let cache =
            |xdg: Option<&str>, home: Option<&str>| cache_folder(xdg.map(str::as_ref), home.map(str::as_ref));
        assert_eq!(cache(Some("/x"), Some("/home/me")), Some(PathBuf::from("/x/pilothouse")));
        assert_eq!(
            cache(Some("relative"), Some("/home/me")),
            Some(PathBuf::from("/home/me/.cache/pilothouse"))
        );
        assert_eq!(cache(None, None), None);
    }

    #[test]
    fn every_compiler_is_asked_for_wasi() {
        let line = |compiler: Compiler| format!("{:?}", compiler.command());
        assert_eq!(line(Compiler::Zig("/zig".into())), r#""/zig" "cc" "-target" "wasm32-wasi""#);
        assert!(line(Compiler::PythonZig("/py".into())).starts_with(r#""/py" "-m" "ziglang" "cc""#));
        assert_eq!(line(Compiler::Clang("/clang".into())), r#""/clang" "--target=wasm32-wasi""#);
    }
}
