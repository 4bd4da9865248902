//! Threads that move away from the isolated CPUs, and back.

use super::change::{Isolator, failed};
use super::journal::Moved;
use super::machine::{Kernel, Thread};
use super::refusal::Refusal;
use super::step::Step;
use std::collections::{BTreeMap, BTreeSet};
use takt_core::cpus::CpuSet;

/// New threads appear while others move: after so many rounds the rest stays and is reported.
const ROUNDS: usize = 20;

impl<K: Kernel> Isolator<K> {
    /// Moves all threads of the root to the group of the others (cgroup v1). Returns notes about threads that stay.
    pub(super) fn move_tasks(&mut self) -> Result<Vec<String>, Refusal> {
        let to = self.others_file();
        let (mut stay, mut notes) = (BTreeSet::new(), Vec::new());
        for _ in 0..ROUNDS {
            let threads = self.kernel.threads().into_iter();
            let threads: Vec<Thread> =
                threads.filter(|t| !t.kernel && t.group == "/" && !stay.contains(&(t.id, t.start))).collect();
            if threads.is_empty() {
                break;
            }
            self.note_threads(&threads, true)?;
            for thread in threads {
                let moved = self.kernel.write(&to, &thread.id.to_string());
                if let Err(e) = moved
                    && self.lives(thread.id, thread.start)
                {
                    notes.push(format!("task {} ({}) stays: {e}", thread.id, thread.name));
                    stay.insert((thread.id, thread.start));
                }
            }
        }
        Ok(notes)
    }

    /// Binds threads of the kernel to the CPUs that are not isolated. Returns notes about threads that stay.
    pub(super) fn bind_kernel_threads(&mut self) -> Result<Vec<String>, Refusal> {
        let (isolated, own) = (self.journal.isolated(), self.own_groups());
        let threads = self.kernel.threads().into_iter().filter(|t| !own.contains(&t.group));
        let threads: Vec<Thread> = threads.filter(|t| t.kernel && !t.fixed && !t.cpus.is_disjoint(&isolated)).collect();
        self.note_threads(&threads, false)?;
        let mut notes = Vec::new();
        for thread in threads {
            let cpus = self.elsewhere(&thread.cpus, &isolated);
            if let Err(e) = self.kernel.bind(thread.id, &cpus)
                && self.lives(thread.id, thread.start)
            {
                notes.push(format!("kernel thread {} ({}) stays: {e}", thread.id, thread.name));
            }
        }
        Ok(notes)
    }

    /// Notes threads that are bound to some CPUs: kernels before 6.2 forget that when a partition takes CPUs away.
    pub(super) fn note_bound(&mut self, new: &CpuSet) -> Result<(), Refusal> {
        // Earlier isolations have taken their CPUs from all threads.
        let usual = self.online()?.difference(&self.journal.isolated().difference(new));
        let threads = self.kernel.threads().into_iter();
        let bound: Vec<Thread> = threads.filter(|t| !t.fixed && !usual.is_subset(&t.cpus)).collect();
        self.note_threads(&bound, false)
    }

    /// Moves the threads of a process into the set of an isolation.
    pub(super) fn move_process(&mut self, pid: i32, threads: &[Thread], group: &str) -> Result<(), Refusal> {
        self.note_threads(threads, true)?;
        let moved = self.kernel.write(&format!("{group}/cgroup.procs"), &pid.to_string());
        moved.map_err(|e| failed(&format!("process {pid} cannot be moved"), &e))
    }

    /// Notes threads that are not in the journal yet, and writes it.
    fn note_threads(&mut self, threads: &[Thread], with_group: bool) -> Result<(), Refusal> {
        let own = self.own_groups();
        // One that was born in a group of Takt has no place from before.
        let group = |t: &Thread| if with_group && !own.contains(&t.group) { t.group.clone() } else { String::new() };
        let v2 = self.journal.hierarchy.as_ref().is_some_and(|hierarchy| hierarchy.v2);
        let (namespace, known) = (self.kernel.namespace(), self.known());
        let mut changed = false;
        for thread in threads {
            match known.get(&(thread.id, thread.start)) {
                Some(index) => {
                    let moved = &mut self.journal.moved[*index];
                    if moved.group.is_empty() {
                        moved.group = group(thread);
                        changed |= !moved.group.is_empty();
                    }
                }
                None => {
                    // The CPUs of a thread that a set or a partition restricts already are not its own. The kernel knows them.
                    let restricted = own.contains(&thread.group) || v2 && with_group;
                    let cpus = if restricted { CpuSet::EMPTY } else { thread.cpus };
                    let group = group(thread);
                    let moved = Moved { namespace, thread: thread.id, start: thread.start, group, cpus };
                    self.journal.moved.push(moved);
                    changed = true;
                }
            }
        }
        if changed { self.store() } else { Ok(()) }
    }

