//! The actions of a script.

use std::time::Duration;

/// One line of a script: the name of an action and, for most, a colon and an argument.
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
    /// Parses a line.
    ///
    /// # Errors
    /// The error describes what is wrong with the line.
    pub(crate) fn parse(line: &'a str) -> Result<Self, String> {
        let (name, rest) = line.split_once(':').unwrap_or((line, ""));
        let text = |default| if rest.is_empty() { default } else { rest };
        let argument = || {
            if rest.is_empty() { Err(format!("{line:?}: expected a name after the colon")) } else { Ok(rest) }
        };
        Ok(match name {
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
            "copy" => Self::Copy(argument()?),
            "delete" => Self::Delete(argument()?),
            "read-back" => Self::ReadBack(argument()?),
            "group" => Self::Group(argument()?),
            "stale-update" => Self::StaleUpdate(argument()?),
            "add" => Self::Add(argument()?),
            "add-after" => {
                let (name, delay) = rest
                    .split_once(':')
                    .ok_or_else(|| format!("{line:?}: expected add-after:NAME:MILLISECONDS"))?;
                Self::AddAfter(name, duration(line, delay)?)
            }
            "event" => Self::Event(text("asked for an Event")),
            "warning" => Self::Warning(text("asked for a warning")),
            "log" => Self::Log(rest),
            "flip" => Self::Flip,
            "insist" => Self::Insist(argument()?),
            "create" => Self::Create(argument()?),
            _ => return Err(format!("{line:?}: unknown action {name:?}; README.md lists the actions")),
        })
    }
}

fn number(line: &str, text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("{line:?}: expected a number after the colon"))
}

fn duration(line: &str, text: &str) -> Result<Duration, String> {
    number(line, text).map(|milliseconds| Duration::from_millis(milliseconds.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_are_parsed_with_their_arguments() {
        let requeue = Action::Requeue(Duration::from_millis(500));
        assert_eq!(Action::parse("requeue:500"), Ok(requeue));
        assert_eq!(Action::parse("retry"), Ok(Action::Retry("asked to retry")));
        assert_eq!(Action::parse("retry:no: not yet"), Ok(Action::Retry("no: not yet")));
        assert_eq!(Action::parse("copy:target"), Ok(Action::Copy("target")));
        let add = Action::AddAfter("other", Duration::from_millis(20));
        assert_eq!(Action::parse("add-after:other:20"), Ok(add));
    }

    #[test]
    fn the_error_of_an_invalid_line_describes_the_problem() {
        for (line, problem) in [
            ("requeue:soon", "\"requeue:soon\": expected a number after the colon"),
            ("copy", "\"copy\": expected a name after the colon"),
            ("add-after:other", "\"add-after:other\": expected add-after:NAME:MILLISECONDS"),
            ("explode", "\"explode\": unknown action \"explode\"; README.md lists the actions"),
        ] {
            assert_eq!(Action::parse(line), Err(problem.to_owned()));
        }
    }
}
