//! `takt bench overhead`: what a process loses at each window border.

use super::bare::{self, Step};
use super::figures::{cell, median, ratio, text};
use super::imitated;
use super::lab::{Child, Claim, Lab, RunOptions};
use super::options::Common;
use crate::failure::Failure;
use crate::input::duration;
use crate::outcome::Outcome;
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Stdio};
use takt::report::Cell;
use takt_core::cpus::CpuSet;
use takt_core::time::Span;
use takt_linux::rt::Class;
use takt_workload::Code;

/// Measure the time that a process loses per window: under Takt, under the bare mechanism, and alone in turn
///
/// One process does a fixed amount of work. Its delay against a run alone on the CPU is divided by the
/// number of windows.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    #[command(flatten)]
    common: Common,
    /// Length of the windows; may be repeated; by default 1, 2, 5, 10 and 100ms
    #[arg(long = "window", value_name = "LENGTH", value_parser = duration)]
    windows: Vec<Span>,
    /// CPU time of the work in each measurement, from 10ms to 60s; a shorter one takes less time and has more noise
    #[arg(long, value_name = "LENGTH", default_value = "2s", value_parser = work)]
    work: Span,
    /// Also run with a power policy that writes a frequency at each window, over an imitated driver that takes 100us for each write
    #[arg(long)]
    power: bool,
}

const LENGTHS: [Span; 5] =
    [Span::from_ms(1), Span::from_ms(2), Span::from_ms(5), Span::from_ms(10), Span::from_ms(100)];
/// CPU time of the work with `--quick`.
const WORK_QUICK: Span = Span::from_ms(100);

/// Reads the CPU time of the work.
fn work(text: &str) -> Result<Span, String> {
    let span = duration(text)?;
    let allowed = (Span::from_ms(10)..=Span::from_secs(60)).contains(&span);
    allowed.then_some(span).ok_or_else(|| "the work takes from 10ms to 60s of CPU time".to_owned())
}

const POWER: &str = ". `power` is Takt with the power policy alternating, which writes a frequency at each window over an imitated driver that \
                     takes 100us for each write";

/// The part of each window that the process is given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    /// All of it: Takt lets the process run on and stops nothing, while the bare mechanism stops and starts it.
    Full,
    /// Nine tenths, so that everybody stops it once and starts it once per window.
    Gap,
}

impl Form {
    const ALL: [Form; 2] = [Form::Full, Form::Gap];

    fn name(self) -> &'static str {
        match self {
            Form::Full => "full",
            Form::Gap => "nine tenths",
        }
    }
    /// How much of a window the process is given.
    fn granted(self, length: Span) -> Span {
        match self {
            Form::Full => length,
            Form::Gap => length.scaled(9, 10),
        }
    }
    fn steps(self, length: Span) -> Vec<Step> {
        match self {
            Form::Full => vec![Step { at: Span::ZERO, stop: Some(0), start: Some(0) }],
            Form::Gap => vec![
                Step { at: Span::ZERO, stop: None, start: Some(0) },
                Step { at: self.granted(length), stop: Some(0), start: None },
            ],
        }
    }
}

/// The report of the process about its work.
#[derive(Clone, Copy, Debug)]
struct Work {
    start: Span,
    end: Span,
    cpu_time: Span,
}

impl Work {
    fn read(path: &Path) -> Result<Work, Failure> {
        let text = std::fs::read_to_string(path).map_err(|e| Failure::file("read", path, &e))?;
        let numbers: Vec<i64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        match numbers[..] {
            [start, end, cpu_time] => {
                let [start, end, cpu_time] = [start, end, cpu_time].map(Span::from_ns);
                Ok(Work { start, end, cpu_time })
            }
            _ => Err(Failure::status(101, Code::InternalFault, format!("the work process wrote `{}`", text.trim()))),
        }
    }
    fn elapsed(&self) -> Span {
        self.end - self.start
    }
}

/// A schedule of one repeating window, as it meets the work.
#[derive(Clone, Copy, Debug)]
struct Windows {
    start: Span,
    length: Span,
    granted: Span,
}

