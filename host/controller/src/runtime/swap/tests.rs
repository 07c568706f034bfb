//! Swaps of versions that compute indexes, with a real guest, in paused time.

use futures::FutureExt;
use pilothouse_plugin::Limits;
use tokio_test::task;

use super::*;
use crate::cache::indexer::Indexer;
use crate::cache::views::model_tests::model_server::{self, Watched, World, key};
use crate::cache::views::{ViewIndex, Views};
use crate::guest_host::GuestServices;
use crate::lifecycle::Health;

const INDEX: &str = "names";

struct Stage {
    world: World,
    watched: Watched,
    gate: Gate,
    views: Arc<Views>,
    swap: Swap,
}

/// A plugin whose index has the name of each object among its values, with one object in its cache.
async fn stage(limits: Limits) -> Stage {
    let mut world = World::new(true);
    world.put(0, 0, 0);
    let mut watched = Watched::open("").await;
    watched.bring(&world, 1).await;
    let service = tower::service_fn(async |_: http::Request<kube::client::Body>| {
        Ok::<_, std::convert::Infallible>(http::Response::new(kube::client::Body::empty()))
    });
    let guest = GuestServices::for_test("indexed", kube::Client::new(service, "n"));
    let pool = Version::test_pool(&guest, "index.wat", limits).await;
    let mut view = watched.view(guest.writes.of(&model_server::resource()));
    view.computed = crate::cache::computed::Computed::new(
        vec![INDEX.to_owned()],
        pilothouse_plugin::HostMemory::default(),
    );
    view.indexes.insert(INDEX.to_owned(), ViewIndex::Computed);
    let indexer = Indexer::start(pool.clone(), guest, Health::default());
    let mut views = Views { indexer: Some(indexer), ..Views::default() };
    views.by_name.insert("maps".into(), Box::new(view));
    let views = Arc::new(views);
    let version = Version::for_test(pool, Arc::clone(&views));
    let gate = Gate::default();
    let files = PluginFiles::for_test();
    let swap = Swap::new(files, version, Arc::clone(&gate));
    Stage { world, watched, gate, views, swap }
}

impl Stage {
    fn has(&self, name: usize) -> bool {
        let key = key(name);
        self.views.by_name["maps"].computed.keys(INDEX, key.name()).contains(&key)
    }

    async fn change(&mut self, name: usize) {
        self.world.put(name, 0, 0);
        self.watched.bring(&self.world, 1).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_while_a_reconcile_holds_the_gate_is_in_the_new_index_before_the_swap() {
    let mut stage = stage(Limits::default()).await;
    let gate = Arc::clone(&stage.gate);
    let reconciling = gate.read().await;
    while !stage.has(0) {
        assert!(stage.swap.next().now_or_never().is_none());
        tokio::task::yield_now().await;
    }
    assert!(!stage.swap.pauses_dispatch(), "the running version goes on while the new one's index is made");
    assert!(stage.swap.next().now_or_never().is_none(), "it waits for the reconcile");
    // Dispatched to the running version, which is no business of the new one's index.
    stage.change(1).await;
    drop(reconciling);
    assert!(matches!(stage.swap.next().await, Progress::Paused));
    assert!(stage.swap.pauses_dispatch(), "no change is offered to the running version alone from here on");
    assert!(gate.read().now_or_never().is_none());
    let Progress::Ready(closed) = stage.swap.next().await else { panic!("an instance is there") };
    assert!(stage.has(0) && stage.has(1));
    drop(closed);
}

#[tokio::test(start_paused = true)]
async fn a_version_without_an_instance_for_its_index_never_closes_the_gate() {
    let mut stage = stage(Limits { memory: 1, ..Limits::default() }).await;
    let gate = Arc::clone(&stage.gate);
    let mut next = task::spawn(stage.swap.next());
    assert!(next.poll().is_pending());
    assert!(gate.read().now_or_never().is_some());
    let Progress::Failed(problem) = next.await else { panic!("it is given up") };
    assert!(problem.may_pass(), "it is tried again later");
    let text = problem.to_string();
    assert!(text.contains("no instance can be made") && text.contains("limits.memory"), "{text}");
    assert!(gate.read().now_or_never().is_some());
}

#[tokio::test(start_paused = true)]
async fn the_gate_opens_again_when_the_last_index_calls_take_too_long() {
    let mut stage = stage(Limits::default()).await;
    for round in 1..=ROUNDS {
        assert!(matches!(stage.swap.next().await, Progress::Paused));
        // Index calls that do not come to an end, as far as this swap is concerned.
        let Step::CatchingUp(caught_up) = &mut stage.swap.step else { panic!("the gate is closed") };
        let gate = std::mem::replace(caught_up, Box::pin(std::future::pending())).await;
        *caught_up = Box::pin(async move {
            let caught_up = timeout(CATCH_UP, std::future::pending::<()>()).await;
            drop(gate);
            assert!(caught_up.is_err());
            None
        });
        let next = stage.swap.next().await;
        assert!(stage.gate.read().now_or_never().is_some(), "the running version goes on");
        match next {
            Progress::Paused if round < ROUNDS => assert!(!stage.swap.pauses_dispatch()),
            Progress::Failed(problem) if round == ROUNDS => assert!(problem.may_pass(), "{problem}"),
            _ => panic!("round {round}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_swap_waits_for_writes_of_the_old_version_but_not_for_ever() {
    let stage = stage(Limits::default()).await;
    let running = Arc::new(stage.swap.version);
    *stage.gate.write().await = Some(Arc::clone(&running));
    let sending = running.fence.enter().expect("it runs");
    let mut closing = task::spawn(ClosedGate::close(Arc::clone(&stage.gate)));
    assert!(closing.poll().is_pending(), "a request is under way");
    assert!(running.fence.enter().is_none(), "and no other may follow");
    drop(sending);
    assert!(closing.is_woken());
    // It is given up: the version goes on.
    drop(closing.await);
    let _sending = running.fence.enter().expect("it goes on");
    let started = tokio::time::Instant::now();
    let closed = ClosedGate::close(Arc::clone(&stage.gate)).await;
    assert_eq!(started.elapsed(), DRAIN);
    let new = Arc::new(Version::for_test(running.pool.clone(), Arc::default()));
    closed.install(Arc::clone(&new));
    assert!(running.fence.enter().is_none() && new.fence.enter().is_some());
}
