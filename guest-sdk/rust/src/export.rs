//! The glue between the generated bindings and the traits; [`export!`](crate::export!) expands to calls of it.

use crate::bindings::observe::exports::pilothouse::controller::observe as wit_observe;
use crate::bindings::pilothouse::controller::changes::Batch;
use crate::bindings::pilothouse::controller::objects;
use crate::bindings::pilothouse::controller::types::{Failure, Outcome as WitOutcome};
use crate::host::{exported_batch, exported_object};
use crate::observer::Notification;
use crate::reconciler::milliseconds;
use crate::{Config, Context, Describe, Error, Indexer, Object, Observer, Outcome, Reconciler, Request};

/// The export `plugin.describe`.
pub fn describe<P: Describe>(config: &str) -> Result<String, String> {
    crate::panic::install_hook();
    let plugin =
        Config::parse(config).and_then(|config| P::describe(&config)).map_err(|error| error.to_string())?;
    serde_json::to_string(&plugin)
        .map_err(|error| format!("the descriptor cannot be written as JSON: {error}"))
}

/// The export `reconcile.reconcile`.
pub fn reconcile<R: Reconciler>(reconciler: &R, request: &Request) -> Result<WitOutcome, Failure> {
    crate::panic::install_hook();
    let ctx = Context::new(request);
    reconciler.reconcile(&ctx, request).map(outcome).map_err(|error| failure(&error))
}

fn outcome(outcome: Outcome) -> WitOutcome {
    match outcome {
        Outcome::Done => WitOutcome::Done,
        Outcome::RequeueAfter(delay) => WitOutcome::RequeueAfter(milliseconds(delay)),
    }
}

fn failure(error: &Error) -> Failure {
    if error.is_terminal() { Failure::Terminal(error.to_string()) } else { Failure::Retry(error.to_string()) }
}

/// The export `observe.observe`.
pub fn observe<O: Observer>(
    observer: &mut O,
    notifications: &[wit_observe::Notification],
    batch: &Batch,
) -> Result<(), Failure> {
    crate::panic::install_hook();
    let ctx = Context::without_request();
    let batch = exported_batch(batch);
    let notifications: Vec<_> = (0..)
        .zip(notifications)
        .map(|(position, notification)| Notification::new(notification, batch, position))
        .collect();
    observer.observe(&ctx, &notifications).map_err(|error| failure(&error))
}

/// The export `index.values`.
pub fn index_values<I: Indexer>(indexer: &I, index: &str, object: objects::Object) -> Vec<String> {
    crate::panic::install_hook();
    indexer.values(index, &Object::new(exported_object(object)))
}

