//! A kernel in memory for tests, with the rules of cgroup v1's and v2's CPU sets as far as isolations meet them. It can die at any change.

use super::change::{Isolator, Request};
use super::journal::Moved;
use super::machine::{Kernel, Thread};
use super::refusal::Refusal;
use super::step::Step;
use super::value::Form;
use crate::control::parse_cpus;
use crate::namespace;
use crate::run_id::RunId;
use proptest::prelude::*;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::rc::Rc;
use takt_core::cpus::CpuSet;

const MOUNT: &str = "/cg";

#[derive(Clone, PartialEq, Debug)]
struct State {
    files: BTreeMap<String, String>,
    threads: BTreeMap<i32, Thread>,
    /// CPUs that threads have asked for, which the kernel remembers (since Linux 6.2).
    asked: BTreeMap<i32, CpuSet>,
    journal: Option<String>,
}

#[derive(Clone)]
struct Model {
    v2: bool,
    state: Rc<RefCell<State>>,
    /// Changes until the process that makes them dies.
    life: Rc<Cell<u64>>,
    /// New threads appear at changes, as children of tasks of the root.
    forks: Rc<Cell<u64>>,
    /// A file that takes no value.
    refuses: Rc<RefCell<String>>,
    /// A run controls the frequencies.
    driven: Rc<Cell<bool>>,
    /// CPUs that a run has.
    used: Rc<Cell<CpuSet>>,
    /// The PID namespace of the process. Only the first one sees the threads.
    namespace: Rc<Cell<u64>>,
    /// The PID namespaces with a process.
    populated: Rc<RefCell<BTreeSet<u64>>>,
}

fn refuse(error: i32) -> io::Error {
    io::Error::from_raw_os_error(error)
}

impl Model {
    fn new(v2: bool) -> Model {
        let mut files: BTreeMap<String, String> = BTreeMap::new();
        let mut file = |path: &str, value: &str| files.insert(path.to_owned(), value.to_owned());
        file("/sys/devices/system/cpu/online", "0-3");
        for (name, value) in
            [("default_smp_affinity", "f"), ("4/smp_affinity_list", "0-3"), ("9/smp_affinity_list", "2")]
        {
            file(&format!("/proc/irq/{name}"), value);
        }
        file("/proc/irq/11/smp_affinity_list", "1");
        file("/sys/devices/virtual/workqueue/cpumask", "f");
        file("/sys/devices/virtual/workqueue/writeback/cpumask", "7");
        file("/proc/sys/kernel/watchdog_cpumask", "0-3");
        file("/proc/sys/kernel/sched_rt_runtime_us", "950000");
        file("/proc/sys/vm/swappiness", "60");
        file("/sys/kernel/mm/transparent_hugepage/enabled", "always");
        if v2 {
            file("/cg/cgroup.subtree_control", "cpu");
        } else {
            for (name, value) in [("cpus", "0-3"), ("mems", "0"), ("cpu_exclusive", "1"), ("sched_load_balance", "1")] {
                file(&format!("/cg/cpuset.{name}"), value);
            }
        }
        let mut state = State { files, threads: BTreeMap::new(), asked: BTreeMap::new(), journal: None };
        let all = parse_cpus("0-3");
        let mut thread = |id: i32, kernel, fixed, cpus: &str| {
            let (name, cpus) = (format!("t{id}"), parse_cpus(cpus));
            if cpus != all {
                state.asked.insert(id, cpus);
            }
            state.threads.insert(id, Thread { id, start: 1, name, kernel, fixed, cpus, group: "/".into() });
        };
        thread(1, false, false, "0-3");
        thread(2, true, false, "0-3");
        thread(3, true, true, "1");
        thread(4, true, false, "1");
        thread(5, false, false, "1-2");
        thread(6, false, false, "3");
        let (life, forks) = (Rc::new(Cell::new(u64::MAX)), Rc::new(Cell::new(0)));
        Model {
            v2,
            state: Rc::new(RefCell::new(state)),
            life,
            forks,
            refuses: Rc::default(),
            driven: Rc::default(),
            used: Rc::default(),
            namespace: Rc::new(Cell::new(namespace::FIRST)),
            populated: Rc::new(RefCell::new(BTreeSet::from([namespace::FIRST]))),
        }
    }

    /// Counts a change; the process may be dead.
    fn change(&self) -> io::Result<()> {
        let life = self.life.get();
        if life == 0 {
            return Err(io::Error::other("killed"));
        }
        self.life.set(life - 1);
        Ok(())
    }

