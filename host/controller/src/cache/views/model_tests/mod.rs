//! Read-your-writes checked against a naive model: random writes of the plugin and of others, watches that deliver them late, and every kind
//! of read. The plugin must see each object as of its own last write or as of the watch's position, whichever is later. Nothing may be left
//! in the overlay once the watches have delivered everything.

pub(crate) mod model_server;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::FutureExt;
use pilothouse_informer::condition::Condition;
use pilothouse_model::{LabelSelector, Object};
use pilothouse_plugin::{CacheFilter, IndexCursor, IndexPage};
use proptest::prelude::*;

use super::*;
use crate::cache::delivery_filter::DeliveryFilter;
use model_server::{ModelServer, NAMES, TestWatch, key, resource};

#[derive(Clone, Debug)]
enum Step {
    /// A write of the plugin, or of somebody else.
    Put {
        own: bool,
        name: usize,
        team: usize,
        value: u8,
    },
    Delete {
        own: bool,
        name: usize,
    },
    /// A deletion and a creation under the same name.
    Recreate {
        own: bool,
        name: usize,
        team: usize,
    },
    /// A watch delivers events, and its notifications are dispatched at once or later.
    Deliver {
        watch: usize,
        count: usize,
        dispatch: bool,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (any::<bool>(), 0..3_usize, 0..3_usize, 0..3_u8)
            .prop_map(|(own, name, team, value)| Step::Put { own, name, team, value }),
        2 => (any::<bool>(), 0..3_usize).prop_map(|(own, name)| Step::Delete { own, name }),
        1 => (any::<bool>(), 0..3_usize, 0..3_usize)
            .prop_map(|(own, name, team)| Step::Recreate { own, name, team }),
        4 => (0..2_usize, 1..4_usize, any::<bool>())
            .prop_map(|(watch, count, dispatch)| Step::Deliver { watch, count, dispatch }),
    ];
    prop::collection::vec(step, 1..40)
}

struct Run {
    server: ModelServer,
    watches: Vec<TestWatch>,
    views: Arc<Views>,
    /// By key: the server's position after the plugin's last write.
    own_positions: BTreeMap<ObjectKey, usize>,
    /// The subscriptions' filters, which refuse every change; empty if every change is delivered.
    filters: Vec<Arc<DeliveryFilter>>,
}

impl Run {
    async fn start(decimal: bool, selectors: &[&str]) -> Self {
        let mut views = Views::default();
        let mut watches = Vec::new();
        for selector in selectors {
            let watch = TestWatch::open(selector).await;
            let own_writes = views.writes.for_resource(&resource());
            views.by_name.insert(format!("watch {selector:?}").into(), Box::new(watch.view(own_writes)));
            watches.push(watch);
        }
        Self {
            server: ModelServer::new(decimal),
            watches,
            views: Arc::new(views),
            own_positions: BTreeMap::new(),
            filters: Vec::new(),
        }
    }

    /// Refuses every change from now on, as a plugin's predicate may. Computed indexes, which need every change, are updated after each step.
    fn refuse_everything(mut self) -> Self {
        for watch in &self.watches {
            let filter = DeliveryFilter::new(&watch.subscription);
            filter.set_condition(Condition::constant(false));
            self.views.writes.for_resource(&resource()).add_filter(&filter);
            self.filters.push(filter);
        }
        self
    }

    /// The views in the order of the watches.
    fn views(&self) -> Vec<&View> {
        let name = |watch: &TestWatch| format!("watch {:?}", watch.selector.to_string());
        self.watches.iter().map(|watch| &*self.views.by_name[name(watch).as_str()]).collect()
    }

    async fn put(&mut self, own: bool, name: usize, team: usize, value: u8) {
        let before = self.views.writes.uid(&resource(), &key(name));
        let object = self.server.put(name, team, value);
        self.wrote(own, name, WriteOutcome::Object(resource(), object), &before).await;
    }

    async fn delete(&mut self, own: bool, name: usize) {
        let before = self.views.writes.uid(&resource(), &key(name));
        // The plugin deletes only objects that it knows. For others, it does not know which object was before.
        let present = self.server.now(&key(name));
        if own && present.is_some_and(|present| present.uid() != before) {
            return;
        }
        let Some(uid) = self.server.delete(name) else { return };
        self.wrote(own, name, WriteOutcome::Deleted(resource(), key(name), uid), &before).await;
    }

    async fn wrote(&mut self, own: bool, name: usize, written: WriteOutcome, before: &str) {
        if own {
            self.own_positions.insert(key(name), self.server.events.len());
            self.views.record(&written, before).await;
            self.compute(&[key(name)]);
        }
    }

