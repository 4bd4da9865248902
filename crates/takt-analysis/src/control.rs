//! Analysis of I+PI before it runs: whether its loops are stable, where their poles are, and what part of a CPU
//! each task will get.
//!
//! Two timings are looked at. *As it runs* (Terraneo 2011, algorithm 1): bursts computed at the end of a round run in the next
//! one. *As modelled* (his equations 2.4 and 2.7): with one more round of delay. Stability is decided exactly, by Jury's
//! conditions in integers; poles are floating-point numbers and only for show.

use std::fmt;
use takt_core::model::{System, TaskId};
use takt_core::policies::ipi::parameters::{Parameters, UNIT};
use takt_core::policies::ipi::regulator::WHOLE;
use takt_core::policies::ipi::{homes, parameters_of, setpoints};
use takt_core::policy::{Build, Registry};
use takt_core::time::Span;

/// The gains of I+PI, in millionths.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gains {
    /// Poles of the inner, integral regulators.
    pub kpi: i64,
    /// Pole of the outer regulator.
    pub krr: i64,
    /// Zero of the outer regulator.
    pub zrr: i64,
}

/// When computed bursts take effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Timing {
    /// In the next round, as in the thesis' algorithm 1 and in Takt.
    AsItRuns,
    /// A round later, as in the thesis' model.
    AsModelled,
}

/// One, for the coefficients of a characteristic polynomial: the product of three gains is a whole number then.
const ONE: i128 = 1_000_000_000_000_000_000;

/// A monic polynomial without its leading one: the coefficients of z^(n-1) … z^0, in units of 10^-18.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Characteristic(pub Vec<i128>);

/// A pole, as its real and its imaginary part.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Pole {
    /// Real part.
    pub re: f64,
    /// Imaginary part.
    pub im: f64,
}

impl Pole {
    /// Distance from the origin: the rest of an error after one round.
    #[must_use]
    pub fn radius(self) -> f64 {
        self.re.hypot(self.im)
    }
}

impl Gains {
    /// The characteristic polynomial of the loop that holds the bursts.
    #[must_use]
    pub fn inner(self, timing: Timing) -> Characteristic {
        let kpi = i128::from(self.kpi) * (ONE / i128::from(UNIT));
        Characteristic(match timing {
            Timing::AsItRuns => vec![kpi - ONE],
            Timing::AsModelled => vec![-ONE, kpi],
        })
    }

    /// The characteristic polynomial of the loop that holds the round.
    #[must_use]
    pub fn outer(self, timing: Timing) -> Characteristic {
        let product = i128::from(self.kpi) * i128::from(self.krr);
        let (g, zero) = (product * i128::from(UNIT), product * i128::from(self.zrr));
        Characteristic(match timing {
            Timing::AsItRuns => vec![g - 2 * ONE, ONE - zero],
            Timing::AsModelled => vec![-2 * ONE, ONE + g, -zero],
        })
    }
}

impl Characteristic {
    /// Whether all roots lie inside of the unit cycle: Jury's conditions, exactly.
    ///
    /// # Panics
    /// When the degree is not between one and three.
    #[must_use]
    pub fn stable(&self) -> bool {
        match *self.0 {
            [a] => a.abs() < ONE,
            [a, b] => b.abs() < ONE && a.abs() < ONE + b,
            [a, b, c] => {
                // Only coefficients that can be those of a stable polynomial are kept, so that the products fit.
                let plausible = c.abs() < ONE && a.abs() < 3 * ONE && b.abs() < 3 * ONE;
                plausible && ONE + a + b + c > 0 && ONE - a + b - c > 0 && ONE * ONE - c * c > (c * a - b * ONE).abs()
            }
            _ => panic!("a loop of I+PI has up to three poles"),
        }
    }

    /// The roots, the largest first; of a pair the one above the real axis first.
    ///
    /// # Panics
    /// When the degree is not between one and three.
    #[must_use]
    pub fn roots(&self) -> Vec<Pole> {
        let real = |c: i128| c as f64 / ONE as f64;
        let mut roots = match *self.0 {
            [a] => vec![Pole { re: -real(a), im: 0.0 }],
            [a, b] => quadratic(real(a), real(b)),
            [a, b, c] => {
                let (a, b, c) = (real(a), real(b), real(c));
                let root = real_root(a, b, c);
                // z³ + a z² + b z + c divided by z - root.
                let mut roots = quadratic(a + root, b + root * (a + root));
                roots.push(Pole { re: root, im: 0.0 });
                roots
            }
            _ => panic!("a loop of I+PI has up to three poles"),
        };
        roots.sort_by(|p, q| (q.radius(), q.re, q.im).partial_cmp(&(p.radius(), p.re, p.im)).expect("numbers"));
        roots
    }
}

