//! Renders the report's section about the embedded API server.

use std::fmt::Write;

use super::super::plot::number;
use super::super::report::machine;
use super::figures::{FIGURES, Target, ratio};
use super::{CONNECTIONS, Comparison, Size};

/// Returns the section.
pub(super) fn render(comparison: &Comparison, size: Size) -> String {
    let mut text = format!(
        "## The embedded API server beside kube-apiserver\n\n`pilothouse apiserver --controllers none` and kube-apiserver 1.36 with etcd in one process, which take \
         turns on the same machine. Both serve TLS and HTTP/1.1 and keep no data on disk that survives a crash: the embedded server stores in memory, etcd in files \
         without fsync. The load generator uses the same cores. {CONNECTIONS} connections create {objects} ConfigMaps of 1 KB in one namespace and replace each once. Then one \
         connection lists them, and {watchers} connections watch 10 other ConfigMaps while 4 connections make {changes} changes. Medians of {rounds} rounds.\n\n{machine}\n\n\
         | what | embedded | kube-apiserver | ratio | target |\n|---|---|---|---|---|\n",
        objects = number(size.objects as f64),
        watchers = number(size.watchers as f64),
        changes = number(size.changes as f64),
        rounds = size.rounds,
        machine = machine(),
    );
    for figure in &FIGURES {
        let target = match figure.target {
            None => String::new(),
            Some(Target::AtMost(most)) => format!("≤ {}", number(most)),
            Some(Target::TimesMore(times)) => format!("≥ {} times", number(times)),
            Some(Target::Fraction(parts)) => format!("≤ 1/{}", number(parts)),
        };
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {target} |",
            figure.title,
            number(figure.median(&comparison.embedded)),
            number(figure.median(&comparison.kubernetes)),
            number(ratio(figure, comparison)),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::check_direction;
    use super::super::round::Round;
    use super::*;

    const SIZE: Size = Size { rounds: 3, objects: 100_000, lists: 1, watchers: 1_000, changes: 10 };

    fn round(start_millis: f64, per_second: f64, mib: f64) -> Round {
        Round {
            start_millis,
            idle_mib: mib,
            loaded_mib: 10.0 * mib,
            creates_per_second: per_second,
            updates_per_second: per_second,
            ..Round::default()
        }
    }

    fn comparison(embedded_per_second: f64) -> Comparison {
        Comparison {
            embedded: vec![
                round(20.0, 1.0, 10.0),
                round(25.0, embedded_per_second, 10.0),
                round(90.0, 1_000_000.0, 10.0),
            ],
            kubernetes: vec![round(5_000.0, 1_000.0, 400.0)],
        }
    }

    #[test]
    fn section_has_medians_ratios_and_targets() {
        let section = render(&comparison(8_000.0), SIZE);
        for line in [
            "| start until `/readyz` answers 200, ms | 25 | 5,000 | 0.005 | ≤ 30 |",
            "| creates/s | 8,000 | 1,000 | 8 | ≥ 5 times |",
            "| memory with all objects, after the lists, MiB | 100 | 4,000 | 0.025 | ≤ 1/8 |",
        ] {
            assert!(section.lines().any(|found| found == line), "{line}\n{section}");
        }
        assert_eq!(section.lines().filter(|line| line.starts_with("| ")).count(), FIGURES.len() + 1);
    }

    #[test]
    fn fewer_writes_than_those_of_kube_apiserver_are_an_error() {
        assert!(check_direction(&comparison(8_000.0)).is_ok());
        let error = check_direction(&comparison(900.0)).expect_err("an error").to_string();
        assert!(error.contains("creates/s"), "{error}");
    }
}
