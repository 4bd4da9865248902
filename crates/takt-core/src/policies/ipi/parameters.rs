//! The numbers and rules that tune I+PI, and its two presets.

use crate::model::{Invalid, Kind, PolicySpec, Setting};
use crate::time::Span;

/// One, for gains: they are kept in millionths.
pub const UNIT: i64 = 1_000_000;

/// When the regulator forgets its state and starts from the set points.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reinit {
    /// After every recomputation of the set points, as when a task blocks or wakes.
    Always,
    /// When the set points have really changed at the end of a round.
    Changed,
    /// Never.
    No,
}

/// The share of a task without a declared one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Alpha {
    /// Its utilisation.
    Load,
    /// In proportion to its rate.
    Rate,
    /// As much as every other.
    Equal,
}

/// How long a round should be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RoundRule {
    /// A nominal burst for each task.
    Nominal,
    /// The same, and at most half of the shortest period.
    Shortest,
}

/// Which tasks are meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Which {
    /// All that have not ended.
    All,
    /// Those that could run now.
    Ready,
}

/// When a task runs that becomes ready in the middle of a round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wake {
    /// When the round comes to it.
    Turn,
    /// When the round comes to it; and the present burst ends at once.
    Cut,
    /// After the present burst.
    Next,
    /// At once; the interrupted burst continues afterwards.
    Preempt,
}

/// All settings of the policy with their values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parameters {
    /// Gain of the inner, integral regulators, in millionths.
    pub kpi: i64,
    /// Gain of the outer, proportional and integral regulator, in millionths.
    pub krr: i64,
    /// Zero of the outer regulator, in millionths.
    pub zrr: i64,
    /// The burst that a task has on average.
    pub nominal: Span,
    /// The shortest burst.
    pub least: Span,
    /// The longest burst.
    pub most: Span,
    /// Whether measurements change bursts.
    pub feedback: bool,
    /// Whether a task that cannot run has no part of the round.
    pub feedforward: bool,
    /// When the state is forgotten.
    pub reinit: Reinit,
    /// The shares of tasks without a declared one.
    pub alpha: Alpha,
    /// How long a round should be.
    pub round: RoundRule,
    /// The tasks whose number and periods determine that.
    pub count: Which,
    /// The effect of a waking task on the round.
    pub wake: Wake,
    /// Over whose loads overload is judged.
    pub overload: Which,
    /// How often CPUs are checked for overload; zero is never.
    pub migration: Span,
    /// How much CPU time may be lacking on a CPU before a task leaves it.
    pub threshold: Span,
}

const fn choice(name: &'static str, words: &'static [&'static str], default: &'static str, s: &'static str) -> Setting {
    Setting { name, kind: Kind::Choice(words), default, summary: s }
}

const fn duration(
    name: &'static str,
    least: Span,
    most: Span,
    default: &'static str,
    summary: &'static str,
) -> Setting {
    Setting { name, kind: Kind::Duration(least, most), default, summary }
}

const YES_NO: &[&str] = &["yes", "no"];
const US: Span = Span::from_us(1);

/// The settings, in the order of [`PolicySpec::values`].
pub const SETTINGS: &[Setting] = &[
    choice("preset", &["thesis", "improved"], "thesis", "defaults of the other settings"),
    Setting {
        name: "kpi",
        kind: Kind::Ratio(1, 4 * UNIT),
        default: "0.5 (improved: 1)",
        summary: "gain of the inner integral regulators",
    },
    Setting {
        name: "krr",
        kind: Kind::Ratio(0, 16 * UNIT),
        default: "0.9 (improved: 1)",
        summary: "gain of the outer PI regulator",
    },
    Setting {
        name: "zrr",
        kind: Kind::Ratio(0, 2 * UNIT),
        default: "0.88 (improved: 0.75)",
        summary: "zero of the outer PI regulator",
    },
    duration("nominal", US, Span::from_secs(10), "4ms", "nominal burst"),
    duration("least", Span::ZERO, Span::from_secs(10), "0.2ms (improved: 0.1ms), at most nominal", "shortest burst"),
    duration("most", US, Span::from_secs(100), "5 nominal bursts", "longest burst"),
    choice("feedback", YES_NO, "yes", "no: bursts are the set points, whatever is measured (open loop)"),
    choice("feedforward", YES_NO, "yes", "a task that is not ready has no part of the round"),
    choice("reinit", &["always", "changed", "no"], "always (improved: changed)", "when the regulator restarts"),
    choice("alpha", &["load", "rate", "equal"], "load (improved: rate)", "what a task without a share wants"),
    choice("round", &["nominal", "shortest"], "nominal (improved: shortest)", "length of a round"),
    choice("count", &["all", "ready"], "all", "whose number and periods set the round's length"),
    choice(
        "wake",
        &["turn", "cut", "next", "preempt"],
        "turn (improved: preempt)",
        "when a task runs that wakes in the middle of a round",
    ),
    choice("overload", &["ready", "all"], "ready (improved: all)", "over whose loads overload is judged"),
    duration("migration", Span::ZERO, Span::from_secs(3600), "100ms", "how often CPUs are checked for overload (p-)"),
    duration("threshold", Span::ZERO, Span::from_secs(3600), "50ms", "lacking CPU time at which a task leaves (p-)"),
];

impl Parameters {
    /// Reads the settings of `spec`, which are those of this policy.
    ///
    /// # Errors
    /// A value out of range, and a shortest burst above the longest.
    pub fn new(spec: &PolicySpec) -> Result<Parameters, Invalid> {
        spec.check_values()?;
        let improved = spec.value("preset") == Some(1);
        let or =
            |name: &str, thesis: i64, better: i64| spec.value(name).unwrap_or(if improved { better } else { thesis });
        let nominal = Span::from_ns(or("nominal", 4_000_000, 4_000_000));
        let most = Span::from_ns(or("most", 5 * nominal.ns(), 5 * nominal.ns()));
        let least = |us: i64| Span::from_us(us).min(nominal).min(most).ns();
        let parameters = Parameters {
            kpi: or("kpi", 500_000, UNIT),
            krr: or("krr", 900_000, UNIT),
            zrr: or("zrr", 880_000, 750_000),
            nominal,
            least: Span::from_ns(or("least", least(200), least(100))),
            most,
            feedback: or("feedback", 0, 0) == 0,
            feedforward: or("feedforward", 0, 0) == 0,
            reinit: [Reinit::Always, Reinit::Changed, Reinit::No][or("reinit", 0, 1) as usize],
            alpha: [Alpha::Load, Alpha::Rate, Alpha::Equal][or("alpha", 0, 1) as usize],
            round: [RoundRule::Nominal, RoundRule::Shortest][or("round", 0, 1) as usize],
            count: [Which::All, Which::Ready][or("count", 0, 0) as usize],
            wake: [Wake::Turn, Wake::Cut, Wake::Next, Wake::Preempt][or("wake", 0, 3) as usize],
            overload: [Which::Ready, Which::All][or("overload", 0, 1) as usize],
            migration: Span::from_ns(or("migration", 100_000_000, 100_000_000)),
            threshold: Span::from_ns(or("threshold", 50_000_000, 50_000_000)),
        };
        if parameters.least > parameters.most {
            return Err(Invalid::Unsuitable("the shortest burst (`least`) is above the longest one (`most`)"));
        }
        Ok(parameters)
    }
}
