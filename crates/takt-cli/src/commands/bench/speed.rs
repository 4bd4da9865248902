//! `takt bench speed`: how much work each CPU does at each of its frequencies, for the key `platform` and the power policy `slowest`.

use super::figures::cpu_time;
use super::lab::Session;
use super::options::Rounds;
use crate::failure::Failure;
use crate::outcome::{Outcome, Verdict};
use rustix::event::{EventfdFlags, eventfd};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::hint::black_box;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use takt::report::{Cell, table};
use takt_core::cpus::CpuSet;
use takt_linux::leftovers::OnCrash;
use takt_linux::power::{self, Domain, Power, Refusal, Root, Settings};
use takt_linux::{RunId, rt, watcher};
use takt_workload::Code;

/// Measure the speed of each CPU at each of its frequencies, relative to the fastest one
///
/// Two loops measure: integer arithmetic in registers, and reads of memory that depend on each other, in 32 MiB. The result is printed as lines for the
/// key `platform`, whose speeds the power policy `slowest` uses. One CPU of each frequency domain is measured. Without control of frequencies, each CPU
/// is measured at its present speed. All settings are restored.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    #[command(flatten)]
    rounds: Rounds,
    /// The loop whose speeds are printed as lines for `platform`
    #[arg(long, value_enum, default_value_t = Kind::Integer)]
    by: Kind,
    /// One short round that shows that everything works; its figures have no meaning
    #[arg(long)]
    quick: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Control the power management of an imitated machine, whose files are below this directory
    #[arg(long, value_name = "DIR", hide = true)]
    sysfs_root: Option<PathBuf>,
}

#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// Integer arithmetic
    Integer,
    /// Dependent reads of memory
    Memory,
}

/// The most frequencies of a domain that are measured. Drivers without a table have one for each 100 MHz.
const MOST: usize = 16;
/// Time for the kernel to report a frequency that was requested, and for the processor to have it.
const SWITCH: Duration = Duration::from_millis(200);
const SETTLE: Duration = Duration::from_millis(5);
/// CPU time of one measurement, in nanoseconds.
const LONG: i64 = 40_000_000;
const SHORT: i64 = 500_000;
/// Entries of 4 bytes.
const MEMORY: usize = 8 << 20;
const MEMORY_QUICK: usize = 1 << 16;

/// The loops, with their memory.
struct Loops {
    next: Vec<u32>,
    at: u32,
    long: i64,
}

impl Loops {
    fn new(quick: bool) -> Loops {
        let length = if quick { MEMORY_QUICK } else { MEMORY };
        Loops { next: cycle(length), at: 0, long: if quick { SHORT } else { LONG } }
    }

    /// Picoseconds of CPU time for one step of each loop.
    fn measure(&mut self) -> Times {
        let integer = per_step(self.long, |steps| {
            black_box(arithmetic(black_box(steps)));
        });
        let (next, at) = (&self.next, &mut self.at);
        let memory = per_step(self.long, |steps| {
            for _ in 0..steps {
                *at = next[*at as usize];
            }
            black_box(*at);
        });
        Times { integer, memory }
    }
}

/// Steps of integer arithmetic that depend on each other.
fn arithmetic(steps: u64) -> u64 {
    let mut x = 0x9e37_79b9_7f4a_7c15_u64;
    for n in 0..steps {
        x ^= x << 13;
        x ^= x >> 7;
        x = x.wrapping_mul(0x2545_f491_4f6c_dd1d).wrapping_add(n);
    }
    x
}

/// A random permutation of one cycle (Sattolo's algorithm): each read depends on the one before, and none is soon repeated.
fn cycle(length: usize) -> Vec<u32> {
    let mut next: Vec<u32> = (0..length as u32).collect();
    let mut x = 0x2545_f491_4f6c_dd1d_u64;
    for i in (1..length).rev() {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        next.swap(i, (x % i as u64) as usize);
    }
    next
}

