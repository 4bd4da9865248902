//! How well a regulator that hands out time in rounds follows its set points: its rounds and bursts as a picture and as CSV.

use crate::gantt::{FILLS, escape, nice, page, px};
use crate::{Header, names};
use std::fmt::Write as _;
use std::io;
use takt_core::model::TaskId;
use takt_core::record::{Place, Record, RecordKind};
use takt_core::time::{Span, Time};

/// Set point and actual value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tracked {
    /// The set point.
    pub set_point: Span,
    /// The measurement.
    pub measured: Span,
    /// The burst of the next round, or what the outer loop adds to it.
    pub next: Span,
}

/// One round and the bursts of its tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Round {
    /// Its end.
    pub at: Time,
    /// The CPU whose regulator it is.
    pub place: Place,
    /// Its duration.
    pub duration: Tracked,
    /// In the order of the round.
    pub bursts: Vec<(TaskId, Tracked)>,
}

/// The rounds of a trace, up to a number that can still be drawn.
#[derive(Clone, Debug, Default)]
pub struct Rounds {
    /// In the order of their ends.
    pub all: Vec<Round>,
    /// Rounds that were not kept.
    pub left_out: u64,
    bursts: usize,
}

/// Rounds that are kept, as long as there are not too many bursts in them; a picture of more would show nothing.
const KEPT_MAX: usize = 50_000;
const BURSTS_MAX: usize = 1_000_000;

impl Rounds {
    /// Takes a record: rounds and bursts are kept, others are passed over.
    pub fn record(&mut self, record: &Record) {
        match record.kind {
            RecordKind::Round { place, set_point, measured, correction } => {
                if self.all.len() >= KEPT_MAX || self.bursts >= BURSTS_MAX {
                    self.left_out += 1;
                    return;
                }
                let duration = Tracked { set_point, measured, next: correction };
                self.all.push(Round { at: record.at, place, duration, bursts: Vec::new() });
            }
            RecordKind::Burst { task, set_point, measured, next } if self.left_out == 0 => {
                if let Some(round) = self.all.last_mut() {
                    self.bursts += 1;
                    round.bursts.push((task, Tracked { set_point, measured, next }));
                }
            }
            _ => {}
        }
    }

    /// The CPUs that have rounds, in their order.
    fn places(&self) -> Vec<Place> {
        let mut places: Vec<Place> = self.all.iter().map(|r| r.place).collect();
        places.sort_unstable();
        places.dedup();
        places
    }
}

/// Writes a line per round (its `task` is empty) and per burst. Rounds are counted from one on each CPU; `next_ns` is the
/// task's next burst, or the outer loop's correction.
///
/// # Errors
/// The error of the output.
pub fn csv(header: &Header, rounds: &Rounds, out: &mut impl io::Write) -> io::Result<()> {
    writeln!(out, "cpu,round,at_ns,task,set_point_ns,measured_ns,next_ns")?;
    let labels: Vec<String> = header.labels().iter().map(|l| crate::csv::quoted(l)).collect();
    let mut count = vec![0_u64; header.places.len()];
    for round in &rounds.all {
        count[round.place.index()] += 1;
        let start = format!("{},{},{}", header.places[round.place.index()], count[round.place.index()], round.at.ns());
        let row = |task: &str, t: &Tracked| {
            format!("{start},{task},{},{},{}", t.set_point.ns(), t.measured.ns(), t.next.ns())
        };
        writeln!(out, "{}", row("", &round.duration))?;
        for (task, tracked) in &round.bursts {
            writeln!(out, "{}", row(&labels[task.index()], tracked))?;
        }
    }
    Ok(())
}

const WIDTH: f64 = 1000.0;
const LEFT: f64 = 74.0;
const RIGHT: f64 = 20.0;
const PLOT: f64 = 190.0;
/// Between two plots: tick labels, the axis label, and the heading of the next.
const BETWEEN: f64 = 76.0;
/// Points that one line has at most, twice over: more than the picture has pixels.
const COLUMNS: usize = 1_200;
const LETTER: f64 = 6.6;

