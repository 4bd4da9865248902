//! Curves as SVG: panels one below the other, in each a line for each test or policy over the points of the experiment.

use super::points::ratio;
use std::fmt::Write;
use takt_trace::gantt::{escape, page};

/// A picture of curves.
pub(super) struct Picture<'a> {
    pub(super) title: &'a str,
    /// Lines below the title.
    pub(super) note: &'a str,
    /// What the points are.
    pub(super) across: &'a str,
    /// In millionths, ascending.
    pub(super) points: &'a [u64],
    pub(super) panels: &'a [Panel],
}

/// One field of curves.
pub(super) struct Panel {
    /// What the values are; empty for a picture whose title says it.
    pub(super) title: String,
    /// The value at the upper end.
    pub(super) top: u64,
    /// What `top` is called at the axis, in millionths.
    pub(super) worth: u64,
    /// The same names in each panel, with a dot for each point; none where nothing is known.
    pub(super) lines: Vec<(String, Vec<Option<Dot>>)>,
}

/// A value, and how far up and down from it the true one may be; zero in both directions draws no bar.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Dot {
    pub(super) value: u64,
    pub(super) below: u64,
    pub(super) above: u64,
}

impl Dot {
    /// A value with a confidence interval of this half width.
    pub(super) fn around(value: u64, half: u64) -> Dot {
        Dot { value, below: half, above: half }
    }

    /// The highest that the true value may be.
    pub(super) fn top(self) -> u64 {
        self.value + self.above
    }

    fn has_bar(self) -> bool {
        self.below > 0 || self.above > 0
    }
}

/// Colours in turn, from the palette of Okabe and Ito, which colour-blind eyes tell apart.
const COLOURS: [&str; 8] = ["#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#000000", "#999999"];
/// Beyond so many lines the colours come again, with other dashes.
const DASHES: [&str; 4] = ["none", "6 3", "2 2", "8 3 2 3"];
const WIDTH: i64 = 560;
const HEIGHT: i64 = 360;
const LEFT: i64 = 56;
const TOP: i64 = 64;
/// From one line of notes to the next.
const NOTE: i64 = 16;
/// From the top of a panel to that of the next one.
const APART: i64 = HEIGHT + 84;

/// Tenths of a pixel as text.
fn pixel(tenths: i64) -> String {
    format!("{}.{}", tenths / 10, tenths % 10)
}

