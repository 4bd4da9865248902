//! The chart for a terminal.

use super::rows::{cpu_rows, groups, heading, nice, range};
use crate::timeline::Timeline;
use crate::{Trace, names};
use std::fmt::Write;
use takt_core::record::Outcome;
use takt_core::time::{Span, Time};

/// How a text chart is drawn.
#[derive(Clone, Copy, Debug)]
pub struct TextOptions {
    /// Columns of the terminal; at least 40 are used.
    pub width: usize,
    /// The first instant shown.
    pub from: Time,
    /// Where the chart ends; by default with the trace.
    pub to: Option<Time>,
    /// Whether to colour with ANSI sequences.
    pub color: bool,
}

impl Default for TextOptions {
    fn default() -> Self {
        TextOptions { width: 100, from: Time::ZERO, to: None, color: false }
    }
}

const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
/// ANSI colours of tasks, in turn: distinct for most eyes, and without the red of misses.
const COLORS: [u8; 7] = [33, 214, 36, 117, 175, 227, 247];
const RED: u8 = 160;
const LABEL_MOST: usize = 28;
/// More switches of policies than this are only counted, and more calls.
const SWITCHES_MOST: usize = 20;

struct Chart {
    from: Time,
    to: Time,
    cell: Span,
    columns: usize,
    color: bool,
}

/// One character of the chart and its colour.
type Cell = (char, Option<u8>);

impl Chart {
    /// The column of an instant; the instant of the very end has the extra last one.
    fn column(&self, t: Time) -> Option<usize> {
        (t >= self.from && t <= self.to).then(|| ((t - self.from).ns() / self.cell.ns()) as usize)
    }

    /// Calls `f` with each column that the interval touches and the time it spends there.
    fn spread(&self, from: Time, to: Time, mut f: impl FnMut(usize, i64)) {
        let (from, to) = ((from.max(self.from) - self.from).ns(), (to.min(self.to) - self.from).ns());
        let cell = self.cell.ns();
        let mut at = from;
        while at < to {
            let column = at / cell;
            let next = ((column + 1) * cell).min(to);
            f(column as usize, next - at);
            at = next;
        }
    }

    /// How long the column is; the last one may be cut.
    fn length(&self, column: usize) -> i64 {
        self.cell.ns().min((self.to - self.from).ns() - column as i64 * self.cell.ns())
    }

    fn line(&self, label: &str, width: usize, cells: &[Cell]) -> String {
        let mut line = format!("{label:<width$} ");
        let mut present = None;
        let used = cells.iter().rposition(|(c, _)| *c != ' ').map_or(0, |i| i + 1);
        for (c, color) in &cells[..used] {
            let color = color.filter(|_| self.color);
            if color != present {
                match color {
                    Some(color) => write!(line, "\x1b[38;5;{color}m").expect("a string takes all"),
                    None => line.push_str("\x1b[0m"),
                }
                present = color;
            }
            line.push(*c);
        }
        if present.is_some() {
            line.push_str("\x1b[0m");
        }
        line.truncate(line.trim_end().len());
        line.push('\n');
        line
    }
}

fn letter(task: usize) -> char {
    LETTERS.get(task).map_or('*', |l| char::from(*l))
}
fn color(task: usize) -> u8 {
    COLORS[task % COLORS.len()]
}

fn short(label: &str) -> String {
    // What a terminal would obey is not printed.
    let label: String = label.chars().map(|c| if names::is_hidden(c) { '?' } else { c }).collect();
    if label.chars().count() <= LABEL_MOST {
        return label;
    }
    label.chars().take(LABEL_MOST - 1).chain(['…']).collect()
}