impl Windows {
    /// Time between time zero and `at` that was the process's.
    fn granted_until(&self, at: Span) -> i64 {
        let since = (at - self.start).ns();
        let (whole, rest) = (since.div_euclid(self.length.ns()), since.rem_euclid(self.length.ns()));
        whole * self.granted.ns() + rest.min(self.granted.ns())
    }
    /// Time that was the process's while it worked.
    fn granted_to(&self, work: &Work) -> i64 {
        self.granted_until(work.end) - self.granted_until(work.start)
    }
    /// Borders that the work met.
    fn borders(&self, work: &Work) -> i64 {
        let number = |at: Span| (at - self.start).ns().div_euclid(self.length.ns());
        number(work.end) - number(work.start)
    }
}

/// Nanoseconds lost per window.
#[derive(Clone, Copy, Debug)]
struct Loss {
    /// By the time that the work took longer than alone.
    elapsed: i64,
    /// By the time that the process had the CPU granted, but did not have it.
    cpu_time: i64,
}

impl Loss {
    fn of(work: &Work, windows: &Windows, alone: Span) -> Loss {
        let (granted, borders) = (windows.granted_to(work), windows.borders(work).max(1));
        Loss { elapsed: (granted - alone.ns()) / borders, cpu_time: (granted - work.cpu_time.ns()) / borders }
    }
}

/// One line of the result.
struct Case {
    length: Span,
    form: Form,
    controller: usize,
    alone: Vec<i64>,
    bare: Vec<Loss>,
    takt: Vec<Loss>,
    /// Under Takt with a power policy; empty without `--power`.
    power: Vec<Loss>,
    /// Writes of frequencies: the requests of the policy, and the writes of the driver.
    requested: u64,
    written: u64,
    /// How often the scheduler had to wake the thread that writes.
    wakeups: u64,
}

