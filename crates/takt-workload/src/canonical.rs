//! The canonical form of a workload: every default written out, in YAML.

use crate::calls;
use crate::load::load_text;
use crate::policy::{policy_text, value_text};
use crate::process::{EventSource, Reaction};
use crate::process::{Output, ProcessSettings};
use crate::scenario::{CONSUMED, COST_KEYS, TIMING_KEYS};
use crate::steps::{runtime_of_steps, step_text};
use crate::task as keys;
use crate::utility::{amount_text, utility_text};
use crate::value::{duration_text, parse_bool, ratio_text};
use crate::{Client, DEFAULT_INIT_TIMEOUT, Descriptors, MissingCpus, OnCrash, Realtime, Settings, Spawn, Workload};
use std::fmt::Write;
use takt_core::cpus::CpuSet;
use takt_core::input::Input;
use takt_core::model::{
    Arrival, Backlog, BestEffortStart, Execution, Late, Locking, PartitionId, Placement, PolicySpec, Server,
    TableRules, Task,
};
use takt_core::scenario::{Costs, Deciding};
use takt_core::time::{Span, Time};
use takt_core::utility::UNIT;

/// Writes the workload out in full: partitions with names, slices with CPUs, processes with budgets. Loaded
/// with the same [`crate::Options`] it gives the same system, names and settings. A workload that uses nothing
/// but what DEmOS has is written with nothing but DEmOS's keys, as long as its times are whole milliseconds.
#[must_use]
pub fn canonical(workload: &Workload) -> String {
    let mut out = String::new();
    write_settings(&mut out, workload);
    write_servers(&mut out, workload);
    if workload.system.windows.is_empty() {
        write_tasks(&mut out, workload);
    } else {
        write_partitions(&mut out, workload);
        write_windows(&mut out, workload);
    }
    write_changes(&mut out, workload);
    out
}

/// Appends a line. Writing to a string cannot fail.
macro_rules! line {
    ($out:expr, $($arg:tt)*) => {
        writeln!($out, $($arg)*).expect("a string takes any text")
    };
}

fn write_settings(out: &mut String, workload: &Workload) {
    let (system, settings) = (&workload.system, &workload.settings);
    let default = Settings::default();
    line!(out, "set_cwd: {}", if settings.directory.is_some() { "yes" } else { "no" });
    if let Some(cpus) = &settings.scheduler_cpus {
        line!(out, "demos_cpu: {cpus}");
    }
    if system.windows.is_empty() && system.domains.is_empty() {
        line!(out, "policy: {}", policy_text(&system.policy));
        write_placement(out, "", &system.policy);
    }
    write_domains(out, workload);
    let named = match system.windows.is_empty() {
        false => system.windows.iter().flat_map(|w| &w.slices).fold(CpuSet::EMPTY, |all, s| all.union(&s.cpus)),
        true => CpuSet::EMPTY,
    };
    if !settings.cpus_from_all && named != system.cpus {
        line!(out, "cpus: {}", system.cpus);
    }
    if system.seed != 0 {
        line!(out, "seed: {}", system.seed);
    }
    if let Some(duration) = settings.duration {
        line!(out, "duration: {}", duration_text(duration));
    }
    if let Some(power) = &workload.power {
        line!(out, "power: {:?}", crate::power_text(power));
    }
    match &settings.epp[..] {
        [] => {}
        [(cpus, name)] if *cpus == system.cpus => line!(out, "epp: {name}"),
        parts => {
            let parts: Vec<String> = parts.iter().map(|(cpus, name)| format!("\"{cpus}\": {name}")).collect();
            line!(out, "epp: {{{}}}", parts.join(", "));
        }
    }
    if let Some(platform) = &workload.platform {
        line!(out, "platform: {}", platform.text());
    }
    match system.late {
        Late::Continue if !settings.late_stated => {}
        Late::Continue => line!(out, "late: continue"),
        Late::Abort => line!(out, "late: abort"),
        Late::AbortAtEvent => line!(out, "late: abort-at-event"),
    }
    match system.backlog {
        Backlog::Queue => {}
        Backlog::Skip => line!(out, "backlog: skip"),
        Backlog::Chronos => line!(out, "preset: chronos"),
        Backlog::Hartstone => line!(out, "preset: hartstone"),
    }
    match system.locking {
        Locking::Inheritance => {}
        Locking::Fifo => line!(out, "locking: fifo"),
        Locking::Ceiling => line!(out, "locking: ceiling"),
    }
    if !workload.resources.is_empty() {
        let names: Vec<String> = workload.resources.iter().map(|name| scalar(name)).collect();
        line!(out, "resources: [{}]", names.join(", "));
    }
    write_machine(out, workload);
    if system.be_start == BestEffortStart::SliceDone {
        line!(out, "be_start: slice");
    }
    if system.rules == TableRules::Demos {
        line!(out, "rules: demos");
    }
    if settings.missing_cpus == MissingCpus::Remap {
        line!(out, "missing_cpus: remap");
    }
    if settings.init_timeout != DEFAULT_INIT_TIMEOUT {
        line!(out, "init_timeout: {}", duration_text(settings.init_timeout));
    }
    if settings.exec_limit != default.exec_limit {
        line!(out, "exec_limit: {}", settings.exec_limit);
    }
    if settings.realtime != default.realtime || system.rules == TableRules::Demos {
        let text = match settings.realtime {
            Realtime::Auto => "auto",
            Realtime::Yes => "yes",
            Realtime::No => "no",
        };
        line!(out, "realtime: {text}");
    }
    if settings.priority != default.priority {
        line!(out, "priority: {}", settings.priority);
    }
    if settings.dispatch != default.dispatch {
        line!(out, "dispatch: {}", settings.dispatch.name());
    }
    if settings.descriptors == Descriptors::Few {
        line!(out, "descriptors: few");
    }
    if settings.on_crash == OnCrash::Release {
        line!(out, "on_crash: release");
    }
}

