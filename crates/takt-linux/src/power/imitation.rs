//! The answers of the kernel to writes, for a directory that imitates a machine.
//!
//! The rules are those of `drivers/cpufreq/cpufreq.c`, `freq_table.c` and `cpufreq_userspace.c` of Linux 6.18, of the active modes of `intel_pstate.c` and
//! `amd-pstate.c`, and of `drivers/base/power/sysfs.c`. All state is in the directory, so that several processes see one machine.
//!
//! A file `NAME.imitation` beside the file `NAME` adds faults, one on each line: `open ERROR`, `refuse ERROR [AFTER]` (writes fail, the first `AFTER` of
//! them excepted), `delay MICROSECONDS`, `ignore` (writes succeed without an effect). In the directory of a cpufreq policy the file
//! `cap.imitation` has the highest frequency that the hardware allows, in kHz, and `strict.imitation` refuses a minimum above the maximum, as kernels
//! before 5.3 do. A file that reads `!ERROR` fails to be read. `ERROR` is a name such as `EAGAIN`.

use rustix::io::Errno;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

const SIDE: &str = ".imitation";

/// Opens a file for writing.
pub(super) fn open(path: &Path) -> io::Result<()> {
    let fault = faults(path).into_iter().find_map(|fault| fault.strip_prefix("open ").map(error));
    fault.map_or(Ok(()), Err)
}

/// The content of a file that reads as this text.
pub(super) fn content(text: &str) -> io::Result<String> {
    match text.trim_end().strip_prefix('!') {
        Some(name) => Err(error(name)),
        None => Ok(text.trim_end().to_owned()),
    }
}

/// Writes a value as the kernel would.
pub(super) fn write(path: &Path, value: &str) -> io::Result<()> {
    for fault in faults(path) {
        let words: Vec<&str> = fault.split(' ').collect();
        match words[..] {
            ["delay", time] => std::thread::sleep(Duration::from_micros(time.parse().unwrap_or_default())),
            ["refuse", name] => return Err(error(name)),
            ["refuse", name, after] => {
                let counted = side(path).with_extension("count");
                let before: u32 = read(&counted).and_then(|n| n.parse().ok()).unwrap_or_default();
                fs::write(&counted, (before + 1).to_string())?;
                if before >= after.parse().unwrap_or_default() {
                    return Err(error(name));
                }
            }
            ["ignore"] => return Ok(()),
            _ => {}
        }
    }
    let value = value.trim_end();
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let dir = path.parent().unwrap_or(Path::new("/"));
    match name {
        "scaling_governor" => governor(dir, value),
        "scaling_setspeed" => set_speed(dir, value),
        "scaling_min_freq" | "scaling_max_freq" => limit(dir, name, value),
        "energy_performance_preference" => preference(dir, value),
        "pm_qos_resume_latency_us" => latency(path, value),
        _ => fs::write(path, format!("{value}\n")),
    }
}

fn governor(dir: &Path, value: &str) -> io::Result<()> {
    let known = text(dir, "scaling_available_governors").split(' ').any(|name| name == value);
    if !known {
        return Err(Errno::INVAL.into());
    }
    put(dir, "scaling_governor", value)?;
    if dir.join("scaling_setspeed").exists() {
        let speed = if value == "userspace" { text(dir, "scaling_cur_freq") } else { "<unsupported>".into() };
        put(dir, "scaling_setspeed", &speed)?;
    }
    settle(dir)
}

fn set_speed(dir: &Path, value: &str) -> io::Result<()> {
    let khz: u32 = value.parse().map_err(|_| Errno::INVAL)?;
    if text(dir, "scaling_governor") != "userspace" {
        return Err(Errno::INVAL.into());
    }
    // Outside of the limits it is taken, and has its effect when they allow it.
    put(dir, "scaling_setspeed", &khz.to_string())?;
    settle(dir)
}

fn limit(dir: &Path, name: &str, value: &str) -> io::Result<()> {
    let khz: u32 = value.parse().map_err(|_| Errno::INVAL)?;
    let (mut min, mut max) = requests(dir);
    match name {
        "scaling_min_freq" => min = khz,
        _ => max = khz,
    }
    if min > max && dir.join("strict.imitation").exists() {
        return Err(Errno::INVAL.into());
    }
    put(dir, "requests.imitation", &format!("{min} {max}"))?;
    settle(dir)
}

