//! Random plans: each seed enables a random subset of the faults (swarm testing) and draws a few deviations at points of the
//! reference run.
//!
//! The points at which priorities change in PCT (probabilistic concurrency testing) are expressed as deviations, too: a
//! watch or a request that loses its priority is late, and an actor that gains it takes its next step.

use super::faults::{FaultClass, FaultSelection};
use super::plans::deviation;
use super::points::{EventPoint, Points};
use super::random_source::RandomSource;
use crate::plan::{Deviation, Fault, Moment, Plan};

/// The largest number of deviations.
const MAX_DEPTH: u64 = 4;

/// An endless sequence of plans.
#[derive(Debug)]
pub struct RandomPlans<'a> {
    random: RandomSource,
    points: &'a Points,
    faults: &'a FaultSelection,
}

impl<'a> RandomPlans<'a> {
    /// Returns the plans of a seed.
    #[must_use]
    pub fn new(seed: u64, points: &'a Points, faults: &'a FaultSelection) -> Self {
        Self { random: RandomSource::new(seed ^ 0x5eed_0000_0000_0001), points, faults }
    }

    /// Returns the next plan. It may have no deviations, and differ from the reference in its seed only.
    pub fn next_plan(&mut self) -> Plan {
        let seed = self.random.next_u64();
        let mut classes: Vec<_> =
            FaultClass::ALL.into_iter().filter(|class| self.faults.has(*class)).collect();
        self.random.shuffle(&mut classes);
        let enabled = 1 + usize::try_from(self.random.below(classes.len() as u64)).unwrap_or_default();
        classes.truncate(enabled);
        let depth = 1 + self.random.below(MAX_DEPTH);
        let mut deviations = Vec::new();
        for _ in 0..depth {
            let Some(class) = self.random.choose(&classes).copied() else { break };
            let mut longer: Vec<Deviation> = deviations.clone();
            longer.extend(self.draw(class));
            if self.faults.allows(&longer) {
                deviations = longer;
            }
        }
        Plan::new(seed, deviations)
    }

    fn draw(&mut self, class: FaultClass) -> Vec<Deviation> {
        let one = |at: Option<Moment>, fault: Fault| {
            at.map(|at| Deviation { at, fault }).into_iter().collect::<Vec<_>>()
        };
        match class {
            FaultClass::Crash => {
                let fault = match self.random.below(3) {
                    0 => Fault::CrashBefore,
                    1 => Fault::CrashAfter,
                    _ => {
                        let at = self.any_moment();
                        return one(at, Fault::Restart { past: Vec::new() });
                    }
                };
                one(self.write(), fault)
            }
            FaultClass::Stale if self.random.one_in(2) => self.restart_into_the_past(),
            FaultClass::Stale => {
                let fault = self.delayed(Fault::HoldWatch);
                one(self.event(), fault)
            }
            FaultClass::Relist => {
                let fault = self.delayed(Fault::DropWatch);
                one(self.event(), fault)
            }
            FaultClass::Conflict => one(self.request(true), Fault::Interfere),
            FaultClass::ServerError => {
                let mut statuses = self.faults.statuses();
                statuses.retain(|status| *status != 429);
                let status = self.random.choose(&statuses).copied().unwrap_or(500);
                let is_write = self.random.one_in(2);
                one(self.request(is_write), Fault::Refuse(status))
            }
            FaultClass::TooManyRequests => {
                let is_write = self.random.one_in(2);
                one(self.request(is_write), Fault::Refuse(429))
            }
            FaultClass::Unknown => one(self.write(), Fault::LoseAnswer),
            FaultClass::Reload => one(self.any_moment(), Fault::Reload),
            FaultClass::Delay => {
                if self.random.one_in(2) {
                    let fault = self.delayed(Fault::DelayRequest);
                    one(self.request(true), fault)
                } else {
                    let fault = self.delayed(Fault::HoldControllers);
                    one(self.any_moment(), fault)
                }
            }
            FaultClass::Order => {
                let actor = self.random.choose(&self.points.actors).cloned();
                actor.map_or_else(Vec::new, |actor| one(self.any_moment(), Fault::TakeStep { actor }))
            }
        }
    }

    fn restart_into_the_past(&mut self) -> Vec<Deviation> {
        let Some(rest) = self.random.choose(&self.points.rests) else { return Vec::new() };
        let mut past = Vec::new();
        for (resource, changes) in
            rest.changes.iter().filter(|(resource, _)| self.points.watched.contains(resource))
        {
            if self.random.one_in(2) {
                let age = 1 + u32::try_from(self.random.below(u64::from(*changes))).unwrap_or_default();
                past.push((resource.clone(), age));
            }
        }
        // Without an old list, it would be a crash, which may be excluded.
        let at = Moment::Rest { occurrence: rest.occurrence };
        if past.is_empty() { Vec::new() } else { vec![deviation(&at, Fault::Restart { past })] }
    }

    /// Draws a delay: around a timer of the plugin, or with each order of magnitude equally likely.
    fn delayed(&mut self, form: fn(u64) -> Fault) -> Fault {
        let max = self.faults.max_delay(&form(0)).max(1);
        if self.random.one_in(3)
            && let Some(timer) = self.random.choose(&self.points.timers).copied()
        {
            let delay = if self.random.one_in(2) { timer.saturating_sub(1) } else { timer.saturating_add(1) };
            return form(delay.clamp(1, max));
        }
        let mut bound = 1_u64;
        for _ in 0..self.random.below(7) {
            bound *= 10;
        }
        let delay = bound + self.random.below(9 * bound);
        form(delay.clamp(1, max))
    }

    fn request(&mut self, is_write: bool) -> Option<Moment> {
        let requests: Vec<_> =
            self.points.requests.iter().filter(|point| point.is_write == is_write).collect();
        self.random.choose(&requests).map(|point| point.moment.clone())
    }

    /// Draws a write to the server, or an HTTP request that changes something.
    fn write(&mut self) -> Option<Moment> {
        let http: Vec<_> = self.points.http.iter().filter(|point| point.is_write).collect();
        if http.is_empty() {
            return self.request(true);
        }
        let requests = self.points.requests.iter().filter(|point| point.is_write).map(|point| &point.moment);
        let moments: Vec<_> = requests.chain(http.into_iter().map(|point| &point.moment)).collect();
        self.random.choose(&moments).map(|moment| (*moment).clone())
    }

    fn event(&mut self) -> Option<Moment> {
        self.random.choose(&self.points.events).map(EventPoint::moment)
    }

    fn any_moment(&mut self) -> Option<Moment> {
        match self.random.below(3) {
            0 => self.write(),
            1 => self.event(),
            _ => {
                let rest = self.random.choose(&self.points.rests)?;
                Some(Moment::Rest { occurrence: rest.occurrence })
            }
        }
    }
}