/// Keys that only a simulated machine has.
fn write_machine(out: &mut String, workload: &Workload) {
    let (timing, scenario) = (&workload.system.timing, &workload.scenario);
    for (key, span) in TIMING_KEYS.into_iter().zip([timing.tick, timing.resolution, timing.lateness]) {
        if span != Span::ZERO {
            line!(out, "{key}: {}", duration_text(span));
        }
    }
    if let Some(load) = &workload.system.load {
        line!(out, "load: {}", load_text(load));
    }
    let costs = &scenario.costs;
    let Costs { context_switch, migration, cache_reload, scheduler, scheduler_task, lock, interrupt } = *costs;
    let spans = [context_switch, migration, cache_reload, scheduler, scheduler_task, lock, interrupt];
    let mut costs: Vec<String> = COST_KEYS
        .into_iter()
        .zip(spans)
        .filter(|(_, span)| *span != Span::ZERO)
        .map(|(key, span)| format!("{key}: {}", duration_text(span)))
        .collect();
    if scenario.metered {
        costs.push(format!("{CONSUMED}: no"));
    }
    if !costs.is_empty() {
        line!(out, "costs: {{{}}}", costs.join(", "));
    }
    if scenario.deciding == Deciding::Concurrent {
        line!(out, "deciding: each");
    }
    if let Some(steal) = &scenario.steal {
        line!(out, "steal: {{period: {}, length: {}}}", duration_text(steal.period), duration_text(steal.length));
    }
}

fn write_domains(out: &mut String, workload: &Workload) {
    if !workload.domains.is_empty() {
        line!(out, "domains:");
    }
    for (domain, name) in workload.system.domains.iter().zip(&workload.domains) {
        line!(out, "  - name: {}", scalar(name));
        line!(out, "    cpus: {}", domain.cpus);
        if domain.band != 0 {
            line!(out, "    band: {}", domain.band);
        }
        line!(out, "    policy: {}", policy_text(&domain.policy));
        write_placement(out, "    ", &domain.policy);
    }
}

