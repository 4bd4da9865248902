//! Evaluation of measured lateness: figures with confidence intervals, comparisons, causes of late samples, charts, and a report that stands alone.
//!
//! Samples are in nanoseconds and belong to rounds. Samples of one round share the disturbances of their time, so an interval follows from the spread of the
//! same figure over the rounds, with Student's t. The same samples give the same figures.

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
mod statistics;

pub use advice::{Gain, figure, ranked, successive};
pub use agreement::{Agreement, Pair, pairs};
pub use chart::{density, tails};
pub use compare::{Difference, change, compare, unlike};
pub use explain::{Circumstances, Explanation, Kind, Part, Sample, explain};
pub use figures::{Figure, Figures, Interval, QUANTILES, Quantile};
pub use kernel::{
    Action, EVENTS, Event, Interrupt, KernelTrace, NOISE, Name, RETURNS, Source, Stage, Sum, TIMERLAT, Thread,
    Unexpected,
};
pub use order::{Claim, ORDERED, PROGRAMS, difference, order, programs};
pub use report::report;
pub use results::{MIN_ROUNDS, Results, Scenario, Unreadable, Worst};
pub use statistics::student;
