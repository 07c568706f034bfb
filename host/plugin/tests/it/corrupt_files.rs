//! Corrupt files: whatever the bytes, loading ends with a plugin or with an error of one line.

use std::sync::OnceLock;

use proptest::prelude::*;
use tokio::runtime::Runtime;

use crate::loading::{component, with_component_type};
use crate::{engine, module_of};

fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| tokio::runtime::Builder::new_multi_thread().build().expect("a runtime"))
}

fn load(bytes: Vec<u8>) {
    if let Err(error) = runtime().block_on(engine().load(bytes)) {
        let line = error.to_string();
        assert!(!line.is_empty() && line.lines().count() == 1 && line.len() < 3000, "{line:?}");
        assert!(!matches!(error, pilothouse_plugin::LoadError::Internal(_)), "the loader panicked: {line}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_plugin_with_changed_bytes_loads_or_is_refused_in_one_line(
        as_component in any::<bool>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in prop::option::weighted(0.2, any::<prop::sample::Index>()),
    ) {
        let module = module_of("done");
        let mut bytes = match as_component {
            true => component(&with_component_type(&module)),
            false => module,
        };
        for (position, byte) in changes {
            let position = position.index(bytes.len());
            bytes[position] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        load(bytes);
    }

    #[test]
    fn arbitrary_bytes_are_refused_in_one_line(header in 0..3_usize, rest in prop::collection::vec(any::<u8>(), 0..200)) {
        let header: &[u8] = [&b""[..], b"\0asm\x01\0\0\0", b"\0asm\x0d\0\x01\0"][header];
        load([header, &rest].concat());
    }
}

/// Deep nesting makes parsers overflow their stack, which would end the test process, or take very long.
#[test]
fn deeply_nested_components_are_refused() {
    assert!(runtime().block_on(engine().load(with_nested(50))).is_ok());
    for depth in [150, 100_000] {
        let error = runtime().block_on(engine().load(with_nested(depth))).expect_err("too deep");
        assert!(error.to_string().contains("nested more than 100 deep"), "{error}");
    }
}

/// Returns `done.wat` as a component that also contains this many components within each other.
fn with_nested(depth: usize) -> Vec<u8> {
    const HEADER: &[u8] = b"\0asm\x0d\0\x01\0";
    const COMPONENT_SECTION: &[u8] = &[4];
    // From the inside out. Each section consists of its number, its size and a component.
    let mut size = HEADER.len();
    let mut levels = vec![HEADER.to_vec()];
    for _ in 1..depth {
        let level = [HEADER, COMPONENT_SECTION, &leb128(size)].concat();
        size += level.len();
        levels.push(level);
    }
    levels.push([COMPONENT_SECTION, &leb128(size)].concat());
    levels.push(component(&with_component_type(&module_of("done"))));
    levels.reverse();
    levels.concat()
}

fn leb128(mut value: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value > 0x7f {
        bytes.push(0x80 | u8::try_from(value & 0x7f).expect("seven bits"));
        value >>= 7;
    }
    bytes.push(u8::try_from(value).expect("seven bits"));
    bytes
}
