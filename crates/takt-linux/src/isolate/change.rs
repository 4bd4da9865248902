//! Creating and undoing isolations.

use super::journal::{Hierarchy, Isolation, Journal, Phase, Setting, run_of, run_owner};
use super::machine::Kernel;
use super::neighbours;
use super::plan::{self, Wish};
use super::refusal::Refusal;
use super::step::Step;
use super::value::{Claim, Form};
use crate::control::parse_cpus;
use crate::run_id::RunId;
use std::any::Any;
use std::collections::BTreeSet;
use std::io;
use takt_core::cpus::CpuSet;

/// The isolation to create.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// Its name: letters, digits, `-` and `_`.
    pub name: String,
    /// The CPUs.
    pub cpus: CpuSet,
    /// The steps to carry out.
    pub steps: Vec<Step>,
    /// The set's tasks are balanced among its CPUs.
    pub balanced: bool,
    /// The run that ends with it, if it is one of a run.
    pub owner: Option<RunId>,
}

/// The outcome of a creation.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Created {
    /// The directory of its set.
    pub group: String,
    /// Settings that have another value now.
    pub settings: usize,
    /// Threads that were moved or bound.
    pub threads: usize,
    /// Things that stay as they were, with the reason.
    pub notes: Vec<String>,
    /// Parameters of the kernel's command line that would help, and are not there.
    pub boot: Vec<String>,
}

/// The outcome of undoing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Undone {
    /// The names of the isolations.
    pub names: Vec<String>,
    /// Settings that got their earlier value.
    pub settings: usize,
    /// Things that were not as Takt had left them, and stay.
    pub notes: Vec<String>,
}

/// Changes the isolations of a machine.
#[derive(Debug)]
pub struct Isolator<K> {
    pub(super) kernel: K,
    pub(super) journal: Journal,
}

/// The group of all tasks that are not isolated (cgroup v1), below the mount.
const OTHERS: &str = "/takt-others";
const NAME_MAX: usize = 32;

/// The group of an isolation, below the mount.
pub(super) fn group_of(name: &str) -> String {
    format!("/{}{name}", neighbours::SET)
}

/// The kernel has refused something that root may do elsewhere.
pub(super) fn failed(what: &str, error: &io::Error) -> Refusal {
    if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
        return Refusal::Full(format!("{what}: {error}"));
    }
    Refusal::Machine(format!("{what}: {error}"), "`takt doctor` reports what this machine can do".into())
}

impl<K: Kernel> Isolator<K> {
    /// Reads the journal.
    ///
    /// # Errors
    /// It cannot be read, or is damaged.
    pub fn new(kernel: K) -> Result<Isolator<K>, Refusal> {
        let text = kernel.load().map_err(|e| failed("the journal cannot be read", &e))?;
        let journal = match text {
            None => Journal::default(),
            Some(text) => Journal::parse(&text).ok_or_else(|| {
                Refusal::NotRestored("the journal is damaged, or was written by another version of Takt".into())
            })?,
        };
        Ok(Isolator { kernel, journal })
    }

    /// Creates an isolation. A failure undoes all of it. Isolations that a dead process has left unfinished are undone first.
    ///
    /// # Errors
    /// The request is wrong, the CPUs have another use, or the machine cannot. Nothing is changed then.
    pub fn create(&mut self, request: &Request) -> Result<Created, Refusal> {
        self.recover()?;
        let hierarchy = self.check(request)?;
        let steps: Vec<Step> = Step::all().filter(|step| request.steps.contains(step)).collect();
        let wishes = plan::wishes(&self.kernel, &hierarchy, &request.cpus, &steps);
        if let Some(step) = steps.iter().find(|step| is_setting(**step) && !wishes.iter().any(|w| w.step == **step))
            && !step.is_default()
        {
            let fix = format!("leave out --with {step}");
            return Err(Refusal::Machine(format!("this machine has no setting for the step `{step}`"), fix));
        }
        let _frequencies = self.lock_frequencies(wishes.iter().map(|wish| wish.path.as_str()))?;
        let mut created =
            Created { group: format!("{}{}", hierarchy.mount, group_of(&request.name)), ..Created::default() };
        created.notes = neighbours::notes(&self.kernel, &hierarchy, &request.cpus, &steps);
        let (journal, wanted) = self.planned(request, &hierarchy, steps, wishes, &mut created.notes)?;
        self.journal = journal;
        let stored = self.store();
        if let Err(e) = stored {
            // Nothing has been changed.
            self.journal = Isolator::new_journal(&self.kernel);
            return Err(e);
        }
        let threads = self.journal.moved.len();
        match self.carry_out(&request.name, &wanted, &mut created) {
            Ok(()) => {
                created.threads = self.journal.moved.len() - threads;
                let line = self.kernel.read("/proc/cmdline").unwrap_or_default();
                created.boot = plan::boot_parameters(&line, &request.cpus);
                Ok(created)
            }
            Err(refusal) => {
                self.take_back(&request.name)?;
                Err(refusal)
            }
        }
    }

