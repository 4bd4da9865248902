//! The treatment of each key of a file by each driver, so that none is ignored silently.
//!
//! [`keys`](crate::keys) has every key of a file and its use in the two drivers. Most keys are honoured, or describe the side of the other
//! driver: a simulation has no processes, and a run has no simulated work. The others are reported at their place.

use crate::Workload;
use crate::code::Code;
use crate::diagnostic::{Diagnostic, Severity};
use crate::keys::Use::{self, Depends, Differs, Honoured, Ignored, InPart, OtherSide};
use crate::keys::{Key, of_drivers};
use crate::node::Place;
use crate::simulated::is_real;
use takt_core::input::Input;
use takt_core::model::{Backlog, Late};

/// The driver of a workload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Driver {
    /// `takt sim`.
    Simulation,
    /// `takt run`.
    Run,
}

/// The meaning of a key in this workload, if the table leaves that open.
fn conditional(workload: &Workload, key: &str) -> Use {
    let system = &workload.system;
    // Only jobs that an online policy schedules are late, or find their task busy.
    let of_policies = || {
        let online = system.windows.is_empty() || system.partitions.iter().all(|p| p.policy.is_some());
        let none = !online && system.partitions.iter().all(|p| p.policy.is_none());
        match (online, none) {
            (true, _) => Honoured,
            (false, false) => InPart,
            (false, true) => Differs,
        }
    };
    let differs = |differs: bool| if differs { Differs } else { OtherSide };
    match key {
        "late" if system.late != Late::Continue => of_policies(),
        "backlog" if system.backlog == Backlog::Skip => of_policies(),
        "preset" if matches!(system.backlog, Backlog::Chronos | Backlog::Hartstone) => of_policies(),
        // The replay of a run has the kernel's decisions.
        "class" => {
            if workload.handed.is_some() || workload.tasks.iter().all(|task| task.class.is_none()) {
                Honoured
            } else {
                Differs
            }
        }
        "frequency" => {
            let uses = workload.power.as_ref().map(|spec| spec.profile.uses).unwrap_or_default();
            let (slices, tasks) = (workload.slice_frequencies_mhz.iter().flatten(), &workload.tasks);
            let left = !uses.slices && slices.flatten().next().is_some()
                || !uses.processes && tasks.iter().any(|task| task.frequency_mhz.is_some());
            if left { Ignored } else { Honoured }
        }
        "epp" if !workload.settings.epp.is_empty() => Ignored,
        "load" => differs(system.load.is_some() && !workload.follows_load()),
        // A clock that is late is one of the simulated machine.
        "changes" => {
            let left_out = |what: &Input| !is_real(what) && !matches!(what, Input::Skew { .. });
            differs(workload.scenario.changes.iter().any(|(_, what)| left_out(what)))
        }
        // Simulated events stand for those of a source.
        "event" => {
            differs(workload.scenario.events.iter().any(|(task, _)| workload.tasks[task.index()].event.is_none()))
        }
        _ => Honoured,
    }
}

/// Why a key is not carried out, and what can be done.
fn reasons(key: &str) -> (String, String) {
    let (label, hint) = match key {
        "frequency" => (
            "no power policy goes by it",
            "use a power policy that does, such as `power: per_slice` or `power: per_process`, or remove the key",
        ),
        "late" | "backlog" | "preset" => (
            "it concerns jobs of online policies, and here activations end with their windows",
            "remove the key, or give the partitions a `policy` such as `edf`",
        ),
        "load" => (
            "only `takt burn` applies it to the execution time of real jobs",
            "remove the key, or scale `runtime` and the programs",
        ),
        "event" => (
            "its `releases` or `spread` are events of a simulation, and no source has events in a run",
            "add a source, such as `udp` or `signal`, or write the releases beside `event`",
        ),
        "epp" => ("it is a hint to a real processor, and a `platform` has none", "use `takt run`, or remove the key"),
        "class" => (
            "Linux schedules this task, and a simulation has no Linux",
            "use `takt run`, or remove the key, so that the policy schedules the task",
        ),
        _ => ("a real program is not blocked from outside", "remove the `block` and `wake`, or use `takt sim`"),
    };
    (label.into(), hint.into())
}

