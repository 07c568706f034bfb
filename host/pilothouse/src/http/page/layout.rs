//! What all pages have in common: the frame, links, and how text of others is written.
//!
//! Everything that a plugin, a file or a server chose is written through [`text`] or [`short`]. They escape what has a meaning in HTML, and make
//! characters visible that hide or reorder text.

use std::fmt::Write;

use maud::{DOCTYPE, Escaper, Markup, Render, html};
use pilothouse_controller::printable;

use crate::commands::percent_encoded;

/// The path of the style sheet.
pub(super) const STYLE_PATH: &str = "/page/style.css";
/// The path of the script.
pub(super) const SCRIPT_PATH: &str = "/page/live.js";
/// The path of the icon.
pub(super) const ICON_PATH: &str = "/page/icon.svg";
/// The path of the stream of events.
pub(super) const EVENTS_PATH: &str = "/page/events";

/// The maximum number of characters of an error or a log line.
const MAX_TEXT: usize = 2000;
/// The maximum number of characters of a name, or of any text in the overview.
const MAX_SHORT: usize = 160;
/// The longest name or key that is linked, in bytes. No object has a longer one.
const MAX_LINKED: usize = 317;

/// Text that somebody else chose.
pub(super) struct Text<'a> {
    text: &'a str,
    max_chars: usize,
}

/// Returns text that is written as text, whatever it contains. The end of a very long one is left out.
pub(super) fn text(text: &str) -> Text<'_> {
    Text { text, max_chars: MAX_TEXT }
}

/// Returns a name, or the beginning of a longer text, that is written as text.
pub(super) fn short(text: &str) -> Text<'_> {
    Text { text, max_chars: MAX_SHORT }
}

impl Render for Text<'_> {
    fn render_to(&self, buffer: &mut String) {
        let end = self.text.char_indices().nth(self.max_chars).map_or(self.text.len(), |(end, _)| end);
        // Writing to a String cannot fail.
        let _ = write!(Escaper::new(buffer), "{}", printable(&self.text[..end]));
        if end < self.text.len() {
            buffer.push('…');
        }
    }
}

/// Returns the path of a plugin's page; `None` for the name of a file that no path can have.
pub(super) fn plugin_path(plugin: &str) -> Option<String> {
    is_linkable(plugin).then(|| format!("/plugins/{}", percent_encoded(plugin)))
}

/// Returns the path of a key's page, with the name of its watch unless that is empty; `None` for a key that no object has.
pub(super) fn key_path(plugin: &str, watch: &str, key: &str) -> Option<String> {
    let parts: Vec<&str> = key.split('/').collect();
    if key.len() > MAX_LINKED || !parts.iter().all(|part| is_linkable(part)) {
        return None;
    }
    let parts: Vec<String> = parts.into_iter().map(percent_encoded).collect();
    let path = format!("{}/keys/{}", plugin_path(plugin)?, parts.join("/"));
    Some(if watch.is_empty() { path } else { format!("{path}?watch={}", percent_encoded(watch)) })
}

/// Whether text can be a segment of a path. Browsers remove the segments `.` and `..`.
fn is_linkable(segment: &str) -> bool {
    !segment.is_empty() && segment.len() <= MAX_LINKED && segment != "." && segment != ".."
}

/// Renders a link, or only its text if there is no path.
pub(super) fn link(path: Option<&str>, label: &Text<'_>) -> Markup {
    html! {
        @if let Some(path) = path { a href=(path) { (label) } } @else { (label) }
    }
}

/// Renders a time in RFC 3339; nothing for "".
pub(super) fn time(time: &str) -> Markup {
    html! {
        @if !time.is_empty() {
            time datetime=(short(time)) { (short(time)) }
        }
    }
}

/// Renders a state. Its colour repeats what the word says.
pub(super) fn state(state: &str) -> Markup {
    html! { span class={ "state " (state) } { (state) } }
}

/// Renders a table that scrolls by itself on a narrow screen. Whoever uses a keyboard can focus it for that.
pub(super) fn scrolling(label: &str, table: &Markup) -> Markup {
    html! { div.scrolls role="region" aria-label=(label) tabindex="0" { (table) } }
}

/// A page.
pub(super) struct Page<'a> {
    /// The title, which may contain text of others.
    pub(super) title: &'a str,
    /// The path of the events after which the page is brought up to date; `None` for a page that stays as it is, such as that of a bundle.
    pub(super) events: Option<&'a str>,
    /// The content. The script replaces its elements with `data-live`, which it recognises by their IDs.
    pub(super) content: Markup,
}

