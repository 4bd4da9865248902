//! The chart for a terminal.

use super::rows::{cpu_rows, groups, heading, nice, range, titles};
use crate::timeline::{Interval, Timeline};
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
/// A task with more jobs than one in so many columns has ticks in place of arrows.
const ARROW: usize = 4;
/// More switches of policies than this are only counted, and more calls and changes from outside.
const SWITCHES_MOST: usize = 20;

/// Eighths of a column, for the part of it in which a CPU or task runs.
const EIGHTHS: [char; 7] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇'];

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

    /// The columns that show their load, because a letter or a shade would hide that they are idle for a while: an idle stretch
    /// between two of `stretches` is within the column, or one at each end of it leaves no column blank.
    fn crowded(&self, stretches: &[(Time, Time)]) -> Vec<bool> {
        let mut hidden = vec![0_u8; self.columns];
        let cell = self.cell.ns();
        for pair in stretches.windows(2) {
            let (idle, next) = (pair[0].1, pair[1].0);
            if idle < self.from || next > self.to {
                continue;
            }
            let (idle, next) = ((idle - self.from).ns(), (next - self.from).ns());
            let whole = (idle as u64).div_ceil(cell as u64) as i64 * cell;
            if whole + cell > next {
                // One that is within a column counts twice.
                for column in [idle / cell, (next - 1) / cell] {
                    hidden[column as usize] = hidden[column as usize].saturating_add(1);
                }
            }
        }
        hidden.into_iter().map(|ends| ends >= 2).collect()
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

/// The stretches without a pause that intervals make up, in their order.
fn stretches<'a>(intervals: impl Iterator<Item = &'a Interval>) -> Vec<(Time, Time)> {
    let mut all: Vec<(Time, Time)> = intervals.map(|i| (i.from, i.to)).filter(|(from, to)| from < to).collect();
    all.sort_unstable();
    let mut stretches: Vec<(Time, Time)> = Vec::with_capacity(all.len());
    for (from, to) in all {
        match stretches.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => stretches.push((from, to)),
        }
    }
    stretches
}

/// The part of a column as the nearest eighth; neither none nor all of it.
fn eighths(part: i64, whole: i64) -> char {
    let eighths = (i128::from(part) * 16 + i128::from(whole)) / (i128::from(whole) * 2);
    EIGHTHS[eighths.clamp(1, 7) as usize - 1]
}

fn letter(task: usize) -> char {
    LETTERS.get(task).map_or('*', |l| char::from(*l))
}
fn color(task: usize) -> u8 {
    COLORS[task % COLORS.len()]
}

fn short(label: &str) -> String {
    // Control characters of a terminal are not printed.
    let label: String = label.chars().map(|c| if names::is_hidden(c) { '?' } else { c }).collect();
    if label.chars().count() <= LABEL_MOST {
        return label;
    }
    label.chars().take(LABEL_MOST - 1).chain(['…']).collect()
}

/// Draws a trace as text: the windows, then a row per CPU, then per task a row with what it did and, if it has
/// deadlines or locks something, a row with releases, deadlines, misses and locks. Columns with several stretches of running show
/// their load. The same trace always gives the same text.
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
    let names = titles(trace, short);
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
        out += &chart.line(label, label_width, &cpu_cells(&chart, trace, &line, first, &mut used));
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
    let changes = || trace.changes.iter().filter(|c| c.at >= from && c.at <= to);
    for change in changes().take(SWITCHES_MOST) {
        writeln!(out, "at {} {change}", change.at).expect("a string takes all");
    }
    let more = changes().count().saturating_sub(SWITCHES_MOST);
    if more > 0 {
        writeln!(out, "{more} more {}", if more == 1 { "change" } else { "changes" }).expect("a string takes all");
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

fn cpu_cells(chart: &Chart, trace: &Trace, line: &Timeline, cpu: usize, used: &mut Used) -> Vec<Cell> {
    let mut time: Vec<Vec<(usize, i64)>> = vec![Vec::new(); chart.columns];
    let own = || line.intervals.iter().filter(|i| trace.header.places[i.place.index()].contains(cpu));
    for interval in own() {
        chart.spread(interval.from, interval.to, |column, ns| {
            let task = interval.task.index();
            match time[column].iter_mut().find(|(t, _)| *t == task) {
                Some((_, sum)) => *sum += ns,
                None => time[column].push((task, ns)),
            }
        });
    }
    let stretches = stretches(own());
    let mut busy = vec![0; chart.columns];
    for (from, to) in &stretches {
        chart.spread(*from, *to, |column, ns| busy[column] += ns);
    }
    let crowded = chart.crowded(&stretches);
    // The task that had most of the column; of equals the lower one.
    let most = |column: &Vec<(usize, i64)>| column.iter().map(|(t, ns)| (*ns, std::cmp::Reverse(*t))).max();
    let cell = |column: usize| {
        let Some((_, task)) = most(&time[column]) else { return (' ', None) };
        let (ran, length) = (busy[column], chart.length(column));
        let c = if crowded[column] && ran < length { eighths(ran, length) } else { letter(task.0) };
        used.note_load(c);
        (c, Some(color(task.0)))
    };
    (0..chart.columns).map(cell).collect()
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
    let crowded = chart.crowded(&stretches(line.intervals.iter().filter(|i| i.task.index() == task)));
    let cell = |column: usize| {
        let (ran, length) = (running[column], chart.length(column));
        let c = match ran {
            _ if ran > 0 && 2 * handling[column] >= ran => '▒',
            _ if ran >= length => '█',
            _ if ran > 0 && crowded[column] => eighths(ran, length),
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
    // Many arrows are ticks, which leave the misses to be seen.
    let shown = jobs.iter().filter(|job| chart.column(job.release).is_some()).count();
    let [release, due, both] =
        if shown * ARROW > chart.columns { ['╵', '╷', '│'] } else { ['↑', '↓', '↕'] };
    let mut cells: Vec<Cell> = vec![(' ', None); chart.columns + 1];
    let mut mark = |at: Time, c: char| {
        let Some(column) = chart.column(at) else { return };
        let cell = &mut cells[column];
        let is_both = c == due && [release, both].contains(&cell.0) || c == release && [due, both].contains(&cell.0);
        *cell = match (cell.0, c) {
            ('!', _) | (_, '!') => ('!', Some(RED)),
            // Releases and deadlines come after the locks and win over them.
            (']', '[') | ('[', ']') => ('I', None),
            _ if is_both => (both, None),
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
        mark(job.release, release);
        if let Some(deadline) = job.deadline {
            mark(deadline, due);
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
    /// Notes a glyph of the load, and no letter.
    fn note_load(&mut self, c: char) {
        if EIGHTHS.contains(&c) {
            self.note(c);
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
            ('╵', "release"),
            ('╷', "deadline"),
            ('│', "both"),
            ('!', "missed, cut off or aborted"),
        ];
        let mut said: Vec<String> =
            known.iter().filter(|(c, _)| self.0.contains(c)).map(|(c, what)| format!("{c} {what}")).collect();
        if EIGHTHS.iter().any(|c| self.0.contains(c)) {
            said.push("▁ to ▇ runs with pauses: part of the column".into());
        }
        if said.is_empty() { String::new() } else { format!("{}\n", said.join("   ")) }
    }
}
