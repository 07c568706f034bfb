//! What the linter has to know of a PromQL expression: its selectors.

/// A selector of a metric in an expression.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Selector {
    /// The name of the metric.
    pub(super) metric: String,
    /// The text between the braces.
    pub(super) matchers: String,
    /// The range, without its brackets; "" for an instant vector.
    pub(super) range: String,
    /// The function whose argument the selector is, such as `rate`; "" if there is none.
    pub(super) function: String,
}

/// Words before a list of labels.
const BEFORE_LABELS: [&str; 6] = ["by", "without", "on", "ignoring", "group_left", "group_right"];
/// Words between expressions.
const OPERATORS: [&str; 6] = ["and", "or", "unless", "bool", "offset", "atan2"];

/// Returns the selectors of an expression, in their order.
pub(super) fn selectors(expression: &str) -> Vec<Selector> {
    let mut selectors = Vec::new();
    let mut rest = expression;
    let mut function = String::new();
    while let Some(start) =
        rest.find(|character: char| character.is_ascii_alphanumeric() || "_:\"'".contains(character))
    {
        if rest[..start].contains(['(', ')', ',', '+', '-', '*', '/', '<', '>', '='])
            && !rest[..start].trim_end().ends_with('(')
        {
            function.clear();
        }
        rest = &rest[start..];
        if let Some(quote @ ('"' | '\'')) = rest.chars().next() {
            rest = rest[1..].split_once(quote).map_or("", |(_, rest)| rest);
            continue;
        }
        let end = rest
            .find(|character: char| !character.is_ascii_alphanumeric() && !"_:.".contains(character))
            .unwrap_or(rest.len());
        let (word, tail) = rest.split_at(end);
        rest = tail;
        let is_number = word.starts_with(|character: char| character.is_ascii_digit());
        if is_number || OPERATORS.contains(&word) {
            continue;
        }
        if BEFORE_LABELS.contains(&word) {
            if let Some(labels) = rest.trim_start().strip_prefix('(') {
                rest = labels.split_once(')').map_or("", |(_, rest)| rest);
            }
            continue;
        }
        let is_aggregation = BEFORE_LABELS.iter().any(|before| rest.trim_start().starts_with(before));
        if rest.trim_start().starts_with('(') || is_aggregation {
            word.clone_into(&mut function);
            continue;
        }
        let (matchers, tail) = enclosed(rest, '{', '}');
        let (range, tail) = enclosed(tail, '[', ']');
        rest = tail;
        selectors.push(Selector {
            metric: word.to_owned(),
            matchers: matchers.to_owned(),
            range: range.to_owned(),
            function: std::mem::take(&mut function),
        });
    }
    selectors
}

/// Returns the text between two characters at the start, and the rest. Values of labels must not contain the second.
fn enclosed(text: &str, open: char, close: char) -> (&str, &str) {
    text.strip_prefix(open).and_then(|inner| inner.split_once(close)).unwrap_or(("", text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(expression: &str) -> Vec<(String, String, String, String)> {
        let fields =
            |selector: Selector| (selector.function, selector.metric, selector.matchers, selector.range);
        selectors(expression).into_iter().map(fields).collect()
    }

    fn selector(
        function: &str,
        metric: &str,
        matchers: &str,
        range: &str,
    ) -> (String, String, String, String) {
        (function.to_owned(), metric.to_owned(), matchers.to_owned(), range.to_owned())
    }

    #[test]
    fn metrics_are_told_from_functions_labels_and_numbers() {
        let expression =
            r#"histogram_quantile(0.99, sum by (namespace, le) (rate(a_bucket{job="x (y)"}[10m]))) > 60"#;
        assert_eq!(found(expression), [selector("rate", "a_bucket", r#"job="x (y)""#, "10m")]);
        let expression = r#"sum by (c) (increase(e_total[10m])) / (sum by (c) (increase(r_total{x="1"}[10m])) >= 20) > 0.2"#;
        let expected =
            [selector("increase", "e_total", "", "10m"), selector("increase", "r_total", r#"x="1""#, "10m")];
        assert_eq!(found(expression), expected);
        assert_eq!(found(r#"absent(up{job="p"} == 1) == 1"#), [selector("absent", "up", r#"job="p""#, "")]);
        let expected = [selector("", "a", "", ""), selector("", "b", "", "")];
        assert_eq!(found("a - b > 0"), expected);
        assert_eq!(found("a unless on (x) b"), expected);
        assert_eq!(
            found("sum without (kind) (a) / b"),
            [selector("sum", "a", "", ""), selector("", "b", "", "")]
        );
    }
}