    /// The CPUs of the groups, and through them those of the threads.
    fn settle(&self) {
        let mut state = self.state.borrow_mut();
        let taken = |state: &State| -> CpuSet {
            let mut taken = CpuSet::EMPTY;
            for (path, kind) in &state.files {
                if let Some(group) = path.strip_suffix("/cpuset.cpus.partition").filter(|_| kind != "member") {
                    taken = taken.union(&parse_cpus(&state.files[&format!("{group}/cpuset.cpus")]));
                }
            }
            taken
        };
        let root = parse_cpus("0-3").difference(&taken(&state));
        let State { files, threads, asked, .. } = &mut *state;
        for thread in threads.values_mut().filter(|thread| !thread.fixed && (!thread.kernel || self.v2)) {
            let own = files.get(&format!("{MOUNT}{}/cpuset.cpus", thread.group.trim_end_matches('/')));
            let group = own.filter(|_| thread.group != "/").map_or_else(|| root, |list| parse_cpus(list));
            let wanted = asked.get(&thread.id).map(|asked| asked.intersection(&group)).filter(|cpus| !cpus.is_empty());
            thread.cpus = wanted.unwrap_or(group);
        }
    }

    fn isolator(&self) -> Isolator<Model> {
        Isolator::new(self.clone()).expect("a journal")
    }

    /// Everything but threads that were born meanwhile, whose places and CPUs are checked here.
    fn snapshot(&self) -> State {
        let mut state = self.state.borrow().clone();
        for thread in state.threads.values().filter(|thread| thread.id >= 100) {
            assert_eq!((&*thread.group, thread.cpus.to_string()), ("/", "0-3".into()), "{thread:?}");
        }
        state.threads.retain(|id, _| *id < 100);
        state
    }
}

