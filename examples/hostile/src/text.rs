//! Texts of any length, written in a few bytes.

use serde::Deserialize;

/// A text as it stands, or one that is made by repetition. `{turn}` in it is replaced by the number of the repetition of its step.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Text {
    /// The text itself.
    Plain(String),
    /// `before`, `times` times `repeat`, then `after`.
    Repeated {
        #[serde(default)]
        before: String,
        repeat: String,
        times: usize,
        #[serde(default)]
        after: String,
    },
}

impl Default for Text {
    fn default() -> Self {
        Self::Plain(String::new())
    }
}

impl Text {
    /// The text for one turn of a repeated step.
    pub(crate) fn make(&self, turn: u32) -> String {
        let text = match self {
            Self::Plain(text) => text.clone(),
            Self::Repeated { before, repeat, times, after } => {
                [before.as_str(), &repeat.repeat(*times), after].concat()
            }
        };
        if text.contains("{turn}") { text.replace("{turn}", &turn.to_string()) } else { text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_plain_or_repeated_and_knows_its_turn() {
        let text = |json: &str| serde_json::from_str::<Text>(json).expect(json).make(7);
        assert_eq!(text(r#""a-{turn}""#), "a-7");
        assert_eq!(text(r#"{"before": "$[?", "repeat": "(", "times": 3, "after": "x"}"#), "$[?(((x");
    }
}
