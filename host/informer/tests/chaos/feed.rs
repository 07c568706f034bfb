//! The body of a watch, and the ways in which it breaks.

use std::time::Duration;

use bytes::Bytes;
use pilothouse_informer::{Failure, FailureKind};
use rand::seq::SliceRandom;
use tokio::sync::mpsc;

use super::{Event, Server, json};

impl Server {
    /// The initial events of a streaming list, in any order, and their end.
    pub(super) fn initial_events(&self, version: u64) -> String {
        let mut world = self.world.lock();
        let mut lines: Vec<_> = world
            .state_at(version)
            .iter()
            .map(|(name, object)| format!("{{\"type\":\"ADDED\",\"object\":{}}}\n", json(name, object, true)))
            .collect();
        lines.shuffle(&mut world.rng);
        lines.push(format!(
            "{{\"type\":\"BOOKMARK\",\"object\":{{\"metadata\":{{\"resourceVersion\":\"{version}\",\"annotations\":{{\"k8s.io/initial-events-end\":\"true\"}}}}}}}}\n"
        ));
        lines.concat()
    }

    /// Feeds a watch from `version` on until it breaks in one way or another.
    pub(super) async fn feed(
        self,
        mut version: u64,
        initial: String,
        sender: mpsc::UnboundedSender<Result<Bytes, Failure>>,
    ) {
        let send = |text: &str| sender.send(Ok(Bytes::copy_from_slice(text.as_bytes()))).is_ok();
        let say = |text: &str| drop(sender.send(Ok(Bytes::copy_from_slice(text.as_bytes()))));
        let mut newest = self.version.subscribe();
        let streaming = !initial.is_empty();
        if streaming {
            if self.hits() {
                // Cut half way: the list has to begin anew.
                self.force_list();
                say(&initial[..initial.len() / 2]);
                return;
            }
            say(&initial);
        }
        let ends_at = tokio::time::Instant::now() + Duration::from_secs(30 + u64::from(self.draw(200)));
        loop {
            let events: Vec<_> = {
                let world = self.world.lock();
                if version < world.compacted {
                    drop(world);
                    self.force_list();
                    say("{\"type\":\"ERROR\",\"object\":{\"code\":410,\"reason\":\"Expired\"}}\n");
                    return;
                }
                let known = usize::try_from(version - world.compacted).expect("small");
                world.history[known..].to_vec()
            };
            for Event { kind, name, object } in events {
                version += 1;
                let line = format!("{{\"type\":\"{kind}\",\"object\":{}}}\n", json(&name, &object, true));
                let half = line.len() / 2;
                if self.hits() {
                    match self.draw(6) {
                        // Cut within a line, with and without an error.
                        0 => return say(&line[..half]),
                        1 => {
                            say(&line[..half]);
                            return drop(sender.send(Err(Failure::new(FailureKind::Connection, "cut"))));
                        }
                        // The same event twice.
                        2 => say(&line),
                        3 => {
                            self.force_list();
                            return say(&line.replace("\"kind\":\"Pod\"", "\"kind\":\"Cod\""));
                        }
                        4 => {
                            self.force_list();
                            return say(
                                "{\"type\":\"ERROR\",\"object\":{\"code\":410,\"reason\":\"Gone\"}}\n",
                            );
                        }
                        _ => {
                            return say(
                                "{\"type\":\"ERROR\",\"object\":{\"code\":429,\"details\":{\"retryAfterSeconds\":1}}}\n",
                            );
                        }
                    }
                }
                if self.draw(8) == 0 {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
                if !send(&line) {
                    return;
                }
            }
            if self.draw(3) == 0 {
                say(&format!(
                    "{{\"type\":\"BOOKMARK\",\"object\":{{\"metadata\":{{\"resourceVersion\":\"{version}\"}}}}}}\n"
                ));
            }
            tokio::select! {
                () = tokio::time::sleep_until(ends_at) => return,
                () = sender.closed() => return,
                changed = newest.changed() => if changed.is_err() { return },
            }
            if self.world.lock().down_until.is_some_and(|until| until > tokio::time::Instant::now()) {
                return;
            }
        }
    }
}
