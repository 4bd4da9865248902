//! The microcontroller kernel in QEMU: the board's decisions are those of the host, and sizes and costs stay what they are.

mod behaviour;
mod bench;
mod hartstone;
mod regulator;

use self::bench::{Bench, TARGET};
use crate::workspace::{Outcome, cargo, has_target, in_ci, metadata, root};
use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value, json};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

const EMULATOR: &str = "qemu-system-arm";
/// Sizes and costs as they were last accepted. `UPDATE=1 cargo xtask mcu` writes it.
const FIGURES: &str = "mcu/figures.json";
/// A figure may grow by so many per cent.
const TOLERANCE: u64 = 3;
/// Policies whose images are compared with the host, and the workloads of each. `cargo xtask mcu --all` takes all policies for one CPU.
const COMPARED: &str = "mcu/compared.json";
/// The board that no emulator has, as a feature of the first program.
const UNTESTED_BOARD: &str = "stm32f103";
/// Bytes of flash and RAM of that board.
const UNTESTED_SIZE: (u64, u64) = (64 * 1024, 20 * 1024);
/// A processor without exclusive access, such as a Cortex-M0+. The kernel is compiled for it, and runs on no board.
const SMALL_TARGET: &str = "thumbv6m-none-eabi";

/// The part of the images that is run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// A few policies, as continuous integration does.
    Usual,
    /// Every policy for one CPU.
    All,
    /// The extended form of Hartstone.
    ExtendedHartstone,
}

/// Builds the images, runs them, and compares.
pub(crate) fn run(part: Part) -> Outcome {
    let missing = if !has_target(TARGET) {
        Some(format!("the Rust target {TARGET} is not installed: rustup target add {TARGET}"))
    } else if Command::new(EMULATOR).arg("--version").output().is_err() {
        Some(format!("{EMULATOR} is not installed: apt-get install qemu-system-arm"))
    } else {
        None
    };
    if let Some(why) = missing {
        return if in_ci() && !has_target(TARGET) { Outcome::Failed(why) } else { Outcome::Skipped(why) };
    }
    match checked(part) {
        Ok(()) => Outcome::Passed,
        Err(error) => Outcome::Failed(format!("{error:#}")),
    }
}

fn checked(part: Part) -> Result<()> {
    let built = cargo(&["build", "--locked", "--quiet", "--package", "takt-rt-cli"]).status()?;
    ensure!(built.success(), "takt could not be built");
    let target = PathBuf::from(metadata()?["target_directory"].as_str().context("no target directory")?);
    let bench = Bench { takt: target.join("debug/takt"), images: target.join("mcu") };
    fs::create_dir_all(&bench.images)?;
    if part == Part::ExtendedHartstone {
        return bench.extended_hartstone();
    }
    let all = part == Part::All;
    let compared: Value = serde_json::from_str(&fs::read_to_string(root().join(COMPARED))?).context(COMPARED)?;
    let list = |key: &str| -> Vec<String> {
        let all = compared[key].as_array().into_iter().flatten();
        all.filter_map(|name| name.as_str().map(str::to_owned)).collect()
    };
    let policies = list(if all { "all" } else { "policies" });
    let workloads = list("workloads");
    ensure!(!policies.is_empty() && !workloads.is_empty(), "{COMPARED} has no policies or no workloads");
    for policy in &policies {
        for workload in &workloads {
            bench.compare(policy, workload)?;
        }
    }
    // For a policy of the list above the image is there already.
    for workload in ["periodic", "locks"] {
        for policy in list(if all { "all_predicted" } else { "predicted" }) {
            bench.predict(&policy, workload)?;
        }
    }
    for workload in ["periodic", "locks"] {
        for policy in list(if all { "all_shares" } else { "shares" }) {
            bench.share(&policy, workload)?;
        }
    }
    bench.repeated()?;
    bench.inversion()?;
    bench.faults()?;
    bench.refused()?;
    bench.idle()?;
    bench.interrupts()?;
    bench.parallel()?;
    bench.tracking()?;
    let regulators = compared["regulators"].as_array().into_iter().flatten().map(hartstone::Regulator::new);
    let regulators: Vec<_> = regulators.collect::<Result<_>>().context(COMPARED)?;
    bench.hartstone(&list(if all { "all_hartstone" } else { "hartstone" }), &regulators)?;
    let figures = bench.figures()?;
    bench.remember(figures)?;
    small_target()
}