impl Kernel for Model {
    fn read(&self, path: &str) -> io::Result<String> {
        self.state.borrow().files.get(path).cloned().ok_or_else(|| refuse(libc::ENOENT))
    }
    fn write(&mut self, path: &str, value: &str) -> io::Result<()> {
        if !self.exists(path) && !path.ends_with("tasks") && !path.ends_with("cgroup.procs") {
            return Err(refuse(libc::ENOENT));
        }
        self.change()?;
        if *self.refuses.borrow() == path {
            return Err(refuse(libc::EPERM));
        }
        let cpus = parse_cpus(value);
        let file = path.rsplit('/').next().unwrap_or_default();
        if path == "/proc/irq/11/smp_affinity_list" {
            return Err(refuse(libc::EIO));
        }
        if matches!(file, "tasks" | "cgroup.procs") {
            let mut state = self.state.borrow_mut();
            let group = path.strip_prefix(MOUNT).and_then(|rest| rest.strip_suffix(file)).unwrap_or_default();
            let group = if group == "/" { "/" } else { group.trim_end_matches('/') }.to_owned();
            if group != "/" {
                let memory =
                    state.files.get(&format!("{MOUNT}{group}/cpuset.mems")).is_none_or(|mems| !mems.is_empty());
                let cpus =
                    state.files.get(&format!("{MOUNT}{group}/cpuset.cpus")).ok_or_else(|| refuse(libc::ENOENT))?;
                if cpus.is_empty() || !memory {
                    return Err(refuse(libc::ENOSPC));
                }
            }
            let thread = value.parse().ok().and_then(|id: i32| state.threads.get_mut(&id));
            let thread = thread.ok_or_else(|| refuse(libc::ESRCH))?;
            if thread.fixed {
                return Err(refuse(libc::EINVAL));
            }
            thread.group = group;
            drop(state);
            self.settle();
            // A child in the group of its parent.
            let forks = self.forks.get();
            if forks > 0 {
                self.forks.set(forks - 1);
                let mut state = self.state.borrow_mut();
                let id = 100 + state.threads.len() as i32;
                let parent = state.threads[&1].clone();
                state.threads.insert(id, Thread { id, start: 2, name: format!("t{id}"), ..parent });
            }
            return Ok(());
        }
        let is_mask = (path.contains("affinity") || path.ends_with("cpumask")) && !path.contains("watchdog");
        let empty = is_mask && Form::Mask.value(value) == "0" && !path.ends_with("list");
        if empty || (path.ends_with("list") && cpus.is_empty()) {
            return Err(refuse(libc::EINVAL));
        }
        let group = path.rsplit_once('/').map_or("", |(group, _)| group);
        if let (false, true, Some(sibling)) = (self.v2, group.starts_with("/cg/"), path.strip_prefix(group)) {
            let state = self.state.borrow();
            let own = if sibling == "/cpuset.cpus" {
                cpus
            } else {
                parse_cpus(&state.files[&format!("{group}/cpuset.cpus")])
            };
            let exclusive = |of: &str| state.files[&format!("{of}/cpuset.cpu_exclusive")] == "1";
            let own_exclusive = exclusive(group) || sibling == "/cpuset.cpu_exclusive" && value == "1";
            for (path, list) in &state.files {
                let Some(other) = path.strip_suffix("/cpuset.cpus").filter(|other| ![group, "/cg"].contains(other))
                else {
                    continue;
                };
                if (own_exclusive || exclusive(other)) && !parse_cpus(list).is_disjoint(&own) {
                    return Err(refuse(libc::EINVAL));
                }
            }
        }
        if path == "/cg/cgroup.subtree_control" {
            let now = if value == "+cpuset" { "cpu cpuset" } else { "cpu" };
            self.state.borrow_mut().files.insert(path.into(), now.into());
            return Ok(());
        }
        self.state.borrow_mut().files.insert(path.into(), value.into());
        self.settle();
        Ok(())
    }
    fn lock_frequencies(&self, domains: &[(&str, CpuSet)]) -> Result<Box<dyn Any>, (String, String)> {
        assert_eq!(domains, [("policy0", parse_cpus("0-1"))]);
        match self.driven.get() {
            true => Err(("a run controls policy0".into(), "end it".into())),
            false => Ok(Box::new(())),
        }
    }
    fn has_died(&self, run: &RunId) -> bool {
        *run == dead()
    }
    fn run_on(&self, cpus: &CpuSet, own: Option<&RunId>) -> Option<String> {
        (own.is_none() && !cpus.is_disjoint(&self.used.get())).then(|| "w.yaml (process 7)".into())
    }
    fn make_group(&mut self, path: &str) -> io::Result<()> {
        self.change()?;
        let files: &[(&str, &str)] = match self.v2 {
            true => &[("cpus", ""), ("cpus.partition", "member")],
            false => &[("cpus", ""), ("mems", ""), ("cpu_exclusive", "0"), ("sched_load_balance", "1")],
        };
        if self.v2 && !self.read("/cg/cgroup.subtree_control")?.contains("cpuset") {
            return Err(refuse(libc::ENOENT));
        }
        let mut state = self.state.borrow_mut();
        for (name, value) in files {
            if state.files.insert(format!("{path}/cpuset.{name}"), (*value).to_owned()).is_some() {
                return Err(refuse(libc::EEXIST));
            }
        }
        Ok(())
    }
    fn remove_group(&mut self, path: &str) -> io::Result<()> {
        self.change()?;
        let group = path.strip_prefix(MOUNT).unwrap_or_default().to_owned();
        let mut state = self.state.borrow_mut();
        if state.threads.values().any(|thread| thread.group == group) {
            return Err(refuse(libc::EBUSY));
        }
        state.files.retain(|file, _| !file.starts_with(&format!("{path}/")));
        drop(state);
        self.settle();
        Ok(())
    }
    fn names(&self, path: &str) -> Vec<String> {
        let state = self.state.borrow();
        let below = state.files.keys().filter_map(|file| file.strip_prefix(&format!("{path}/"))?.split('/').next());
        let mut names: Vec<String> = below.map(str::to_owned).collect();
        names.dedup();
        names
    }
    fn exists(&self, path: &str) -> bool {
        let state = self.state.borrow();
        state.files.keys().any(|file| file == path || file.starts_with(&format!("{path}/")))
    }
    fn threads(&self) -> Vec<Thread> {
        // Another namespace sees none of them.
        let seen = |_: &&Thread| self.namespace.get() == namespace::FIRST;
        self.state.borrow().threads.values().filter(seen).cloned().collect()
    }
    fn thread(&self, id: i32) -> Option<Thread> {
        self.state.borrow().threads.get(&id).filter(|_| self.namespace.get() == namespace::FIRST).cloned()
    }
    fn namespace(&self) -> u64 {
        self.namespace.get()
    }
    fn namespaces(&self) -> Option<BTreeSet<u64>> {
        // The first one sees all.
        (self.namespace.get() == namespace::FIRST).then(|| self.populated.borrow().clone())
    }
    fn bind(&mut self, id: i32, cpus: &CpuSet) -> io::Result<()> {
        self.change()?;
        let mut state = self.state.borrow_mut();
        let State { threads, asked, .. } = &mut *state;
        let thread = threads.get_mut(&id).ok_or_else(|| refuse(libc::ESRCH))?;
        if thread.fixed || cpus.is_empty() {
            return Err(refuse(libc::EINVAL));
        }
        thread.cpus = *cpus;
        // All CPUs are what a thread has that never asked.
        if *cpus == parse_cpus("0-3") {
            asked.remove(&id)
        } else {
            asked.insert(id, *cpus)
        };
        Ok(())
    }
    fn load(&self) -> io::Result<Option<String>> {
        Ok(self.state.borrow().journal.clone())
    }
    fn store(&mut self, text: Option<&str>) -> io::Result<()> {
        self.change()?;
        self.state.borrow_mut().journal = text.map(str::to_owned);
        Ok(())
    }
    fn hierarchy(&self) -> Option<(bool, String)> {
        Some((self.v2, MOUNT.to_owned()))
    }
}