/// The roots of z² + a z + b.
fn quadratic(a: f64, b: f64) -> Vec<Pole> {
    let square = a * a / 4.0 - b;
    let half = square.abs().sqrt();
    [1.0, -1.0]
        .map(|sign| {
            if square < 0.0 {
                Pole { re: -a / 2.0, im: sign * half }
            } else {
                Pole { re: sign * half - a / 2.0, im: 0.0 }
            }
        })
        .to_vec()
}

/// A real root of z³ + a z² + b z + c, by bisection.
fn real_root(a: f64, b: f64, c: f64) -> f64 {
    let value = |z: f64| ((z + a) * z + b) * z + c;
    let bound = 1.0 + a.abs().max(b.abs()).max(c.abs());
    let (mut low, mut high) = (-bound, bound);
    for _ in 0..200 {
        let middle = f64::midpoint(low, high);
        if value(middle) < 0.0 { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}

/// Stability of one timing.
#[derive(Clone, PartialEq, Debug)]
pub struct Loops {
    /// Which.
    pub timing: Timing,
    /// Whether both loops are stable.
    pub stable: bool,
    /// Poles of the loop that holds the round, the largest first.
    pub outer: Vec<Pole>,
    /// Poles of the loops that hold the bursts.
    pub inner: Vec<Pole>,
    /// Rounds after which an error should be below 2 %, from the largest pole; `None` when it does not die out.
    pub settling: Option<u64>,
}

impl Loops {
    /// Looks at gains under a timing.
    #[must_use]
    pub fn new(gains: Gains, timing: Timing) -> Loops {
        let (outer, inner) = (gains.outer(timing), gains.inner(timing));
        let stable = outer.stable() && inner.stable();
        let (outer, inner) = (outer.roots(), inner.roots());
        let radius = outer.iter().chain(&inner).map(|p| p.radius()).fold(0.0, f64::max);
        // A loop with all poles in the origin is through after as many rounds as it has poles.
        let least = outer.len() as f64;
        let settling = stable.then(|| (0.02f64.ln() / radius.ln()).max(least).ceil() as u64);
        Loops { timing, stable, outer, inner, settling }
    }
}

/// The share of its CPU that a task should get.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Prediction {
    /// The task.
    pub task: TaskId,
    /// The declared utilisation in millionths of a CPU: its share, or else its utilisation.
    pub declared: Option<u32>,
    /// Its part α of a round in which all tasks are ready, in millionths.
    pub alpha: u32,
    /// The part of the CPU that it will use, in millionths, if those that need a known time take no more than that, and if
    /// overload is judged over all tasks: judged over the ready ones, it ends whenever one of them is served and sleeps.
    pub expected: u32,
}

/// The set points of one CPU.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CpuPlan {
    /// Its number.
    pub cpu: usize,
    /// Sum of what its tasks have declared to need, in millionths.
    pub declared: u64,
    /// Whether that is more than there is, so that relative importance counts.
    pub overloaded: bool,
    /// Set point of a round with all tasks.
    pub round: Span,
    /// Its tasks in the order of their numbers.
    pub tasks: Vec<Prediction>,
}

/// The result of [`report`].
#[derive(Clone, PartialEq, Debug)]
pub struct ControlReport {
    /// The gains.
    pub gains: Gains,
    /// Whether measurements change bursts at all.
    pub feedback: bool,
    /// As it runs, and as modelled.
    pub loops: [Loops; 2],
    /// CPU by CPU.
    pub cpus: Vec<CpuPlan>,
}

impl ControlReport {
    /// Whether the loops are stable as they run. Without feedback there is nothing that could be unstable.
    #[must_use]
    pub fn stable(&self) -> bool {
        !self.feedback || self.loops[0].stable
    }
}

/// Looks at a system whose policy is I+PI; `None` for every other policy, and when its settings are refused.
/// O(tasks × CPUs + tasks²).
#[must_use]
pub fn report(system: &System) -> Option<ControlReport> {
    let p = parameters_of(&system.policy)?.ok()?;
    let gains = Gains { kpi: p.kpi, krr: p.krr, zrr: p.zrr };
    let tasks: Vec<TaskId> = (0..system.tasks.len()).map(|t| TaskId(t as u32)).collect();
    let homes = Build::whole(system, &Registry::default(), homes);
    let cpus = system.cpus.iter().enumerate().map(|(index, cpu)| {
        let members: Vec<TaskId> = tasks.iter().copied().filter(|t| homes[t.index()] == Some(index as u16)).collect();
        plan(system, &p, cpu, &members)
    });
    let cpus = cpus.collect();
    let loops = [Timing::AsItRuns, Timing::AsModelled].map(|timing| Loops::new(gains, timing));
    Some(ControlReport { gains, feedback: p.feedback, loops, cpus })
}

