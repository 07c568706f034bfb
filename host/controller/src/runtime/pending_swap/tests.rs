//! Swaps of versions that compute indexes, with a real guest, in paused time.

use futures::FutureExt;
use pilothouse_plugin::InstanceLimits;
use tokio_test::task;

use super::*;
use crate::cache::indexer::Indexer;
use crate::cache::own_writes::OwnWrite;
use crate::cache::views::model_tests::model_server::{self, ModelServer, TestWatch, key};
use crate::cache::views::{ViewIndex, Views};
use crate::config::canary_share::CanaryShare;
use crate::guest_host::PluginServices;
use crate::lifecycle::{Health, RecentErrors};
use crate::runtime::DRAIN_TIMEOUT;
use crate::runtime::running::Canary;

const INDEX: &str = "names";

struct Fixture {
    server: ModelServer,
    watch: TestWatch,
    running: SharedVersions,
    views: Arc<Views>,
    swap: PendingSwap,
}

/// A plugin whose computed index contains each object under its name, with one object in its cache.
async fn fixture(limits: InstanceLimits) -> Fixture {
    let mut server = ModelServer::new(true);
    server.put(0, 0, 0);
    let mut watch = TestWatch::open("").await;
    watch.deliver(&server, 1).await;
    let service = tower::service_fn(async |_: http::Request<kube::client::Body>| {
        Ok::<_, std::convert::Infallible>(http::Response::new(kube::client::Body::empty()))
    });
    let plugin = PluginServices::for_test("indexed", kube::Client::new(service, "n"));
    let pool = Version::test_pool(&plugin, "index.wat", limits).await;
    let mut view = watch.view(plugin.writes.for_resource(&model_server::resource()));
    view.computed = crate::cache::computed::ComputedIndexes::new(
        vec![INDEX.to_owned()],
        pilothouse_plugin::HostMemory::default(),
    );
    view.indexes.insert(INDEX.to_owned(), ViewIndex::Computed);
    let indexer = Indexer::start(pool.clone(), plugin, Health::default());
    let mut views = Views { indexer: Some(indexer), ..Views::default() };
    views.by_name.insert("maps".into(), Box::new(view));
    let views = Arc::new(views);
    let version = Version::for_test(pool, Arc::clone(&views));
    let running = SharedVersions::default();
    let files = PluginFiles::for_test();
    let swap = PendingSwap::new(files, version, Arc::clone(&running));
    Fixture { server, watch, running, views, swap }
}

impl Fixture {
    fn is_indexed(&self, name: usize) -> bool {
        let key = key(name);
        self.views.by_name["maps"].computed.keys(INDEX, key.name(), None, usize::MAX).contains(&key)
    }

