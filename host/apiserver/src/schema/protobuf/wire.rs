//! The wire format of protobuf: a sequence of numbered fields.

use super::ProtobufError;

/// The value of a field, by wire type.
#[derive(Clone, Copy, Debug)]
pub(super) enum WireValue<'a> {
    /// A varint.
    Varint(u64),
    /// Four or eight bytes, little-endian.
    Fixed(u64),
    /// A length-delimited string, message or byte sequence.
    Bytes(&'a [u8]),
}

/// Iterates over the fields of a message, each with its number. Ends after the first error, which names `message`.
pub(super) fn fields<'a>(
    bytes: &'a [u8],
    message: &str,
) -> impl Iterator<Item = Result<(u64, WireValue<'a>), ProtobufError>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let field = next_field(&mut rest);
        if field.is_none() {
            rest = &[];
        }
        Some(field.ok_or_else(|| ProtobufError::Malformed { message: message.to_owned() }))
    })
}

fn next_field<'a>(rest: &mut &'a [u8]) -> Option<(u64, WireValue<'a>)> {
    let tag = varint(rest)?;
    let wire = match tag & 7 {
        0 => WireValue::Varint(varint(rest)?),
        1 => WireValue::Fixed(u64::from_le_bytes(*rest.split_off(..8)?.first_chunk()?)),
        2 => {
            let length = usize::try_from(varint(rest)?).ok()?;
            WireValue::Bytes(rest.split_off(..length)?)
        }
        5 => WireValue::Fixed(u32::from_le_bytes(*rest.split_off(..4)?.first_chunk()?).into()),
        _ => return None,
    };
    Some((tag >> 3, wire))
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// Appends a field of bytes: a string, a message or a byte sequence.
pub(crate) fn put_bytes(out: &mut Vec<u8>, number: u64, bytes: &[u8]) {
    put_number(out, number << 3 | 2);
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends a varint field.
pub(crate) fn put_varint(out: &mut Vec<u8>, number: u64, value: u64) {
    put_number(out, number << 3);
    put_number(out, value);
}

/// Appends a field of eight bytes.
pub(crate) fn put_fixed(out: &mut Vec<u8>, number: u64, bits: u64) {
    put_number(out, number << 3 | 1);
    out.extend_from_slice(&bits.to_le_bytes());
}

fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}