/// Doubles the steps until they take so long. Returns picoseconds of CPU time for one step.
fn per_step(long: i64, mut run: impl FnMut(u64)) -> i64 {
    let mut steps = 1000;
    loop {
        let before = cpu_time();
        run(steps);
        let took = (cpu_time() - before).ns();
        if took >= long {
            return (i128::from(took) * 1000 / i128::from(steps)).max(1) as i64;
        }
        steps *= 2;
    }
}

/// Picoseconds for one step of each loop.
#[derive(Clone, Copy, Debug)]
struct Times {
    integer: i64,
    memory: i64,
}

impl Times {
    fn of(self, kind: Kind) -> i64 {
        match kind {
            Kind::Integer => self.integer,
            Kind::Memory => self.memory,
        }
    }
    /// The shorter ones: disturbances only lengthen them.
    fn least(self, other: Times) -> Times {
        Times { integer: self.integer.min(other.integer), memory: self.memory.min(other.memory) }
    }
}

/// CPUs of one speed, at each of their frequencies.
struct Cluster {
    name: String,
    cpus: CpuSet,
    /// The CPU that is measured.
    cpu: usize,
    points: Vec<Point>,
}

struct Point {
    /// `None` where frequencies are not controlled.
    khz: Option<u32>,
    times: Option<Times>,
    /// The kernel reported this frequency instead.
    other: Option<u32>,
}

impl Point {
    fn new(khz: Option<u32>) -> Point {
        Point { khz, times: None, other: None }
    }
}

/// At most so many frequencies, evenly spread, with the lowest and the highest.
fn spread(frequencies: &[u32]) -> Vec<u32> {
    let last = frequencies.len().saturating_sub(1);
    let count = frequencies.len().min(MOST);
    (0..count).map(|n| frequencies[n * last / (count - 1).max(1)]).collect()
}

pub(super) fn run(args: &Args) -> Outcome {
    let rounds = if args.quick { 1 } else { args.rounds.rounds };
    let session = Session::begin("speed", rounds, args.quick);
    let root = args.sysfs_root.as_deref().map_or_else(Root::machine, Root::imitation);
    let present = rt::affinity(0)?;
    // A machine without frequencies is measured as it is.
    let domains: Vec<Domain> = power::domains(&root).unwrap_or_default();
    let domains: Vec<Domain> = domains.into_iter().filter(|domain| !domain.cpus.is_disjoint(&present)).collect();
    let controlled = domains.iter().fold(CpuSet::EMPTY, |all, domain| all.union(&domain.cpus));
    let mut clusters: Vec<Cluster> = domains.iter().map(|domain| of_domain(domain, &present)).collect();
    clusters.extend(present.difference(&controlled).iter().map(|cpu| Cluster {
        name: format!("cpu{cpu}"),
        cpus: CpuSet::single(cpu),
        cpu,
        points: vec![Point::new(None)],
    }));
    let open = if domains.is_empty() { None } else { Some(control(&root, domains.clone())?) };
    let mut loops = Loops::new(args.quick);
    for round in 1..=rounds {
        for (index, cluster) in clusters.iter_mut().enumerate() {
            rt::set_affinity(0, &CpuSet::single(cluster.cpu))?;
            for point in &mut cluster.points {
                let at = point.khz.map_or(String::new(), |khz| format!(" at {} MHz", khz / 1000));
                session.round(round, &format!("CPU {}{at}", cluster.cpu));
                if let (Some(khz), Some(power)) = (point.khz, &open) {
                    let now = set(power, &root, (index, &domains[index]), khz);
                    point.other = now.filter(|now| now.abs_diff(khz) > khz / 100);
                }
                let times = loops.measure();
                point.times = Some(point.times.map_or(times, |before| before.least(times)));
            }
        }
    }
    rt::set_affinity(0, &present)?;
    session.clear();
    let account = open.map(Power::close);
    let mut notes = Vec::new();
    if let Some(account) = &account {
        if let Err(e) = &account.restored {
            let fix = "takt doctor --clean";
            return Err(Failure::machine(Code::SystemError, format!("frequencies are not restored: {e}"), fix));
        }
        let written = &account.written;
        if let Some(why) = &written.first_failure {
            notes.push(format!(
                "warning: the kernel refused {} writes of frequencies, first with: {why}",
                written.failed
            ));
        }
        notes.extend(account.notes.iter().map(|note| format!("note: {note}")));
    }
    if clusters.iter().any(|cluster| cluster.points[0].khz.is_none()) {
        notes.push(
            "note: CPUs without control of frequencies (cpufreq) were measured at their present speed alone".into(),
        );
    }
    show(args, &session, &clusters, &notes)
}

