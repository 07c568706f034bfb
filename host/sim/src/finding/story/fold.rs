//! Folds equal rounds of steps into one line.

use super::Step;

/// The largest number of steps whose repetition is shown in one line.
const MAX_PERIOD: usize = 4;
/// The smallest number of equal rounds that are folded into one.
const MIN_ROUNDS: usize = 3;

/// Returns the steps, with one line in place of the second and further rounds of equal steps. Steps are equal if their canonical texts are, in which
/// generated names do not differ.
pub(super) fn folded(steps: &[Step], canonical: impl Fn(&Step) -> String) -> Vec<Step> {
    let texts: Vec<_> = steps.iter().map(|step| (&step.who, canonical(step), &step.fault)).collect();
    let mut folded_steps = Vec::new();
    let mut start = 0;
    while let Some(first) = steps.get(start) {
        let mut repeated = (1..=MAX_PERIOD).map(|period| (period, rounds(&texts[start..], period)));
        let Some((period, rounds)) = repeated.find(|(_, rounds)| *rounds >= MIN_ROUNDS) else {
            folded_steps.push(first.clone());
            start += 1;
            continue;
        };
        let end = start + period * rounds;
        folded_steps.extend_from_slice(&steps[start..start + period]);
        let what = if period == 1 { "this step".to_owned() } else { format!("these {period} steps") };
        let has_other_names = (start..end).any(|index| {
            let round = start + (index - start) % period;
            steps[index].text != steps[round].text
        });
        let names = if has_other_names { ", with other names" } else { "" };
        folded_steps.push(Step {
            time: steps[end - 1].time,
            who: "…".to_owned(),
            text: format!("{what} again, {} times{names}", rounds - 1),
            fault: String::new(),
        });
        start = end;
    }
    folded_steps
}

/// Returns how many times the first `period` steps follow each other, apart from their times.
fn rounds<T: PartialEq>(steps: &[T], period: usize) -> usize {
    let Some(first) = steps.get(..period) else { return 0 };
    steps.chunks_exact(period).take_while(|round| *round == first).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_rounds_are_folded_into_one_line() {
        let steps = |texts: &str| -> Vec<Step> {
            let step = |(time, text): (usize, char)| Step {
                time: time as u64,
                who: "user".to_owned(),
                text: text.to_string(),
                fault: String::new(),
            };
            texts.chars().enumerate().map(step).collect()
        };
        let texts_of = |texts: &str| {
            let steps = folded(&steps(texts), |step| step.text.clone());
            steps.iter().map(|step| step.text.clone()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(texts_of("abab"), "a b a b", "two rounds");
        assert_eq!(texts_of("xabababay"), "x a b these 2 steps again, 2 times a y");
        assert_eq!(texts_of("aaaab"), "a this step again, 3 times b");
        assert_eq!(
            texts_of("abcdeabcdeabcde"),
            "a b c d e a b c d e a b c d e",
            "a round is longer than four steps"
        );
        assert_eq!(texts_of(""), "");
        let canonical = |step: &Step| step.text.replace(['1', '2', '3'], "*");
        assert_eq!(
            folded(&steps("a1a2a3b"), canonical).iter().map(|step| step.text.as_str()).collect::<Vec<_>>(),
            ["a", "1", "these 2 steps again, 2 times, with other names", "b"]
        );
        assert_eq!(folded(&steps("aaaa"), canonical)[1].time, 3, "the time of the last round");
    }
}
