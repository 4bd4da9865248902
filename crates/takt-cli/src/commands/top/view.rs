//! The picture of a schedule, and the keys that change it.

use super::history::{History, Sample};
use super::words::{cell, escaped, event, instant, measured, share, time};
use ratatui::Frame;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span as Words};
use ratatui::widgets::{Paragraph, Row, Table, TableState};
use std::cmp::Reverse;
use takt_core::time::Span;
use takt_trace::live::{CpuStatus, Snapshot, TaskState, TaskStatus};

/// The order of tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Sort {
    /// As in the workload
    File,
    /// By name
    Name,
    /// Most utilisation first
    Util,
    /// Most missed jobs first
    Missed,
    /// Longest median of response times first
    P50,
    /// Longest p99 of response times first
    P99,
    /// Least budget left first
    Budget,
}

impl Sort {
    fn word(self) -> &'static str {
        match self {
            Sort::File => "file",
            Sort::Name => "name",
            Sort::Util => "util",
            Sort::Missed => "missed",
            Sort::P50 => "p50",
            Sort::P99 => "p99",
            Sort::Budget => "budget",
        }
    }

    fn from_key(key: char) -> Option<Sort> {
        Some(match key {
            'f' => Sort::File,
            'n' => Sort::Name,
            'u' => Sort::Util,
            'm' => Sort::Missed,
            '5' => Sort::P50,
            '9' => Sort::P99,
            'b' => Sort::Budget,
            _ => return None,
        })
    }
}

/// The indices of tasks in an order. Ties keep the order of the workload.
pub(super) fn sorted(tasks: &[TaskStatus], sort: Sort, reverse: bool) -> Vec<usize> {
    let mut order: Vec<usize> = (0..tasks.len()).collect();
    match sort {
        Sort::File => {}
        Sort::Name => order.sort_by(|a, b| tasks[*a].name.cmp(&tasks[*b].name)),
        Sort::Util => order.sort_by_key(|task| Reverse(tasks[*task].utilisation_ppm)),
        Sort::Missed => order.sort_by_key(|task| Reverse(tasks[*task].missed)),
        Sort::P50 => order.sort_by_key(|task| Reverse(tasks[*task].response.p50_ns)),
        Sort::P99 => order.sort_by_key(|task| Reverse(tasks[*task].response.p99_ns)),
        Sort::Budget => order.sort_by_key(|task| tasks[*task].budget_left_ns.unwrap_or(i64::MAX)),
    }
    if reverse {
        order.reverse();
    }
    order
}

/// A request of a key to the source of the figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Quit,
    Pause,
    Seek(Span),
    Begin,
    End,
    Faster,
    Slower,
}

/// Where the figures come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Live,
    /// A recorded trace, played at a speed in thousandths of real time, with its end.
    Trace {
        speed: u64,
        end_ns: i64,
    },
}

/// The abilities of the terminal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub(super) colour: bool,
    pub(super) unicode: bool,
}

/// The picture.
pub(super) struct View {
    pub(super) look: Look,
    pub(super) source: Source,
    pub(super) sort: Sort,
    pub(super) reverse: bool,
    pub(super) paused: bool,
    /// The task under the cursor, as an index of the snapshot.
    selected: usize,
    /// The history of that task is shown.
    detail: bool,
    /// The first row of tasks that is shown.
    first: usize,
}

const COLUMNS: [(&str, u16); 10] = [
    ("state", 8),
    ("job", 9),
    ("util", 9),
    ("met", 9),
    ("missed", 8),
    ("p50", 9),
    ("p99", 9),
    ("max", 9),
    ("budget", 9),
    ("cpu", 7),
];
/// The order in which columns go where the terminal is narrow.
const DISPENSABLE: [&str; 6] = ["job", "cpu", "max", "met", "state", "budget"];
const NAME_MIN: u16 = 12;

impl View {
    pub(super) fn new(look: Look, source: Source, sort: Sort) -> View {
        View { look, source, sort, reverse: false, paused: false, selected: 0, detail: false, first: 0 }
    }

