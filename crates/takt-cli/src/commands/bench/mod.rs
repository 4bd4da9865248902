//! `takt bench`: how fast Takt is on this machine, always against a peer that is measured in the same run; and how policies
//! compare in virtual time.

mod analyze;
mod bare;
pub(super) mod calls;
mod classes;
pub(crate) mod deadline;
pub(crate) mod decide;
mod decode;
mod demos;
mod figures;
mod floor;
mod hartstone;
mod imitated;
mod lab;
mod latency;
mod messages;
mod misses;
mod options;
mod overhead;
mod overload;
mod reload;
mod schedules;
mod simulate;
mod speed;
mod startup;
mod top;
mod view;

use crate::outcome::Outcome;

/// Measure Takt against a peer on this machine
///
/// Takt and its peer run alternately for several rounds, and medians over the rounds are shown. The machine should be idle otherwise.
/// `docs/benchmarks.md` describes each bench.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(clap::Subcommand, Debug)]
enum Bench {
    Latency(latency::Args),
    Overhead(overhead::Args),
    Calls(calls::Args),
    Startup(startup::Args),
    Messages(messages::Args),
    Demos(demos::Args),
    Top(top::Args),
    Reload(reload::Args),
    Misses(misses::Args),
    Classes(classes::Args),
    Overload(overload::Args),
    Simulate(simulate::Args),
    Speed(speed::Args),
    Decide(decide::Args),
    Decode(decode::Args),
    Analyze(analyze::Args),
    View(view::Args),
    Deadline(deadline::Args),
    Hartstone(hartstone::Args),
}

pub(crate) fn run(args: &Args) -> Outcome {
    match &args.bench {
        Bench::Latency(args) => latency::run(args),
        Bench::Overhead(args) => overhead::run(args),
        Bench::Calls(args) => calls::run(args),
        Bench::Startup(args) => startup::run(args),
        Bench::Messages(args) => messages::run(args),
        Bench::Demos(args) => demos::run(args),
        Bench::Top(args) => top::run(args),
        Bench::Reload(args) => reload::run(args),
        Bench::Misses(args) => misses::run(args),
        Bench::Classes(args) => classes::run(args),
        Bench::Overload(args) => overload::run(args),
        Bench::Simulate(args) => simulate::run(args),
        Bench::Speed(args) => speed::run(args),
        Bench::Decide(args) => decide::run(args),
        Bench::Decode(args) => decode::run(args),
        Bench::Analyze(args) => analyze::run(args),
        Bench::View(args) => view::run(args),
        Bench::Deadline(args) => deadline::run(args),
        Bench::Hartstone(args) => hartstone::run(args),
    }
}
