//! Structural edits of an object's text, which random changes of bytes seldom produce: members that are repeated, added, moved, renamed with
//! an escape, nested deeply or surrounded by white space, at the top level, in the metadata, in `spec` and in `status`.

use std::ops::Range;

/// Applies the edits of `script`: two bytes each, which select the edit and the member. At most eight are applied.
pub(crate) fn edited(text: &str, script: &[u8]) -> String {
    script.as_chunks::<2>().0.iter().take(8).fold(text.to_owned(), |text, edit| apply(&text, *edit))
}

fn apply(text: &str, [what, at]: [u8; 2]) -> String {
    let (what, at) = (usize::from(what), usize::from(at));
    let Some(top) = text.find('{') else { return text.to_owned() };
    let parent = match (what & 64 != 0, what & 1) {
        (false, 0) => "",
        (false, _) => "\"metadata\":",
        (true, 0) => "\"spec\":",
        (true, _) => "\"status\":",
    };
    let open = match text.find(&format!("{parent}{{")) {
        Some(start) if !parent.is_empty() => start + parent.len(),
        _ => top,
    };
    let (members, end) = members(text, open);
    let Some(member) = members.get(at % members.len().max(1)).cloned() else { return text.to_owned() };
    let value = member.start + text[member.clone()].find(':').map_or(0, |colon| colon + 1);
    let insert = |position: usize, piece: &str| format!("{}{piece}{}", &text[..position], &text[position..]);
    match what / 2 % 7 {
        0 => insert(end, &format!(",{}", &text[member])),
        1 => insert(member.start, &format!("{},", &text[member.clone()])),
        2 => insert(end, &format!(",\"n{at}\":null")),
        3 => insert([member.start, value, member.end, end][at % 4], [" ", "\n", "\t", "\r"][at / 4 % 4]),
        4 => match text.as_bytes().get(member.start + 1) {
            Some(letter) if letter.is_ascii_alphanumeric() => {
                format!("{}\\u{letter:04x}{}", &text[..=member.start], &text[member.start + 2..])
            }
            _ => text.to_owned(),
        },
        5 => {
            let depth = [1, 63, 64, 65, 127, 128, 129, 1001][at % 8];
            let (before, inside) = (&text[..value], &text[value..member.end]);
            format!("{before}{}{inside}{}{}", "[".repeat(depth), "]".repeat(depth), &text[member.end..])
        }
        // Move the last member to the front.
        _ => match members.last() {
            Some(last) if last.start > member.start => {
                let (moved, rest) = (&text[last.clone()], &text[member.start..last.start - 1]);
                format!("{}{moved},{rest}{}", &text[..member.start], &text[last.end..])
            }
            _ => text.to_owned(),
        },
    }
}

/// Returns the ranges of the members of the object that begins at `open`, and the offset of its closing bracket. All offsets are next to
/// ASCII characters.
fn members(text: &str, open: usize) -> (Vec<Range<usize>>, usize) {
    let (mut members, mut start, mut depth) = (Vec::new(), open + 1, 0_u32);
    let (mut is_string, mut is_escaped) = (false, false);
    for (at, byte) in text.bytes().enumerate().skip(open) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_string => is_escaped = true,
            b'"' => is_string = !is_string,
            _ if is_string => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    members.extend((start < at).then_some(start..at));
                    return (members, at);
                }
            }
            b',' if depth == 1 => {
                members.push(start..at);
                start = at + 1;
            }
            _ => {}
        }
    }
    (Vec::new(), text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{"a":1,"metadata":{"name":"x,}","uid":"u"},"spec":{"b":[1,2]}}"#;

    #[test]
    fn scripts_repeat_add_rename_nest_and_move_members() {
        for (script, wanted) in [
            ([0, 2], r#"{"a":1,"metadata":{"name":"x,}","uid":"u"},"spec":{"b":[1,2]},"spec":{"b":[1,2]}}"#),
            ([1, 0], r#"{"a":1,"metadata":{"name":"x,}","uid":"u","name":"x,}"},"spec":{"b":[1,2]}}"#),
            ([2, 0], r#"{"a":1,"a":1,"metadata":{"name":"x,}","uid":"u"},"spec":{"b":[1,2]}}"#),
            ([4, 3], r#"{"a":1,"metadata":{"name":"x,}","uid":"u"},"spec":{"b":[1,2]},"n3":null}"#),
            ([6, 3], r#"{"a":1,"metadata":{"name":"x,}","uid":"u"},"spec":{"b":[1,2]} }"#),
            ([9, 1], r#"{"a":1,"metadata":{"name":"x,}","\u0075id":"u"},"spec":{"b":[1,2]}}"#),
            ([10, 0], r#"{"a":[1],"metadata":{"name":"x,}","uid":"u"},"spec":{"b":[1,2]}}"#),
            ([74, 0], r#"{"a":1,"metadata":{"name":"x,}","uid":"u"},"spec":{"b":[1,2],"n0":null}}"#),
            ([12, 0], r#"{"spec":{"b":[1,2]},"a":1,"metadata":{"name":"x,}","uid":"u"}}"#),
        ] {
            assert_eq!(edited(TEXT, &script), wanted, "{script:?}");
        }
    }

    #[test]
    fn editing_any_text_does_not_panic() {
        for text in ["", "{", "{}", "é{\"é\":1}", "[{\"metadata\":{]", "{\"metadata\":{\"é\":\"\\\"}\"}}"]
        {
            for what in 0..14 {
                for at in 0..8 {
                    let _ = edited(text, &[what, at]);
                }
            }
        }
    }
}
