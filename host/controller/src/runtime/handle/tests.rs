//! The status of plugins, and what operators may do with a running one.

use super::*;
use crate::directory::PluginFiles;
use crate::lifecycle::Input;

fn status_source() -> Arc<PluginStatusSource> {
    let service = tower::service_fn(async |_: http::Request<kube::client::Body>| {
        Ok::<_, std::convert::Infallible>(http::Response::new(kube::client::Body::empty()))
    });
    let plugin = PluginServices::for_test("shown", kube::Client::new(service, "default"));
    let lifecycle = Lifecycle::begin(
        plugin.name.clone(),
        "default",
        Arc::clone(&plugin.metrics),
        plugin.events.clone(),
        Default::default(),
    );
    let desired_files = watch::channel(None).1;
    Arc::new(PluginStatusSource { lifecycle, running_status: Arc::default(), plugin, desired_files })
}

#[tokio::test(start_paused = true)]
async fn a_running_plugin_whose_calls_all_fail_is_failing_and_not_ready() {
    let status_source = status_source();
    let step = |state| Input::Step { load: status_source.lifecycle.load_number(), state, waiting_for: "" };
    assert!(!status_source.status().ready, "it is only found yet");
    status_source.lifecycle.apply(&step(PluginState::Describing));
    status_source.lifecycle.apply(&Input::Installed { version: "1", digest: "d" });
    assert_eq!((status_source.status().ready, status_source.status().failing), (true, false));
    let item = crate::runtime::queue::ReconcileKey {
        watch: "maps".into(),
        key: pilothouse_model::ObjectKey::new("shop", "a"),
    };
    let (reason, priority) = (pilothouse_plugin::Reason::Other, pilothouse_informer::Priority::Normal);
    status_source.plugin.queue.add(item, reason, priority);
    for _ in 0..3 {
        let (mut held, reasons) = status_source.plugin.queue.get().await.expect("the key");
        assert!(status_source.plugin.queue.retry(&mut held, &reasons).is_some());
        status_source.plugin.recent_errors.record_error("maps", "shop/a", &"401: Unauthorized");
    }
    let status = status_source.status();
    assert_eq!(status.state, PluginState::Running, "the state is public and stays");
    assert_eq!((status.ready, status.failing, status.consecutive_errors), (false, true, 3));
    assert_eq!((status.keys_in_backoff, status.last_error.map(|last| last.key)), (1, Some("shop/a".into())));
    status_source.plugin.recent_errors.record_success();
    status_source.running_status.set_crd_problem(Some("the CRD is gone".to_owned()));
    assert_eq!(
        (status_source.status().ready, status_source.status().failing),
        (false, true),
        "a watch does not work"
    );
    status_source.running_status.set_crd_problem(None);
    assert!(status_source.status().ready);
}

