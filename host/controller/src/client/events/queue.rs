//! Which Event is sent next. Does no I/O.

use std::collections::VecDeque;
use std::sync::Arc;

use pilothouse_model::hash::HashMap;

/// Requests that may be in flight.
const MAX_IN_FLIGHT: usize = 8;
/// Requests of guests that may be in flight. The others are reserved for the host's own Events.
const MAX_GUESTS_IN_FLIGHT: usize = 6;
/// Events that may wait, by plugin and source. A plugin may send a burst of 100 by default.
const MAX_WAITING: usize = 128;

/// Whose Events these are. The Events of one source are sent one after the other, so that a source whose Events take long, such as one in a
/// namespace with a slow webhook, delays no other.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Source {
    /// The plugin itself.
    Guest(Arc<str>),
    /// The host, about this plugin.
    Host(Arc<str>),
}

/// Events that wait to be sent, served in turn by their source.
pub(super) struct EventQueue<E> {
    /// The sources that have Events waiting or in flight.
    sources: HashMap<Source, Waiting<E>>,
    /// The sources that have Events waiting and none in flight, in the order in which they are served.
    turns: VecDeque<Source>,
    in_flight: usize,
    guests_in_flight: usize,
}

struct Waiting<E> {
    events: VecDeque<E>,
    is_in_flight: bool,
}

impl<E> Default for EventQueue<E> {
    fn default() -> Self {
        Self { sources: HashMap::default(), turns: VecDeque::new(), in_flight: 0, guests_in_flight: 0 }
    }
}

impl<E> EventQueue<E> {
    /// Adds an Event. Returns `false` if too many of its source wait; then it is dropped.
    pub(super) fn push(&mut self, source: Source, event: E) -> bool {
        if let Some(waiting) = self.sources.get_mut(&source) {
            let has_room = waiting.events.len() < MAX_WAITING;
            if has_room {
                waiting.events.push_back(event);
            }
            return has_room;
        }
        self.turns.push_back(source.clone());
        self.sources.insert(source, Waiting { events: VecDeque::from([event]), is_in_flight: false });
        true
    }

    /// Returns the Event to be sent next, which is in flight from now on. `None` if none waits, or if all that wait have to wait for others.
    pub(super) fn next(&mut self) -> Option<(Source, E)> {
        if self.in_flight >= MAX_IN_FLIGHT {
            return None;
        }
        let guests_may_send = self.guests_in_flight < MAX_GUESTS_IN_FLIGHT;
        let may_send = |source: &Source| guests_may_send || matches!(source, Source::Host(_));
        let position = self.turns.iter().position(may_send)?;
        let source = self.turns.remove(position)?;
        let waiting = self.sources.get_mut(&source)?;
        let event = waiting.events.pop_front()?;
        waiting.is_in_flight = true;
        self.in_flight += 1;
        self.guests_in_flight += usize::from(matches!(source, Source::Guest(_)));
        Some((source, event))
    }

    /// The Event of this source that was in flight was sent, or has failed.
    pub(super) fn finish(&mut self, source: &Source) {
        let Some(waiting) = self.sources.get_mut(source).filter(|waiting| waiting.is_in_flight) else {
            return;
        };
        waiting.is_in_flight = false;
        self.in_flight -= 1;
        self.guests_in_flight -= usize::from(matches!(source, Source::Guest(_)));
        if waiting.events.is_empty() {
            self.sources.remove(source);
        } else {
            self.turns.push_back(source.clone());
        }
    }

