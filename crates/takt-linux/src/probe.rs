//! The capabilities of this machine, found out by trying, and the fix for each one that is missing.

use crate::blocking;
use crate::control;
use crate::isolate::{Isolator, Linux};
use crate::job_end::{JobEnd, Tracepoints};
use crate::layout::{Hierarchy, Layout, LayoutKind};
use crate::mechanism::{Choice, Mechanism};
use crate::power::{self, Domain, Method, Root};
use crate::rt;
use crate::run_id::RunId;
use rustix::process::{Resource, getrlimit};
use std::fs;
use std::io;
use std::path::Path;
use takt_core::cpus::CpuSet;
use takt_core::time::Span;

/// How good a finding is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// As good as it gets.
    Ok,
    /// Works, with a drawback.
    Weak,
    /// Does not work.
    Missing,
}

/// One thing that was looked at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// The subject, in a word or two.
    pub name: &'static str,
    /// How good it is.
    pub status: Status,
    /// The finding.
    pub found: String,
    /// The improvement: an exact command where one exists.
    pub fix: Option<String>,
}

/// All findings, in a fixed order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// One per thing looked at.
    pub findings: Vec<Finding>,
}

fn ok(name: &'static str, found: impl Into<String>) -> Finding {
    Finding { name, status: Status::Ok, found: found.into(), fix: None }
}

fn weak(name: &'static str, found: impl Into<String>, fix: &str) -> Finding {
    Finding { name, status: Status::Weak, found: found.into(), fix: Some(fix.into()) }
}

