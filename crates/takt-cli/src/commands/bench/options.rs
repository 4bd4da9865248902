//! Options that benches share.

use crate::commands::run::MechanismName;

/// How often a bench measures.
#[derive(clap::Args, Debug)]
pub(super) struct Rounds {
    /// Number of rounds
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) rounds: u32,
}

/// Further options of every bench that is judged by limits.
#[derive(clap::Args, Debug)]
pub(super) struct Form {
    /// One short round that shows that everything works; its figures have no meaning
    #[arg(long)]
    pub(super) quick: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
    /// Exit with status 1 when a limit is missed
    #[arg(long)]
    pub(super) strict: bool,
}

/// Options of every bench that starts processes.
#[derive(clap::Args, Debug)]
#[command(mut_args(of_processes))]
pub(super) struct Common {
    #[command(flatten)]
    pub(super) rounds: Rounds,
    #[command(flatten)]
    pub(super) form: Form,
    /// CPU of the measurement; by default the last one
    #[arg(long, value_name = "N")]
    pub(super) cpu: Option<usize>,
    /// How processes are stopped and started
    #[arg(long, value_enum, default_value_t = MechanismName::Auto)]
    pub(super) mechanism: MechanismName,
}

/// The shared options where processes are measured: fewer rounds, as each takes long, and limits that are upper ones.
fn of_processes(arg: clap::Arg) -> clap::Arg {
    match arg.get_id().as_str() {
        "rounds" => arg.default_value("3"),
        "strict" => arg.help("Exit with status 1 when a limit is exceeded"),
        _ => arg,
    }
}

impl Rounds {
    pub(super) fn count(&self, form: &Form) -> u32 {
        if form.quick { 1 } else { self.rounds }
    }
}