fn request(name: &str, cpus: &str) -> Request {
    let steps = Step::all().filter(|step| !matches!(step, Step::Idle | Step::Frequency)).collect();
    Request { name: name.into(), cpus: parse_cpus(cpus), steps, balanced: false, owner: None }
}

#[test]
fn the_cpus_are_left_by_all_that_can_leave() {
    for v2 in [false, true] {
        let model = Model::new(v2);
        let before = model.snapshot();
        let created = model.isolator().create(&request("rt", "1")).unwrap();
        assert_eq!(created.group, "/cg/takt-isolate-rt");
        assert!(created.notes.iter().any(|note| note.contains("/proc/irq/11/")), "{:?}", created.notes);
        let value = |path: &str| model.read(path).unwrap();
        assert_eq!(value("/proc/irq/default_smp_affinity"), "d");
        assert_eq!(value("/proc/irq/4/smp_affinity_list"), "0,2-3");
        assert_eq!(value("/proc/irq/9/smp_affinity_list"), "2", "it was elsewhere");
        assert_eq!(value("/sys/devices/virtual/workqueue/writeback/cpumask"), "5");
        assert_eq!(value("/proc/sys/kernel/sched_rt_runtime_us"), "-1");
        let cpus = |id: i32| model.thread(id).unwrap().cpus.to_string();
        assert_eq!([1, 2, 3, 4, 5, 6].map(cpus), ["0,2-3", "0,2-3", "1", "0,2-3", "2", "3"], "v2: {v2}");
        let isolator = model.isolator();
        let findings = isolator.verify("rt").unwrap();
        assert!(findings.iter().all(|finding| finding.holds), "{findings:#?}");
        assert!(findings.len() >= 9, "{findings:#?}");
        assert!(isolator.remaining("rt").unwrap()[0].contains("t3"), "the fixed one");
        model.state.borrow_mut().files.insert("/proc/irq/4/smp_affinity_list".into(), "1".into());
        let findings = model.isolator().verify("rt").unwrap();
        let broken: Vec<_> = findings.iter().filter(|finding| !finding.holds).collect();
        assert_eq!((broken.len(), broken[0].step), (1, Step::Interrupts));
        // A value that another program has written since stays.
        let undone = model.isolator().undo("rt").unwrap();
        assert!(undone.notes[0].contains("/proc/irq/4/smp_affinity_list"), "{undone:?}");
        let mut after = model.snapshot();
        after.files.insert("/proc/irq/4/smp_affinity_list".into(), "0-3".into());
        assert_eq!(after, before);
    }
}

/// A run restores the frequencies from before it. So they are neither set nor restored while it lasts.
#[test]
fn frequencies_that_a_run_controls_are_left_alone() {
    let model = Model::new(true);
    let file = |name: &str| format!("/sys/devices/system/cpu/cpufreq/policy0/{name}");
    for (name, value) in [("affected_cpus", "0 1"), ("scaling_max_freq", "2400"), ("scaling_min_freq", "800")] {
        model.state.borrow_mut().files.insert(file(name), value.into());
    }
    let before = model.snapshot();
    let mut wanted = request("rt", "1");
    wanted.steps.push(Step::Frequency);
    model.driven.set(true);
    let refused = model.isolator().create(&wanted).unwrap_err();
    assert_eq!(refused, Refusal::InUse("a run controls policy0".into(), "end it".into()));
    assert_eq!(model.snapshot(), before);
    // The other steps need no frequencies.
    model.isolator().create(&request("other", "1")).unwrap();
    model.isolator().undo("other").unwrap();
    model.driven.set(false);
    model.isolator().create(&wanted).unwrap();
    assert_eq!(model.read(&file("scaling_min_freq")).unwrap(), "2400");
    let isolated = model.snapshot();
    model.driven.set(true);
    assert!(matches!(model.isolator().undo("rt"), Err(Refusal::InUse(..))));
    assert_eq!(model.snapshot(), isolated);
    model.driven.set(false);
    model.isolator().undo("rt").unwrap();
    assert_eq!(model.snapshot(), before);
}