fn missing(name: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Finding {
    Finding { name, status: Status::Missing, found: found.into(), fix: Some(fix.into()) }
}

/// Looks at this machine. Groups are created and frozen for real, and removed again; nothing else is changed.
#[must_use]
pub fn probe() -> Report {
    let layout = Layout::read().unwrap_or_default();
    let mut findings = vec![cgroups(&layout), controllers(&layout)];
    let mut groups = [mechanism("v1", Choice::V1), mechanism("v2", Choice::V2)];
    if groups.iter().any(|g| g.status != Status::Missing) {
        // One of the two is enough.
        groups.iter_mut().filter(|g| g.status == Status::Missing).for_each(|g| g.status = Status::Weak);
    }
    findings.extend(groups);
    findings.push(mechanism("signal", Choice::Signal));
    findings.extend([
        real_time(&layout),
        throttling(rt::throttle()),
        fair_server(Path::new("/sys/kernel"), &release()),
        real_time_groups(&layout, rt::throttle()),
        priorities(rt::rt_allowed(), rt::preempt_rt()),
        tracepoints(),
        blocking(),
        kernel(),
        clock(),
        cpus(),
        isolation(),
        frequency(&Root::machine()),
        temperatures(&Root::machine()),
        open_files(),
        locked_memory(),
    ]);
    Report { findings }
}

fn cgroups(layout: &Layout) -> Finding {
    let mount = |name: &str, h: &Option<Hierarchy>| h.as_ref().map(|h| format!("{name} on {}", h.mount.display()));
    let mounts = [("v2", &layout.unified), ("v1 freezer", &layout.freezer), ("v1 cpuset", &layout.cpuset)];
    let mounts: Vec<String> = mounts.iter().filter_map(|(name, h)| mount(name, h)).collect();
    let mounts = mounts.join(", ");
    match layout.kind() {
        LayoutKind::Unified => ok("cgroups", format!("unified: {mounts}")),
        LayoutKind::Hybrid => ok("cgroups", format!("hybrid: {mounts}")),
        LayoutKind::V1 => {
            weak("cgroups", format!("v1: {mounts}"), "mount -t cgroup2 cgroup2 /sys/fs/cgroup/unified # after mkdir")
        }
        LayoutKind::None => missing("cgroups", "none mounted", "mount -t cgroup2 cgroup2 /sys/fs/cgroup"),
    }
}

fn controllers(layout: &Layout) -> Finding {
    let v2 = layout.unified.as_ref().map(|h| control::read(&h.own.join("cgroup.controllers")).unwrap_or_default());
    let v2 = v2.unwrap_or_default();
    let found = if v2.is_empty() { "none in v2".to_string() } else { format!("v2: {v2}") };
    if v2.split(' ').any(|c| c == "cpuset") {
        ok("cpuset", found)
    } else if let Some(v1) = &layout.cpuset {
        ok("cpuset", format!("v1 on {} ({found})", v1.mount.display()))
    } else {
        let fix = layout.unified.as_ref().map_or_else(
            || "mount -t cgroup -o cpuset cgroup /sys/fs/cgroup/cpuset # after mkdir".to_string(),
            |h| {
                format!(
                    "echo +cpuset > {}/cgroup.subtree_control # in every group from the top down",
                    h.mount.display()
                )
            },
        );
        weak("cpuset", format!("no cpuset controller ({found}): CPU sets by sched_setaffinity"), &fix)
    }
}

/// Opens the mechanism with one group, so creation, freezing and removal are all tried.
fn mechanism(name: &'static str, choice: Choice) -> Finding {
    let opened = RunId::new().map_err(|e| (e.to_string(), String::from("mount -t proc proc /proc"))).and_then(|run| {
        let mut mechanism = Mechanism::open(choice, &run).map_err(|e| (e.reason, e.fix))?;
        let cpus = mechanism.cpus();
        let tried = mechanism.add_partition(&cpus, 1).and_then(|partition| {
            let group = mechanism.group(partition, 0);
            mechanism.thaw(group)?;
            mechanism.freeze(group)?;
            mechanism.destroy()
        });
        tried.map_err(|e| (e.to_string(), String::from("run as root")))?;
        Ok(mechanism.notes())
    });
    match opened {
        Ok(notes) if notes.is_empty() => ok(name, "groups can be created, frozen and removed"),
        Ok(notes) => Finding { name, status: Status::Weak, found: format!("works; {}", notes.join("; ")), fix: None },
        Err((reason, fix)) => missing(name, reason, fix),
    }
}

fn real_time(layout: &Layout) -> Finding {
    let quota =
        layout.cpu.as_ref().map(|h| (h.own.join("cpu.rt_runtime_us"), control::read(&h.own.join("cpu.rt_runtime_us"))));
    if rt::rt_allowed() {
        let found = match quota {
            Some((path, Ok(us))) => format!("SCHED_FIFO is allowed; {} is {us}", path.display()),
            _ => "SCHED_FIFO is allowed".to_string(),
        };
        return ok("real time", found);
    }
    match quota {
        Some((path, Ok(us))) if us == "0" => missing(
            "real time",
            format!("SCHED_FIFO is refused: {} is 0", path.display()),
            format!("echo 900000 > {} # or run outside of this group", path.display()),
        ),
        _ => {
            missing("real time", "SCHED_FIFO is refused", "run as root, or: setcap cap_sys_nice=ep $(command -v takt)")
        }
    }
}

/// The kernel's limit for real-time classes, and the period of that.
type Throttle = io::Result<(Option<Span>, Span)>;

fn throttling(throttle: Throttle) -> Finding {
    match throttle {
        Ok((None, _)) => ok("throttling", "real-time classes may use all CPU time"),
        Ok((Some(runtime), period)) => Finding {
            name: "throttling",
            status: Status::Weak,
            found: format!(
                "real-time classes get {} % of a CPU: they are stopped for {} of every {period} that they use up",
                percent(runtime, period),
                period - runtime
            ),
            fix: Some(
                "leave each CPU 10 % idle; or sysctl kernel.sched_rt_runtime_us=-1 # then a runaway real-time process holds its CPU"
                    .into(),
            ),
        },
        Err(e) => Finding { name: "throttling", status: Status::Ok, found: format!("none known ({e})"), fix: None },
    }
}

fn percent(part: Span, of: Span) -> i64 {
    part.ns().saturating_mul(100) / of.ns().max(1)
}

pub(crate) fn release() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

/// Whether this version of Linux, as `6.18.44-x`, has the fair server.
pub(crate) fn has_fair_server(release: &str) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse::<u32>().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (6, 12)
}

/// Runtimes and periods of the fair servers below `/sys/kernel`, one for each CPU; the error is why they cannot be listed.
fn servers(kernel: &Path) -> std::io::Result<Vec<(Span, Span)>> {
    let value = |dir: &Path, name: &str| control::read(&dir.join(name)).ok()?.parse::<i64>().ok().map(Span::from_ns);
    let dirs = fs::read_dir(kernel.join("debug/sched/fair_server"))?.flatten().map(|dir| dir.path());
    Ok(dirs.filter_map(|dir| Some((value(&dir, "runtime")?, value(&dir, "period")?))).collect())
}

/// The largest fair server of this machine. `None` where no setting can be read.
pub(crate) fn fair_servers() -> Option<(Span, Span)> {
    servers(Path::new("/sys/kernel")).ok()?.into_iter().max()
}

