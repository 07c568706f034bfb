//! Reads which loader a Linux program needs.

use anyhow::{Context, Result, ensure};

/// The type of the program header with the path of the dynamic loader.
const PT_INTERP: u32 = 3;

/// Returns whether the program runs without a dynamic loader and shared libraries.
///
/// # Errors
/// Errors if the bytes are no 64-bit little-endian ELF file.
pub(super) fn is_static(program: &[u8]) -> Result<bool> {
    ensure!(program.starts_with(b"\x7fELF\x02\x01"), "the program is no 64-bit little-endian ELF file");
    let start = usize::try_from(number::<8>(program, 32)?).context("the program is too large")?;
    let size = usize::try_from(number::<2>(program, 54)?).context("a program header is too large")?;
    let count = usize::try_from(number::<2>(program, 56)?).context("too many program headers")?;
    for index in 0..count {
        let offset = index.checked_mul(size).and_then(|offset| offset.checked_add(start));
        let kind = number::<4>(program, offset.context("the program headers are too large")?)?;
        if kind == u64::from(PT_INTERP) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns the little-endian number of `N` bytes, at most eight, at an offset.
fn number<const N: usize>(bytes: &[u8], offset: usize) -> Result<u64> {
    let found = offset.checked_add(N).and_then(|end| bytes.get(offset..end));
    let found = found.with_context(|| format!("the program ends before byte {offset}"))?;
    Ok(found.iter().rev().fold(0, |number, byte| (number << 8) | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns an ELF file with program headers of these types.
    fn program(kinds: &[u32]) -> Vec<u8> {
        let mut bytes = vec![0; 64];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        bytes[32] = 64;
        bytes[54] = 56;
        bytes[56] = u8::try_from(kinds.len()).expect("few");
        for kind in kinds {
            let mut header = [0; 56];
            header[..4].copy_from_slice(&kind.to_le_bytes());
            bytes.extend(header);
        }
        bytes
    }

    #[test]
    fn a_program_with_an_interpreter_is_not_static() {
        assert!(is_static(&program(&[1, 2, 6])).expect("an ELF file"));
        assert!(!is_static(&program(&[6, PT_INTERP, 1])).expect("an ELF file"));
    }

    #[test]
    fn other_files_and_files_that_end_early_are_errors() {
        let whole = program(&[1, 1]);
        for end in [0, 5, 33, 55, 57, 64, 70, 120] {
            assert!(is_static(&whole[..end]).is_err(), "{end}");
        }
        assert!(is_static(b"#!/bin/sh").is_err());
        let mut far = program(&[1]);
        far[32..40].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(is_static(&far).is_err());
    }
}