    async fn change(&mut self, name: usize) {
        self.server.put(name, 0, 0);
        self.watch.deliver(&self.server, 1).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_during_the_last_reconcile_is_in_the_new_index_before_the_swap() {
    let mut fixture = fixture(InstanceLimits::default()).await;
    let running = Arc::clone(&fixture.running);
    let reconciling = running.read().await;
    while !fixture.is_indexed(0) {
        assert!(fixture.swap.next().now_or_never().is_none());
        tokio::task::yield_now().await;
    }
    assert!(!fixture.swap.pauses_dispatch(), "the running version continues while the new index is built");
    assert!(fixture.swap.next().now_or_never().is_none(), "the swap waits for the reconcile");
    // Dispatched to the running version, which does not update the new version's index.
    fixture.change(1).await;
    drop(reconciling);
    assert!(matches!(fixture.swap.next().await, Progress::DispatchPauseChanged));
    assert!(fixture.swap.pauses_dispatch(), "from here on no change goes to the running version alone");
    assert!(running.read().now_or_never().is_none());
    let Progress::Ready(exclusive) = fixture.swap.next().await else { panic!("there is an instance") };
    assert!(fixture.is_indexed(0) && fixture.is_indexed(1));
    drop(exclusive);
}

#[tokio::test(start_paused = true)]
async fn an_own_write_that_no_watch_has_delivered_is_in_the_new_index_before_the_swap() {
    let mut fixture = fixture(InstanceLimits::default()).await;
    let written = fixture.server.put(1, 0, 0);
    let own_writes = Arc::clone(&fixture.views.by_name["maps"].own_writes);
    own_writes.record(&key(1), OwnWrite::Object(written));
    assert!(matches!(fixture.swap.next().await, Progress::DispatchPauseChanged));
    let Progress::Ready(exclusive) = fixture.swap.next().await else { panic!("there is an instance") };
    assert!(fixture.is_indexed(0) && fixture.is_indexed(1));
    drop(exclusive);
}

#[tokio::test(start_paused = true)]
async fn a_version_without_an_instance_for_its_index_never_pauses_the_running_one() {
    let mut fixture = fixture(InstanceLimits { memory: 1, ..InstanceLimits::default() }).await;
    let running = Arc::clone(&fixture.running);
    let mut next = task::spawn(fixture.swap.next());
    assert!(next.poll().is_pending());
    assert!(running.read().now_or_never().is_some());
    let Progress::Failed(problem) = next.await else { panic!("the swap must be given up") };
    assert!(problem.is_transient(), "the load is retried later");
    let text = problem.to_string();
    assert!(text.contains("no instance can be made") && text.contains("limits.memory"), "{text}");
    assert!(running.read().now_or_never().is_some());
}

#[tokio::test(start_paused = true)]
async fn the_running_version_continues_when_the_last_index_calls_take_too_long() {
    let mut fixture = fixture(InstanceLimits::default()).await;
    for round in 1..=MAX_ROUNDS {
        assert!(matches!(fixture.swap.next().await, Progress::DispatchPauseChanged));
        // Replaced by index calls that never end.
        let Step::CatchingUp(caught_up) = &mut fixture.swap.step else { panic!("the wrong step") };
        let exclusive = std::mem::replace(caught_up, Box::pin(std::future::pending())).await;
        *caught_up = Box::pin(async move {
            let caught_up = timeout(CATCH_UP_TIMEOUT, std::future::pending::<()>()).await;
            drop(exclusive);
            assert!(caught_up.is_err());
            None
        });
        let next = fixture.swap.next().await;
        assert!(fixture.running.read().now_or_never().is_some(), "the running version continues");
        match next {
            Progress::DispatchPauseChanged if round < MAX_ROUNDS => assert!(!fixture.swap.pauses_dispatch()),
            Progress::Failed(problem) if round == MAX_ROUNDS => assert!(problem.is_transient(), "{problem}"),
            _ => panic!("round {round}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_swap_waits_for_writes_of_the_old_version_but_not_for_ever() {
    let fixture = fixture(InstanceLimits::default()).await;
    let old = Arc::new(fixture.swap.version);
    *fixture.running.write().await = Arc::clone(&old).into();
    let request = old.fence.enter().expect("the version runs");
    let mut acquiring = task::spawn(VersionsWriteGuard::acquire(Arc::clone(&fixture.running)));
    assert!(acquiring.poll().is_pending(), "a request is under way");
    assert!(old.fence.enter().is_none(), "no other request may follow");
    drop(request);
    assert!(acquiring.is_woken());
    // The swap is given up.
    drop(acquiring.await);
    let _request = old.fence.enter().expect("the version continues");
    let started = tokio::time::Instant::now();
    let exclusive = VersionsWriteGuard::acquire(Arc::clone(&fixture.running)).await;
    assert_eq!(started.elapsed(), DRAIN_TIMEOUT);
    let new = Arc::new(Version::for_test(old.pool.clone(), Arc::default()));
    exclusive.replace(Arc::clone(&new));
    assert!(old.fence.enter().is_none() && new.fence.enter().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_change_of_the_share_waits_for_both_versions_and_retires_only_a_canary_that_ends() {
    let fixture = fixture(InstanceLimits::default()).await;
    let stable = Arc::new(fixture.swap.version);
    let canary = Arc::new(Version::for_test(stable.pool.clone(), Arc::default()));
    let with_share = |percent| {
        let (version, recent_errors) = (Arc::clone(&canary), RecentErrors::default());
        Some(Arc::new(Canary { version, share: CanaryShare::Percent(percent), recent_errors }))
    };
    let running = Arc::clone(&fixture.running);
    *running.write().await = Arc::clone(&stable).into();
    VersionsWriteGuard::acquire(Arc::clone(&running)).await.set_canary(with_share(10));
    let request = canary.fence.enter().expect("the canary runs");
    let mut acquiring = task::spawn(VersionsWriteGuard::acquire(Arc::clone(&running)));
    assert!(acquiring.poll().is_pending(), "a request of the canary is under way");
    assert!(stable.fence.enter().is_none() && canary.fence.enter().is_none());
    drop(request);
    acquiring.await.set_canary(with_share(50));
    assert!(stable.fence.enter().is_some() && canary.fence.enter().is_some(), "both continue");
    VersionsWriteGuard::acquire(Arc::clone(&running)).await.set_canary(None);
    assert!(stable.fence.enter().is_some() && canary.fence.enter().is_none(), "the canary has ended");
    VersionsWriteGuard::acquire(Arc::clone(&running)).await.set_canary(with_share(10));
    let new = Arc::new(Version::for_test(stable.pool.clone(), Arc::default()));
    VersionsWriteGuard::acquire(Arc::clone(&running)).await.replace(Arc::clone(&new));
    assert!(stable.fence.enter().is_none() && canary.fence.enter().is_none() && new.fence.enter().is_some());
    assert!(running.read().await.canary.is_none());
}
