//! Curves as SVG: panels side by side, in each a line for each test or policy over the points of the experiment.

use super::points::ratio;
use std::fmt::Write;
use takt_trace::gantt::{escape, page};

/// A picture of curves.
pub(in crate::commands) struct Picture<'a> {
    pub(in crate::commands) title: &'a str,
    /// Lines below the title.
    pub(in crate::commands) note: &'a str,
    /// The meaning of bars, as the last line below the title; left out where there are no bars.
    pub(in crate::commands) bars: &'a str,
    /// The label of the axis of points, with its unit.
    pub(in crate::commands) across: &'a str,
    /// In millionths, ascending.
    pub(in crate::commands) points: &'a [u64],
    pub(in crate::commands) panels: &'a [Panel],
    /// Points are counts, so that nothing between two of them is a tick.
    pub(in crate::commands) whole: bool,
    /// Width and height in pixels. By default, panels have a usual size.
    pub(in crate::commands) size: Option<Size>,
}

impl Picture<'_> {
    /// Whether a value has a bar.
    pub(super) fn has_bars(&self) -> bool {
        self.panels.iter().flat_map(|p| &p.lines).any(|(_, dots)| dots.iter().flatten().any(|dot| dot.has_bar()))
    }
}

/// Width and height in pixels.
pub(in crate::commands) type Size = (i64, i64);

/// A size as text, such as `900x500`.
pub(super) fn size(text: &str) -> Result<Size, String> {
    let form = || "write width and height in pixels, from 200 to 10000, as in `900x500`".to_owned();
    let (width, height) = text.split_once('x').ok_or_else(form)?;
    let side = |text: &str| text.parse().ok().filter(|side| (200..=10_000).contains(side)).ok_or_else(form);
    Ok((side(width)?, side(height)?))
}

/// One field of curves.
pub(in crate::commands) struct Panel {
    /// The name of the values; empty for a picture whose title says it.
    pub(in crate::commands) title: String,
    /// The values' unit, beside the axis.
    pub(in crate::commands) unit: String,
    /// The value at the upper end, in millionths.
    pub(in crate::commands) top: u64,
    /// The same names in each panel, with a dot for each point; none where nothing is known.
    pub(in crate::commands) lines: Vec<(String, Vec<Option<Dot>>)>,
}

/// A value, and how far up and down from it the true one may be; zero in both directions draws no bar.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::commands) struct Dot {
    pub(in crate::commands) value: u64,
    pub(in crate::commands) below: u64,
    pub(in crate::commands) above: u64,
}

impl Dot {
    /// A value with a confidence interval of this half width.
    pub(in crate::commands) fn around(value: u64, half: u64) -> Dot {
        Dot { value, below: half, above: half }
    }

    /// The highest that the true value may be.
    pub(in crate::commands) fn top(self) -> u64 {
        self.value + self.above
    }

    fn has_bar(self) -> bool {
        self.below > 0 || self.above > 0
    }

    /// Whether its bar is cut off at the frame, at the lower end and at the upper one.
    fn is_clipped(self, top: u64) -> (bool, bool) {
        (self.below > self.value, self.top() > top)
    }
}

/// Colours in turn, from the palette of Okabe and Ito, which colour-blind eyes tell apart.
pub(super) const COLOURS: [&str; 8] =
    ["#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#000000", "#999999"];