    /// Does what the indexer's task does.
    fn compute(&self, keys: &[ObjectKey]) {
        for view in self.views.by_name.values() {
            for key in keys {
                let state = view.object(key);
                if !view.computed.is_current(key, state.as_ref()) {
                    match state {
                        Some(state) => {
                            let values = vec![value(&state).into_iter().collect()];
                            view.computed.set(&state, values).expect("room");
                        }
                        None => view.computed.remove(key),
                    }
                }
            }
        }
    }

    fn dispatch(&self, watch: usize) {
        let name = format!("watch {:?}", self.watches[watch].selector.to_string());
        while let Some(Some(batch)) = self.watches[watch].subscription.next_batch().now_or_never() {
            self.compute(&batch.iter().map(|notification| notification.key().clone()).collect::<Vec<_>>());
            self.views.confirm_own_writes(&name, &batch);
        }
    }

    async fn step(&mut self, step: &Step) {
        match *step {
            Step::Put { own, name, team, value } => self.put(own, name, team, value).await,
            Step::Delete { own, name } => self.delete(own, name).await,
            Step::Recreate { own, name, team } => {
                self.delete(own, name).await;
                self.put(own, name, team, 0).await;
            }
            Step::Deliver { watch, count, dispatch } => {
                let watch = watch % self.watches.len();
                self.watches[watch].deliver(&self.server, count).await;
                if dispatch {
                    self.dispatch(watch);
                }
            }
        }
        if !self.filters.is_empty() {
            self.compute(&(0..NAMES.len()).map(key).collect::<Vec<_>>());
        }
    }

    /// What a reader of the watch must see, according to the model.
    fn expected(&self, watch: &TestWatch, key: &ObjectKey) -> Option<Object> {
        let position = watch.position.max(self.own_positions.get(key).copied().unwrap_or_default());
        self.server.at(key, position).filter(|object| watch.selector.matches_object(object))
    }

    fn check_exactly(&self) {
        for (watch, view) in self.watches.iter().zip(self.views()) {
            let expected: Vec<Object> =
                (0..NAMES.len()).filter_map(|name| self.expected(watch, &key(name))).collect();
            let by_key: Vec<Object> = (0..NAMES.len()).filter_map(|name| view.object(&key(name))).collect();
            assert_eq!(texts(&by_key), texts(&expected), "by key, of {}", watch.selector);
            for (limit, step) in [(1, 1), (1, 100), (2, 1), (2, 2), (usize::MAX, 1), (usize::MAX, 100)] {
                let found = paged(view, limit, step);
                assert_eq!(texts(&found), texts(&expected), "in pages of {limit}, in steps of {step}");
            }
            check_indexes(view, &expected);
        }
    }

    /// If resource versions have no order, the plugin may see nothing older than its last write, nor the object that it deleted.
    fn check_not_older(&self) {
        for (watch, view) in self.watches.iter().zip(self.views()) {
            let own = |name: usize| Some((name, *self.own_positions.get(&key(name))?));
            for (name, own) in (0..NAMES.len()).filter_map(own) {
                match view.object(&key(name)) {
                    // After a deletion, objects of the same name cannot be ordered; only the deleted one must not be seen.
                    Some(object) if self.server.events[own - 1].after.is_none() => {
                        let deleted = self.server.events[own - 1].before.as_ref().map(Object::uid);
                        assert_ne!(Some(object.uid()), deleted, "{object:?} was deleted");
                    }
                    Some(object) => assert!(number(&object) >= own, "{object:?} is older than event {own}"),
                    None => assert!(
                        watch.position >= own || self.expected(watch, &key(name)).is_none(),
                        "{} is hidden",
                        NAMES[name]
                    ),
                }
            }
        }
    }

    async fn deliver_everything(&mut self) {
        for watch in 0..self.watches.len() {
            self.watches[watch].deliver(&self.server, usize::MAX / 2).await;
            self.dispatch(watch);
        }
        self.views.prune_own_writes();
    }
}

/// Returns the index value of an object.
type ValueOf<'a> = &'a dyn Fn(&Object) -> Option<String>;

