//! A plugin that calls any import with any arguments, as a script says. The tests of attacks by plugins use it
//! (host/pilothouse/tests/e2e/hostile), and the fuzz target `imports` runs it with generated scripts. README.md describes the steps.

mod perform;
mod script;
mod text;

use std::cell::RefCell;

use perform::{Next, perform};
use pilothouse_sdk::bindings;
use pilothouse_sdk::bindings::index::exports::pilothouse::controller::index;
use pilothouse_sdk::bindings::observe::exports::pilothouse::controller::observe;
use pilothouse_sdk::bindings::pilothouse::controller::changes::Batch;
use pilothouse_sdk::bindings::pilothouse::controller::objects::Object;
use pilothouse_sdk::bindings::pilothouse::controller::types::{Failure, Outcome, Request};
use pilothouse_sdk::bindings::pilothouse::controller::{cache, config, log};
use script::Step;
use serde::Deserialize;
use serde_json::Value;
use text::Text;

/// The sidecar's `config`.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct Setup {
    /// The descriptor as JSON.
    descriptor: Value,
    /// The descriptor as text, which need not be JSON. Takes precedence over `descriptor`.
    descriptor_text: Option<Text>,
    /// Replacements in the descriptor's text, by name: each `{NAME}` becomes the text.
    texts: std::collections::BTreeMap<String, Text>,
    /// The steps that `describe` performs before it returns.
    in_describe: Vec<Step>,
    /// The steps of each call of `observe`.
    in_observe: Vec<Step>,
    /// The steps of each call of `index.values`.
    in_index: Vec<Step>,
    /// The value that `index.values` returns.
    index_value: Option<Text>,
    /// How many times `index.values` returns the value.
    index_times: u32,
}

impl Setup {
    fn of(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| format!("cannot parse the config: {error}"))
    }

    fn descriptor(&self) -> String {
        let mut text = match &self.descriptor_text {
            Some(text) => text.make(0),
            None => self.descriptor.to_string(),
        };
        for (name, replacement) in &self.texts {
            text = text.replace(&format!("{{{name}}}"), &replacement.make(0));
        }
        text
    }
}

thread_local! {
    static SETUP: RefCell<Option<Setup>> = const { RefCell::new(None) };
}

fn with_setup<T>(function: impl FnOnce(&Setup) -> T) -> T {
    SETUP.with_borrow_mut(|setup| {
        function(setup.get_or_insert_with(|| Setup::of(&config::get()).unwrap_or_default()))
    })
}

fn log_info(message: &str) {
    log::log(log::Level::Info, message, &[]);
}

/// Performs the steps in order. The first step that ends the call determines its result.
fn run(steps: &[Step], object: Option<&Object>) -> Result<Outcome, Failure> {
    for step in steps {
        for turn in 0..step.times {
            let (line, next) = perform(&step.action, object, turn);
            if !step.quiet && !line.is_empty() {
                log_info(&line);
            }
            match next {
                Next::Continue => {}
                Next::Requeue(milliseconds) => return Ok(Outcome::RequeueAfter(milliseconds)),
                Next::Fail(message) => return Err(Failure::Retry(message)),
            }
        }
    }
    Ok(Outcome::Done)
}

struct Hostile;

impl bindings::exports::pilothouse::controller::plugin::Guest for Hostile {
    fn describe(config: String) -> Result<String, String> {
        let setup = Setup::of(&config)?;
        match run(&setup.in_describe, None) {
            Err(Failure::Retry(message) | Failure::Terminal(message)) => Err(message),
            Ok(_) => Ok(setup.descriptor()),
        }
    }
}

impl bindings::reconcile::exports::pilothouse::controller::reconcile::Guest for Hostile {
    fn reconcile(request: Request) -> Result<Outcome, Failure> {
        let Some(object) = cache::get(&request.watch, &request.key) else {
            log_info(&format!("gone {}", request.key.name));
            return Ok(Outcome::Done);
        };
        let Some(script) = object.text("/data/script") else {
            log_info(&format!("seen {}", request.key.name));
            return Ok(Outcome::Done);
        };
        let steps: Vec<Step> = serde_json::from_str(&script)
            .map_err(|error| Failure::Terminal(format!("cannot parse the script: {error}")))?;
        let result = run(&steps, Some(&object));
        log_info(&format!("done {}", request.key.name));
        result
    }
}

impl observe::Guest for Hostile {
    fn observe(_notifications: Vec<observe::Notification>, batch: Batch) -> Result<(), observe::Failure> {
        with_setup(|setup| run(&setup.in_observe, batch.after(0).as_ref())).map(drop)
    }
}

impl index::Guest for Hostile {
    fn values(_index: String, object: Object) -> Vec<String> {
        with_setup(|setup| {
            let _ = run(&setup.in_index, Some(&object));
            let value = setup.index_value.as_ref();
            (0..setup.index_times).filter_map(|turn| value.map(|value| value.make(turn))).collect()
        })
    }
}

bindings::__export_plugin!(Hostile with_types_in pilothouse_sdk::bindings);
bindings::reconcile::__export_reconcile!(Hostile with_types_in pilothouse_sdk::bindings::reconcile);
bindings::observe::__export_observe!(Hostile with_types_in pilothouse_sdk::bindings::observe);
bindings::index::__export_index!(Hostile with_types_in pilothouse_sdk::bindings::index);