/// The limits that were requested, which the kernel keeps although it clamps them.
fn requests(dir: &Path) -> (u32, u32) {
    let kept = read(&dir.join("requests.imitation")).unwrap_or_default();
    let kept = kept.split_once(' ').and_then(|(min, max)| Some((min.parse().ok()?, max.parse().ok()?)));
    kept.unwrap_or((number(dir, "scaling_min_freq"), number(dir, "scaling_max_freq")))
}

/// Computes the limits in force and the frequency from the requests, the governor and the cap.
fn settle(dir: &Path) -> io::Result<()> {
    let (lowest, highest) = (number(dir, "cpuinfo_min_freq"), number(dir, "cpuinfo_max_freq"));
    let highest = read(&dir.join("cap.imitation"))
        .and_then(|cap| cap.parse().ok())
        .map_or(highest, |cap: u32| cap.clamp(lowest, highest));
    let (min, max) = requests(dir);
    let mut max = max.clamp(lowest, highest);
    let mut min = min.clamp(lowest, max);
    let table = table(dir);
    if !table.is_empty() {
        if !table.iter().any(|khz| (min..=max).contains(khz)) {
            max = table.iter().copied().find(|khz| *khz > max).unwrap_or(highest);
        }
        max = table.iter().copied().rfind(|khz| *khz <= max).unwrap_or(lowest);
        min = table.iter().copied().find(|khz| *khz >= min).unwrap_or(max).min(max);
    }
    put(dir, "scaling_max_freq", &max.to_string())?;
    put(dir, "scaling_min_freq", &min.to_string())?;
    let now = number(dir, "scaling_cur_freq");
    let khz = match text(dir, "scaling_governor").as_str() {
        "performance" => max,
        "powersave" if !table.is_empty() => min,
        "userspace" => {
            let wanted = number(dir, "scaling_setspeed").clamp(min, max);
            table.iter().copied().find(|khz| *khz >= wanted).unwrap_or(wanted)
        }
        _ => now.clamp(min, max),
    };
    put(dir, "scaling_cur_freq", &khz.to_string())?;
    Ok(())
}

/// The frequencies of the driver, from the lowest. Without a table the driver takes each one.
fn table(dir: &Path) -> Vec<u32> {
    let text = text(dir, "scaling_available_frequencies");
    let mut table: Vec<u32> = text.split_whitespace().filter_map(|khz| khz.parse().ok()).collect();
    table.sort_unstable();
    table
}

fn preference(dir: &Path, value: &str) -> io::Result<()> {
    let names = text(dir, "energy_performance_available_preferences");
    let named = names.split_whitespace().any(|name| name == value);
    if !named && value.parse::<u8>().is_err() {
        return Err(Errno::INVAL.into());
    }
    if text(dir, "scaling_governor") == "performance" && !matches!(value, "performance" | "0") {
        return Err(Errno::BUSY.into());
    }
    put(dir, "energy_performance_preference", value)
}

fn latency(path: &Path, value: &str) -> io::Result<()> {
    if value != "n/a" && !value.parse::<i32>().is_ok_and(|us| (0..i32::MAX).contains(&us)) {
        return Err(Errno::INVAL.into());
    }
    fs::write(path, format!("{value}\n"))
}

fn side(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(SIDE);
    name.into()
}

fn faults(path: &Path) -> Vec<String> {
    read(&side(path)).unwrap_or_default().lines().map(str::to_owned).collect()
}

fn error(name: &str) -> io::Error {
    let number = match name.trim() {
        "EAGAIN" => Errno::AGAIN,
        "EACCES" => Errno::ACCESS,
        "EPERM" => Errno::PERM,
        "EBUSY" => Errno::BUSY,
        "EINVAL" => Errno::INVAL,
        "ENODEV" => Errno::NODEV,
        _ => Errno::IO,
    };
    number.into()
}

fn read(path: &Path) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim_end().to_owned())
}

fn text(dir: &Path, name: &str) -> String {
    read(&dir.join(name)).unwrap_or_default()
}

fn number(dir: &Path, name: &str) -> u32 {
    text(dir, name).parse().unwrap_or_default()
}

fn put(dir: &Path, name: &str, value: &str) -> io::Result<()> {
    fs::write(dir.join(name), format!("{value}\n"))
}