#[test]
fn refusals_name_the_cause_and_change_nothing() {
    let model = Model::new(false);
    {
        let mut state = model.state.borrow_mut();
        for (name, value) in [("cpus", "1-3"), ("mems", "0"), ("cpu_exclusive", "0")] {
            state.files.insert(format!("/cg/docker/cpuset.{name}"), value.into());
        }
    }
    let before = model.snapshot();
    let refused = |request: Request| model.isolator().create(&request).unwrap_err();
    let Refusal::InUse(reason, fix) = refused(request("rt", "1")) else { panic!("another refusal") };
    assert!(reason.contains("/cg/docker") && fix.contains("leave out the step `exclusive`"), "{reason}: {fix}");
    // One of a container that has a journal of its own.
    model.state.borrow_mut().files.insert("/cg/takt-isolate-run-7/cpuset.cpus".into(), "0".into());
    assert_eq!(model.isolator().foreign(), ["/cg/takt-isolate-run-7"]);
    assert!(refused(request("rt", "0")).fix().ends_with("rmdir /cg/takt-isolate-run-7"));
    model.state.borrow_mut().files.remove("/cg/takt-isolate-run-7/cpuset.cpus");
    assert!(matches!(refused(request("rt", "4")), Refusal::MissingCpus(_)), "no such CPU");
    assert!(matches!(refused(request("rt", "0-3")), Refusal::Request(..)), "no CPU for the others");
    assert!(matches!(refused(request("a b", "0")), Refusal::Request(..)), "a name with a blank");
    let mut frequency = request("rt", "0");
    frequency.steps.push(Step::Frequency);
    assert!(refused(frequency).fix().contains("--with frequency"), "no frequencies here");
    assert_eq!(model.snapshot(), before);
    model.isolator().create(&request("one", "0")).unwrap();
    assert!(matches!(refused(request("one", "1")), Refusal::Request(..)), "the name is taken");
    assert!(matches!(refused(request("two", "0")), Refusal::InUse(..)), "the CPU is taken");
    assert!(matches!(model.isolator().undo("two"), Err(Refusal::Unknown(_))));
    model.isolator().undo("one").unwrap();
    assert_eq!(model.snapshot(), before);
}

#[test]
fn a_setting_that_cannot_be_restored_is_refused_before_anything_is_touched() {
    for (path, step) in [
        ("/proc/sys/vm/swappiness", "swap"),
        ("/proc/sys/kernel/sched_rt_runtime_us", "throttling"),
        ("/proc/irq/default_smp_affinity", "interrupts"),
        ("/sys/devices/virtual/workqueue/cpumask", "workqueues"),
    ] {
        for v2 in [false, true] {
            let model = Model::new(v2);
            model.refuses.replace(path.into());
            let before = model.snapshot();
            let Refusal::Machine(reason, fix) = model.isolator().create(&request("rt", "1")).unwrap_err() else {
                panic!("another refusal")
            };
            assert!(reason.contains("could not be undone") && fix.contains(step), "{reason}: {fix}");
            assert_eq!(model.snapshot(), before, "{path}");
            let mut without = request("rt", "1");
            without.steps.retain(|other| other.name() != step);
            model.isolator().create(&without).unwrap();
            model.isolator().undo("rt").unwrap();
            assert_eq!(model.snapshot(), before, "{path}");
        }
    }
}