/// Draws the picture; empty without points.
pub(super) fn svg(picture: &Picture<'_>) -> String {
    let (title, note) = (picture.title, picture.note);
    if picture.points.is_empty() {
        return String::new();
    }
    let mut body = String::new();
    line(&mut body, format_args!(r#"<text x="16" y="24" class="title">{}</text>"#, escape(title)));
    let notes: Vec<&str> = note.split('\n').collect();
    for (index, note) in notes.iter().enumerate() {
        line(&mut body, format_args!(r#"<text x="16" y="{}">{}</text>"#, 44 + NOTE * index as i64, escape(note)));
    }
    // A title needs a line of its own below the notes.
    let first =
        TOP + NOTE * (notes.len() as i64 - 1) + if picture.panels.iter().any(|p| !p.title.is_empty()) { 16 } else { 0 };
    for (index, panel) in picture.panels.iter().enumerate() {
        draw(&mut body, picture, panel, first + APART * index as i64);
    }
    let names: Vec<&str> =
        picture.panels.first().into_iter().flat_map(|p| &p.lines).map(|(name, _)| name.as_str()).collect();
    for (index, name) in names.iter().enumerate() {
        let (row, legend) = (first + 8 + 18 * index as i64, LEFT + WIDTH + 20);
        let style = style(index);
        line(&mut body, format_args!(r#"<path d="M{legend} {row}h28" {style} class="key"/>"#));
        line(&mut body, format_args!(r#"<text x="{}" y="{row}" dy="4">{}</text>"#, legend + 36, escape(name)));
    }
    let longest = names.iter().map(|name| name.chars().count() as i64).max().unwrap_or(0);
    let widest = notes.iter().map(|note| note.chars().count() as i64).max().unwrap_or(0);
    let width = (LEFT + WIDTH + 72 + 7 * longest).max(32 + 6 * widest);
    let panels = picture.panels.len().max(1) as i64;
    let height = (first + APART * (panels - 1) + HEIGHT + 56).max(first + 18 * names.len() as i64 + 16);
    let head = "<style>text{font:11px sans-serif;fill:#222}.title{font-size:15px;font-weight:bold}.y{text-anchor:end}\
         .x{text-anchor:middle}.panel{font-weight:bold}.grid{stroke:#ddd;fill:none}\
         polyline,.key{fill:none;stroke-width:2}.bar{fill:none;stroke-width:1}</style>";
    page(&width, &height, head, &body)
}

fn line(body: &mut String, element: std::fmt::Arguments<'_>) {
    body.write_fmt(element).expect("a string takes all");
    body.push('\n');
}

/// Colour and dashes of a line.
fn style(index: usize) -> String {
    let (colour, dash) = (COLOURS[index % COLOURS.len()], DASHES[index / COLOURS.len() % DASHES.len()]);
    format!(r#"stroke="{colour}" stroke-dasharray="{dash}""#)
}

fn draw(body: &mut String, picture: &Picture<'_>, panel: &Panel, top: i64) {
    let points = picture.points;
    let first = points[0];
    let across = (points[points.len() - 1] - first).max(1) as i64;
    let x = |point: u64| LEFT * 10 + (point - first) as i64 * WIDTH * 10 / across;
    let y = |value: u64| {
        let up = i128::from(value.min(panel.top)) * i128::from(HEIGHT * 10) / i128::from(panel.top.max(1));
        (top + HEIGHT) * 10 - up as i64
    };
    if !panel.title.is_empty() {
        line(body, format_args!(r#"<text x="{LEFT}" y="{}" class="panel">{}</text>"#, top - 8, escape(&panel.title)));
    }
    for fifth in 0..=5 {
        let at = pixel(((top + HEIGHT) - HEIGHT * fifth / 5) * 10);
        let label = ratio(panel.worth * fifth as u64 / 5);
        // Large numbers are counts.
        let label = if panel.worth >= 10_000_000 { label.trim_end_matches(".0") } else { &label };
        line(body, format_args!(r#"<path d="M{LEFT} {at}h{WIDTH}" class="grid"/>"#));
        line(body, format_args!(r#"<text x="{}" y="{at}" dy="4" class="y">{label}</text>"#, LEFT - 8));
    }
    // At most eleven numbers fit below the axis.
    let whole = points.iter().all(|point| point % 1_000_000 == 0) && panel.worth >= 10_000_000;
    for point in points.iter().step_by(points.len().div_ceil(11)) {
        let at = pixel(x(*point));
        let label = ratio(*point);
        let label = if whole { label.trim_end_matches(".0") } else { &label };
        line(body, format_args!(r#"<path d="M{at} {top}v{HEIGHT}" class="grid"/>"#));
        line(body, format_args!(r#"<text x="{at}" y="{}" class="x">{label}</text>"#, top + HEIGHT + 18));
    }
    let (middle, below) = (LEFT + WIDTH / 2, top + HEIGHT + 40);
    line(body, format_args!(r#"<text x="{middle}" y="{below}" class="x">{}</text>"#, escape(picture.across)));
    let barred = |dots: &[Option<Dot>]| dots.iter().flatten().any(|dot| dot.has_bar());
    let with_bars = panel.lines.iter().filter(|(_, dots)| barred(dots)).count() as i64;
    let mut bars_before = 0;
    for (index, (name, dots)) in panel.lines.iter().enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        // Lines that are the same take turns, and their dots are rings around each other.
        let same = |(_, other): &&(String, Vec<Option<Dot>>)| other == dots;
        let (before, alike) =
            (panel.lines[..index].iter().filter(same).count(), panel.lines.iter().filter(same).count());
        let style = match alike {
            1 => style(index),
            _ => format!(
                r#"stroke="{colour}" stroke-dasharray="6 {}" stroke-dashoffset="-{}""#,
                6 * (alike - 1),
                6 * before
            ),
        };
        let known: Vec<(u64, Option<Dot>)> = points.iter().copied().zip(dots.iter().copied()).collect();
        for part in known.split(|(_, dot)| dot.is_none()).filter(|part| !part.is_empty()) {
            let at = |(p, dot): &(u64, Option<Dot>)| Some(format!("{},{}", pixel(x(*p)), pixel(y((*dot)?.value))));
            let path = part.iter().filter_map(at).collect::<Vec<_>>().join(" ");
            line(body, format_args!(r#"<polyline points="{path}" {style}><title>{}</title></polyline>"#, escape(name)));
        }
        let dots = || known.iter().filter_map(|(point, dot)| Some((*point, (*dot)?)));
        let radius = 25 + 15 * (alike - 1 - before) as i64;
        for (point, dot) in dots() {
            let (at, high, radius) = (pixel(x(point)), pixel(y(dot.value)), pixel(radius));
            line(body, format_args!(r#"<cycle cx="{at}" cy="{high}" r="{radius}" fill="{colour}"/>"#));
        }
        // Bars of several lines at one point stand side by side.
        let aside = 20 * bars_before - 10 * (with_bars - 1).max(0);
        let bar = |(point, dot): (u64, Dot)| {
            let (at, low, high) = (x(point) + aside, y(dot.value.saturating_sub(dot.below)), y(dot.top()));
            let (left, high, low) = (pixel(at - 30), pixel(high), pixel(low));
            format!("M{left} {high}h6M{} {high}V{low}M{left} {low}h6", pixel(at))
        };
        let bars: String = dots().filter(|(_, dot)| dot.has_bar()).map(bar).collect();
        if !bars.is_empty() {
            bars_before += 1;
            line(body, format_args!(r#"<path d="{bars}" stroke="{colour}" class="bar"/>"#));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(points: &[u64], top: u64, dots: &[Dot]) -> String {
        let lines = vec![("a<b\u{1}".into(), dots.iter().copied().map(Some).collect())];
        let panels = [Panel { title: String::new(), top, worth: 1_000_000, lines }];
        svg(&Picture { title: "t", note: "n", across: "load", points, panels: &panels })
    }

    #[test]
    fn a_line_runs_from_corner_to_corner() {
        let dots = [(10, 0), (0, 0)].map(|(value, half)| Dot::around(value, half));
        let text = picture(&[2_000_000, 3_000_000], 10, &dots);
        assert!(text.contains(r#"points="56.0,64.0 616.0,424.0""#), "{text}");
        assert!(text.contains("a&lt;b\u{fffd}") && !text.contains("a<b"), "{text}");
        assert!(!text.contains(r#"class="bar""#));
        picture(&[1], 0, &[Dot::around(0, 0)]);
        assert_eq!(picture(&[], 1, &[]), "");
    }

    #[test]
    fn a_bar_ends_at_the_edges() {
        let text = picture(&[2_000_000, 3_000_000], 10, &[Dot::around(5, 1), Dot::around(10, 1)]);
        // A tenth of the height is 36 pixels; above the top there is nothing.
        let bars = "M53.0 208.0h6M56.0 208.0V280.0M53.0 280.0h6M613.0 64.0h6M616.0 64.0V100.0M613.0 100.0h6";
        assert!(text.contains(bars), "{text}");
    }

    #[test]
    fn lines_that_are_the_same_are_all_seen() {
        let dot = |value, half| Some(Dot::around(value, half));
        let lines = |dots: &[Vec<Option<Dot>>]| {
            let named = |(i, dots): (usize, &Vec<Option<Dot>>)| (format!("line {i}"), dots.clone());
            let panel =
                Panel { title: String::new(), top: 10, worth: 10, lines: dots.iter().enumerate().map(named).collect() };
            let points = [1_000_000, 2_000_000, 3_000_000];
            svg(&Picture { title: "t", note: "n", across: "load", points: &points[..dots[0].len()], panels: &[panel] })
        };
        let text = lines(&[vec![dot(5, 1)], vec![dot(5, 1)], vec![dot(6, 0)]]);
        for part in [
            r#"stroke-dasharray="6 6" stroke-dashoffset="-0""#,
            r#"stroke-dasharray="6 6" stroke-dashoffset="-6""#,
            r##"<cycle cx="56.0" cy="244.0" r="4.0" fill="#0072b2"/>"##,
            r##"<cycle cx="56.0" cy="244.0" r="2.5" fill="#e69f00"/>"##,
            // The bars stand beside each other.
            "M52.0 208.0h6M55.0 208.0V280.0",
            "M54.0 208.0h6M57.0 208.0V280.0",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        // What is not known leaves a gap.
        let text = lines(&[vec![dot(5, 0), None, dot(5, 0)]]);
        assert_eq!((text.matches("<polyline").count(), text.matches("<cycle").count()), (2, 2));
    }
}