fn write_servers(out: &mut String, workload: &Workload) {
    if !workload.servers.is_empty() {
        line!(out, "servers:");
    }
    for (Server { reservation, priority }, name) in workload.system.servers.iter().zip(&workload.servers) {
        line!(out, "  - name: {}", scalar(name));
        line!(out, "    budget: {}", duration_text(reservation.budget));
        line!(out, "    period: {}", duration_text(reservation.period));
        if *priority != 0 {
            line!(out, "    priority: {priority}");
        }
    }
}

fn write_changes(out: &mut String, workload: &Workload) {
    if workload.scenario.changes.is_empty() {
        return;
    }
    line!(out, "changes:");
    // The settings are those of the policy at that time.
    let mut policy = &workload.system.policy;
    for (at, change) in &workload.scenario.changes {
        let name = |task: &takt_core::model::TaskId| scalar(&workload.tasks[task.index()].name);
        let what = match change {
            Input::Share { task, share, importance } => {
                let share = share.map_or(String::new(), |s| format!(", share: {}", ratio_text(i64::from(s))));
                format!("task: {}{share}, importance: {importance}", name(task))
            }
            Input::Retime { task, period, deadline, runtime } => {
                let deadline = deadline.map_or("none".to_owned(), duration_text);
                let runtime = runtime.map_or(String::new(), |r| format!(", runtime: {}", duration_text(r)));
                format!("task: {}, period: {}, deadline: {deadline}{runtime}", name(task), duration_text(*period))
            }
            Input::Configure { setting, value } => {
                let setting = &policy.profile.settings[usize::from(*setting)];
                let value = value.map_or("default".to_owned(), |value| value_text(setting, value));
                format!("policy: {{{}: {value}}}", setting.name)
            }
            Input::Switch { domain, to } => {
                let to = &workload.system.alternatives[usize::from(*to)];
                let domain = match domain {
                    Some(domain) => format!("domain: {}, ", scalar(&workload.domains[usize::from(*domain)])),
                    None => {
                        policy = to;
                        String::new()
                    }
                };
                format!("{domain}policy: {}", scalar(&policy_text(to)))
            }
            Input::Skew { task, by } => format!("task: {}, skew: {}", name(task), duration_text(*by)),
            Input::Block { task } => format!("task: {}, block: yes", name(task)),
            Input::Wake { task } => format!("task: {}, wake: yes", name(task)),
            Input::Enter { task } => format!("task: {}, enter: yes", name(task)),
            Input::Leave { task } => format!("task: {}, leave: yes", name(task)),
            Input::Release { task } => format!("task: {}, release: yes", name(task)),
            // No key of a file says anything else.
            _ => continue,
        };
        line!(out, "  - {{at: {}, {what}}}", duration_text(*at - Time::ZERO));
    }
}

fn write_placement(out: &mut String, indent: &str, policy: &PolicySpec) {
    if policy.placement != Placement::DEFAULT
        && let Some((name, _)) = Placement::ALL.iter().find(|(_, p)| *p == policy.placement)
    {
        line!(out, "{indent}placement: {name}");
    }
}

fn write_partitions(out: &mut String, workload: &Workload) {
    if workload.partitions.is_empty() {
        return;
    }
    line!(out, "partitions:");
    for (partition, name) in workload.system.partitions.iter().zip(&workload.partitions) {
        line!(out, "  - name: {}", scalar(name));
        if let Some(policy) = &partition.policy {
            line!(out, "    policy: {}", policy_text(policy));
            write_placement(out, "    ", policy);
        }
        line!(out, "    processes:");
        for (k, id) in partition.tasks.iter().enumerate() {
            let own = format!("{name}-{}", k + 1);
            write_task(out, workload, id.index(), &own, None);
        }
    }
}

fn write_tasks(out: &mut String, workload: &Workload) {
    line!(out, "tasks:");
    for i in 0..workload.tasks.len() {
        // A name is what a reader looks for in a list of tasks, so it is always there.
        let home = workload.system.domains.iter().position(|d| d.tasks.iter().any(|t| t.index() == i));
        let home = home.filter(|_| workload.tasks[i].class.is_none());
        let room = home.map_or(&workload.system.cpus, |home| &workload.system.domains[home].cpus);
        write_task(out, workload, i, "", Some((room, home.map(|home| workload.domains[home].as_str()))));
    }
}

