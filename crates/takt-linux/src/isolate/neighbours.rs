//! Other programs that set CPUs apart or move interrupts. Takt reports them and changes nothing of theirs.

use super::journal::Hierarchy;
use super::machine::Kernel;
use super::step::Step;
use crate::control::parse_cpus;
use crate::environments;
use takt_core::cpus::CpuSet;

/// The sets that `cset shield` makes below the root (cset-shield(1)).
const CSET: [&str; 3] = ["user", "system", "root"];

/// How the name of each set of an isolation begins.
pub(super) const SET: &str = "takt-isolate-";

/// The way to remove a set that has CPUs of an isolation.
pub(super) fn remedy(name: &str, path: &str, common: &CpuSet) -> String {
    match name {
        _ if CSET.contains(&name) => format!(
            "if `cset shield` has made it: cset shield --reset; or take CPU {common} from {path}/cpuset.cpus, or leave out the step `exclusive`"
        ),
        _ if name.ends_with(".slice") || name.ends_with(".scope") || name.ends_with(".service") => {
            format!(
                "systemctl set-property {name} AllowedCPUs=, without CPU {common}; or leave out the step `exclusive`"
            )
        }
        _ if name.starts_with(SET) => format!(
            "it is an isolation of another Takt, as in a container: takt isolate undo --all there; if that container is gone: rmdir {path}"
        ),
        _ => format!("take CPU {common} from {path}/cpuset.cpus, end its owner, or leave out the step `exclusive`"),
    }
}

/// Facts about other programs that have an influence on these CPUs, in sentences. O(threads + sets).
pub(super) fn notes(kernel: &impl Kernel, hierarchy: &Hierarchy, cpus: &CpuSet, steps: &[Step]) -> Vec<String> {
    let mut notes = Vec::new();
    let threads = kernel.threads();
    // Any user can give a process such a name.
    let is_roots = |id: i32| {
        let status = kernel.read(&format!("/proc/{id}/status")).unwrap_or_default();
        environments::users_in(&status) == Some([0; 4])
    };
    let runs = |name: &str| threads.iter().any(|thread| !thread.kernel && thread.name == name && is_roots(thread.id));
    let has = |any: &[Step]| any.iter().any(|step| steps.contains(step));
    if runs("tuned") {
        let profile = kernel.read("/etc/tuned/active_profile").unwrap_or_else(|_| "unknown".into());
        notes.push(format!(
            "tuned is active (profile {profile}) and may set interrupts, work queues, frequencies and huge pages again; Takt leaves its values alone. \
             `tuned-adm off` ends that"
        ));
    }
    if has(&[Step::Interrupts]) && runs("irqbalance") {
        notes.push(format!(
            "irqbalance moves interrupts, and may move them to CPU {cpus} again: IRQBALANCE_BANNED_CPULIST={cpus} in its settings forbids that"
        ));
    }
    for name in kernel.names(&hierarchy.mount) {
        let path = format!("{}/{name}", hierarchy.mount);
        let Ok(list) = kernel.read(&format!("{path}/cpuset.cpus")) else { continue };
        let common = parse_cpus(&list).intersection(cpus);
        if !hierarchy.v2 && CSET.contains(&name.as_str()) && !list.is_empty() {
            notes.push(format!("the set {path} looks like one of `cset shield`: its tasks stay in it"));
        } else if name.ends_with(".slice") && !common.is_empty() {
            notes.push(match hierarchy.v2 {
                true => format!("{name} asks for CPU {common} (AllowedCPUs=), which its tasks lose meanwhile"),
                false => format!("{name} has CPU {common}, too: its tasks are not in the root set, and stay there"),
            });
        }
    }
    notes
}
