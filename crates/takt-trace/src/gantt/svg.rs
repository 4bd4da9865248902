//! The chart as a picture.

use super::curves::{LANE, lanes};
use super::rows::{cpu_rows, groups, heading, nice, range, titles};
use super::xml::{escape, page, px};
use crate::timeline::{Interval, Job, Timeline};
use crate::{Trace, names};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use takt_core::model::ResourceId;
use takt_core::record::{JobId, Outcome};
use takt_core::time::{Span, Time};

/// How a picture is drawn.
#[derive(Clone, Debug)]
pub struct SvgOptions {
    /// Width in pixels; at least 400.
    pub width: u32,
    /// The first instant shown.
    pub from: Time,
    /// Where the chart ends; by default with the trace.
    pub to: Option<Time>,
    /// The heading; by default policy, workload and source.
    pub title: Option<String>,
    /// A line below the chart.
    pub note: Option<String>,
}

impl Default for SvgOptions {
    fn default() -> Self {
        SvgOptions { width: 1200, from: Time::ZERO, to: None, title: None, note: None }
    }
}

/// Fills of tasks, in turn, and whether white letters stand out on them. From the palette of Okabe and Ito, which
/// colour-blind eyes tell apart; its red is kept for misses. From the second turn on, hatching is added.
pub(crate) const FILLS: [(&str, bool); 7] = [
    ("#0072b2", true),
    ("#e69f00", false),
    ("#009e73", true),
    ("#56b4e9", false),
    ("#cc79a7", false),
    ("#f0e442", false),
    ("#999999", false),
];
/// Lines where policies are switched.
const SWITCH: &str = "#7b3294";
const RED: &str = "#c1121f";
/// Characters of a label.
const LABEL_MOST: usize = 30;
const MARGIN: f64 = 16.0;
const CPU_LANE: f64 = 26.0;
const TASK_LANE: f64 = 26.0;
const ARROW_ROOM: f64 = 12.0;
const GROUP_LINE: f64 = 22.0;
/// Estimated width of a character of the labels' size.
const CHARACTER: f64 = 6.6;
/// The legend names so many resources: colours repeat after them.
const RESOURCES_NAMED: usize = FILLS.len();
/// Things closer than this, in pixels, are drawn as one: a long trace gives a finite picture.
const FINEST: f64 = 0.6;
/// Bars that are narrower than this, in pixels, with narrower gaps between them, are drawn as load per column of that width.
const COLUMN: f64 = 1.0;
/// The same of arrows, whose heads are wider.
const FINEST_ARROW: f64 = 4.0;
/// A lane with more jobs than one in so many pixels has ticks in place of arrows, whose heads would touch.
const ARROW: f64 = 14.0;
/// A bar that is narrower than this disappears below the arrow of its release.
const THIN: f64 = 2.0;
/// A lane with more jobs than fit so close shows only misses.
const FINEST_TICK: f64 = 2.0;
const FINEST_MISS: f64 = 1.0;
/// Lines of those that wait for a resource, and of those that sleep.
const LOCKED_OUT: &str = "#d55e00";
const ASLEEP: &str = "#9ecae1";
/// Fill of what several tasks did in too little space.
const MIXED: &str = "#5f5f5f";

/// A sign that the legend explains where it occurs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Mark {
    Arrow,
    Tick,
    Waiting,
    LockedOut,
    Asleep,
    Holds(ResourceId),
    Handler,
    Load,
    MissedArrow,
    MissedTick,
    Late,
    Cut,
    Call,
    Refused,
    Switch,
}

struct Picture {
    body: String,
    from: Time,
    to: Time,
    left: f64,
    right: f64,
    drawn: BTreeSet<Mark>,
}

impl Picture {
    fn x(&self, t: Time) -> f64 {
        let part = (t - self.from).ns() as f64 / (self.to - self.from).ns() as f64;
        self.left + part.clamp(0.0, 1.0) * (self.right - self.left)
    }
    fn shows(&self, t: Time) -> bool {
        t >= self.from && t <= self.to
    }
    fn add(&mut self, element: std::fmt::Arguments<'_>) {
        self.body.write_fmt(element).expect("a string takes all");
        self.body.push('\n');
    }
}

fn short(text: &str, most: usize) -> String {
    if text.chars().count() <= most { text.into() } else { text.chars().take(most - 1).chain(['…']).collect() }
}

fn fill(task: usize) -> (&'static str, bool) {
    FILLS[task % FILLS.len()]
}