/// Compiles the kernel for the smallest processor, to machine code.
fn small_target() -> Result<()> {
    if !has_target(SMALL_TARGET) {
        println!("skipped: the Rust target {SMALL_TARGET} is not installed: rustup target add {SMALL_TARGET}");
        return Ok(());
    }
    let built = cargo(&["build", "--locked", "--quiet", "-p", "takt-rt-mcu", "--target", SMALL_TARGET]).status()?;
    ensure!(built.success(), "the kernel cannot be built for {SMALL_TARGET}");
    println!("the kernel is built for {SMALL_TARGET}");
    Ok(())
}

impl Bench {
    /// A replay of the board's steps has the board's records.
    fn compare(&self, policy: &str, name: &str) -> Result<()> {
        let workload = Bench::workload(name);
        let file = format!("{name}.yaml");
        let image = self.build("play", "s", &[("TAKT_POLICY", policy), ("TAKT_WORKLOAD", &file)])?;
        let summary = self.emulate(&image, &workload, Some(policy), &[])?;
        let (records, differing) = (summary["records"].as_u64().unwrap_or(0), &summary["differing_from_replay"]);
        let (flash, _) = sizes(&fs::read(&image)?).context("the image is no ELF file of 32 bits")?;
        let costs: Vec<String> = costs(&summary).map(|(kind, instructions)| format!("{kind} {instructions}")).collect();
        println!("{policy} {name}: {records} records, {differing} differ from the replay");
        println!("  {flash} bytes of flash, instructions of an entry: {}", costs.join(", "));
        ensure!(
            records > 100 && *differing == 0 && summary["dropped"] == 0,
            "{policy} {name}: the replay is another one"
        );
        ensure!(summary["figures"]["late_allocations"] == 0, "{policy} {name}: memory was allocated after the start");
        Ok(())
    }

    /// Two runs of an image have the same bytes.
    fn repeated(&self) -> Result<()> {
        let image = self.build("play", "s", &[("TAKT_WORKLOAD", "locks.yaml")])?;
        let streams = ["first", "second"].map(|name| self.images.join(format!("{name}.stream")));
        for stream in &streams {
            self.emulate(&image, &Bench::workload("locks"), None, &["--stream", &stream.to_string_lossy()])?;
        }
        ensure!(fs::read(&streams[0])? == fs::read(&streams[1])?, "two runs of an image have other bytes");
        println!("two runs have the same bytes");
        Ok(())
    }

    /// A priority inversion is bounded with inheritance, and not without it. The figure is the response time of the high task in microseconds.
    fn inversion(&self) -> Result<()> {
        for (locking, expected) in [("inheritance", 5_000..6_500), ("fifo", 25_000..26_500)] {
            let image = self.build("sync", "s", &[("TAKT_LOCKING", locking)])?;
            let workload = root().join(format!("mcu/apps/sync/{locking}.yaml"));
            let summary = self.emulate(&image, &workload, None, &[])?;
            let longest = summary["figures"]["own"][0][1].as_u64().unwrap_or(0);
            println!("priority inversion with {locking}: the high task takes {longest} us");
            ensure!(expected.contains(&longest), "priority inversion with {locking}: {longest} us");
        }
        self.gives_up()
    }

