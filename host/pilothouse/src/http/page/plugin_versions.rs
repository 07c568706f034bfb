//! The versions of a plugin: which ones run, and the commands that run others.

use maud::{Markup, html};
use pilothouse_controller::{CanaryStatus, RolloutStatus, VersionStatus};

use super::duration;
use super::layout::{scrolling, short, text, time};
use crate::summary;

/// The number of characters of a SHA-256 that are shown. `rollback` accepts them.
const DIGEST_CHARS: usize = 12;

/// Renders the versions. `rollout` is `None` while there is only one.
pub(super) fn versions(plugin: &str, rollout: Option<&RolloutStatus>) -> Markup {
    html! {
        h2 id="versions-heading" { "Versions" }
        @if let Some(rollout) = rollout {
            @if let Some(canary) = &rollout.canary { (canary_section(plugin, canary)) }
            @if let Some(probation) = &rollout.probation {
                p {
                    "The running version is in probation for another " (seconds(probation.remaining_seconds))
                    ": " (probation.reconciles) " reconciles, " (probation.errors) " errors. If it fails, "
                    code { (short(digest(&probation.previous))) } " runs again."
                }
            }
            @if let Some(held_back) = &rollout.held_back {
                p.problem {
                    "The version in the plugins directory, " code { (short(digest(&held_back.digest))) } ", is held back since "
                    (time(&held_back.since)) @if held_back.automatic { " by the host" } @else { " by an operator" } ": "
                    (text(&held_back.reason))
                }
            }
            (scrolling("Table of the versions", &table(plugin, rollout)))
        } @else {
            p { "There is no other version to run." }
        }
    }
}

fn canary_section(plugin: &str, canary: &CanaryStatus) -> Markup {
    html! {
        p {
            "The canary, version " (short(&canary.version)) " with the SHA-256 " code { (short(digest(&canary.digest))) }
            ", reconciles the keys of " (text(&summary::canary_keys(canary))) ": " (canary.reconciles) " reconciles, "
            (canary.errors) " errors. "
            @if let Some(remaining) = canary.remaining_seconds {
                "If it works for another " (seconds(remaining)) ", it reconciles all keys. "
            }
            code { "pilothouse promote " (short(plugin)) } " lets it reconcile all keys now."
        }
        @if !canary.error.is_empty() { p.problem { "The canary does not work: " (text(&canary.error)) } }
    }
}

fn table(plugin: &str, rollout: &RolloutStatus) -> Markup {
    let is_canary = |version: &VersionStatus| {
        rollout.canary.as_ref().is_some_and(|canary| canary.digest == version.digest)
    };
    html! {
        table {
            caption { "Versions that can run, the newest first" }
            thead { tr { th scope="col" { "SHA-256" } th scope="col" { "Version" } th scope="col" { "Run it with" } } }
            tbody {
                @for version in &rollout.versions {
                    tr {
                        th scope="row" { code { (short(digest(&version.digest))) } }
                        td { (short(&version.version)) }
                        td {
                            @if version.running {
                                "It runs."
                            } @else if is_canary(version) {
                                "It is the canary."
                            } @else {
                                code { "pilothouse rollback " (short(plugin)) " " (short(digest(&version.digest))) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Returns the beginning of a SHA-256.
fn digest(digest: &str) -> &str {
    digest.get(..DIGEST_CHARS).unwrap_or(digest)
}

fn seconds(seconds: u64) -> String {
    duration(seconds.saturating_mul(1000))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn shown(rollout: &Value) -> String {
        let rollout: RolloutStatus = serde_json::from_value(rollout.clone()).expect("a rollout");
        versions("p", Some(&rollout)).into_string()
    }

    #[test]
    fn an_older_version_has_the_command_that_runs_it() {
        let shown = shown(&json!({
            "versions": [{"digest": "a".repeat(64), "version": "2", "running": true}, {"digest": "b".repeat(64), "version": "1", "running": false}],
            "probation": {"remainingSeconds": 90, "previous": "b".repeat(64), "reconciles": 7, "errors": 1},
            "heldBack": {"digest": "c".repeat(64), "reason": "it fails", "automatic": true, "since": "2026-01-02T03:04:05Z"},
        }));
        for part in [
            "<code>pilothouse rollback p bbbbbbbbbbbb</code>",
            "It runs.",
            "in probation for another 1 min 30 s",
            "<code>cccccccccccc</code>, is held back since",
            " by the host: it fails",
        ] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
    }

    #[test]
    fn a_canary_is_shown_with_its_keys_and_the_command_that_promotes_it() {
        let hostile = "<b>\u{202e}";
        let rollout = |remaining: Value| {
            shown(&json!({
                "versions": [{"digest": "b".repeat(64), "version": "2", "running": false}, {"digest": "a".repeat(64), "version": "1", "running": true}],
                "canary": {
                    "digest": "b".repeat(64), "version": hostile, "namespaces": ["shop", hostile], "remainingSeconds": remaining,
                    "reconciles": 7, "errors": 1, "error": hostile,
                },
            }))
        };
        let until_promoted = rollout(Value::Null);
        for part in [
            "reconciles the keys of the namespaces shop, &lt;b&gt;",
            "7 reconciles, 1 errors. <code>pilothouse promote p</code>",
            "The canary does not work: &lt;b&gt;",
            "<code>bbbbbbbbbbbb</code></th><td>2</td><td>It is the canary.</td>",
        ] {
            assert!(until_promoted.contains(part), "{part}: {until_promoted}");
        }
        assert!(
            !until_promoted.contains(['\u{202e}']) && !until_promoted.contains("<b>"),
            "{until_promoted}"
        );
        let promoted_later = rollout(json!(90));
        assert!(promoted_later.contains("If it works for another 1 min 30 s, it"), "{promoted_later}");
    }
}