/// Draws a trace as text: the windows, then a row per CPU, then per task a row with what it did and, if it has
/// deadlines or locks something, a row with releases, deadlines, misses and locks. The same trace always gives the same text.
#[must_use]
pub fn text(trace: &Trace, options: &TextOptions) -> String {
    let line = Timeline::of(trace);
    let Some((from, to)) = range(&line, options.from, options.to) else {
        return format!(
            "{}: nothing between {} and {}\n",
            heading(trace),
            options.from,
            options.to.unwrap_or(line.end)
        );
    };
    let groups = groups(trace);
    let grouped = groups.iter().any(|(name, _)| name.is_some());
    let indent = if grouped { "  " } else { "" };
    let names: Vec<String> = trace.header.labels().iter().map(|l| short(l)).collect();
    let labels: Vec<String> = names.iter().enumerate().map(|(i, n)| format!("{indent}{} {n}", letter(i))).collect();
    let cpu_rows = cpu_rows(trace, &line, from, to);
    let group_names: Vec<String> = groups.iter().map(|(name, _)| short(name.unwrap_or("no partition"))).collect();
    let all = labels.iter().chain(cpu_rows.iter().map(|(l, _)| l)).chain(&group_names);
    let label_width = all.map(|l| l.chars().count()).max().unwrap_or(0).max("windows".len());

    let room = options.width.max(40).saturating_sub(label_width + 2).max(10);
    let cell = nice(Span::from_ns(((to - from).ns() as u64).div_ceil(room as u64) as i64), &[10, 20, 25, 40, 50, 80]);
    let columns = ((to - from).ns() as u64).div_ceil(cell.ns() as u64) as usize;
    let chart = Chart { from, to, cell, columns, color: options.color };

    let mut out = format!("{}: {from} to {to}, a column is {cell}\n", heading(trace));
    out += &axis(&chart, label_width);
    if !line.windows.is_empty() {
        out += &chart.line("windows", label_width, &window_cells(&chart, &line));
    }
    let mut used = Used::default();
    for (label, cpus) in &cpu_rows {
        let first = cpus.iter().next().unwrap_or(0);
        out += &chart.line(label, label_width, &cpu_cells(&chart, trace, &line, first));
    }
    for ((_, tasks), name) in groups.iter().zip(&group_names) {
        if grouped {
            out += name;
            out.push('\n');
        }
        for &task in tasks {
            out += &chart.line(&labels[task], label_width, &task_cells(&chart, &line, task, &mut used));
            if let Some(marks) = mark_cells(&chart, &line, task, &mut used) {
                out += &chart.line("", label_width, &marks);
            }
        }
    }
    out += &used.legend();
    let switches = || line.switches.iter().filter(|s| s.at >= from && s.at <= to);
    for switch in switches().take(SWITCHES_MOST) {
        writeln!(out, "at {} {switch}", switch.at).expect("a string takes all");
    }
    let more = switches().count().saturating_sub(SWITCHES_MOST);
    if more > 0 {
        let switches = if more == 1 { "switch" } else { "switches" };
        writeln!(out, "{more} more {switches} of policies").expect("a string takes all");
    }
    let calls = || line.calls.iter().filter(|c| c.at >= from && c.at <= to);
    for call in calls().take(SWITCHES_MOST) {
        writeln!(out, "at {} {}: {call}", call.at, labels[call.task.index()]).expect("a string takes all");
    }
    let more = calls().count().saturating_sub(SWITCHES_MOST);
    if more > 0 {
        writeln!(out, "{more} more {}", if more == 1 { "call" } else { "calls" }).expect("a string takes all");
    }
    if let Some(footer) = trace.footer.filter(|f| f.dropped > 0) {
        writeln!(out, "{} records are missing from the trace", footer.dropped).expect("a string takes all");
    }
    if trace.footer.is_none() {
        out += "the trace was not closed: its end is missing\n";
    }
    out
}

fn axis(chart: &Chart, label_width: usize) -> String {
    let tick = |column: usize| chart.from + chart.cell * column as i64;
    let longest = (0..=chart.columns).step_by(10).map(|c| tick(c).to_string().len()).max().unwrap_or(0);
    let stride = 10 * (longest + 2).div_ceil(10);
    let mut numbers: Vec<Cell> = vec![(' ', None); chart.columns + longest + 1];
    for column in (0..=chart.columns).step_by(stride) {
        for (i, c) in tick(column).to_string().chars().enumerate() {
            numbers[column + i] = (c, None);
        }
    }
    let ruler: Vec<Cell> = (0..=chart.columns)
        .map(|c| {
            (
                if c % stride == 0 {
                    '|'
                } else if c % 10 == 0 {
                    '+'
                } else {
                    '-'
                },
                None,
            )
        })
        .collect();
    chart.line("", label_width, &numbers) + &chart.line("", label_width, &ruler)
}

fn window_cells(chart: &Chart, line: &Timeline) -> Vec<Cell> {
    let mut cells: Vec<Cell> = vec![(' ', None); chart.columns + 1];
    for window in &line.windows {
        let Some(column) = chart.column(window.from) else { continue };
        cells[column] = ('|', None);
        let end = chart.column(window.to).unwrap_or(chart.columns);
        let number = window.window.to_string();
        if column + number.len() < end {
            for (i, c) in number.chars().enumerate() {
                cells[column + 1 + i] = (c, None);
            }
        }
    }
    cells
}

fn cpu_cells(chart: &Chart, trace: &Trace, line: &Timeline, cpu: usize) -> Vec<Cell> {
    let mut time: Vec<Vec<(usize, i64)>> = vec![Vec::new(); chart.columns];
    for interval in &line.intervals {
        if trace.header.places[interval.place.index()].contains(cpu) {
            chart.spread(interval.from, interval.to, |column, ns| {
                let task = interval.task.index();
                match time[column].iter_mut().find(|(t, _)| *t == task) {
                    Some((_, sum)) => *sum += ns,
                    None => time[column].push((task, ns)),
                }
            });
        }
    }
    // Who had most of the column; of equals the lower task.
    let most = |column: &Vec<(usize, i64)>| column.iter().map(|(t, ns)| (*ns, std::cmp::Reverse(*t))).max();
    let cell = |column| most(column).map_or((' ', None), |(_, t)| (letter(t.0), Some(color(t.0))));
    time.iter().map(cell).collect()
}

