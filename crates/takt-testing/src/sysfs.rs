//! Imitated machines for tests of power management: directories with the files that Linux has there, as several drivers show them.
//!
//! `takt … --sysfs-root DIR` refuses and clamps writes to them as the kernel does (`crates/takt-linux/src/power/imitation.rs`).

use std::fs;
use std::path::{Path, PathBuf};

/// A machine in a directory.
#[derive(Debug)]
pub struct Machine {
    dir: PathBuf,
}

/// A frequency domain.
struct Policy<'a> {
    number: usize,
    cpus: &'a str,
    driver: &'a str,
    governors: &'a str,
    governor: &'a str,
    /// From the highest, in kHz; empty for a driver without a table.
    table: &'a [u32],
    ends: (u32, u32),
}

impl Machine {
    /// A machine without power management.
    pub fn bare(dir: &Path) -> Machine {
        let machine = Machine { dir: dir.to_path_buf() };
        fs::create_dir_all(dir.join("sys/devices/system/cpu/cpufreq")).expect("a directory");
        machine
    }

    /// A PC with a domain for each of two CPUs, a table of frequencies, and the governor `userspace`.
    pub fn acpi_cpufreq(dir: &Path) -> Machine {
        let machine = Machine::bare(dir);
        for number in 0..2 {
            machine.policy(&Policy {
                number,
                cpus: &number.to_string(),
                driver: "acpi-cpufreq",
                governors: "ondemand userspace performance schedutil",
                governor: "schedutil",
                table: &[2_400_000, 1_800_000, 1_200_000, 800_000],
                ends: (800_000, 2_400_000),
            });
        }
        machine.sensors();
        machine
    }

    /// An Intel PC whose hardware chooses the frequency: two governors that are not those of other drivers, and no table.
    pub fn intel_pstate(dir: &Path) -> Machine {
        let machine = Machine::bare(dir);
        machine.autonomous("intel_pstate", (400_000, 4_000_000));
        machine.put("sys/devices/system/cpu/intel_pstate/status", "active");
        machine.put("sys/devices/system/cpu/intel_pstate/no_turbo", "0");
        machine.sensors();
        machine
    }

    /// The same of AMD.
    pub fn amd_pstate(dir: &Path) -> Machine {
        let machine = Machine::bare(dir);
        machine.autonomous("amd-pstate-epp", (1_100_000, 4_465_000));
        machine.put("sys/devices/system/cpu/amd_pstate/status", "active");
        machine.sensors();
        machine
    }

    /// Two clusters with two CPUs each, as small boards have them, and old enough to refuse a minimum above the maximum.
    pub fn two_domains(dir: &Path) -> Machine {
        let machine = Machine::bare(dir);
        let tables: [&[u32]; 2] = [&[1_200_000, 800_000, 400_000], &[2_000_000, 1_000_000]];
        for (number, table) in [0, 2].into_iter().zip(tables) {
            machine.policy(&Policy {
                number,
                cpus: &format!("{number} {}", number + 1),
                driver: "cpufreq-dt",
                governors: "performance schedutil",
                governor: "performance",
                table,
                ends: (table[table.len() - 1], table[0]),
            });
            machine.put(&format!("sys/devices/system/cpu/cpufreq/policy{number}/strict.imitation"), "");
        }
        machine
    }

    /// The i.MX8QuadMax: four A53 and two A72.
    pub fn imx8(dir: &Path) -> Machine {
        let machine = Machine::bare(dir);
        let tables: [&[u32]; 2] =
            [&[1_200_000, 1_104_000, 896_000, 600_000], &[1_596_000, 1_296_000, 1_056_000, 600_000]];
        for ((number, cpus), table) in [(0, "0 1 2 3"), (4, "4 5")].into_iter().zip(tables) {
            machine.policy(&Policy {
                number,
                cpus,
                driver: "imx8-cpufreq",
                governors: "conservative ondemand userspace performance schedutil",
                governor: "ondemand",
                table,
                ends: (table[3], table[0]),
            });
        }
        machine.zone(0, "cpu-thermal0", "44600");
        machine.zone(1, "cpu-thermal1", "45200");
        machine
    }

    fn autonomous(&self, driver: &str, ends: (u32, u32)) {
        for number in 0..2 {
            self.policy(&Policy {
                number,
                cpus: &number.to_string(),
                driver,
                governors: "performance powersave",
                governor: "powersave",
                table: &[],
                ends,
            });
            let dir = format!("sys/devices/system/cpu/cpufreq/policy{number}");
            let names = "default performance balance_performance balance_power power";
            self.put(&format!("{dir}/energy_performance_available_preferences"), names);
            self.put(&format!("{dir}/energy_performance_preference"), "balance_performance");
        }
    }