    /// Forgets the Events in flight, which are lost: the task that sent them has failed.
    pub(super) fn abandon_in_flight(&mut self) {
        let is_in_flight = |(_, waiting): &(&Source, &Waiting<E>)| waiting.is_in_flight;
        let abandoned: Vec<Source> =
            self.sources.iter().filter(is_in_flight).map(|(source, _)| source.clone()).collect();
        abandoned.iter().for_each(|source| self.finish(source));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guest(name: &str) -> Source {
        Source::Guest(name.into())
    }

    fn host(name: &str) -> Source {
        Source::Host(name.into())
    }

    /// Takes all Events that may be sent.
    fn drain(queue: &mut EventQueue<u32>) -> Vec<(Source, u32)> {
        std::iter::from_fn(|| queue.next()).collect()
    }

    #[test]
    fn a_plugin_has_one_event_in_flight_and_the_others_do_not_wait_for_it() {
        let mut queue = EventQueue::default();
        for number in 0..3 {
            assert!(queue.push(guest("slow"), number));
        }
        assert!(queue.push(guest("other"), 10));
        assert_eq!(drain(&mut queue), [(guest("slow"), 0), (guest("other"), 10)]);
        queue.finish(&guest("other"));
        assert!(queue.push(guest("other"), 11));
        assert_eq!(drain(&mut queue), [(guest("other"), 11)]);
        queue.finish(&guest("slow"));
        assert_eq!(drain(&mut queue), [(guest("slow"), 1)]);
    }

    #[test]
    fn plugins_are_served_in_turn_and_each_in_order() {
        let mut queue = EventQueue::default();
        for name in ["a", "b"] {
            for number in 0..3 {
                assert!(queue.push(guest(name), number));
            }
        }
        let mut sent = Vec::new();
        while let Some((source, number)) = queue.next() {
            queue.finish(&source);
            sent.push((source, number));
        }
        let expected: Vec<_> =
            (0..3).flat_map(|number| [(guest("a"), number), (guest("b"), number)]).collect();
        assert_eq!(sent, expected);
    }

    #[test]
    fn the_host_has_slots_of_its_own() {
        let mut queue = EventQueue::default();
        for number in 0..20 {
            assert!(queue.push(guest(&number.to_string()), number));
        }
        assert_eq!(drain(&mut queue).len(), MAX_GUESTS_IN_FLIGHT);
        for number in 0..20 {
            assert!(queue.push(host(&number.to_string()), number));
        }
        let sent = drain(&mut queue);
        assert_eq!(sent, [(host("0"), 0), (host("1"), 1)]);
        queue.finish(&host("0"));
        queue.finish(&guest("3"));
        assert_eq!(drain(&mut queue), [(guest("6"), 6), (host("2"), 2)]);
    }

    #[test]
    fn each_source_has_a_bound_of_its_own() {
        let mut queue = EventQueue::default();
        let admitted = (0..1_000).filter(|number| queue.push(guest("a"), *number)).count();
        assert_eq!(admitted, MAX_WAITING);
        assert!(queue.push(guest("b"), 0) && queue.push(host("a"), 0));
        assert_eq!(drain(&mut queue).len(), 3);
        assert!(queue.push(guest("a"), 0), "one was taken");
    }

    #[test]
    fn a_source_without_events_is_forgotten() {
        let mut queue = EventQueue::default();
        for number in 0..100 {
            assert!(queue.push(guest(&number.to_string()), number));
            let (source, _) = queue.next().expect("it waits");
            queue.finish(&source);
            queue.finish(&source);
        }
        assert!(queue.sources.is_empty() && queue.turns.is_empty() && queue.in_flight == 0);
    }

    #[test]
    fn events_continue_after_those_in_flight_were_abandoned() {
        let mut queue = EventQueue::default();
        for number in 0..2 {
            assert!(queue.push(guest("a"), number) && queue.push(host("a"), number));
        }
        assert_eq!(drain(&mut queue).len(), 2);
        queue.abandon_in_flight();
        let mut sent = drain(&mut queue);
        sent.sort_by_key(|(source, _)| matches!(source, Source::Host(_)));
        assert_eq!(sent, [(guest("a"), 1), (host("a"), 1)]);
        queue.abandon_in_flight();
        assert!(queue.sources.is_empty() && queue.guests_in_flight == 0);
    }
}
