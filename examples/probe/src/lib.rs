//! The plugin of the benchmark `guest`. It does next to nothing in each of its exports, so that the cost of calling it is what remains. It
//! logs when it receives objects with certain names, which the benchmark creates last. With `latency` in its config it also measures the
//! age of the changes that it receives.

mod latency;

use std::cell::Cell;

use k8s_openapi::api::core::v1::Pod;
use pilothouse_sdk::{
    Config, Context, Describe, Error, Notification, Object, ObjectKey, Observer, Outcome, Plugin, Query,
    Reconciler, Request, Watch, info,
};

use latency::{Latency, SENT_AT};

const PODS: &str = "pods";
/// The watch's name when reconciles are timed. Reading the config in each reconcile instead would add a call to the measurement.
const TIMED: &str = "timed-pods";
/// The watch's name when a reconcile reads its fields in one call; see `TIMED` for the reason.
const AT_ONCE: &str = "pods-at-once";
/// The object whose work is logged.
const MARK: &str = "mark";
/// The object whose work is to queue every other object, the mark last.
const FILL: &str = "fill";
/// The object whose work is to read objects, as often as its annotation says.
const READ: &str = "read";
/// The number of objects that are read in turn.
const READ_KEYS: usize = 1000;
const FIELD: &str = "/spec/nodeName";
const FIELDS: [&str; 3] = ["/metadata/uid", FIELD, "/status/phase"];

#[derive(Default)]
struct Probe {
    reconciles: Cell<u64>,
    found: Cell<u64>,
    observed: u64,
    batches: u64,
    latency: Latency,
}

impl Describe for Probe {
    fn describe(config: &Config) -> Result<Plugin, Error> {
        let is_timed = config.get::<latency::MeasuredRange>("latency")?.is_some();
        let reads_at_once = config.get::<bool>("readsAtOnce")? == Some(true);
        let watch = match (is_timed, reads_at_once) {
            (true, _) => TIMED,
            (false, true) => AT_ONCE,
            (false, false) => PODS,
        };
        let watch = Watch::of::<Pod>(watch);
        let predicate: Option<String> = config.get("predicate")?;
        let watch = match (config.get::<bool>("observes")?, predicate) {
            (Some(true), _) => watch.notify(),
            (_, Some(predicate)) => watch.triggers_itself().predicate(predicate),
            (_, None) => watch.triggers_itself(),
        };
        Ok(Plugin::new("probe", env!("CARGO_PKG_VERSION"))
            .summary("The plugin of the benchmarks")
            .watch(watch))
    }
}

impl Observer for Probe {
    fn observe(&mut self, ctx: &Context<'_>, notifications: &[Notification<'_>]) -> Result<(), Error> {
        if let Some(now) = self.latency.now(ctx)? {
            return self.measure(now, notifications);
        }
        self.observed += notifications.len() as u64;
        self.batches += 1;
        if notifications.last().is_some_and(|last| last.key().name == MARK) {
            info!("marked {} {}", self.observed, self.batches);
        }
        Ok(())
    }
}

impl Probe {
    /// Records the ages of a batch's changes; all are measured at the start of the call.
    fn measure(&self, now: i128, notifications: &[Notification<'_>]) -> Result<(), Error> {
        for notification in notifications {
            let version: Option<String> = notification.field("/metadata/resourceVersion")?;
            let sent: Option<String> = notification.field("/metadata/annotations/bench~1sent-at")?;
            self.latency.record(now, &version.unwrap_or_default(), sent);
        }
        Ok(())
    }
}

impl Reconciler for Probe {
    fn reconcile(&self, ctx: &Context<'_>, request: &Request) -> Result<Outcome, Error> {
        if request.watch == TIMED
            && let Some(now) = self.latency.now(ctx)?
        {
            if let Some(pod) = ctx.cache::<Object>(TIMED).get(&request.key)? {
                self.latency.record(now, &pod.resource_version(), pod.annotation(SENT_AT));
            }
            return Ok(Outcome::Done);
        }
        self.reconciles.set(self.reconciles.get() + 1);
        let watch = request.watch.as_str();
        let Some(pod) = ctx.cache::<Object>(watch).get(&request.key)? else { return Ok(Outcome::Done) };
        let found = match watch {
            AT_ONCE => pod.texts(FIELDS).iter().flatten().count(),
            _ => FIELDS.into_iter().filter_map(|pointer| pod.text(pointer)).count(),
        };
        self.found.set(self.found.get() + found as u64);
        match request.key.name.as_str() {
            MARK => info!("marked {} {}", self.reconciles.get(), self.found.get()),
            FILL => fill(ctx, watch, &request.key),
            READ => read(ctx, watch, &pod),
            _ => {}
        }
        Ok(Outcome::Done)
    }
}

fn fill(ctx: &Context<'_>, watch: &str, own: &ObjectKey) {
    let queue = ctx.queue(watch);
    let pods = ctx.cache::<Object>(watch).fields(&Query::all(), &[]);
    for pod in pods.iter().filter(|pod| ![MARK, FILL, READ].contains(&pod.key.name.as_str())) {
        queue.add(&pod.key);
    }
    queue.add(&own.sibling(MARK));
    info!("filled");
}

fn read(ctx: &Context<'_>, watch: &str, own: &Object) {
    let times = own.annotation("bench/reads").and_then(|times| times.parse().ok()).unwrap_or_default();
    let key = |number| ObjectKey::new(format!("team-{}", number % 20), format!("web-{number}"));
    let keys: Vec<_> = (0..READ_KEYS).map(key).collect();
    let pods = ctx.cache::<Object>(watch);
    let read = |key| pods.get(key).ok().flatten().and_then(|pod| pod.text(FIELD)).is_some();
    let found = keys.iter().cycle().take(times).filter(|key| read(key)).count();
    info!("read {found}");
}

pilothouse_sdk::export!(Probe: Observer + Reconciler);