/// Draws a trace as SVG: the windows, a lane per CPU that was used, a lane per task with releases (arrow up), deadlines
/// (arrow down) and misses (red). Where several stretches of running fall into one pixel, the height shows the part of it in which
/// the CPU or task runs. Hovering over a bar tells what it is.
#[must_use]
pub fn svg(trace: &Trace, options: &SvgOptions) -> String {
    let line = Timeline::of(trace);
    let (from, to) = range(&line, options.from, options.to).unwrap_or((options.from, options.from + Span::from_ns(1)));
    let labels = titles(trace, str::to_owned);
    let cpus = cpu_rows(trace, &line, from, to);
    let groups = groups(trace);
    let grouped = groups.iter().any(|(name, _)| name.is_some());

    let names = labels.iter().map(|l| l.chars().count().min(LABEL_MOST));
    let lanes = lanes(trace, &line);
    let letters = lanes.iter().map(|lane| lane.letters().min(LABEL_MOST));
    let longest =
        names.chain(letters).chain(cpus.iter().map(|(l, _)| l.len().min(LABEL_MOST))).max().unwrap_or(0).max(8);
    let left = MARGIN + 22.0 + longest as f64 * CHARACTER + 10.0;
    let width = f64::from(options.width.max(400));
    let mut p = Picture { body: String::new(), from, to, left, right: width - MARGIN - 24.0, drawn: BTreeSet::new() };

    let title = options.title.clone().unwrap_or_else(|| heading(trace));
    p.add(format_args!(r#"<text x="{}" y="26" class="title">{}</text>"#, px(MARGIN), escape(&title)));
    let mut y = 44.0;
    let top = y;
    let windows_height = if line.windows.is_empty() { 0.0 } else { 22.0 };
    y += windows_height;
    let first_cpu = y;
    y += cpus.len() as f64 * CPU_LANE + 8.0;
    let mut rows: Vec<(Option<&str>, usize, f64)> = Vec::new();
    for (name, tasks) in &groups {
        let mut name = grouped.then(|| name.unwrap_or("no partition"));
        for &task in tasks {
            y += if name.is_some() { GROUP_LINE } else { 0.0 };
            y += if has_deadlines(&line, task) { ARROW_ROOM } else { 0.0 };
            rows.push((name.take(), task, y));
            y += TASK_LANE;
        }
    }
    let first_lane = y + 4.0;
    let bottom = y + 6.0 + lanes.len() as f64 * LANE;

    grid(&mut p, top, bottom);
    windows(&mut p, &line, top, bottom);
    for (i, (label, set)) in cpus.iter().enumerate() {
        let y = first_cpu + i as f64 * CPU_LANE;
        let cpu = set.iter().next().unwrap_or(0);
        let label = short(label, LABEL_MOST);
        p.add(format_args!(r#"<text x="{}" y="{}">{label}</text>"#, px(MARGIN), px(y + 17.0)));
        let on = |interval: &&Interval| trace.header.places[interval.place.index()].contains(cpu);
        bars(&mut p, trace, &labels, line.intervals.iter().filter(on), y + 4.0, CPU_LANE - 8.0, true);
    }
    for &(name, task, y) in &rows {
        if let Some(name) = name {
            let name = escape(&short(name, 40));
            p.add(format_args!(
                r#"<text x="{}" y="{}" class="group">{name}</text>"#,
                px(MARGIN),
                px(y - if has_deadlines(&line, task) { ARROW_ROOM } else { 0.0 } - 4.0)
            ));
        }
        task_lane(&mut p, trace, &line, &labels, task, y);
    }
    for (i, lane) in lanes.iter().enumerate() {
        let y = first_lane + i as f64 * LANE;
        let mut drawn = String::new();
        lane.draw((MARGIN, y, p.right), (p.from, p.to), &|t| p.x(t), &mut drawn);
        p.body += &drawn;
    }
    switches(&mut p, &line, top, bottom);
    let mut height = legend(&mut p, trace, bottom + 40.0) + 22.0;
    if let Some(note) = &options.note {
        p.add(format_args!(r#"<text x="{}" y="{}" class="small">{}</text>"#, px(MARGIN), px(height), escape(note)));
        height += 14.0;
    }

    let head = format!(
        r##"<style>
.title {{ font-size: 15px; font-weight: bold }}
.group {{ font-weight: bold; fill: #555 }}
.small {{ font-size: 10.5px; fill: #555 }}
.in {{ font-size: 11px; text-anchor: middle }}
</style>
<defs>
<pattern id="hatch" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect width="1.6" height="5" fill="#000" fill-opacity=".55"/></pattern>
<pattern id="handler" width="4" height="4" patternUnits="userSpaceOnUse"><rect width="4" height="1.6" fill="#fff"/></pattern>
<pattern id="late" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(-45)"><rect width="2" height="5" fill="{RED}"/></pattern>
</defs>"##
    );
    page(&px(width), &px(height), &head, &p.body)
}

/// Vertical lines at round instants, with the time below.
fn grid(p: &mut Picture, top: f64, bottom: f64) {
    let least = (p.to - p.from).ns() as f64 * 80.0 / (p.right - p.left);
    let step = nice(Span::from_ns((least as i64).max(1)), &[10, 20, 25, 50]);
    let first = -(-p.from.ns()).div_euclid(step.ns());
    let (right, left) = (p.right, p.left);
    for k in first.. {
        let Some(ns) = k.checked_mul(step.ns()).filter(|ns| *ns <= p.to.ns()) else { break };
        let t = Time::from_ns(ns);
        let x = px(p.x(t));
        p.add(format_args!(r##"<path d="M{x} {}V{}" stroke="#e3e3e3"/>"##, px(top), px(bottom)));
        let y = px(bottom + 15.0);
        p.add(format_args!(r#"<text x="{x}" y="{y}" class="small" text-anchor="middle">{t}</text>"#));
    }
    p.add(format_args!(r##"<path d="M{} {b}H{}" stroke="#444"/>"##, px(left), px(right), b = px(bottom)));
}

/// A vertical line where another policy takes over, with its name above if the one behind it leaves room: that one holds for longer.
fn switches(p: &mut Picture, line: &Timeline, top: f64, bottom: f64) {
    let shown: Vec<_> = line.switches.iter().filter(|s| s.at >= p.from && s.at <= p.to).collect();
    let mut drawn = Vec::new();
    for same in shown.chunk_by(|a, b| a.at == b.at) {
        let x = p.x(same[0].at);
        let said = same.iter().map(|s| s.to_string()).collect::<Vec<_>>().join(", ");
        let label = short(&said, LABEL_MOST);
        let width = label.chars().count() as f64 * CHARACTER;
        // To the left of the line where the picture ends to the right of it.
        let from = if x + 4.0 + width > p.right + 24.0 { x - 4.0 - width } else { x + 4.0 };
        drawn.push((same[0].at, x, said, label, from, from + width));
    }
    let mut free = f64::INFINITY;
    for (.., label, from, to) in drawn.iter_mut().rev() {
        if *to > free || *from < p.left {
            label.clear();
        } else {
            free = *from - CHARACTER;
        }
    }
    for (at, x, said, label, from, _) in drawn {
        p.drawn.insert(Mark::Switch);
        let (left, said) = (px(x), escape(&said));
        p.add(format_args!(
            r#"<path d="M{left} {}V{}" stroke="{SWITCH}" stroke-width="1.5" stroke-dasharray="6 3"><title>at {} {said}</title></path>"#,
            px(top - 4.0),
            px(bottom),
            at
        ));
        if !label.is_empty() {
            p.add(format_args!(
                r#"<text x="{}" y="{}" class="small" fill="{SWITCH}">{}</text>"#,
                px(from),
                px(top - 6.0),
                escape(&label)
            ));
        }
    }
}

fn windows(p: &mut Picture, line: &Timeline, top: f64, bottom: f64) {
    if line.windows.is_empty() {
        return;
    }
    p.add(format_args!(r#"<text x="{}" y="{}">windows</text>"#, px(MARGIN), px(top + 14.0)));
    let (from, to) = (p.from, p.to);
    let mut drawn_to = f64::NEG_INFINITY;
    for w in line.windows.iter().filter(|w| w.to > from && w.from < to) {
        let (x, end) = (p.x(w.from), p.x(w.to));
        if end < drawn_to + 2.0 {
            continue;
        }
        drawn_to = end;
        let shade = if w.window % 2 == 0 { "#f1f4f8" } else { "#dfe6ee" };
        let title = format!("window {} of frame {}: {} to {} ({})", w.window, w.frame, w.from, w.to, w.to - w.from);
        p.add(format_args!(
            r#"<rect x="{}" y="{}" width="{}" height="18" fill="{shade}"><title>{title}</title></rect>"#,
            px(x),
            px(top),
            px(end - x)
        ));
        p.add(format_args!(
            r##"<path d="M{} {}V{}" stroke="#8a97a6" stroke-dasharray="3 3"/>"##,
            px(x),
            px(top),
            px(bottom)
        ));
        let number = w.window.to_string();
        if end - x > number.len() as f64 * CHARACTER + 4.0 {
            let (x, y) = (px((x + end) / 2.0), px(top + 13.0));
            p.add(format_args!(r#"<text x="{x}" y="{y}" class="in" fill="{}">{number}</text>"#, "#444"));
        }
    }
}

/// One interval, or several that are too close to be told apart.
struct Bar {
    /// The task; `None` for several.
    task: Option<usize>,
    x: f64,
    end: f64,
    first: Interval,
    last: Time,
    pieces: usize,
    /// Nothing but handlers.
    handler: bool,
    /// The time in which something runs.
    ran: Span,
    /// The pixels that the pieces fill, by column from the one of `x` on; nothing for a bar that is drawn as it is.
    filled: Vec<f64>,
}

impl Bar {
    fn of(i: &Interval, x: f64, end: f64) -> Bar {
        let (task, ran) = (Some(i.task.index()), i.to - i.from);
        Bar { task, x, end, first: *i, last: i.to, pieces: 1, handler: i.handler, ran, filled: Vec::new() }
    }

    fn is_narrow(&self) -> bool {
        self.end - self.x < COLUMN
    }

    /// Whether an interval becomes one of its pieces.
    fn takes(&self, i: &Interval, x: f64, end: f64) -> bool {
        let narrow = end - x < COLUMN && x - self.end < COLUMN && (self.pieces > 1 || self.is_narrow());
        narrow && (self.task == Some(i.task.index()) || self.task.is_none() || self.is_narrow())
    }

    fn take(&mut self, i: &Interval, x: f64, end: f64) {
        if self.pieces == 1 {
            self.fill(self.x, self.end);
        }
        // Tasks that run at the same time on CPUs that they share count once.
        self.fill(x.max(self.end), end);
        self.ran += (i.to - i.from.max(self.last)).max(Span::ZERO);
        self.task = self.task.filter(|task| *task == i.task.index());
        self.end = self.end.max(end);
        self.last = self.last.max(i.to);
        self.pieces += 1;
        self.handler &= i.handler;
    }

    fn fill(&mut self, x: f64, end: f64) {
        let first = self.x.floor();
        let mut at = x;
        while at < end {
            let column = at.floor();
            let next = (column + COLUMN).min(end);
            let index = (column - first) as usize;
            if self.filled.len() <= index {
                self.filled.resize(index + 1, 0.0);
            }
            self.filled[index] += next - at;
            at = next;
        }
    }

    /// The outline of the load: each column as high as the part of it that is filled, in steps of half a pixel.
    fn outline(&self, y: f64, height: f64) -> String {
        let foot = y + height;
        let mut path = format!("M{} {}", px(self.x), px(foot));
        let mut level = 0.0;
        for (index, filled) in self.filled.iter().enumerate() {
            let column = self.x.floor() + index as f64;
            let (left, right) = (column.max(self.x), (column + COLUMN).min(self.end));
            let part = if right > left { (filled / (right - left)).min(1.0) } else { 0.0 };
            let steps = (part * height * 2.0).round();
            let high = if *filled > 0.0 { steps.max(1.0) / 2.0 } else { 0.0 };
            if high != level {
                level = high;
                write!(path, "H{}V{}", px(left), px(foot - high)).expect("a string takes all");
            }
        }
        write!(path, "H{}V{}z", px(self.end), px(foot)).expect("a string takes all");
        path
    }
}

/// Makes load per column of every narrow bar of a lane, also of one that stands alone. It takes whole columns up to its neighbours.
fn whole_columns(bars: &mut [Bar], right: f64) {
    for index in 0..bars.len() {
        let before = index.checked_sub(1).map_or(f64::NEG_INFINITY, |before| bars[before].end);
        let after = bars.get(index + 1).map_or(right, |after| after.x);
        let bar = &mut bars[index];
        if bar.pieces == 1 && !bar.is_narrow() {
            continue;
        }
        if bar.pieces == 1 {
            bar.fill(bar.x, bar.end);
        }
        let first = bar.x.floor();
        bar.end = bar.end.ceil().max(first + COLUMN).min(after).max(bar.end);
        bar.x = first.max(before).min(bar.x);
    }
}

fn bars<'a>(
    p: &mut Picture,
    trace: &Trace,
    labels: &[String],
    intervals: impl Iterator<Item = &'a Interval>,
    y: f64,
    height: f64,
    named: bool,
) {
    let mut bars: Vec<Bar> = Vec::new();
    for i in intervals.filter(|i| i.to > p.from && i.from < p.to || i.from == i.to && p.shows(i.from)) {
        let (x, end) = (p.x(i.from), p.x(i.to));
        match bars.last_mut() {
            Some(bar) if bar.takes(i, x, end) => bar.take(i, x, end),
            _ => bars.push(Bar::of(i, x, end)),
        }
    }
    let has_load = bars.iter().any(|bar| bar.pieces > 1);
    if has_load {
        p.drawn.insert(Mark::Load);
        whole_columns(&mut bars, p.right);
    }
    for bar in &bars {
        if bar.handler {
            p.drawn.insert(Mark::Handler);
        }
        let i = &bar.first;
        let (color, white) = bar.task.map_or((MIXED, true), fill);
        let hatched = bar.task.is_some_and(|t| t >= FILLS.len());
        let name = bar.task.map_or("several tasks", |t| &labels[t]);
        let (name, characters) = (escape(name), name.chars().count());
        let place = trace.header.place_title(&trace.header.places[i.place.index()]);
        let title = if bar.pieces == 1 {
            let reason = i.reason.map_or("still running", names::reason);
            let job = if i.handler { "handler of job" } else { "job" };
            format!("{name} {job} {} on {place}: {} to {} ({}), {reason}", i.job, i.from, i.to, i.to - i.from)
        } else {
            let whole = i128::from((bar.last - i.from).ns().max(1));
            let part = i128::from(bar.ran.ns()) * 1000 / whole;
            let part = format!("{}.{} %", part / 10, part % 10);
            format!("{name}: {} pieces, {} to {}, running for {part} of that", bar.pieces, i.from, bar.last)
        };
        let width = (bar.end - bar.x).max(0.3);
        let (x, w, h, top) = (px(bar.x), px(width), px(height), px(y));
        let whole = format!(r#"<rect x="{x}" y="{top}" width="{w}" height="{h}""#);
        if bar.pieces > 1 {
            p.add(format_args!(r#"{whole} fill="{color}" fill-opacity=".15"><title>{title}</title></rect>"#));
        }
        let load = !bar.filled.is_empty();
        let shape = if load { format!(r#"<path d="{}""#, bar.outline(y, height)) } else { whole };
        let close = if load { "path" } else { "rect" };
        p.add(format_args!(r#"{shape} fill="{color}"><title>{title}</title></{close}>"#));
        let patterns = [(bar.handler, "handler"), (hatched, "hatch")];
        for (_, pattern) in patterns.iter().filter(|(has, _)| *has) {
            p.add(format_args!(r#"{shape} fill="url(#{pattern})" pointer-events="none"/>"#));
        }
        if width > 3.0 && !load {
            // An edge tells neighbours of one colour apart.
            p.add(format_args!(r##"<path d="M{x} {top}v{h}" stroke="#fff" stroke-width=".8"/>"##));
        }
        if named && width > characters as f64 * CHARACTER + 6.0 {
            let patterned = hatched || bar.handler || load;
            let ink = if white && !patterned { "#fff" } else { "#000" };
            let halo = if !patterned { "" } else { r##" stroke="#fff" stroke-width="3" paint-order="stroke""## };
            let (x, y) = (px(bar.x + width / 2.0), px(y + height / 2.0 + 4.0));
            p.add(format_args!(
                r#"<text x="{x}" y="{y}" class="in" fill="{ink}"{halo} pointer-events="none">{name}</text>"#
            ));
        }
    }
}

fn task_lane(p: &mut Picture, trace: &Trace, line: &Timeline, labels: &[String], task: usize, y: f64) {
    let base = y + TASK_LANE - 6.0;
    let (color, _) = fill(task);
    let (swatch, text) = (px(base - 11.0), px(base - 1.0));
    p.add(format_args!(r#"<rect x="{}" y="{swatch}" width="12" height="12" fill="{color}"/>"#, px(MARGIN)));
    if task >= FILLS.len() {
        p.add(format_args!(r#"<rect x="{}" y="{swatch}" width="12" height="12" fill="url(#hatch)"/>"#, px(MARGIN)));
    }
    let name = escape(&short(&labels[task], LABEL_MOST));
    p.add(format_args!(r#"<text x="{}" y="{text}">{name}</text>"#, px(MARGIN + 18.0)));
    let (left, right) = (px(p.left), px(p.right));
    p.add(format_args!(r##"<path d="M{left} {b}H{right}" stroke="#bbb"/>"##, b = px(base)));

    let jobs: Vec<&Job> = line.jobs[task].iter().collect();
    let mut waits_to = f64::NEG_INFINITY;
    let mut ran: BTreeMap<JobId, Span> = BTreeMap::new();
    let own = || line.intervals.iter().filter(|i| i.task.index() == task);
    for i in own().filter(|i| i.to > p.from && i.from < p.to) {
        *ran.entry(i.job).or_default() += i.to.min(p.to) - i.from.max(p.from);
    }
    for job in &jobs {
        let end = job.over().unwrap_or(line.end);
        let (x, end_x) = (p.x(job.release), p.x(end));
        if end > p.from && job.release < p.to && end_x - x.max(waits_to) > FINEST {
            let alive = end.min(p.to) - job.release.max(p.from);
            if alive > ran.get(&job.number).copied().unwrap_or_default() {
                p.drawn.insert(Mark::Waiting);
            }
            let (x, width) = (px(x), px(end_x - x));
            let (top, title) = (px(base - 5.0), job_title(job, &labels[task]));
            p.add(format_args!(
                r##"<rect x="{x}" y="{top}" width="{width}" height="5" fill="#d5d5d5"><title>{title}</title></rect>"##
            ));
            waits_to = end_x;
        }
    }
    blocked(p, trace, line, &labels[task], task, base);
    bars(p, trace, labels, own(), base - 15.0, 15.0, false);
    let overdue: Vec<(Time, Time)> =
        line.overdue.iter().filter(|o| o.task.index() == task).map(|o| (o.from, o.to)).collect();
    late_parts(p, (&jobs, &overdue), own(), line.end, base);
    holds(p, trace, line, &labels[task], task, base);
    let visible: Vec<&Interval> = own().filter(|i| i.to > p.from && i.from < p.to).collect();
    let thin = visible.iter().filter(|i| p.x(i.to) - p.x(i.from) < THIN).count();
    let covered = visible.len() > 1 && thin * 2 > visible.len();
    arrows(p, &jobs, covered, &labels[task], line.end, base);
    calls(p, line, &labels[task], task, base);
}

/// A part of a task's lane that says more than whether it runs.
struct Strip {
    from: Time,
    to: Time,
    color: &'static str,
    mark: Mark,
    /// The state of the task there.
    what: String,
}

/// Draws strips of so much height, leaving out what is too short to be seen.
fn strips(p: &mut Picture, label: &str, strips: impl Iterator<Item = Strip>, y: f64, height: f64, edge: &str) {
    let mut drawn_to = f64::NEG_INFINITY;
    for Strip { from, to, color, mark, what } in strips {
        let (x, end) = (p.x(from), p.x(to));
        if to <= p.from || from >= p.to || end - x.max(drawn_to) < FINEST {
            continue;
        }
        drawn_to = end;
        p.drawn.insert(mark);
        let title = escape(&format!("{label} {what}: {from} to {to} ({})", to - from));
        let (x, y, width, height) = (px(x), px(y), px(end - x), px(height));
        p.add(format_args!(
            r#"<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="{color}"{edge}><title>{title}</title></rect>"#
        ));
    }
}

/// The reason of a wait other than for a CPU, in place of the grey line of mere waiting.
fn blocked(p: &mut Picture, trace: &Trace, line: &Timeline, label: &str, task: usize, base: f64) {
    let waits = line.waits.iter().filter(|w| w.task.index() == task).map(|w| {
        let (color, mark, what) = match w.resource {
            Some(resource) => (LOCKED_OUT, Mark::LockedOut, format!("waits for {}", trace.header.resource(resource))),
            None => (ASLEEP, Mark::Asleep, "sleeps".into()),
        };
        Strip { from: w.from, to: w.to, color, mark, what }
    });
    strips(p, label, waits, base - 5.0, 5.0, "");
}

/// Lines above the bars while the task holds a resource, in the resource's colour.
fn holds(p: &mut Picture, trace: &Trace, line: &Timeline, label: &str, task: usize, base: f64) {
    let holds = line.holds.iter().filter(|h| h.task.index() == task).map(|h| {
        let (color, _) = fill(usize::from(h.resource.0));
        let what = format!("holds {}", trace.header.resource(h.resource));
        Strip { from: h.from, to: h.to, color, mark: Mark::Holds(h.resource), what }
    });
    strips(p, label, holds, base - 18.5, 3.0, r##" stroke="#222" stroke-width=".5""##);
}

/// A point on the lane where a job asks for other terms, red where it does not get them.
fn calls(p: &mut Picture, line: &Timeline, label: &str, task: usize, base: f64) {
    let (from, to, mut drawn_to) = (p.from, p.to, f64::NEG_INFINITY);
    for call in line.calls.iter().filter(|c| c.task.index() == task && c.at >= from && c.at <= to) {
        let x = p.x(call.at);
        if x - drawn_to < FINEST {
            continue;
        }
        drawn_to = x;
        p.drawn.insert(if call.granted { Mark::Call } else { Mark::Refused });
        let color = if call.granted { SWITCH } else { RED };
        let title = escape(&format!("{label} job {}: {call} at {}", call.job, call.at));
        let (x, y) = (px(x), px(base));
        p.add(format_args!(r#"<circle cx="{x}" cy="{y}" r="3" fill="{color}"><title>{title}</title></circle>"#));
    }
}

fn has_deadlines(line: &Timeline, task: usize) -> bool {
    line.jobs[task].iter().any(|j| j.deadline.is_some())
}

fn job_title(job: &Job, label: &str) -> String {
    let deadline = job.deadline.map_or(String::new(), |d| format!(", deadline {d}"));
    let end = job.finish.map_or(", not over at the end".into(), |(at, how)| {
        format!(", {} at {at} ({} after its release)", names::outcome(how), at - job.release)
    });
    let handler = job.handler.map_or(String::new(), |h| {
        let end = h.end.map_or("not over at the end".into(), |at| format!("over at {at}"));
        format!(", handler from {}, {end}", h.from)
    });
    format!("{} job {}: released {}{deadline}{end}{handler}", escape(label), job.number, job.release)
}

/// Hatches in red the execution of a job after its deadline, and in a window table the execution that continues a job after it was cut off.
fn late_parts<'a>(
    p: &mut Picture,
    (jobs, overdue): (&[&Job], &[(Time, Time)]),
    intervals: impl Iterator<Item = &'a Interval>,
    end: Time,
    base: f64,
) {
    let (from, to) = (p.from, p.to);
    let mut drawn_to = f64::NEG_INFINITY;
    for i in intervals.filter(|i| i.to > from && i.from < to && !i.handler) {
        let job = jobs.binary_search_by_key(&i.job, |j| j.number).ok().map(|index| jobs[index]);
        let passed = job.filter(|j| j.missed(end)).and_then(|j| j.deadline).map(|deadline| (deadline, i.to));
        let first = overdue.partition_point(|(_, end)| *end <= i.from);
        let continued = overdue[first..].iter().take_while(|(begin, _)| *begin < i.to).copied();
        for (begin, end) in passed.into_iter().chain(continued) {
            let (begin, end) = (begin.max(i.from), end.min(i.to));
            let (x, to) = (p.x(begin), p.x(end));
            if begin >= end || end <= from || begin >= p.to || to - x.max(drawn_to) < FINEST {
                continue;
            }
            drawn_to = to;
            p.drawn.insert(Mark::Late);
            let (x, width, top) = (px(x), px(to - x), px(base - 15.0));
            p.add(format_args!(
                r#"<rect x="{x}" y="{top}" width="{width}" height="15" fill="url(#late)" stroke="{RED}" pointer-events="none"/>"#
            ));
        }
    }
}

/// Arrows for releases and deadlines; ticks where they would touch each other, or where each would cover a bar.
fn arrows(p: &mut Picture, jobs: &[&Job], covered: bool, label: &str, end: Time, base: f64) {
    let top = base - 28.0;
    // In a window table a release is a start; an arrow at every bar would say nothing.
    let releases = jobs.iter().any(|j| j.deadline.is_some());
    let shown = jobs.iter().filter(|j| p.shows(j.release)).count() as f64;
    if covered || shown * ARROW > p.right - p.left {
        ticks(p, jobs, shown * FINEST_TICK <= p.right - p.left, end, top);
        crosses(p, jobs, label, base);
        return;
    }
    let mut last = f64::NEG_INFINITY;
    for job in jobs.iter().filter(|j| releases && p.shows(j.release)).collect::<Vec<_>>() {
        if p.x(job.release) - last > FINEST_ARROW {
            last = p.x(job.release);
            p.drawn.insert(Mark::Arrow);
            let (x, shaft, tip, foot) = (px(last), px(top + 5.0), px(top), px(base));
            let title = job_title(job, label);
            p.add(format_args!(
                r##"<g stroke="#222" fill="#222"><path d="M{x} {foot}V{shaft}"/><path d="M{x} {tip}l3 6h-6z" stroke="none"/><title>{title}</title></g>"##
            ));
        }
    }
    // Misses last, so that nothing hides them.
    for (missed, color, stroke) in [(false, "#222", 1.0), (true, RED, 2.0)] {
        let mut last = f64::NEG_INFINITY;
        for job in jobs.iter().filter(|j| j.missed(end) == missed).collect::<Vec<_>>() {
            let Some(deadline) = job.deadline.filter(|d| p.shows(*d) && p.x(*d) - last > FINEST_ARROW) else {
                continue;
            };
            last = p.x(deadline);
            p.drawn.insert(if missed { Mark::MissedArrow } else { Mark::Arrow });
            let (x, top, shaft, tip) = (px(last), px(top), px(base - 5.0), px(base));
            let title = job_title(job, label);
            p.add(format_args!(
                r#"<g stroke="{color}" stroke-width="{stroke}" fill="{color}"><path d="M{x} {top}V{shaft}"/><path d="M{x} {tip}l3.5 -7h-7z" stroke="none"/><title>{title}</title></g>"#
            ));
        }
    }
    crosses(p, jobs, label, base);
}

/// Ticks in place of arrows: releases above, deadlines below them, missed deadlines in red and as long as both.
fn ticks(p: &mut Picture, jobs: &[&Job], all: bool, end: Time, top: f64) {
    let deadlines = |missed: bool| {
        let own = jobs.iter().filter(move |j| j.missed(end) == missed).filter_map(|j| j.deadline);
        own.collect::<Vec<Time>>()
    };
    let releases: Vec<Time> =
        jobs.iter().filter(|_| jobs.iter().any(|j| j.deadline.is_some())).map(|j| j.release).collect();
    let rows = [
        (releases, Mark::Tick, (top + 1.0, 5), ("#222", "1"), all, FINEST_TICK),
        (deadlines(false), Mark::Tick, (top + 7.0, 5), ("#222", "1"), all, FINEST_TICK),
        (deadlines(true), Mark::MissedTick, (top + 1.0, 11), (RED, "1.6"), true, FINEST_MISS),
    ];
    for (instants, mark, (y, length), (color, width), _, finest) in rows.into_iter().filter(|(.., drawn, _)| *drawn) {
        let (mut path, mut last) = (String::new(), f64::NEG_INFINITY);
        for x in instants.into_iter().filter(|at| p.shows(*at)).map(|at| p.x(at)).collect::<Vec<_>>() {
            if x - last >= finest {
                last = x;
                write!(path, "M{} {}v{length}", px(x), px(y)).expect("a string takes all");
            }
        }
        if !path.is_empty() {
            p.drawn.insert(mark);
            p.add(format_args!(r#"<path d="{path}" stroke="{color}" stroke-width="{width}"/>"#));
        }
    }
}

/// Crosses where jobs were cut off, aborted or skipped.
fn crosses(p: &mut Picture, jobs: &[&Job], label: &str, base: f64) {
    let mut last = f64::NEG_INFINITY;
    for job in jobs {
        let cut = job.finish.filter(|_| is_cut(job));
        if let Some((at, _)) = cut.filter(|(at, _)| p.shows(*at) && p.x(*at) - last > 1.0) {
            last = p.x(at);
            p.drawn.insert(Mark::Cut);
            let (x, y, title) = (px(last - 4.0), px(base - 11.5), job_title(job, label));
            p.add(format_args!(
                r#"<path d="M{x} {y}l8 8m0 -8l-8 8" stroke="{RED}" stroke-width="2.2"><title>{title}</title></path>"#
            ));
        }
    }
}

/// Whether the job, or the activation, was cut off or never ran.
fn is_cut(job: &Job) -> bool {
    job.cut_off || matches!(job.finish, Some((_, Outcome::Overrun | Outcome::Aborted | Outcome::Skipped)))
}

/// A span with its first two digits, and about so long.
fn two_digits(ns: f64) -> Span {
    let mut unit = 1.0;
    while ns >= 100.0 * unit {
        unit *= 10.0;
    }
    Span::from_ns((ns / unit).round().max(1.0) as i64 * unit as i64)
}

/// Explains what occurs, in as many lines as it takes. Returns where the last one stands.
fn legend(p: &mut Picture, trace: &Trace, y: f64) -> f64 {
    let drawn = p.drawn.clone();
    let has = |mark: Mark| drawn.contains(&mark);
    let (mut x, mut down_by, left, right) = (p.left, 0.0, p.left, p.right + 24.0);
    let (base, text) = (px(y + 4.0), px(y + 1.0));
    let mut entry = |p: &mut Picture, drawing: String, what: &str| {
        let width = 14.0 + what.chars().count() as f64 * 5.8 + 22.0;
        if x > left && x + width > right {
            (x, down_by) = (left, down_by + 16.0);
        }
        let (shift, down_by, what) = (px(x), px(down_by), escape(what));
        p.add(format_args!(
            r#"<g transform="translate({shift} {down_by})">{drawing}<text x="14" y="{text}" class="small">{what}</text></g>"#
        ));
        x += width;
    };
    let down = |color: &str| {
        format!(r#"<path d="M4 {}v11" stroke="{color}"/><path d="M4 {base}l3 -6h-6z" fill="{color}"/>"#, px(y - 10.0))
    };
    if has(Mark::Arrow) {
        let (foot, tip) = (px(y + 4.0), px(y - 10.0));
        let up = format!(r##"<path d="M4 {foot}v-11" stroke="#222"/><path d="M4 {tip}l3 6h-6z" fill="#222"/>"##);
        entry(p, up, "release");
        entry(p, down("#222"), "deadline");
    }
    if has(Mark::Tick) {
        let (above, below) = (px(y - 8.0), px(y - 2.0));
        let drawing = format!(r##"<path d="M2 {above}v5M5 {above}v5M5 {below}v5M8 {below}v5" stroke="#222"/>"##);
        entry(p, drawing, "ticks: releases above, deadlines below");
    }
    if has(Mark::Waiting) {
        let wait = format!(r##"<rect y="{}" width="10" height="5" fill="#d5d5d5"/>"##, px(y - 3.0));
        entry(p, wait, "released, not running");
    }
    let line_of = |color: &str| format!(r#"<rect y="{}" width="10" height="5" fill="{color}"/>"#, px(y - 3.0));
    if has(Mark::LockedOut) {
        entry(p, line_of(LOCKED_OUT), "waits for a resource");
    }
    if has(Mark::Asleep) {
        entry(p, line_of(ASLEEP), "sleeps");
    }
    let held = drawn.iter().filter_map(|mark| if let Mark::Holds(resource) = mark { Some(*resource) } else { None });
    let held: Vec<ResourceId> = held.collect();
    for resource in held.iter().take(RESOURCES_NAMED) {
        let (color, _) = fill(usize::from(resource.0));
        let frame = format!(r##"y="{}" width="10" height="3" fill="{color}" stroke="#222""##, px(y - 3.0));
        let what = format!("holds {}", short(&trace.header.resource(*resource), LABEL_MOST));
        entry(p, format!(r#"<rect {frame} stroke-width=".5"/>"#), &what);
    }
    if held.len() > RESOURCES_NAMED {
        entry(p, String::new(), &format!("and {} resources more", held.len() - RESOURCES_NAMED));
    }
    if has(Mark::Handler) {
        let square = format!(r#"y="{}" width="10" height="10""#, px(y - 8.0));
        let drawing = format!(r##"<rect {square} fill="#888"/><rect {square} fill="url(#handler)"/>"##);
        entry(p, drawing, "handler");
    }
    if has(Mark::Load) {
        let steps = format!(r##"<path d="M0 {}v-3h3v-4h3v2h4v5z" fill="{MIXED}"/>"##, px(y + 2.0));
        let column = two_digits((p.to - p.from).ns() as f64 / (p.right - p.left));
        entry(p, steps, &format!("height: the part of a column of {column} in which the CPU or task runs"));
    }
    if has(Mark::MissedArrow) || has(Mark::MissedTick) {
        let tick = format!(r#"<path d="M4 {}v11" stroke="{RED}" stroke-width="1.6"/>"#, px(y - 8.0));
        entry(p, if has(Mark::MissedArrow) { down(RED) } else { tick }, "deadline missed");
    }
    if has(Mark::Late) {
        let frame = format!(r#"x="0.5" y="{}" width="10" height="10" stroke="{RED}""#, px(y - 8.0));
        entry(p, format!(r#"<rect {frame} fill="url(#late)"/>"#), "runs late");
    }
    if has(Mark::Cut) {
        let cross = format!(r#"<path d="M1 {}l8 8m0 -8l-8 8" stroke="{RED}" stroke-width="2.2"/>"#, px(y - 7.0));
        entry(p, cross, "cut off, aborted or skipped");
    }
    if has(Mark::Call) || has(Mark::Refused) {
        let circle = |x, color| format!(r#"<circle cx="{x}" cy="{}" r="3" fill="{color}"/>"#, px(y - 3.0));
        let refused = if has(Mark::Refused) { circle(10, RED) } else { String::new() };
        entry(p, circle(4, SWITCH) + &refused, if refused.is_empty() { "calls" } else { "calls; red: refused" });
    }
    if has(Mark::Switch) {
        let stroke = format!(r#"stroke="{SWITCH}" stroke-width="1.5" stroke-dasharray="6 3""#);
        entry(p, format!(r#"<path d="M5 {}v14" {stroke}/>"#, px(y - 10.0)), "policy switched");
    }
    y + down_by
}
