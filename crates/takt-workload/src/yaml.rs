//! The top level of a workload file: which kind it is, the machine, the policy, the settings.

use crate::code::Code;
use crate::diagnostic::{Diagnostic, Severity};
use crate::domains::Domains;
use crate::events;
use crate::keys::{FILE, names};
use crate::limits::{DEFAULT_PRIORITY, MAX_LOWEST_PRIORITY, MAX_PRIORITY, MOST_EXEC};
use crate::machine::number_not_count;
use crate::machine::{fit_machine, machine_of, needs_a_table, no_copies, no_policy, placement_matters, with_placement};
use crate::node::{self, Entry, Node, Place};
use crate::policy::{self, policy_name};
use crate::reader::{Bare, Cpus, Reader};
use crate::text::cpus_text;
use crate::threads;
use crate::words::{
    BACKLOG, BE_START, CLIENT, DECIDING, DESCRIPTORS, DISPATCH, LATE, LOCKING, MISSING_CPUS, ON_CRASH, PRESET,
    REALTIME, RULES,
};
use crate::{
    Options, Realtime, Settings, Source, Workload, domains, load as loads, platform, power, rules, scenario, servers,
    steps, table, tasks,
};
use std::path::{Path, PathBuf};
use takt_core::cpus::CpuSet;
use takt_core::model::{Backlog, Late, Placement, PolicySpec, Scope, System, TableRules};
use takt_core::policies::windows;

pub(crate) const KEYS: [&str; FILE.len()] = names(&FILE);

/// Faults a `fallback` without a `policy` that could fail.
fn fallback_alone<'n>(reader: &mut Reader, root: &'n Node) -> Option<&'n Entry> {
    let entry = root.get("fallback")?;
    let fault = Diagnostic::error(Code::NoEffect, &entry.key_span, "`fallback` has no effect without `policy`");
    reader.push(fault.label("no policy of this file can fail").hint("remove it"));
    None
}

/// The policy of a window table.
fn windows_policy() -> PolicySpec {
    PolicySpec::new(&windows::ENTRY.profile, Scope::Table)
}

pub(crate) fn load(source: &Source, options: &Options) -> Result<Workload, Vec<Diagnostic>> {
    let (root, faults) = node::parse(&source.text).map_err(|fault| vec![fault])?;
    let mut reader = Reader::default();
    reader.diagnostics = faults;
    reader.directory = directory_of(&source.name);
    reader.texts.clone_from(&options.texts);
    let hint = "a workload has `windows` and `partitions`, or `tasks` and a `policy`";
    let workload =
        reader.is_map(&root, "a workload", hint).then(|| read(&mut reader, &root, source, options)).flatten();
    let (errors, warnings): (Vec<_>, Vec<_>) =
        reader.diagnostics.into_iter().partition(|d| d.severity == Severity::Error);
    match workload {
        Some((mut workload, heads)) if errors.is_empty() => {
            workload.warnings = warnings;
            workload.files = reader.files;
            workload.key_places = reader.places;
            let kind = root.get("windows").or(root.get("tasks")).map_or(root.head(), |e| e.key_span.clone());
            let policy = root.get("policy").filter(|_| options.policy.is_none()).map_or(kind, |e| e.value.span.clone());
            workload.places = heads;
            rules::buildable(&workload, &policy).map_err(|fault| vec![fault])?;
            if let Some(description) = &workload.platform {
                workload.power_host(description.platform()).map_err(|fault| vec![*fault])?;
            }
            Ok(workload)
        }
        _ => Err(errors),
    }
}