/// Machines with other programs that set CPUs apart: they are reported, and nothing of theirs changes.
#[test]
fn programs_of_the_same_purpose_are_reported_and_left_alone() {
    let set = |model: &Model, name: &str, cpus: &str| {
        let mut state = model.state.borrow_mut();
        let files: &[(&str, &str)] = match model.v2 {
            true => &[("cpus.partition", "member")],
            false => &[("mems", "0"), ("cpu_exclusive", "0"), ("sched_load_balance", "1")],
        };
        for (file, value) in [&[("cpus", cpus)], files].concat() {
            state.files.insert(format!("/cg/{name}/cpuset.{file}"), value.into());
        }
        // A slice has CPUs only where the controller is in use.
        if model.v2 {
            state.files.insert("/cg/cgroup.subtree_control".into(), "cpu cpuset".into());
        }
    };
    let program = |model: &Model, id: i32, name: &str, user: u32| {
        let mut state = model.state.borrow_mut();
        state.files.insert(format!("/proc/{id}/status"), format!("Name:\t{name}\nUid:\t{user}\t0\t0\t0"));
        let thread = Thread { id, name: name.into(), ..state.threads[&1].clone() };
        state.threads.insert(id, thread);
    };
    // A setuid program can have any name, too.
    let model = Model::new(true);
    program(&model, 7, "tuned", 65_532);
    program(&model, 8, "irqbalance", 65_532);
    let created = model.isolator().create(&request("rt", "1")).unwrap();
    assert!(!created.notes.iter().any(|note| note.contains("tuned") || note.contains("irqbalance")), "{created:?}");
    for v2 in [false, true] {
        let model = Model::new(v2);
        program(&model, 7, "tuned", 0);
        program(&model, 8, "irqbalance", 0);
        model.state.borrow_mut().files.insert("/etc/tuned/active_profile".into(), "realtime".into());
        set(&model, "system.slice", if v2 { "0-1" } else { "0" });
        set(&model, "user", "3");
        let before = model.snapshot();
        let created = model.isolator().create(&request("rt", "1")).unwrap();
        let noted = |word: &str| created.notes.iter().any(|note| note.contains(word));
        assert!(noted("profile realtime") && noted("IRQBALANCE_BANNED_CPULIST=1"), "{:?}", created.notes);
        assert_eq!((noted("cset shield"), noted("system.slice asks for CPU 1")), (!v2, v2), "{:?}", created.notes);
        assert_eq!(model.read("/cg/system.slice/cpuset.cpus").unwrap(), if v2 { "0-1" } else { "0" });
        // A value that tuned writes meanwhile is its own, and stays.
        model.state.borrow_mut().files.insert("/proc/sys/vm/swappiness".into(), "10".into());
        let undone = model.isolator().undo("rt").unwrap();
        assert!(undone.notes.iter().any(|note| note.contains("swappiness")), "{undone:?}");
        let mut after = model.snapshot();
        after.files.insert("/proc/sys/vm/swappiness".into(), "60".into());
        assert_eq!(after, before);
    }
    // An overlap of siblings is a bare EINVAL of the kernel: the refusal names the sibling, its maker and the way out.
    for (name, way) in
        [("user", "cset shield --reset"), ("system.slice", "systemctl set-property system.slice AllowedCPUs=")]
    {
        let model = Model::new(false);
        set(&model, name, "1-2");
        let before = model.snapshot();
        let Refusal::InUse(reason, fix) = model.isolator().create(&request("rt", "1")).unwrap_err() else {
            panic!("another refusal")
        };
        assert!(reason.contains(&format!("/cg/{name} has CPU 1")) && fix.contains(way), "{reason}: {fix}");
        assert_eq!(model.snapshot(), before);
        let mut shared = request("rt", "1");
        shared.steps.retain(|step| *step != Step::Exclusive);
        let created = model.isolator().create(&shared).unwrap();
        assert!(created.notes.iter().any(|note| note.contains(name) && note.contains("stay")), "{:?}", created.notes);
        model.isolator().undo("rt").unwrap();
        assert_eq!(model.snapshot(), before);
    }
}

/// A slice that gets CPUs while Takt has enabled the controller would lose them with it.
#[test]
fn the_controller_stays_for_a_group_that_uses_it_meanwhile() {
    let model = Model::new(true);
    model.isolator().create(&request("rt", "1")).unwrap();
    for (file, value) in [("cpus", "0"), ("cpus.partition", "member")] {
        model.state.borrow_mut().files.insert(format!("/cg/user.slice/cpuset.{file}"), value.into());
    }
    let undone = model.isolator().undo("rt").unwrap();
    assert!(undone.notes.iter().any(|note| note.contains("user.slice has CPUs of its own")), "{undone:?}");
    assert!(model.read("/cg/cgroup.subtree_control").unwrap().contains("cpuset"));
    assert_eq!(model.state.borrow().journal, None);
}

/// Without a set for the others, nothing would balance their load where the root set is not balanced (cgroup v1).
#[test]
fn the_other_cpus_are_balanced_without_the_step_tasks() {
    let model = Model::new(false);
    let before = model.snapshot();
    let mut wanted = request("rt", "1");
    wanted.steps.retain(|step| *step != Step::Tasks);
    model.isolator().create(&wanted).unwrap();
    let value = |path: &str| model.read(path).unwrap();
    assert_eq!(value("/cg/cpuset.sched_load_balance"), "0");
    assert_eq!(value("/cg/takt-others/cpuset.cpus"), "0,2-3");
    assert_eq!(value("/cg/takt-others/cpuset.sched_load_balance"), "1");
    assert_eq!(model.thread(1).unwrap().group, "/");
    // One with the step, which is undone before the other.
    model.isolator().create(&request("more", "2")).unwrap();
    assert_eq!(model.thread(1).unwrap().group, "/takt-others");
    model.isolator().undo("more").unwrap();
    assert_eq!((model.thread(1).unwrap().group.as_str(), value("/cg/takt-others/cpuset.cpus")), ("/", "0,2-3".into()));
    model.isolator().undo("rt").unwrap();
    assert_eq!(model.snapshot(), before);
}

