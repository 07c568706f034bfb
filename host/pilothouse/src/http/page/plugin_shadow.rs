//! The section about the shadow of a plugin: how often it agreed with the running version, and the last differences.

use maud::{Markup, html};
use pilothouse_controller::ShadowStatus;

use super::layout::{scrolling, short, text, time};

/// Renders the section.
pub(super) fn shadow(shadow: &ShadowStatus) -> Markup {
    html! {
        h2 id="shadow-heading" { "Shadow" }
        p {
            "The new version " (short(&shadow.version)) " in " code { (short(&shadow.file)) }
            " gets the same requests; its writes are not sent but compared: " (shadow.agreed) " reconciles agree, "
            (shadow.differed) " differ, " (shadow.skipped) " cannot be compared, " (shadow.dropped) " were left out."
        }
        @if !shadow.error.is_empty() { p.problem { "The shadow does not run: " (text(&shadow.error)) } }
        @if !shadow.differences.is_empty() {
            (scrolling("Table of the last differences", &differences(shadow)))
        }
    }
}

fn differences(shadow: &ShadowStatus) -> Markup {
    html! {
        table {
            thead {
                tr {
                    th scope="col" { "Time" }
                    th scope="col" { "Key" }
                    th scope="col" { "Running version" }
                    th scope="col" { "Shadow" }
                    th scope="col" { "Place" }
                }
            }
            tbody {
                @for one in shadow.differences.iter().rev() {
                    tr {
                        td { (time(&one.time)) }
                        th scope="row" { (short(&one.watch)) " " (short(&one.key)) }
                        td { (text(&one.running)) }
                        td { (text(&one.shadow)) }
                        td { (text(&one.place)) }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_controller::ShadowDifference;

    use super::*;

    #[test]
    fn counts_and_differences_are_shown_as_text() {
        let difference = ShadowDifference {
            time: "2026-01-02T03:04:05Z".to_owned(),
            watch: "foos".to_owned(),
            key: "shop/a".to_owned(),
            running: "client.update apps/v1 Deployment shop/a".to_owned(),
            shadow: "returns retry: <b>".to_owned(),
            place: String::new(),
        };
        let status = ShadowStatus {
            file: "new.wasm".to_owned(),
            version: "2.0.0".to_owned(),
            agreed: 12,
            differed: 3,
            error: "<i>".to_owned(),
            differences: vec![difference],
            ..ShadowStatus::default()
        };
        let page = shadow(&status).into_string();
        for expected in [
            "12 reconciles agree, 3 differ",
            "The shadow does not run: &lt;i&gt;",
            "client.update apps/v1 Deployment shop/a",
            "returns retry: &lt;b&gt;",
        ] {
            assert!(page.contains(expected), "{expected}: {page}");
        }
        let page = shadow(&ShadowStatus::default()).into_string();
        assert!(!page.contains("<table>") && !page.contains("does not run"), "{page}");
    }
}
