//! How long it took to find the wrong twins, and how long their stories are: medians and limits. Pure.

use super::report::Finding;

/// The longest time until a wrong twin is found and shrunk, in seconds.
const MAX_SECONDS: f64 = 10.0;
/// The largest number of steps of a story.
const MAX_STEPS: usize = 15;
/// The longest time until half of the wrong twins are found, in seconds.
const MAX_MEDIAN_SECONDS: f64 = 1.0;
/// The largest median of the steps.
const MAX_MEDIAN_STEPS: f64 = 8.0;

/// The first findings of the wrong twins.
#[derive(Debug, Default)]
pub(super) struct Measures {
    seconds: Vec<f64>,
    steps: Vec<f64>,
    schedules: Vec<f64>,
}

impl Measures {
    /// Adds the first finding of a plugin. Returns a line for each limit that it exceeds.
    pub(super) fn add(&mut self, plugin: &str, finding: &Finding) -> Vec<String> {
        self.seconds.push(finding.seconds);
        self.steps.push(number(finding.steps));
        self.schedules.push(number(finding.runs));
        let mut problems = Vec::new();
        if finding.seconds > MAX_SECONDS {
            let seconds = finding.seconds;
            problems.push(format!(
                "{plugin}: it was found after {seconds:.1} s, and {MAX_SECONDS} s are allowed"
            ));
        }
        if finding.steps > MAX_STEPS {
            let steps = finding.steps;
            problems.push(format!("{plugin}: its story has {steps} steps, and {MAX_STEPS} are allowed"));
        }
        problems
    }

    /// Returns the line with the medians.
    pub(super) fn line(&self) -> String {
        let (seconds, steps, schedules) =
            (median(&self.seconds), median(&self.steps), median(&self.schedules));
        format!(
            "median of {} wrong twins: {seconds:.2} s, {steps} steps, {schedules} schedules",
            self.seconds.len()
        )
    }

    /// Returns a line for each median that exceeds its limit.
    pub(super) fn problems(&self) -> Vec<String> {
        let (seconds, steps) = (median(&self.seconds), median(&self.steps));
        let mut problems = Vec::new();
        if seconds > MAX_MEDIAN_SECONDS {
            problems.push(format!("the median is {seconds:.2} s, and {MAX_MEDIAN_SECONDS} s are allowed"));
        }
        if steps > MAX_MEDIAN_STEPS {
            problems.push(format!("the median is {steps} steps, and {MAX_MEDIAN_STEPS} are allowed"));
        }
        problems
    }
}

fn number(count: impl TryInto<u32>) -> f64 {
    f64::from(count.try_into().unwrap_or(u32::MAX))
}

/// Returns the median, 0 for no values.
fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match (sorted.get(middle), sorted.len() % 2) {
        (None, _) => 0.0,
        (Some(upper), 0) => f64::midpoint(sorted[middle - 1], *upper),
        (Some(value), _) => *value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(seconds: f64, steps: usize) -> Finding {
        Finding { oracle: String::new(), explanation: String::new(), runs: 40, seconds, steps, faults: 1 }
    }

    #[test]
    fn the_median_of_an_even_number_is_between_the_two_in_the_middle() {
        assert_eq!(median(&[]).to_bits(), 0.0_f64.to_bits());
        assert_eq!(median(&[9.0, 1.0, 2.0]).to_bits(), 2.0_f64.to_bits());
        assert_eq!(median(&[9.0, 1.0, 2.0, 3.0]).to_bits(), 2.5_f64.to_bits());
    }

    #[test]
    fn a_twin_that_takes_long_or_has_a_long_story_is_a_problem() {
        let mut measures = Measures::default();
        assert_eq!(measures.add("a.wasm", &finding(10.0, 15)), Vec::<String>::new());
        assert_eq!(
            measures.add("b.wasm", &finding(10.1, 16)),
            [
                "b.wasm: it was found after 10.1 s, and 10 s are allowed",
                "b.wasm: its story has 16 steps, and 15 are allowed",
            ]
        );
        assert_eq!(measures.line(), "median of 2 wrong twins: 10.05 s, 15.5 steps, 40 schedules");
    }

    #[test]
    fn medians_have_limits_of_their_own() {
        let mut measures = Measures::default();
        measures.add("a.wasm", &finding(0.5, 8));
        assert_eq!(measures.problems(), Vec::<String>::new());
        measures.add("b.wasm", &finding(1.8, 9));
        assert_eq!(
            measures.problems(),
            ["the median is 1.15 s, and 1 s are allowed", "the median is 8.5 steps, and 8 are allowed"]
        );
    }
}
