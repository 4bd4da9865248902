//! Energy performance preferences (EPP) of the key `epp` on this machine.

use crate::failure::Failure;
use takt_core::cpus::CpuSet;
use takt_linux::Unavailable;
use takt_linux::power::{self, Domain, Root};
use takt_workload::{Code, Diagnostic, Workload};

/// The energy performance preferences that the file requests, by frequency domain. `of_file` has the CPUs of the file that are among those of the machine.
///
/// # Errors
/// The machine or a domain has no such preference, or two CPUs of a domain have different ones.
pub(crate) fn of(
    workload: &Workload,
    found: &Result<Vec<Domain>, Unavailable>,
    of_file: impl Fn(&CpuSet) -> CpuSet,
) -> Result<Vec<(Domain, String)>, Failure> {
    let wanted = &workload.settings.epp;
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let lacking = |u: &Unavailable| Failure::machine(Code::PowerUnavailable, &u.reason, &u.fix);
    let found = found.as_ref().map_err(|u| {
        let fix =
            "use a processor whose driver is intel_pstate or amd_pstate in active mode, or remove `epp` from the file";
        Failure::machine(Code::PowerUnavailable, &u.reason, fix)
    })?;
    let mut preferences: Vec<(Domain, String)> = Vec::new();
    for domain in found {
        let own = of_file(&domain.cpus);
        let mut names = wanted.iter().filter(|(cpus, _)| !cpus.is_disjoint(&own));
        let Some((first, name)) = names.next() else { continue };
        if let Some((second, other)) = names.next() {
            let place = workload.key_places.iter().find(|(key, _)| *key == "epp").map(|(_, place)| place.clone());
            let message = format!(
                "`{name}` and `{other}` are preferences for one frequency domain of this machine, {} (CPU {own})",
                domain.name
            );
            let fault = Diagnostic::error(Code::ConflictingKeys, &place.unwrap_or_default(), message);
            let label = format!("CPU {} and CPU {}", first.intersection(&own), second.intersection(&own));
            let fault = fault.label(label).hint("give these CPUs the same preference");
            return Err(Failure::diagnostics(&workload.source, &[fault]));
        }
        domain.takes_preference(name).map_err(|u| lacking(&u))?;
        preferences.push((domain.clone(), (*name).to_owned()));
    }
    let all = wanted.iter().fold(CpuSet::EMPTY, |all, (cpus, _)| all.union(cpus));
    let outside = found.iter().fold(all, |rest, domain| rest.difference(&of_file(&domain.cpus)));
    match outside.is_empty() {
        true => Ok(preferences),
        false => {
            let message =
                format!("CPU {outside} has a preference in `epp`, and belongs to no frequency domain of this machine");
            let fix = "name other CPUs in the file, or remove `epp`";
            Err(Failure::machine(Code::PowerUnavailable, message, fix))
        }
    }
}

/// Why `takt run` refuses the energy performance preferences of the file on this machine, in words; `None` if it has them.
pub(crate) fn lack(root: &Root, workload: &Workload) -> Option<String> {
    let of_file = |cpus: &CpuSet| cpus.intersection(&workload.system.cpus);
    let failure = of(workload, &power::domains(root), of_file).err()?;
    let text = anstream::adapter::strip_str(failure.text()).to_string();
    // Without the code, which is that of `takt run`, and without the place.
    let first = text.lines().next().unwrap_or_default();
    Some(first.split_once("]: ").map_or(first, |(_, message)| message).to_owned())
}