/// One process or task; `own` is the name that it has anyway, `room` the affinity that it has anyway, and its domain.
fn write_task(out: &mut String, workload: &Workload, index: usize, own: &str, room: Option<(&CpuSet, Option<&str>)>) {
    let (task, info): (&Task, _) = (&workload.system.tasks[index], &workload.tasks[index]);
    let mut fields: Vec<(&str, String)> = Vec::new();
    if info.name != own {
        fields.push(("name", scalar(&info.name)));
    }
    if let Some(cmd) = &info.cmd {
        fields.push(("cmd", scalar(cmd)));
    }
    fields.extend(info.thread_of.map(|of| ("thread_of", scalar(&workload.tasks[of.index()].name))));
    write_arrival(&mut fields, index, workload);
    // The runtime of a program that asks for other terms may be longer than its first deadline. Its steps have it; stated, it would be refused.
    let of_program = calls::is_program(task) && runtime_of_steps(task) > task.deadline;
    fields.extend(task.runtime.filter(|_| !of_program).map(|r| ("runtime", duration_text(r))));
    let list = |items: Vec<String>| format!("[{}]", items.join(", "));
    if !task.program.steps.is_empty() {
        let steps = task.program.steps.iter().map(|step| step_text(step, &workload.resources, scalar));
        fields.push(("steps", list(steps.collect())));
    }
    match &task.program.execution {
        Execution::Declared => {}
        Execution::Uniform { least, most } => {
            fields.push(("execution", format!("{{least: {}, most: {}}}", duration_text(*least), duration_text(*most))));
        }
        Execution::Series(spans) => {
            fields.push(("execution", list(spans.iter().copied().map(duration_text).collect())));
        }
    }
    fields.extend(task.reservation.map(|r| {
        let deadline = r.deadline.map_or(String::new(), |d| format!(", deadline: {}", duration_text(d)));
        let (budget, period) = (duration_text(r.budget), duration_text(r.period));
        ("reservation", format!("{{budget: {budget}{deadline}, period: {period}}}"))
    }));
    fields.extend(task.server.map(|server| ("server", scalar(&workload.servers[server.index()]))));
    fields.extend(task.handler.map(|handler| {
        let mut keys = vec![format!("runtime: {}", duration_text(handler.runtime))];
        keys.extend(handler.deadline.map(|d| format!("deadline: {}", duration_text(d))));
        if handler.utility != UNIT {
            keys.push(format!("utility: {}", amount_text(handler.utility)));
        }
        ("handler", if keys.len() == 1 { duration_text(handler.runtime) } else { format!("{{{}}}", keys.join(", ")) })
    }));
    fields.extend(task.utility.as_ref().map(|utility| ("utility", utility_text(utility))));
    fields.extend(task.budget.map(|b| ("budget", milliseconds(b))));
    if task.jitter != Span::ZERO {
        fields.push(("jitter", milliseconds(task.jitter)));
    }
    if task.priority != 0 {
        fields.push(("priority", task.priority.to_string()));
    }
    fields.extend(task.share.map(|s| ("share", ratio_text(i64::from(s)))));
    if task.importance != 1 {
        fields.push(("importance", task.importance.to_string()));
    }
    if let Some((cpus, domain)) = room {
        fields.extend(domain.map(|domain| ("domain", scalar(domain))));
        if task.affinity != *cpus {
            fields.push(("cpu", task.affinity.to_string()));
        }
    }
    fields.extend(info.class.map(|class| ("class", class.to_string())));
    if info.init && info.thread_of.is_none() {
        fields.push(("init", "yes".to_owned()));
    }
    if info.spawn == Spawn::PerJob {
        fields.push(("spawn", "per-job".to_owned()));
    }
    fields.extend(info.completion.map(|c| ("completion", keys::completion_text(c, info.observed).to_owned())));
    if info.client == Client::None {
        fields.push(("client", keys::client_text(info.client).to_owned()));
    }
    fields.extend(info.on_abort.map(|rule| ("on_abort", keys::on_abort_text(rule, info.abort_signal))));
    fields.extend(info.on_exit.map(|rule| ("on_exit", keys::on_exit_text(rule).to_owned())));
    fields.extend(info.on_miss.as_ref().map(|reaction| ("on_miss", reaction_text(reaction))));
    fields.extend(info.on_overrun.as_ref().map(|reaction| ("on_overrun", reaction_text(reaction))));
    fields.extend(info.output.as_deref().map(|output| ("output", output_text(output))));
    if let Some(settings) = &info.settings {
        write_settings_of_process(&mut fields, settings);
    }
    fields.extend(info.frequency_mhz.map(|f| ("frequency", f.to_string())));
    let indent = if room.is_some() { "  " } else { "      " };
    for (n, (key, text)) in fields.iter().enumerate() {
        let dash = if n == 0 { "- " } else { "  " };
        line!(out, "{indent}{dash}{key}: {text}");
    }
}