fn task_cells(chart: &Chart, line: &Timeline, task: usize, used: &mut Used) -> Vec<Cell> {
    let mut running = vec![0; chart.columns];
    let mut handling = vec![0; chart.columns];
    let mut alive = vec![0; chart.columns];
    let (mut locked_out, mut asleep) = (vec![0; chart.columns], vec![0; chart.columns]);
    for interval in line.intervals.iter().filter(|i| i.task.index() == task) {
        chart.spread(interval.from, interval.to, |column, ns| {
            running[column] += ns;
            handling[column] += if interval.handler { ns } else { 0 };
        });
    }
    for job in &line.jobs[task] {
        chart.spread(job.release, job.over().unwrap_or(line.end), |column, ns| alive[column] += ns);
    }
    for wait in line.waits.iter().filter(|w| w.task.index() == task) {
        let what = if wait.resource.is_some() { &mut locked_out } else { &mut asleep };
        chart.spread(wait.from, wait.to, |column, ns| what[column] += ns);
    }
    let cell = |column: usize| {
        let (ran, length) = (running[column], chart.length(column));
        let c = match ran {
            _ if ran > 0 && 2 * handling[column] >= ran => '▒',
            _ if ran >= length => '█',
            _ if 2 * ran >= length => '▓',
            _ if ran > 0 => '░',
            _ if 2 * locked_out[column] >= length => '~',
            _ if 2 * asleep[column] >= length => '-',
            _ if 2 * alive[column] >= length => '·',
            _ => ' ',
        };
        used.note(c);
        (c, (ran > 0).then(|| color(task)))
    };
    (0..chart.columns).map(cell).collect()
}

/// Releases, deadlines, misses, and where resources are taken and given back. A task that has none but releases gets no such
/// row: in a window table they are its starts.
fn mark_cells(chart: &Chart, line: &Timeline, task: usize, used: &mut Used) -> Option<Vec<Cell>> {
    let jobs = &line.jobs[task];
    let holds = || line.holds.iter().filter(|h| h.task.index() == task);
    if holds().next().is_none() && !jobs.iter().any(|j| j.deadline.is_some() || j.missed(line.end)) {
        return None;
    }
    let mut cells: Vec<Cell> = vec![(' ', None); chart.columns + 1];
    let mut mark = |at: Time, c: char| {
        let Some(column) = chart.column(at) else { return };
        let cell = &mut cells[column];
        let both = matches!((cell.0, c), ('↑' | '↕', '↓') | ('↓' | '↕', '↑'));
        *cell = match (cell.0, c) {
            ('!', _) | (_, '!') => ('!', Some(RED)),
            // Releases and deadlines come after the locks and win over them.
            (']', '[') | ('[', ']') => ('I', None),
            _ if both => ('↕', None),
            _ => (c, None),
        };
    };
    for hold in holds() {
        mark(hold.from, '[');
        if hold.to < line.end {
            mark(hold.to, ']');
        }
    }
    for job in jobs {
        mark(job.release, '↑');
        if let Some(deadline) = job.deadline {
            mark(deadline, '↓');
        }
        if job.missed(line.end) {
            let cut = |o: &Outcome| job.cut_off || matches!(o, Outcome::Overrun | Outcome::Aborted);
            let cut = job.finish.filter(|(_, o)| cut(o));
            let passed = |d: &Time| job.finish.is_none_or(|(at, _)| at >= *d);
            // A job that waits for its turn passes its deadline before it is aborted.
            let deadline = job.deadline.filter(|d| cut.is_none() || passed(d));
            let at = deadline.or(job.finish.map(|(at, _)| at));
            cut.map(|(at, _)| at).into_iter().chain(at).for_each(|at| mark(at, '!'));
        }
    }
    cells.iter().for_each(|(c, _)| used.note(*c));
    Some(cells)
}

/// The glyphs that occur, so that the legend explains just these.
#[derive(Default)]
struct Used(Vec<char>);

impl Used {
    fn note(&mut self, c: char) {
        if !self.0.contains(&c) {
            self.0.push(c);
        }
    }
    fn legend(&self) -> String {
        let known = [
            ('█', "runs"),
            ('▓', "at least half a column"),
            ('░', "less"),
            ('▒', "handler"),
            ('·', "waits"),
            ('~', "waits for a resource"),
            ('-', "sleeps"),
            ('[', "lock"),
            (']', "unlock"),
            ('I', "lock and unlock"),
            ('↑', "release"),
            ('↓', "deadline"),
            ('↕', "both"),
            ('!', "missed, cut off or aborted"),
        ];
        let said: Vec<String> =
            known.iter().filter(|(c, _)| self.0.contains(c)).map(|(c, what)| format!("{c} {what}")).collect();
        if said.is_empty() { String::new() } else { format!("{}\n", said.join("   ")) }
    }
}