impl Case {
    fn windows(&self, start: Span) -> Windows {
        Windows { start, length: self.length, granted: self.form.granted(self.length) }
    }
    fn loss(rounds: &[Loss]) -> Loss {
        Loss { elapsed: median(rounds.iter().map(|l| l.elapsed)), cpu_time: median(rounds.iter().map(|l| l.cpu_time)) }
    }
    /// How far apart the rounds' times without any scheduler are, per window: no smaller loss can be told. One round
    /// alone says nothing about it.
    fn noise(&self) -> Option<i64> {
        if self.alone.len() < 2 {
            return None;
        }
        let spread = self.alone.iter().max()? - self.alone.iter().min()?;
        let windows = median(self.alone.iter().copied()) / self.form.granted(self.length).ns();
        Some(spread / windows.max(1))
    }
    /// The cells that name the case.
    fn name(&self, lab: &Lab) -> [Cell; 3] {
        let controller =
            if self.controller == lab.cpu { "same".into() } else { format!("CPU {}", self.controller).into() };
        [Cell::Exact(self.length), self.form.name().into(), controller]
    }
    /// The least and the largest loss of the rounds, in both measures, of each scheduler.
    fn ranges(&self, lab: &Lab) -> Vec<Cell> {
        let range = |rounds: &[Loss], loss: fn(&Loss) -> i64| {
            let values = || rounds.iter().map(loss);
            let (least, largest) = (values().min(), values().max());
            least
                .zip(largest)
                .map_or("-".into(), |(least, largest)| format!("{} – {}", text(least), text(largest)).into())
        };
        let all = [&self.bare, &self.takt, &self.power];
        let elapsed = all.iter().map(|rounds| range(rounds, |loss| loss.elapsed));
        let cpu_time = all.iter().map(|rounds| range(rounds, |loss| loss.cpu_time));
        self.name(lab).into_iter().chain(elapsed).chain(cpu_time).collect()
    }
    fn row(&self, lab: &Lab) -> Vec<Cell> {
        let (bare, takt) = (Case::loss(&self.bare), Case::loss(&self.takt));
        let with_power = |loss: fn(&Loss) -> i64| match self.power.is_empty() {
            true => "-".into(),
            false => cell(loss(&Case::loss(&self.power))),
        };
        let cells = [
            cell(median(self.alone.iter().copied())),
            cell(bare.elapsed),
            cell(takt.elapsed),
            ratio(takt.elapsed, bare.elapsed).into(),
            self.noise().map_or("-".into(), cell),
            cell(bare.cpu_time),
            cell(takt.cpu_time),
            ratio(takt.cpu_time, bare.cpu_time).into(),
            with_power(|loss| loss.elapsed),
            with_power(|loss| loss.cpu_time),
        ];
        self.name(lab).into_iter().chain(cells).collect()
    }
    fn json(&self) -> Value {
        let rounds = |losses: &[Loss]| {
            losses.iter().map(|l| json!({"elapsed": l.elapsed, "cpu_time": l.cpu_time})).collect::<Vec<_>>()
        };
        let (bare, takt) = (Case::loss(&self.bare), Case::loss(&self.takt));
        let power = (!self.power.is_empty()).then(|| {
            let power = Case::loss(&self.power);
            json!({"elapsed": power.elapsed, "cpu_time": power.cpu_time, "rounds": rounds(&self.power),
                   "requested": self.requested, "written": self.written, "wakeups": self.wakeups})
        });
        json!({
            "power_per_window_ns": power,
            "window_ns": self.length.ns(), "form": self.form.name(), "controller_cpu": self.controller,
            "alone_ns": self.alone, "noise_per_window_ns": self.noise(),
            "bare_per_window_ns": {"elapsed": bare.elapsed, "cpu_time": bare.cpu_time, "rounds": rounds(&self.bare)},
            "takt_per_window_ns": {"elapsed": takt.elapsed, "cpu_time": takt.cpu_time, "rounds": rounds(&self.takt)},
        })
    }
    fn claim(&self, lab: &Lab) -> Claim {
        self.judged(lab, Case::loss(&self.takt), "", (3, 2))
    }
    /// The loss with a power policy. Where the scheduler has a CPU of its own, the writer of frequencies has that of the work, so that nothing
    /// is claimed.
    fn claim_with_power(&self, lab: &Lab) -> Option<Claim> {
        let judged = !self.power.is_empty() && self.controller == lab.cpu;
        judged.then(|| self.judged(lab, Case::loss(&self.power), ", power policy", (11, 10)))
    }
    /// A loss against that of the bare mechanism, of which it may be a multiple.
    fn judged(&self, lab: &Lab, takt: Loss, what: &str, (times, over): (i64, i64)) -> Claim {
        let bare = Case::loss(&self.bare);
        let controller = if self.controller == lab.cpu { "same CPU" } else { "other CPU" };
        // Lost elapsed time is the whole truth, but where it drowns in noise, lost CPU time can still be
        // told.
        let coarse = self.noise().is_none_or(|noise| noise > bare.elapsed);
        let (bare, takt, measure) = match coarse {
            false => (bare.elapsed, takt.elapsed, ""),
            true => (bare.cpu_time, takt.cpu_time, " (CPU)"),
        };
        let limit = bare * times / over;
        let factor = format!("{}.{} x ", times / over, times * 10 / over % 10);
        Claim {
            what: format!("{} window, {}, {controller}{what}{measure}", self.length, self.form.name()),
            measured: cell(takt),
            limit: vec![factor.into(), cell(bare), " = ".into(), cell(limit)],
            holds: if bare > 0 && self.alone.len() > 1 { Some(takt <= limit) } else { None },
        }
    }
}

