//! Replaces what differs between two servers, or two runs, in a line that kubectl printed. Pure.

/// The beginning of the address of a server on loopback.
const LOOPBACK: &str = "127.0.0.1:";

/// Returns the line with placeholders for times, UIDs and the port of the server.
pub(super) fn line(line: &str) -> String {
    let mut normalized = String::with_capacity(line.len());
    let mut rest = line.trim_end();
    while !rest.is_empty() {
        let end = rest.find(|character: char| !is_in_word(character)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        normalized.push_str(&placeholder(word));
        let mut characters = after.chars();
        normalized.extend(characters.next());
        rest = characters.as_str();
    }
    normalized
}

fn is_in_word(character: char) -> bool {
    character.is_ascii_alphanumeric() || "-:.+".contains(character)
}

/// Returns what a word is replaced by, or the word.
fn placeholder(word: &str) -> String {
    let text = word.trim_end_matches(['.', ':', '-', '+']);
    let (start, end) = word.split_at(text.len());
    let replacement = match text.strip_prefix(LOOPBACK) {
        Some(port) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => "SERVER",
        _ if has_pattern(text, "hhhhhhhh-hhhh-hhhh-hhhh-hhhhhhhhhhhh") => "UID",
        _ if text.get(..19).is_some_and(|time| has_pattern(time, "dddd-dd-ddTdd:dd:dd")) => "TIME",
        _ => start,
    };
    format!("{replacement}{end}")
}

/// Returns whether a text has a pattern, in which `d` is a digit and `h` a hexadecimal one.
fn has_pattern(text: &str, pattern: &str) -> bool {
    text.len() == pattern.len()
        && text.bytes().zip(pattern.bytes()).all(|(byte, expected)| match expected {
            b'd' => byte.is_ascii_digit(),
            b'h' => byte.is_ascii_hexdigit(),
            other => byte == other,
        })
}

#[cfg(test)]
mod tests {
    use super::line;

    #[test]
    fn times_uids_and_ports_are_replaced() {
        for (text, expected) in [
            ("pod/a created", "pod/a created"),
            ("at 2026-11-22T10:00:00Z.", "at TIME."),
            ("\"2026-11-22T10:00:00.123456+01:00\"", "\"TIME\""),
            ("uid 0b1c2d3e-0000-4aaa-bbbb-123456789abc: x", "uid UID: x"),
            ("Get \"https://127.0.0.1:40123/apis\": EOF", "Get \"https://SERVER/apis\": EOF"),
            ("spec.port: 127.0.0.1:x é", "spec.port: 127.0.0.1:x é"),
        ] {
            assert_eq!(line(text), expected);
        }
    }

    #[test]
    fn versions_and_dates_stay() {
        let text = "v1.36.3 2026-11-22 deadbeef-0000 10:00:00";
        assert_eq!(line(text), text);
    }
}
