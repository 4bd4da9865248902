//! Steps on the command line, and refusals as messages.

use crate::failure::Failure;
use takt_linux::isolate::{Isolator, Linux, Refusal, Step};
use takt_workload::Code;

/// A parser that lists the steps in the help.
pub(super) fn step() -> impl clap::builder::TypedValueParser<Value = Step> {
    use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
    let values = Step::all().map(|step| PossibleValue::new(step.name()).help(step.meaning()));
    PossibleValuesParser::new(values).try_map(|name| name.parse::<Step>())
}

/// The steps of an isolation, as `a,b,c` or `default`.
#[derive(Clone, Debug)]
pub(crate) struct Steps(pub(crate) Vec<Step>);

/// Reads the value of `takt run --isolate`.
pub(crate) fn steps(text: &str) -> Result<Steps, String> {
    let default = Step::all().filter(|step| step.is_default());
    let steps = match text {
        "default" => default.collect(),
        _ => text.split(',').map(str::parse).collect::<Result<Vec<Step>, String>>()?,
    };
    Ok(Steps(steps))
}

/// A refusal as a message of the command line.
pub(crate) fn failure(refusal: Refusal) -> Failure {
    let fix = refusal.fix();
    match &refusal {
        Refusal::Request(..) => Failure::input(Code::CommandRefused, &refusal, fix),
        Refusal::MissingCpus(_) => Failure::machine(Code::MissingCpu, &refusal, fix),
        Refusal::Unknown(_) => Failure::input(Code::UnknownName, &refusal, fix),
        Refusal::InUse(..) => Failure::machine(Code::CpuInUse, &refusal, fix),
        Refusal::Machine(..) => Failure::machine(Code::MissingCapability, &refusal, fix),
        Refusal::Full(_) => Failure::machine(Code::UnwritableFile, &refusal, fix),
        Refusal::NotRestored(_) => Failure::machine(Code::CleanupFailed, &refusal, fix),
    }
}

/// Steps that are asked for and left out.
pub(super) fn check_steps(with: &[Step], without: &[Step]) -> Result<(), Failure> {
    let Some(both) = with.iter().find(|step| without.contains(step)) else { return Ok(()) };
    let message = format!("the step `{both}` is asked for and left out");
    Err(Failure::input(Code::ConflictingOptions, message, "leave out one of --with and --without"))
}

/// This machine for changes of isolations.
pub(super) fn open() -> Result<Isolator<Linux>, Failure> {
    takt_linux::isolate::open().map_err(failure)
}

/// This machine for looking at isolations.
pub(crate) fn look() -> Result<Isolator<Linux>, Failure> {
    Isolator::new(Linux::look()).map_err(failure)
}