#[tokio::test(start_paused = true)]
async fn a_compilation_is_shown_while_a_version_runs() {
    let status_source = status_source();
    let step = |state| Input::Step { load: status_source.lifecycle.load_number(), state, waiting_for: "" };
    status_source.lifecycle.apply(&step(PluginState::Describing));
    status_source.lifecycle.apply(&Input::Installed { version: "1", digest: "d" });
    assert_eq!(status_source.status().compiling_since, None);
    let compiling = status_source.plugin.compile_status.begin(jiff::Timestamp::UNIX_EPOCH);
    let status = status_source.status();
    assert_eq!(status.compiling_since.as_deref(), Some("1970-01-01T00:00:00Z"));
    assert_eq!((status.state, status.ready), (PluginState::Running, true), "the running version works");
    drop(compiling);
    assert_eq!(status_source.status().compiling_since, None);
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_stops_is_removed_only_if_its_file_was() {
    let status_source = status_source();
    status_source.lifecycle.apply(&Input::Draining);
    assert!(status_source.status().removed);
    let files = watch::channel(Some(PluginFiles::for_test())).1;
    let status_source = PluginStatusSource {
        lifecycle: status_source.lifecycle.clone(),
        running_status: Arc::default(),
        plugin: status_source.plugin.clone(),
        desired_files: files,
    };
    status_source
        .lifecycle
        .apply(&Input::Stopped { why: "its sidecar says enabled: false", with_host: false });
    assert_eq!((status_source.status().state, status_source.status().removed), (PluginState::Stopped, false));
}

#[tokio::test(start_paused = true)]
async fn a_plugin_has_not_ended_until_its_requests_are_answered() {
    let status_source = status_source();
    let key = pilothouse_model::ObjectKey::cluster("a");
    let request = status_source
        .plugin
        .queue
        .in_flight()
        .begin(&crate::runtime::queue::ReconcileKey { watch: "maps".into(), key });
    let desired_files = watch::channel(None).0;
    let handle = PluginHandle { desired_files, status_source, task: tokio::spawn(async {}) };
    while !handle.task.is_finished() {
        tokio::task::yield_now().await;
    }
    assert!(!handle.has_ended(), "the plugin must be kept while its request is under way");
    drop(request);
    assert!(handle.has_ended());
}

#[tokio::test(start_paused = true)]
async fn a_refused_file_does_not_hide_problems_of_the_running_version() {
    let status_source = status_source();
    let step = |state| Input::Step { load: status_source.lifecycle.load_number(), state, waiting_for: "" };
    status_source.lifecycle.apply(&step(PluginState::Describing));
    status_source.lifecycle.apply(&Input::Installed { version: "1", digest: "d" });
    assert_eq!(status_source.status().error, "");
    status_source.running_status.set_crd_problem(Some("the CRD is gone".to_owned()));
    assert_eq!(status_source.status().error, "the CRD is gone");
    status_source.lifecycle.apply(&Input::Found);
    status_source.lifecycle.apply(&Input::Refused { problem: "the file is torn" });
    let error = status_source.status().error;
    assert!(error.contains("the file is torn") && error.ends_with("; the CRD is gone"), "{error}");
    status_source.lifecycle.apply(&Input::Faulty { problem: "it trapped", wait: std::time::Duration::ZERO });
    let status = status_source.status();
    assert_eq!(status.state, PluginState::BackingOff);
    assert!(status.error.ends_with("; the CRD is gone"), "{}", status.error);
    status_source.running_status.set_crd_problem(None);
    assert!(!status_source.status().error.contains("CRD"));
    assert!(status_source.status().error.contains("the file is torn"), "the file is still refused");
}

/// A running plugin that reconciles ConfigMaps.
struct RunningPlugin {
    handle: PluginHandle,
    plugin: PluginServices,
    files: PluginFiles,
    shutdown: CancellationToken,
    _folder: tempfile::TempDir,
}

impl RunningPlugin {
    async fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let wat = concat!(env!("CARGO_MANIFEST_DIR"), "/../plugin/tests/guests/index.wat");
        std::fs::write(folder.path().join("index.wasm"), wat::parse_file(wat).expect("a guest"))
            .expect("written");
        let scan = crate::directory::scan(folder.path()).expect("a directory");
        let files = scan.plugins.into_values().next().expect("a plugin");
        let api = pilothouse_apiserver::ApiServer::builder().build();
        let client = kube::Client::new(api.service(), "default");
        let plugin = PluginServices::for_test("index", client.clone());
        let services = LoadServices::for_test(client);
        let (metrics, events) = (Arc::clone(&plugin.metrics), plugin.events.clone());
        let lifecycle = Lifecycle::begin(plugin.name.clone(), "default", metrics, events, Default::default());
        let (options, shutdown) = (ReloadOptions { requeue_all: false }, CancellationToken::new());
        let handle =
            PluginHandle::start(plugin.clone(), lifecycle, services, options, shutdown.clone(), None);
        handle.set_desired_files(Some(files.clone()));
        until(&|| handle.status_source().status().state == PluginState::Running).await;
        Self { handle, plugin, files, shutdown, _folder: folder }
    }

    async fn stop(self) {
        self.shutdown.cancel();
        self.handle.join().await;
    }
}

