//! Renders the recorded output of the demo as an animated SVG for the README.
//!
//! The lines appear one after the other, once, and all remain visible. The text is text, so that it can be selected and read aloud. The file
//! contains no script and refers to nothing outside.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::transcript::{Line, Style};

/// Characters in a row.
const COLUMNS: usize = 96;
/// Characters at the end of a step's title that are left for its time.
const TIME_COLUMNS: usize = 8;
/// Rows that the picture has room for.
const MAX_ROWS: usize = 64;

const FONT_SIZE: f64 = 14.0;
/// The widest of the usual monospaced fonts have characters of 0.602 em.
const CHAR_WIDTH: f64 = FONT_SIZE * 0.602;
const ROW_HEIGHT: f64 = 20.0;
const MARGIN: f64 = 16.0;
/// Space above a step's title.
const STEP_GAP: f64 = 10.0;

/// A shorter pause between two lines is extended to this, so that a reader can follow.
const MIN_PAUSE: Duration = Duration::from_millis(150);
/// A longer pause between two lines, such as that of a build, is shortened to this.
const MAX_PAUSE: Duration = Duration::from_millis(1500);

const STYLE: &str = "\
.background{fill:#f6f8fa;stroke:#d1d9e0}\
text{fill:#1f2328;white-space:pre}\
.command{font-weight:600}\
.step{fill:#0550ae;font-weight:600}\
.time{fill:#59636e}\
.line{animation:appear .2s both}\
@keyframes appear{from{opacity:0}}\
@media (prefers-color-scheme:dark){\
.background{fill:#0d1117;stroke:#3d444d}\
text{fill:#e6edf3}\
.step{fill:#79c0ff}\
.time{fill:#9198a1}\
}\
@media (prefers-reduced-motion:reduce){.line{animation:none}}";

/// Writes the picture of these lines to a file.
pub(crate) fn write(path: &Path, lines: &[Line]) -> Result<()> {
    fs::write(path, render(lines)?).with_context(|| format!("write {}", path.display()))?;
    println!("\nThe picture of the demo: {}", path.display());
    Ok(())
}

/// Returns the picture of these lines as SVG. Errors if there are more rows than the picture has room for.
fn render(lines: &[Line]) -> Result<String> {
    let width = 2.0 * MARGIN + COLUMNS as f64 * CHAR_WIDTH;
    let times: Vec<Duration> = lines.iter().map(|line| line.at).collect();
    let (mut texts, mut rows, mut y) = (String::new(), 0, MARGIN - ROW_HEIGHT / 4.0);
    for (line, delay) in lines.iter().zip(delays(&times)) {
        let columns = match line.style {
            Style::Step => COLUMNS - TIME_COLUMNS,
            Style::Command | Style::Detail => COLUMNS,
        };
        if line.style == Style::Step {
            y += STEP_GAP;
            let time = format!("{:.1} s", line.at.as_secs_f64());
            let end = width - MARGIN;
            texts += &text_element("time", end, y + ROW_HEIGHT, delay, &time);
        }
        for row in wrap(&plain(&line.text), columns) {
            let text = row.trim_start();
            let x = MARGIN + (row.len() - text.len()) as f64 * CHAR_WIDTH;
            y += ROW_HEIGHT;
            rows += 1;
            texts += &text_element(class(line.style), x, y, delay, text);
        }
    }
    ensure!(rows <= MAX_ROWS, "the demo printed {rows} rows, and its picture has room for {MAX_ROWS}");
    let height = y + ROW_HEIGHT / 4.0 + MARGIN;
    let background_width = width - 1.0;
    let background_height = height - 1.0;
    Ok(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         role=\"img\" aria-labelledby=\"title description\" xml:space=\"preserve\" \
         font-family=\"ui-monospace, SFMono-Regular, Menlo, Consolas, 'Liberation Mono', monospace\" font-size=\"{FONT_SIZE}\">\n\
         <title id=\"title\">The output of `cargo xtask demo`</title>\n\
         <desc id=\"description\">A terminal session. At the right is the time since the host was started; in the animation, long pauses \
         are shortened.</desc>\n\
         <style>{STYLE}</style>\n\
         <rect class=\"background\" x=\"0.5\" y=\"0.5\" width=\"{background_width:.0}\" height=\"{background_height:.0}\" rx=\"6\"/>\n\
         {texts}</svg>\n"
    ))
}

fn class(style: Style) -> &'static str {
    match style {
        Style::Command => "command",
        Style::Step => "step",
        Style::Detail => "detail",
    }
}

/// Returns one row of text. `x` is the right end of a time, and the left end of any other text.
fn text_element(class: &str, x: f64, y: f64, delay: Duration, text: &str) -> String {
    let anchor = if class == "time" { " text-anchor=\"end\"" } else { "" };
    let (delay, text) = (delay.as_secs_f64(), escape(text));
    format!(
        "<text class=\"line {class}\" x=\"{x:.1}\" y=\"{y:.1}\"{anchor} style=\"animation-delay:{delay:.2}s\">{text}</text>\n"
    )
}