/// Reads the file into a workload, with the places that messages about its tasks point at.
fn read(reader: &mut Reader, root: &Node, source: &Source, options: &Options) -> Option<(Workload, Vec<Place>)> {
    reader.keys(root, "a workload", &KEYS);
    let rules = root.get("rules").and_then(|e| reader.choice(&e.value, "rules", &RULES));
    reader.rules = options.rules.or(rules).unwrap_or_default();
    let settings = settings(reader, root, source, options);
    let client = root.get("client");
    reader.client = client.and_then(|e| reader.choice(&e.value, "client", &CLIENT)).unwrap_or_default();
    // Before the steps that name them.
    if let Some(entry) = root.get("resources") {
        steps::declare(reader, entry);
    }
    if let Some(entry) = root.get("servers") {
        servers::declare(reader, entry);
    }
    if beside_table(reader, root) {
        return None;
    }
    let top = Top {
        root,
        options,
        cpus: root.get("cpus").and_then(|e| Some((reader.cpus(&e.value, "cpus")?, e.value.span.clone()))),
        policy: root.get("policy").or_else(|| fallback_alone(reader, root)).and_then(|entry| {
            let policy = policy::read(reader, &entry.value)?;
            Some((policy::with_fallback(reader, policy, root), entry))
        }),
        placement: root.get("placement").and_then(|e| reader.choice(&e.value, "placement", &Placement::ALL)),
    };
    let mut workload = Workload::new(source, System::new(CpuSet::single(0), windows_policy()), settings);
    schedule_settings(reader, root, options, &mut workload.system);
    workload.system.rules = reader.rules;
    let heads = match (root.get("windows"), root.get("tasks")) {
        (Some(windows), _) => top.table(reader, windows, &mut workload),
        (None, Some(list)) => top.tasks(reader, list, &mut workload)?,
        (None, None) => {
            nothing_to_schedule(reader, root);
            return None;
        }
    };
    let resources = std::mem::take(&mut reader.resources);
    workload.system.resources = resources.len();
    workload.resources = resources.into_names();
    let servers = std::mem::take(&mut reader.servers);
    (workload.system.servers, workload.servers) = servers.build(reader);
    let followers = std::mem::take(&mut reader.followers);
    events::connect(reader, followers, &mut workload, &heads);
    let of_programs = std::mem::take(&mut reader.threads);
    threads::connect(reader, of_programs, &mut workload, &heads);
    rules::whole(reader, root, &workload, &heads);
    top.surroundings(reader, &mut workload);
    power_of(reader, root, options, &mut workload);
    Some((workload, heads))
}

/// Reads `power`, `epp` and `platform`.
fn power_of(reader: &mut Reader, root: &Node, options: &Options, workload: &mut Workload) {
    let written = root.get("power").map(|entry| (power::read(reader, &entry.value), entry.value.span.clone()));
    let kind = root.get("windows").or(root.get("tasks")).map_or(root.head(), |entry| entry.key_span.clone());
    (workload.power, workload.power_place) = match (&options.power, written) {
        (Some(spec), _) => (Some(spec.clone()), kind),
        (None, Some((spec, place))) => (spec, place),
        (None, None) => (None, kind),
    };
    if let Some(entry) = root.get("epp") {
        workload.settings.epp = power::preferences(reader, entry, &workload.system.cpus);
    }
    workload.platform = root.get("platform").and_then(|entry| platform::read(reader, entry));
    if let (Some(description), Some(entry)) = (&workload.platform, root.get("platform")) {
        let platform = description.platform();
        let described = platform.domains.iter().fold(CpuSet::EMPTY, |all, domain| all.union(&domain.cpus));
        let without = workload.system.cpus.difference(&described);
        if !without.is_empty() {
            let message = format!("{} of the workload in no cluster of the platform", cpus_text(&without));
            reader.push(
                Diagnostic::error(Code::CpuOutside, &entry.key_span, message)
                    .label(format!("the clusters have CPU {described}"))
                    .hint("add a cluster, or use CPUs of the platform"),
            );
        }
    }
}

/// A key that may not stand beside a window table, and whether it does.
fn beside_table(reader: &mut Reader, root: &Node) -> bool {
    let Some(table) = root.get("windows").or(root.get("partitions")) else { return false };
    let others = [
        (
            "tasks",
            "tasks of an online policy",
            "to run online tasks inside windows, make them processes of a partition with a `policy`",
        ),
        (
            "domains",
            "parts of the machine for online `tasks`",
            "the slices of windows are such parts: give a partition a `policy`",
        ),
    ];
    let other = others.into_iter().find_map(|(key, label, hint)| Some((root.get(key)?, label, hint)));
    if let Some((entry, label, hint)) = other {
        reader.push(
            Diagnostic::error(
                Code::ConflictingKeys,
                &entry.key_span,
                format!("a workload has both `{}` and `{}`", table.key, entry.key),
            )
            .label(label)
            .also(&table.key_span, "a static table")
            .hint(hint),
        );
    }
    other.is_some()
}