pub(super) fn run(args: &Args) -> Outcome {
    let lab = Lab::new("overhead", &args.common)?;
    let amount = if lab.session.quick { WORK_QUICK } else { args.work };
    lab.session.round(1, "calibrating");
    let iterations = calibrate(&lab, amount)?;
    let controllers: Vec<usize> = std::iter::once(lab.cpu).chain(lab.others.iter().next()).collect();
    let lengths = match (&args.windows[..], lab.session.quick) {
        ([], false) => &LENGTHS[..],
        ([], true) => &LENGTHS[2..4],
        (asked, _) => asked,
    };
    let machine = args.power.then(|| imitated::machine(&lab)).transpose()?;
    let mut cases = Vec::new();
    for &length in lengths {
        for form in Form::ALL {
            for &controller in &controllers {
                let (alone, bare, takt, power) = (vec![], vec![], vec![], vec![]);
                let (requested, written, wakeups) = (0, 0, 0);
                cases.push(Case { length, form, controller, alone, bare, takt, power, requested, written, wakeups });
            }
        }
    }
    for round in 1..=lab.session.rounds {
        for case in &mut cases {
            let controller = case.controller;
            lab.session.round(
                round,
                &format!("windows of {}, {}, controller on CPU {controller}", case.length, case.form.name()),
            );
            let alone = alone(&lab, iterations)?.elapsed();
            case.alone.push(alone.ns());
            case.bare.push(bare(&lab, case, iterations, alone, amount)?);
            case.takt.push(takt(&lab, case, iterations, alone, amount, None)?.0);
            if let Some(machine) = &machine {
                let power = Some((imitated::POLICY, machine.path()));
                let (loss, report) = takt(&lab, case, iterations, alone, amount, power)?;
                case.power.push(loss);
                let count = |key: &str| report["power"][key].as_u64().unwrap_or_default();
                case.requested += count("requested");
                case.written += count("written");
                case.wakeups += count("wakeups");
            }
        }
    }
    let heading = [
        "window",
        "given",
        "controller",
        "alone",
        "bare",
        "takt",
        "ratio",
        "noise",
        "bare (CPU)",
        "takt (CPU)",
        "ratio",
        "power",
        "power (CPU)",
    ];
    let columns = if args.power { heading.len() } else { heading.len() - 2 };
    let rows = std::iter::once(heading.map(Cell::from).to_vec()).chain(cases.iter().map(|c| c.row(&lab)));
    let rows: Vec<_> = rows.map(|row| row.into_iter().take(columns).collect()).collect();
    let claims = cases.iter().map(|c| c.claim(&lab)).chain(cases.iter().filter_map(|c| c.claim_with_power(&lab)));
    let claims: Vec<_> = claims.collect();
    let settings = format!(
        "work of about {amount} in one process of class SCHED_OTHER; controllers SCHED_FIFO 80. In `full` windows Takt lets the \
         process run on and stops nothing; in those of `nine tenths` all stop and start it once per window{}",
        if args.power { POWER } else { "" }
    );
    let confidence = confidence(lab.session.rounds);
    let results = json!({"iterations": iterations, "work_ns": amount.ns(), "confidence_of_ranges_e4": confidence, "cases": cases.iter().map(Case::json).collect::<Vec<_>>()});
    let title = "lost per window: work's time beyond that alone; (CPU): time granted beyond CPU time used";
    let mut tables = vec![(title.into(), rows)];
    if let Some(confidence) = confidence {
        let heading =
            ["window", "given", "controller", "bare", "takt", "power", "bare (CPU)", "takt (CPU)", "power (CPU)"];
        let rows =
            std::iter::once(heading.map(Cell::from).to_vec()).chain(cases.iter().map(|c| c.ranges(&lab))).collect();
        let (whole, tenths) = (confidence / 100, confidence / 10 % 10);
        tables.push((format!("range of the rounds, which has the median with {whole}.{tenths} % confidence"), rows));
    }
    lab.show(&settings, &tables, &claims, &results)
}

/// The confidence, in 1/10000, with which the range of so many independent rounds has the median of their distribution; `None` for one round. All rounds are
/// on one side of the median with probability 2·2⁻ⁿ (David and Nagaraja, Order Statistics, section 7.1).
fn confidence(rounds: u32) -> Option<u64> {
    let outside = 10_000u64.checked_shr(rounds.checked_sub(1)?).unwrap_or(0);
    (rounds > 1).then_some(10_000 - outside)
}

