//! How the objects of a watch are listed for the first time.

use crate::guest::{self, Kind};
use crate::stage::Stage;

#[tokio::test(flavor = "multi_thread")]
async fn the_first_list_is_streamed_if_the_host_is_configured_so() {
    for is_streaming in [true, false] {
        let stage = Stage::start(|options| options.streaming_lists = is_streaming);
        stage.install(&guest::file(0, Kind::Healthy));
        stage.until("the plugin to run", |status| status.state.as_str() == "running").await;
        let reads = stage.log.reads();
        let streams = |query: &&String| query.contains("sendInitialEvents=true");
        let lists = |query: &&String| !query.contains("watch=");
        assert_eq!(reads.iter().filter(streams).count(), usize::from(is_streaming), "{reads:?}");
        assert_eq!(reads.iter().filter(lists).count(), usize::from(!is_streaming), "{reads:?}");
        stage.end().await;
    }
}
