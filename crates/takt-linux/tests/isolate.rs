//! Isolated CPUs with this machine's kernel: over cgroup v1 where that has the cpuset controller, and over v2 in the virtual machines.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use takt_core::cpus::CpuSet;
use takt_linux::isolate::{Isolator, Kernel, Linux, Request, Step};
use takt_testing::{Capability, skip};

/// The CPU that is isolated; `None` where that cannot be.
fn cpu() -> Option<usize> {
    let here = takt_linux::rt::affinity(0).unwrap();
    let can = rustix::process::geteuid().is_root() && here.len() > 1 && Linux::look().hierarchy().is_some();
    if !can {
        skip(Capability::Cpus, "isolation needs root, two CPUs and a cpuset controller");
    }
    here.iter().last().filter(|_| can && !Linux::journal().exists())
}

fn files() -> BTreeMap<String, String> {
    let (_, mount) = Linux::look().hierarchy().unwrap();
    let mut all = BTreeMap::new();
    let mut note = |path: &Path| {
        if let Ok(text) = fs::read_to_string(path) {
            all.insert(path.display().to_string(), text);
        }
    };
    for dir in fs::read_dir("/proc/irq").into_iter().flatten().flatten() {
        note(&dir.path().join("smp_affinity_list"));
    }
    for name in ["cpuset.cpus", "cpuset.sched_load_balance", "cgroup.subtree_control", "cpuset.cpus.effective"] {
        note(&Path::new(&mount).join(name));
    }
    note(Path::new("/proc/irq/default_smp_affinity"));
    note(Path::new("/sys/devices/virtual/workqueue/cpumask"));
    note(Path::new("/proc/sys/kernel/watchdog_cpumask"));
    let groups = fs::read_dir(&mount).unwrap().flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let groups: Vec<String> = groups.filter(|name| name.starts_with("takt-isolate") || name == "takt-others").collect();
    all.insert("groups".into(), groups.join(" "));
    all
}

/// One test, since a machine can be taken apart once at a time.
#[test]
fn a_cpu_is_set_apart_and_given_back() {
    let Some(cpu) = cpu() else { return };
    // Tests over real processes of other programs hold this lock while they have the CPUs.
    let lock = std::env::temp_dir().join(format!("takt-tests-{}.lock", rustix::process::getuid().as_raw()));
    let lock = fs::File::options().create(true).append(true).open(lock).unwrap();
    lock.lock().unwrap();
    let (before, own) = (files(), takt_linux::rt::affinity(0).unwrap());
    let steps = Step::all().filter(|step| step.is_default()).collect();
    let request = Request { name: "own".into(), cpus: CpuSet::single(cpu), steps, balanced: false, owner: None };
    let open = || Isolator::new(Linux::open().unwrap()).unwrap();
    let mut bound = Command::new("sleep").arg("30").stdin(Stdio::null()).spawn().unwrap();
    takt_linux::rt::set_affinity(bound.id() as i32, &CpuSet::single(cpu)).unwrap();
    let mut free = Command::new("sleep").arg("30").stdin(Stdio::null()).spawn().unwrap();
    let cpus = |id: u32| Linux::look().thread(id as i32).unwrap().cpus;

    let created = open().create(&request).unwrap();
    println!("{}: {} settings, {} threads, {:?}", created.group, created.settings, created.threads, created.notes);
    let findings = open().verify("own").unwrap();
    let isolated = (cpus(bound.id()), cpus(free.id()));
    let moved = open().move_in("own", free.id() as i32).map(|()| cpus(free.id()));
    let undone = open().undo("own").unwrap();
    println!("{} settings restored, {:?}", undone.settings, undone.notes);
    let after = (cpus(bound.id()), cpus(free.id()), takt_linux::rt::affinity(0).unwrap());
    for child in [&mut bound, &mut free] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    // Judged when all is undone, so that a failure leaves nothing behind.
    let broken: Vec<_> = findings.iter().filter(|finding| !finding.holds).collect();
    assert!(broken.is_empty() && findings.len() >= 3, "{findings:#?}");
    assert!(!isolated.0.contains(cpu) && !isolated.1.contains(cpu), "{isolated:?}");
    assert_eq!(moved.unwrap(), CpuSet::single(cpu));
    assert_eq!(after, (CpuSet::single(cpu), own, own));
    assert!(undone.notes.is_empty() && !Linux::journal().exists(), "{undone:?}");
    assert_eq!(files(), before);
}
