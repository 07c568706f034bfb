//! Distributes a change of a Deployment's replicas over its ReplicaSets.

use super::Settings;
use super::replica_sets::{ReplicaSet, ReplicaSets};

/// Whether the Deployment was scaled since its sets were.
pub(super) fn is_scaling_event(sets: &ReplicaSets, settings: &Settings) -> bool {
    let mut active = sets.all.iter().filter(|set| set.replicas > 0);
    active.any(|set| set.desired_replicas().is_some_and(|desired| desired != settings.replicas))
}

/// Scales the sets to the Deployment's replicas without changing the progress of a rollout.
pub(super) fn scale(sets: &mut ReplicaSets, settings: &Settings, number_of_replicas: i64) {
    if let Some(index) = only_active_or_latest(sets) {
        let set = &mut sets.all[index];
        if set.replicas != settings.replicas || set.desired_replicas() != Some(settings.replicas) {
            set.scale(settings.replicas, settings);
        }
        return;
    }
    let is_saturated = sets.current().is_some_and(|set| {
        set.replicas == settings.replicas
            && set.desired_replicas() == Some(settings.replicas)
            && set.count("availableReplicas") == settings.replicas
    });
    if is_saturated {
        for set in sets.old_mut().filter(|set| set.replicas > 0) {
            set.scale(0, settings);
        }
        return;
    }
    if !settings.recreate {
        scale_in_proportion(sets, settings, number_of_replicas);
    }
}

/// Returns the only set with replicas, or, if none has any, the current or newest one.
fn only_active_or_latest(sets: &ReplicaSets) -> Option<usize> {
    let active: Vec<usize> = (0..sets.all.len()).filter(|index| sets.all[*index].replicas > 0).collect();
    match active.as_slice() {
        [] => sets.new.or_else(|| sets.all.len().checked_sub(1)),
        [only] => Some(*only),
        _ => None,
    }
}

fn scale_in_proportion(sets: &mut ReplicaSets, settings: &Settings, number_of_replicas: i64) {
    let allowed = if settings.replicas > 0 { settings.max_pods() } else { 0 };
    let to_add = allowed - sets.total_replicas();
    let mut order: Vec<usize> = (0..sets.all.len()).filter(|index| sets.all[*index].replicas > 0).collect();
    // Larger sets first; of equal ones, newer sets grow first and older ones shrink first.
    order.sort_by(|a, b| {
        let (first, second) = (&sets.all[*a], &sets.all[*b]);
        let by_age = if to_add > 0 { b.cmp(a) } else { a.cmp(b) };
        second.replicas.cmp(&first.replicas).then(by_age)
    });
    let mut added = 0;
    let mut sizes: Vec<i64> = Vec::new();
    for index in &order {
        let set = &sets.all[*index];
        let part = proportion(set, settings, number_of_replicas, to_add - added);
        added += part;
        sizes.push(set.replicas + part);
    }
    // What rounding left over goes to the largest set.
    if let Some(first) = sizes.first_mut() {
        *first = (*first + to_add - added).max(0);
    }
    for (index, size) in order.into_iter().zip(sizes) {
        sets.all[index].scale(size, settings);
    }
}

/// Returns how many replicas a set gains or loses, at most `remaining`.
fn proportion(set: &ReplicaSet, settings: &Settings, number_of_replicas: i64, remaining: i64) -> i64 {
    if set.replicas == 0 || remaining == 0 {
        return 0;
    }
    let fraction = if settings.replicas == 0 {
        -set.replicas
    } else {
        let before = i128::from(set.max_replicas().unwrap_or(number_of_replicas).max(1));
        let size = i128::from(set.replicas) * i128::from(settings.max_pods());
        // Rounded to the nearest number.
        let size = (2 * size + before) / (2 * before);
        i64::try_from(size).unwrap_or(i64::MAX) - set.replicas
    };
    if remaining > 0 { fraction.min(remaining) } else { fraction.max(remaining) }
}
