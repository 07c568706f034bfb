//! `/page/events`: a stream of server-sent events, one after each change of what a page shows.
//!
//! An event has no content but a number: the script fetches the page again. So a stream that is open when its client loses the permission to
//! read tells it nothing, and an event that is lost does no harm. The number of streams, and of events in a stream, is bounded.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::{Extensions, StatusCode, header};
use axum::response::{IntoResponse, Response};
use pilothouse_controller::{PluginHost, PluginStatus};
use serde::Deserialize;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

use super::AppState;
use crate::http::fair_permits::{FairPermit, FairPermits, Shares};
use crate::http::load;

/// The open streams. The script closes that of a page which nobody sees.
const STREAMS: Shares = Shares { total: 32, per_client: 16, requests_per_client: 16 };
/// How often a stream looks for changes.
const INTERVAL: Duration = Duration::from_secs(1);
/// The number of intervals after which an event is sent even without a change, because pages also show durations.
const QUIET_INTERVALS: u32 = 15;
/// The number of intervals after which a stream ends. Browsers then open another one, which is authorized again.
const STREAM_INTERVALS: u32 = 600;

/// The streams of one host. Cheap to clone.
#[derive(Clone)]
pub(in crate::http) struct LiveUpdates {
    streams: Arc<FairPermits>,
    /// All streams share it.
    latest: Arc<Mutex<LatestRevisions>>,
}

/// What the plugins were like when a stream last looked, and when that was.
type LatestRevisions = Option<(Instant, Arc<Revisions>)>;

impl Default for LiveUpdates {
    fn default() -> Self {
        Self { streams: Arc::new(FairPermits::new(STREAMS)), latest: Arc::default() }
    }
}

/// Numbers that change with what the pages show.
#[derive(Debug, Default)]
struct Revisions {
    all: u64,
    plugins: BTreeMap<String, u64>,
}

impl Revisions {
    fn of(plugins: &[PluginStatus]) -> Self {
        let mut all = DefaultHasher::new();
        let mut revisions = BTreeMap::new();
        for plugin in plugins {
            let mut one = DefaultHasher::new();
            one.write(&serde_json::to_vec(plugin).unwrap_or_default());
            all.write_u64(one.finish());
            revisions.insert(plugin.name.clone(), one.finish());
        }
        Self { all: all.finish(), plugins: revisions }
    }

    /// Returns the number of a plugin's pages, or of the overview without a name; 0 for a plugin that there is not.
    fn of_page(&self, plugin: &str) -> u64 {
        if plugin.is_empty() { self.all } else { self.plugins.get(plugin).copied().unwrap_or_default() }
    }
}

impl LiveUpdates {
    /// Returns the current numbers, which are computed at most once per interval for all streams.
    async fn revisions(&self, host: &PluginHost) -> Arc<Revisions> {
        let mut known = self.latest.lock().await;
        if let Some((time, revisions)) = &*known
            && time.elapsed() < INTERVAL
        {
            return Arc::clone(revisions);
        }
        let revisions = Arc::new(Revisions::of(&host.status()));
        *known = Some((Instant::now(), Arc::clone(&revisions)));
        revisions
    }
}

/// Decides when a stream sends an event, and when it ends. Pure.
#[derive(Debug, Default)]
struct Schedule {
    sent: Option<u64>,
    /// Intervals since the last event.
    quiet: u32,
    /// Intervals since the start.
    age: u32,
}

#[derive(Debug, PartialEq, Eq)]
enum Step {
    Send,
    Wait,
    End,
}

impl Schedule {
    /// Returns what to do after an interval, or at the start.
    fn next(&mut self, revision: u64) -> Step {
        self.age += 1;
        self.quiet += 1;
        if self.age > STREAM_INTERVALS {
            return Step::End;
        }
        if self.sent == Some(revision) && self.quiet < QUIET_INTERVALS {
            return Step::Wait;
        }
        (self.sent, self.quiet) = (Some(revision), 0);
        Step::Send
    }
}

/// What an open stream holds.
struct Stream {
    state: AppState,
    plugin: String,
    schedule: Schedule,
    _permit: FairPermit,
}

#[derive(Deserialize)]
pub(super) struct EventsQuery {
    #[serde(default)]
    plugin: String,
}

/// Opens a stream of the changes of one plugin, or of all.
pub(super) async fn events(
    State(state): State<AppState>,
    Query(query): Query<EventsQuery>,
    extensions: Extensions,
) -> Response {
    let Some(permit) = state.live.streams.try_acquire(load::client_of(&extensions)) else {
        let text = "too many pages are being brought up to date already; reload this one\n";
        return (StatusCode::SERVICE_UNAVAILABLE, text).into_response();
    };
    let stream = Stream { state, plugin: query.plugin, schedule: Schedule::default(), _permit: permit };
    let events = futures::stream::unfold(stream, |mut stream| async move {
        let event = stream.next().await?;
        Some((Ok::<_, Infallible>(event), stream))
    });
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    load::endless((headers, Body::from_stream(events)).into_response())
}

impl Stream {
    /// Waits for the next event; `None` at the end of the stream.
    async fn next(&mut self) -> Option<String> {
        loop {
            if self.schedule.age > 0 {
                sleep(INTERVAL).await;
            }
            let revisions = self.state.live.revisions(&self.state.host).await;
            let revision = revisions.of_page(&self.plugin);
            match self.schedule.next(revision) {
                Step::Send => return Some(format!("data: {revision:016x}\n\n")),
                Step::Wait => {}
                Step::End => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::http::page::tests::plugin;

    #[test]
    fn one_client_leaves_streams_to_others() {
        let updates = LiveUpdates::default();
        let open = |last: u8| {
            let client = Some(pilothouse_listen::ClientNetwork::of([10, 0, 0, last].into()));
            std::iter::from_fn(|| updates.streams.try_acquire(client)).take(STREAMS.total).collect::<Vec<_>>()
        };
        let (first, second) = (open(1), open(2));
        assert_eq!((first.len(), second.len()), (16, 16));
        drop(first);
        assert_eq!(open(1).len(), 16);
    }

    #[test]
    fn an_event_is_sent_at_once_after_a_change_and_now_and_then() {
        let mut schedule = Schedule::default();
        assert_eq!(
            [schedule.next(1), schedule.next(1), schedule.next(2)],
            [Step::Send, Step::Wait, Step::Send]
        );
        let steps: Vec<Step> = (0..QUIET_INTERVALS).map(|_| schedule.next(2)).collect();
        let (last, others) = steps.split_last().expect("steps");
        assert!(*last == Step::Send && others.iter().all(|step| *step == Step::Wait), "{steps:?}");
    }

    #[test]
    fn a_stream_has_an_end() {
        let mut schedule = Schedule::default();
        let events = (0..).map_while(|revision| (schedule.next(revision) != Step::End).then_some(())).count();
        assert_eq!(u32::try_from(events), Ok(STREAM_INTERVALS));
    }

    #[test]
    fn a_change_of_one_plugin_concerns_its_page_and_the_overview() {
        let of = |depth: u64| {
            let changed = plugin(&json!({"name": "a", "queueDepth": depth}));
            Revisions::of(&[changed, plugin(&json!({"name": "b"}))])
        };
        let (before, after) = (of(1), of(2));
        assert_ne!(before.of_page(""), after.of_page(""));
        assert_ne!(before.of_page("a"), after.of_page("a"));
        assert_eq!(before.of_page("b"), after.of_page("b"));
        assert_eq!(before.of_page(""), of(1).of_page(""));
        assert_eq!(before.of_page("none"), 0);
    }
}
