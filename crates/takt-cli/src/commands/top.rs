//! `takt top`: a live view of a run, or of a recorded trace as if it ran now.
//!
//! Only visible rows are built, so a picture costs as much with a thousand tasks as with fifty. `--sort` and the keys sort snapshots, so
//! a paused view can be sorted, too.

mod history;
mod replay;
mod screen;
mod view;
mod words;

use crate::control::client::{Connection, find};
use crate::control::wire::{Reply, Request};
use crate::failure::{Failure, colour};
use crate::input::duration;
use crate::outcome::{Outcome, Verdict};
use history::History;
use ratatui::crossterm::event::{self, Event};
use replay::Replay;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use screen::Screen;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};
use takt::report::table;
use takt_core::time::{Span, Time};
use takt_trace::live::Snapshot;
use takt_workload::Code;
use view::{Action, Look, Sort, Source, View};
use words::{cell, escaped, event as event_line, instant, share, time};

/// Watch a run, or a recorded trace
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// A .jsonl or .csv trace to watch in place of a run
    #[arg(conflicts_with = "run")]
    trace: Option<PathBuf>,
    /// The run, by its name or process id, or the path of its socket; by default the only one
    #[arg(long, value_name = "ID|SOCKET")]
    run: Option<String>,
    /// Begin at this instant of the trace; with `--once` and without this, its end is shown
    #[arg(long, value_name = "INSTANT", requires = "trace", value_parser = takt_workload::parse_duration)]
    at: Option<Span>,
    /// Play the trace so much faster than real time, such as 10 or 0.1
    #[arg(long, value_name = "FACTOR", requires = "trace", value_parser = speed)]
    speed: Option<u64>,
    /// Order of the tasks
    #[arg(long, value_enum, default_value_t = Sort::File)]
    sort: Sort,
    /// Time between two pictures, from 20ms to 10s
    #[arg(long, default_value = "100ms", value_parser = interval)]
    interval: Span,
    /// Print one table and end
    #[arg(long)]
    once: bool,
    /// Print one JSON object and end
    #[arg(long)]
    json: bool,
}

/// The slowest and the fastest speed, in thousandths.
const SPEEDS: std::ops::RangeInclusive<u64> = 1..=1_000_000;

/// A factor as thousandths.
fn speed(text: &str) -> Result<u64, String> {
    let factor: f64 = text.parse().map_err(|_| "a factor such as 10 or 0.1".to_owned())?;
    let thousandths = factor * 1000.0;
    let range = || "choose a factor from 0.001 to 1000".to_owned();
    if !thousandths.is_finite() || thousandths < 0.5 || thousandths > *SPEEDS.end() as f64 {
        return Err(range());
    }
    Ok((thousandths.round() as u64).max(1))
}

fn interval(text: &str) -> Result<Span, String> {
    let span = duration(text)?;
    if (Span::from_ms(20)..=Span::from_secs(10)).contains(&span) {
        Ok(span)
    } else {
        Err("choose an interval from 20ms to 10s".into())
    }
}

pub(crate) fn run(args: &Args) -> Outcome {
    if !(args.once || args.json) {
        screen::is_there()?;
    }
    let Some(trace) = &args.trace else { return watch(args) };
    let mut replay = Replay::new(super::trace::read(trace)?);
    let mut history = History::new(replay.sampling());
    if args.once || args.json {
        let at = args.at.map_or(replay.end(), |at| Time::ZERO + at);
        replay.go_to(at, &mut history);
        return once(&replay.snapshot(), args);
    }
    replay.go_to(args.at.map_or(Time::ZERO, |at| Time::ZERO + at), &mut history);
    let source = Source::Trace { speed: args.speed.unwrap_or(1000), end_ns: replay.end().ns() };
    play(replay, history, View::new(look(), source, args.sort), args.interval)?;
    Ok(Verdict::Done)
}

fn look() -> Look {
    Look { colour: colour(&io::stdout()), unicode: screen::unicode() }
}

/// A message of a run.
enum Heard {
    Figures(Box<Snapshot>),
    /// The run is over.
    Over,
    Lost(Failure),
}