/// A domain as a cluster: its lowest CPU is measured.
fn of_domain(domain: &Domain, present: &CpuSet) -> Cluster {
    Cluster {
        name: domain.name.clone(),
        cpus: domain.cpus,
        cpu: domain.cpus.intersection(present).iter().next().unwrap_or(0),
        points: spread(&domain.frequencies).into_iter().map(|khz| Point::new(Some(khz))).collect(),
    }
}

/// Takes the frequencies over. A watcher restores them if this process dies.
fn control(root: &Root, domains: Vec<Domain>) -> Result<Power, Failure> {
    let run = RunId::new()?;
    watcher::spawn_watcher(&run, OnCrash::Kill)?;
    let settings = Settings {
        root: root.clone(),
        domains,
        preferences: Vec::new(),
        latencies: Vec::new(),
        zones: Vec::new(),
        required: 0,
        measured: Vec::new(),
        meters: Vec::new(),
        period: Duration::from_secs(1),
        workload: "takt bench speed".into(),
    };
    let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(io::Error::from)?;
    let opened = Power::open(&run, settings, None, &CpuSet::EMPTY, wake);
    let (power, _) = opened.map_err(|refusal| match refusal {
        Refusal::InUse(u) => Failure::machine(Code::FrequencyInUse, &u.reason, &u.fix),
        Refusal::Unavailable(u) => Failure::machine(Code::PowerUnavailable, &u.reason, &u.fix),
    })?;
    Ok(power)
}

/// Requests a frequency and waits for it. Returns the frequency that the kernel reports, if it does.
fn set(power: &Power, root: &Root, (index, domain): (usize, &Domain), khz: u32) -> Option<u32> {
    let requests = power.requests();
    requests.frequency(index, khz);
    requests.post(None);
    let began = Instant::now();
    loop {
        std::thread::sleep(SETTLE);
        let now = power::current_frequency(root, domain);
        if now == Some(khz) || began.elapsed() > SWITCH {
            return now;
        }
    }
}

/// A part of the speed of the fastest, in 1/10,000.
fn relative(time: i64, least: i64) -> i64 {
    (i128::from(least) * 10_000 / i128::from(time.max(1))).max(1) as i64
}

fn decimal(parts: i64) -> String {
    format!("{}.{:04}", parts / 10_000, parts % 10_000)
}

