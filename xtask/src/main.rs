//! The commands of continuous integration and developers.

mod aarch64;
mod campaign;
mod ci;
mod circles;
mod cluster;
mod deb;
mod dist;
mod failures;
mod instructions;
mod mcu;
mod metal;
mod phrases;
mod policy_names;
mod python;
mod results;
mod sentences;
mod site;
mod strangers;
mod tidy;
mod times;
mod vm;
mod workspace;

use std::process::ExitCode;
use workspace::Outcome;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  test               format, rules of the source, clippy, and all tests that take seconds, up to the first failure
  ci                 what continuous integration runs besides: many real runs, the core on bare metal, virtual machines
  campaign [OPTIONS]  property tests under fresh seeds, fuzz targets, mutants of the core: as long as it is given
     --minutes N     60 by default
     --only PART     properties, fuzz, mutants, or one over real processes of some ten minutes: faults (kills and many clients),
                     soak (commands of takt ctl), recovery (processes, groups and Takt itself are moved, removed, stopped, killed),
                     outcomes (each drawn workload by each mechanism), isolate (isolated CPUs, here and in a virtual machine)
  tidy               the map in ARCHITECTURE.md against the crates, and the rules of the source
  vm [OPTIONS]       the tests in virtual machines with a unified cgroup v2 tree
     --kernel NAME   cloud (ordinary), rt (PREEMPT_RT) or all, the default
     --image FILE    this kernel image instead of a downloaded one
     --multi         with really parallel CPUs too, where only counts and clean ends mean something
     --isolate       the tests of isolated CPUs alone, on four CPUs
     --latency       the tests of measured lateness alone, on one CPU in virtual time
     --verbose       the whole console
  service [--verbose]  the unit files of contrib/systemd under systemd, booted in a virtual machine
  aarch64            takt for 64-bit ARM: it builds, and under emulation it writes the same bytes as here
  cluster [TAKT]     the job array of docs/clusters.md under Slurm, on two nodes of this machine, of which one is killed; a job at its time limit
  deb [OPTIONS]      Debian packages: the program, manual pages, completions, the link demos-sched, unit files
     --arch NAME     amd64 or arm64; both by default
     --out DIRECTORY  target/deb by default
  dist [OPTIONS]     all files of a release: static programs, archives, Debian packages, wheels, container images, checksums
     --target TARGET  x86_64-unknown-linux-musl or aarch64-unknown-linux-musl; both by default
     --out DIRECTORY  target/dist by default
     --twice         builds the commit again in another folder, and compares the bytes
  twice              the same comparison with the program of this machine in its quickest form, and its results
  strangers          each way of installation in an empty Debian (debootstrap): a first minute with it, and its removal
  site [--out DIRECTORY]  the documents and a gallery of all workloads as a site with search (mdBook); target/site by default
  times [TAKT]       CPU time of the static program, or of TAKT, beside the ordinary one: bench simulate and analyze
  metal              the core without an operating system: it builds, and what the engine takes of a Cortex-M3
  mcu [OPTION]       the microcontroller kernel in QEMU: replays, sizes and costs
     --all           with every policy for one CPU
     --hartstone-extended  Hartstone's transient overload alone: misses by task on the board and in the simulator
  python             the Python package: its wheel, installed in an empty environment, with its tests, notebooks and types, then in suites of Debian
     --suites        the suites of Debian alone, with the wheel and the program that were built before
     --out DIRECTORY  the wheel for users instead, for this machine
  instructions [TAKT]  what the simulator executes for each job, counted by Callgrind, beside the recorded figures, or `takt sim` beside another program
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments[..] {
        ["test"] => return ci::test(),
        ["ci"] => return ci::ci(),
        ["campaign", ref options @ ..] => match campaign::Options::parse(options) {
            Some(options) => campaign::run(&options),
            None => return usage(),
        },
        ["tidy"] => tidy::run(),
        ["vm", ref options @ ..] => match vm::Options::parse(options) {
            Some(options) => vm::run(&options),
            None => return usage(),
        },
        ["service"] => vm::service::run(false, None),
        ["service", "--verbose"] => vm::service::run(true, None),
        ["aarch64"] => aarch64::run(),
        ["cluster"] => cluster::run(None),
        ["cluster", takt] => cluster::run(Some(takt)),
        ["deb", ref options @ ..] => match deb::Options::parse(options) {
            Some(options) => deb::run(&options),
            None => return usage(),
        },
        ["dist", ref options @ ..] => match dist::Options::parse(options) {
            Some(options) => return dist::run(&options),
            None => return usage(),
        },
        ["site", ref options @ ..] => match site::Options::parse(options) {
            Some(options) => return site::run(&options),
            None => return usage(),
        },
        ["twice"] => dist::quick(),
        ["strangers"] => strangers::run(),
        ["times"] => times::run(None),
        ["times", other] => times::run(Some(other.as_ref())),
        ["metal"] => metal::run(),
        ["mcu"] => mcu::run(mcu::Part::Usual),
        ["mcu", "--all"] => mcu::run(mcu::Part::All),
        ["mcu", "--hartstone-extended"] => mcu::run(mcu::Part::ExtendedHartstone),
        ["python"] => match python::run() {
            Outcome::Passed => python::in_suites(),
            outcome => outcome,
        },
        ["python", "--suites"] => python::in_suites(),
        ["python", "--out", directory] => python::wheel(directory.as_ref()),
        ["instructions"] => instructions::run(),
        ["instructions", other] => instructions::beside(other.as_ref()),
        _ => return usage(),
    };
    match outcome {
        Outcome::Passed => ExitCode::SUCCESS,
        Outcome::Failed(why) => {
            eprintln!("failed: {why}");
            ExitCode::FAILURE
        }
        Outcome::Skipped(why) => {
            println!("skipped: {why}");
            ExitCode::SUCCESS
        }
    }
}

fn usage() -> ExitCode {
    eprint!("{USAGE}");
    ExitCode::from(2)
}