fn output_text(output: &Output) -> String {
    match output {
        Output::Inherit => "inherit".to_owned(),
        Output::Null => "null".to_owned(),
        Output::File { path, truncate: false } => scalar(&path.to_string_lossy()),
        Output::File { path, truncate: true } => {
            format!("{{file: {}, truncate: yes}}", scalar(&path.to_string_lossy()))
        }
    }
}

fn write_settings_of_process(fields: &mut Vec<(&str, String)>, settings: &ProcessSettings) {
    let ProcessSettings { user, group, env, cwd, umask, limits } = settings;
    fields.extend(user.as_ref().map(|user| ("user", scalar(user))));
    fields.extend(group.as_ref().map(|group| ("group", scalar(group))));
    if !env.is_empty() {
        let value = |value: &Option<String>| value.as_ref().map_or("~".to_owned(), |value| scalar(value));
        let env: Vec<String> = env.iter().map(|(name, v)| format!("{}: {}", scalar(name), value(v))).collect();
        fields.push(("env", format!("{{{}}}", env.join(", "))));
    }
    fields.extend(cwd.as_ref().map(|cwd| ("cwd", scalar(&cwd.to_string_lossy()))));
    fields.extend(umask.map(|umask| ("umask", format!("{umask:03o}"))));
    if !limits.is_empty() {
        let limits: Vec<String> = limits.iter().map(|limit| format!("{}: '{limit}'", limit.name)).collect();
        fields.push(("limits", format!("{{{}}}", limits.join(", "))));
    }
}

/// A list of instants.
fn instants_text(instants: &[Span]) -> String {
    let instants: Vec<String> = instants.iter().copied().map(duration_text).collect();
    format!("[{}]", instants.join(", "))
}

/// The text of a source of events: its key and its value.
fn source_text(source: &EventSource) -> String {
    match source {
        EventSource::Descriptor(number) => format!("fd: {number}"),
        EventSource::Pipe(path) => format!("pipe: {}", scalar(&path.to_string_lossy())),
        EventSource::Udp(address) => format!("udp: \"{address}\""),
        EventSource::Signal(name) => format!("signal: {name}"),
        EventSource::Segments => "segments: yes".to_owned(),
        EventSource::WakeUp => "wakeup: yes".to_owned(),
    }
}