#[test]
fn steps_of_a_partition_need_the_partition() {
    for (v2, step) in [(true, Step::Tasks), (true, Step::Domain), (false, Step::Tasks)] {
        let model = Model::new(v2);
        let before = model.snapshot();
        let mut wanted = request("rt", "1");
        wanted.steps = vec![step, Step::Interrupts];
        match model.isolator().create(&wanted) {
            Err(Refusal::Request(reason, fix)) if v2 => {
                assert!(reason.contains(step.name()) && fix.contains("exclusive"), "{reason}: {fix}");
            }
            Ok(_) if !v2 => drop(model.isolator().undo("rt").unwrap()),
            other => panic!("{other:?}"),
        }
        assert_eq!(model.snapshot(), before);
    }
}

#[test]
fn a_run_keeps_its_cpus() {
    let model = Model::new(false);
    let before = model.snapshot();
    model.used.set(parse_cpus("1-2"));
    let Refusal::InUse(reason, fix) = model.isolator().create(&request("rt", "1")).unwrap_err() else {
        panic!("another refusal")
    };
    assert!(
        reason == "CPU 1 is in use by w.yaml (process 7)" && fix.starts_with("end the run of w.yaml (process 7) "),
        "{reason}: {fix}"
    );
    assert_eq!(model.snapshot(), before);
    model.isolator().create(&request("rt", "3")).unwrap();
    model.isolator().undo("rt").unwrap();
}

/// An interrupt of CPU 2 alone goes to no CPU of an earlier isolation, which it has not concerned.
#[test]
fn a_later_isolation_respects_an_earlier_one() {
    let model = Model::new(false);
    let before = model.snapshot();
    model.isolator().create(&request("first", "1")).unwrap();
    model.isolator().create(&request("second", "2")).unwrap();
    assert_eq!(model.read("/proc/irq/9/smp_affinity_list").unwrap(), "0,3");
    model.isolator().create(&request("third", "0")).unwrap();
    assert_eq!(model.read("/proc/irq/9/smp_affinity_list").unwrap(), "3");
    for name in ["second", "first", "third"] {
        model.isolator().undo(name).unwrap();
    }
    assert_eq!(model.snapshot(), before);
}

#[test]
fn a_process_is_moved_in_and_back() {
    for v2 in [false, true] {
        let model = Model::new(v2);
        let before = model.snapshot();
        let isolator = || model.isolator();
        isolator().create(&request("rt", "1")).unwrap();
        assert!(matches!(isolator().move_in("rt", 3), Err(Refusal::Request(..))), "a fixed thread");
        isolator().move_in("rt", 5).unwrap();
        assert_eq!(model.thread(5).unwrap().cpus.to_string(), "1");
        isolator().undo("rt").unwrap();
        assert_eq!(model.snapshot(), before);
    }
}

/// The only run of the model that has died.
fn dead() -> RunId {
    "4194304-1".parse().unwrap()
}

/// Settings that a power policy of a run would own, as far as this machine has such ones.
const HELD: [&str; 2] = ["/proc/sys/vm/swappiness", "/proc/sys/kernel/sched_rt_runtime_us"];

impl Model {
    fn hold(&self, run: &RunId) -> Result<(), Refusal> {
        self.isolator().hold(run, &HELD.map(str::to_owned))
    }
    /// The run writes a value, without the journal.
    fn write_freely(&self, value: &str) {
        for path in HELD {
            self.state.borrow_mut().files.insert(path.into(), value.into());
        }
    }
}

#[test]
fn owners_of_one_setting_are_undone_in_any_order_to_the_first_value() {
    let (run, other) = (RunId::new().unwrap(), RunId::new().unwrap());
    for v2 in [false, true] {
        for run_first in [false, true] {
            for isolation_ends_first in [false, true] {
                let model = Model::new(v2);
                let before = model.snapshot();
                let create = || model.isolator().create(&request("rt", "1")).unwrap();
                let isolated = [HELD[0], HELD[1]].map(|path| (path, if path == HELD[0] { "1" } else { "-1" }));
                if run_first {
                    model.hold(&run).unwrap();
                    model.write_freely("37");
                    let created = create();
                    assert_eq!(created.notes.iter().filter(|note| note.contains("power policy")).count(), 2);
                    assert_eq!(model.read(HELD[0]).unwrap(), "37", "the run has it to itself");
                } else {
                    create();
                    model.hold(&run).unwrap();
                    model.write_freely("37");
                }
                assert!(model.isolator().verify("rt").unwrap().iter().all(|finding| finding.holds));
                assert_eq!(model.isolator().holders(), [(run, 2)]);
                assert_eq!(model.isolator().release(&other), Ok(0));
                if isolation_ends_first {
                    model.isolator().undo("rt").unwrap();
                    assert_eq!(model.read(HELD[0]).unwrap(), "37");
                    assert_eq!(model.isolator().release(&run), Ok(2));
                } else {
                    assert_eq!(model.isolator().release(&run), Ok(2));
                    for (path, value) in isolated {
                        assert_eq!(model.read(path).unwrap(), value);
                    }
                    model.isolator().undo("rt").unwrap();
                }
                assert_eq!(model.snapshot(), before, "v2: {v2}, {run_first}, {isolation_ends_first}");
            }
        }
    }
}

