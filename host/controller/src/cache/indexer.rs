//! The task that has a plugin compute index values: one per version, with an instance of its own, so that neither the
//! informer nor the plugin's own task runs the guest.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_model::{Object, ObjectKey};
use pilothouse_plugin::{Fault, Instance, InstancePool, LogLevel};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};

use crate::cache::views::Views;
use crate::guest_host::GuestServices;
use crate::lifecycle::{Activity, Health};

/// How long the instance waits for work before it is dropped. It knows nothing that the next one would not.
const IDLE: Duration = Duration::from_secs(60);
/// Before an instance that could not be made is tried again.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// How often an instance is tried to be made for a version that does not run yet.
const TRIES_OF_A_LOAD: u32 = 5;
/// Requests that wait for the task. Who asks waits for the answer, so there are never more than askers.
const REQUESTS: usize = 16;

/// Asks the task of one version. The task ends with the last of these.
#[derive(Clone)]
pub(crate) struct Indexer {
    /// Boxed, because a channel has room for 32 from the beginning, and most of these are idle.
    requests: mpsc::Sender<Box<Request>>,
    urgent: mpsc::Sender<Box<Request>>,
}

/// What waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    /// Notifications of the version that runs. They wait for as long as it takes.
    Batch,
    /// A guest, for one object that it wrote: it comes before the next object of a batch.
    OwnWrite,
    /// All objects of a version that does not run yet. It is given up when no instance can be made.
    Load,
}

/// No instance of a version could be made to compute index values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no instance can be made to compute index values: {0}")]
pub(crate) struct NoInstance(String);

/// Objects of one watch whose values may have changed.
struct Request {
    views: Arc<Views>,
    watch: Arc<str>,
    keys: Arc<[ObjectKey]>,
    asker: Asker,
    done: Done,
}

type Done = oneshot::Sender<Result<(), NoInstance>>;

impl Indexer {
    /// Starts the task. The pool makes its instances, and is not used otherwise.
    pub(crate) fn start(instances: InstancePool, guest: GuestServices, health: Health) -> Self {
        let (requests, batches) = mpsc::channel(REQUESTS);
        let (urgent, own_writes) = mpsc::channel(REQUESTS);
        let supervisor = guest.clone();
        let mut task = Task { instances, guest, health, instance: None, batches, own_writes, in_hand: None };
        tokio::spawn(async move {
            supervisor.supervise("indexer", &mut task, |task| Box::pin(task.run())).await;
        });
        Self { requests, urgent }
    }

    /// Has the values of these objects known, as the plugin sees them now, when it returns.
    ///
    /// # Cancellation safety
    /// Safe: what is not done then is done when somebody asks again.
    pub(crate) async fn index(
        &self,
        views: Arc<Views>,
        watch: &Arc<str>,
        keys: Vec<ObjectKey>,
        asker: Asker,
    ) -> Result<(), NoInstance> {
        let requests = match asker {
            Asker::Batch | Asker::Load => &self.requests,
            Asker::OwnWrite => &self.urgent,
        };
        let keys: Arc<[ObjectKey]> = keys.into();
        loop {
            let (done, answer) = oneshot::channel();
            let (views, watch, keys) = (Arc::clone(&views), Arc::clone(watch), Arc::clone(&keys));
            let request = Box::new(Request { views, watch, keys, asker, done });
            if requests.send(request).await.is_err() {
                // The task is gone: the process is stopping.
                return Ok(());
            }
            // Without an answer the task has panicked, and is started again.
            if let Ok(outcome) = answer.await {
                return outcome;
            }
        }
    }
}

struct Task {
    instances: InstancePool,
    guest: GuestServices,
    /// It counts faults, and holds nobody up here: what was not indexed would not be found.
    health: Health,
    instance: Option<Instance>,
    batches: mpsc::Receiver<Box<Request>>,
    own_writes: mpsc::Receiver<Box<Request>>,
    /// The object whose values are being computed, and its watch.
    in_hand: Option<(Arc<Views>, Arc<str>, Object)>,
}

impl Task {
    async fn run(&mut self) {
        if let Some((views, watch, state)) = self.in_hand.take() {
            // A panic came of it: it is left out until it changes, as after a fault.
            self.instance = None;
            self.guest.metrics.index_errors.inc();
            if let Some(view) = views.by_name.get(&watch) {
                let values = view.computed.names().iter().map(|_| Vec::new()).collect();
                // Empty values take no memory of the account.
                let _ = view.computed.set(state, values);
            }
        }
        loop {
            let request = tokio::select! {
                biased;
                Some(request) = self.own_writes.recv() => request,
                batch = timeout(IDLE, self.batches.recv()) => match batch {
                    Ok(Some(request)) => request,
                    Ok(None) => return,
                    Err(_) => {
                        self.instance = None;
                        continue;
                    }
                },
            };
            // What a call takes is held during calls only: there is such a task for each plugin that computes indexes.
            Box::pin(self.serve(*request)).await;
        }
    }

