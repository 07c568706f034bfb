//! The task that calls a plugin's index functions: one per version, with an instance of its own, so that neither the informer nor the
//! plugin's own task waits for the guest.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_informer::ExponentialBackoff;
use pilothouse_model::{Object, ObjectKey};
use pilothouse_plugin::{Fault, Instance, InstancePool, LogLevel};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};

use crate::cache::views::Views;
use crate::guest_host::{INSTANCE_IDLE_TIMEOUT, PluginServices};
use crate::lifecycle::{Activity, Health};

/// The delay before the second attempt to create an instance. It doubles with each attempt.
const FIRST_DELAY: Duration = Duration::from_millis(100);
const MAX_DELAY: Duration = Duration::from_secs(30);
/// The number of attempts to create an instance for a version that does not run yet.
const LOAD_ATTEMPTS: u32 = 5;
/// The capacity of the request channels. Callers wait for the answer, so there are few requests at a time.
const CHANNEL_CAPACITY: usize = 16;

/// A handle of the indexing task of one version. The task ends when the last handle is dropped. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Indexer {
    /// Boxed, because a channel allocates a block of 32 items at once, and most of these channels are idle.
    requests: mpsc::Sender<Box<Request>>,
    urgent: mpsc::Sender<Box<Request>>,
}

/// For whom values are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Requester {
    /// Notifications of the running version. They wait until an instance can be created.
    Batch,
    /// A guest that wrote one object. It is served before the next object of a batch.
    OwnWrite,
    /// A version that does not run yet, for all its objects. It fails if no instance can be created.
    Load,
}

/// No instance could be created to compute index values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no instance can be made to compute index values: {0}")]
pub(crate) struct NoInstance(String);

/// Objects of one watch whose values may have changed.
struct Request {
    views: Arc<Views>,
    watch: Arc<str>,
    keys: Arc<[ObjectKey]>,
    requester: Requester,
    response: Response,
}

type Response = oneshot::Sender<Result<(), NoInstance>>;

impl Indexer {
    /// Starts the task. `instances` only creates its instances.
    pub(crate) fn start(instances: InstancePool, plugin: PluginServices, health: Health) -> Self {
        let (requests, batches) = mpsc::channel(CHANNEL_CAPACITY);
        let (urgent, own_writes) = mpsc::channel(CHANNEL_CAPACITY);
        let supervisor = plugin.clone();
        let mut task = Task { instances, plugin, health, instance: None, batches, own_writes, current: None };
        tokio::spawn(async move {
            supervisor.supervise("indexer", &mut task, |task| Box::pin(task.run())).await;
        });
        Self { requests, urgent }
    }

    /// Updates the computed indexes for these objects, as the plugin sees them now.
    ///
    /// # Errors
    /// No instance could be created, for [`Requester::Load`] only.
    ///
    /// # Cancellation safety
    /// Safe: objects that were not indexed are found stale by the next call.
    pub(crate) async fn index(
        &self,
        views: Arc<Views>,
        watch: &Arc<str>,
        keys: Vec<ObjectKey>,
        requester: Requester,
    ) -> Result<(), NoInstance> {
        let requests = match requester {
            Requester::Batch | Requester::Load => &self.requests,
            Requester::OwnWrite => &self.urgent,
        };
        let keys: Arc<[ObjectKey]> = keys.into();
        loop {
            let (response, receiver) = oneshot::channel();
            let (views, watch, keys) = (Arc::clone(&views), Arc::clone(watch), Arc::clone(&keys));
            let request = Box::new(Request { views, watch, keys, requester, response });
            if requests.send(request).await.is_err() {
                // The task is gone, because the process is stopping.
                return Ok(());
            }
            // Without a response, the task has panicked and is restarted.
            if let Ok(outcome) = receiver.await {
                return outcome;
            }
        }
    }
}

struct Task {
    instances: InstancePool,
    plugin: PluginServices,
    /// Counts the faults. Unlike reconciles, index calls do not wait while the plugin backs off, because a read would miss objects that are
    /// not indexed.
    health: Health,
    instance: Option<Instance>,
    batches: mpsc::Receiver<Box<Request>>,
    own_writes: mpsc::Receiver<Box<Request>>,
    /// The object whose values are being computed, and its watch.
    current: Option<(Arc<Views>, Arc<str>, Object)>,
}

impl Task {
    async fn run(&mut self) {
        if let Some((views, watch, state)) = self.current.take() {
            // The task panicked at this object, which is left out of the indexes until it changes, as after a fault.
            self.instance = None;
            self.plugin.metrics.index_errors.inc();
            if let Some(view) = views.by_name.get(&watch) {
                let values = view.computed.names().iter().map(|_| Vec::new()).collect();
                // Empty values are not charged, so this cannot fail.
                let _ = view.computed.set(&state, values);
            }
        }
        loop {
            let request = tokio::select! {
                biased;
                Some(request) = self.own_writes.recv() => request,
                batch = timeout(INSTANCE_IDLE_TIMEOUT, self.batches.recv()) => match batch {
                    Ok(Some(request)) => request,
                    Ok(None) => return,
                    Err(_) => {
                        // It has no state that the next instance would need.
                        self.instance = None;
                        continue;
                    }
                },
            };
            // Boxed, so that the memory of a call is allocated during calls only: each plugin with computed indexes has such a task.
            Box::pin(self.serve(*request)).await;
        }
    }