/// Watches a run.
fn watch(args: &Args) -> Outcome {
    let mut run = Connection::open(&find(args.run.as_deref())?)?;
    run.send(&Request::Top { interval_ms: (args.interval.ns() / 1_000_000) as u64 })?;
    let first = match figures(&mut run) {
        Heard::Figures(status) => *status,
        Heard::Over => return Err(over()),
        Heard::Lost(failure) => return Err(failure),
    };
    if args.once || args.json {
        return once(&first, args);
    }
    let (sender, heard) = sync_channel(4);
    let reader = std::thread::Builder::new().name("takt-top".into());
    let started = reader.spawn(move || {
        loop {
            let next = figures(&mut run);
            let last = !matches!(next, Heard::Figures(_));
            if sender.send(next).is_err() || last {
                break;
            }
        }
    });
    started.map_err(|e| Failure::thread(&e))?;
    follow(&heard, first, View::new(look(), Source::Live, args.sort), args.interval)
}

fn over() -> Failure {
    Failure::status(
        1,
        Code::NoRun,
        "the run has ended before it gave its figures\nhint: start another one with `takt run`",
    )
}

/// The next figures of a run.
fn figures(run: &mut Connection) -> Heard {
    loop {
        return match run.next() {
            Ok(Some(Reply::Figures(status))) => Heard::Figures(status),
            Ok(Some(Reply::Error(fault))) => {
                Heard::Lost(Failure::input(Code::CommandRefused, fault.message, &fault.hint))
            }
            Ok(Some(_)) => continue,
            Ok(None) => Heard::Over,
            Err(failure) => Heard::Lost(failure),
        };
    }
}

/// Shows a run until it ends, or a key or a signal ends that.
fn follow(heard: &Receiver<Heard>, first: Snapshot, mut view: View, interval: Span) -> Outcome {
    let frame = Duration::from_nanos(interval.ns().unsigned_abs());
    let (mut history, mut status) = (History::new(Span::from_ms(250)), first);
    history.take(&status);
    let mut screen = Screen::open()?;
    let mut shown = Instant::now();
    screen.terminal.draw(|frame| view.draw(frame, &status, &history))?;
    while !screen.is_stopped() {
        let mut changed = false;
        match input(shown + frame)? {
            Some(Event::Key(key)) => {
                match view.key(key, &status) {
                    Some(Action::Quit) => return Ok(Verdict::Done),
                    Some(Action::Pause) => view.paused = !view.paused,
                    _ => {}
                }
                changed = true;
            }
            // Also a picture that stands still fits into its terminal.
            Some(Event::Resize(..)) => changed = true,
            _ => {}
        }
        let mut end = None;
        while let Ok(next) = heard.try_recv() {
            match next {
                // The history continues while the picture stands still.
                Heard::Figures(next) => {
                    history.take(&next);
                    if !view.paused {
                        (status, changed) = (*next, true);
                    }
                }
                Heard::Over => end = Some(Ok(Verdict::Done)),
                Heard::Lost(failure) => end = Some(Err(failure)),
            }
        }
        if let Some(end) = end {
            drop(screen);
            if end.is_ok() {
                writeln!(io::stdout(), "the run has ended, at {}", instant(status.now_ns))?;
            }
            return end;
        }
        let now = Instant::now();
        if now >= shown + frame {
            shown = now;
        }
        if changed {
            screen.terminal.draw(|frame| view.draw(frame, &status, &history))?;
        }
    }
    Ok(Verdict::Done)
}

