//! Evaluation of measured lateness: figures with confidence intervals, comparisons, causes of late samples, charts, and a report that stands alone.
//!
//! Samples are in nanoseconds and belong to rounds. Samples of one round share the disturbances of their time, so intervals are computed by a bootstrap that
//! draws whole rounds (Davison and Hinkley, "Bootstrap Methods and their Application", 1997, section 8.2: resampling blocks). The same samples and seed give
//! the same figures.

mod advice;
mod agreement;
mod chart;
mod compare;
mod explain;
mod figures;
mod kernel;
mod order;
mod report;
mod results;

pub use advice::{Figure, Gain, figure, ranked, successive};
pub use agreement::{Agreement, Pair, pairs};
pub use chart::{density, tails};
pub use compare::{Difference, compare, unlike};
pub use explain::{Circumstances, Explanation, Kind, Part, Sample, explain};
pub use figures::{Figures, Interval, QUANTILES, Quantile};
pub use kernel::{
    Action, EVENTS, Event, Interrupt, KernelTrace, NOISE, Name, RETURNS, Source, Stage, Sum, TIMERLAT, Thread,
    Unexpected,
};
pub use order::{Claim, ORDERED, PROGRAMS, difference, order, programs};
pub use report::html;
pub use results::{MIN_ROUNDS, Results, Scenario, Unreadable, Worst};