/// Dashes in turn. Their number and that of the markers have no factor in common with each other, so that lines with the same
/// colour differ in both.
pub(super) const DASHES: [&str; 5] = ["none", "8 3", "3 3", "10 3 2 3", "1 2"];
const MARKERS: usize = 7;
/// More markers on a line would touch.
const MARKERS_MOST: usize = 40;
/// Characters of a name in the legend.
const NAME_MOST: usize = 32;
/// Width and height of the only panel, and of one among several.
const ALONE: (i64, i64) = (560, 360);
const SMALL: (i64, i64) = (340, 240);
/// The least size of a panel. A picture is larger than requested where its panels would be smaller.
const LEAST: (i64, i64) = (120, 80);
/// Ticks of an axis of values, at most.
const TICKS: usize = 6;
/// Room for a number below the axis.
const NUMBER: i64 = 50;
/// A dash of lines that are the same, and the longest sequence of their dashes, in pixels.
const DASH: usize = 6;
const DASHES_MOST: usize = 24;
/// Room beside a panel for numbers and the unit.
const LEFT: i64 = 96;
const TOP: i64 = 64;
/// From one line of notes to the next.
const NOTE: i64 = 16;
/// Estimated width of a character.
const CHARACTER: i64 = 6;
/// Room below a panel for numbers and the axis' label, and for the next panel's title.
const BELOW: i64 = 84;

/// Tenths of a pixel as text.
fn pixel(tenths: i64) -> String {
    let sign = if tenths < 0 { "-" } else { "" };
    format!("{sign}{}.{}", tenths.abs() / 10, tenths.abs() % 10)
}

/// A name that is too long for the legend, without its middle: settings tell names apart at the end, policies at the beginning.
fn shortened(name: &str) -> String {
    let characters: Vec<char> = name.chars().collect();
    if characters.len() <= NAME_MOST {
        return name.into();
    }
    let (head, tail) = (NAME_MOST / 2, NAME_MOST - NAME_MOST / 2 - 1);
    characters[..head].iter().chain(&['…']).chain(&characters[characters.len() - tail..]).collect()
}

/// Breaks a line between words, so that no part is longer than `most` characters where words allow it.
fn wrapped(text: &str, most: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut long = 0;
    for word in text.split(' ') {
        let characters = word.chars().count();
        if long > 0 && long + 1 + characters > most {
            lines.push(String::new());
            long = 0;
        }
        let line = lines.last_mut().expect("one is there from the beginning");
        if long > 0 {
            line.push(' ');
            long += 1;
        }
        line.push_str(word);
        long += characters;
    }
    lines
}

/// Round numbers from `first` to `last`: multiples of 1, 2, 2.5 or 5 times a power of ten and of `unit`, at most `most` of them.
fn ticks(first: u64, last: u64, unit: u64, most: usize) -> Vec<u64> {
    if first == last {
        return vec![first];
    }
    let powers = (0..18).map(|digits| 10_u64.pow(digits));
    let tenths = powers.flat_map(|power| [10, 20, 25, 50].map(|tenths| tenths * power));
    let mut steps = tenths.filter(|tenths| tenths % 10 == 0).map(|tenths| tenths / 10).filter(|step| step % unit == 0);
    let count = |step: &u64| (last / step + 1 - first.div_ceil(*step)) as usize;
    let step = steps.find(|step| count(step) <= most).unwrap_or(last - first);
    (first.div_ceil(step)..=last / step).map(|k| k * step).collect()
}

/// Where panels of this size stand.
struct Layout {
    size: (i64, i64),
    columns: i64,
    /// The top of the first row.
    first: i64,
}

impl Layout {
    fn corner(&self, index: usize) -> (i64, i64) {
        let (row, column) = (index as i64 / self.columns, index as i64 % self.columns);
        (LEFT + (self.size.0 + LEFT) * column, self.first + (self.size.1 + BELOW) * row)
    }

    fn right(&self) -> i64 {
        (self.size.0 + LEFT) * self.columns
    }
}

