//! The state machine of one plugin. Pure: its driver passes what happened and the time.
//!
//! While no version is installed:
//!
//! | from | what happened | to |
//! |---|---|---|
//! | any but draining | a file is new or has changed | found |
//! | found, compiling, waiting | its wasm is being compiled | compiling |
//! | found, compiling, waiting | it is being described | describing |
//! | found, compiling, describing, waiting, backing-off | something is waited for | waiting |
//! | describing, waiting, backing-off | a version is installed | running |
//! | found, compiling, describing, waiting, backing-off | the files are refused | failed |
//! | found, compiling, describing, waiting, backing-off | loading failed for now | backing-off |
//! | any but draining | it is being stopped | draining |
//! | draining | it has stopped | stopped |
//!
//! A load that is retried stays in backing-off until it ends or waits, so that its problem stays visible.
//!
//! While a version is installed, loading another does not change the state; the outcome of the load is
//! reported separately:
//!
//! | from | what happened | to |
//! |---|---|---|
//! | running, waiting, backing-off | a version is installed in its place | running |
//! | running, backing-off | too many faults in a row | backing-off |
//! | backing-off | a call succeeded again | running |
//! | running, waiting, backing-off | it is suspended | waiting |
//! | waiting | it is not suspended any more | running |
//! | running, waiting, backing-off | it is being stopped | draining |
//!
//! Every other transition is illegal, and refused.

use std::time::Duration;

use jiff::Timestamp;

use super::status::PluginState::{
    self, BackingOff, Compiling, Describing, Draining, Failed, Found, Running, Stopped, Waiting,
};
use crate::timestamp::rfc_3339;