/// Neither windows nor tasks, unless one of them is just misspelt.
fn nothing_to_schedule(reader: &mut Reader, root: &Node) {
    if !reader.lacks(root, "windows") || !reader.lacks(root, "tasks") {
        return;
    }
    reader.push(match root.get("partitions") {
        Some(entry) => {
            Diagnostic::error(Code::MissingKey, &entry.key_span, "a workload has `partitions` but no `windows`")
                .label("no window runs them")
                .hint("add `windows: [{length: 100, sc_partition: …}]`")
        }
        None => Diagnostic::error(Code::NothingToSchedule, &root.head(), "there is nothing to schedule")
            .label("neither `windows` nor `tasks` in this file")
            .hint("a workload has `windows` and `partitions`, or `tasks` and a `policy`"),
    });
}

/// Checks the settings of a file that has nothing to schedule.
pub(crate) fn check_settings(source: &Source, root: &Node, rules: TableRules) -> Result<(), Vec<Diagnostic>> {
    let mut reader = Reader::default();
    reader.rules = rules;
    reader.keys(root, "a workload", &KEYS);
    settings(&mut reader, root, source, &Options::default());
    reader.diagnostics.retain(|d| d.severity == Severity::Error);
    if reader.diagnostics.is_empty() { Ok(()) } else { Err(reader.diagnostics) }
}

fn settings(reader: &mut Reader, root: &Node, source: &Source, options: &Options) -> Settings {
    let mut settings = Settings::default();
    let entry = root.get("set_cwd");
    let set_cwd = entry.and_then(|e| reader.boolean(&e.value, "set_cwd"));
    match entry.filter(|_| set_cwd == Some(true) && source.is_pipe()) {
        Some(entry) => reader.push(
            Diagnostic::error(Code::NotSupportedHere, &entry.key_span, "a workload from a pipe has no directory")
                .label("its tasks cannot run in the directory of the file")
                .hint("write `set_cwd: no`: the tasks run in the current directory"),
        ),
        // DEmOS's default is `yes`, and its scripts rely on the refusal.
        None if entry.is_none() && reader.rules == TableRules::Demos && source.may_be_special() && source.is_pipe() => {
            reader.push(
                Diagnostic::error(Code::NotSupportedHere, &root.head(), "a workload from a pipe has no directory")
                    .label("and its tasks would run there, since it has no `set_cwd`")
                    .hint("write `set_cwd: no`: the tasks run in the current directory"),
            );
        }
        None => settings.directory = (set_cwd.unwrap_or(true) && !source.is_pipe()).then(|| directory_of(&source.name)),
    }
    let (own, demos) = (root.get("scheduler_cpu"), root.get("demos_cpu"));
    if let (Some(own), Some(demos)) = (own, demos) {
        reader.push(
            Diagnostic::error(
                Code::ConflictingKeys,
                &demos.key_span,
                "a workload has both `scheduler_cpu` and `demos_cpu`",
            )
            .label("DEmOS's name for the same")
            .also(&own.key_span, "here, too")
            .hint("keep one of them"),
        );
    }
    if let Some(entry) = own.or(demos)
        && let Some(Cpus::Set(set)) = reader.cpus(&entry.value, &entry.key)
    {
        settings.scheduler_cpus = Some(set);
    }
    if let Some(e) = root.get("init_timeout")
        && let Some(span) = reader.span(&e.value, "init_timeout", Bare::Refused, false)
    {
        settings.init_timeout = span;
    }
    if let Some(e) = root.get("exec_limit")
        && let Some(limit) = reader.whole(&e.value, "exec_limit", MOST_EXEC)
    {
        settings.exec_limit = limit as u32;
    }
    settings.late_stated = root.get("late").is_some();
    let duration = root.get("duration");
    settings.duration = duration.and_then(|e| reader.span(&e.value, "duration", Bare::Refused, false));
    let realtime = root.get("realtime");
    // DEmOS leaves its processes in the ordinary class.
    let default = if reader.rules == TableRules::Demos { Realtime::No } else { Realtime::default() };
    settings.realtime = realtime.and_then(|e| reader.choice(&e.value, "realtime", &REALTIME)).unwrap_or(default);
    let missing = root.get("missing_cpus");
    let missing = missing.and_then(|e| reader.choice(&e.value, "missing_cpus", &MISSING_CPUS));
    settings.missing_cpus = missing.or(options.missing_cpus).unwrap_or_default();
    let dispatch = root.get("dispatch");
    settings.dispatch = dispatch.and_then(|e| reader.choice(&e.value, "dispatch", &DISPATCH)).unwrap_or_default();
    if let Some(entry) = root.get("priority") {
        settings.priority = priority(reader, entry, &settings);
    }
    let descriptors = root.get("descriptors");
    settings.descriptors =
        descriptors.and_then(|e| reader.choice(&e.value, "descriptors", &DESCRIPTORS)).unwrap_or_default();
    let on_crash = root.get("on_crash");
    settings.on_crash = on_crash.and_then(|e| reader.choice(&e.value, "on_crash", &ON_CRASH)).unwrap_or_default();
    settings
}

