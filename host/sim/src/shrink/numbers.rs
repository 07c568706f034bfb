//! Reduces the numbers in deviations: delays are halved, and old lists become younger and fewer.

use crate::plan::{Deviation, Fault};

/// Replaces each deviation by smaller ones as long as the error happens.
pub(super) fn reduce(
    mut deviations: Vec<Deviation>,
    fails: &mut impl FnMut(&[Deviation]) -> bool,
) -> Vec<Deviation> {
    for index in 0..deviations.len() {
        loop {
            let smaller = smaller(&deviations[index].fault).into_iter().find(|fault| {
                let mut candidate = deviations.clone();
                candidate[index].fault = fault.clone();
                fails(&candidate)
            });
            match smaller {
                Some(fault) => deviations[index].fault = fault,
                None => break,
            }
        }
    }
    deviations
}

/// Returns simpler forms of a fault, the simplest first. Each is smaller than the fault, so that reducing ends.
fn smaller(fault: &Fault) -> Vec<Fault> {
    let halved = |delay: u64, form: fn(u64) -> Fault| {
        if delay > 1 { vec![form(delay / 2)] } else { Vec::new() }
    };
    match fault {
        Fault::HoldWatch(delay) => halved(*delay, Fault::HoldWatch),
        Fault::DropWatch(delay) => halved(*delay, Fault::DropWatch),
        Fault::DelayRequest(delay) => halved(*delay, Fault::DelayRequest),
        Fault::HoldControllers(delay) => halved(*delay, Fault::HoldControllers),
        Fault::Restart { past } => {
            let without = (0..past.len()).map(|index| {
                let mut past = past.clone();
                past.remove(index);
                Fault::Restart { past }
            });
            let younger = (0..past.len()).filter(|index| past[*index].1 > 1).map(|index| {
                let mut past = past.clone();
                past[index].1 -= 1;
                Fault::Restart { past }
            });
            without.chain(younger).collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Moment;
    use crate::shrink::shrink;

    fn at_start(fault: Fault) -> Deviation {
        Deviation { at: Moment::Time(0), fault }
    }

    #[test]
    fn delays_are_halved_while_the_error_happens() {
        let needs = |deviations: &[Deviation]| {
            deviations
                .iter()
                .any(|deviation| matches!(deviation.fault, Fault::HoldWatch(delay) if delay > 1000))
        };
        let shrunk =
            shrink(vec![at_start(Fault::CrashAfter), at_start(Fault::HoldWatch(330_000))], 100, needs);
        assert_eq!(shrunk, [at_start(Fault::HoldWatch(1289))]);
    }

    #[test]
    fn old_lists_become_fewer_and_younger() {
        let past = |ages: &[(&str, u32)]| Fault::Restart {
            past: ages.iter().map(|(resource, age)| ((*resource).to_owned(), *age)).collect(),
        };
        let needs = |deviations: &[Deviation]| {
            deviations.iter().any(|deviation| match &deviation.fault {
                Fault::Restart { past } => past.iter().any(|(resource, age)| resource == "zoos" && *age >= 3),
                _ => false,
            })
        };
        let shrunk = shrink(vec![at_start(past(&[("pods", 2), ("zoos", 6)]))], 100, needs);
        assert_eq!(shrunk, [at_start(past(&[("zoos", 3)]))]);
    }

    #[test]
    fn the_number_of_attempts_is_bounded() {
        let mut count = 0;
        let deviations: Vec<_> = (1..100).map(|delay| at_start(Fault::HoldWatch(delay))).collect();
        let shrunk = shrink(deviations.clone(), 10, |_| {
            count += 1;
            false
        });
        assert_eq!((shrunk, count), (deviations, 10));
    }
}