/// Returns when each line appears, given when it was printed: pauses are kept, within bounds.
fn delays(times: &[Duration]) -> Vec<Duration> {
    let mut delay = Duration::ZERO;
    let mut previous = times.first().copied().unwrap_or_default();
    let mut delays = Vec::new();
    for (index, time) in times.iter().enumerate() {
        if index > 0 {
            delay += time.saturating_sub(previous).clamp(MIN_PAUSE, MAX_PAUSE);
        }
        previous = *time;
        delays.push(delay);
    }
    delays
}

/// Breaks a line at spaces, so that no row has more than `columns` characters. Rows after the first are indented by two more.
fn wrap(text: &str, columns: usize) -> Vec<String> {
    let indent = (text.chars().take_while(|char| *char == ' ').count() + 2).min(columns / 2);
    let mut rows = Vec::new();
    let mut rest = text.to_owned();
    while let Some((end, _)) = rest.char_indices().nth(columns) {
        // The row may end right before a space. A break within the indent would leave an empty row.
        let limit = end + usize::from(rest[end..].starts_with(' '));
        let space = rest[..limit].rfind(' ').filter(|at| !rest[..*at].trim().is_empty());
        let at = space.unwrap_or(end);
        let next = format!("{:indent$}{}", "", rest[at..].trim_start());
        rest.truncate(at);
        rows.push(std::mem::replace(&mut rest, next));
    }
    rows.push(rest);
    rows
}

/// Returns the text without terminal escape sequences and other control characters.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        if char == '\u{1b}' && chars.next_if_eq(&'[').is_some() {
            // Parameters, up to the final character.
            for parameter in chars.by_ref() {
                if ('@'..='~').contains(&parameter) {
                    break;
                }
            }
        } else if !char.is_control() {
            plain.push(char);
        }
    }
    plain
}

/// Escapes text for XML.
fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for char in text.chars() {
        match char {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&apos;",
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(milliseconds: u64, style: Style, text: &str) -> Line {
        Line { at: Duration::from_millis(milliseconds), style, text: text.to_owned() }
    }

    #[test]
    fn text_is_escaped() {
        let svg = render(&[line(0, Style::Detail, "    a < b && \"c\" > 'd'")]).expect("a picture");
        assert!(svg.contains(">a &lt; b &amp;&amp; &quot;c&quot; &gt; &apos;d&apos;</text>"), "{svg}");
    }

    #[test]
    fn escape_sequences_and_control_characters_are_removed() {
        assert_eq!(plain("\u{1b}[1;32mgreen\u{1b}[0m\u{7} and\ttext\r"), "green andtext");
        assert_eq!(plain("\u{1b}[1"), "", "an unfinished sequence");
        assert_eq!(plain("\u{1b}a"), "a");
    }

    #[test]
    fn pauses_are_kept_within_their_bounds() {
        let times = [5000, 5001, 6001, 20_000, 20_000].map(Duration::from_millis);
        let expected = [0, 150, 1150, 2650, 2800].map(Duration::from_millis);
        assert_eq!(delays(&times), expected);
        assert_eq!(delays(&[]), Vec::<Duration>::new());
    }

    #[test]
    fn each_line_appears_at_its_time() {
        let lines = [
            line(0, Style::Command, "$ run"),
            line(400, Style::Step, "[1] It starts"),
            line(1600, Style::Detail, "    it runs"),
        ];
        let svg = render(&lines).expect("a picture");
        for (text, delay) in [("$ run", "0.00s"), ("[1] It starts", "0.40s"), ("it runs", "1.60s")] {
            let row = svg.lines().find(|row| row.contains(text)).expect(text);
            assert!(row.contains(&format!("animation-delay:{delay}")), "{row}");
        }
        assert!(svg.contains(">0.4 s</text>"), "the time of the step: {svg}");
        assert!(!svg.contains(">1.6 s</text>"), "only steps have a time: {svg}");
    }

    #[test]
    fn long_lines_are_broken_at_spaces_and_keep_their_indent() {
        assert_eq!(wrap("    one two three", 12), ["    one two", "      three"]);
        assert_eq!(wrap("one two three", 7), ["one two", "  three"]);
        assert_eq!(wrap("abcdefgh", 4), ["abcd", "  ef", "  gh"]);
        assert_eq!(wrap("    ä → ü", 9), ["    ä → ü"]);
        assert_eq!(wrap("", 4), [""]);
    }

    #[test]
    fn the_picture_is_readable_in_both_schemes_and_without_motion_and_runs_nothing() {
        let svg = render(&[line(0, Style::Command, "$ run")]).expect("a picture");
        for part in ["prefers-color-scheme:dark", "prefers-reduced-motion:reduce", "<title", "role=\"img\""] {
            assert!(svg.contains(part), "{part}\n{svg}");
        }
        for part in ["<script", "href", "url(", "@import", " on"] {
            assert!(!svg.contains(part), "{part}\n{svg}");
        }
    }

    #[test]
    fn the_size_is_bounded() {
        let longest = "\"".repeat(COLUMNS - TIME_COLUMNS);
        let mut lines = vec![line(0, Style::Step, &longest); MAX_ROWS];
        let svg = render(&lines).expect("a picture");
        assert!(svg.len() < 64 << 10, "{} bytes", svg.len());
        lines.push(line(0, Style::Detail, "one too many"));
        let error = render(&lines).expect_err("no room").to_string();
        assert_eq!(error, "the demo printed 65 rows, and its picture has room for 64");
    }
}