    /// Whether a run of this journal writes a setting at will. It gives the setting back to the other owners.
    fn is_held(&self, path: &str) -> bool {
        let free = |setting: &Setting| setting.claims.iter().any(|(_, claim)| *claim == Claim::Free);
        self.journal.settings.iter().any(|setting| setting.path == path && free(setting))
    }

    /// Takes the frequency domains of these settings, but those of runs in this journal. A run of another user has a journal of its own, and would restore
    /// other values at its end.
    fn lock_frequencies<'a>(&self, paths: impl Iterator<Item = &'a str>) -> Result<Option<Box<dyn Any>>, Refusal> {
        let mut domains: Vec<(&str, CpuSet)> = Vec::new();
        for path in paths.filter(|path| !self.is_held(path)) {
            let Some((directory, name)) = plan::frequency_domain(path) else { continue };
            let affected = self.kernel.read(&format!("{directory}/affected_cpus")).unwrap_or_default();
            domains.push((name, parse_cpus(&affected.replace(' ', ","))));
        }
        domains.dedup();
        if domains.is_empty() {
            return Ok(None);
        }
        let locked = self.kernel.lock_frequencies(&domains);
        locked.map(Some).map_err(|(reason, fix)| Refusal::InUse(reason, fix))
    }

    fn new_journal(kernel: &K) -> Journal {
        kernel.load().ok().flatten().and_then(|text| Journal::parse(&text)).unwrap_or_default()
    }

    /// Whether the request can be carried out, before anything is touched.
    fn check(&self, request: &Request) -> Result<Hierarchy, Refusal> {
        let Request { name, cpus, .. } = request;
        let known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(known) {
            let fix = format!("use at most {NAME_MAX} letters, digits, `-` and `_`");
            return Err(Refusal::Request(format!("an isolation cannot have the name `{name}`"), fix));
        }
        if self.journal.isolation(name).is_some() {
            let fix = format!("choose another --name, or `takt isolate undo --name {name}`");
            return Err(Refusal::Request(format!("there is an isolation `{name}` already"), fix));
        }
        let hierarchy = match &self.journal.hierarchy {
            Some(hierarchy) => hierarchy.clone(),
            None => {
                let found = self.kernel.hierarchy().map(|(v2, mount)| Hierarchy { v2, mount });
                found.ok_or_else(|| {
                    let reason = "no cpuset controller can be used, neither of cgroup v1 nor of v2";
                    Refusal::Machine(
                        reason.into(),
                        "mount -t cgroup -o cpuset cgroup /sys/fs/cgroup/cpuset # after mkdir".into(),
                    )
                })?
            }
        };
        let online = self.online_in(&hierarchy)?;
        if cpus.is_empty() {
            return Err(Refusal::Request("an isolation without a CPU".into(), "name CPUs of this machine".into()));
        }
        let missing = cpus.difference(&online);
        if !missing.is_empty() {
            let reason = format!("this machine has no CPU {missing}; its CPUs are {online}");
            return Err(Refusal::MissingCpus(reason));
        }
        let partition = request.steps.iter().find(|step| matches!(step, Step::Domain | Step::Tasks));
        if let Some(step) = partition.filter(|_| hierarchy.v2 && !request.steps.contains(&Step::Exclusive)) {
            let reason =
                format!("with cgroup v2, the step `{step}` is one of a partition, which the step `exclusive` makes");
            return Err(Refusal::Request(reason, format!("add the step `exclusive`, or leave out `{step}`")));
        }
        // The processes of a run would lose the CPU. Its own isolation is made by the run.
        if let Some(run) = self.kernel.run_on(cpus, request.owner.as_ref()) {
            let fix = format!(
                "end the run of {run} or wait for its end, name other CPUs, or isolate them for the run: takt run --isolate"
            );
            return Err(Refusal::InUse(format!("CPU {cpus} is in use by {run}"), fix));
        }
        if let Some(other) = self.journal.isolations.iter().find(|other| !other.cpus.is_disjoint(cpus)) {
            let fix = format!("name other CPUs, or `takt isolate undo --name {}`", other.name);
            return Err(Refusal::InUse(format!("CPU {cpus} is isolated by `{}` already", other.name), fix));
        }
        if online.difference(&self.journal.isolated()).difference(cpus).is_empty() {
            let reason = "no CPU would remain for all other tasks".to_owned();
            return Err(Refusal::Request(reason, "leave at least one CPU out".into()));
        }
        let group = format!("{}{}", hierarchy.mount, group_of(name));
        let others = format!("{}{OTHERS}", hierarchy.mount);
        for (group, ours) in [(&group, false), (&others, self.journal.has_others())] {
            if !ours && self.kernel.exists(group) {
                let reason = format!("{group} is there, and Takt's journal does not name it");
                return Err(Refusal::InUse(reason, format!("move its tasks away and remove it: rmdir {group}")));
            }
        }
        if request.steps.contains(&Step::Exclusive) {
            self.check_siblings(&hierarchy, cpus)?;
        }
        Ok(hierarchy)
    }

    /// An exclusive set needs siblings without its CPUs. The kernel answers `EINVAL` and does not name the sibling.
    fn check_siblings(&self, hierarchy: &Hierarchy, cpus: &CpuSet) -> Result<(), Refusal> {
        for name in self.kernel.names(&hierarchy.mount) {
            let path = format!("{}/{name}", hierarchy.mount);
            let own = self.journal.isolations.iter().any(|i| group_of(&i.name)[1..] == name) || OTHERS[1..] == name;
            let Ok(list) = self.kernel.read(&format!("{path}/cpuset.cpus")) else { continue };
            let common = parse_cpus(&list).intersection(cpus);
            // A set of cgroup v2 without a partition gives way.
            let gives_way = hierarchy.v2
                && self.kernel.read(&format!("{path}/cpuset.cpus.partition")).is_ok_and(|kind| kind == "member");
            if own || common.is_empty() || gives_way {
                continue;
            }
            return Err(Refusal::InUse(
                format!("the set {path} has CPU {common}, too: an exclusive set must not overlap its siblings"),
                neighbours::remedy(&name, &path, &common),
            ));
        }
        Ok(())
    }

    /// The journal with the isolation, and the settings that change.
    fn planned(
        &mut self,
        request: &Request,
        hierarchy: &Hierarchy,
        steps: Vec<Step>,
        wishes: Vec<Wish>,
        notes: &mut Vec<String>,
    ) -> Result<(Journal, Vec<String>), Refusal> {
        let mut journal = self.journal.clone();
        journal.hierarchy = Some(hierarchy.clone());
        journal.isolations.push(Isolation {
            name: request.name.clone(),
            cpus: request.cpus,
            owner: request.owner,
            phase: Phase::Changing,
            balanced: request.balanced,
            steps,
        });
        let online = self.online_in(hierarchy)?;
        let mut paths = Vec::new();
        for Wish { step, path, form, claim, optional } in wishes {
            let text = self.kernel.read(&path).map_err(|e| failed(&format!("the step `{step}`"), &e));
            let text = match text {
                Ok(text) => text,
                Err(_) if optional => continue,
                Err(refusal) => return Err(refusal),
            };
            let now = form.value(&text);
            let known = journal.settings.iter().any(|setting| setting.path == path);
            let unchanged = matches!(&claim, Claim::Without(_)) && now == without(form, &now, &claim, &online);
            if unchanged && !known {
                continue;
            }
            let held = self.is_held(&path);
            // A value that cannot be written now could not be restored later.
            if !held && let Err(e) = self.kernel.write(&path, &now) {
                if optional {
                    notes.push(format!("{path} cannot be changed: {e}"));
                    continue;
                }
                return Err(Refusal::Machine(
                    format!("the step `{step}` could not be undone: {e}"),
                    format!("use --without {step}"),
                ));
            }
            let setting = match journal.settings.iter_mut().find(|setting| setting.path == path) {
                Some(setting) => setting,
                None => {
                    let mut setting = new_setting(path.clone(), form, now.clone());
                    // It has no CPU of an earlier isolation yet. It must not get one as a CPU that is left.
                    if matches!(&claim, Claim::Without(_)) {
                        let earlier =
                            journal.isolations.iter().filter(|i| i.name != request.name && i.steps.contains(&step));
                        setting.claims.extend(earlier.map(|i| (i.name.clone(), Claim::Without(i.cpus))));
                    }
                    journal.settings.push(setting);
                    journal.settings.last_mut().expect("one was added")
                }
            };
            setting.claims.push((request.name.clone(), claim));
            match setting.desired(&online) {
                Some(desired) => {
                    if !unchanged || now != desired {
                        paths.push(path);
                    }
                    setting.written = vec![now, desired];
                }
                None => notes.push(format!("{path} is set by a power policy until its run ends")),
            }
        }
        Ok((journal, paths))
    }

    fn carry_out(&mut self, name: &str, paths: &[String], created: &mut Created) -> Result<(), Refusal> {
        let online = self.online()?;
        let isolation = self.journal.isolation(name).cloned().ok_or_else(|| Refusal::Unknown(name.to_owned()))?;
        self.make_groups(&isolation, &online)?;
        for path in paths {
            let Some(setting) = self.journal.settings.iter().find(|setting| setting.path == *path) else { continue };
            let Some(desired) = setting.desired(&online) else { continue };
            self.kernel.write(path, &desired).map_err(|e| failed("a setting was refused", &e))?;
            created.settings += 1;
        }
        if isolation.steps.contains(&Step::Tasks) && !self.hierarchy()?.v2 {
            created.notes.extend(self.move_tasks()?);
        }
        if isolation.steps.contains(&Step::KernelThreads) {
            created.notes.extend(self.bind_kernel_threads()?);
        }
        if let Some(isolation) = self.journal.isolation_mut(name) {
            isolation.phase = Phase::Complete;
        }
        self.settle(&online);
        self.store()
    }

    /// The settings have the values that their owners ask for, and no other ones.
    fn settle(&mut self, online: &CpuSet) {
        for setting in &mut self.journal.settings {
            if let Some(desired) = setting.desired(online) {
                (setting.written, setting.any) = (vec![desired], false);
            }
        }
    }

    /// Makes the group of an isolation, and that of all others.
    fn make_groups(&mut self, isolation: &Isolation, online: &CpuSet) -> Result<(), Refusal> {
        let (v2, root, group) = (self.hierarchy()?.v2, self.path(""), self.path(&group_of(&isolation.name)));
        let refused = |e: io::Error| failed(&format!("the set {group} cannot be made"), &e);
        let has = |step| isolation.steps.contains(&step);
        if v2 {
            let control = format!("{root}/cgroup.subtree_control");
            let enabled = self.kernel.read(&control).map_err(refused)?;
            if !enabled.split(' ').any(|name| name == "cpuset") {
                self.journal.enabled = true;
                self.store()?;
                self.kernel.write(&control, "+cpuset").map_err(refused)?;
            }
            self.note_bound(&isolation.cpus)?;
            self.kernel.make_group(&group).map_err(refused)?;
            self.kernel.write(&format!("{group}/cpuset.cpus"), &isolation.cpus.to_string()).map_err(refused)?;
            if has(Step::Exclusive) {
                let kind = if has(Step::Domain) && !isolation.balanced { "isolated" } else { "root" };
                let file = format!("{group}/cpuset.cpus.partition");
                self.kernel.write(&file, kind).map_err(refused)?;
                let now = self.kernel.read(&file).map_err(refused)?;
                if now != kind {
                    let fix = "look for sets that have these CPUs to themselves, or use --without exclusive";
                    return Err(Refusal::Machine(format!("{file}: the kernel answers `{now}`"), fix.into()));
                }
            }
            return Ok(());
        }
        let memory = self.kernel.read(&format!("{root}/cpuset.mems")).map_err(refused)?;
        if self.journal.has_others() {
            let others = self.path(OTHERS);
            if !self.kernel.exists(&others) {
                self.kernel.make_group(&others).map_err(refused)?;
            }
            self.kernel.write(&format!("{others}/cpuset.mems"), &memory).map_err(refused)?;
            let rest = online.difference(&self.journal.isolated());
            self.kernel.write(&format!("{others}/cpuset.cpus"), &rest.to_string()).map_err(refused)?;
        }
        self.kernel.make_group(&group).map_err(refused)?;
        // First, while the set is empty: each change of a balanced set makes the kernel rebuild its scheduling domains.
        let balance = if has(Step::Domain) && !isolation.balanced { "0" } else { "1" };
        self.kernel.write(&format!("{group}/cpuset.sched_load_balance"), balance).map_err(refused)?;
        self.kernel.write(&format!("{group}/cpuset.mems"), &memory).map_err(refused)?;
        self.kernel.write(&format!("{group}/cpuset.cpus"), &isolation.cpus.to_string()).map_err(refused)?;
        if has(Step::Exclusive) {
            self.kernel.write(&format!("{group}/cpuset.cpu_exclusive"), "1").map_err(refused)?;
        }
        Ok(())
    }

    /// Undoes an isolation, complete or not. It can be repeated after a failure and after a crash.
    ///
    /// # Errors
    /// There is no such isolation, or something could not be restored. Everything else is restored then.
    pub fn undo(&mut self, name: &str) -> Result<Undone, Refusal> {
        let own = |setting: &&Setting| setting.claims.iter().any(|(owner, _)| owner == name);
        let settings = self.journal.settings.iter().filter(own);
        let _frequencies = self.lock_frequencies(settings.map(|setting| setting.path.as_str()))?;
        self.take_back(name)
    }

    /// The same with the frequency domains locked.
    fn take_back(&mut self, name: &str) -> Result<Undone, Refusal> {
        let online = self.online()?;
        let Some(isolation) = self.journal.isolation_mut(name) else { return Err(Refusal::Unknown(name.to_owned())) };
        isolation.phase = Phase::Changing;
        let mut undone = Undone { names: vec![name.to_owned()], ..Undone::default() };
        self.drop_claims(name, &online);
        self.store()?;
        let mut left = self.remove_groups(name, &online);
        undone.settings = self.restore(&online, &mut undone.notes, &mut left);
        if left.is_empty() {
            self.journal.isolations.retain(|isolation| isolation.name != name);
            // Threads that another program has placed elsewhere meanwhile cannot have their CPUs again.
            undone.notes.extend(self.unbind());
            self.journal.settings.retain(|setting| !setting.claims.is_empty());
            if self.journal.isolations.is_empty() && self.journal.enabled {
                undone.notes.extend(self.disable_sets());
                self.journal.enabled = false;
            }
        }
        let stored = self.store();
        match left.first() {
            Some(first) => Err(Refusal::NotRestored(format!("`{name}` is not undone completely: {first}"))),
            None => stored.map(|()| undone),
        }
    }

    /// Takes the cpuset controller from the groups of the root (cgroup v2), unless another program uses it meanwhile. Returns a note if it stays.
    fn disable_sets(&mut self) -> Option<String> {
        let root = self.path("");
        let control = format!("{root}/cgroup.subtree_control");
        let mut groups = self.kernel.names(&root).into_iter();
        let is_used =
            |name: &String| self.kernel.read(&format!("{root}/{name}/cpuset.cpus")).is_ok_and(|cpus| !cpus.is_empty());
        let used = groups.find(is_used).map(|name| format!("the group {name} has CPUs of its own"));
        let why = used.or_else(|| self.kernel.write(&control, "-cpuset").err().map(|e| e.to_string()))?;
        Some(format!("{control} keeps `cpuset`, which Takt has enabled: {why}"))
    }

    /// Removes the claims of an owner, and notes the values that its settings then get.
    fn drop_claims(&mut self, owner: &str, online: &CpuSet) {
        for setting in &mut self.journal.settings {
            setting.claims.retain(|(other, _)| other != owner);
            if let Some(desired) = setting.desired(online)
                && setting.written.last() != Some(&desired)
            {
                setting.written.push(desired);
            }
        }
    }

    /// Notes settings that a run is about to change at will, by their files, in the order in which they are to be restored. O(files).
    ///
    /// # Errors
    /// A file cannot be read, or the journal cannot be written. Nothing is changed then.
    pub(crate) fn hold(&mut self, run: &RunId, paths: &[String]) -> Result<(), Refusal> {
        let mut journal = self.journal.clone();
        // Settings are restored in reverse order.
        for path in paths.iter().rev() {
            let now = self.kernel.read(path).map_err(|e| failed("a setting cannot be read", &e))?;
            let known = journal.settings.iter().position(|setting| setting.path == *path);
            let index = known.unwrap_or_else(|| {
                let form = Form::held(path);
                journal.settings.push(new_setting(path.clone(), form, form.value(&now)));
                journal.settings.len() - 1
            });
            let setting = &mut journal.settings[index];
            setting.any = true;
            let claim = (run_owner(run), Claim::Free);
            if !setting.claims.contains(&claim) {
                setting.claims.push(claim);
            }
        }
        let before = std::mem::replace(&mut self.journal, journal);
        self.store().inspect_err(|_| self.journal = before)
    }

    /// Gives the settings of a run the values that their other owners ask for, or else those from before. Does nothing for a run without settings. To be
    /// called when the run writes no more. Returns the number of settings that had another value.
    ///
    /// # Errors
    /// The kernel refuses a value. It remains in the journal.
    pub(crate) fn release(&mut self, run: &RunId) -> Result<usize, Refusal> {
        if !self.journal.runs().contains(run) && !self.has_orphans() {
            return Ok(0);
        }
        let online = self.online()?;
        self.drop_claims(&run_owner(run), &online);
        self.store()?;
        self.restore_orphans(&online)
    }

    /// Whether settings have not been restored yet that an owner has given back.
    fn has_orphans(&self) -> bool {
        let free = |setting: &Setting| setting.claims.iter().any(|(_, claim)| *claim == Claim::Free);
        self.journal.settings.iter().any(|setting| setting.claims.is_empty() || setting.any && !free(setting))
    }

    /// Restores all settings, and forgets those without owners.
    fn restore_orphans(&mut self, online: &CpuSet) -> Result<usize, Refusal> {
        let (mut notes, mut left) = (Vec::new(), Vec::new());
        let restored = self.restore(online, &mut notes, &mut left);
        if let Some(first) = left.first() {
            return Err(Refusal::NotRestored(format!("a setting is not restored: {first}")));
        }
        self.journal.settings.retain(|setting| !setting.claims.is_empty());
        self.store().map(|()| restored)
    }

    /// The runs that own settings, with the number of these.
    pub(crate) fn holders(&self) -> Vec<(RunId, usize)> {
        let count = |run: &RunId| {
            let owner = run_owner(run);
            self.journal.settings.iter().filter(|s| s.claims.iter().any(|(other, _)| *other == owner)).count()
        };
        self.journal.runs().into_iter().map(|run| (run, count(&run))).collect()
    }

    /// An isolation that has one of these settings.
    pub(crate) fn owner_of(&self, paths: &[String]) -> Option<&str> {
        let settings = self.journal.settings.iter().filter(|setting| paths.contains(&setting.path));
        settings.flat_map(|setting| &setting.claims).map(|(owner, _)| owner.as_str()).find(|o| run_of(o).is_none())
    }

    /// Removes the group of an isolation, and that of the others where it is the last one.
    fn remove_groups(&mut self, name: &str, online: &CpuSet) -> Vec<String> {
        let Ok(Hierarchy { v2, .. }) = self.hierarchy() else { return Vec::new() };
        let others = self.path(OTHERS);
        let remaining: Vec<&Isolation> = self.journal.isolations.iter().filter(|i| i.name != name).collect();
        let isolated = remaining.iter().fold(CpuSet::EMPTY, |all, i| all.union(&i.cpus));
        let remains = |step| !v2 && remaining.iter().any(|i| i.steps.contains(&step));
        let (tasks, shared) = (remains(Step::Tasks), remains(Step::Tasks) || remains(Step::Domain));
        let mut left = self.empty(&group_of(name), if tasks { OTHERS } else { "/" });
        left.extend(self.kernel.remove_group(&self.path(&group_of(name))).err().map(|e| e.to_string()));
        if !v2 && self.kernel.exists(&others) {
            if !tasks {
                let stay = self.empty(OTHERS, "/");
                left.extend(stay);
            }
            let rest = online.difference(&isolated).to_string();
            let done = match shared {
                true => self.kernel.write(&format!("{others}/cpuset.cpus"), &rest),
                false => self.kernel.remove_group(&others),
            };
            left.extend(done.err().map(|e| e.to_string()));
        }
        left
    }

    /// Gives settings the values that the remaining claims ask for. Returns the number of changed settings.
    fn restore(&mut self, online: &CpuSet, notes: &mut Vec<String>, left: &mut Vec<String>) -> usize {
        let mut restored = BTreeSet::new();
        let mut refused = Vec::new();
        // A value may be refused because of another one that is restored after it.
        for last in [false, true] {
            refused.clear();
            for setting in self.journal.settings.iter().rev() {
                let Some(desired) = setting.desired(online) else { continue };
                let now = match self.kernel.read(&setting.path) {
                    Ok(text) => setting.form.value(&text),
                    // An interrupt or a CPU that is no longer there has no settings.
                    Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                    Err(e) => {
                        refused.push(e.to_string());
                        continue;
                    }
                };
                if now == desired {
                    continue;
                }
                if !setting.any && !setting.written.contains(&now) {
                    if !last {
                        let path = &setting.path;
                        notes.push(format!(
                            "{path} is `{now}`, which Takt did not write: it stays (before: `{desired}`)"
                        ));
                    }
                    continue;
                }
                match self.kernel.write(&setting.path, &desired) {
                    // A value that the kernel takes may still read as another: hardware that is too hot caps frequencies.
                    Ok(()) => drop(restored.insert(setting.path.clone())),
                    Err(e) => refused.push(e.to_string()),
                }
            }
        }
        left.append(&mut refused);
        let restored = restored.len();
        if left.is_empty() {
            self.settle(online);
        }
        restored
    }

    /// Undoes the isolations of dead processes, unfinished ones and those of runs that have ended, and restores the settings of dead runs.
    ///
    /// # Errors
    /// One could not be undone.
    pub fn recover(&mut self) -> Result<Undone, Refusal> {
        // No other process changes isolations while this one has the journal.
        let is_dead =
            |i: &&Isolation| i.phase == Phase::Changing || i.owner.is_some_and(|run| self.kernel.has_died(&run));
        let dead: Vec<String> = self.journal.isolations.iter().filter(is_dead).map(|i| i.name.clone()).collect();
        let mut undone = Undone::default();
        for name in dead {
            let Undone { names, settings, notes } = self.undo(&name)?;
            undone.names.extend(names);
            undone.settings += settings;
            undone.notes.extend(notes);
        }
        let dead: Vec<RunId> = self.journal.runs().into_iter().filter(|run| self.kernel.has_died(run)).collect();
        for run in dead {
            undone.settings += self.release(&run)?;
        }
        if self.has_orphans() {
            let online = self.online()?;
            undone.settings += self.restore_orphans(&online)?;
        }
        // Threads of another PID namespace may be left.
        if self.journal.isolations.is_empty() && !self.journal.moved.is_empty() {
            undone.notes.extend(self.unbind());
            self.store()?;
        }
        Ok(undone)
    }

    /// The name of the only isolation, or of the one that is named.
    ///
    /// # Errors
    /// There is none of that name, none at all, or several and no name.
    pub fn choose(&self, name: Option<&str>) -> Result<String, Refusal> {
        let names: Vec<&str> = self.journal.isolations.iter().map(|i| i.name.as_str()).collect();
        match (name, &names[..]) {
            (Some(name), _) if names.contains(&name) => Ok(name.to_owned()),
            (Some(name), _) => Err(Refusal::Unknown(name.to_owned())),
            (None, [name]) => Ok((*name).to_owned()),
            (None, []) => {
                let fix = "create one: `takt isolate create --cpus N`";
                Err(Refusal::Request("there is no isolation".into(), fix.into()))
            }
            (None, names) => {
                let reason = format!("there are several isolations: {}", names.join(", "));
                Err(Refusal::Request(reason, "name one with --name".into()))
            }
        }
    }

    /// The run to which an isolation belongs, if it is one of a run that is not proven to be dead.
    #[must_use]
    pub fn live_owner(&self, name: &str) -> Option<RunId> {
        self.journal.isolation(name)?.owner.filter(|run| !self.kernel.has_died(run))
    }

    /// Names of all isolations, in the order of their creation.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.journal.isolations.iter().map(|isolation| isolation.name.clone()).collect()
    }

    /// Sets of isolations that this journal does not have: a container with a journal of its own has made them, or has left them behind. O(sets).
    pub(crate) fn foreign(&self) -> Vec<String> {
        let Some((_, mount)) = self.kernel.hierarchy() else { return Vec::new() };
        let own = |name: &str| self.journal.isolations.iter().any(|i| group_of(&i.name)[1..] == *name);
        let names = self.kernel.names(&mount).into_iter();
        names
            .filter(|name| name.starts_with(neighbours::SET) && !own(name))
            .map(|name| format!("{mount}/{name}"))
            .collect()
    }

    /// Moves a process into the set of an isolation. Undoing the isolation moves it back.
    ///
    /// # Errors
    /// There is no such isolation or process, or the kernel refuses the move.
    pub fn move_in(&mut self, name: &str, pid: i32) -> Result<(), Refusal> {
        let group = self.entrance(name)?;
        let leader = self.kernel.thread(pid).filter(|thread| !thread.fixed);
        let Some(leader) = leader else {
            let reason = format!("there is no process {pid} that can be moved");
            return Err(Refusal::Request(reason, "name the number of a process".into()));
        };
        let ids = self.kernel.names(&format!("/proc/{pid}/task"));
        let mut threads: Vec<_> = ids.iter().filter_map(|id| self.kernel.thread(id.parse().ok()?)).collect();
        if threads.is_empty() {
            threads.push(leader);
        }
        self.move_process(pid, &threads, &group)
    }

    /// The directory of the set of an isolation: a process that writes itself to its `cgroup.procs` is isolated.
    ///
    /// # Errors
    /// There is no such isolation, or it is not complete.
    pub fn entrance(&self, name: &str) -> Result<String, Refusal> {
        let isolation = self.journal.isolation(name).ok_or_else(|| Refusal::Unknown(name.to_owned()))?;
        if isolation.phase != Phase::Complete {
            let fix = format!("`takt isolate undo --name {name}`, and create it again");
            return Err(Refusal::Request(format!("the isolation `{name}` is not complete"), fix));
        }
        Ok(self.path(&group_of(name)))
    }

    pub(super) fn store(&mut self) -> Result<(), Refusal> {
        let text = self.journal.text();
        let text = if self.journal.is_empty() { None } else { Some(text.as_str()) };
        self.kernel.store(text).map_err(|e| failed("the journal cannot be written", &e))
    }

    fn hierarchy(&self) -> Result<Hierarchy, Refusal> {
        self.journal.hierarchy.clone().ok_or_else(|| Refusal::NotRestored("the journal has no hierarchy".into()))
    }
    /// The path of a group that is named from the mount.
    pub(super) fn path(&self, group: &str) -> String {
        let mount = self.journal.hierarchy.as_ref().map_or("", |hierarchy| &hierarchy.mount);
        format!("{mount}{}", if group == "/" { "" } else { group })
    }
    /// The file that takes threads into a group (cgroup v1), or processes (v2).
    pub(super) fn members_file(&self, group: &str) -> String {
        let v2 = self.journal.hierarchy.as_ref().is_some_and(|hierarchy| hierarchy.v2);
        format!("{}/{}", self.path(group), if v2 { "cgroup.procs" } else { "tasks" })
    }
    pub(super) fn others_file(&self) -> String {
        self.members_file(OTHERS)
    }
    /// Groups that Takt has made, below the mount.
    pub(super) fn own_groups(&self) -> Vec<String> {
        let sets = self.journal.isolations.iter().map(|isolation| group_of(&isolation.name));
        sets.chain([OTHERS.to_owned()]).collect()
    }
    pub(super) fn group_of(&self, name: &str) -> String {
        self.path(&group_of(name))
    }
    pub(super) fn online(&self) -> Result<CpuSet, Refusal> {
        // Without a hierarchy there is no isolation.
        self.journal.hierarchy.as_ref().map_or(Ok(CpuSet::EMPTY), |hierarchy| self.online_in(hierarchy))
    }
    fn online_in(&self, hierarchy: &Hierarchy) -> Result<CpuSet, Refusal> {
        let file =
            if hierarchy.v2 { format!("{}/online", plan::CPU) } else { format!("{}/cpuset.cpus", hierarchy.mount) };
        let text = self.kernel.read(&file).map_err(|e| failed("the CPUs of this machine are not known", &e))?;
        Ok(parse_cpus(&text))
    }
}

fn new_setting(path: String, form: Form, original: String) -> Setting {
    Setting { path, form, written: vec![original.clone()], original, any: false, claims: Vec::new() }
}

/// Whether a step changes files, and not groups or threads.
fn is_setting(step: Step) -> bool {
    !matches!(step, Step::Exclusive | Step::Domain | Step::Tasks | Step::KernelThreads)
}

fn without(form: Form, now: &str, claim: &Claim, online: &CpuSet) -> String {
    super::value::claimed(form, now, online, [claim].into_iter())
}