/// The same of a key that concerns the jobs of some partitions.
fn in_part(workload: &Workload) -> (String, String) {
    let all = workload.system.partitions.iter().zip(&workload.partitions);
    let names: Vec<&String> = all.filter(|(partition, _)| partition.policy.is_none()).map(|(_, name)| name).collect();
    let (first, rest) = names.split_first().expect("a partition without a policy");
    let more = if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
    (
        format!("`{first}`{more} has no policy: its activations end with their windows"),
        format!("give `{first}`{more} a `policy` such as `edf`, if the rule is meant for all"),
    )
}

impl Workload {
    /// The keys of the file that this driver does not carry out, each at its places: an error if jobs end otherwise without it, else
    /// a warning. Keys that describe the side of the other driver are none. O(keys + tasks).
    #[must_use]
    pub fn ignored_by(&self, driver: Driver) -> Vec<Diagnostic> {
        let name = match driver {
            Driver::Simulation => "takt sim",
            Driver::Run => "takt run",
        };
        let mut found = Vec::new();
        for Key { name: key, simulation, run, .. } in of_drivers() {
            let listed = if driver == Driver::Run { run } else { simulation };
            let used = if listed == Depends { conditional(self, key) } else { listed };
            let severity = match used {
                Ignored | InPart => Severity::Warning,
                Differs => Severity::Error,
                _ => continue,
            };
            let of_key = self.key_places.iter().filter(|(k, _)| *k == key);
            let mut places: Vec<Place> = of_key.map(|(_, place)| place.clone()).collect();
            places.sort_by_key(|place| place.start);
            places.dedup();
            // A rule of the command line has no place; a key that is not there is not ignored.
            let first = match (places.first(), key) {
                (Some(place), _) => place.clone(),
                (None, "frequency") => continue,
                (None, _) => 0..0,
            };
            let (label, hint) = if used == InPart { in_part(self) } else { reasons(key) };
            let more = match places.len() {
                0 | 1 => String::new(),
                2 => " here and in one more place".to_owned(),
                n => format!(" here and in {} more places", n - 1),
            };
            let message = match severity {
                _ if used == InPart => format!("`{key}`{more} concerns some partitions only"),
                Severity::Error => format!("`{name}` ignores `{key}`{more}, which changes outcomes"),
                _ => format!("`{name}` ignores `{key}`{more}"),
            };
            // Without a place there is nothing to mark.
            let (message, label) = match places.first() {
                Some(_) => (message, label),
                None => (format!("{message}: {label}"), String::new()),
            };
            let hint = match severity {
                Severity::Error => format!("{hint}; `--allow-differences` ignores it"),
                _ => hint,
            };
            found.push(
                Diagnostic { severity, ..Diagnostic::error(Code::IgnoredKey, &first, message) }.label(label).hint(hint),
            );
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::{ALL, has_drivers};
    use crate::reader::PLACED;
    use crate::{Options, Source};

    /// A key has one use wherever it stands, and the reader keeps the place of each reported key.
    #[test]
    fn a_key_has_one_use() {
        for key in ALL.iter().filter(|(table, _)| has_drivers(table)).flat_map(|(_, keys)| *keys) {
            let first = of_drivers().into_iter().find(|first| first.name == key.name);
            assert_eq!(
                first.map(|first| (first.simulation, first.run)),
                Some((key.simulation, key.run)),
                "{}",
                key.name
            );
            let reported = [key.simulation, key.run].iter().any(|used| matches!(used, Depends | Ignored | Differs));
            assert_eq!(reported, PLACED.contains(&key.name), "{}", key.name);
        }
    }

    /// Each finding as the key's text in the file, and whether it is an error.
    fn found(text: &str, driver: Driver) -> Vec<(String, bool)> {
        let source = Source::from_bytes("w.yaml", text.as_bytes().to_vec()).unwrap();
        let workload = crate::load(source, &Options::default()).unwrap_or_else(|faults| panic!("{text}: {faults:?}"));
        let findings = workload.ignored_by(driver).into_iter();
        let shown = |d: Diagnostic| (text[d.span.clone()].to_owned(), d.severity == Severity::Error);
        findings.map(shown).collect()
    }

    #[test]
    fn a_key_that_a_driver_does_not_carry_out_is_reported_at_its_place() {
        let table = |keys: &str, partition: &str| {
            format!(
                "{keys}\nwindows: [{{length: 20ms, cpu: 0, frequency: 1400, sc_partition: A}}]\n\
                 partitions: [{{name: A, {partition}processes: [{{cmd: x, runtime: 1ms, frequency: 1000{}}}]}}]\n",
                if partition.is_empty() { "" } else { ", period: 10ms" }
            )
        };
        let tasks = |keys: &str, task: &str| {
            format!("policy: edf\n{keys}\ntasks: [{{name: a, period: 10ms, cmd: x, {task}}}]\n")
        };
        let (yes, no) = (|key: &str| (key.to_owned(), true), |key: &str| (key.to_owned(), false));
        let frequency = no("frequency");
        for (text, simulated, run) in [
            (table("late: abort", ""), vec![yes("late"), frequency.clone()], vec![yes("late"), frequency.clone()]),
            (
                table("backlog: skip", ""),
                vec![yes("backlog"), frequency.clone()],
                vec![yes("backlog"), frequency.clone()],
            ),
            (
                table("preset: chronos", ""),
                vec![yes("preset"), frequency.clone()],
                vec![yes("preset"), frequency.clone()],
            ),
            (table("late: continue", ""), vec![frequency.clone()], vec![frequency.clone()]),
            (table("late: abort", "policy: edf, "), vec![frequency.clone()], vec![frequency.clone()]),
            (tasks("late: abort\nbacklog: skip", "runtime: 1ms"), vec![], vec![]),
            (tasks("load: 1.4", "runtime: 1ms"), vec![], vec![yes("load")]),
            (tasks("changes: [{at: 1s, task: a, block: yes}]", "runtime: 1ms"), vec![], vec![yes("changes")]),
            (tasks("changes: [{at: 1s, task: a, period: 5ms}]", "runtime: 1ms"), vec![], vec![]),
            (tasks("changes: [{at: 1s, task: a, skew: 1ms}]", "runtime: 1ms"), vec![], vec![]),
            (tasks("", "runtime: 1ms, class: other"), vec![yes("class")], vec![]),
            (tasks("", "steps: [run 1ms, set-period 20ms]"), vec![], vec![]),
            (
                tasks(
                    "tick: 1ms\ntimer_resolution: 1ms\ntimer_lateness: 1us\ncosts: {context_switch: 1us}\ndeciding: each\n\
                     steal: {period: 10ms, length: 1us}\nlocking: ceiling\nresources: [r]",
                    "steps: [lock r, run 1ms, unlock r]",
                ),
                vec![],
                vec![],
            ),
            (tasks("", "runtime: 1ms, execution: 2ms"), vec![], vec![]),
            (
                tasks(
                    "set_cwd: no\nscheduler_cpu: 0\nrealtime: no\ndispatch: freeze\non_crash: release\nexec_limit: 3",
                    "runtime: 1ms, init: yes, output: o, on_miss: stop, on_overrun: {exec: x}, user: u, env: {A: b}, cwd: c, umask: 077, \
                     limits: {core: 0}",
                ),
                vec![],
                vec![],
            ),
        ] {
            assert_eq!(found(&text, Driver::Simulation), simulated, "{text}");
            assert_eq!(found(&text, Driver::Run), run, "{text}");
        }
    }

    #[test]
    fn settings_of_some_partitions_only_are_a_warning() {
        let text = "late: abort\nwindows: [{length: 20ms, cpu: 0, sc_partition: A}, {length: 20ms, cpu: 0, sc_partition: B}]\n\
                    partitions:\n- {name: A, processes: [{cmd: x}]}\n\
                    - {name: B, policy: edf, processes: [{cmd: x, period: 40ms, runtime: 1ms}]}\n";
        assert_eq!(found(text, Driver::Run), [("late".to_owned(), false)]);
        let source = Source::from_bytes("w.yaml", text.as_bytes().to_vec()).unwrap();
        let [finding] = &crate::load(source, &Options::default()).unwrap().ignored_by(Driver::Run)[..] else {
            panic!()
        };
        assert_eq!(finding.code, Code::IgnoredKey);
        assert!(finding.label.contains("`A`"), "{}", finding.label);
    }
}
