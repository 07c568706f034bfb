//! The pool of instances.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_plugin::{
    CacheDirectory, Engine, EngineOptions, InstanceLimits, InstancePool, Outcome, PoolStats,
};

use crate::fake_host::FakeHost;
use crate::{code_of, module_of, request};

async fn pool() -> (InstancePool, Arc<FakeHost>) {
    let host = Arc::new(FakeHost::default());
    host.put_wish("good", "done");
    host.put_wish("bad", "panic");
    (InstancePool::new(code_of("wish").await, host.clone(), InstanceLimits::default()), host)
}

#[tokio::test]
async fn a_usable_instance_is_reused() {
    let (pool, _) = pool().await;
    for _ in 0..3 {
        let mut instance = pool.checkout().await.expect("an instance");
        assert_eq!(instance.reconcile(request("good")).await, Ok(Outcome::Done));
    }
    assert_eq!(pool.stats(), PoolStats { idle: 1, in_use: 0, created: 1, discarded: 0 });
}

#[tokio::test]
async fn an_instance_that_trapped_is_replaced() {
    let (pool, _) = pool().await;
    assert!(pool.checkout().await.expect("an instance").reconcile(request("bad")).await.is_err());
    assert_eq!(pool.stats(), PoolStats { idle: 0, in_use: 0, created: 1, discarded: 1 });
    let mut instance = pool.checkout().await.expect("another instance");
    assert_eq!(instance.reconcile(request("good")).await, Ok(Outcome::Done));
    assert_eq!(pool.stats(), PoolStats { idle: 0, in_use: 1, created: 2, discarded: 1 });
}

#[tokio::test(start_paused = true)]
async fn instances_are_dropped_after_the_idle_time() {
    let (pool, _) = pool().await;
    let first = pool.checkout().await.expect("an instance");
    let second = pool.checkout().await.expect("an instance");
    drop((first, second));
    tokio::time::advance(Duration::from_secs(60)).await;
    // One of the two is used again.
    drop(pool.checkout().await.expect("an instance"));
    assert_eq!(pool.drop_idle(Duration::from_secs(61)), 0);
    assert_eq!(pool.drop_idle(Duration::from_secs(60)), 1);
    assert_eq!(pool.stats(), PoolStats { idle: 1, in_use: 0, created: 2, discarded: 0 });
}

#[tokio::test]
async fn idle_code_is_unmapped_and_mapped_again_at_the_next_checkout() {
    const IDLE: Duration = Duration::from_secs(60);
    let folder = tempfile::tempdir().expect("a folder");
    let cache = CacheDirectory { path: folder.path().join("compiled"), max_bytes: 1 << 30 };
    let engine =
        Engine::new(EngineOptions { cache: Some(cache), ..EngineOptions::default() }).expect("an engine");
    let code = engine.load(module_of("wish")).await.expect("a plugin");
    let host = Arc::new(FakeHost::default());
    host.put_wish("good", "done");
    let pool = InstancePool::new(code.clone(), host, InstanceLimits::default());
    // Other threads compile and map the code in real time, so the clock is paused only from here on.
    tokio::time::pause();
    let pinned = pool.instantiate().await.expect("an instance");
    drop(pool.checkout().await.expect("an instance"));
    tokio::time::advance(IDLE).await;
    assert_eq!(pool.drop_idle(IDLE), 1);
    assert!(code.is_mapped(), "an instance that is not in the pool runs it");
    drop(pinned);
    pool.drop_idle(IDLE);
    assert!(!code.is_mapped());
    assert!(code.exports().reconcile && !code.imports().is_empty(), "the metadata stays");

    // The file may be removed from the directory: the open file that was verified is mapped.
    std::fs::remove_dir_all(folder.path()).expect("removed");
    let mut instance = pool.checkout().await.expect("an instance");
    assert_eq!(instance.reconcile(request("good")).await, Ok(Outcome::Done));
    drop(instance);
    assert!(code.is_mapped());
    pool.drop_idle(Duration::ZERO);
    assert!(!code.is_mapped());

    let kept = code.keep_mapped().await.expect("mapped");
    pool.drop_idle(Duration::ZERO);
    assert!(code.is_mapped(), "it is kept");
    drop(kept);
    pool.drop_idle(Duration::ZERO);
    assert!(!code.is_mapped());
    assert_eq!(engine.compile_stats().compiled, 1);
}

#[tokio::test(start_paused = true)]
async fn code_without_a_file_stays_mapped() {
    let (pool, _) = pool().await;
    drop(pool.checkout().await.expect("an instance"));
    assert_eq!(pool.drop_idle(Duration::ZERO), 1);
    assert!(pool.code().is_mapped());
}