    /// The high task gives up after 2 ms, in both of its jobs. The low task then inherits nothing, and the middle one runs before it: otherwise that
    /// would wait for another millisecond.
    fn gives_up(&self) -> Result<()> {
        let image = self.build("sync", "s", &[("TAKT_LOCKING", "timed")])?;
        let summary = self.emulate(&image, &root().join("mcu/apps/sync/timed.yaml"), None, &[])?;
        let own = |index: usize| summary["figures"]["own"][index][1].as_u64().unwrap_or(0);
        println!(
            "a lock with an end: the high task takes {} us, {} time-outs, the middle task {} us",
            own(0),
            own(1),
            own(2)
        );
        let in_time = (3_000..3_500).contains(&own(0)) && (20_900..21_700).contains(&own(2));
        ensure!(in_time && own(1) == 2 && summary["differing_from_replay"] == 0, "a lock with an end: {summary}");
        Ok(())
    }

    /// A fault stops the kernel, or aborts the job; other tasks then run on, and a replay has the same records.
    fn faults(&self) -> Result<()> {
        let workload = root().join("mcu/apps/faults/faults.yaml");
        for fault in ["stack", "bus", "undefined", "panic"] {
            for restarts in [false, true] {
                let restart = restarts.then_some(("TAKT_RESTART", "1"));
                let variables: Vec<_> = [("TAKT_FAULT", fault)].into_iter().chain(restart).collect();
                let image = self.build("faults", "s", &variables)?;
                let trace = self.images.join("faults.jsonl").to_string_lossy().into_owned();
                let (status, summary) = self.ended(&image, &workload, None, &["--trace", &trace])?;
                if restarts {
                    behaviour::aborts_in_time(&trace)?;
                }
                let (count, replay) = (summary["faults"].as_u64().unwrap_or(0), &summary["differing_from_replay"]);
                let own = |index: usize| summary["figures"]["own"][index][1].as_u64().unwrap_or(0);
                // Jobs of the sound task, beginnings of the other two, and locks that were found poisoned.
                let runs_on = own(0) + own(3) >= 10 && own(1) > 4 && own(2) >= 4 && own(3) > 0;
                println!("fault {fault}: {count} reported, restart {restarts}");
                ensure!(status == 1 && *replay == 0, "fault {fault}, restart {restarts}: {summary}");
                ensure!(
                    if restarts { count > 4 && runs_on } else { count == 1 },
                    "fault {fault}, restart {restarts}: {summary}"
                );
            }
        }
        Ok(())
    }

    /// Images that lack memory or a feature: the first one says so before its start, and the other one is not built.
    fn refused(&self) -> Result<()> {
        let image = self.build("faults", "s", &[("TAKT_FAULT", "memory")])?;
        let mut command = Command::new(&self.takt);
        command.args(["mcu", "run"]).arg(&image).arg(root().join("mcu/apps/faults/faults.yaml"));
        let output = command.output()?;
        let text = String::from_utf8_lossy(&output.stderr);
        ensure!(
            !output.status.success() && text.contains("fault: out of memory outside of tasks"),
            "too little RAM: {text}"
        );
        let output = self.cargo("first", "z", &[("TAKT_WORKLOAD", "skip.yaml")], &[]).output()?;
        let text = String::from_utf8_lossy(&output.stderr);
        ensure!(
            !output.status.success() && text.contains("needs the feature `backlogs` of takt-mcu"),
            "a missing feature: {text}"
        );
        println!("an image without memory or a feature is refused");
        Ok(())
    }