fn show(args: &Args, session: &Session, clusters: &[Cluster], notes: &[String]) -> Outcome {
    let times = |kind: Kind| {
        let points = clusters.iter().flat_map(|cluster| &cluster.points);
        points.filter_map(move |point| point.times.map(|times| times.of(kind))).min().unwrap_or(1)
    };
    let least = Times { integer: times(Kind::Integer), memory: times(Kind::Memory) };
    let speed = |point: &Point, kind: Kind| point.times.map_or(0, |times| relative(times.of(kind), least.of(kind)));
    let lines = lines(clusters, |point| speed(point, args.by));
    let mut out = io::stdout().lock();
    if args.json {
        let point = |point: &Point| {
            let times = point.times.map(|times| json!({"integer": times.integer, "memory": times.memory}));
            json!({"khz": point.khz, "reported_khz": point.other, "ps_per_step": times,
                   "integer_speed_e4": speed(point, Kind::Integer), "memory_speed_e4": speed(point, Kind::Memory)})
        };
        let cluster = |cluster: &Cluster| -> Value {
            json!({"name": cluster.name, "cpus": cluster.cpus.to_string(), "measured_cpu": cluster.cpu,
                   "points": cluster.points.iter().map(point).collect::<Vec<_>>()})
        };
        let clusters: Vec<Value> = clusters.iter().map(cluster).collect();
        writeln!(out, "{}", session.json(json!({"clusters": clusters, "yaml": lines, "notes": notes})))?;
        return Ok(Verdict::Done);
    }
    let [title, machine] = session.heading("");
    writeln!(out, "{title}\n{machine}\n")?;
    let mut rows = vec![["CPU", "MHz", "integer", "memory", "ns/step", "ns/read", ""].map(Cell::from).to_vec()];
    for cluster in clusters {
        for point in &cluster.points {
            let nanoseconds = |ps: i64| format!("{}.{:03}", ps / 1000, ps % 1000);
            let times = point.times.unwrap_or(least);
            let other = point.other.map_or(String::new(), |khz| format!("ran at {} MHz", khz / 1000));
            rows.push(vec![
                cluster.cpus.to_string().into(),
                point.khz.map_or("-".into(), megahertz).into(),
                decimal(speed(point, Kind::Integer)).into(),
                decimal(speed(point, Kind::Memory)).into(),
                nanoseconds(times.integer).into(),
                nanoseconds(times.memory).into(),
                other.into(),
            ]);
        }
    }
    table(&mut out, &rows)?;
    writeln!(
        out,
        "\n# add the `capacitance` of each cluster and the `voltage` of each frequency (docs/power.md)\n{lines}"
    )?;
    notes.iter().try_for_each(|note| writeln!(out, "{note}"))?;
    Ok(Verdict::Done)
}

/// Kilohertz as megahertz.
fn megahertz(khz: u32) -> String {
    let text = format!("{}.{:03}", khz / 1000, khz % 1000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The lines of the key `platform`.
fn lines(clusters: &[Cluster], speed: impl Fn(&Point) -> i64) -> String {
    let mut lines = String::from("platform:\n  clusters:\n");
    for cluster in clusters {
        let _ = writeln!(lines, "    - name: {}\n      cpus: {}", cluster.name, cluster.cpus);
        match &cluster.points[..] {
            [Point { khz: None, .. }] => {
                let _ = writeln!(lines, "      speed: {}", decimal(speed(&cluster.points[0])));
            }
            points => {
                lines.push_str("      frequencies:\n");
                for point in points {
                    let mhz = megahertz(point.khz.unwrap_or(0));
                    let _ = writeln!(lines, "        - {{mhz: {mhz}, speed: {}}}", decimal(speed(point)));
                }
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_permutation_is_one_cycle() {
        let next = cycle(1000);
        let mut at = 0;
        let length = (1..).find(|_| {
            at = next[at as usize];
            at == 0
        });
        assert_eq!(length, Some(1000));
    }

    #[test]
    fn measured_frequencies_have_both_ends() {
        assert_eq!(spread(&[600, 800]), [600, 800]);
        assert_eq!(spread(&[600]), [600]);
        let many: Vec<u32> = (0..100).collect();
        let chosen = spread(&many);
        assert_eq!((chosen.len(), chosen[0], chosen[15]), (16, 0, 99));
        assert!(chosen.windows(2).all(|pair| pair[0] < pair[1]), "{chosen:?}");
    }

    #[test]
    fn speeds_are_parts_of_the_fastest() {
        assert_eq!(
            [relative(100, 100), relative(400, 100), relative(3, 1)].map(decimal),
            ["1.0000", "0.2500", "0.3333"]
        );
        assert_eq!([600_000, 1_066_500].map(megahertz), ["600", "1066.5"]);
    }
}
