//! The columns of the overview, and the order in which it lists the plugins.

use pilothouse_controller::PluginStatus;

use crate::summary;

/// A column by which the overview can be sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    Name,
    State,
    Since,
    Queue,
    Backoff,
    Reconciles,
    Errors,
}

impl Column {
    pub(super) const ALL: [Self; 7] =
        [Self::Name, Self::State, Self::Since, Self::Queue, Self::Backoff, Self::Reconciles, Self::Errors];

    /// Returns the value of the parameter, and the heading.
    pub(super) fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Name => ("name", "Plugin"),
            Self::State => ("state", "State"),
            Self::Since => ("since", "Since"),
            Self::Queue => ("queue", "Queue"),
            Self::Backoff => ("backoff", "Backoff"),
            Self::Reconciles => ("reconciles", "Reconciles"),
            Self::Errors => ("errors", "Errors"),
        }
    }

    /// Whether the column is left out on a narrow screen.
    pub(super) fn class(self) -> Option<&'static str> {
        matches!(self, Self::Since | Self::Queue | Self::Backoff | Self::Reconciles).then_some("wide")
    }
}

/// The order of the plugins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) column: Column,
    pub(super) is_reverse: bool,
}

impl Order {
    /// Parses the parameter. Anything else than a column stands for the order by name.
    pub(super) fn parse(text: &str) -> Self {
        let (is_reverse, name) = text.strip_prefix('-').map_or((false, text), |name| (true, name));
        match Column::ALL.into_iter().find(|column| column.names().0 == name) {
            Some(column) => Self { column, is_reverse },
            None => Self { column: Column::Name, is_reverse: false },
        }
    }

    /// Returns the value of the parameter.
    pub(super) fn parameter(self) -> String {
        let (name, _) = self.column.names();
        if self.is_reverse { format!("-{name}") } else { name.to_owned() }
    }

    /// Returns the order that a click on a heading selects: the other direction, or that in which a column is mostly wanted.
    pub(super) fn after_click(self, column: Column) -> Self {
        let is_count =
            matches!(column, Column::Queue | Column::Backoff | Column::Reconciles | Column::Errors);
        let is_reverse = if self.column == column { !self.is_reverse } else { is_count };
        Self { column, is_reverse }
    }

    /// Sorts plugins, which the host lists by name.
    pub(super) fn sort(self, plugins: &mut [&PluginStatus]) {
        // Stable, so plugins with the same value stay in the order of their names.
        match self.column {
            Column::Name => plugins.sort_by(|a, b| a.name.cmp(&b.name)),
            Column::State => plugins.sort_by_key(|plugin| severity(summary::state(plugin))),
            Column::Since => plugins.sort_by(|a, b| a.since.cmp(&b.since)),
            Column::Queue => plugins.sort_by_key(|plugin| plugin.queue_depth),
            Column::Backoff => plugins.sort_by_key(|plugin| plugin.keys_in_backoff),
            Column::Reconciles => plugins.sort_by_key(|plugin| reconciles(plugin)),
            Column::Errors => plugins.sort_by_key(|plugin| summary::errors(plugin)),
        }
        if self.is_reverse {
            plugins.reverse();
        }
    }
}

/// Returns a number by which states are sorted, those that need attention first.
pub(super) fn severity(state: &str) -> u8 {
    match state {
        "failed" => 0,
        "backing-off" => 1,
        "failing" => 2,
        "waiting" => 3,
        "paused" => 4,
        "found" | "compiling" | "describing" => 5,
        "running" => 6,
        _ => 7,
    }
}

/// Returns the number of reconciles since the host started.
pub(super) fn reconciles(plugin: &PluginStatus) -> u64 {
    plugin.counters.get("reconciles").copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_parsed_from_its_parameter() {
        for column in Column::ALL {
            for is_reverse in [false, true] {
                let order = Order { column, is_reverse };
                assert_eq!(Order::parse(&order.parameter()), order);
                assert_ne!(order.after_click(column), order);
            }
        }
        let by_name = Order { column: Column::Name, is_reverse: false };
        assert_eq!([Order::parse(""), Order::parse("-"), Order::parse("--name")], [by_name; 3]);
        assert!(by_name.after_click(Column::Errors).is_reverse, "the largest count first");
    }
}