#[test]
fn settings_of_a_dead_run_are_restored_by_the_next_command() {
    let model = Model::new(false);
    let before = model.snapshot();
    model.hold(&dead()).unwrap();
    model.write_freely("37");
    model.isolator().create(&request("rt", "1")).unwrap();
    assert_eq!(model.isolator().holders(), []);
    assert_eq!(model.read(HELD[0]).unwrap(), "1");
    model.isolator().undo("rt").unwrap();
    assert_eq!(model.snapshot(), before);
}

/// A process that does not see the threads neither restores nor forgets them.
#[test]
fn threads_of_another_namespace_are_kept_for_a_process_there() {
    let model = Model::new(true);
    let before = model.snapshot();
    model.isolator().create(&request("rt", "1")).unwrap();
    model.namespace.set(12);
    let notes = model.isolator().undo("rt").unwrap().notes;
    assert!(notes.iter().any(|note| note.contains("other PID namespaces")), "{notes:?}");
    assert!(model.state.borrow().journal.is_some());
    model.isolator().recover().unwrap();
    model.namespace.set(namespace::FIRST);
    model.isolator().recover().unwrap();
    assert_eq!(model.snapshot(), before);
    // A namespace that has ended has no thread.
    let mut isolator = model.isolator();
    let moved = Moved { namespace: 12, thread: 7, start: 1, group: String::new(), cpus: parse_cpus("1") };
    isolator.journal.moved.push(moved);
    isolator.store().unwrap();
    model.populated.borrow_mut().insert(12);
    model.isolator().recover().unwrap();
    assert!(model.state.borrow().journal.is_some());
    model.populated.borrow_mut().remove(&12);
    model.isolator().recover().unwrap();
    assert_eq!(model.snapshot(), before);
}

#[derive(Clone, Debug)]
enum Act {
    Hold,
    Release,
    Create(usize),
    Undo(usize),
    Move(usize, i32),
    Recover,
}

/// Whatever is created, moved and undone, in any order, by processes that are killed at any change: in the end all is as it was.
#[test]
fn random_sequences_with_kills_leave_nothing() {
    let act = prop_oneof![
        3 => (0..3usize).prop_map(Act::Create),
        2 => (0..3usize).prop_map(Act::Undo),
        2 => (0..3usize, prop_oneof![1..7i32, 106..109i32]).prop_map(|(name, thread)| Act::Move(name, thread)),
        1 => Just(Act::Recover),
        1 => Just(Act::Hold),
        1 => Just(Act::Release),
    ];
    let kill = prop_oneof![1 => Just(u64::MAX), 1 => 0..60u64];
    let case = (any::<bool>(), prop::collection::vec((act, kill, 0..3u64), 1..8));
    takt_testing::for_all(300, case, |(v2, acts)| {
        let model = Model::new(v2);
        let before = model.snapshot();
        let run = RunId::new().unwrap();
        let requests = [("a", "1"), ("b", "2"), ("c", "2-3")].map(|(name, cpus)| request(name, cpus));
        for (act, kill, forks) in acts {
            model.life.set(kill);
            model.forks.set(forks);
            let mut isolator = model.isolator();
            let result = match act {
                Act::Create(which) => isolator.create(&requests[which]).map(drop),
                Act::Undo(which) => isolator.undo(&requests[which].name).map(drop),
                Act::Move(which, thread) => isolator.move_in(&requests[which].name, thread),
                Act::Recover => isolator.recover().map(drop),
                Act::Hold => isolator.hold(&run, &HELD.map(str::to_owned)),
                Act::Release => isolator.release(&run).map(drop),
            };
            if model.isolator().holders() == [(run, 2)] {
                model.write_freely("37");
            }
            if let (Err(e), true) = (result, model.life.get() > 0) {
                let expected = matches!(e, Refusal::Unknown(_) | Refusal::Request(..) | Refusal::InUse(..));
                prop_assert!(expected, "{e:?}");
            }
        }
        model.life.set(u64::MAX);
        let mut isolator = model.isolator();
        isolator.recover().unwrap();
        isolator.release(&run).unwrap();
        for name in isolator.names() {
            let undone = isolator.undo(&name).unwrap();
            prop_assert!(undone.notes.is_empty(), "{undone:?}");
        }
        let (after, before) = (model.snapshot(), before);
        prop_assert_eq!(after, before);
        Ok(())
    });
}