    /// Takes a key. Returns the action for the source of the figures.
    pub(super) fn key(&mut self, key: KeyEvent, status: &Snapshot) -> Option<Action> {
        if key.kind == KeyEventKind::Release {
            return None;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return (key.code == KeyCode::Char('c')).then_some(Action::Quit);
        }
        let second = Span::from_secs(1);
        match key.code {
            KeyCode::Char('q') => return Some(Action::Quit),
            KeyCode::Char(' ' | 'p') => return Some(Action::Pause),
            KeyCode::Esc if self.detail => self.detail = false,
            KeyCode::Esc => return Some(Action::Quit),
            KeyCode::Enter => self.detail = !self.detail,
            KeyCode::Up | KeyCode::Char('k') => self.select(status, -1),
            KeyCode::Down | KeyCode::Char('j') => self.select(status, 1),
            KeyCode::PageUp => self.select(status, -10),
            KeyCode::PageDown => self.select(status, 10),
            KeyCode::Left => return Some(Action::Seek(-second)),
            KeyCode::Right => return Some(Action::Seek(second)),
            KeyCode::Char('[') => return Some(Action::Seek(-second * 10)),
            KeyCode::Char(']') => return Some(Action::Seek(second * 10)),
            KeyCode::Char(',') => return Some(Action::Seek(Span::from_ms(-10))),
            KeyCode::Char('.') => return Some(Action::Seek(Span::from_ms(10))),
            KeyCode::Home => return Some(Action::Begin),
            KeyCode::End => return Some(Action::End),
            KeyCode::Char('+' | '=') => return Some(Action::Faster),
            KeyCode::Char('-') => return Some(Action::Slower),
            KeyCode::Char('r') => self.reverse = !self.reverse,
            KeyCode::Char(c) => {
                if let Some(sort) = Sort::from_key(c) {
                    (self.sort, self.reverse) = (sort, false);
                }
            }
            _ => {}
        }
        None
    }

    fn select(&mut self, status: &Snapshot, by: isize) {
        let order = sorted(&status.tasks, self.sort, self.reverse);
        let now = order.iter().position(|task| *task == self.selected).unwrap_or(0);
        let to = now.saturating_add_signed(by).min(order.len().saturating_sub(1));
        self.selected = order.get(to).copied().unwrap_or(0);
    }

    fn style(&self, colour: Color) -> Style {
        if self.look.colour { Style::default().fg(colour) } else { Style::default() }
    }

    pub(super) fn draw(&mut self, frame: &mut Frame, status: &Snapshot, history: &History) {
        let area = frame.area();
        let per_line = usize::from((area.width / 40).max(1));
        let cpus = status.cpus.len().div_ceil(per_line).min(usize::from(area.height / 4)) as u16;
        let below = if self.detail { (area.height / 2).clamp(4, 14) } else { (area.height / 4).clamp(2, 9) };
        let rows = [
            Constraint::Length(1),
            Constraint::Length(1),
            Constraint::Length(cpus),
            Constraint::Min(2),
            Constraint::Length(below),
            Constraint::Length(1),
        ];
        let [title, line, cpu, tasks, lower, help] = Layout::vertical(rows).areas(area);
        let reversed = Style::default().add_modifier(Modifier::REVERSED);
        frame.render_widget(Paragraph::new(self.title(status)).style(reversed), title);
        frame.render_widget(Paragraph::new(self.line(status)), line);
        frame.render_widget(Paragraph::new(self.cpus(status, per_line, cpu)), cpu);
        self.tasks(frame, status, tasks);
        let lower_text = if self.detail { self.detail(status, history, lower) } else { self.events(status, lower) };
        frame.render_widget(Paragraph::new(lower_text), lower);
        frame.render_widget(Paragraph::new(self.help()).style(reversed), help);
    }

    fn title(&self, status: &Snapshot) -> String {
        let (now, policy) = (instant(status.now_ns), escaped(&status.policy));
        let of = match self.source {
            Source::Live => status.duration_ns,
            Source::Trace { end_ns, .. } => Some(end_ns),
        };
        let of = of.map(|ns| format!(" of {}", instant(ns))).unwrap_or_default();
        let state = match (self.source, self.paused) {
            (_, true) => "PAUSED".to_owned(),
            (Source::Live, false) => "live".to_owned(),
            (Source::Trace { speed, .. }, false) => format!("speed {}", thousandths(speed)),
        };
        format!(" takt top  {}  policy {policy}  {now}{of}  {state}", escaped(&status.workload))
    }