/// Work by itself on the lab's CPU.
fn alone(lab: &Lab, iterations: u64) -> Result<Work, Failure> {
    let out = lab.path("work");
    let args = lab.probe(&["work", &iterations.to_string(), &out.to_string_lossy(), "--cpu", &lab.cpu.to_string()]);
    let mut child = Child(Command::new(&args[0]).args(&args[1..]).stdin(Stdio::null()).spawn()?);
    child.0.wait()?;
    Work::read(&out)
}

/// How many iterations take that much CPU time.
fn calibrate(lab: &Lab, amount: Span) -> Result<u64, Failure> {
    let mut iterations = 1_000_000;
    loop {
        let used = alone(lab, iterations)?.cpu_time.ns().max(1) as u64;
        // Enough to tell the speed; then scale.
        if used > 20_000_000 {
            let scaled = u128::from(iterations) * amount.ns() as u128 / u128::from(used);
            return Ok(scaled as u64);
        }
        iterations *= 4;
    }
}

/// Far more than the work needs: then something is wrong, and the run ends anyway.
fn cap(amount: Span) -> Span {
    Span::from_ns(amount.ns() * 5) + Span::from_secs(10)
}

fn bare(lab: &Lab, case: &Case, iterations: u64, alone: Span, amount: Span) -> Result<Loss, Failure> {
    let out = lab.path("work");
    let measured = bare::run(
        lab,
        &bare::Plan {
            processes: vec![lab.probe(&["work", &iterations.to_string(), &out.to_string_lossy()])],
            class: Class::Other,
            controller: CpuSet::single(case.controller),
            frame: case.length,
            steps: case.form.steps(case.length),
            frames: (cap(amount).ns() / case.length.ns()) as usize,
            until_exit: true,
        },
    )?;
    Ok(Loss::of(&Work::read(&out)?, &case.windows(measured.start), alone))
}

/// Returns the report of the run, too.
fn takt(
    lab: &Lab,
    case: &Case,
    iterations: u64,
    alone: Span,
    amount: Span,
    power: Option<(&str, &Path)>,
) -> Result<(Loss, Value), Failure> {
    let out = lab.path("work");
    let cmd = lab.cmd(&lab.probe(&["work", &iterations.to_string(), &out.to_string_lossy()]));
    let (length, granted) = (case.length.ns(), case.form.granted(case.length).ns());
    let yaml = format!(
        "realtime: no\nscheduler_cpu: {}\nwindows: [{{length: {length}ns, cpu: {}, sc_partition: W}}]\n\
         partitions:\n  - name: W\n    processes: [{{budget: {granted}ns, cmd: {cmd}}}]\n",
        case.controller, lab.cpu,
    );
    let file = lab.workload(&yaml)?;
    let run = lab.run(&file, RunOptions { duration: Some(cap(amount)), power, ..RunOptions::default() })?;
    Ok((Loss::of(&Work::read(&out)?, &case.windows(run.start), alone), run.json))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_outside_the_windows_is_not_lost() {
        let ms = Span::from_ms;
        let windows = Windows { start: ms(100), length: ms(10), granted: ms(9) };
        // From the middle of window 0 to the middle of window 2: two pauses of 1 ms, two borders.
        let work = Work { start: ms(105), end: ms(125), cpu_time: ms(17) };
        assert_eq!((windows.granted_to(&work), windows.borders(&work)), (18_000_000, 2));
        let loss = Loss::of(&work, &windows, ms(16));
        assert_eq!((loss.elapsed, loss.cpu_time), (1_000_000, 500_000));
    }

    #[test]
    fn the_range_of_more_rounds_is_surer() {
        assert_eq!([1, 2, 3, 5, 100].map(confidence), [None, Some(5000), Some(7500), Some(9375), Some(10_000)]);
    }

    #[test]
    fn a_full_window_gives_all_time() {
        let ms = Span::from_ms;
        let windows = Windows { start: ms(0), length: ms(10), granted: ms(10) };
        let work = Work { start: ms(3), end: ms(43), cpu_time: ms(40) };
        assert_eq!((windows.granted_to(&work), windows.borders(&work)), (40_000_000, 4));
    }
}
