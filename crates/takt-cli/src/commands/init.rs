//! `takt init`: a workload to begin with.

use crate::files;
use crate::outcome::{Outcome, Verdict};
use clap::ValueEnum;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use takt_workload::{shell_word, visible};

/// Write a commented workload to begin with
///
/// Its processes are `takt burn` and shell commands, so it can be checked, simulated and run as it is.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Kind of the workload
    #[arg(value_enum, default_value_t = Kind::Table)]
    kind: Kind,
    /// File to write, `table.yaml`, `tasks.yaml` or `service.yaml` by default; `-` is standard output. An existing file is kept
    file: Option<PathBuf>,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum Kind {
    /// Time windows with partitions of processes
    Table,
    /// Periodic tasks under a policy
    Tasks,
    /// Periodic tasks as a service of systemd
    Service,
}

impl Kind {
    /// The name of the file, as its own comments have it, and its text.
    fn file(self) -> (&'static str, &'static str) {
        match self {
            Kind::Table => ("table.yaml", include_str!("init/table.yaml")),
            Kind::Tasks => ("tasks.yaml", include_str!("init/tasks.yaml")),
            Kind::Service => ("service.yaml", include_str!("init/service.yaml")),
        }
    }
}

pub(crate) fn run(args: &Args) -> Outcome {
    let (usual, text) = args.kind.file();
    let path = args.file.as_deref().unwrap_or(Path::new(usual));
    if path == Path::new("-") {
        io::stdout().lock().write_all(text.as_bytes())?;
        return Ok(Verdict::Done);
    }
    // It is printed, and a part of comments.
    let name: String = path.display().to_string().chars().map(visible).collect();
    let text = text.replace(usual, &name);
    let hint = format!("name another file, as in `takt init {} FILE`, or remove this one", kind(args.kind));
    files::write_new(path, &text, &hint)?;
    let mut out = io::stdout().lock();
    writeln!(out, "{name} is written. Next:")?;
    let word = shell_word(&name);
    writeln!(out, "  takt check {word}\n  takt sim {word}\n  takt run {word} --duration 2s")?;
    Ok(Verdict::Done)
}

/// The name of a kind on the command line.
fn kind(kind: Kind) -> String {
    kind.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}