/// The CPU time of ordinary processes where real-time processes fill a CPU. `kernel` is `/sys/kernel`.
fn fair_server(kernel: &Path, release: &str) -> Finding {
    const NAME: &str = "fair server";
    const AWAY: &str =
        "keep ordinary processes off the schedule's CPUs (isolcpus, cpusets), or run with --scheduler-class deadline";
    let dirs = servers(kernel);
    if let Some((runtime, period)) = dirs.iter().flatten().max().copied() {
        if runtime == Span::ZERO {
            return ok(NAME, "off: ordinary processes get nothing of a CPU that real-time processes fill");
        }
        let servers = kernel.join("debug/sched/fair_server");
        let off = format!("for f in {}/cpu*/runtime; do echo 0 > $f; done", servers.display());
        return weak(
            NAME,
            format!(
                "starved ordinary processes get {runtime} of every {period} of a CPU, above any SCHED_FIFO priority"
            ),
            &format!("{AWAY}; or {off}"),
        );
    }
    if !has_fair_server(release) {
        return ok(NAME, format!("none in Linux {release}"));
    }
    // The list of CPUs may be readable where their values are not.
    let lockdown = control::read(&kernel.join("security/lockdown")).unwrap_or_default();
    let denied = matches!(&dirs, Err(e) if e.kind() == io::ErrorKind::PermissionDenied) || dirs.is_ok();
    let (why, then) = if lockdown.contains('[') && !lockdown.contains("[none]") {
        ("the kernel is locked down", "the setting needs a boot without lockdown")
    } else if denied {
        ("this user may not read debugfs", "root can read and change it")
    } else {
        ("debugfs is not there", "mount -t debugfs debugfs /sys/kernel/debug shows it")
    };
    weak(
        NAME,
        format!(
            "Linux {release} gives starved ordinary processes 50 ms of each second of a CPU by default, above any SCHED_FIFO priority; \
             the setting cannot be read: {why}"
        ),
        &format!("{AWAY}; {then}"),
    )
}

/// The quota of real-time classes in the control group of this process (`CONFIG_RT_GROUP_SCHED`).
fn real_time_groups(layout: &Layout, throttle: Throttle) -> Finding {
    const NAME: &str = "real-time groups";
    let quota = layout.cpu.as_ref().and_then(|h| {
        let path = h.own.join("cpu.rt_runtime_us");
        let quota = control::read(&path).ok()?.parse::<i64>().ok()?;
        Some((path, quota))
    });
    let Some((path, quota)) = quota else { return ok(NAME, "no cpu group limits real-time classes") };
    let path = path.display();
    let whole = throttle.ok().and_then(|(runtime, _)| runtime).map_or(i64::MAX, |runtime| runtime.ns() / 1000);
    if quota == 0 {
        return weak(
            NAME,
            format!("{path} is 0: this group refuses real-time classes (EPERM)"),
            &format!("echo 900000 > {path} # or run outside of this group"),
        );
    }
    if (0..whole).contains(&quota) {
        return weak(
            NAME,
            format!(
                "{path} is {quota}: all real-time processes of this group together get so many us per period and CPU"
            ),
            &format!("echo {} > {path} # after its parent groups", whole.min(950_000)),
        );
    }
    ok(NAME, format!("{path} is {quota}; a new v1 cpu group has 0 and refuses real-time classes (EPERM)"))
}

/// Whether a workload can have `dispatch: priority`.
fn priorities(allowed: bool, preempt_rt: bool) -> Finding {
    match (allowed, preempt_rt) {
        (true, false) => ok("priorities", "processes can be dispatched by priority"),
        (true, true) => weak(
            "priorities",
            "processes are dispatched by priority only with `realtime: yes`, as real-time processes can hold up this PREEMPT_RT kernel",
            "boot with rcutree.kthread_prio=20, run chrt -f -p 20 on each ktimers thread, and write `realtime: yes`",
        ),
        (false, _) => missing(
            "priorities",
            "processes cannot be dispatched by priority: SCHED_FIFO is refused",
            "see `real time`; `dispatch: freeze` needs no right",
        ),
    }
}

/// Whether a workload can have `completion: yield` and `completion: sleep`.
fn tracepoints() -> Finding {
    let tried = [JobEnd::Yield, JobEnd::Sleep].map(|of| Tracepoints::find(of).and_then(|points| points.try_out()));
    match tried.into_iter().find_map(Result::err) {
        None => ok("tracepoints", "ends of jobs can be observed (`completion: yield` and `sleep`)"),
        Some(lack) => missing("tracepoints", format!("ends of jobs cannot be observed: {}", lack.reason), lack.fix),
    }
}

