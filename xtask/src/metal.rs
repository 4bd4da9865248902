//! `cargo xtask metal`: the core on a machine without an operating system, and what the engine with one policy takes there.

use crate::workspace::{Outcome, cargo, has_target, in_ci, metadata, root};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const TARGET: &str = "thumbv7m-none-eabi";
/// The program that is measured; no member of the workspace.
const PROGRAM: &str = "xtask/metal/Cargo.toml";
/// Levels of optimisation, and the most flash memory that each may take, in bytes.
const LEVELS: [(&str, u64); 2] = [("s", 48 * 1024), ("z", 40 * 1024)];
/// The regions of the linker's script in flash memory, and in static memory.
const FLASH: [&str; 4] = [".vectors", ".text", ".rodata", ".data"];
const RAM: [&str; 2] = [".data", ".bss"];
const TYPES: [&str; 4] = ["TASK", "TASK_STATE", "POLICY_SPEC", "ENGINE"];

/// Builds the whole core, and then the program at two levels; prints its sizes, and fails if it is too large.
pub(crate) fn run() -> Outcome {
    if !has_target(TARGET) {
        let why = format!("the Rust target {TARGET} is not installed: rustup target add {TARGET}");
        return if in_ci() { Outcome::Failed(why) } else { Outcome::Skipped(why) };
    }
    match measure() {
        Ok(()) => Outcome::Passed,
        Err(error) => Outcome::Failed(format!("{error:#}")),
    }
}

fn measure() -> Result<()> {
    let built = cargo(&["build", "--locked", "-p", "takt-rt-core", "--target", TARGET]).status()?;
    ensure!(built.success(), "the core with all policies cannot be built for {TARGET}");
    let target = PathBuf::from(metadata()?["target_directory"].as_str().context("no target directory")?).join("metal");
    fs::create_dir_all(&target)?;
    println!("the engine under EDF on {TARGET}, in bytes");
    for (level, most) in LEVELS {
        let sizes = sizes(&target, level)?;
        let sum = |sections: &[&str]| sections.iter().filter_map(|name| sizes.get(*name)).sum::<u64>();
        let (flash, ram) = (sum(&FLASH), sum(&RAM));
        ensure!(sizes.get(".text").is_some_and(|text| *text > 0), "the map has no code");
        println!("opt-level {level}: flash {flash}, static memory {ram}");
        ensure!(flash <= most, "at opt-level {level} it takes more than {most} bytes of flash");
        if level == "s" {
            for name in TYPES {
                let size = sizes.get(&format!("SIZE_OF_{name}")).with_context(|| format!("the map has no {name}"))?;
                println!("size of {}: {size}", name.to_lowercase().replace('_', " "));
            }
        }
    }
    Ok(())
}

/// Builds the program at this level. Returns the sizes of its sections and symbols by the linker's map.
fn sizes(target: &Path, level: &str) -> Result<BTreeMap<String, u64>> {
    let map = target.join(format!("{level}.map"));
    let flags = format!(
        "-C link-arg=-T{} -C link-arg=-Map={} -C link-arg=--gc-sections",
        root().join("xtask/metal/metal.x").display(),
        map.display()
    );
    let mut command =
        cargo(&["build", "--locked", "--quiet", "--release", "--manifest-path", PROGRAM, "--target", TARGET]);
    command.arg("--target-dir").arg(target);
    command.env("CARGO_TARGET_THUMBV7M_NONE_EABI_RUSTFLAGS", flags).env("CARGO_PROFILE_RELEASE_OPT_LEVEL", level);
    // The map is written by the linker only.
    let _ = fs::remove_file(&map);
    let _ = fs::remove_dir_all(target.join(TARGET).join("release"));
    ensure!(command.status()?.success(), "{PROGRAM} cannot be built");
    let text = fs::read_to_string(&map).with_context(|| map.display().to_string())?;
    // Columns: address, address of loading, size, alignment (all but the last in hexadecimal digits), name.
    let entry = |line: &str| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let [_, _, size, _, name] = columns[..] else { return None };
        Some((name.to_owned(), u64::from_str_radix(size, 16).ok()?))
    };
    Ok(text.lines().filter_map(entry).collect())
}
