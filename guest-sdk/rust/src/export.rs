//! What [`export!`](crate::export!) calls: between the generated bindings and [`Reconciler`].

use crate::bindings::pilothouse::controller::types::{Failure, Outcome as WitOutcome};
use crate::reconciler::milliseconds;
use crate::{Config, Context, Error, Outcome, Reconciler, Request};

/// `plugin.describe`
pub fn describe<R: Reconciler>(config: &str) -> Result<String, String> {
    crate::panic::install_hook();
    let plugin =
        Config::parse(config).and_then(|config| R::describe(&config)).map_err(|error| error.to_string())?;
    serde_json::to_string(&plugin)
        .map_err(|error| format!("the descriptor cannot be written as JSON: {error}"))
}

/// `reconcile.reconcile`
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

/// Makes a plugin of a type that implements [`Reconciler`]. Once per crate, whose `crate-type` is `["cdylib"]`.
#[macro_export]
macro_rules! export {
    ($reconciler:ty) => {
        const _: () = {
            struct Guest;

            ::std::thread_local! {
                static RECONCILER: $reconciler = ::std::default::Default::default();
            }

            impl $crate::bindings::exports::pilothouse::controller::plugin::Guest for Guest {
                fn describe(
                    config: ::std::string::String,
                ) -> ::std::result::Result<::std::string::String, ::std::string::String> {
                    $crate::export::describe::<$reconciler>(&config)
                }
            }

            impl $crate::bindings::exports::pilothouse::controller::reconcile::Guest for Guest {
                fn reconcile(
                    request: $crate::bindings::exports::pilothouse::controller::reconcile::Request,
                ) -> ::std::result::Result<
                    $crate::bindings::exports::pilothouse::controller::reconcile::Outcome,
                    $crate::bindings::exports::pilothouse::controller::reconcile::Failure,
                > {
                    RECONCILER.with(|reconciler| $crate::export::reconcile(reconciler, &request))
                }
            }

    $crate::bindings::__export_reconciler!(Guest with_types_in $crate::bindings);
        };
    };
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::Plugin;

    #[derive(Default)]
    struct Strict;

    impl Reconciler for Strict {
        fn describe(config: &Config) -> Result<Plugin, Error> {
            let image: String =
                config.get("image")?.ok_or_else(|| Error::terminal("config.image is missing"))?;
            Ok(Plugin::new("strict", "1.0.0").summary(format!("runs {image}")))
        }

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
    fn describe_gives_the_document_or_refuses_the_config() {
        let document = describe::<Strict>(r#"{"image":"nginx"}"#).unwrap();
        assert!(document.contains(r#""summary":"runs nginx""#), "{document}");
        assert_eq!(describe::<Strict>("{}").unwrap_err(), "config.image is missing");
        let error = describe::<Strict>(r#"{"image":7}"#).unwrap_err();
        assert!(error.starts_with("config.image cannot be read as"), "{error}");
    }

    #[test]
    fn outcomes_and_errors_keep_their_meaning() {
        assert_eq!(reconcile(&Strict, &request(0)), Ok(WitOutcome::RequeueAfter(2000)));
        assert_eq!(reconcile(&Strict, &request(1)), Err(Failure::Retry("busy".into())));
        assert_eq!(reconcile(&Strict, &request(2)), Err(Failure::Terminal("hopeless".into())));
    }
}
