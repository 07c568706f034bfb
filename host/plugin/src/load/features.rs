//! The features of WebAssembly that plugins may not use, and what to do instead (docs/decisions/0019-wasm-features.md).

use wasmparser::{BinaryReaderError, WasmFeatures};

use super::LoadError;

/// A feature that the engine does not have: its flag in the validator, what a plugin with it uses, and what to do.
type Refused = (WasmFeatures, &'static str, &'static str);

const SINGLE_THREAD: &str =
    "build for a single thread, without -pthread, -matomics and the target wasm32-wasip1-threads";
const WITHOUT_EXCEPTIONS: &str = "build without them, C++ with -fno-exceptions and without setjmp, other languages for a target that handles \
                                  exceptions in the program itself (for Java, TeaVM)";
const WITHOUT_FEATURE: &str = "disable the feature in the compiler's options";
const MEMORY_64: &str = "a 64-bit memory (memory64, wasm64)";
const BUILD_FOR_WASM32: &str = "build for wasm32";

const REFUSED: [Refused; 11] = [
    (
        WasmFeatures::GC_TYPES,
        "garbage-collected values (structs, arrays or externref, as Kotlin/Wasm, Dart, wasm_of_ocaml and wasm-bindgen make them)",
        "choose a compiler whose programs manage their own memory (for Java, TeaVM), and in Rust build without wasm-bindgen",
    ),
    (WasmFeatures::EXCEPTIONS, "exceptions", WITHOUT_EXCEPTIONS),
    (WasmFeatures::LEGACY_EXCEPTIONS, "exceptions", WITHOUT_EXCEPTIONS),
    (WasmFeatures::THREADS, "threads (shared memory or atomic instructions)", SINGLE_THREAD),
    (WasmFeatures::SHARED_EVERYTHING_THREADS, "threads (shared values)", SINGLE_THREAD),
    (WasmFeatures::STACK_SWITCHING, "stack switching", WITHOUT_FEATURE),
    (WasmFeatures::CUSTOM_PAGE_SIZES, "memory pages of a custom size", WITHOUT_FEATURE),
    (WasmFeatures::MEMORY_CONTROL, "memory control", WITHOUT_FEATURE),
    (WasmFeatures::WIDE_ARITHMETIC, "wide arithmetic", WITHOUT_FEATURE),
    (WasmFeatures::CUSTOM_DESCRIPTORS, "custom descriptors", WITHOUT_FEATURE),
    (WasmFeatures::CM64, MEMORY_64, BUILD_FOR_WASM32),
];

/// Returns the features with which files are validated: all that the validator knows, without those that the engine is known to lack.
/// The engine itself refuses the others that it lacks.
pub(super) fn accepted() -> WasmFeatures {
    REFUSED.iter().fold(WasmFeatures::all(), |features, (refused, _, _)| features.difference(*refused))
}

/// Returns the refusal of a file that is invalid only because it uses one of these features.
pub(super) fn refusal(error: &BinaryReaderError) -> Option<LoadError> {
    let missing = error.missing_wasm_feature()?;
    let &(_, found, remedy) = REFUSED.iter().find(|(feature, _, _)| missing.intersects(*feature))?;
    Some(LoadError::UnsupportedFeature { found, remedy })
}

/// Returns the refusal of a core module whose exported memory has 64-bit addresses. The engine could run it, but the contract's functions
/// take 32-bit addresses.
pub(super) fn memory_64() -> LoadError {
    LoadError::UnsupportedFeature { found: MEMORY_64, remedy: BUILD_FOR_WASM32 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::wasmtime_engine;
    use crate::load::inspect;
    use crate::{EngineOptions, load};

    fn assemble(wat: &str) -> Vec<u8> {
        wat::parse_str(wat).unwrap_or_else(|error| panic!("{wat}: {error}"))
    }

    #[test]
    fn a_feature_that_the_engine_lacks_is_named_with_its_remedy() {
        let engine = wasmtime_engine(&EngineOptions::default()).expect("an engine");
        for (wat, found, remedy) in [
            ("(module (type (struct (field i32))))", "garbage-collected", "TeaVM"),
            ("(module (type (array i8)))", "garbage-collected", "TeaVM"),
            ("(module (func (param externref)))", "externref", "without wasm-bindgen"),
            ("(module (func (param anyref)))", "garbage-collected", "TeaVM"),
            ("(module (tag))", "exceptions", "-fno-exceptions"),
            ("(module (func (param exnref)))", "exceptions", "-fno-exceptions"),
            ("(module (memory 1 1 shared))", "threads", "-pthread"),
            ("(module (memory 1) (func (drop (i32.atomic.load (i32.const 0)))))", "threads", "-pthread"),
        ] {
            let module = assemble(wat);
            let refused = inspect::inspect(&module).expect_err(wat);
            assert!(matches!(refused, LoadError::UnsupportedFeature { .. }), "{wat}: {refused}");
            let text = refused.to_string();
            assert!(text.contains(found) && text.contains(remedy), "{wat}: {text}");
            assert!(wasmtime::Module::validate(&engine, &module).is_err(), "the engine accepts {wat}");
        }
    }

    #[test]
    fn the_features_of_the_engine_are_accepted() {
        let engine = wasmtime_engine(&EngineOptions::default()).expect("an engine");
        for wat in [
            "(module (func (result v128) (v128.const i32x4 0 0 0 0)))",
            "(module (func (param v128 v128) (result v128) (i8x16.relaxed_swizzle (local.get 0) (local.get 1))))",
            "(module (func $f (return_call $f)))",
            "(module (memory 1) (memory 1))",
            "(module (memory i64 1))",
            "(module (type $f (func)) (func (param (ref null $f))))",
            "(module (table 1 funcref) (func (result funcref) (table.get 0 (i32.const 0))))",
            "(module (global i32 (i32.add (i32.const 1) (i32.const 2))))",
        ] {
            let module = assemble(wat);
            assert!(inspect::inspect(&module).is_ok(), "{wat}");
            assert!(wasmtime::Module::validate(&engine, &module).is_ok(), "the engine refuses {wat}");
        }
    }

    #[test]
    fn an_exported_64_bit_memory_is_refused() {
        for name in ["memory", "cm32p2_memory"] {
            let module = assemble(&format!(r#"(module (memory (export "{name}") i64 1))"#));
            let refused = load::prepare(usize::MAX, &module).err().expect("refused");
            assert_eq!(refused, memory_64());
            assert!(refused.to_string().contains("build for wasm32"), "{refused}");
        }
    }
}