    async fn serve(&mut self, Request { views, watch, keys, requester, response }: Request) {
        let mut outcome = Ok(());
        for key in &*keys {
            self.serve_own_writes().await;
            if response.is_closed() {
                break;
            }
            outcome = self.index(&views, &watch, key, requester, &response).await;
            if outcome.is_err() {
                break;
            }
        }
        // The caller may have been cancelled.
        let _ = response.send(outcome);
    }

    async fn serve_own_writes(&mut self) {
        while let Ok(request) = self.own_writes.try_recv() {
            let Request { views, watch, keys, requester, response } = *request;
            for key in &*keys {
                // Only a load fails.
                let _ = self.index(&views, &watch, key, requester, &response).await;
            }
            let _ = response.send(Ok(()));
        }
    }

    /// Updates the indexes for one object. Requests are served one after the other and read the object's current state, so an older state
    /// never replaces a newer one.
    async fn index(
        &mut self,
        views: &Arc<Views>,
        watch: &Arc<str>,
        key: &ObjectKey,
        requester: Requester,
        response: &Response,
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
        self.current = Some((Arc::clone(views), Arc::clone(watch), state.clone()));
        self.plugin.panics.inject_test_panic("indexer");
        let mut values = Vec::with_capacity(view.computed.names().len());
        for index in view.computed.names() {
            match self.ensure_instance(requester, response).await {
                Ok(true) => {}
                outcome => {
                    self.current = None;
                    return outcome.map(|_| ());
                }
            }
            values.push(match self.values(index, &state).await {
                Ok(values) => {
                    self.health.record_success(Activity::Index);
                    values
                }
                Err(fault) => {
                    self.health.record_fault(Activity::Index, Some(key), &fault);
                    self.failed(watch, index, &state, &fault);
                    Vec::new()
                }
            });
        }
        self.current = None;
        if let Err(exceeded) = view.computed.set(&state, values) {
            let fault = Fault::host_memory("index.values", exceeded);
            self.health.record_fault(Activity::Index, Some(key), &fault);
            self.failed(watch, "all", &state, &fault);
        }
        // The object may have been deleted during the call, before there was anything to remove.
        if view.object(key).is_none() {
            view.computed.remove(key);
        }
        Ok(())
    }