    /// Sizes of the first program at level `z`; and without a trace at level `s` the costs of five tasks under EDF, and of the regulator
    /// of I+PI.
    fn figures(&self) -> Result<Map<String, Value>> {
        let first = self.build("first", "z", &[])?;
        let (flash, fixed) = sizes(&fs::read(&first)?).context("the image is no ELF file of 32 bits")?;
        let workload = root().join("mcu/apps/first/first.yaml");
        let summary = self.emulate(&first, &workload, None, &[])?;
        let memory = |key: &str| summary["figures"][key].as_u64().unwrap_or(0);
        let ram = fixed + memory("arena") + memory("handler_stack");
        let board = self.build_with("first", "z", &[], &["--no-default-features", "--features", UNTESTED_BOARD])?;
        let (board_flash, board_fixed) = sizes(&fs::read(&board)?).context("the image is no ELF file of 32 bits")?;
        // The arena has the same tables and stacks.
        let board_ram = board_fixed + memory("arena") + memory("handler_stack");
        let fits = board_flash <= UNTESTED_SIZE.0 && board_ram <= UNTESTED_SIZE.1;
        ensure!(fits, "{UNTESTED_BOARD}: {board_flash} bytes of flash and {board_ram} of RAM are more than it has");
        let five = ("TAKT_WORKLOAD", "five.yaml");
        let image = self.build("play", "s", &[five, ("TAKT_TRACE", "figures")])?;
        let summary = self.emulate(&image, &Bench::workload("five"), None, &[])?;
        let mut figures = Map::new();
        figures.insert("first_flash_bytes".into(), flash.into());
        figures.insert("first_ram_bytes".into(), ram.into());
        figures.insert(format!("{UNTESTED_BOARD}_flash_bytes"), board_flash.into());
        figures.insert(format!("{UNTESTED_BOARD}_ram_bytes"), board_ram.into());
        for (kind, instructions) in costs(&summary) {
            figures.insert(format!("{kind}_instructions"), instructions.into());
        }
        figures.insert("regulator_instructions_per_task_and_round".into(), self.regulator()?.into());
        Ok(figures)
    }

    /// Compares figures with the accepted ones.
    fn remember(&self, figures: Map<String, Value>) -> Result<()> {
        let path = root().join(FIGURES);
        if std::env::var_os("UPDATE").is_some() {
            let text = serde_json::to_string_pretty(&json!(figures))?;
            return Ok(fs::write(path, text + "\n")?);
        }
        let accepted: Map<String, Value> = serde_json::from_str(&fs::read_to_string(&path).context(FIGURES)?)?;
        let mut larger = Vec::new();
        for (name, value) in &figures {
            let (now, before) = (value.as_u64().unwrap_or(0), accepted.get(name).and_then(Value::as_u64).unwrap_or(0));
            println!("{name}: {now}, accepted {before}");
            if now * 100 > before * (100 + TOLERANCE) {
                larger.push(name.as_str());
            }
        }
        ensure!(
            larger.is_empty(),
            "{} grew by more than {TOLERANCE} %: UPDATE=1 cargo xtask mcu accepts that",
            larger.join(", ")
        );
        Ok(())
    }
}

/// Mean instructions of entries into the kernel by the kind of their first input.
fn costs(summary: &Value) -> impl Iterator<Item = (&str, u64)> {
    let entries = summary["figures"]["entries_with_steps"].as_array().into_iter().flatten();
    entries.filter(|entry| entry["count"].as_u64() > Some(0)).filter_map(|entry| {
        // QEMU counts 32 ns for an instruction.
        Some((entry["kind"].as_str()?, entry["mean_ns"].as_u64().unwrap_or(0) / 32))
    })
}

/// Bytes of flash, and of static memory, by the sections of an ELF file of 32 bits.
fn sizes(elf: &[u8]) -> Option<(u64, u64)> {
    const ALLOCATED: u32 = 2;
    const WRITABLE: u32 = 1;
    const NO_BITS: u32 = 8;
    let word = |at: usize| Some(u32::from_le_bytes(elf.get(at..at + 4)?.try_into().ok()?));
    let half = |at: usize| Some(u16::from_le_bytes(elf.get(at..at + 2)?.try_into().ok()?));
    (elf.get(..5)? == [0x7f, b'E', b'L', b'F', 1]).then_some(())?;
    let (table, size, count) = (word(32)? as usize, usize::from(half(46)?), usize::from(half(48)?));
    let (mut flash, mut ram) = (0, 0);
    for section in (0..count).map(|index| table + index * size) {
        let (kind, flags, length) = (word(section + 4)?, word(section + 8)?, u64::from(word(section + 20)?));
        if flags & ALLOCATED != 0 {
            flash += if kind == NO_BITS { 0 } else { length };
            ram += if flags & WRITABLE != 0 { length } else { 0 };
        }
    }
    Some((flash, ram))
}
