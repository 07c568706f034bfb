//! Broken files: whatever the bytes, loading ends with a plugin or with one line.

use proptest::prelude::*;

use crate::loading::{component, with_component_type};
use crate::{engine, module_of};

fn load(bytes: Vec<u8>) {
    static RUNTIME: std::sync::OnceLock<tokio::runtime::Runtime> = std::sync::OnceLock::new();
    let runtime =
        RUNTIME.get_or_init(|| tokio::runtime::Builder::new_multi_thread().build().expect("a runtime"));
    if let Err(error) = runtime.block_on(engine().load(bytes)) {
        let line = error.to_string();
        assert!(!line.is_empty() && line.lines().count() == 1 && line.len() < 3000, "{line:?}");
        assert!(!matches!(error, pilothouse_plugin::LoadError::Internal(_)), "the loader panicked: {line}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_plugin_with_changed_bytes_loads_or_says_why_not(
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
    fn arbitrary_bytes_say_why_not(header in 0..3_usize, rest in prop::collection::vec(any::<u8>(), 0..200)) {
        let header: &[u8] = [&b""[..], b"\0asm\x01\0\0\0", b"\0asm\x0d\0\x01\0"][header];
        load([header, &rest].concat());
    }
}