/// Reads the FIFO priority of real-time processes.
fn priority(reader: &mut Reader, entry: &Entry, settings: &Settings) -> u8 {
    let by_priority = settings.dispatch.has_priorities();
    let most = if by_priority { MAX_LOWEST_PRIORITY } else { MAX_PRIORITY };
    let Some(text) = reader.scalar(&entry.value, "priority", "a priority of SCHED_FIFO") else {
        return DEFAULT_PRIORITY;
    };
    let Some(priority) = text.parse::<u8>().ok().filter(|n| (1..=most).contains(n)) else {
        let is_number = text.bytes().all(|b| b.is_ascii_digit());
        let code = if is_number { Code::OutOfRange } else { Code::WrongType };
        let message = format!("`priority` must be a whole number from 1 to {most}");
        let fault = Diagnostic::error(code, &entry.value.span, message);
        let above = text.parse::<u8>().is_ok_and(|n| (1..=MAX_PRIORITY).contains(&n));
        reader.push(match above {
            true => fault
                .label(format!(
                    "`dispatch: {}` needs ten more priorities above it, below the scheduler thread's 80",
                    settings.dispatch.name()
                ))
                .hint(format!("lower it to {most} or less, or write `dispatch: freeze`")),
            false => fault.label("not a priority below that of the scheduler thread, which is 80").hint(
                "it is the SCHED_FIFO priority of all processes; `tasks` under `fp` have a `priority` of their own",
            ),
        });
        return DEFAULT_PRIORITY;
    };
    if settings.realtime == Realtime::No && !by_priority {
        let fault =
            Diagnostic::warning(Code::NoEffect, &entry.key_span, "`priority` has no effect with `realtime: no`");
        reader.push(fault.label("the processes get no real-time class").hint("remove one of them"));
    }
    priority
}

