//! Renders plots as SVG.

use std::fmt::Write;

const WIDTH: f64 = 720.0;
const LEFT: f64 = 300.0;
const BAR: f64 = 22.0;
const COLOURS: [&str; 5] = ["#1b6ca8", "#c8553d", "#588157", "#8d6a9f", "#b8860b"];
/// The number of curves that a line of the legend names.
const LEGEND_COLUMNS: usize = 3;

/// Returns a plot of horizontal bars on a logarithmic scale.
pub(super) fn bars(title: &str, unit: &str, values: &[(String, f64)]) -> String {
    let height = 50.0 + values.len() as f64 * (BAR + 8.0);
    let (low, high) = bounds(values.iter().map(|(_, value)| *value));
    let mut svg = head(title, height);
    for (at, (name, value)) in values.iter().enumerate() {
        let y = 40.0 + at as f64 * (BAR + 8.0);
        let width = (scaled(*value, low, high) * (WIDTH - LEFT - 110.0)).max(1.0);
        let colour = COLOURS[usize::from(!name.starts_with("Pilothouse"))];
        let _ = writeln!(
            svg,
            r#"<text x="{x}" y="{text_y}" text-anchor="end">{name}</text><rect x="{LEFT}" y="{y}" width="{width:.1}" height="{BAR}" fill="{colour}"/><text x="{value_x:.1}" y="{text_y}">{number} {unit}</text>"#,
            x = LEFT - 8.0,
            text_y = y + BAR * 0.7,
            name = escaped(name),
            value_x = LEFT + width + 6.0,
            number = number(*value),
        );
    }
    svg.push_str("</svg>\n");
    svg
}

/// Returns a plot of curves on two logarithmic axes.
pub(super) fn curves(title: &str, unit: &str, curves: &[(String, Vec<(f64, f64)>)]) -> String {
    let (bottom, top, left) = (290.0, 40.0, 90.0);
    let curves: Vec<_> = curves.iter().filter(|(_, points)| !points.is_empty()).collect();
    let legend = bottom + 38.0;
    let height = legend + curves.len().div_ceil(LEGEND_COLUMNS).max(1) as f64 * 18.0 - 6.0;
    let points = || curves.iter().flat_map(|(_, points)| points.iter());
    let (x_low, x_high) = bounds(points().map(|point| point.0));
    let (y_low, y_high) = bounds(points().map(|point| point.1));
    let x = |value: f64| left + scaled(value, x_low, x_high) * (WIDTH - left - 40.0);
    let y = |value: f64| bottom - scaled(value, y_low, y_high) * (bottom - top);
    let mut svg = head(title, height);
    let _ =
        writeln!(svg, r##"<path d="M{left} {top}V{bottom}H{}" fill="none" stroke="#888"/>"##, WIDTH - 40.0);
    for value in decades(x_low, x_high) {
        let _ = writeln!(
            svg,
            r#"<text x="{:.1}" y="{}" text-anchor="middle">{}</text>"#,
            x(value),
            bottom + 18.0,
            number(value)
        );
    }
    for value in decades(y_low, y_high) {
        let _ = writeln!(
            svg,
            r#"<text x="{}" y="{:.1}" text-anchor="end">{} {unit}</text>"#,
            left - 6.0,
            y(value),
            number(value)
        );
    }
    for (at, (name, points)) in curves.iter().enumerate() {
        let colour = COLOURS[at % COLOURS.len()];
        let line: Vec<_> =
            points.iter().map(|(at, value)| format!("{:.1},{:.1}", x(*at), y(*value))).collect();
        let _ = writeln!(
            svg,
            r#"<polyline points="{}" fill="none" stroke="{colour}" stroke-width="2"/>"#,
            line.join(" ")
        );
        for (at, value) in points {
            let _ =
                writeln!(svg, r#"<circle cx="{:.1}" cy="{:.1}" r="3" fill="{colour}"/>"#, x(*at), y(*value));
        }
        let _ = writeln!(
            svg,
            r#"<text x="{}" y="{}" fill="{colour}">{}</text>"#,
            left + 10.0 + (at % LEGEND_COLUMNS) as f64 * 200.0,
            legend + (at / LEGEND_COLUMNS) as f64 * 18.0,
            escaped(name)
        );
    }
    svg.push_str("</svg>\n");
    svg
}

fn head(title: &str, height: f64) -> String {
    format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="#fff"/><text x="12" y="22" font-size="15" font-weight="bold">{}</text>
"##,
        escaped(title)
    )
}

/// Returns the powers of ten below and above all positive values.
fn bounds(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    for value in values.filter(|value| *value > 0.0) {
        (low, high) = (low.min(value), high.max(value));
    }
    if low > high {
        return (1.0, 10.0);
    }
    let (low, high) = (low.log10().floor(), high.log10().ceil());
    (10_f64.powf(low), 10_f64.powf(high.max(low + 1.0)))
}

/// Maps a value to a logarithmic scale with 0 at `low` and 1 at `high`.
fn scaled(value: f64, low: f64, high: f64) -> f64 {
    if value <= low { 0.0 } else { (value / low).log10() / (high / low).log10() }
}

fn decades(low: f64, high: f64) -> Vec<f64> {
    let (low, high) = (low.log10().round() as i32, high.log10().round() as i32);
    (low..=high).map(|power| 10_f64.powi(power)).collect()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Formats a number with three significant digits, and with commas between thousands.
pub(super) fn number(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    if value < 100.0 {
        let digits = if value < 1.0 {
            3
        } else if value < 10.0 {
            2
        } else {
            1
        };
        let text = format!("{value:.digits$}");
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    let digits = format!("{value:.0}");
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_significant_digits() {
        let cases = [
            (0.1234, "0.123"),
            (2.0, "2"),
            (2.345, "2.35"),
            (45.67, "45.7"),
            (123.4, "123"),
            (1_234_567.0, "1,234,567"),
        ];
        for (value, text) in cases {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn scales_span_the_powers_of_ten_around_the_values() {
        assert_eq!(bounds([30.0, 4_000.0].into_iter()), (10.0, 10_000.0));
        assert_eq!(
            (scaled(10.0, 10.0, 1000.0), scaled(100.0, 10.0, 1000.0), scaled(1000.0, 10.0, 1000.0)),
            (0.0, 0.5, 1.0)
        );
        assert_eq!(decades(10.0, 1000.0), [10.0, 100.0, 1000.0]);
        let svg = bars("a & b", "x", &[("Pilothouse".to_owned(), 10.0), ("other".to_owned(), 1000.0)]);
        assert!(svg.contains("a &amp; b") && svg.matches("<rect").count() == 3, "{svg}");
    }
}
