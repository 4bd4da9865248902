//! Curves as SVG: one line for each test over the total utilisation.

use std::fmt::Write;
use takt_trace::gantt::escape;

/// Colours in turn, from the palette of Okabe and Ito, which colour-blind eyes tell apart.
const COLOURS: [&str; 8] = ["#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#000000", "#999999"];
/// Beyond so many lines the colours come again, with other dashes.
const DASHES: [&str; 4] = ["none", "6 3", "2 2", "8 3 2 3"];
const WIDTH: i64 = 560;
const HEIGHT: i64 = 360;
const LEFT: i64 = 56;
const TOP: i64 = 64;

/// Tenths of a pixel as text.
fn pixel(tenths: i64) -> String {
    format!("{}.{}", tenths / 10, tenths % 10)
}

/// Draws the success ratios, in parts of `whole`, of each named line at each point (in millionths, ascending).
pub(super) fn svg(title: &str, note: &str, points: &[u64], whole: u64, lines: &[(String, Vec<u64>)]) -> String {
    let (Some(&first), Some(&last)) = (points.first(), points.last()) else { return String::new() };
    let across = (last - first).max(1) as i64;
    let x = |point: u64| LEFT * 10 + (point - first) as i64 * WIDTH * 10 / across;
    let y = |count: u64| (TOP + HEIGHT) * 10 - (count as i64 * HEIGHT * 10) / whole.max(1) as i64;
    let mut body = String::new();
    let mut add = |element: std::fmt::Arguments<'_>| {
        body.write_fmt(element).expect("a string takes all");
        body.push('\n');
    };
    add(format_args!(r#"<text x="16" y="24" class="title">{}</text>"#, escape(title)));
    add(format_args!(r#"<text x="16" y="44">{}</text>"#, escape(note)));
    for tenth in (0..=10).step_by(2) {
        let at = pixel(((TOP + HEIGHT) - HEIGHT * tenth / 10) * 10);
        add(format_args!(r#"<path d="M{LEFT} {at}h{WIDTH}" class="grid"/>"#));
        add(format_args!(r#"<text x="{}" y="{at}" dy="4" class="y">{}.{}</text>"#, LEFT - 8, tenth / 10, tenth % 10));
    }
    // At most eleven numbers fit below the axis.
    for point in points.iter().step_by(points.len().div_ceil(11)) {
        let at = pixel(x(*point));
        add(format_args!(r#"<path d="M{at} {TOP}v{HEIGHT}" class="grid"/>"#));
        add(format_args!(r#"<text x="{at}" y="{}" class="x">{}</text>"#, TOP + HEIGHT + 18, ratio(*point)));
    }
    add(format_args!(r#"<text x="{}" y="{}" class="x">total utilisation</text>"#, LEFT + WIDTH / 2, TOP + HEIGHT + 40));
    for (index, (name, counts)) in lines.iter().enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        let dash = DASHES[index / COLOURS.len() % DASHES.len()];
        let path: Vec<String> =
            points.iter().zip(counts).map(|(p, c)| format!("{},{}", pixel(x(*p)), pixel(y(*c)))).collect();
        add(format_args!(
            r#"<polyline points="{}" stroke="{colour}" stroke-dasharray="{dash}"><title>{}</title></polyline>"#,
            path.join(" "),
            escape(name)
        ));
        let row = TOP + 8 + 18 * index as i64;
        let legend = LEFT + WIDTH + 20;
        add(format_args!(r#"<path d="M{legend} {row}h28" stroke="{colour}" stroke-dasharray="{dash}" class="key"/>"#));
        add(format_args!(r#"<text x="{}" y="{row}" dy="4">{}</text>"#, legend + 36, escape(name)));
    }
    let longest = lines.iter().map(|(name, _)| name.chars().count() as i64).max().unwrap_or(0);
    let width = (LEFT + WIDTH + 72 + 7 * longest).max(32 + 6 * note.chars().count() as i64);
    let height = (TOP + HEIGHT + 56).max(TOP + 18 * lines.len() as i64 + 16);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\">\n\
         <style>text{{font:11px sans-serif;fill:#222}}.title{{font-size:15px;font-weight:bold}}.y{{text-anchor:end}}\
         .x{{text-anchor:middle}}.grid{{stroke:#ddd;fill:none}}polyline,.key{{fill:none;stroke-width:2}}</style>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n{body}</svg>\n"
    )
}

/// Millionths without useless digits, with at least one decimal.
pub(super) fn ratio(millionths: u64) -> String {
    let text = format!("{}.{:06}", millionths / 1_000_000, millionths % 1_000_000);
    let short = text.trim_end_matches('0');
    if short.ends_with('.') { format!("{short}0") } else { short.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_runs_from_corner_to_corner() {
        let text = svg("t", "n", &[2_000_000, 3_000_000], 10, &[("a<b\u{1}".into(), vec![10, 0])]);
        assert!(text.contains(r#"points="56.0,64.0 616.0,424.0""#), "{text}");
        assert!(text.contains("a&lt;b\u{fffd}") && !text.contains("a<b"), "{text}");
        assert_eq!((ratio(2_000_000), ratio(3_250_000), ratio(1)), ("2.0".into(), "3.25".into(), "0.000001".into()));
        svg("one point", "", &[1], 0, &[]);
    }
}
