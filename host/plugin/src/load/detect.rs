//! Detection of a file's format from its first bytes.

use super::LoadError;
use crate::Form;

const BUILD_RUST: &str = "in Rust, build it with `cargo build --release --target wasm32-unknown-unknown`";
const ASSEMBLE: &str = "assemble it with `wasm-tools parse FILE -o NAME.wasm`";
const UNPACK: &str = "unpack it first";
const COMPILE_SCRIPT: &str =
    "make it a component first, for JavaScript with `jco componentize`, for Python with `componentize-py`";
const CHECK_FILE: &str = "is this the right file?";

/// First bytes of files that are mistaken for WebAssembly, with the name of the format and a remedy.
const SIGNATURES: &[(&[u8], &str, &str)] = &[
    (b"\x7fELF", "an ELF file, which is native code", BUILD_RUST),
    (b"MZ", "a Windows executable, which is native code", BUILD_RUST),
    (b"\xcf\xfa\xed\xfe", "a Mach-O file, which is native code", BUILD_RUST),
    (b"\xca\xfe\xba\xbe", "a Mach-O or Java class file", BUILD_RUST),
    (b"!<arch>", "an archive of object files", "link it to a .wasm first"),
    (b"BC\xc0\xde", "LLVM bitcode", "link it to a .wasm first"),
    (b"\x1f\x8b", "a gzip archive", UNPACK),
    (b"\x28\xb5\x2f\xfd", "a zstd archive", UNPACK),
    (b"BZh", "a bzip2 archive", UNPACK),
    (b"\xfd7zXZ\0", "an xz archive", UNPACK),
    (b"PK\x03\x04", "a zip archive", UNPACK),
    (b"#!", "a script", COMPILE_SCRIPT),
    (b"\0\0\0\0", "zero bytes", "the file may have been cut by a crash: copy it again"),
];

/// Returns whether the file is a component or a core module. The error for anything else says what the file looks like.
pub(super) fn detect_form(bytes: &[u8]) -> Result<Form, LoadError> {
    const MAGIC: &[u8] = b"\0asm";
    if bytes.is_empty() {
        return Err(LoadError::Empty);
    }
    if bytes.starts_with(MAGIC) {
        return match bytes.get(4..8) {
            Some([1, 0, 0, 0]) => Ok(Form::CoreModule),
            Some([0x0d, 0, 1, 0]) => Ok(Form::Component),
            Some(version) => Err(LoadError::NotWasm {
                found: format!("WebAssembly of an unknown binary version ({version:02x?})"),
                remedy: "rebuild it with current tools",
            }),
            None => Err(truncated(bytes)),
        };
    }
    if MAGIC.starts_with(bytes) {
        return Err(truncated(bytes));
    }
    let signature = SIGNATURES.iter().find(|(magic, _, _)| bytes.starts_with(magic));
    let (found, remedy) = match signature {
        Some((_, found, remedy)) => ((*found).to_owned(), *remedy),
        None => detect_text(bytes).unwrap_or_else(|| {
            let first = &bytes[..bytes.len().min(4)];
            (format!("unknown data beginning with the bytes {first:02x?}"), CHECK_FILE)
        }),
    };
    Err(LoadError::NotWasm { found, remedy })
}

fn truncated(bytes: &[u8]) -> LoadError {
    LoadError::Truncated { size: bytes.len(), message: "the header has 8 bytes".to_owned() }
}

/// Returns the kind of text and a remedy, or `None` if the file is not text.
fn detect_text(bytes: &[u8]) -> Option<(String, &'static str)> {
    let beginning = match std::str::from_utf8(&bytes[..bytes.len().min(1000)]) {
        Ok(text) => text,
        // The last character may be cut.
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(&bytes[..error.valid_up_to()]).ok()?
        }
        Err(_) => return None,
    };
    if beginning.chars().any(|c| c.is_control() && !c.is_whitespace()) {
        return None;
    }
    let code = beginning.trim_start_matches('\u{feff}').trim_start();
    let (found, remedy) =
        if code.starts_with("(module") || code.starts_with("(component") || code.starts_with(";;") {
            ("WebAssembly text", ASSEMBLE)
        } else if code.starts_with("version https://git-lfs") {
            ("a pointer of Git LFS", "fetch the file with `git lfs pull`")
        } else if code.starts_with('<') {
            ("a web page or XML", "the download may have failed: look inside")
        } else if code.starts_with("apiVersion:") || code.starts_with('{') {
            ("a manifest or other JSON or YAML", "a sidecar is named NAME.yaml")
        } else if ["import ", "export ", "def ", "const ", "from ", "function "]
            .iter()
            .any(|word| code.starts_with(word))
        {
            ("source code", COMPILE_SCRIPT)
        } else {
            ("text", CHECK_FILE)
        };
    Some((found.to_owned(), remedy))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(bytes: &[u8]) -> String {
        detect_form(bytes).expect_err("not wasm").to_string()
    }

    #[test]
    fn components_and_core_modules_are_distinguished() {
        assert_eq!(detect_form(b"\0asm\x01\0\0\0"), Ok(Form::CoreModule));
        assert_eq!(detect_form(b"\0asm\x0d\0\x01\0"), Ok(Form::Component));
        assert!(found(b"\0asm\x02\0\0\0").contains("unknown binary version ([02, 00, 00, 00])"));
    }

    #[test]
    fn an_incomplete_header_is_called_truncated() {
        for end in 1..8 {
            let error = detect_form(&b"\0asm\x01\0\0\0"[..end]).expect_err("truncated");
            assert!(matches!(error, LoadError::Truncated { size, .. } if size == end), "{error}");
        }
    }

    #[test]
    fn files_loaded_by_mistake_are_named() {
        assert_eq!(detect_form(b""), Err(LoadError::Empty));
        assert!(found(b"\x7fELF\x02\x01\x01").contains("ELF"));
        assert!(found(b"\x1f\x8b\x08\0").contains("gzip"));
        assert!(found(b"PK\x03\x04....").contains("zip"));
        assert!(found(b"\n (module (func))").contains("WebAssembly text"));
        assert!(found(b"(component)").contains("wasm-tools parse"));
        assert!(found(b"apiVersion: v1\n").contains("YAML"));
        assert!(found(b"import x from 'y'").contains("jco componentize"));
        assert!(found(b"hello\n").contains("found text"));
        assert!(found(b"<!doctype html>").contains("web page"));
        assert!(found(b"\xff\xfe\x00\x01\x02").contains("unknown data"));
        let cut_in_a_character = "ä".repeat(600);
        assert!(found(&cut_in_a_character.as_bytes()[..999]).contains("found text"));
    }
}