fn directory_of(name: &str) -> PathBuf {
    match Path::new(name).parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

fn schedule_settings(reader: &mut Reader, root: &Node, options: &Options, system: &mut System) {
    let late = root.get("late");
    system.late = late.and_then(|e| reader.choice(&e.value, "late", &LATE)).unwrap_or_default();
    let backlog = root.get("backlog");
    system.backlog = backlog.and_then(|e| reader.choice(&e.value, "backlog", &BACKLOG)).unwrap_or_default();
    preset(reader, root, system);
    let locking = root.get("locking");
    system.locking = locking.and_then(|e| reader.choice(&e.value, "locking", &LOCKING)).unwrap_or_default();
    system.timing = scenario::timing(reader, root);
    system.load = root.get("load").and_then(|e| loads::load(reader, e));
    let be_start = root.get("be_start");
    system.be_start = be_start.and_then(|e| reader.choice(&e.value, "be_start", &BE_START)).unwrap_or_default();
    let seed = root.get("seed").and_then(|e| reader.whole(&e.value, "seed", u64::MAX));
    system.seed = options.seed.or(seed).unwrap_or(0);
}

/// Reads `preset`, which stands for a `late` and a `backlog`.
fn preset(reader: &mut Reader, root: &Node, system: &mut System) {
    let Some(entry) = root.get("preset") else { return };
    let Some(backlog) = reader.choice(&entry.value, "preset", &PRESET) else { return };
    system.backlog = backlog;
    let aborts = backlog == Backlog::Hartstone && system.late != Late::Continue;
    for other in [root.get("backlog"), root.get("late").filter(|_| aborts)].into_iter().flatten() {
        let hint = match other.key.as_str() {
            "backlog" => "keep one of them: a preset says itself what becomes of releases that find their task busy",
            _ => "remove `late`: Hartstone counts what a job missed when it is done",
        };
        reader.push(
            Diagnostic::error(
                Code::ConflictingKeys,
                &other.key_span,
                format!("`{}` contradicts the `preset`", other.key),
            )
            .label("said in another way here")
            .also(&entry.value.span, "the preset")
            .hint(hint),
        );
    }
}

/// The settings of the file and the command line outside of slices and tasks.
struct Top<'n> {
    root: &'n Node,
    options: &'n Options,
    /// The file's `cpus`, and where they stand.
    cpus: Option<(Cpus, Place)>,
    /// The file's `policy`, and where it stands.
    policy: Option<(PolicySpec, &'n Entry)>,
    placement: Option<Placement>,
}

impl Top<'_> {
    /// Reads `windows` and `partitions`. Returns the places that messages about the tasks point at.
    fn table(&self, reader: &mut Reader, windows: &Entry, workload: &mut Workload) -> Vec<Place> {
        self.check_table_policy(reader, windows);
        if let (Some(_), Some(entry)) = (self.placement, self.root.get("placement")) {
            reader.push(
                Diagnostic::error(
                    Code::NotSupportedHere,
                    &entry.key_span,
                    "`placement` means nothing for a window table",
                )
                .label("a rule for partitioned policies")
                .hint("a partition with a policy such as `p-edf` may have a `placement`"),
            );
        }
        if !self.options.copies.is_empty() {
            reader.push(no_copies(&windows.key_span, "a window table"));
        }
        let table = table::read(reader, self.root.get("partitions"), windows);
        let (named, all) = table.cpus();
        let (machine, from_all) = self.machine(reader, named, all, &windows.key_span);
        workload.system.cpus = machine;
        workload.settings.cpus_from_all = from_all;
        table::build(reader, table, &machine, workload)
    }

    /// Reads `tasks` and `domains`. Returns the places that messages about the tasks point at; `None` when nothing says how to
    /// schedule them.
    fn tasks(&self, reader: &mut Reader, list: &Entry, workload: &mut Workload) -> Option<Vec<Place>> {
        for (key, label) in [
            ("be_start", "tasks have no best-effort partitions"),
            ("rules", "rules for activations of a window table"),
            ("missing_cpus", "a rule for the slices of a window table"),
        ] {
            if let Some(entry) = self.root.get(key) {
                reader.push(
                    Diagnostic::error(Code::NotSupportedHere, &entry.key_span, format!("`{key}` needs `windows`"))
                        .label(label)
                        .hint("remove it"),
                );
            }
        }
        let tasks = tasks::read(reader, list, &self.options.copies);
        let domains = self.root.get("domains").map(|entry| {
            self.beside_domains(reader, entry);
            domains::read(reader, entry)
        });
        let named = domains.as_ref().map_or_else(|| tasks.cpus(), Domains::cpus);
        let (mut machine, from_all) = self.machine(reader, named, named.is_empty(), &list.key_span);
        let policy = match &domains {
            Some(domains) => {
                domains.fit(reader, &machine);
                domains::domains_policy()
            }
            None => {
                let policy = with_placement(self.online_policy(reader, list)?, self.placement);
                placement_matters(reader, self.root, &policy);
                policy
            }
        };
        let place = match self.policy {
            Some((_, entry)) if self.options.policy.is_none() => &entry.value.span,
            _ => &list.key_span,
        };
        if let (None, None, Some((Cpus::Set(set), at))) = (self.options.cpus, &domains, &self.cpus)
            && let Some(hint) = number_not_count(set).filter(|_| policy.scope != Scope::Uniprocessor)
        {
            let fault = Diagnostic::warning(
                Code::UnsuitablePolicy,
                at,
                format!("a policy for several CPUs has only {}", cpus_text(set)),
            );
            reader.push(fault.label("CPU numbers, not a count").hint(hint));
        }
        fit_machine(reader, &policy, &mut machine, from_all, place);
        if let Some(fault) = self.options.policy.as_ref().and_then(policy::check) {
            reader.push(fault.diagnostic(place));
        }
        workload.system.policy = policy;
        workload.system.cpus = machine;
        workload.settings.cpus_from_all = from_all;
        let (heads, homes) = tasks.build(reader, &machine, &policy, domains.as_ref(), workload);
        if let Some(domains) = domains {
            (workload.system.domains, workload.domains) = domains.build(reader, &homes);
        }
        Some(heads)
    }

    /// The machine, and whether no CPU is named. `all`: some slice asks for all CPUs there are.
    fn machine(&self, reader: &mut Reader, named: CpuSet, all: bool, place: &Place) -> (CpuSet, bool) {
        match (self.options.cpus, &self.cpus) {
            (Some(count), _) => {
                let machine = machine_of(count, place).unwrap_or_else(|fault| {
                    reader.push(fault);
                    CpuSet::single(0)
                });
                (machine, false)
            }
            (None, Some((Cpus::Set(set), _))) => (*set, false),
            (None, cpus) => {
                let all = all || cpus.is_some();
                let there = self.options.machine.unwrap_or(CpuSet::EMPTY);
                match (named.is_empty(), there.is_empty()) {
                    (true, true) => (CpuSet::single(0), true),
                    (true, false) => (there, true),
                    (false, _) if all => (named.union(&there), false),
                    (false, _) => (named, false),
                }
            }
        }
    }

    fn check_table_policy(&self, reader: &mut Reader, windows: &Entry) {
        if let Some((policy, entry)) = self.policy
            && policy.scope != Scope::Table
        {
            let name = policy_name(&policy);
            reader.push(
                Diagnostic::error(
                    Code::UnsuitablePolicy,
                    &entry.value.span,
                    format!("`{name}` cannot schedule a window table"),
                )
                .label("an online policy")
                .also(&windows.key_span, "the table")
                .hint(format!("remove this line; a partition may have `policy: {name}` of its own")),
            );
        }
        if let Some(policy) = &self.options.policy
            && policy.scope != Scope::Table
        {
            let name = policy_name(policy);
            reader.push(
                Diagnostic::error(
                    Code::UnsuitablePolicy,
                    &windows.key_span,
                    format!("`--policy {name}` cannot be used with a window table"),
                )
                .label("the windows are the policy")
                .hint(format!("leave `--policy` out; a partition may have `policy: {name}` of its own")),
            );
        }
    }

    /// The keys that may not stand beside `domains`.
    fn beside_domains(&self, reader: &mut Reader, domains: &Entry) {
        let own = self.policy.filter(|(policy, _)| *policy != domains::domains_policy()).map(|(_, entry)| entry);
        for entry in own.into_iter().chain(self.root.get("placement")) {
            reader.push(
                Diagnostic::error(
                    Code::ConflictingKeys,
                    &entry.key_span,
                    format!("a workload has both `domains` and `{}`", entry.key),
                )
                .label("of all tasks")
                .also(&domains.key_span, "each domain has its own")
                .hint("remove one of them"),
            );
        }
        if let Some(policy) = self.options.policy.filter(|policy| *policy != domains::domains_policy()) {
            let name = policy_name(&policy);
            reader.push(
                Diagnostic::error(
                    Code::UnsuitablePolicy,
                    &domains.key_span,
                    format!("`--policy {name}` cannot be used with domains"),
                )
                .label("each domain has its own policy")
                .hint("leave `--policy` out, or remove `domains` from the file"),
            );
        }
    }

    /// The policy of a task list, or the faults of having none.
    fn online_policy(&self, reader: &mut Reader, list: &Entry) -> Option<PolicySpec> {
        let (policy, place) = match (self.options.policy, self.policy) {
            (Some(policy), _) => (policy, &list.key_span),
            (None, Some((policy, entry))) => (policy, &entry.value.span),
            (None, None) => {
                // One that could not be read was reported.
                if self.root.get("policy").is_none() {
                    reader.push(no_policy(&list.key_span));
                }
                return None;
            }
        };
        if policy.scope == Scope::Table {
            reader.push(needs_a_table(&policy, place, "this file has `tasks`"));
            return None;
        }
        Some(policy)
    }

    /// Reads what a simulated machine costs, and what happens to it.
    fn surroundings(&self, reader: &mut Reader, workload: &mut Workload) {
        let root = self.root;
        (workload.scenario.costs, workload.scenario.metered) =
            root.get("costs").map(|e| scenario::costs(reader, e)).unwrap_or_default();
        let deciding = root.get("deciding");
        workload.scenario.deciding =
            deciding.and_then(|e| reader.choice(&e.value, "deciding", &DECIDING)).unwrap_or_default();
        workload.scenario.steal = root.get("steal").and_then(|e| scenario::steal(reader, e));
        if let Some(entry) = root.get("changes") {
            let own = self.options.policy.map(|policy| self.policy.map_or(policy, |(own, _)| own));
            scenario::changes(reader, entry, own, workload);
        }
    }
}
