//! Indexes that only an earlier version declared are dropped.

use crate::guest;
use crate::stage::Stage;

#[tokio::test(flavor = "multi_thread")]
async fn an_index_is_dropped_with_the_last_version_that_declares_it() {
    let stage = Stage::start(|_| {});
    for (generation, labels) in [(1, &["a", "b"][..]), (2, &["b", "c"]), (3, &[]), (4, &["a"])] {
        stage.install(&guest::with_indexes(u32::try_from(generation).expect("small"), labels));
        stage.until("the version to run", |status| status.generation == generation).await;
        let wanted: Vec<_> = labels.iter().map(|label| format!("label:{label}")).collect();
        // The previous version is dropped soon after the swap.
        stage.wait(&format!("the indexes {wanted:?} alone"), || stage.indexes() == wanted).await;
    }
    assert_eq!(stage.log.reads().len(), 1, "the subscription was reused: {:?}", stage.log.reads());
    stage.end().await;
}