/// Plays a trace until a key or a signal ends it.
fn play(mut replay: Replay, mut history: History, mut view: View, interval: Span) -> Result<(), Failure> {
    let Source::Trace { mut speed, end_ns } = view.source else { return Ok(()) };
    let frame = Duration::from_nanos(interval.ns().unsigned_abs());
    let mut screen = Screen::open()?;
    let (mut shown, mut status) = (Instant::now(), replay.snapshot());
    while !screen.is_stopped() {
        screen.terminal.draw(|frame| view.draw(frame, &status, &history))?;
        if let Some(Event::Key(key)) = input(shown + frame)? {
            match view.key(key, &status) {
                Some(Action::Quit) => return Ok(()),
                // At the end, it begins again.
                Some(Action::Pause) if view.paused && replay.is_over() => {
                    replay.go_to(Time::ZERO, &mut history);
                    view.paused = false;
                }
                Some(Action::Pause) => view.paused = !view.paused,
                Some(Action::Seek(by)) => replay.go_to(replay.at().saturating_add(by), &mut history),
                Some(Action::Begin) => replay.go_to(Time::ZERO, &mut history),
                Some(Action::End) => replay.go_to(replay.end(), &mut history),
                Some(Action::Faster) => speed = (speed * 2).min(*SPEEDS.end()),
                Some(Action::Slower) => speed = (speed / 2).max(*SPEEDS.start()),
                None => {}
            }
            view.source = Source::Trace { speed, end_ns };
        }
        let now = Instant::now();
        if now >= shown + frame && !view.paused {
            let passed = i128::try_from((now - shown).as_nanos()).unwrap_or(i128::MAX) * i128::from(speed) / 1000;
            let passed = Span::from_ns(i64::try_from(passed).unwrap_or(i64::MAX));
            replay.go_to(replay.at().saturating_add(passed), &mut history);
            view.paused = replay.is_over();
        }
        if now >= shown + frame {
            shown = now;
        }
        status = replay.snapshot();
    }
    Ok(())
}

/// The next key or change of the terminal, or `None` when the limit comes first.
///
/// # Errors
/// The terminal is gone. It is looked for here, since crossterm reads a terminal that is gone for ever.
fn input(limit: Instant) -> io::Result<Option<Event>> {
    for limit in [None, Some(limit)] {
        let left = limit.map_or(Duration::ZERO, |limit| limit.saturating_duration_since(Instant::now()));
        let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        let stdin = io::stdin();
        let mut terminal = [PollFd::new(&stdin, PollFlags::IN)];
        match poll(&mut terminal, Some(&left)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
        if terminal[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
            return Err(io::Error::new(io::ErrorKind::BrokenPipe, "the terminal is gone"));
        }
        if event::poll(Duration::ZERO)? {
            return event::read().map(Some);
        }
    }
    Ok(None)
}

/// Prints the figures of one instant.
fn once(status: &Snapshot, args: &Args) -> Outcome {
    let mut out = io::BufWriter::new(io::stdout().lock());
    if args.json {
        serde_json::to_writer(&mut out, status).map_err(io::Error::from)?;
        writeln!(out)?;
    } else {
        print(&mut out, status, args.sort)?;
    }
    out.flush()?;
    Ok(Verdict::Done)
}

fn print(out: &mut impl Write, status: &Snapshot, sort: Sort) -> io::Result<()> {
    let (workload, policy) = (escaped(&status.workload), escaped(&status.policy));
    writeln!(out, "{workload}: policy {policy}, at {}\n", instant(status.now_ns))?;
    let columns = ["task", "state", "job", "util", "met", "missed", "p50", "p99", "max", "budget", "cpu"];
    let head = columns.map(str::to_owned).to_vec();
    let row = |task: &usize| columns.iter().map(|column| cell(&status.tasks[*task], column)).collect();
    let order = view::sorted(&status.tasks, sort, false);
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(order.iter().map(row)).collect();
    table(out, &rows)?;
    writeln!(out)?;
    for cpu in &status.cpus {
        let task = cpu.task.and_then(|task| status.tasks.get(task)).map_or("idle".into(), |task| escaped(&task.name));
        writeln!(out, "CPU {}: {}, {task}", cpu.cpu, share(Some(cpu.load_ppm)))?;
    }
    let late = &status.lateness;
    if late.count > 0 {
        let [p50, p99, max] = [late.p50_ns, late.p99_ns, late.max_ns].map(time);
        writeln!(out, "scheduling latency: p50 {p50}, p99 {p99}, max {max}")?;
    }
    if let Some(overload) = status.overload {
        writeln!(out, "overload since {}, missed jobs: {}", instant(overload.since_ns), overload.misses)?;
    }
    if status.lost_records > 0 {
        writeln!(out, "warning: {} trace records were lost, and the figures lack them", status.lost_records)?;
    }
    if !status.events.is_empty() {
        writeln!(out, "\nlast events")?;
        status.events.iter().rev().take(10).try_for_each(|one| writeln!(out, "{}", event_line(one, status)))?;
    }
    Ok(())
}