    /// Creates an instance if there is none. A failure says nothing about the object, so it is retried while the caller waits. Returns
    /// false once the caller is gone; for a load, errors after [`LOAD_ATTEMPTS`].
    async fn ensure_instance(
        &mut self,
        requester: Requester,
        response: &Response,
    ) -> Result<bool, NoInstance> {
        let delays = ExponentialBackoff::new(FIRST_DELAY, MAX_DELAY);
        let mut attempts = 0;
        while self.instance.is_none() {
            match self.instances.instantiate().await {
                Ok(instance) => self.instance = Some(instance),
                Err(fault) => {
                    self.health.record_fault(Activity::Index, None, &fault);
                    self.plugin.metrics.index_errors.inc();
                    let delay = delays.delay(attempts);
                    attempts += 1;
                    if requester == Requester::Load && attempts == LOAD_ATTEMPTS {
                        return Err(NoInstance(fault.to_string()));
                    }
                    self.plugin.log.failure(
                        LogLevel::Warn,
                        format_args!("no instance for index values: {fault}"),
                        &format_args!("tried again in {delay:?}"),
                        &[],
                    );
                    sleep(delay).await;
                    if response.is_closed() {
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
        self.plugin.metrics.index_errors.inc();
        self.plugin.log.failure(
            LogLevel::Warn,
            format_args!("no index values: {fault}"),
            &"the object is left out until it changes",
            &[("watch", &watch), ("key", &state.key()), ("index", &index)],
        );
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_plugin::{Engine, EngineOptions, InstanceLimits};

    use super::*;
    use crate::cache::views::model_tests::model_server::{ModelServer, NAMES, TestWatch, key};
    use crate::guest_host::GuestHost;

    #[tokio::test(start_paused = true)]
    async fn creating_an_instance_is_retried_while_the_caller_waits() {
        let service = tower::service_fn(async |_: http::Request<kube::client::Body>| {
            Ok::<_, std::convert::Infallible>(http::Response::new(kube::client::Body::empty()))
        });
        let plugin = PluginServices::for_test("starved", kube::Client::new(service, "default"));
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../plugin/tests/guests/index.wat");
        let engine = Engine::new(EngineOptions::default()).expect("an engine");
        let code = engine.load(wat::parse_file(path).expect("a guest")).await.expect("a plugin");
        let host = Arc::new(GuestHost::for_describe(plugin.clone(), "{}".into()));
        let instances =
            InstancePool::new(code, host, InstanceLimits { memory: 1, ..InstanceLimits::default() });
        let ((_, batches), (_, own_writes)) = (mpsc::channel(1), mpsc::channel(1));
        let (guest_of_task, health) = (plugin.clone(), Health::default());
        let mut task = Task {
            instances,
            plugin: guest_of_task,
            health,
            instance: None,
            batches,
            own_writes,
            current: None,
        };
        let (response, receiver) = oneshot::channel();
        let mut creating = tokio_test::task::spawn(task.ensure_instance(Requester::Batch, &response));
        assert!(creating.poll().is_pending());
        tokio::time::advance(FIRST_DELAY).await;
        assert!(creating.poll().is_pending());
        let lines: Vec<_> = plugin.log.all().after(0, None).into_iter().map(|line| line.message).collect();
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(
            lines[0].contains("limits.memory") && lines[0].ends_with("tried again in 100ms"),
            "{lines:?}"
        );
        assert!(lines[1].ends_with("tried again in 200ms"), "{lines:?}");
        drop(receiver);
        tokio::time::advance(2 * FIRST_DELAY).await;
        assert_eq!(creating.poll(), std::task::Poll::Ready(Ok(false)));
    }

    /// A plugin's services, and views with all objects of the model server in their cache.
    async fn fixture() -> (PluginServices, Arc<Views>) {
        let mut server = ModelServer::new(true);
        (0..NAMES.len()).for_each(|name| drop(server.put(name, 0, 0)));
        let mut watched = TestWatch::open("").await;
        watched.deliver(&server, NAMES.len()).await;
        let service = tower::service_fn(async |_: http::Request<kube::client::Body>| {
            Ok::<_, std::convert::Infallible>(http::Response::new(kube::client::Body::empty()))
        });
        let plugin = PluginServices::for_test("indexer", kube::Client::new(service, "n"));
        let mut views = Views::default();
        let view = watched
            .view(views.writes.for_resource(&crate::cache::views::model_tests::model_server::resource()));
        views.by_name.insert("maps".into(), Box::new(view));
        (plugin, Arc::new(views))
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_at_which_the_task_panics_is_left_out_of_the_index() {
        let (plugin, views) = fixture().await;
        let watch: Arc<str> = "maps".into();
        plugin.panics.arm("indexer", 1);
        let pool =
            crate::load::version::Version::test_pool(&plugin, "index.wat", InstanceLimits::default()).await;
        let indexer = Indexer::start(pool, plugin.clone(), Health::default());
        let keys = vec![key(0), key(1)];
        indexer.index(Arc::clone(&views), &watch, keys, Requester::Batch).await.expect("an answer");
        let computed = &views.by_name[&watch].computed;
        assert_eq!(computed.indexed_keys().len(), 2, "both are stored");
        assert_eq!(
            (plugin.metrics.task_panics.get(), plugin.metrics.index_errors.get()),
            (1, 2),
            "the other object caused a fault"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn an_own_write_does_not_wait_for_the_batches_before_it() {
        let (plugin, views) = fixture().await;
        let watch: Arc<str> = "maps".into();
        let logs = plugin.log.all().clone();
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../plugin/tests/guests/index.wat");
        let engine = Engine::new(EngineOptions::default()).expect("an engine");
        let code = engine.load(wat::parse_file(path).expect("a guest")).await.expect("a plugin");
        let host = Arc::new(GuestHost::for_describe(plugin.clone(), "{}".into()));
        let pool = InstancePool::new(code, host, InstanceLimits::default());
        let indexer = Indexer::start(pool, plugin, Health::default());

        let request = |keys: Vec<ObjectKey>, requester| {
            let (indexer, views, watch) = (indexer.clone(), Arc::clone(&views), Arc::clone(&watch));
            tokio_test::task::spawn(async move { indexer.index(views, &watch, keys, requester).await })
        };
        // Both requests are sent before the task runs for the first time.
        let mut batches = request(vec![key(0), key(1)], Requester::Batch);
        let mut own_write = request(vec![key(2)], Requester::OwnWrite);
        assert!(batches.poll().is_pending() && own_write.poll().is_pending());
        own_write.await.expect("an instance");
        batches.await.expect("an instance");
        // The guest has no index of this name, so each object causes a log line, in the order in which they are served.
        let lines = logs.after(0, None);
        let keys = lines.iter().flat_map(|line| line.fields.iter().filter(|(name, _)| name == "key"));
        let keys: Vec<&str> = keys.map(|(_, key)| key.as_str()).collect();
        assert_eq!(keys, ["n/c", "n/a", "n/b"]);
        let computed = &views.by_name[&watch].computed;
        assert_eq!(computed.indexed_keys().len(), NAMES.len());
    }
}