/// When its jobs are released, and their deadline, which is the period unless said otherwise.
fn write_arrival(fields: &mut Vec<(&str, String)>, index: usize, workload: &Workload) {
    let task = &workload.system.tasks[index];
    match &task.arrival {
        Arrival::Periodic { offset, period } | Arrival::Sporadic { offset, period, .. } => {
            fields.push(("period", duration_text(*period)));
            if let Arrival::Sporadic { spread, .. } = &task.arrival {
                fields.push(("spread", duration_text(*spread)));
            }
            if *offset != Span::ZERO {
                fields.push(("offset", duration_text(*offset)));
            }
        }
        Arrival::Listed { instants } if instants.is_empty() => fields.push(("releases", "never".to_owned())),
        Arrival::Listed { instants } => {
            fields.push(("releases", instants_text(instants)));
        }
        Arrival::Event { distance, queue, after } => {
            let mut event = Vec::new();
            event.extend(after.map(|first| format!("after: {}", scalar(&workload.tasks[first.index()].name))));
            event.extend(workload.tasks[index].event.as_deref().map(source_text));
            event.push(format!("distance: {}, queue: {queue}", duration_text(*distance)));
            let all = &workload.scenario.events;
            let simulated = all.binary_search_by_key(&index, |(task, _)| task.index());
            event.extend(simulated.map(|found| match &all[found].1 {
                Arrival::Listed { instants } => format!("releases: {}", instants_text(instants)),
                Arrival::Sporadic { spread, .. } => format!("spread: {}", duration_text(*spread)),
                other => unreachable!("no key of a file gives events {other:?}"),
            }));
            fields.push(("event", format!("{{{}}}", event.join(", "))));
        }
        Arrival::Activated => return,
    }
    match (task.deadline, task.arrival.period()) {
        (deadline, period) if deadline == period => {}
        (Some(deadline), _) => fields.push(("deadline", duration_text(deadline))),
        (None, _) => fields.push(("deadline", "none".to_owned())),
    }
}

fn write_windows(out: &mut String, workload: &Workload) {
    line!(out, "windows:");
    for (w, window) in workload.system.windows.iter().enumerate() {
        line!(out, "  - length: {}", milliseconds(window.length));
        if window.slices.is_empty() {
            continue;
        }
        line!(out, "    slices:");
        for (s, slice) in window.slices.iter().enumerate() {
            match workload.settings.cpus_from_all {
                true => line!(out, "      - cpu: all"),
                false => line!(out, "      - cpu: {}", slice.cpus),
            }
            let name = |id: PartitionId| scalar(&workload.partitions[id.index()]);
            if let Some(id) = slice.sc {
                line!(out, "        sc_partition: {}", name(id));
            }
            if let Some(id) = slice.be {
                line!(out, "        be_partition: {}", name(id));
            }
            let frequency = workload.slice_frequencies_mhz.get(w).and_then(|f| *f.get(s)?);
            if let Some(f) = frequency {
                line!(out, "        frequency: {f}");
            }
        }
    }
}

/// DEmOS's bare number of milliseconds where that is exact, else a duration with its unit.
fn milliseconds(span: Span) -> String {
    if span.ns() % 1_000_000 == 0 { (span.ns() / 1_000_000).to_string() } else { duration_text(span) }
}

/// As the file takes it.
fn reaction_text(reaction: &Reaction) -> String {
    match reaction {
        Reaction::Log => "log".to_owned(),
        Reaction::Signal(name) => format!("signal={name}"),
        Reaction::Exec(command) => format!("{{exec: {}}}", scalar(command)),
        Reaction::Stop => "stop".to_owned(),
    }
}

/// A YAML scalar that every reader takes for this very text.
fn scalar(text: &str) -> String {
    let plain_char = |c: char| c.is_ascii_alphanumeric() || "_-./ ".contains(c);
    let plain = text.chars().all(plain_char)
        && (text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/') || text.starts_with("./"))
        && !text.ends_with(' ')
        && !text.contains("  ")
        && !matches!(text.to_ascii_lowercase().as_str(), "null" | "nan" | "inf")
        && parse_bool(text).is_none();
    if plain {
        return text.to_owned();
    }
    if text.chars().all(|c| !c.is_control() && !"\u{85}\u{2028}\u{2029}\u{feff}".contains(c)) {
        return format!("'{}'", text.replace('\'', "''"));
    }
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() || "\u{2028}\u{2029}\u{feff}".contains(c) => {
                write!(out, "\\u{:04x}", u32::from(c)).expect("a string takes any text");
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