/// Whether blocks in the middle of a job are observed, and the cost of a record to the CPU on which it is written.
fn blocking() -> Finding {
    match blocking::Switches::try_out().and_then(|()| blocking::cost()) {
        Ok(cost) => ok("blocking", format!("blocks inside a job are observed by tracepoints; a record takes {cost}")),
        Err(lack) => {
            let found = format!("blocks inside a job of a real-time process cannot be observed: {}", lack.reason);
            weak("blocking", found, &format!("{}; or `dispatch: rank`, which needs no observation", lack.fix))
        }
    }
}

fn kernel() -> Finding {
    let uname = rustix::system::uname();
    let (release, version) = (uname.release().to_string_lossy(), uname.version().to_string_lossy());
    let found = format!("Linux {release}, {}", preemption(&version, rt::preempt_rt()));
    if found.ends_with("PREEMPT_RT") {
        ok("kernel", found)
    } else {
        weak("kernel", found, "a PREEMPT_RT kernel for latencies that are bounded, not only small on average")
    }
}

/// The preemption model in words. The dynamic model's choice is in debugfs, which is not readable for everybody.
fn preemption(version: &str, realtime: bool) -> String {
    let has = |word: &str| version.split_whitespace().any(|w| w == word);
    if realtime || has("PREEMPT_RT") {
        return "PREEMPT_RT".into();
    }
    if has("PREEMPT_DYNAMIC") {
        let chosen = fs::read_to_string("/sys/kernel/debug/sched/preempt").unwrap_or_default();
        let chosen = chosen.split_whitespace().find_map(|w| w.strip_prefix('(')?.strip_suffix(')'));
        return chosen.map_or_else(|| "PREEMPT_DYNAMIC".into(), |c| format!("PREEMPT_DYNAMIC ({c})"));
    }
    if has("PREEMPT") { "PREEMPT".into() } else { "not preemptible".into() }
}

fn clock() -> Finding {
    let dir = Path::new("/sys/devices/system/clocksource/clocksource0");
    let current = control::read(&dir.join("current_clocksource")).unwrap_or_else(|_| "unknown".into());
    match current.as_str() {
        "hpet" | "acpi_pm" | "jiffies" | "refined-jiffies" => weak(
            "clock source",
            format!("{current}: reading the time is a slow system call"),
            "boot with clocksource=tsc tsc=reliable",
        ),
        _ => ok("clock source", current),
    }
}

fn cpu_list(path: &str) -> CpuSet {
    control::parse_cpus(&fs::read_to_string(path).unwrap_or_default())
}

fn cpus() -> Finding {
    let online = cpu_list("/sys/devices/system/cpu/online");
    let allowed = rt::affinity(0).unwrap_or(online);
    let found = format!("{} online ({online}), {} allowed ({allowed})", online.len(), allowed.len());
    if online.is_subset(&allowed) {
        ok("CPUs", found)
    } else {
        weak("CPUs", found, &format!("taskset -c {online} takt …, or widen the cpuset of this group"))
    }
}

fn isolation() -> Finding {
    let isolated = cpu_list("/sys/devices/system/cpu/isolated");
    let tickless = cpu_list("/sys/devices/system/cpu/nohz_full");
    let foreign = Isolator::new(Linux::look()).map_or_else(|_| Vec::new(), |isolator| isolator.foreign());
    if let Some(set) = foreign.first() {
        let fix =
            format!("in a container of that Takt: takt isolate undo --all; if it is gone: rmdir {}", foreign.join(" "));
        return weak("isolation", format!("the journal of this system does not have the isolation {set}"), &fix);
    }
    if isolated.is_empty() {
        let fix = "boot with isolcpus=managed_irq,domain,LIST nohz_full=LIST, or keep other work away by cpusets";
        return weak("isolation", "no CPU is isolated", fix);
    }
    ok(
        "isolation",
        format!(
            "isolated {isolated}; without tick {}",
            if tickless.is_empty() { "none".into() } else { tickless.to_string() }
        ),
    )
}

