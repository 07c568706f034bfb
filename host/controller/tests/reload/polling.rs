//! The directory is polled, because network file systems send no notifications.

use crate::guest::{self, Kind};
use crate::stage::Stage;

#[tokio::test(flavor = "multi_thread")]
async fn without_file_system_events_changes_are_found_by_polling() {
    let stage = Stage::start(|options| options.file_events = false);
    stage.install(&guest::file(0, Kind::Healthy));
    stage.until("the first version to run", |status| status.generation == 1).await;
    stage.install(&guest::file(1, Kind::Healthy));
    stage.until("the second", |status| status.generation == 2).await;
    stage.sidecar("workers: 2\n");
    stage.until("the sidecar alone", |status| status.generation == 3).await;
    stage.remove();
    stage.until("its end", |status| status.state.as_str() == "stopped").await;
    stage.end().await;
}