    /// A thermal zone, a hwmon device, two counters of energy, and the latencies of two CPUs.
    fn sensors(&self) {
        self.zone(0, "x86_pkg_temp", "45000");
        self.put("sys/class/hwmon/hwmon0/name", "coretemp");
        self.put("sys/class/hwmon/hwmon0/temp1_input", "46000");
        self.put("sys/class/hwmon/hwmon0/temp1_label", "Package id 0");
        for (zone, name) in [("intel-rapl:0", "package-0"), ("intel-rapl:0:0", "core"), ("intel-rapl:1", "psys")] {
            self.put(&format!("sys/class/powercap/{zone}/name"), name);
            self.put(&format!("sys/class/powercap/{zone}/max_energy_range_uj"), "262143328850");
            self.put(&format!("sys/class/powercap/{zone}/energy_uj"), "1000000");
        }
        for cpu in 0..2 {
            self.put(&format!("sys/devices/system/cpu/cpu{cpu}/power/pm_qos_resume_latency_us"), "0");
        }
    }

    fn zone(&self, number: usize, name: &str, temperature: &str) {
        self.put(&format!("sys/class/thermal/thermal_zone{number}/type"), name);
        self.put(&format!("sys/class/thermal/thermal_zone{number}/temp"), temperature);
    }

    fn policy(&self, policy: &Policy<'_>) {
        let Policy { number, cpus, driver, governors, governor, table, ends } = *policy;
        let file = |name: &str, value: &str| {
            self.put(&format!("sys/devices/system/cpu/cpufreq/policy{number}/{name}"), value);
        };
        let numbers = |table: &[u32]| table.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
        file("affected_cpus", cpus);
        file("related_cpus", cpus);
        file("scaling_driver", driver);
        file("scaling_available_governors", governors);
        file("scaling_governor", governor);
        file("cpuinfo_min_freq", &ends.0.to_string());
        file("cpuinfo_max_freq", &ends.1.to_string());
        file("scaling_min_freq", &ends.0.to_string());
        file("scaling_max_freq", &ends.1.to_string());
        file("scaling_cur_freq", &ends.1.to_string());
        file("scaling_setspeed", "<unsupported>");
        if !table.is_empty() {
            file("scaling_available_frequencies", &numbers(table));
            let times: Vec<String> = table.iter().map(|khz| format!("{khz} 100")).collect();
            file("stats/time_in_state", &times.join("\n"));
        }
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        &self.dir
    }

    /// Puts a file there, as a whole: a reader sees the old content or the new one.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn put(&self, path: &str, content: &str) {
        let place = self.dir.join(path);
        fs::create_dir_all(place.parent().expect("a path below the directory")).expect("a directory");
        let partial = place.with_extension("partial");
        fs::write(&partial, format!("{content}\n")).and_then(|()| fs::rename(&partial, &place)).expect("a file");
    }

    /// The content of a file, without white space at its end; empty if there is none.
    pub fn get(&self, path: &str) -> String {
        fs::read_to_string(self.dir.join(path)).unwrap_or_default().trim_end().to_owned()
    }

    /// A file of a frequency domain.
    pub fn policy_file(&self, number: usize, name: &str) -> String {
        self.get(&format!("sys/devices/system/cpu/cpufreq/policy{number}/{name}"))
    }

    /// A fault of a file: see the imitation for its lines.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn fault(&self, path: &str, fault: &str) {
        self.put(&format!("{path}.imitation"), fault);
    }

    /// All settings of the machine with their values: what a run may change, and has to restore.
    pub fn settings(&self) -> Vec<(String, String)> {
        let names = [
            "scaling_governor",
            "scaling_min_freq",
            "scaling_max_freq",
            "energy_performance_preference",
            "pm_qos_resume_latency_us",
        ];
        let mut found = Vec::new();
        let mut open = vec![self.dir.join("sys/devices/system/cpu")];
        while let Some(dir) = open.pop() {
            for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
                let path = entry.path();
                if path.is_dir() {
                    open.push(path);
                } else if names.iter().any(|name| path.ends_with(name)) {
                    let short = path.strip_prefix(&self.dir).expect("below it").display().to_string();
                    found.push((short.clone(), self.get(&short)));
                }
            }
        }
        found.sort();
        found
    }
}
