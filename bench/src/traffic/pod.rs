//! The state of one Pod and the changes that it undergoes.

use super::random::Random;
use super::workload::{CPU, Workload, uid};

/// How far a Pod has started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Created by its controller.
    Created,
    /// Bound to a node, whose kubelet creates its containers.
    Starting,
    /// Running and ready.
    Ready,
    /// Running, but its readiness probe fails.
    NotReady,
    /// Waiting until the kubelet restarts a container that has failed.
    CrashLoop,
}

/// Conditions that a readiness gate adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gate {
    pub(super) is_true: bool,
    pub(super) since: u32,
}

/// One Pod. Times are seconds since the start of the traffic's clock.
#[derive(Clone, Debug)]
pub(super) struct Pod {
    pub(super) workload: usize,
    /// The last event about the Pod, counted from 1; 0 if there was none.
    pub(super) event: usize,
    pub(super) suffix: String,
    pub(super) uid: String,
    pub(super) node: usize,
    pub(super) address: usize,
    pub(super) created: u32,
    pub(super) deleted: Option<u32>,
    pub(super) generation: u32,
    pub(super) stage: Stage,
    pub(super) started: u32,
    pub(super) ready_changed: u32,
    pub(super) status_changed: u32,
    pub(super) restarts: u32,
    /// The container ID's number, and that of the container before the last restart.
    pub(super) container: u64,
    pub(super) previous: Option<(u64, u32)>,
    pub(super) gate: Option<Gate>,
    /// The patch number of the first container's image, as in the spec and as in the status.
    pub(super) image: [usize; 2],
    pub(super) cpu: usize,
    pub(super) has_toleration: bool,
    pub(super) spec_changed: Option<u32>,
    /// The value of a label that an operator sets and removes.
    pub(super) weight: Option<usize>,
    pub(super) labels_changed: u32,
    /// The value of an annotation that an operator sets and removes.
    pub(super) checked: Option<u32>,
    pub(super) is_safe_to_evict: bool,
    pub(super) annotations_changed: u32,
}

/// A kind of change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A kubelet updates the status.
    Status,
    /// A label is set, changed or removed.
    Labels,
    /// Annotations are set, changed or removed.
    Annotations,
    /// The spec changes: the image, the resources or the tolerations.
    Spec,
    /// The Pod is deleted, and its owner creates another one.
    Replacement,
}

const SUFFIX: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

impl Pod {
    /// Returns a Pod that has just been created.
    pub(super) fn create(workload: usize, of: &Workload, now: u32, random: &mut Random) -> Self {
        Self {
            workload,
            event: 0,
            suffix: (0..5).map(|_| char::from(random.pick(SUFFIX))).collect(),
            uid: uid(random),
            node: random.below(500),
            address: random.below(60_000),
            created: now,
            deleted: None,
            generation: 1,
            stage: Stage::Created,
            started: now,
            ready_changed: now,
            status_changed: now,
            restarts: 0,
            container: random.next(),
            previous: None,
            gate: None,
            image: [random.below(12); 2],
            cpu: of.containers[0].cpu,
            has_toleration: false,
            spec_changed: None,
            weight: None,
            labels_changed: now,
            checked: None,
            is_safe_to_evict: false,
            annotations_changed: now,
        }
    }

    /// Returns a Pod that has been running for some time before `now`.
    pub(super) fn running(workload: usize, of: &Workload, now: u32, random: &mut Random) -> Self {
        let created = now - random.below(20 * 86_400) as u32;
        let mut pod = Self::create(workload, of, created, random);
        pod.update_status(created + 2, random);
        pod.update_status(created + 9, random);
        if random.percent(20) {
            pod.restart(created + 3_600, random);
        }
        for (percent, change) in [(10, Change::Labels), (15, Change::Annotations), (5, Change::Spec)] {
            if random.percent(percent) {
                pod.apply(change, created + 4_000, random);
            }
        }
        pod
    }

    /// Applies a change other than a replacement.
    pub(super) fn apply(&mut self, change: Change, now: u32, random: &mut Random) {
        match change {
            Change::Status | Change::Replacement => self.update_status(now, random),
            Change::Labels => {
                self.labels_changed = now;
                self.weight = if self.weight.is_some() && random.percent(40) {
                    None
                } else {
                    Some(random.pick(&[0, 5, 10, 50, 100]))
                };
            }
            Change::Annotations => {
                self.annotations_changed = now;
                if random.percent(30) {
                    self.is_safe_to_evict = !self.is_safe_to_evict;
                } else {
                    self.checked =
                        if self.checked.is_some() && random.percent(30) { None } else { Some(now) };
                }
            }
            Change::Spec => {
                self.spec_changed = Some(now);
                self.generation += 1;
                match random.below(4) {
                    0 => self.cpu = (self.cpu + 1) % CPU.len(),
                    1 => self.has_toleration = true,
                    _ => self.image[0] += 1,
                }
            }
        }
    }

    /// Updates the status as a kubelet does.
    fn update_status(&mut self, now: u32, random: &mut Random) {
        self.status_changed = now;
        match self.stage {
            Stage::Created => {
                self.stage = Stage::Starting;
                self.started = now;
            }
            Stage::Starting => self.set_stage(Stage::Ready, now),
            Stage::NotReady => self.set_stage(Stage::Ready, now),
            Stage::CrashLoop => self.restart(now, random),
            Stage::Ready if self.image[0] != self.image[1] => {
                self.image[1] = self.image[0];
                self.restart(now, random);
            }
            Stage::Ready => match random.below(100) {
                0..35 => self.set_stage(Stage::NotReady, now),
                35..50 => self.restart(now, random),
                50..65 => self.set_stage(Stage::CrashLoop, now),
                65..80 => {
                    self.gate = match self.gate {
                        None => Some(Gate { is_true: false, since: now }),
                        Some(Gate { is_true: false, .. }) => Some(Gate { is_true: true, since: now }),
                        Some(_) => None,
                    };
                }
                _ => self.ready_changed = now,
            },
        }
    }

    fn set_stage(&mut self, stage: Stage, now: u32) {
        self.stage = stage;
        self.ready_changed = now;
    }

    /// Restarts the first container.
    fn restart(&mut self, now: u32, random: &mut Random) {
        self.set_stage(Stage::Ready, now);
        self.previous = Some((self.container, now));
        self.container = random.next();
        self.restarts += 1;
    }
}