    /// Threads of this PID namespace, by number and start time, with their places in the list of moved threads.
    fn known(&self) -> BTreeMap<(i32, u64), usize> {
        let namespace = self.kernel.namespace();
        let moved = self.journal.moved.iter().enumerate().filter(|(_, moved)| moved.namespace == namespace);
        moved.map(|(index, moved)| ((moved.thread, moved.start), index)).collect()
    }

    /// Moves the members of a group and of all groups below it to where they were, or else to `to` (below the mount). Returns notes about threads that stay.
    /// O(n log n) for n threads, which another user can have made.
    pub(super) fn empty(&mut self, group: &str, to: &str) -> Vec<String> {
        let (mut stay, mut notes, known) = (BTreeSet::new(), Vec::new(), self.known());
        let inside = |of: &str| of == group || of.strip_prefix(group).is_some_and(|rest| rest.starts_with('/'));
        for _ in 0..ROUNDS {
            let threads = self.kernel.threads().into_iter();
            let members: Vec<Thread> =
                threads.filter(|t| inside(&t.group) && !stay.contains(&(t.id, t.start))).collect();
            if members.is_empty() {
                break;
            }
            for thread in members {
                let noted = known.get(&(thread.id, thread.start)).map(|index| &self.journal.moved[*index]);
                let before = noted.map(|m| m.group.as_str()).filter(|group| !matches!(*group, "" | "/"));
                let before = before.filter(|group| self.kernel.exists(&self.path(group))).unwrap_or(to).to_owned();
                let file = self.members_file(&before);
                if let Err(e) = self.kernel.write(&file, &thread.id.to_string())
                    && self.lives(thread.id, thread.start)
                {
                    notes.push(format!("task {} ({}) stays in {group}: {e}", thread.id, thread.name));
                    stay.insert((thread.id, thread.start));
                }
            }
        }
        notes
    }

    /// Gives threads of the journal their CPUs again, as far as the remaining isolations allow, and forgets the ones that are as they were.
    pub(super) fn unbind(&mut self) -> Vec<String> {
        let isolated = self.journal.isolated();
        let mut notes = Vec::new();
        let (kernel_threads, tasks) = (self.journal.has(Step::KernelThreads), self.journal.has(Step::Tasks));
        let v2 = self.journal.hierarchy.as_ref().is_some_and(|hierarchy| hierarchy.v2);
        let own = self.own_groups();
        let mut kept = Vec::new();
        let (namespace, all) = (self.kernel.namespace(), self.kernel.namespaces());
        for moved in std::mem::take(&mut self.journal.moved) {
            if moved.namespace != namespace {
                // Its threads have ended with a namespace. Otherwise only a process there can find them.
                if all.as_ref().is_none_or(|all| all.contains(&moved.namespace)) {
                    kept.push(moved);
                }
                continue;
            }
            let now = self.kernel.thread(moved.thread).filter(|thread| thread.start == moved.start);
            let Some(thread) = now else { continue };
            let still = if thread.kernel { kernel_threads } else { tasks || own.contains(&thread.group) };
            let keeps = still || !self.journal.isolations.is_empty();
            // A task in a group of Takt has the CPUs of the group, and one beside a partition lacks those of the partition.
            let later = !thread.kernel && v2 && !self.journal.isolations.is_empty();
            if !later && !moved.cpus.is_empty() && !own.contains(&thread.group) {
                let wanted =
                    if thread.kernel && kernel_threads { self.elsewhere(&moved.cpus, &isolated) } else { moved.cpus };
                if thread.cpus != wanted
                    && let Err(e) = self.kernel.bind(thread.id, &wanted)
                    && self.lives(thread.id, thread.start)
                {
                    notes.push(format!("task {} ({}) is not on CPUs {wanted} again: {e}", thread.id, thread.name));
                }
            }
            if keeps {
                kept.push(moved);
            }
        }
        if self.journal.isolations.is_empty() && !kept.is_empty() {
            notes.push(format!("{} threads of other PID namespaces: run `takt doctor --clean` there", kept.len()));
        }
        self.journal.moved = kept;
        notes
    }

    fn lives(&self, id: i32, start: u64) -> bool {
        self.kernel.thread(id).is_some_and(|thread| thread.start == start)
    }

    fn elsewhere(&self, cpus: &CpuSet, isolated: &CpuSet) -> CpuSet {
        let rest = cpus.difference(isolated);
        if rest.is_empty() { self.online().unwrap_or(CpuSet::EMPTY).difference(isolated) } else { rest }
    }
}