/// What happened to a plugin.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Input<'a> {
    /// Its files are new or have changed: a load begins.
    Found,
    /// A load that failed for now is tried again.
    Retry,
    /// A load has reached this step. A load that was cancelled may still report steps; they are ignored.
    Step { load: u64, state: PluginState, waiting_for: &'a str },
    /// A version runs.
    Installed { version: &'a str, digest: &'a str },
    /// The files are those of the running version.
    Unchanged,
    /// The files cannot run as they are.
    Refused { problem: &'a str },
    /// Loading failed for a reason that may be temporary.
    Postponed { problem: &'a str, wait: Duration },
    /// The running version fails too often.
    Faulty { problem: &'a str, wait: Duration },
    /// The running version has answered again.
    Recovered,
    /// The running version lacks a grant or a permission, and is suspended.
    Suspended { why: &'a str },
    /// The running version is not suspended any more.
    Resumed,
    /// The plugin is being stopped, and finishes its work in progress.
    Draining,
    /// The plugin has stopped; `with_host` if the host stops, too.
    Stopped { why: &'a str, with_host: bool },
}

/// An illegal state transition.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("illegal transition of a plugin that is {}: {input}; please report this", .from.as_str())]
pub(crate) struct IllegalTransition {
    from: PluginState,
    input: String,
}

/// The state of a plugin, and the reason for it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StateMachine {
    pub(super) state: PluginState,
    pub(super) since: Timestamp,
    pub(super) version: String,
    pub(super) generation: u64,
    pub(super) digest: String,
    /// Why the plugin is in this state; "" if the state says it all.
    pub(super) reason: String,
    next_try: Option<Timestamp>,
    /// What became of newer files while the installed version keeps running.
    newer_files: Option<NewerFiles>,
    is_installed: bool,
    /// Counts the loads, to tell a cancelled load from the current one.
    load: u64,
}

#[derive(Clone, Debug, PartialEq)]
struct NewerFiles {
    text: String,
    next_try: Option<Timestamp>,
}

impl StateMachine {
    pub(super) fn found(now: Timestamp) -> Self {
        Self {
            state: Found,
            since: now,
            version: String::new(),
            generation: 0,
            digest: String::new(),
            reason: String::new(),
            next_try: None,
            newer_files: None,
            is_installed: false,
            load: 0,
        }
    }

    /// The number of the current load.
    pub(super) fn load_number(&self) -> u64 {
        self.load
    }

    /// Applies an input. Errors if the transition is illegal.
    pub(super) fn apply(&mut self, input: &Input<'_>, now: Timestamp) -> Result<(), IllegalTransition> {
        let is_stale_step = matches!(input, Input::Step { load, .. } if *load != self.load);
        if is_stale_step {
            return Ok(());
        }
        let Some(next) = self.next(input) else {
            return Err(IllegalTransition { from: self.state, input: format!("{input:?}") });
        };
        if next != self.state {
            self.state = next;
            self.since = now;
        }
        self.update(input, now);
        Ok(())
    }

    /// The state after the input; `None` if the transition is illegal.
    fn next(&self, input: &Input<'_>) -> Option<PluginState> {
        let (state, installed) = (self.state, self.is_installed);
        let is_loading = matches!(state, Found | Compiling | Describing | Waiting | BackingOff);
        match input {
            Input::Found | Input::Draining if state == Draining => None,
            Input::Found | Input::Retry | Input::Step { .. } | Input::Refused { .. }
                if installed && matches!(state, Running | Waiting | BackingOff) =>
            {
                Some(state)
            }
            Input::Suspended { .. } => {
                (installed && matches!(state, Running | Waiting | BackingOff)).then_some(Waiting)
            }
            Input::Resumed if installed => Some(if state == Waiting { Running } else { state }),
            Input::Resumed => None,
            Input::Postponed { .. } | Input::Unchanged if installed => Some(state),
            Input::Found => Some(Found),
            Input::Retry => (state == BackingOff).then_some(state),
            Input::Step { state: step @ (Compiling | Describing), .. } => match state {
                BackingOff => Some(BackingOff),
                Found | Compiling | Waiting => Some(*step),
                Describing => (*step == Describing).then_some(Describing),
                _ => None,
            },
            Input::Step { state: Waiting, .. } => is_loading.then_some(Waiting),
            Input::Step { .. } | Input::Unchanged => None,
            Input::Installed { .. } => {
                let is_ready = matches!(state, Describing | Waiting | BackingOff | Running);
                is_ready.then_some(Running)
            }
            Input::Refused { .. } => is_loading.then_some(Failed),
            Input::Postponed { .. } => is_loading.then_some(BackingOff),
            Input::Faulty { .. } => {
                (installed && matches!(state, Running | BackingOff)).then_some(BackingOff)
            }
            Input::Recovered => (installed && matches!(state, Running | BackingOff)).then_some(Running),
            Input::Draining => Some(Draining),
            Input::Stopped { .. } => (state == Draining).then_some(Stopped),
        }
    }

    /// Updates the reason and the other fields, once the state is the new one.
    fn update(&mut self, input: &Input<'_>, now: Timestamp) {
        match input {
            Input::Found | Input::Retry => {
                self.load += 1;
                if *input == Input::Found {
                    self.newer_files = None;
                    if !self.is_installed {
                        self.set_reason("", None);
                    }
                }
            }
            Input::Step { state: Waiting, waiting_for, .. } if self.is_installed => {
                self.newer_files = Some(NewerFiles {
                    text: format!("the new version waits: {waiting_for}"),
                    next_try: None,
                });
            }
            Input::Step { .. } if self.is_installed || self.state == BackingOff => {}
            Input::Step { waiting_for, .. } => self.set_reason(waiting_for, None),
            Input::Installed { version, digest } => {
                self.generation += 1;
                self.is_installed = true;
                self.newer_files = None;
                (*version).clone_into(&mut self.version);
                (*digest).clone_into(&mut self.digest);
                self.set_reason("", None);
            }
            Input::Unchanged => self.newer_files = None,
            Input::Refused { problem } if self.is_installed => {
                self.newer_files = Some(NewerFiles {
                    text: format!("the changed file was refused: {problem}"),
                    next_try: None,
                });
            }
            Input::Refused { problem } => self.set_reason(problem, None),
            Input::Postponed { problem, wait } if self.is_installed => {
                let text = format!("the changed file cannot be loaded yet: {problem}");
                self.newer_files = Some(NewerFiles { text, next_try: Some(now + *wait) });
            }
            Input::Postponed { problem, wait } | Input::Faulty { problem, wait } => {
                self.set_reason(problem, Some(now + *wait));
            }
            Input::Suspended { why } => self.set_reason(why, None),
            // While the plugin backs off, the reason is another.
            Input::Resumed if self.state == BackingOff => {}
            Input::Recovered | Input::Resumed => self.set_reason("", None),
            Input::Draining => {
                self.load += 1;
                self.newer_files = None;
                self.is_installed = false;
                self.set_reason("", None);
            }
            Input::Stopped { why, .. } => self.set_reason(why, None),
        }
    }

    fn set_reason(&mut self, reason: &str, next_try: Option<Timestamp>) {
        reason.clone_into(&mut self.reason);
        self.next_try = next_try;
    }

    /// What is wrong, or what the plugin waits for, in one line; "" if nothing.
    pub(super) fn error(&self, now: Timestamp) -> String {
        let own = with_next_try(&self.reason, self.next_try, now);
        let Some(newer_files) = &self.newer_files else { return own };
        let newer_files = with_next_try(&newer_files.text, newer_files.next_try, now);
        let generation = self.generation;
        let meanwhile = if self.state == Waiting { "is suspended" } else { "keeps running" };
        // An unreadable sidecar is the reason for both.
        if own.is_empty() || newer_files.contains(&own) {
            format!("{newer_files}; generation {generation} {meanwhile}")
        } else {
            format!("{own}; {newer_files}; generation {generation} {meanwhile}")
        }
    }

    /// When the next retry is due.
    pub(super) fn next_try(&self) -> Option<Timestamp> {
        self.next_try.or_else(|| self.newer_files.as_ref()?.next_try)
    }
}

fn with_next_try(text: &str, next_try: Option<Timestamp>, now: Timestamp) -> String {
    match next_try {
        None => text.to_owned(),
        Some(time) if time > now => format!("{text}; tried again at {}", rfc_3339(time)),
        Some(_) => format!("{text}; tried again with the next change"),
    }
}

#[cfg(test)]
mod tests;