fn frequency(root: &Root) -> Finding {
    let Ok(domains) = power::domains(root) else {
        return Finding { name: "frequency", status: Status::Weak, found: "no cpufreq driver".into(), fix: None };
    };
    let names = |name: fn(&Domain) -> &str| {
        let mut names: Vec<&str> = domains.iter().map(name).collect();
        names.sort_unstable();
        names.dedup();
        names.join(", ")
    };
    let (drivers, governors) = (names(|domain| &domain.driver), names(|domain| &domain.governor));
    let by_limits = domains.iter().any(|domain| domain.method == Method::Limits);
    let method = if by_limits { "limits" } else { "the governor userspace" };
    let preferences = match domains.iter().all(|domain| domain.preferences.is_empty()) {
        true => "",
        false => "; energy performance preferences",
    };
    let count = domains.len();
    let found =
        format!("{count} domains, driver {drivers}, governor {governors}; power policies by {method}{preferences}");
    if governors == "performance" {
        ok("frequency", found)
    } else {
        weak("frequency", found, "cpupower frequency-set -g performance # or a power policy")
    }
}

fn temperatures(root: &Root) -> Finding {
    let names: Vec<String> = power::zones(root).into_iter().map(|zone| zone.name).collect();
    match names.is_empty() {
        true => Finding { name: "temperatures", status: Status::Weak, found: "no sensor".into(), fix: None },
        false => ok("temperatures", names.join(", ")),
    }
}

fn open_files() -> Finding {
    let limit = getrlimit(Resource::Nofile);
    let number = |n: Option<u64>| n.map_or("unlimited".to_string(), |n| n.to_string());
    let found = format!("{} (soft), {} (hard)", number(limit.current), number(limit.maximum));
    // One per partition, and some of its own.
    if limit.maximum.is_some_and(|max| max < 4096) {
        weak("open files", found, "ulimit -Hn 20000 # or LimitNOFILE= in the service")
    } else {
        ok("open files", found)
    }
}