fn check_indexes(view: &View, expected: &[Object]) {
    let team = |object: &Object| object.label("team").map(Cow::into_owned);
    let owner =
        |object: &Object| object.owner_references().into_iter().next().map(|owner| owner.uid.to_string());
    let indexes: [(&str, ValueOf<'_>); 4] =
        [("team", &team), ("value", &value), ("owner", &owner), ("computed", &value)];
    for (index, value_of) in indexes {
        // The computed index contains a change by others only after its notification was dispatched.
        if index == "computed"
            && expected.iter().any(|object| !view.computed.is_current(object.key(), Some(object)))
        {
            continue;
        }
        let values: BTreeSet<String> = expected.iter().filter_map(value_of).collect();
        for step in [1, 2, 100] {
            let found = all_parts(|from| view.index_values(index, from, step));
            assert_eq!(BTreeSet::from_iter(found), values, "index-values of {index}");
        }
        for value in ["red", "blue", "0", "1", "2", "o0", "o1", "o2"] {
            let matching: Vec<Object> = expected
                .iter()
                .filter(|object| value_of(object).as_deref() == Some(value))
                .cloned()
                .collect();
            let keys: Vec<_> = matching.iter().map(|object| object.key().clone()).collect();
            assert_eq!(view.all_index_keys(index, value).expect("a known index"), keys);
            for step in [1, 2, 100] {
                let mut found = all_parts(|from| view.by_index(index, value, from, step));
                found.sort_by(|left, right| left.key().cmp(right.key()));
                assert_eq!(texts(&found), texts(&matching), "by {index}, {value}");
                let mut found = all_parts(|from| view.index_keys(index, value, from, step));
                found.sort();
                assert_eq!(found, keys, "the keys by {index}, {value}");
            }
        }
    }
}

/// Searches an index to its end.
fn all_parts<T>(part: impl Fn(&IndexCursor) -> Result<IndexPage<T>, Misuse>) -> Vec<T> {
    let (mut found, mut from) = (Vec::new(), Some(IndexCursor::default()));
    while let Some(cursor) = from {
        let part = part(&cursor).expect("a known index");
        found.extend(part.found);
        from = part.next;
    }
    found
}

/// Lists all objects, in pages of up to `limit` objects, for each of which `step` cached objects are looked at.
fn paged(view: &View, limit: usize, step: usize) -> Vec<Object> {
    let mut objects: Vec<Object> = Vec::new();
    let mut filter = CacheFilter {
        namespace: Some("n".into()),
        labels: LabelSelector::everything(),
        after: None,
        limit: Some(limit),
    };
    loop {
        let page = view.page(&filter, step);
        assert!(page.items.len() <= limit);
        objects.extend(page.items);
        if !page.more {
            return objects;
        }
        let last = objects.last().map(|object| object.key().clone());
        let after = page.searched_to.or(last);
        assert!(after > filter.after, "each page makes progress");
        filter.after = after;
    }
}

fn texts(objects: &[Object]) -> Vec<&str> {
    objects.iter().map(Object::json).collect()
}

fn value(object: &Object) -> Option<String> {
    object.text("/data/value").map(Cow::into_owned)
}

/// The number of the event that wrote this state, from 1 on.
fn number(object: &Object) -> usize {
    object.text("/data/number").and_then(|number| number.parse::<usize>().ok()).expect("a number") - 1
}

fn run(future: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(future);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn reads_are_as_of_the_own_last_write_or_of_the_watch_position_whichever_is_later(steps in steps()) {
        run(async {
            let mut run = Run::start(true, &["", "team=red"]).await;
            for step in &steps {
                run.step(step).await;
                run.check_exactly();
            }
            run.deliver_everything().await;
            run.check_exactly();
            tokio::time::advance(Duration::from_mins(20)).await;
            run.views.prune_own_writes();
            assert!(run.views()[0].own_writes.is_empty(), "the overlay leaks");
            assert_eq!(run.views()[0].computed.indexed_keys().len(), run.views()[0].cache.keys().count());
        });
    }

    #[test]
    fn the_overlay_is_empty_once_a_watch_without_selectors_has_delivered_everything(steps in steps()) {
        run(async {
            let mut run = Run::start(true, &[""]).await;
            for step in &steps {
                run.step(step).await;
                run.check_exactly();
            }
            run.deliver_everything().await;
            assert!(run.views()[0].own_writes.is_empty(), "the overlay leaks");
        });
    }

    #[test]
    fn own_writes_are_confirmed_although_the_predicate_refuses_every_change(steps in steps(), decimal: bool) {
        run(async {
            let mut run = Run::start(decimal, &[""]).await.refuse_everything();
            for step in &steps {
                run.step(step).await;
                if decimal {
                    run.check_exactly();
                } else {
                    run.check_not_older();
                }
            }
            run.deliver_everything().await;
            if !decimal {
                tokio::time::advance(Duration::from_mins(20)).await;
                run.views.prune_own_writes();
            }
            assert!(run.views()[0].own_writes.is_empty(), "the overlay leaks");
            // Without an order of versions, so much time has passed that the watch may have been closed.
            if decimal {
                drop(run.server.put(0, 0, 0));
                run.watches[0].deliver(&run.server, 1).await;
                let pending = run.watches[0].subscription.take_pending();
                assert!(pending.is_empty(), "nothing needs the changes any more");
            }
        });
    }

    #[test]
    fn without_an_order_of_versions_nothing_older_than_the_own_last_write_is_read(steps in steps()) {
        run(async {
            let mut run = Run::start(false, &["", "team=red"]).await;
            for step in &steps {
                run.step(step).await;
                run.check_not_older();
            }
            run.deliver_everything().await;
            run.check_not_older();
            tokio::time::advance(Duration::from_mins(20)).await;
            run.views.prune_own_writes();
            assert!(run.views()[0].own_writes.is_empty(), "the overlay leaks");
        });
    }
}
