//! The body of a watch, and the faults in it.

use std::time::Duration;

use rand::seq::SliceRandom;

use super::body_writer::BodyWriter;
use super::state::{Event, LostHistoryReply};
use super::{Server, json};

const EXPIRED: &str = "{\"type\":\"ERROR\",\"object\":{\"code\":410,\"reason\":\"Expired\"}}\n";
const BUSY: &str = "{\"type\":\"ERROR\",\"object\":{\"code\":429,\"details\":{\"retryAfterSeconds\":1}}}\n";
const INTERNAL: &str = "{\"type\":\"ERROR\",\"object\":{\"code\":500,\"reason\":\"InternalError\"}}\n";

/// What happens to the watch after an event.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AfterEvent {
    Continue,
    /// The rest of the events is sent correctly, but the client has to give the watch up because of this event.
    FinishInOrder,
    End,
    Fail,
}

fn bookmark(version: u64, annotations: &str) -> String {
    format!(
        "{{\"type\":\"BOOKMARK\",\"object\":{{\"metadata\":{{\"resourceVersion\":\"{version}\"{annotations}}}}}}}\n"
    )
}

fn line(event: &Event) -> String {
    let object = json(&event.name, &event.object, true);
    format!("{{\"type\":\"{}\",\"object\":{object}}}\n", event.kind)
}

impl Server {
    /// Returns the initial events of a streaming list in random order, and their end.
    pub(super) fn initial_events(&self, version: u64) -> String {
        let mut server = self.state.lock();
        let state = server.history.state_at(version).expect("a version that is not compacted");
        let mut lines: Vec<_> = state
            .iter()
            .map(|(name, object)| format!("{{\"type\":\"ADDED\",\"object\":{}}}\n", json(name, object, true)))
            .collect();
        lines.shuffle(&mut server.rng);
        lines.push(bookmark(version, r#","annotations":{"k8s.io/initial-events-end":"true"}"#));
        lines.concat()
    }

    /// Sends the events after `version` until the watch ends in one way or another.
    pub(super) async fn serve_watch(self, mut version: u64, initial: String, mut body: BodyWriter) {
        let mut newest = self.newest.subscribe();
        let epoch = self.state.lock().epoch();
        if !initial.is_empty() {
            if self.draws_fault() {
                // Cut half way: the client has to list again.
                self.count("streaming list: cut half way");
                self.force_list();
                body.write(&initial[..initial.len() / 2]).await;
                return;
            }
            body.write(&initial).await;
            body.flush();
        } else if self.draws_fault() && self.random_below(10) == 0 {
            self.count("watch: sends nothing");
            return self.stay_idle(epoch, &body).await;
        }
        let ends_at =
            tokio::time::Instant::now() + Duration::from_secs(5 + u64::from(self.random_below(120)));
        loop {
            let events = {
                let server = self.state.lock();
                if server.epoch() != epoch {
                    return;
                }
                (version >= server.history.compacted).then(|| server.history.after(version).to_vec())
            };
            let Some(events) = events else {
                self.count("watch: version compacted");
                self.force_list();
                body.write(EXPIRED).await;
                return body.flush();
            };
            for (at, event) in events.iter().enumerate() {
                version = event.object.version;
                self.state.lock().last_sent = version;
                match self.send_event(event, &mut body).await {
                    AfterEvent::Continue if body.is_closed() => return,
                    AfterEvent::Continue => {}
                    AfterEvent::FinishInOrder => {
                        body.write(&events[at + 1..].iter().map(line).collect::<String>()).await;
                        body.flush();
                        return body.closed().await;
                    }
                    AfterEvent::End => return,
                    AfterEvent::Fail => return body.fail("cut"),
                }
            }
            if self.random_below(3) == 0 {
                body.write(&bookmark(version, "")).await;
            }
            body.flush();
            if !events.is_empty() {
                self.state.lock().record_watch_event();
            }
            tokio::select! {
                () = tokio::time::sleep_until(ends_at) => return self.count("watch: ends"),
                () = body.closed() => return,
                changed = newest.changed() => if changed.is_err() { return },
            }
            if self.state.lock().is_down() {
                return;
            }
        }
    }

    async fn send_event(&self, event: &Event, body: &mut BodyWriter) -> AfterEvent {
        let line = line(event);
        if self.draws_fault() {
            match self.random_below(7) {
                0 => {
                    self.count("watch: cut within a line");
                    body.write(&line[..line.len() / 2]).await;
                    body.flush();
                    return AfterEvent::End;
                }
                1 => {
                    self.count("watch: connection fails");
                    self.state.lock().forced_probes += 1;
                    body.write(&line[..line.len() / 2]).await;
                    return AfterEvent::Fail;
                }
                2 => {
                    self.count("watch: event twice");
                    body.write(&line).await;
                }
                3 => {
                    self.count("watch: malformed line");
                    self.force_list();
                    body.write(&self.malformed(&line)).await;
                    return AfterEvent::FinishInOrder;
                }
                4 => {
                    self.count("watch: event 410");
                    self.force_list();
                    body.write(EXPIRED).await;
                    body.flush();
                    return AfterEvent::End;
                }
                5 => {
                    self.count("watch: event 429");
                    body.write(BUSY).await;
                    body.flush();
                    return AfterEvent::End;
                }
                _ => {
                    self.count("watch: event 500");
                    {
                        let mut server = self.state.lock();
                        server.record_watch_error();
                        server.forced_probes += 1;
                    }
                    body.write(INTERNAL).await;
                    body.flush();
                    return AfterEvent::End;
                }
            }
        }
        body.write(&line).await;
        AfterEvent::Continue
    }

    fn malformed(&self, line: &str) -> String {
        match self.random_below(6) {
            0 => line.replace("\"kind\":\"Pod\"", "\"kind\":\"Cod\""),
            1 => line.replace("\"name\"", "\"nom\""),
            2 => line.replace("\"resourceVersion\"", "\"version\""),
            3 => format!("{}\n", &line[..line.len() / 2]),
            4 => line.replace("\"type\":\"", "\"type\":\"UN"),
            _ => "<html>Bad Gateway</html>\n".to_owned(),
        }
    }

    /// Sends nothing, like a connection whose other end is dead.
    async fn stay_idle(&self, epoch: usize, body: &BodyWriter) {
        let mut newest = self.newest.subscribe();
        self.state.lock().forced_probes += 1;
        loop {
            tokio::select! {
                () = body.closed() => return,
                changed = newest.changed() => if changed.is_err() { return },
            }
            let server = self.state.lock();
            if server.epoch() != epoch || server.is_down() {
                return;
            }
        }
    }

    /// Serves a watch from a version of a lost history, which is above all versions of the present one.
    pub(super) async fn serve_watch_of_lost_history(self, reply: LostHistoryReply, mut body: BodyWriter) {
        let (epoch, history) = {
            let server = self.state.lock();
            (server.epoch(), server.history.clone())
        };
        // Like kube-apiserver, which holds back events up to the requested version.
        if reply == LostHistoryReply::Silent {
            self.count("watch of a lost history: sends nothing");
            return self.stay_idle(epoch, &body).await;
        }
        let (fault, line) = match (reply, history.after(0).last()) {
            (LostHistoryReply::Event, Some(event)) => ("watch of a lost history: earlier event", line(event)),
            (LostHistoryReply::Gone, _) => ("watch of a lost history: event 410", EXPIRED.to_owned()),
            _ => ("watch of a lost history: earlier bookmark", bookmark(history.newest(), "")),
        };
        self.count(fault);
        self.force_list();
        body.write(&line).await;
        body.flush();
        body.closed().await;
    }
}