fn locked_memory() -> Finding {
    let limit = getrlimit(Resource::Memlock).maximum;
    let size = |n: u64| if n.is_multiple_of(1 << 20) { format!("{} MiB", n >> 20) } else { format!("{} KiB", n >> 10) };
    let text = limit.map_or("unlimited".to_string(), size);
    // CAP_IPC_LOCK lifts the limit.
    let capable = fs::read_to_string("/proc/self/status").is_ok_and(|status| {
        let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).is_some_and(|caps| caps & (1 << 14) != 0)
    });
    match limit {
        _ if capable => ok("locked memory", format!("no limit for this user (limit of others {text})")),
        Some(max) if max < 64 << 20 => weak("locked memory", text, "ulimit -l unlimited # or LimitMEMLOCK=infinity"),
        _ => ok("locked memory", text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_finding_says_what_is_there_and_what_is_missing_has_a_fix() {
        let report = probe();
        for finding in &report.findings {
            println!("{finding:?}");
            assert!(!finding.found.is_empty() && !finding.found.contains('\n'), "{finding:?}");
            assert!(finding.status != Status::Missing || finding.fix.is_some(), "{finding:?}");
        }
        let names: Vec<_> = report.findings.iter().map(|f| f.name).collect();
        let mut unique = names.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), names.len());
        // Signals work everywhere.
        assert_ne!(report.findings.iter().find(|f| f.name == "signal").unwrap().status, Status::Missing);
        let here = std::process::id().to_string();
        if let Some(hierarchy) = Layout::read().unwrap().unified {
            let left = fs::read_dir(hierarchy.own).unwrap().flatten().map(|e| e.file_name().into_string().unwrap());
            let left: Vec<String> = left.filter(|name| name.starts_with(&format!("takt-{here}-"))).collect();
            assert_eq!(left, Vec::<String>::new(), "probing leaves nothing behind");
        }
    }

    #[test]
    fn dispatch_by_priority_needs_the_right_and_a_kernel_that_bears_it() {
        let status = |allowed, preempt_rt| priorities(allowed, preempt_rt).status;
        assert_eq!((status(true, false), status(true, true)), (Status::Ok, Status::Weak));
        assert_eq!((status(false, false), status(false, true)), (Status::Missing, Status::Missing));
    }

    #[test]
    fn the_fair_server_is_found_or_the_reason_why_it_is_not() {
        let root = tempfile::tempdir().unwrap();
        let said = |release| fair_server(root.path(), release);
        assert_eq!((said("6.11.9").status, said("5.15.0-x").status), (Status::Ok, Status::Ok));
        let unseen = said("6.12.0-rc1");
        assert_eq!(unseen.status, Status::Weak);
        assert!(unseen.found.contains("debugfs is not there") && unseen.fix.unwrap().contains("isolcpus"));
        fs::create_dir_all(root.path().join("security")).unwrap();
        fs::write(root.path().join("security/lockdown"), "none [integrity] confidentiality\n").unwrap();
        let locked = said("6.18.44-fc");
        assert!(locked.found.contains("locked down") && locked.fix.unwrap().contains("without lockdown"));
        let cpu = root.path().join("debug/sched/fair_server/cpu0");
        fs::create_dir_all(&cpu).unwrap();
        fs::write(cpu.join("period"), "1000000000\n").unwrap();
        for (runtime, status) in [("50000000\n", Status::Weak), ("0\n", Status::Ok)] {
            fs::write(cpu.join("runtime"), runtime).unwrap();
            let read = said("6.18.44-fc");
            assert_eq!(read.status, status, "{read:?}");
            assert_eq!(read.found.contains("50ms of every 1s"), status == Status::Weak, "{read:?}");
        }
    }

    #[test]
    fn frequencies_are_found_with_their_driver() {
        let dir = tempfile::tempdir().unwrap();
        let machine = takt_testing::sysfs::Machine::amd_pstate(dir.path());
        let root = Root::imitation(machine.directory());
        let found = frequency(&root);
        let text = "2 domains, driver amd-pstate-epp, governor powersave; power policies by limits; energy performance \
                    preferences";
        assert_eq!((found.status, found.found.as_str()), (Status::Weak, text));
        assert_eq!(temperatures(&root).found, "x86_pkg_temp, coretemp:Package id 0");
        let bare = tempfile::tempdir().unwrap();
        let root = Root::imitation(bare.path());
        assert_eq!([frequency(&root), temperatures(&root)].map(|f| f.found), ["no cpufreq driver", "no sensor"]);
    }

    #[test]
    fn throttling_names_the_supply() {
        let second = Span::from_ms(1000);
        let limited = throttling(Ok((Some(Span::from_ms(950)), second)));
        assert_eq!(limited.status, Status::Weak);
        assert!(limited.found.contains("95 %") && limited.found.contains("50ms of every 1s"), "{limited:?}");
        assert_eq!(throttling(Ok((None, second))).status, Status::Ok);
    }

    #[test]
    fn a_cpu_group_without_a_real_time_quota_is_found() {
        let root = tempfile::tempdir().unwrap();
        let hierarchy = Hierarchy { mount: root.path().into(), own: root.path().into() };
        let layout = Layout { cpu: Some(hierarchy), ..Layout::default() };
        let said = |layout: &Layout| real_time_groups(layout, Ok((Some(Span::from_ms(950)), Span::from_ms(1000))));
        assert_eq!((said(&Layout::default()).status, said(&layout).status), (Status::Ok, Status::Ok));
        for (quota, status, word) in [
            ("0", Status::Weak, "EPERM"),
            ("10000", Status::Weak, "10000"),
            ("950000", Status::Ok, "a new v1 cpu group"),
        ] {
            fs::write(root.path().join("cpu.rt_runtime_us"), quota).unwrap();
            let found = said(&layout);
            assert!(found.status == status && found.found.contains(word), "{found:?}");
        }
    }

    #[test]
    fn the_preemption_model_is_read_from_the_version() {
        assert_eq!(preemption("#1 SMP PREEMPT_RT Mon", false), "PREEMPT_RT");
        assert_eq!(preemption("#1 SMP PREEMPT Mon", false), "PREEMPT");
        assert_eq!(preemption("#1 SMP Mon", false), "not preemptible");
        assert_eq!(preemption("#1 SMP PREEMPT Mon", true), "PREEMPT_RT");
        assert!(preemption("#1 SMP PREEMPT_DYNAMIC Mon", false).starts_with("PREEMPT_DYNAMIC"));
    }

    #[test]
    fn missing_hierarchies_are_named_with_the_command_that_mounts_them() {
        let none = Layout::default();
        assert_eq!(cgroups(&none).status, Status::Missing);
        assert_eq!(controllers(&none).status, Status::Weak);
        let e = Mechanism::open_on(&none, Choice::V2, &RunId::new().unwrap()).err().unwrap();
        assert!(e.fix.contains("mount -t cgroup2"), "{e:?}");
        let e = Mechanism::open_on(&none, Choice::V1, &RunId::new().unwrap()).err().unwrap();
        assert!(e.fix.contains("-o freezer"), "{e:?}");
        let auto = Mechanism::open_on(&none, Choice::Auto, &RunId::new().unwrap()).unwrap();
        assert_eq!(auto.name(), "signal");
        assert!(auto.notes().iter().any(|note| note.contains("no cgroup v2")), "{:?}", auto.notes());
    }
}