impl Page<'_> {
    /// Renders the page. Without scripts it is complete, and shows the state at the time of the request.
    pub(super) fn render(&self) -> String {
        let Self { title, events, content } = self;
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (short(title)) " · Pilothouse" }
                    link rel="icon" type="image/svg+xml" href=(ICON_PATH);
                    link rel="stylesheet" href=(STYLE_PATH);
                    @if events.is_some() {
                        script src=(SCRIPT_PATH) defer {}
                    }
                }
                body data-events=[events] {
                    a.skip href="#content" { "Skip to the content" }
                    header {
                        a.brand href="/" { "Pilothouse" }
                        @if events.is_some() {
                            nav aria-label="Documents" {
                                a href="/api/plugins" { "/api/plugins" }
                                a href="/metrics" { "/metrics" }
                            }
                            p.updates {
                                span id="updates" role="status" {}
                                button id="pause" type="button" hidden { "Pause updates" }
                                noscript { a href="" { "Reload" } }
                            }
                        }
                    }
                    main id="content" tabindex="-1" { (content) }
                }
            }
        };
        page.into_string()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rendered(content: Markup) -> String {
        Page { title: "t", events: None, content }.render()
    }

    /// Whether a character ends text, or hides or reorders it.
    fn is_harmful(character: char) -> bool {
        matches!(
            character,
            '<' | '>' | '"' | '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}'
                | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
        )
    }

    /// Reverts the escapes of HTML.
    fn unescaped(html: &str) -> String {
        html.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&")
    }

    proptest! {
        #[test]
        fn text_of_others_stays_text(
            parts in proptest::collection::vec(
                prop_oneof![
                    any::<char>().prop_map(String::from),
                    Just("<script>alert(1)</script>".to_owned()),
                    Just("\" onload=\"x".to_owned()),
                    Just("&lt;".to_owned()),
                    Just("\u{202e}\u{2066}\u{0}\u{1b}[2J".to_owned()),
                ],
                0..20,
            )
        ) {
            let original = parts.concat();
            let written = html! { (text(&original)) }.into_string();
            prop_assert!(!written.chars().any(is_harmful), "{written:?}");
            prop_assert_eq!(unescaped(&written), printable(&original).to_string());
            let attribute = html! { i title=(short(&original)) {} }.into_string();
            let value = attribute.strip_prefix("<i title=\"").and_then(|rest| rest.strip_suffix("\"></i>"));
            prop_assert!(value.is_some_and(|value| !value.chars().any(is_harmful)), "{attribute:?}");
        }

        #[test]
        fn a_link_is_a_path_of_this_host(plugin in any::<String>(), key in any::<String>(), watch in any::<String>()) {
            if let Some(path) = key_path(&plugin, &watch, &key) {
                prop_assert!(path.starts_with("/plugins/") && !path.starts_with("//"), "{path}");
                let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~%/?=".contains(&byte);
                prop_assert!(path.bytes().all(is_allowed), "{path}");
                prop_assert!(!path.split(['/', '?']).any(|part| part == "." || part == ".."), "{path}");
            }
        }
    }

    #[test]
    fn a_long_text_ends_with_an_ellipsis() {
        let long = "ä".repeat(63 << 10);
        let written = html! { (short(&long)) }.into_string();
        assert_eq!(written, format!("{}…", "ä".repeat(MAX_SHORT)));
        assert_eq!(key_path("p", "", &long), None, "no object has such a key");
        assert_eq!(html! { (text("short")) }.into_string(), "short");
    }

    #[test]
    fn only_what_a_path_can_contain_is_linked() {
        assert_eq!(key_path("p", "", "shop/a").as_deref(), Some("/plugins/p/keys/shop/a"));
        assert_eq!(key_path("p", "foos", "a:b").as_deref(), Some("/plugins/p/keys/a%3Ab?watch=foos"));
        assert_eq!(plugin_path("a\"b").as_deref(), Some("/plugins/a%22b"));
        assert_eq!(
            (plugin_path(".."), key_path("p", "", "shop/.."), key_path("p", "", "")),
            (None, None, None)
        );
    }

    #[test]
    fn a_page_has_landmarks_and_loads_nothing_from_elsewhere() {
        let page = rendered(html! { h1 { "x" } });
        for part in ["<html lang=\"en\">", "<main id=\"content\"", "<header>", "href=\"#content\"", "<title>"]
        {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(!page.contains("://") && !page.contains(" on") && !page.contains("style="), "{page}");
        assert!(!page.contains("<script"), "a page that stays as it is has no script: {page}");
        let live = Page { title: "t", events: Some(EVENTS_PATH), content: html! {} }.render();
        assert!(live.contains("<script src=\"/page/live.js\" defer></script>"), "{live}");
        assert!(live.contains("<nav aria-label=\"Documents\">"), "{live}");
        assert!(live.contains("<body data-events=\"/page/events\">"), "{live}");
    }
}
