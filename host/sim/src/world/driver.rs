//! Runs one host of a world, from its start to the end of its process or of the run.

use pilothouse_apiserver::ControllerOptions;
use pilothouse_controller::{InMemoryPlugin, PluginHost, PluginState};
use tokio::sync::watch;
use tokio::time::sleep_until;
use tokio_util::sync::CancellationToken;

use super::actors::Actors;
use super::host::{Setup, in_memory, start_host};
use super::instances::Instances;
use super::requeues::MAX_WAIT;
use super::shared::Shared;
use super::state::{Command, State};
use crate::WorldError;
use crate::actor::PollMoment;
use crate::run::{End, EventKind};

/// How long the driver sleeps while something is under way that will end by itself.
const BUSY_PAUSE: u64 = 500;
/// The most times that a world waits for retries while it has faults whose moment may never come.
const MAX_WAITS: u32 = 4;

/// How a host ended.
pub(super) enum Outcome {
    /// Its process ended; the next one starts.
    Crashed,
    /// The run has ended.
    Ended(End),
}

/// Runs a host until its process or the run ends.
///
/// # Errors
/// If a plugin does not load.
pub(super) async fn run(
    setup: &Setup<'_>,
    shared: &Shared,
    actors: &mut Actors,
) -> Result<Outcome, WorldError> {
    let host_number = shared.lock().host;
    // A reload has replaced the file for all later hosts, too.
    let plugins = in_memory(setup.plugins, shared.lock().reloads)?;
    let (plugins, receiver) = watch::channel(plugins);
    let host = start_host(setup, shared, receiver, host_number);
    let mut driver = Driver {
        setup,
        shared,
        actors,
        host,
        plugins,
        controllers: None,
        controllers_resume_at: None,
        rested_at: None,
        retries_until: None,
        waits: 0,
        faults_over_at: None,
        requeues_until: None,
    };
    driver.start_controllers();
    driver.run().await
}

struct Driver<'a> {
    setup: &'a Setup<'a>,
    shared: &'a Shared,
    actors: &'a mut Actors,
    host: PluginHost,
    plugins: watch::Sender<Vec<InMemoryPlugin>>,
    controllers: Option<CancellationToken>,
    /// When the built-in controllers continue; `None` while they run.
    controllers_resume_at: Option<u64>,
    /// The time of the last activity before the last rest.
    rested_at: Option<u64>,
    /// Until when the world waits for the first retries after the faults, although it is quiet.
    retries_until: Option<u64>,
    /// How often it has waited for them.
    waits: u32,
    /// When the steps and the faults were over.
    faults_over_at: Option<u64>,
    /// Until when the run goes on, although nothing is left but requeues.
    requeues_until: Option<u64>,
}