    async fn serve(&mut self, Request { views, watch, keys, asker, done }: Request) {
        let mut outcome = Ok(());
        for key in &*keys {
            self.catch_up_with_own_writes().await;
            if done.is_closed() {
                break;
            }
            outcome = self.index(&views, &watch, key, asker, &done).await;
            if outcome.is_err() {
                break;
            }
        }
        // Whoever asked may have gone meanwhile.
        let _ = done.send(outcome);
    }

    async fn catch_up_with_own_writes(&mut self) {
        while let Ok(request) = self.own_writes.try_recv() {
            let Request { views, watch, keys, asker, done } = *request;
            for key in &*keys {
                // It is not given up.
                let _ = self.index(&views, &watch, key, asker, &done).await;
            }
            let _ = done.send(Ok(()));
        }
    }

    /// Requests are taken one after the other and look at the object anew, so an older state never replaces a newer.
    async fn index(
        &mut self,
        views: &Arc<Views>,
        watch: &Arc<str>,
        key: &ObjectKey,
        asker: Asker,
        done: &Done,
    ) -> Result<(), NoInstance> {
        let Some(view) = views.by_name.get(watch) else { return Ok(()) };
        let state = view.object(key);
        if view.computed.is_current(key, state.as_ref()) {
            return Ok(());
        }
        let Some(state) = state else {
            view.computed.remove(key);
            return Ok(());
        };
        self.in_hand = Some((Arc::clone(views), Arc::clone(watch), state.clone()));
        self.guest.panics.point("indexer");
        let mut values = Vec::with_capacity(view.computed.names().len());
        for index in view.computed.names() {
            match self.has_instance(asker, done).await {
                Ok(true) => {}
                outcome => {
                    self.in_hand = None;
                    return outcome.map(|_| ());
                }
            }
            values.push(match self.values(index, &state).await {
                Ok(values) => {
                    self.health.success(Activity::Index);
                    values
                }
                Err(fault) => {
                    self.health.fault(Activity::Index, Some(key), &fault);
                    self.failed(watch, index, &state, &fault);
                    Vec::new()
                }
            });
        }
        self.in_hand = None;
        if let Err(exceeded) = view.computed.set(state.clone(), values) {
            let fault = Fault::host_memory("index.values", exceeded);
            self.health.fault(Activity::Index, Some(key), &fault);
            self.failed(watch, "all", &state, &fault);
        }
        // It may have gone while the guest computed, when there was nothing to be taken out yet.
        if view.object(key).is_none() {
            view.computed.remove(key);
        }
        Ok(())
    }

    /// Makes an instance where there is none. That it cannot be made is no answer about an object, so it is tried again for as long as
    /// somebody waits: false when nobody does any more. A load gives up after [`TRIES_OF_A_LOAD`].
    async fn has_instance(&mut self, asker: Asker, done: &Done) -> Result<bool, NoInstance> {
        let mut pause = FIRST_PAUSE;
        let mut tries = 0;
        while self.instance.is_none() {
            match self.instances.instantiate().await {
                Ok(instance) => self.instance = Some(instance),
                Err(fault) => {
                    self.health.fault(Activity::Index, None, &fault);
                    self.guest.metrics.index_errors.inc();
                    tries += 1;
                    if asker == Asker::Load && tries == TRIES_OF_A_LOAD {
                        return Err(NoInstance(fault.to_string()));
                    }
                    self.guest.log.host(
                        LogLevel::Warn,
                        format_args!("no instance for index values: {fault}; tried again in {pause:?}"),
                        &[],
                    );
                    sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                    if done.is_closed() {
                        return Ok(false);
                    }
                }
            }
        }
        Ok(true)
    }

    async fn values(&mut self, index: &str, state: &Object) -> Result<Vec<String>, Fault> {
        let mut instance = match self.instance.take() {
            Some(instance) => instance,
            None => self.instances.instantiate().await?,
        };
        let values = instance.index_values(index, state).await;
        self.instance = Some(instance).filter(Instance::is_usable);
        values
    }