/// Exports a type as the plugin. The type implements [`Describe`](crate::Describe) and at least one of
/// [`Reconciler`](crate::Reconciler), [`Observer`](crate::Observer) and [`Indexer`](crate::Indexer). Call this once per crate; the
/// crate's `crate-type` is `["cdylib"]`.
///
/// `export!(Greeter)` exports a reconciler. For other combinations name the traits: `export!(Counter: Observer + Indexer)`.
#[macro_export]
macro_rules! export {
    ($plugin:ty) => {
        $crate::export!($plugin: Reconciler);
    };
    ($plugin:ty: $role:ident $(+ $further:ident)*) => {
        const _: () = {
            struct Guest;

            ::std::thread_local! {
                // The guest has one thread, and the host never re-enters it during a call.
                static PLUGIN: ::std::cell::RefCell<$plugin> = ::std::default::Default::default();
            }

            impl $crate::bindings::exports::pilothouse::controller::plugin::Guest for Guest {
                fn describe(
                    config: ::std::string::String,
                ) -> ::std::result::Result<::std::string::String, ::std::string::String> {
                    $crate::export::describe::<$plugin>(&config)
                }
            }

            $crate::bindings::__export_plugin!(Guest with_types_in $crate::bindings);
            $crate::export!(@$role $plugin);
            $($crate::export!(@$further $plugin);)*
        };
    };
    (@Reconciler $plugin:ty) => {
        impl $crate::bindings::reconcile::exports::pilothouse::controller::reconcile::Guest for Guest {
            fn reconcile(
                request: $crate::bindings::reconcile::exports::pilothouse::controller::reconcile::Request,
            ) -> ::std::result::Result<
                $crate::bindings::reconcile::exports::pilothouse::controller::reconcile::Outcome,
                $crate::bindings::reconcile::exports::pilothouse::controller::reconcile::Failure,
            > {
                PLUGIN.with_borrow(|plugin| $crate::export::reconcile(plugin, &request))
            }
        }

        $crate::bindings::reconcile::__export_reconcile!(Guest with_types_in $crate::bindings::reconcile);
    };
    (@Observer $plugin:ty) => {
        impl $crate::bindings::observe::exports::pilothouse::controller::observe::Guest for Guest {
            fn observe(
                notifications: ::std::vec::Vec<
                    $crate::bindings::observe::exports::pilothouse::controller::observe::Notification,
                >,
                batch: $crate::bindings::observe::exports::pilothouse::controller::observe::Batch,
            ) -> ::std::result::Result<(), $crate::bindings::observe::exports::pilothouse::controller::observe::Failure>
            {
                PLUGIN.with_borrow_mut(|plugin| $crate::export::observe(plugin, &notifications, &batch))
            }
        }

        $crate::bindings::observe::__export_observe!(Guest with_types_in $crate::bindings::observe);
    };
    (@Indexer $plugin:ty) => {
        impl $crate::bindings::index::exports::pilothouse::controller::index::Guest for Guest {
            fn values(
                index: ::std::string::String,
                object: $crate::bindings::index::exports::pilothouse::controller::index::Object,
            ) -> ::std::vec::Vec<::std::string::String> {
                PLUGIN.with_borrow(|plugin| $crate::export::index_values(plugin, &index, object))
            }
        }

        $crate::bindings::index::__export_index!(Guest with_types_in $crate::bindings::index);
    };
    (@$role:ident $plugin:ty) => {
        ::std::compile_error!(::std::concat!(
            "a plugin can export Reconciler, Observer and Indexer, but not ",
            ::std::stringify!($role)
        ));
    };
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::Plugin;

    #[derive(Default)]
    struct Strict;

    impl Describe for Strict {
        fn describe(config: &Config) -> Result<Plugin, Error> {
            let image: String =
                config.get("image")?.ok_or_else(|| Error::terminal("config.image is missing"))?;
            Ok(Plugin::new("strict", "1.0.0").summary(format!("runs {image}")))
        }
    }

    impl Reconciler for Strict {
        fn reconcile(&self, _: &Context<'_>, request: &Request) -> Result<Outcome, Error> {
            match request.attempt {
                0 => Ok(Outcome::RequeueAfter(Duration::from_secs(2))),
                1 => Err(Error::retry("busy")),
                _ => Err(Error::terminal("hopeless")),
            }
        }
    }

    fn request(attempt: u32) -> Request {
        let key = crate::ObjectKey::new("default", "web");
        Request { watch: "foos".into(), key, reasons: Vec::new(), attempt, extra: Vec::new() }
    }

    #[test]
    fn describe_returns_the_document_or_rejects_the_config() {
        let document = describe::<Strict>(r#"{"image":"nginx"}"#).unwrap();
        assert!(document.contains(r#""summary":"runs nginx""#), "{document}");
        assert_eq!(describe::<Strict>("{}").unwrap_err(), "config.image is missing");
        let error = describe::<Strict>(r#"{"image":7}"#).unwrap_err();
        assert!(error.starts_with("config.image cannot be read as"), "{error}");
    }

    #[test]
    fn outcomes_and_errors_become_those_of_the_contract() {
        assert_eq!(reconcile(&Strict, &request(0)), Ok(WitOutcome::RequeueAfter(2000)));
        assert_eq!(reconcile(&Strict, &request(1)), Err(Failure::Retry("busy".into())));
        assert_eq!(reconcile(&Strict, &request(2)), Err(Failure::Terminal("hopeless".into())));
    }
}
