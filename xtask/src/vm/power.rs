//! The test machine with frequencies: firmware that has performance states (`vm/cpufreq.asl`), and the kernel's own driver for them.

use super::apt::run;
use super::initramfs::Archive;
use super::kernel::{self, Kernel};
use crate::workspace::root;
use anyhow::{Context, Result, ensure};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The kernel's modules for it. They need no others.
const MODULES: [&str; 2] = ["acpi-cpufreq", "cpufreq_userspace"];

/// The files of a machine with frequencies.
pub(super) struct Hardware {
    /// The table of the firmware.
    table: PathBuf,
    /// The first file system, with the modules.
    pub(super) initramfs: PathBuf,
}

impl Hardware {
    /// Compiles the table and packs the modules of this kernel behind the first file system of the other machines.
    ///
    /// # Errors
    /// The machine lacks a tool, or the modules cannot be downloaded: the reason with the way out.
    pub(super) fn prepare(dir: &Path, kernel: &Kernel, initramfs: &Path) -> Result<Hardware> {
        for (tool, option, package) in [("iasl", "-v", "acpica-tools"), ("xz", "--version", "xz-utils")] {
            let works = Command::new(tool).arg(option).output().is_ok_and(|output| output.status.success());
            ensure!(works, "{tool} is not installed: apt-get install {package}");
        }
        let table = dir.join("cpufreq.aml");
        run(Command::new("iasl").arg("-p").arg(table.with_extension("")).arg(root().join("xtask/vm/cpufreq.asl")))?;
        let mut archive = Archive::new(Vec::new());
        archive.directory("modules")?;
        for (name, module) in MODULES.into_iter().zip(kernel::modules(dir, &kernel.name, &MODULES)?) {
            archive.file(&format!("modules/{name}.ko"), &fs::read(module)?)?;
        }
        // The kernel unpacks archives that follow each other.
        let path = dir.join("initramfs-power.cpio");
        fs::copy(initramfs, &path)?;
        File::options().append(true).open(&path)?.write_all(&archive.finish()?)?;
        Ok(Hardware { table, initramfs: path })
    }

    /// Arguments of the emulator. The driver is for processors of a vendor with performance states; the second serial interface has the
    /// register of a domain.
    pub(super) fn arguments(&self) -> Result<[String; 6]> {
        let table = self.table.to_str().context("a path is no text")?;
        let cpu = "max,vendor=GenuineIntel,family=6,model=94,stepping=3";
        Ok(["-acpitable", &format!("file={table}"), "-serial", "null", "-cpu", cpu].map(str::to_owned))
    }
}
