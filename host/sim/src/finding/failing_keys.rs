//! Finds the keys whose reconciles keep failing in a run without faults. The search cannot test what a plugin does after such an error, so the
//! report names them.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

use serde::Serialize;

use crate::analysis::RunView;
use crate::run::ReconcileResult;

/// How many reconciles of a key must fail in a row. Fewer are progress by retries, which many plugins make.
const MIN_FAILURES: usize = 3;
/// How many keys are named.
const MAX_KEYS: usize = 3;

/// A key whose reconciles failed several times in a row in a run without faults.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FailingKey {
    /// The plugin's name.
    pub plugin: String,
    /// The target watch.
    pub watch: String,
    /// The key, `namespace/name` or `name`.
    pub key: String,
    /// The last error.
    pub error: String,
}

impl Display for FailingKey {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let Self { plugin, watch, key, error } = self;
        write!(
            formatter,
            "{plugin} fails again and again for {key} of the watch {watch}, so what it does afterwards is not tested: {error}"
        )
    }
}

/// Returns the first keys that failed several times in a row in a run without faults.
pub(crate) fn failing_keys(run: &RunView<'_>) -> Vec<FailingKey> {
    let mut in_a_row: BTreeMap<_, usize> = BTreeMap::new();
    let mut failing = BTreeMap::new();
    for reconcile in run.reconciles.values() {
        let key = (reconcile.plugin, reconcile.watch, reconcile.key);
        match reconcile.end {
            Some((_, ReconcileResult::Error(error))) => {
                let count = in_a_row.entry(key).or_default();
                *count += 1;
                if *count >= MIN_FAILURES {
                    failing.insert(key, error);
                }
            }
            Some(_) => {
                in_a_row.remove(&key);
            }
            None => {}
        }
    }
    let keys = failing.into_iter().map(|((plugin, watch, key), error)| FailingKey {
        plugin: plugin.to_owned(),
        watch: watch.to_owned(),
        key: key.to_owned(),
        error: error.to_owned(),
    });
    keys.take(MAX_KEYS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::RandomPrefixes;
    use crate::testing::RunBuilder;

    fn run(results: &[Result<(), &str>]) -> Vec<FailingKey> {
        let mut run = RunBuilder::new();
        for result in results {
            run.start("shop/a");
            run.end(match result {
                Ok(()) => ReconcileResult::Ok,
                Err(error) => ReconcileResult::Error((*error).to_owned()),
            });
        }
        let run = run.finish();
        failing_keys(&RunView::new(&run, &RandomPrefixes::default()))
    }

    #[test]
    fn a_key_that_fails_several_times_in_a_row_is_named_even_if_it_succeeds_later() {
        let denied = "denied: the grant needs get on foos";
        assert_eq!(run(&[Err("first"), Err("second"), Ok(()), Err("first"), Err("second")]), []);
        for results in [
            &[Err("first"), Err("second"), Err(denied)][..],
            &[Err("first"), Err("second"), Err(denied), Ok(())],
        ] {
            let [named] = run(results).try_into().expect("one key");
            assert_eq!((named.key.as_str(), named.error.as_str()), ("shop/a", denied));
            let text = named.to_string();
            assert!(text.starts_with("plugin fails again and again for shop/a of the watch foos"), "{text}");
        }
    }
}