fn millionths(part: u128) -> u64 {
    let whole = WHOLE as u128;
    ((part * UNIT as u128 + whole / 2) / whole) as u64
}

fn plan(system: &System, p: &Parameters, cpu: usize, members: &[TaskId]) -> CpuPlan {
    let task = |t: &TaskId| &system.tasks[t.index()];
    let declared: u128 = members.iter().filter_map(|t| setpoints::load(task(t))).map(u128::from).sum();
    let overloaded = declared > WHOLE as u128;
    let mut weights: Vec<i128> = Vec::with_capacity(members.len());
    setpoints::wants(p, &system.tasks, members, |t, want| {
        weights.push(setpoints::weight(want, task(&t).importance, overloaded));
    });
    if weights.iter().all(|w| *w == 0) {
        weights.fill(1);
    }
    // A task with a known runtime per period takes no more than that; every other task takes all that it gets.
    let need = |t: &TaskId| match (task(t).runtime, task(t).arrival.period()) {
        (Some(c), Some(period)) => Some(c.ns() as u128 * WHOLE as u128 / period.ns() as u128),
        _ => None,
    };
    let needs: Vec<Option<u128>> = members.iter().map(need).collect();
    let expected = divide(&weights, &needs);
    let sum: i128 = weights.iter().sum();
    let tasks = members.iter().zip(weights).zip(expected).map(|((t, weight), expected)| Prediction {
        task: *t,
        declared: setpoints::load(task(t)).map(|load| millionths(u128::from(load)) as u32),
        alpha: millionths((weight * i128::from(WHOLE) / sum.max(1)) as u128) as u32,
        expected: millionths(expected) as u32,
    });
    let shortest = members.iter().filter_map(|t| task(t).arrival.period()).min();
    CpuPlan {
        cpu,
        declared: millionths(declared),
        overloaded,
        round: setpoints::round(p, members.len(), || shortest),
        tasks: tasks.collect(),
    }
}

/// Divides a CPU by weights among tasks of which some need no more than a known part; what they leave goes to the others.
fn divide(weights: &[i128], needs: &[Option<u128>]) -> Vec<u128> {
    let mut given: Vec<Option<u128>> = vec![None; weights.len()];
    let mut rest = WHOLE as u128;
    loop {
        let open = || (0..weights.len()).filter(|i| given[*i].is_none());
        let sum: i128 = open().map(|i| weights[i]).sum();
        let part = |i: usize| if sum == 0 { 0 } else { rest * weights[i] as u128 / sum as u128 };
        // A task that demands less than its part is served; the others' parts can only grow by that.
        let served: Vec<usize> = open().filter(|i| needs[*i].is_some_and(|need| need <= part(*i))).collect();
        if served.is_empty() {
            return (0..weights.len()).map(|i| given[i].unwrap_or_else(|| part(i))).collect();
        }
        for i in served {
            given[i] = needs[i];
            rest -= needs[i].expect("it is served");
        }
    }
}

/// Poles with three decimals, a pair as one. Rounding errors around zero are zero, without a sign.
fn poles(f: &mut fmt::Formatter<'_>, poles: &[Pole]) -> fmt::Result {
    let mut comma = "";
    for pole in poles.iter().filter(|p| p.im >= 0.0) {
        let re = if pole.re.abs() < 0.0005 { 0.0 } else { pole.re };
        write!(f, "{comma}{re:.3}")?;
        if pole.im > 0.0 {
            write!(f, " ± {:.3}i", pole.im)?;
        }
        comma = ", ";
    }
    Ok(())
}

impl fmt::Display for Loops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let timing = match self.timing {
            Timing::AsItRuns => "as it runs",
            Timing::AsModelled => "as modelled in the thesis",
        };
        write!(f, "{timing}: {}, poles of the round ", if self.stable { "stable" } else { "UNSTABLE" })?;
        poles(f, &self.outer)?;
        write!(f, "; of the bursts ")?;
        poles(f, &self.inner)?;
        match self.settling {
            Some(rounds) => write!(f, "; an error is below 2 % after about {rounds} rounds"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Gains {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimal = |gain: i64| gain as f64 / UNIT as f64;
        write!(f, "kpi {}, krr {}, zrr {}", decimal(self.kpi), decimal(self.krr), decimal(self.zrr))
    }
}

/// The gains and the loops, a line each. Predictions for tasks are printed where their names are known.
impl fmt::Display for ControlReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let open = if self.feedback { "" } else { " (not used: the loop is open)" };
        writeln!(f, "{}{open}", self.gains)?;
        writeln!(f, "{}", self.loops[0])?;
        write!(f, "{}", self.loops[1])
    }
}