/// One line of a plot: its values by round, where there are any.
struct Line {
    name: String,
    color: &'static str,
    dashed: bool,
    values: Vec<Option<Span>>,
}

/// Draws, for each CPU, the rounds' durations against their set points and below them the tasks' bursts against theirs, over
/// the number of the round: solid is what was measured, dashed is what should have been.
#[must_use]
pub fn svg(header: &Header, rounds: &Rounds) -> String {
    let labels = header.labels();
    let mut body = String::new();
    let mut top = 86.0;
    let places = rounds.places();
    for place in &places {
        let own: Vec<&Round> = rounds.all.iter().filter(|r| r.place == *place).collect();
        let cpu = names::cpus_title(&header.places[place.index()]);
        let line = |name: &str, color, dashed, value: fn(&Round) -> Span| Line {
            name: name.into(),
            color,
            dashed,
            values: own.iter().map(|r| Some(value(r))).collect(),
        };
        let durations = [
            line("duration", FILLS[0].0, false, |r| r.duration.measured),
            line("set point", "#222", true, |r| r.duration.set_point),
        ];
        plot(&mut body, top, &format!("{cpu}: round duration"), "duration (ms)", &durations);
        top += PLOT + BETWEEN;
        let mut bursts = Vec::new();
        for (task, label) in labels.iter().enumerate() {
            let of = |value: fn(&Tracked) -> Span| -> Vec<Option<Span>> {
                let burst = |r: &&Round| r.bursts.iter().find(|(t, _)| t.index() == task).map(|(_, b)| value(b));
                own.iter().map(burst).collect()
            };
            let (values, set_points) = (of(|b| b.measured), of(|b| b.set_point));
            if values.iter().all(Option::is_none) {
                continue;
            }
            let color = FILLS[task % FILLS.len()].0;
            bursts.push(Line { name: String::new(), color, dashed: true, values: set_points });
            bursts.push(Line { name: label.clone(), color, dashed: false, values });
        }
        plot(&mut body, top, &format!("{cpu}: bursts (dashed: set points)"), "burst (ms)", &bursts);
        top += PLOT + BETWEEN;
    }
    if places.is_empty() {
        writeln!(body, r#"<text x="16" y="{}">no rounds were recorded</text>"#, px(top)).expect("a string takes all");
        top += 20.0;
    }
    let heading = escape(&crate::gantt::heading_of(header));
    let dropped = match rounds.left_out {
        0 => String::new(),
        n => format!("; {n} later rounds are not drawn"),
    };
    let head = "<style>
.title { font-size: 15px; font-weight: bold }
.head { font-weight: bold }
.small { font-size: 10.5px; fill: #555 }
</style>";
    let body = format!(
        r#"<text x="16" y="26" class="title">Set-point tracking</text>
<text x="16" y="43" class="small">{heading}{dropped}</text>
{body}"#
    );
    page(&px(WIDTH), &px(top - 20.0), head, &body)
}

fn plot(body: &mut String, top: f64, heading: &str, label: &str, lines: &[Line]) {
    let mut add = |element: std::fmt::Arguments<'_>| {
        body.write_fmt(element).expect("a string takes all");
        body.push('\n');
    };
    let (right, bottom) = (WIDTH - RIGHT, top + PLOT);
    let rounds = lines.iter().map(|l| l.values.len()).max().unwrap_or(0).max(2);
    let highest = lines.iter().flat_map(|l| &l.values).flatten().copied().max().unwrap_or(Span::ZERO);
    let step = nice(Span::from_ns(highest.ns() / 5 + 1), &[10, 20, 25, 50]);
    let full = step * (highest.ns() / step.ns() + 1);
    let y = |value: Span| bottom - value.ns().max(0) as f64 / full.ns() as f64 * PLOT;
    let x = |round: usize| LEFT + round as f64 / (rounds - 1) as f64 * (right - LEFT);

    add(format_args!(r#"<text x="{}" y="{}" class="head">{}</text>"#, px(LEFT), px(top - 10.0), escape(heading)));
    legend(&mut add, top - 10.0, right, lines);
    for k in 0..=full.ns() / step.ns() {
        let at = px(y(step * k));
        add(format_args!(r##"<path d="M{} {at}H{}" stroke="#e3e3e3"/>"##, px(LEFT), px(right)));
        let (x, y) = (px(LEFT - 6.0), px(y(step * k) + 4.0));
        add(format_args!(r#"<text x="{x}" y="{y}" class="small" text-anchor="end">{}</text>"#, ms(step * k)));
    }
    let stride = nice(Span::from_ns((rounds as i64 - 1) / 10 + 1), &[10, 20, 50]).ns() as usize;
    for round in (0..rounds).filter(|r| (r + 1) % stride == 0 || *r == 0) {
        let (at, below) = (px(x(round)), px(bottom + 15.0));
        add(format_args!(r##"<path d="M{at} {}V{}" stroke="#444"/>"##, px(bottom), px(bottom + 4.0)));
        add(format_args!(r#"<text x="{at}" y="{below}" class="small" text-anchor="middle">{}</text>"#, round + 1));
    }
    let (left, base, end) = (px(LEFT), px(bottom), px(right));
    add(format_args!(r##"<path d="M{left} {}V{base}H{end}" fill="none" stroke="#444"/>"##, px(top)));
    let (middle, low) = (px((LEFT + right) / 2.0), px(bottom + 32.0));
    add(format_args!(r#"<text x="{middle}" y="{low}" text-anchor="middle">round</text>"#));
    let turned = px((top + bottom) / 2.0);
    add(format_args!(r#"<text transform="translate(20 {turned}) rotate(-90)" text-anchor="middle">{label}</text>"#));
    for line in lines {
        let mut path = String::new();
        let mut broken = true;
        for (round, value) in thinned(&line.values) {
            match value {
                Some(value) => {
                    let command = if broken { 'M' } else { 'L' };
                    write!(path, "{command}{} {}", px(x(round)), px(y(value))).expect("a string takes all");
                    broken = false;
                }
                None => broken = true,
            }
        }
        let dash = if line.dashed { r#" stroke-dasharray="6 4" stroke-width="1.2""# } else { r#" stroke-width="1.6""# };
        add(format_args!(r#"<path d="{path}" fill="none" stroke="{}"{dash}/>"#, line.color));
    }
}

/// Entries from the right edge to the left.
fn legend(add: &mut impl FnMut(std::fmt::Arguments<'_>), y: f64, right: f64, lines: &[Line]) {
    let mut x = right;
    for line in lines.iter().rev().filter(|l| !l.name.is_empty()) {
        x -= line.name.chars().count() as f64 * LETTER + 34.0;
        let dash = if line.dashed { r#" stroke-dasharray="6 4""# } else { "" };
        let (from, at, text) = (px(x), px(y - 4.0), px(x + 24.0));
        add(format_args!(r#"<path d="M{from} {at}h20" stroke="{}" stroke-width="2"{dash}/>"#, line.color));
        add(format_args!(r#"<text x="{text}" y="{}" class="small">{}</text>"#, px(y), escape(&line.name)));
    }
}

/// The values with their indexes; of a long series the least and the greatest of each column of the picture.
fn thinned(values: &[Option<Span>]) -> Vec<(usize, Option<Span>)> {
    let size = values.len().div_ceil(COLUMNS);
    if size <= 1 {
        return values.iter().copied().enumerate().collect();
    }
    let mut kept = Vec::with_capacity(2 * COLUMNS);
    for (k, part) in values.chunks(size).enumerate() {
        let known = || part.iter().enumerate().filter_map(|(i, v)| Some((k * size + i, (*v)?)));
        match (known().min_by_key(|(_, v)| *v), known().max_by_key(|(_, v)| *v)) {
            (Some(low), Some(high)) => {
                let mut both = [low, high];
                both.sort_unstable();
                kept.extend(both.map(|(i, v)| (i, Some(v))));
            }
            _ => kept.push((k * size, None)),
        }
    }
    kept
}

/// Milliseconds without useless digits.
fn ms(span: Span) -> String {
    let text = format!("{}.{:06}", span.ns() / 1_000_000, span.ns() % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}
