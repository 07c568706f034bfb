use std::time::Duration;

/// One line of a script: a word, and for most a colon and what comes with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action<'a> {
    Requeue(Duration),
    Retry(&'a str),
    RetryUntil(u32),
    Terminal(&'a str),
    Panic(&'a str),
    Loop,
    Busy(Duration),
    Allocate,
    Handles(u32),
    UnknownWatch,
    Denied,
    Copy(&'a str),
    Delete(&'a str),
    ReadBack(&'a str),
    Group(&'a str),
    StaleUpdate(&'a str),
    Add(&'a str),
    AddAfter(&'a str, Duration),
    Event(&'a str),
    Warning(&'a str),
    Log(&'a str),
    Flip,
    Insist(&'a str),
    Create(&'a str),
}

impl<'a> Action<'a> {
    /// Reads a line; the error says what is wrong with it.
    pub(crate) fn parse(line: &'a str) -> Result<Self, String> {
        let (word, rest) = line.split_once(':').unwrap_or((line, ""));
        let text = |default| if rest.is_empty() { default } else { rest };
        let name = || {
            if rest.is_empty() { Err(format!("{line:?}: a name belongs after the colon")) } else { Ok(rest) }
        };
        Ok(match word {
            "requeue" => Self::Requeue(duration(line, rest)?),
            "retry" => Self::Retry(text("asked to retry")),
            "retry-until" => Self::RetryUntil(number(line, rest)?),
            "terminal" => Self::Terminal(text("asked to fail")),
            "panic" => Self::Panic(text("asked to panic")),
            "loop" => Self::Loop,
            "busy" => Self::Busy(duration(line, rest)?),
            "allocate" => Self::Allocate,
            "handles" => Self::Handles(number(line, rest)?),
            "unknown-watch" => Self::UnknownWatch,
            "denied" => Self::Denied,
            "copy" => Self::Copy(name()?),
            "delete" => Self::Delete(name()?),
            "read-back" => Self::ReadBack(name()?),
            "group" => Self::Group(name()?),
            "stale-update" => Self::StaleUpdate(name()?),
            "add" => Self::Add(name()?),
            "add-after" => {
                let (name, delay) = rest
                    .split_once(':')
                    .ok_or_else(|| format!("{line:?}: write add-after:NAME:MILLISECONDS"))?;
                Self::AddAfter(name, duration(line, delay)?)
            }
            "event" => Self::Event(text("asked for an Event")),
            "warning" => Self::Warning(text("asked for a warning")),
            "log" => Self::Log(rest),
            "flip" => Self::Flip,
            "insist" => Self::Insist(name()?),
            "create" => Self::Create(name()?),
            _ => return Err(format!("{line:?}: there is no action {word:?}; README.md lists them")),
        })
    }
}

fn number(line: &str, text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("{line:?}: a number belongs after the colon"))
}

fn duration(line: &str, text: &str) -> Result<Duration, String> {
    number(line, text).map(|milliseconds| Duration::from_millis(milliseconds.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_are_read_with_what_belongs_to_them() {
        let requeue = Action::Requeue(Duration::from_millis(500));
        assert_eq!(Action::parse("requeue:500"), Ok(requeue));
        assert_eq!(Action::parse("retry"), Ok(Action::Retry("asked to retry")));
        assert_eq!(Action::parse("retry:no: not yet"), Ok(Action::Retry("no: not yet")));
        assert_eq!(Action::parse("copy:target"), Ok(Action::Copy("target")));
        let add = Action::AddAfter("other", Duration::from_millis(20));
        assert_eq!(Action::parse("add-after:other:20"), Ok(add));
    }

    #[test]
    fn a_line_that_is_wrong_says_how() {
        for (line, problem) in [
            ("requeue:soon", "\"requeue:soon\": a number belongs after the colon"),
            ("copy", "\"copy\": a name belongs after the colon"),
            ("add-after:other", "\"add-after:other\": write add-after:NAME:MILLISECONDS"),
            ("explode", "\"explode\": there is no action \"explode\"; README.md lists them"),
        ] {
            assert_eq!(Action::parse(line), Err(problem.to_owned()));
        }
    }
}