async fn until(condition: &dyn Fn() -> bool) {
    while !condition() {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
}

fn config_map(name: &str) -> crate::runtime::queue::ReconcileKey {
    let key = pilothouse_model::ObjectKey::new("default", name);
    crate::runtime::queue::ReconcileKey { watch: "configmaps".into(), key }
}

#[tokio::test]
async fn a_plugin_whose_task_panics_continues_with_the_same_version() {
    let running = RunningPlugin::start().await;
    let (handle, plugin) = (&running.handle, &running.plugin);
    plugin.panics.arm("plugin", 1);
    handle.set_desired_files(Some(running.files.clone()));
    until(&|| plugin.metrics.task_panics.get() == 1).await;
    let reconciled = plugin.metrics.succeeded.get();
    let (reason, priority) = (pilothouse_plugin::Reason::Other, pilothouse_informer::Priority::Normal);
    until(&|| {
        plugin.queue.add(config_map("a"), reason, priority);
        plugin.metrics.succeeded.get() > reconciled + 1
    })
    .await;
    let status = handle.status_source().status();
    assert_eq!(
        (status.state, status.generation),
        (PluginState::Running, 1),
        "the files were not loaded again"
    );
    assert!(status.error.contains("plugin task panicked: a defect in the plugin"), "{}", status.error);
    running.stop().await;
}

#[tokio::test]
async fn a_paused_plugin_keeps_its_keys_until_it_is_resumed() {
    let running = RunningPlugin::start().await;
    let (status_source, plugin) = (running.handle.status_source(), &running.plugin);
    let is_idle = || {
        let queue = plugin.queue.snapshot();
        queue.depth + queue.delayed + queue.processing == 0
    };
    until(&is_idle).await;
    status_source.set_paused(true);
    assert_eq!((status_source.status().paused, status_source.status().ready), (true, false));
    let reconciled = plugin.metrics.succeeded.get();
    let (reason, priority) = (pilothouse_plugin::Reason::Other, pilothouse_informer::Priority::Normal);
    plugin.queue.add(config_map("a"), reason, priority);
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    assert_eq!(plugin.metrics.succeeded.get(), reconciled);
    let keys = status_source.keys(10);
    assert_eq!((keys.pending, keys.keys[0].key.as_str()), (1, "default/a"));
    status_source.set_paused(false);
    until(&|| plugin.metrics.succeeded.get() > reconciled).await;
    assert!(status_source.status().ready);
    running.stop().await;
}

#[tokio::test]
async fn a_key_is_requeued_only_if_it_is_cached_or_pending() {
    use crate::runtime::ControlError;
    let running = RunningPlugin::start().await;
    let (status_source, plugin) = (running.handle.status_source(), &running.plugin);
    let unknown = status_source.requeue(None, "default/none").expect_err("no such object");
    assert!(matches!(unknown, ControlError::UnknownKey { .. }), "{unknown}");
    let wrong = status_source.requeue(Some("nothing"), "default/none").expect_err("no such watch");
    assert!(wrong.to_string().contains("configmaps"), "{wrong}");
    assert!(matches!(status_source.requeue(None, "none"), Err(ControlError::Key { .. })));
    status_source.set_paused(true);
    plugin.queue.add_after(
        config_map("gone"),
        std::time::Duration::from_secs(3600),
        pilothouse_plugin::Reason::Deleted,
    );
    let watch = status_source.requeue(None, "default/gone").expect("it is pending");
    assert_eq!(&*watch, "configmaps");
    assert_eq!(plugin.queue.snapshot().delayed, 0, "it is ready at once");
    running.stop().await;
    let stopped = self::status_source().requeue(None, "default/gone");
    assert!(matches!(stopped, Err(ControlError::NotRunning { .. })));
}