    fn line(&self, status: &Snapshot) -> Line<'static> {
        let late = &status.lateness;
        let mut words = Vec::new();
        if late.count > 0 {
            let figures = [late.p50_ns, late.p99_ns, late.max_ns].map(time);
            words.push(format!("scheduling latency: p50 {}, p99 {}, max {}", figures[0], figures[1], figures[2]));
        }
        words.push(format!("switches {}", status.context_switches));
        words.push(format!("overloads {}", status.overloads));
        for (count, what) in [(status.windows_lost, "windows lost"), (status.lost_records, "records lost")] {
            if count > 0 {
                words.push(format!("{what} {count}"));
            }
        }
        let mut line = vec![Words::raw(format!(" {}", words.join("   ")))];
        if let Some(overload) = status.overload {
            let text = format!("   OVERLOAD since {}, {} missed", instant(overload.since_ns), overload.misses);
            line.push(Words::styled(text, self.style(Color::Red).add_modifier(Modifier::BOLD)));
        }
        Line::from(line)
    }

    fn cpus(&self, status: &Snapshot, per_line: usize, area: Rect) -> Vec<Line<'static>> {
        let width = usize::from(area.width) / per_line;
        let one = |cpu: &CpuStatus| {
            let filled = (cpu.load_ppm.min(1_000_000) * 10 / 1_000_000) as usize;
            let bar = format!("{}{}", "|".repeat(filled), " ".repeat(10 - filled));
            let task = cpu.task.and_then(|task| status.tasks.get(task)).map_or("idle".into(), |t| escaped(&t.name));
            let text = format!(" CPU {:<3} [{bar}] {:>9}  {task}", cpu.cpu, share(Some(cpu.load_ppm)));
            format!("{:<width$}", text.chars().take(width).collect::<String>())
        };
        status.cpus.chunks(per_line).map(|cpus| Line::from(cpus.iter().map(one).collect::<String>())).collect()
    }

    fn tasks(&mut self, frame: &mut Frame, status: &Snapshot, area: Rect) {
        let mut columns = COLUMNS.to_vec();
        let needed = |columns: &[(&str, u16)]| NAME_MIN + columns.iter().map(|(_, width)| width + 1).sum::<u16>();
        for name in DISPENSABLE {
            if needed(&columns) > area.width {
                columns.retain(|(column, _)| *column != name);
            }
        }
        let order = sorted(&status.tasks, self.sort, self.reverse);
        let position = order.iter().position(|task| *task == self.selected).unwrap_or(0);
        // Only the rows that can be seen: a frame costs as much with a thousand tasks as with fifty.
        let seen = usize::from(area.height.saturating_sub(1)).max(1);
        let first = self.first.clamp((position + 1).saturating_sub(seen), position);
        let first = first.min(order.len().saturating_sub(seen));
        self.first = first;
        let row = |index: &usize| {
            let task = &status.tasks[*index];
            let style = match task.state {
                TaskState::Gone => self.style(Color::DarkGray),
                _ if task.missed > 0 => self.style(Color::Red),
                TaskState::Running => self.style(Color::Green),
                _ => Style::default(),
            };
            let right =
                |(name, width): &(&str, u16)| format!("{:>width$}", cell(task, name), width = usize::from(*width));
            Row::new(std::iter::once(format!(" {}", cell(task, "task"))).chain(columns.iter().map(right))).style(style)
        };
        let rows: Vec<Row> = order.iter().skip(first).take(seen).map(row).collect();
        let mark = |name: &str| if name == self.sort.word() { format!("{name}*") } else { name.to_owned() };
        let name = if self.sort == Sort::Name { " task*" } else { " task" };
        let head = std::iter::once(name.to_owned())
            .chain(columns.iter().map(|(name, width)| format!("{:>width$}", mark(name), width = usize::from(*width))));
        let widths = std::iter::once(Constraint::Min(NAME_MIN - 1))
            .chain(columns.iter().map(|(_, width)| Constraint::Length(*width)));
        let table = Table::new(rows, widths)
            .header(Row::new(head).style(Style::default().add_modifier(Modifier::BOLD)))
            .row_highlight_style(Style::default().add_modifier(Modifier::REVERSED))
            .column_spacing(1);
        let mut shown = TableState::default().with_selected((!order.is_empty()).then(|| position - first));
        frame.render_stateful_widget(table, area, &mut shown);
    }

    fn events(&self, status: &Snapshot, area: Rect) -> Vec<Line<'static>> {
        let head = Line::styled(" last events", Style::default().add_modifier(Modifier::BOLD));
        let most = usize::from(area.height.saturating_sub(1));
        let latest = status.events.iter().rev().take(most).map(|one| Line::raw(event(one, status)));
        std::iter::once(head).chain(latest).collect()
    }

    /// The history of the task under the cursor.
    fn detail(&self, status: &Snapshot, history: &History, area: Rect) -> Vec<Line<'static>> {
        let Some(task) = status.tasks.get(self.selected) else { return Vec::new() };
        let bold = Style::default().add_modifier(Modifier::BOLD);
        let deadline = task.deadline_ns.map_or_else(|| "-".into(), instant);
        let head = format!(" {}  {}  deadline {deadline}", escaped(&task.name), task.state.name());
        let jobs = format!(
            " released {}  completed {}  met {}  missed {}  aborted {}  skipped {}  lost {}",
            task.released, task.completed, task.met, task.missed, task.aborted, task.skipped, task.lost
        );
        let response = &task.response;
        let figures = [response.p50_ns, response.p99_ns, response.max_ns].map(|ns| measured(response.count, ns));
        let times = format!(
            " response p50 {}  p99 {}  max {}  last {}   budget left {}",
            figures[0],
            figures[1],
            figures[2],
            task.last_response_ns.map_or_else(|| "-".into(), time),
            cell(task, "budget")
        );
        let moves = format!(
            " dispatches {}  preemptions {}  migrations {}  activations {}  cut off {}",
            task.dispatches, task.preemptions, task.migrations, task.activations, task.cut_off
        );
        let width = usize::from(area.width).saturating_sub(30).max(1);
        let samples: Vec<&Sample> = history.of(self.selected).collect();
        let samples = &samples[samples.len().saturating_sub(width)..];
        let line = |name: &str, value: fn(&Sample) -> u64, most: Option<u64>, words: fn(u64) -> String| {
            let values: Vec<u64> = samples.iter().map(|sample| value(sample)).collect();
            let largest = values.iter().copied().max().unwrap_or(0);
            let graph = spark(&values, most.unwrap_or(largest), self.look.unicode);
            Line::raw(format!(" {name:<12}{graph}  max {}", words(largest)))
        };
        let mut lines = vec![Line::styled(head, bold), Line::raw(jobs), Line::raw(times), Line::raw(moves)];
        lines.push(line("utilisation", |sample| sample.utilisation_ppm, Some(1_000_000), |ppm| share(Some(ppm))));
        lines.push(line("missed", |sample| sample.missed, None, |count| count.to_string()));
        lines.push(line("completed", |sample| sample.completed, None, |count| count.to_string()));
        lines.push(line(
            "response",
            |sample| sample.response_ns,
            None,
            |ns| time(i64::try_from(ns).unwrap_or(i64::MAX)),
        ));
        let span = history.every() * i64::try_from(samples.len()).unwrap_or(0);
        lines.push(Line::raw(format!(" the last {}, one character for {}", instant(span.ns()), history.every())));
        let own = status.events.iter().rev().filter(|event| event.task == Some(self.selected));
        lines.extend(own.map(|one| Line::raw(event(one, status))));
        lines
    }

    fn help(&self) -> String {
        let replay = match self.source {
            Source::Live => "",
            Source::Trace { .. } => "  arrows seek  + - speed",
        };
        format!(" q quit  space pause  Enter history  j k select{replay}  sort: f n u m 5 9 b  r reverse")
    }
}

/// Thousandths as a factor: `1x`, `0.25x`.
fn thousandths(speed: u64) -> String {
    let text = format!("{}.{:03}", speed / 1000, speed % 1000);
    format!("{}x", text.trim_end_matches('0').trim_end_matches('.'))
}

/// Values as a row of characters; one that is not zero is never blank.
fn spark(values: &[u64], most: u64, unicode: bool) -> String {
    let steps: &[char] = if unicode {
        &[' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█']
    } else {
        &[' ', '.', ':', '-', '=', '+', '*', '%', '#']
    };
    let last = (steps.len() - 1) as u128;
    let step = |value: u64| (u128::from(value) * last).div_ceil(u128::from(most.max(1))).min(last) as usize;
    values.iter().map(|value| steps[step(*value)]).collect()
}

#[cfg(test)]
mod tests;
