//! The body of a watch, and the ways in which it breaks.

use std::time::Duration;

use rand::seq::SliceRandom;

use super::wire::Wire;
use super::world::{Event, Manner};
use super::{Server, json};

const EXPIRED: &str = "{\"type\":\"ERROR\",\"object\":{\"code\":410,\"reason\":\"Expired\"}}\n";
const BUSY: &str = "{\"type\":\"ERROR\",\"object\":{\"code\":429,\"details\":{\"retryAfterSeconds\":1}}}\n";
const INTERNAL: &str = "{\"type\":\"ERROR\",\"object\":{\"code\":500,\"reason\":\"InternalError\"}}\n";

/// What becomes of the watch after an event.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    GoOn,
    /// What follows is in order, but the client cannot know.
    GoOnInOrder,
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
    /// The initial events of a streaming list, in any order, and their end.
    pub(super) fn initial_events(&self, version: u64) -> String {
        let mut world = self.world.lock();
        let state = world.history.state_at(version).expect("a version that is kept");
        let mut lines: Vec<_> = state
            .iter()
            .map(|(name, object)| format!("{{\"type\":\"ADDED\",\"object\":{}}}\n", json(name, object, true)))
            .collect();
        lines.shuffle(&mut world.rng);
        lines.push(bookmark(version, r#","annotations":{"k8s.io/initial-events-end":"true"}"#));
        lines.concat()
    }

    /// Feeds a watch from `version` on until it breaks in one way or another.
    pub(super) async fn feed(self, mut version: u64, initial: String, mut wire: Wire) {
        let mut newest = self.newest.subscribe();
        let time = self.world.lock().time();
        if !initial.is_empty() {
            if self.hits() {
                // Cut half way: the list has to begin anew.
                self.note("streaming list: cut half way");
                self.force_list();
                wire.say(&initial[..initial.len() / 2]).await;
                return;
            }
            wire.say(&initial).await;
            wire.flush();
        } else if self.hits() && self.draw(10) == 0 {
            self.note("watch: never says anything");
            return self.keep_silent(time, &wire).await;
        }
        let ends_at = tokio::time::Instant::now() + Duration::from_secs(5 + u64::from(self.draw(120)));
        loop {
            let events = {
                let world = self.world.lock();
                if world.time() != time {
                    return;
                }
                (version >= world.history.compacted).then(|| world.history.after(version).to_vec())
            };
            let Some(events) = events else {
                self.note("watch: version compacted");
                self.force_list();
                wire.say(EXPIRED).await;
                return wire.flush();
            };
            for (at, event) in events.iter().enumerate() {
                version = event.object.version;
                self.world.lock().told = version;
                match self.tell(event, &mut wire).await {
                    Then::GoOn if wire.is_closed() => return,
                    Then::GoOn => {}
                    Then::GoOnInOrder => {
                        wire.say(&events[at + 1..].iter().map(line).collect::<String>()).await;
                        wire.flush();
                        return wire.closed().await;
                    }
                    Then::End => return,
                    Then::Fail => return wire.fail("cut"),
                }
            }
            if self.draw(3) == 0 {
                wire.say(&bookmark(version, "")).await;
            }
            wire.flush();
            if !events.is_empty() {
                self.world.lock().watch_got_an_event();
            }
            tokio::select! {
                () = tokio::time::sleep_until(ends_at) => return self.note("watch: ends"),
                () = wire.closed() => return,
                changed = newest.changed() => if changed.is_err() { return },
            }
            if self.world.lock().is_down() {
                return;
            }
        }
    }

    async fn tell(&self, event: &Event, wire: &mut Wire) -> Then {
        let line = line(event);
        if self.hits() {
            match self.draw(7) {
                0 => {
                    self.note("watch: cut within a line");
                    wire.say(&line[..line.len() / 2]).await;
                    wire.flush();
                    return Then::End;
                }
                1 => {
                    self.note("watch: connection fails");
                    self.world.lock().probes_forced += 1;
                    wire.say(&line[..line.len() / 2]).await;
                    return Then::Fail;
                }
                2 => {
                    self.note("watch: event twice");
                    wire.say(&line).await;
                }
                3 => {
                    self.note("watch: malformed line");
                    self.force_list();
                    wire.say(&self.malformed(&line)).await;
                    return Then::GoOnInOrder;
                }
                4 => {
                    self.note("watch: event 410");
                    self.force_list();
                    wire.say(EXPIRED).await;
                    wire.flush();
                    return Then::End;
                }
                5 => {
                    self.note("watch: event 429");
                    wire.say(BUSY).await;
                    wire.flush();
                    return Then::End;
                }
                _ => {
                    self.note("watch: event 500");
                    {
                        let mut world = self.world.lock();
                        world.watch_got_an_error();
                        world.probes_forced += 1;
                    }
                    wire.say(INTERNAL).await;
                    wire.flush();
                    return Then::End;
                }
            }
        }
        wire.say(&line).await;
        Then::GoOn
    }

    fn malformed(&self, line: &str) -> String {
        match self.draw(6) {
            0 => line.replace("\"kind\":\"Pod\"", "\"kind\":\"Cod\""),
            1 => line.replace("\"name\"", "\"nom\""),
            2 => line.replace("\"resourceVersion\"", "\"version\""),
            3 => format!("{}\n", &line[..line.len() / 2]),
            4 => line.replace("\"type\":\"", "\"type\":\"UN"),
            _ => "<html>Bad Gateway</html>\n".to_owned(),
        }
    }

    /// As a connection whose other end is dead.
    async fn keep_silent(&self, time: usize, wire: &Wire) {
        let mut newest = self.newest.subscribe();
        self.world.lock().probes_forced += 1;
        loop {
            tokio::select! {
                () = wire.closed() => return,
                changed = newest.changed() => if changed.is_err() { return },
            }
            let world = self.world.lock();
            if world.time() != time || world.is_down() {
                return;
            }
        }
    }

    /// A watch from a version of a time that was lost; the present time is below it.
    pub(super) async fn feed_from_a_lost_time(self, manner: Manner, mut wire: Wire) {
        let (time, history) = {
            let world = self.world.lock();
            (world.time(), world.history.clone())
        };
        // As kube-apiserver, which holds back what is not after the version asked for.
        if manner == Manner::Silent {
            self.note("watch of a lost time: never says anything");
            return self.keep_silent(time, &wire).await;
        }
        let (fault, line) = match (manner, history.after(0).last()) {
            (Manner::Event, Some(event)) => ("watch of a lost time: earlier event", line(event)),
            (Manner::Gone, _) => ("watch of a lost time: event 410", EXPIRED.to_owned()),
            _ => ("watch of a lost time: earlier bookmark", bookmark(history.newest(), "")),
        };
        self.note(fault);
        self.force_list();
        wire.say(&line).await;
        wire.flush();
        wire.closed().await;
    }
}
