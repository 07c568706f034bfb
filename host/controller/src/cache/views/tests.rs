//! What the views do with own writes, beside what the model says of reads.

use std::sync::Weak;
use std::sync::atomic::{AtomicUsize, Ordering};

use pilothouse_model::Object;

use super::model_tests::world::{Watched, World, key, resource};
use super::*;
use crate::cache::own_writes::{Cache, Look, OwnWrite};

/// A cache that has everything, and counts how often it is asked.
#[derive(Default)]
struct Counting {
    looks: AtomicUsize,
}

impl Counting {
    fn take(&self) -> usize {
        self.looks.swap(0, Ordering::SeqCst)
    }
}

impl Cache for Counting {
    fn look(&self, _: &ObjectKey) -> Option<Look> {
        self.looks.fetch_add(1, Ordering::SeqCst);
        Some(Look { object: None, seen: u32::MAX.to_string(), listed_after: None })
    }

    fn is_selective(&self) -> bool {
        false
    }
}

fn written(name: usize, version: usize) -> Object {
    Object::from_json(format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"namespace":"n","name":"w{name}","uid":"u{name}","resourceVersion":"{version}"}}}}"#
    ))
    .expect("an object")
}

async fn one_watch() -> (Watched, Arc<Views>) {
    let mut views = Views::default();
    let watch = Watched::open("").await;
    let view = watch.view(views.writes.of(&resource()));
    views.by_name.insert("maps".into(), Box::new(view));
    (watch, Arc::new(views))
}

#[tokio::test(start_paused = true)]
async fn a_batch_costs_its_own_size_however_many_own_writes_are_outstanding() {
    let mut costs = Vec::new();
    for outstanding in [10, 1000] {
        let (_watch, views) = one_watch().await;
        let view = &views.by_name["maps"];
        let counting = Arc::<Counting>::default();
        let weak: Weak<Counting> = Arc::downgrade(&counting);
        view.own_writes.serve(weak);
        for name in 0..outstanding {
            // The watch's own cache, which has seen version 1, stays behind all of them.
            let object = written(name, 100 + name);
            view.own_writes.record(&object.key().clone(), OwnWrite::Object(object));
        }
        // Another's object, and three of those that were written: one of them twice.
        let told = [outstanding + 7, 1, 2, 3, 3];
        let batch: Vec<_> = told
            .iter()
            .map(|name| Notification::Added { object: written(*name, 100 + name), initial: false })
            .collect();
        counting.take();
        views.hear("maps", &batch);
        costs.push(counting.take());
        assert_eq!(view.own_writes.entries(|_| true).len(), outstanding, "that cache is still behind");
    }
    assert!(costs[0] <= 4, "{costs:?} looks for a batch with four states of own writes");
    assert_eq!(costs[0], costs[1], "a batch pays for writes that it does not tell of");
}

#[tokio::test(start_paused = true)]
async fn an_object_that_no_batch_tells_of_leaves_overlay_and_indexes_at_the_look_at_all() {
    let (mut watch, views) = one_watch().await;
    let mut world = World::new(true);
    let mine = world.put(0, 0, 0);
    views.record(&Written::Object(resource(), mine.clone()), "").await;
    let view = &views.by_name["maps"];
    view.computed.set(mine, vec![vec!["0".to_owned()]]).expect("room");
    // Somebody else deletes it before the watch tells of it, so that there is nothing to tell.
    world.delete(0);
    watch.bring(&world, 2).await;
    let other = Notification::Added { object: world.put(1, 0, 0), initial: false };
    views.hear("maps", &[other]);
    assert_eq!(view.index_keys("computed", "0").expect("an index"), [], "no read sees it");
    assert_eq!((view.object(&key(0)).is_none(), view.computed.objects().len()), (true, 1));
    views.forget_all();
    assert!(view.own_writes.is_empty() && view.computed.objects().is_empty(), "it is still remembered");
}

#[tokio::test(start_paused = true)]
async fn only_the_version_in_a_cache_counts_as_cached() {
    let (mut watch, views) = one_watch().await;
    let mut world = World::new(true);
    let written = world.put(0, 0, 0);
    watch.bring(&world, 1).await;
    let first = views.by_name["maps"].object(&key(0)).expect("it is there");
    assert!(views.has_cached(&first) && first == written);
    assert!(!views.has_cached(&written), "the same from the server is another allocation");
    world.put(0, 1, 0);
    watch.bring(&world, 1).await;
    let second = views.by_name["maps"].object(&key(0)).expect("it is there");
    assert!(views.has_cached(&second) && !views.has_cached(&first), "the first is superseded");
    world.delete(0);
    watch.bring(&world, 1).await;
    assert!(!views.has_cached(&second));
}