/// Draws the picture; empty without points.
pub(in crate::commands) fn svg(picture: &Picture<'_>) -> String {
    if picture.points.is_empty() {
        return String::new();
    }
    let panels = picture.panels.len();
    let columns = match panels {
        0 | 1 => 1,
        2 | 4 => 2,
        _ => 3,
    };
    let mut layout = Layout { size: if panels < 2 { ALONE } else { SMALL }, columns, first: 0 };
    let names: Vec<&str> =
        picture.panels.first().into_iter().flat_map(|p| &p.lines).map(|(name, _)| name.as_str()).collect();
    let longest = names.iter().map(|name| shortened(name).chars().count() as i64).max().unwrap_or(0);
    let beside = 20 + 52 + (CHARACTER + 1) * longest;
    if let Some((width, _)) = picture.size {
        layout.size.0 = ((width - beside) / columns - LEFT).max(LEAST.0);
    }
    let legend = layout.right() + 20;
    let width = (layout.right() + beside).max(picture.size.map_or(0, |(width, _)| width));
    let mut notes: Vec<String> =
        picture.note.split('\n').flat_map(|note| wrapped(note, ((width - 32) / CHARACTER) as usize)).collect();
    let clipped = |dot: &Dot, panel: &Panel| dot.has_bar() && dot.is_clipped(panel.top) != (false, false);
    let dots = || {
        picture
            .panels
            .iter()
            .flat_map(|p| p.lines.iter().flat_map(move |(_, dots)| dots.iter().flatten().map(move |d| (d, p))))
    };
    if picture.has_bars() {
        let arrows = if dots().any(|(dot, panel)| clipped(dot, panel)) {
            "; an arrow head: it continues beyond the frame"
        } else {
            ""
        };
        notes.push(format!("{}{arrows}", picture.bars));
    }
    // A title of a panel needs a line of its own below the notes.
    let titled = picture.panels.iter().any(|p| !p.title.is_empty());
    layout.first = TOP + NOTE * (notes.len() as i64 - 1) + if titled { 16 } else { 0 };
    let rows = (panels.max(1) as i64 + columns - 1) / columns;
    let below = 56 - BELOW;
    if let Some((_, height)) = picture.size {
        layout.size.1 = ((height - layout.first - below) / rows - BELOW).max(LEAST.1);
    }
    let mut body = String::new();
    line(&mut body, format_args!(r#"<text x="16" y="24" class="title">{}</text>"#, escape(picture.title)));
    for (index, note) in notes.iter().enumerate() {
        line(&mut body, format_args!(r#"<text x="16" y="{}">{}</text>"#, 44 + NOTE * index as i64, escape(note)));
    }
    for (index, panel) in picture.panels.iter().enumerate() {
        draw(&mut body, picture, panel, layout.corner(index), layout.size);
    }
    for (index, name) in names.iter().enumerate() {
        let row = layout.first + 8 + 18 * index as i64;
        let (style, colour) = (style(index), COLOURS[index % COLOURS.len()]);
        line(&mut body, format_args!(r#"<path d="M{legend} {row}h36" {style} class="key"/>"#));
        let marker = marker(index, (legend + 18) * 10, row * 10, 30);
        line(&mut body, format_args!(r#"<path d="{marker}" fill="{colour}" stroke="{colour}" class="mark"/>"#));
        let (whole, name) = (escape(name), escape(&shortened(name)));
        let title = if whole == name { String::new() } else { format!("<title>{whole}</title>") };
        line(&mut body, format_args!(r#"<text x="{}" y="{row}" dy="4">{name}{title}</text>"#, legend + 44));
    }
    let height = layout.first + (layout.size.1 + BELOW) * rows + below;
    let height =
        height.max(layout.first + 18 * names.len() as i64 + 16).max(picture.size.map_or(0, |(_, height)| height));
    let head = "<style>text{font:11px sans-serif;fill:#222}text.title{font-size:15px;font-weight:bold}.y{text-anchor:end}\
         .x{text-anchor:middle}text.panel{font-weight:bold}.grid{stroke:#ddd;fill:none}.axis{stroke:#444;fill:none}\
         polyline,.key{fill:none;stroke-width:1.6}.bar{fill:none;stroke-width:1}.mark{stroke-width:1}</style>";
    page(&width, &height, head, &body)
}

fn line(body: &mut String, element: std::fmt::Arguments<'_>) {
    body.write_fmt(element).expect("a string takes all");
    body.push('\n');
}

/// Colour and dashes of a line.
fn style(index: usize) -> String {
    let (colour, dash) = (COLOURS[index % COLOURS.len()], DASHES[index % DASHES.len()]);
    format!(r#"stroke="{colour}" stroke-dasharray="{dash}""#)
}

/// The outline of a line's marker around a place, in tenths of a pixel.
fn marker(index: usize, x: i64, y: i64, size: i64) -> String {
    let point = |(right, down): (i64, i64)| format!("{} {}", pixel(x + right), pixel(y + down));
    let polygon =
        |points: &[(i64, i64)]| format!("M{}z", points.iter().map(|p| point(*p)).collect::<Vec<_>>().join("L"));
    let stroke = |from, to| format!("M{}L{}", point(from), point(to));
    let (s, less, more) = (size, size * 7 / 8, size * 5 / 4);
    match index % MARKERS {
        0 => {
            let (radius, width) = (pixel(s), pixel(2 * s));
            format!("M{}a{radius} {radius} 0 1 0 {width} 0a{radius} {radius} 0 1 0 -{width} 0z", point((-s, 0)))
        }
        1 => polygon(&[(-less, -less), (less, -less), (less, less), (-less, less)]),
        2 => polygon(&[(0, -more), (more, s), (-more, s)]),
        3 => polygon(&[(0, -more), (more, 0), (0, more), (-more, 0)]),
        4 => polygon(&[(0, more), (more, -s), (-more, -s)]),
        5 => stroke((-more, 0), (more, 0)) + &stroke((0, -more), (0, more)),
        _ => stroke((-s, -s), (s, s)) + &stroke((-s, s), (s, -s)),
    }
}

/// The frame of a panel with its numbers.
fn frame(
    body: &mut String,
    picture: &Picture<'_>,
    panel: &Panel,
    (left, top): (i64, i64),
    (wide, high): (i64, i64),
    x: &dyn Fn(u64) -> i64,
) {
    if !panel.title.is_empty() {
        line(body, format_args!(r#"<text x="{left}" y="{}" class="panel">{}</text>"#, top - 8, escape(&panel.title)));
    }
    // Large numbers are counts.
    let is_count = panel.top >= 10_000_000;
    for value in ticks(0, panel.top, 1, TICKS) {
        let up = i128::from(value) * i128::from(high * 10) / i128::from(panel.top.max(1));
        let at = pixel((top + high) * 10 - up as i64);
        let label = ratio(value);
        let label = if is_count { label.trim_end_matches(".0") } else { &label };
        line(body, format_args!(r#"<path d="M{left} {at}h{wide}" class="grid"/>"#));
        line(body, format_args!(r#"<text x="{}" y="{at}" dy="4" class="y">{label}</text>"#, left - 8));
    }
    let points = picture.points;
    let unit = if picture.whole { 1_000_000 } else { 1 };
    for point in ticks(points[0], points[points.len() - 1], unit, (wide / NUMBER).max(2) as usize) {
        let at = pixel(x(point));
        let label = ratio(point);
        let label = if picture.whole { label.trim_end_matches(".0") } else { &label };
        line(body, format_args!(r#"<path d="M{at} {top}v{high}" class="grid"/>"#));
        line(body, format_args!(r#"<text x="{at}" y="{}" class="x">{label}</text>"#, top + high + 18));
    }
    line(body, format_args!(r#"<path d="M{left} {top}v{high}h{wide}" class="axis"/>"#));
    let (middle, below) = (left + wide / 2, top + high + 40);
    line(body, format_args!(r#"<text x="{middle}" y="{below}" class="x">{}</text>"#, escape(picture.across)));
    let turned = format!("translate({} {}) rotate(-90)", left - 68, top + high / 2);
    line(body, format_args!(r#"<text transform="{turned}" class="x">{}</text>"#, escape(&panel.unit)));
}

fn draw(body: &mut String, picture: &Picture<'_>, panel: &Panel, corner: (i64, i64), size: (i64, i64)) {
    let ((left, top), (wide, high)) = (corner, size);
    let points = picture.points;
    let first = points[0];
    let across = (points[points.len() - 1] - first).max(1) as i64;
    let x = |point: u64| left * 10 + (point - first) as i64 * wide * 10 / across;
    let y = |value: u64| {
        let up = i128::from(value.min(panel.top)) * i128::from(high * 10) / i128::from(panel.top.max(1));
        (top + high) * 10 - up as i64
    };
    frame(body, picture, panel, corner, size, &x);
    let barred = |dots: &[Option<Dot>]| dots.iter().flatten().any(|dot| dot.has_bar());
    let with_bars = panel.lines.iter().filter(|(_, dots)| barred(dots)).count() as i64;
    let mut bars_before = 0;
    for (index, (name, dots)) in panel.lines.iter().enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        // Lines that are the same between two points take turns there, and their markers are of different sizes.
        let value = |dots: &[Option<Dot>], at: usize| dots.get(at).copied().flatten().map(|dot| dot.value);
        let alike = |same: &dyn Fn(&[Option<Dot>]) -> bool| {
            let before = panel.lines[..index].iter().filter(|(_, other)| same(other)).count();
            (before, panel.lines.iter().filter(|(_, other)| same(other)).count())
        };
        let at_point = |at: usize| alike(&|other| value(other, at) == value(dots, at));
        let after = |at: usize| alike(&|other| [at, at + 1].iter().all(|at| value(other, *at) == value(dots, *at)));
        let known: Vec<(u64, Option<Dot>)> = points.iter().copied().zip(dots.iter().copied()).collect();
        let place = |at: usize| Some((x(known[at].0), y(known.get(at)?.1?.value)));
        let is_drawn = |at: &usize| place(*at).is_some() && known.get(at + 1).is_some_and(|(_, dot)| dot.is_some());
        let segments: Vec<(usize, (usize, usize))> =
            (0..known.len()).filter(is_drawn).map(|at| (at, after(at))).collect();
        for run in segments.chunk_by(|(a, turn), (b, other)| a + 1 == *b && turn == other) {
            let (before, alike) = run[0].1;
            let style = match alike {
                1 => style(index),
                _ => {
                    let dash = (DASHES_MOST / alike).clamp(2, DASH);
                    let (gap, offset) = (dash * (alike - 1), dash * before);
                    format!(r#"stroke="{colour}" stroke-dasharray="{dash} {gap}" stroke-dashoffset="-{offset}""#)
                }
            };
            let ends = run.iter().map(|(at, _)| *at).chain([run[run.len() - 1].0 + 1]);
            let path: Vec<String> = ends.filter_map(place).map(|(x, y)| format!("{},{}", pixel(x), pixel(y))).collect();
            line(
                body,
                format_args!(
                    r#"<polyline points="{}" {style}><title>{}</title></polyline>"#,
                    path.join(" "),
                    escape(name)
                ),
            );
        }
        let every = known.len().div_ceil(MARKERS_MOST);
        for at in 0..known.len() {
            let Some((x, y)) = place(at) else { continue };
            // A point without neighbours has nothing but its marker.
            let alone = !is_drawn(&at) && (at == 0 || !is_drawn(&(at - 1)));
            if alone || at % every == 0 {
                let (before, alike) = at_point(at);
                let step = 15.min(60 / alike);
                let marker = marker(index, x, y, 25 + (step * (alike - 1 - before)) as i64);
                line(body, format_args!(r#"<path d="{marker}" fill="{colour}" stroke="{colour}" class="mark"/>"#));
            }
        }
        // Bars of several lines at one point stand side by side.
        let aside = 20 * bars_before - 10 * (with_bars - 1).max(0);
        let dots = known.iter().filter_map(|(point, dot)| Some((*point, (*dot)?)));
        let bar = |(point, dot): (u64, Dot)| {
            let (at, low, high) = (x(point) + aside, y(dot.value.saturating_sub(dot.below)), y(dot.top()));
            let end = |clipped: bool, y: i64, inwards: i64| match clipped {
                true => {
                    let (left, right, back) = (pixel(at - 30), pixel(at + 30), pixel(y + inwards));
                    format!("M{left} {back}L{} {}L{right} {back}", pixel(at), pixel(y))
                }
                false => format!("M{} {}h6", pixel(at - 30), pixel(y)),
            };
            let (below, above) = dot.is_clipped(panel.top);
            let stem = format!("M{} {}V{}", pixel(at), pixel(high), pixel(low));
            end(above, high, 50) + &stem + &end(below, low, -50)
        };
        let bars: String = dots.filter(|(_, dot)| dot.has_bar()).map(bar).collect();
        if !bars.is_empty() {
            bars_before += 1;
            line(body, format_args!(r#"<path d="{bars}" stroke="{colour}" class="bar"/>"#));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panel(title: &str, top: u64, lines: Vec<(String, Vec<Option<Dot>>)>) -> Panel {
        Panel { title: title.into(), unit: "part".into(), top, lines }
    }

    fn drawn(points: &[u64], panels: &[Panel]) -> String {
        sized(points, panels, None)
    }

    fn sized(points: &[u64], panels: &[Panel], size: Option<Size>) -> String {
        let whole = false;
        svg(&Picture { title: "t", note: "n", bars: "bars: b", across: "load", points, panels, whole, size })
    }

    fn picture(points: &[u64], top: u64, dots: &[Dot]) -> String {
        drawn(points, &[panel("", top, vec![("a<b\u{1}".into(), dots.iter().copied().map(Some).collect())])])
    }

    #[test]
    fn a_line_runs_from_corner_to_corner() {
        let dots = [(10, 0), (0, 0)].map(|(value, half)| Dot::around(value, half));
        let text = picture(&[2_000_000, 3_000_000], 10, &dots);
        assert!(text.contains(r#"points="96.0,64.0 656.0,424.0""#), "{text}");
        assert!(text.contains("a&lt;b\u{fffd}") && !text.contains("a<b"), "{text}");
        assert!(!text.contains(r#"class="bar""#) && !text.contains("bars: b"));
        assert!(text.contains(r#"rotate(-90)" class="x">part</text>"#), "{text}");
        picture(&[1], 0, &[Dot::around(0, 0)]);
        assert_eq!(picture(&[], 1, &[]), "");
    }

    #[test]
    fn a_bar_that_is_clipped_at_the_frame_ends_in_an_arrow_head() {
        let text = picture(&[2_000_000, 3_000_000], 10, &[Dot::around(5, 1), Dot::around(10, 1)]);
        // The line that explains bars takes 16 pixels. A tenth of the height is 36 pixels.
        let inside = "M93.0 224.0h6M96.0 224.0V296.0M93.0 296.0h6";
        let clipped = "M653.0 85.0L656.0 80.0L659.0 85.0M656.0 80.0V116.0M653.0 116.0h6";
        assert!(text.contains(&format!("{inside}{clipped}")), "{text}");
        assert!(text.contains("bars: b; an arrow head: it continues beyond the frame"), "{text}");
        let text = picture(&[2_000_000], 10, &[Dot::around(1, 2)]);
        assert!(text.contains("M96.0 332.0V440.0M93.0 435.0L96.0 440.0L99.0 435.0"), "{text}");
        let text = picture(&[2_000_000], 10, &[Dot::around(1, 1)]);
        assert!(text.contains("bars: b<") && !text.contains('L'), "{text}");
    }

    #[test]
    fn lines_differ_in_more_than_colour() {
        let marks: Vec<String> = (0..MARKERS).map(|index| marker(index, 0, 0, 30)).collect();
        let combinations = |index: usize| (index % COLOURS.len(), index % DASHES.len(), index % MARKERS);
        for index in 0..280 {
            assert!((0..index).all(|other| combinations(other) != combinations(index)), "{index}");
            // Without colours, the first 35 differ.
            assert!(index >= 35 || (0..index).all(|other| (other % 5, other % 7) != (index % 5, index % 7)));
        }
        assert!((1..MARKERS).all(|index| !marks[..index].contains(&marks[index])));
        assert_eq!(marks[0], "M-3.0 0.0a3.0 3.0 0 1 0 6.0 0a3.0 3.0 0 1 0 -6.0 0z");
        assert_eq!(marks[3], "M0.0 -3.7L3.7 0.0L0.0 3.7L-3.7 0.0z");
    }

    #[test]
    fn lines_that_are_the_same_are_all_seen() {
        let dot = |value, half| Some(Dot::around(value, half));
        let lines = |dots: &[Vec<Option<Dot>>]| {
            let named = |(i, dots): (usize, &Vec<Option<Dot>>)| (format!("line {i}"), dots.clone());
            let points = [1_000_000, 2_000_000, 3_000_000, 4_000_000];
            drawn(&points[..dots[0].len()], &[panel("", 10, dots.iter().enumerate().map(named).collect())])
        };
        let text = lines(&[vec![dot(5, 1); 2], vec![dot(5, 1); 2], vec![dot(6, 0); 2]]);
        for part in [
            r#"stroke-dasharray="6 6" stroke-dashoffset="-0""#,
            r#"stroke-dasharray="6 6" stroke-dashoffset="-6""#,
            // The marker of the first is the larger one.
            &format!(r##"<path d="{}" fill="#0072b2""##, marker(0, 960, 2600, 40)),
            &format!(r##"<path d="{}" fill="#e69f00""##, marker(1, 960, 2600, 25)),
            // The bars stand beside each other.
            "M92.0 224.0h6M95.0 224.0V296.0",
            "M94.0 224.0h6M97.0 224.0V296.0",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        // An unknown value leaves a gap. A marker is in the legend.
        let text = lines(&[vec![dot(5, 0), dot(5, 0), None, dot(5, 0)]]);
        assert_eq!((text.matches("<polyline").count(), text.matches(r#"class="mark""#).count()), (1, 4));
    }

    /// Two lines fall to zero at different points, and are the same from there on.
    #[test]
    fn lines_at_zero_are_all_seen() {
        let dots = |values: [u64; 4]| values.map(|value| Some(Dot::around(value, 0))).to_vec();
        let lines = vec![("a".into(), dots([9, 0, 0, 0])), ("b".into(), dots([10, 5, 0, 0]))];
        let text = drawn(&[1_000_000, 2_000_000, 3_000_000, 4_000_000], &[panel("", 10, lines)]);
        let polylines: Vec<&str> = text.lines().filter(|line| line.starts_with("<polyline")).collect();
        assert_eq!(polylines.len(), 4, "{text}");
        for (number, turn) in [(1, "6 6\" stroke-dashoffset=\"-0"), (3, "6 6\" stroke-dashoffset=\"-6")] {
            assert!(polylines[number].contains(turn) && polylines[number].contains("656.0,424.0"), "{polylines:?}");
        }
        assert!(polylines[0].contains("dasharray=\"none\""), "{polylines:?}");
        // Eleven lines at zero all have their turn within the distance of two points.
        let many: Vec<_> = (0..11).map(|n| (format!("line {n}"), dots([0; 4]))).collect();
        let text = drawn(&[1_000_000, 2_000_000, 3_000_000, 4_000_000], &[panel("", 10, many)]);
        assert!((0..11).all(|n| text.contains(&format!("\"2 20\" stroke-dashoffset=\"-{}\"", 2 * n))), "{text}");
    }

    #[test]
    fn ticks_are_round() {
        let of = |first, last, unit, most| ticks(first, last, unit, most);
        assert_eq!(
            of(2_050_000, 4_000_000, 1, 11),
            [
                2_200_000, 2_400_000, 2_600_000, 2_800_000, 3_000_000, 3_200_000, 3_400_000, 3_600_000, 3_800_000,
                4_000_000
            ]
        );
        assert_eq!(of(0, 35_000_000, 1, 6), [0, 10_000_000, 20_000_000, 30_000_000]);
        assert_eq!(of(0, 1_000_000, 1, 6), [0, 200_000, 400_000, 600_000, 800_000, 1_000_000]);
        assert_eq!(of(4_000_000, 5_000_000, 1_000_000, 6), [4_000_000, 5_000_000]);
        assert_eq!((of(7, 7, 1, 6), of(0, 0, 1, 6), of(3, 4, 1, 2)), (vec![7], vec![0], vec![3, 4]));
    }

    #[test]
    fn a_picture_has_the_size_that_is_asked_for() {
        let lines = || vec![("a".to_string(), vec![Some(Dot::around(10, 0)); 2])];
        for panels in [1, 2, 5] {
            let panels: Vec<Panel> = (0..panels).map(|n| panel(&format!("p{n}"), 10, lines())).collect();
            let text = sized(&[1_000_000, 2_000_000], &panels, Some((1200, 900)));
            assert!(text.contains(r#"width="1200" height="900""#), "{text}");
        }
        // The axis of one panel ends where room for its legend and labels begins.
        let text = sized(&[1_000_000, 2_000_000], &[panel("", 10, lines())], Some((700, 400)));
        assert!(text.contains(r#"<path d="M96 64v280h525" class="axis"/>"#), "{text}");
        let small = sized(&[1_000_000, 2_000_000], &[panel("", 10, lines())], Some((200, 200)));
        assert!(small.contains(r#"<path d="M96 64v80h120" class="axis"/>"#), "{small}");
        assert_eq!((size("900x500"), size("10000x200")), (Ok((900, 500)), Ok((10_000, 200))));
        assert!(
            ["", "900", "900x", "199x300", "900x10001", "9e2x500", "-900x500"].iter().all(|text| size(text).is_err())
        );
    }

    #[test]
    fn many_points_have_some_markers() {
        let points: Vec<u64> = (1..=100).map(|n| n * 1_000_000).collect();
        let mut dots: Vec<Option<Dot>> = points.iter().map(|_| Some(Dot::around(1, 0))).collect();
        let count = |dots: &[Option<Dot>]| {
            drawn(&points, &[panel("", 10, vec![("a".into(), dots.to_vec())])]).matches(r#"class="mark""#).count() - 1
        };
        // Every third of 100.
        assert_eq!(count(&dots), 34);
        // The point at index 50 has no neighbours, and is none of the thirds.
        (dots[49], dots[51]) = (None, None);
        assert_eq!(count(&dots), 34 - 1 + 1);
    }

    #[test]
    fn panels_are_side_by_side() {
        let lines = |_: usize| vec![("a".to_string(), vec![Some(Dot::around(10, 0))])];
        for (count, corners) in [
            (2, vec![(96, 80), (532, 80)]),
            (4, vec![(96, 80), (532, 80), (96, 404), (532, 404)]),
            (5, vec![(96, 80), (532, 80), (968, 80), (96, 404), (532, 404)]),
        ] {
            let panels: Vec<Panel> = (0..count).map(|n| panel(&format!("p{n}"), 10, lines(n))).collect();
            let text = drawn(&[1_000_000], &panels);
            for (number, (left, top)) in corners.into_iter().enumerate() {
                let title = format!(r#"<text x="{left}" y="{}" class="panel">p{number}</text>"#, top - 8);
                assert!(text.contains(&title), "{title}: {text}");
            }
        }
    }

    #[test]
    fn long_texts_keep_their_ends() {
        let name = "p-edf:placement=first-fit-decreasing,quantum=2ms";
        assert_eq!(shortened(name), "p-edf:placement=…ing,quantum=2ms");
        assert_eq!(shortened(name).chars().count(), NAME_MOST);
        assert_eq!(shortened("g-edf"), "g-edf");
        let text = drawn(&[1], &[panel("", 1, vec![(name.into(), vec![None])])]);
        assert!(text.contains(&format!("<title>{name}</title>")), "{text}");
        assert_eq!(wrapped("ab cd efghij k", 5), ["ab cd", "efghij", "k"]);
        assert_eq!(wrapped("", 5), [""]);
    }
}