impl Driver<'_> {
    fn start_controllers(&mut self) {
        let shutdown = CancellationToken::new();
        let options = ControllerOptions::default().with_controllers(self.setup.controllers.clone());
        self.shared.server().run_controllers_with(options, shutdown.clone());
        self.controllers = Some(shutdown);
        self.controllers_resume_at = None;
    }

    async fn run(&mut self) -> Result<Outcome, WorldError> {
        let mut commits = self.shared.server().subscribe();
        loop {
            commits.borrow_and_update();
            if let Some(outcome) = self.apply_what_is_due()? {
                return Ok(outcome);
            }
            if self.take_step(false).await {
                continue;
            }
            self.shared.release_requests();
            let now = self.shared.clock().now_ms();
            let (rest_at, is_busy) = self.rest_at();
            let busy_deadline = self.busy_deadline();
            if now >= rest_at.min(busy_deadline) && !is_busy {
                if let Some(outcome) = self.rest(now < rest_at).await? {
                    return Ok(outcome);
                }
                continue;
            }
            let wake_at = self.wake_at(now, rest_at.min(busy_deadline), is_busy);
            tokio::select! {
                biased;
                () = self.shared.woken() => {}
                _ = commits.changed() => {}
                () = sleep_until(self.shared.clock().instant(wake_at)) => {}
            }
        }
    }

    /// Applies commands and the deviations whose time has come. Returns how the host ended, if it did.
    fn apply_what_is_due(&mut self) -> Result<Option<Outcome>, WorldError> {
        let now = self.shared.clock().now_ms();
        if self.controllers_resume_at.is_some_and(|at| at <= now) {
            self.start_controllers();
            // They may act on what they missed.
            self.shared.lock().record_external_activity();
        }
        let commands = {
            let mut state = self.shared.lock();
            let due = state.schedule.on_time(now);
            apply_all(&mut state, &due);
            if state.crash.is_some() {
                state.end_host();
                return Ok(Some(Outcome::Crashed));
            }
            if state.is_full() || now >= self.setup.limits.virtual_ms {
                return Ok(Some(Outcome::Ended(End::NotAtRest)));
            }
            std::mem::take(&mut state.commands)
        };
        for command in commands {
            self.carry_out(command)?;
        }
        self.announce_end();
        Ok(None)
    }

    fn carry_out(&mut self, command: Command) -> Result<(), WorldError> {
        match command {
            Command::Reload => {
                let reloads = {
                    let mut state = self.shared.lock();
                    state.reloads += 1;
                    // The new version reconciles all keys at once.
                    state.reconciles.forget_plans();
                    state.instances = Instances::default();
                    state.record(EventKind::Reloaded);
                    state.reloads
                };
                self.plugins.send_replace(in_memory(self.setup.plugins, reloads)?);
            }
            Command::TakeStep(actor) => {
                self.actors.take_next_step(&actor);
            }
            Command::HoldControllers(ms) => {
                if let Some(controllers) = self.controllers.take() {
                    controllers.cancel();
                }
                self.controllers_resume_at = Some(self.shared.clock().now_ms().saturating_add(ms));
            }
            Command::RequeueAll => self.host.requeue_all(),
            Command::WithholdReasons => self.host.withhold_reasons(),
        }
        Ok(())
    }

    /// Records that the steps and the faults are over, once they are.
    fn announce_end(&mut self) {
        let mut state = self.shared.lock();
        let is_over = self.faults_over_at.is_none()
            && state.schedule.is_over()
            && self.actors.are_finished()
            && !state.is_held()
            && self.controllers_resume_at.is_none();
        if is_over {
            self.faults_over_at = Some(state.now());
            state.record(EventKind::FaultsOver);
        }
    }

    /// Carries out the next write of an actor. Returns whether there was one, or something happened in its place.
    async fn take_step(&mut self, at_rest: bool) -> bool {
        {
            let mut state = self.shared.lock();
            let moment = PollMoment { now_ms: state.now(), at_rest };
            let Some((index, step)) = self.actors.next_write(&state.mirror, moment) else {
                // The world may have come to rest before, while the actor slept or waited for a time.
                if self.actors.take_need_of_rest() {
                    self.rested_at = None;
                }
                return false;
            };
            if self.actors.leave_out(index, step, state.now()) {
                // The next step waits for the next rest, as if this one had been taken.
                state.record_external_activity();
                return true;
            }
            if let Some(actor) = self.actors.begin_step(index, step) {
                let due = state.schedule.on_step(&actor, step);
                apply_all(&mut state, &due);
                if !due.is_empty() {
                    return true;
                }
            }
        }
        self.actors.perform(self.shared).await;
        true
    }

    /// Returns when the world will be at rest if nothing happens, and whether something is under way that prevents it.
    fn rest_at(&self) -> (u64, bool) {
        let state = self.shared.lock();
        let is_busy = state.in_flight > 0 || state.is_held() || self.controllers_resume_at.is_some();
        let quiet_since = state.quiet_since();
        let waits = [self.retries_until, self.requeues_until];
        let has_waited = waits.into_iter().flatten().any(|until| until <= state.now());
        let has_rested = self.rested_at == Some(quiet_since) && !has_waited;
        let rest_at = if has_rested { u64::MAX } else { quiet_since + self.setup.limits.rest_ms };
        (rest_at, is_busy)
    }

    /// Returns when the world goes on as if it were at rest, although the plugin never rests.
    fn busy_deadline(&self) -> u64 {
        let state = self.shared.lock();
        if self.rested_at == Some(state.quiet_since()) {
            return u64::MAX;
        }
        let waits = [Some(state.busy_deadline()), self.retries_until, self.requeues_until];
        waits.into_iter().flatten().max().unwrap_or(u64::MAX)
    }

    /// Returns when the driver must look again if nothing wakes it before.
    fn wake_at(&self, now: u64, rest_at: u64, is_busy: bool) -> u64 {
        // While something is under way, the world cannot come to rest.
        let rest_at = if is_busy && rest_at <= now { u64::MAX } else { rest_at };
        let timers = [
            self.shared.lock().schedule.next_time(),
            self.actors.next_time(),
            self.controllers_resume_at,
            self.retries_until,
            self.requeues_until,
            is_busy.then_some(now + BUSY_PAUSE),
        ];
        let next = timers.into_iter().flatten().filter(|time| *time > now).min();
        next.unwrap_or(u64::MAX).min(rest_at.max(now + 1)).min(self.setup.limits.virtual_ms)
    }

    /// The world is at rest, or goes on as if it were after an `is_busy_timeout`. Returns the outcome if nothing more is to happen.
    async fn rest(&mut self, is_busy_timeout: bool) -> Result<Option<Outcome>, WorldError> {
        let problem = self.problem();
        let has_waited = self.requeues_until.take().is_some();
        {
            let mut state = self.shared.lock();
            let quiet_since = state.quiet_since();
            if has_waited && self.rested_at == Some(quiet_since) {
                drop(state);
                return Ok(self.end(End::AtRest));
            }
            self.rested_at = Some(quiet_since);
            // A key that failed during the faults is tried once more, however long the host waits, before the run is judged. If a
            // fault is left whose moment may never come, the retry may be that moment.
            let over = match self.faults_over_at {
                None if self.actors.are_finished() && self.waits < MAX_WAITS => Some(state.now()),
                over => over,
            };
            self.retries_until = over
                .filter(|_| problem.is_none())
                .and_then(|over| state.reconciles.retry_of_failures_until(over))
                .filter(|until| state.now() < *until);
            if self.retries_until.is_some() {
                self.waits += 1;
                return Ok(None);
            }
            if let Some(Problem::NotLoaded(text)) = &problem
                && state.host == 1
                && self.actors.are_finished()
            {
                return Err(WorldError(text.clone()));
            }
            if is_busy_timeout {
                state.record_busy_timeout();
            } else {
                state.begin_rest();
            }
            let (occurrence, due) = state.schedule.on_rest();
            state.record(EventKind::Rest { occurrence });
            apply_all(&mut state, &due);
            if !due.is_empty() {
                return Ok(None);
            }
        }
        if self.take_step(true).await {
            return Ok(None);
        }
        if let Some(Problem::NotLoaded(text) | Problem::Stopped(text)) = problem {
            return Ok(Some(Outcome::Ended(End::PluginStopped(text))));
        }
        let has_timer =
            self.actors.next_time().is_some() || self.shared.lock().schedule.next_time().is_some();
        if has_timer {
            return Ok(None);
        }
        let end = if is_busy_timeout && !self.shared.lock().changes_only_times() {
            End::NotAtRest
        } else {
            End::AtRest
        };
        Ok(self.end(end))
    }

    /// Ends the run, unless a key is still to be reconciled again that the plugin wants later: what it does then belongs to its task, and a run
    /// with faults may end at an earlier or later moment of it.
    fn end(&mut self, end: End) -> Option<Outcome> {
        let steps = self.actors.steps_taken();
        let mut state = self.shared.lock();
        let now = state.now();
        // An actor that still waits may wait for what the plugin does then. The run still ends at rest, before its time is up.
        let awaited_until = match self.actors.are_finished() {
            true => 0,
            false => self.setup.limits.virtual_ms.saturating_sub(MAX_WAIT),
        };
        self.requeues_until = state.reconciles.requeues.fired_by(now, steps, awaited_until);
        if self.requeues_until.is_some() {
            return None;
        }
        if self.faults_over_at.is_none() {
            state.record(EventKind::FaultsOver);
        }
        Some(Outcome::Ended(end))
    }

    /// Returns why a plugin does no work.
    fn problem(&self) -> Option<Problem> {
        let status = self.host.status_of_plugins_not_running().into_iter().next()?;
        let text = format!("the plugin {}: {}", status.name, status.error);
        Some(match status.state {
            PluginState::BackingOff => Problem::Stopped(text),
            _ if status.generation > 0 => Problem::Stopped(text),
            _ => Problem::NotLoaded(format!(
                "the plugin {} does not run in the simulation: {}",
                status.name, status.error
            )),
        })
    }
}

/// Why a plugin does no work.
enum Problem {
    /// It has never run in this process.
    NotLoaded(String),
    Stopped(String),
}

/// Applies faults that do not belong to a request or a watch; the others have no effect at this moment.
fn apply_all(state: &mut State, due: &[usize]) {
    for index in due {
        if !state.apply_to_host(*index) {
            state.schedule.skip(*index);
        }
    }
}