    fn failed(&self, watch: &str, index: &str, state: &Object, fault: &Fault) {
        self.guest.metrics.index_errors.inc();
        self.guest.log.failure(
            LogLevel::Warn,
            format_args!("no index values: {fault}"),
            &"the object is left out until it changes",
            &[("watch", &watch), ("key", &state.key()), ("index", &index)],
        );
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_plugin::{Engine, EngineOptions, Limits};

    use super::*;
    use crate::cache::views::model_tests::world::{NAMES, Watched, World, key};
    use crate::guest_host::GuestHost;

    #[tokio::test(start_paused = true)]
    async fn an_instance_that_cannot_be_made_is_no_answer_and_is_tried_again_while_somebody_waits() {
        let service = tower::service_fn(async |_: http::Request<kube::client::Body>| {
            Ok::<_, std::convert::Infallible>(http::Response::new(kube::client::Body::empty()))
        });
        let guest = GuestServices::for_test("starved", kube::Client::new(service, "default"));
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../plugin/tests/guests/index.wat");
        let engine = Engine::new(EngineOptions::default()).expect("an engine");
        let code = engine.load(wat::parse_file(path).expect("a guest")).await.expect("a plugin");
        let host = Arc::new(GuestHost::for_describe(guest.clone(), "{}".into()));
        let instances = InstancePool::new(code, host, Limits { memory: 1, ..Limits::default() });
        let ((_, batches), (_, own_writes)) = (mpsc::channel(1), mpsc::channel(1));
        let (guest_of_task, health) = (guest.clone(), Health::default());
        let mut task = Task {
            instances,
            guest: guest_of_task,
            health,
            instance: None,
            batches,
            own_writes,
            in_hand: None,
        };
        let (done, answer) = oneshot::channel();
        let mut making = tokio_test::task::spawn(task.has_instance(Asker::Batch, &done));
        assert!(making.poll().is_pending());
        tokio::time::advance(FIRST_PAUSE).await;
        assert!(making.poll().is_pending());
        let said: Vec<_> = guest.log.all().after(0, None).into_iter().map(|line| line.message).collect();
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said[0].contains("limits.memory") && said[0].ends_with("tried again in 100ms"), "{said:?}");
        assert!(said[1].ends_with("tried again in 200ms"), "{said:?}");
        drop(answer);
        tokio::time::advance(2 * FIRST_PAUSE).await;
        assert_eq!(making.poll(), std::task::Poll::Ready(Ok(false)));
    }

    /// A plugin's services, and views with all objects of the model in their cache.
    async fn stage() -> (GuestServices, Arc<Views>) {
        let mut world = World::new(true);
        (0..NAMES.len()).for_each(|name| drop(world.put(name, 0, 0)));
        let mut watched = Watched::open("").await;
        watched.bring(&world, NAMES.len()).await;
        let service = tower::service_fn(async |_: http::Request<kube::client::Body>| {
            Ok::<_, std::convert::Infallible>(http::Response::new(kube::client::Body::empty()))
        });
        let guest = GuestServices::for_test("indexer", kube::Client::new(service, "n"));
        let mut views = Views::default();
        let view = watched.view(views.writes.of(&crate::cache::views::model_tests::world::resource()));
        views.by_name.insert("maps".into(), Box::new(view));
        (guest, Arc::new(views))
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_at_which_the_task_panics_is_left_out_and_the_others_are_indexed() {
        let (guest, views) = stage().await;
        let watch: Arc<str> = "maps".into();
        guest.panics.arm("indexer", 1);
        let pool = crate::load::version::Version::test_pool(&guest, "index.wat", Limits::default()).await;
        let indexer = Indexer::start(pool, guest.clone(), Health::default());
        let keys = vec![key(0), key(1)];
        indexer.index(Arc::clone(&views), &watch, keys, Asker::Batch).await.expect("an answer");
        let computed = &views.by_name[&watch].computed;
        assert_eq!(computed.objects().len(), 2, "both are known");
        assert_eq!(
            (guest.metrics.task_panics.get(), guest.metrics.index_errors.get()),
            (1, 2),
            "the other by a fault"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn an_own_write_does_not_wait_for_the_batches_before_it() {
        let (guest, views) = stage().await;
        let watch: Arc<str> = "maps".into();
        let logs = guest.log.all().clone();
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../plugin/tests/guests/index.wat");
        let engine = Engine::new(EngineOptions::default()).expect("an engine");
        let code = engine.load(wat::parse_file(path).expect("a guest")).await.expect("a plugin");
        let host = Arc::new(GuestHost::for_describe(guest.clone(), "{}".into()));
        let pool = InstancePool::new(code, host, Limits::default());
        let indexer = Indexer::start(pool, guest, Health::default());

        let ask = |keys: Vec<ObjectKey>, asker| {
            let (indexer, views, watch) = (indexer.clone(), Arc::clone(&views), Arc::clone(&watch));
            tokio_test::task::spawn(async move { indexer.index(views, &watch, keys, asker).await })
        };
        // All are asked before the task has its first turn.
        let mut batches = ask(vec![key(0), key(1)], Asker::Batch);
        let mut own_write = ask(vec![key(2)], Asker::OwnWrite);
        assert!(batches.poll().is_pending() && own_write.poll().is_pending());
        own_write.await.expect("an instance");
        batches.await.expect("an instance");
        // The guest knows no index of this name, so each object leaves a line, in the order of their turns.
        let lines = logs.after(0, None);
        let keys = lines.iter().flat_map(|line| line.fields.iter().filter(|(name, _)| name == "key"));
        let keys: Vec<&str> = keys.map(|(_, key)| key.as_str()).collect();
        assert_eq!(keys, ["n/c", "n/a", "n/b"]);
        let computed = &views.by_name[&watch].computed;
        assert_eq!(computed.objects().len(), NAMES.len());
    }
}
