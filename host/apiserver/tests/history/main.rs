//! Ordering, history and resourceVersions, proved against a model: random writes of a few Deployments in two namespaces, while lists in
//! pages and watches are open. Then each version is listed and watched from.

#[path = "../api/mod.rs"]
mod api;
mod concurrent;
mod model;
mod operations;
mod reads;

use futures::future::join_all;
use pilothouse_apiserver::ApiServer;
use proptest::prelude::*;

use api::Api;
use model::Model;
use operations::{Known, Operation, operation};
use reads::{OpenWatch, Pages, SELECTIONS};

/// Does the operations, with a server that retains so many events.
async fn check(operations: &[Operation], retained: usize) {
    let api = Api { server: ApiServer::builder().first_revision(1).watch_history(retained).build() };
    let start = api.server.revision();
    let mut model = Model::new(retained, start);
    api.server.compact("apps", "deployments");
    let (mut known, mut pages, mut watches) = (Known::default(), Vec::new(), Vec::new());
    for operation in operations {
        match *operation {
            Operation::Other => operations::write_other(&api).await,
            Operation::Compact => {
                api.server.compact("apps", "deployments");
                model.compact(api.server.revision());
            }
            Operation::StartPages(limit, selection) => pages.push(Pages::new(limit, SELECTIONS[selection])),
            Operation::StartWatch(selection) => {
                watches.push(OpenWatch::new(&api, SELECTIONS[selection], api.server.revision()).await);
            }
            _ => operations::write(&api, &mut model, &mut known, operation).await,
        }
        let mut unfinished = Vec::new();
        for list in pages {
            unfinished.extend(list.next(&api, &model).await);
        }
        pages = unfinished;
    }
    // All at the same time, because reading one to its end lets time pass for all.
    join_all(watches.into_iter().map(|watch| watch.check_missed(&api, &model))).await;
    for selection in SELECTIONS {
        for version in start..=api.server.revision() {
            reads::check_lists(&api, &model, &selection, version).await;
            OpenWatch::new(&api, selection, version).await.check_replay(&api, &model).await;
        }
        reads::check_future(&api, &selection).await;
        reads::check_initial_events(&api, &model, &selection).await;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn lists_pages_and_watches_agree_with_the_model_at_each_version(
        operations in prop::collection::vec(operation(SELECTIONS.len()), 1..40),
        retained in prop_oneof![1..12_usize, Just(100)],
    ) {
        // In paused time, watches reach their end at once.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        runtime.expect("a runtime").block_on(check(&operations, retained));
    }
}
