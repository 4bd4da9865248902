//! The executive's machine on Linux: [`Mechanism`] under both threads.

use crate::actuator::{Actuator, Blocked, Groups, Processes, Rung, Times, Wait};
use crate::life::{Incarnation, SOURCE, completion_data};
use crate::observation::Observation;
use crate::plan::{self, EventSource, Plan, TaskEnd, Threads};
use crate::report::{Attempt, Error};
use crate::sources::Source;
use rustix::process::{Pid, Signal, WaitOptions};
use std::cell::RefCell;
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex, OnceLock};
use takt_abi::{Job, Statistics, Status};
use takt_core::cpus::CpuSet;
use takt_core::model::{System, TaskId};
use takt_core::record::{JobId, Place};
use takt_core::time::Span;
use takt_linux::power::Requests;
use takt_linux::rt::{self, Class};
use takt_linux::{
    Group, Identity, JobEnds, Mechanism, Output, PartitionHandle, SharedPage, SpawnSpec, ThreadState, Tracepoints,
    Unavailable, disturbance, protocol, service, timer,
};

/// With more processes, the descriptor CONTINUE is fetched from each process when it is needed (`pidfd_getfd`). That requires the right to
/// trace the process, which a change of its user removes.
const COPIES_MAX: usize = 256;
/// The directory of this program. The link of the kernel is read once, not for each process.
static OWN: LazyLock<Option<PathBuf>> =
    LazyLock::new(|| std::env::current_exe().ok()?.parent().map(std::path::Path::to_path_buf));

/// By task: the page of its program, if that signals completions; made with the first process of the task, so that few of its descriptors
/// are open at a time.
pub(crate) type Pages = Arc<Vec<OnceLock<SharedPage>>>;

/// By task: what outside the schedule releases its jobs.
pub(crate) type Sources = Arc<Vec<Option<Source>>>;

/// By task: the ends of jobs of its present process, where the kernel reports them. The supervisor changes an entry only while the task has no
/// process, so the scheduler never finds it locked by that.
pub(crate) type Ends = Arc<Vec<Mutex<Option<JobEnds>>>>;

/// The last end of a job of a task's process, if it was at this instant or later.
fn ended_job(ends: &Ends, task: TaskId, since: Span) -> Option<Span> {
    ends[task.index()].try_lock().ok()?.as_mut()?.take(since)
}

/// The scheduler's side.
pub(crate) struct Acts {
    pub(crate) mechanism: Arc<Mechanism>,
    pub(crate) pages: Pages,
    pub(crate) sources: Sources,
    /// Where the sources are heard.
    pub(crate) epoll: OwnedFd,
    pub(crate) ends: Ends,
    /// Readable when the supervisor is to look at its requests.
    pub(crate) wake: OwnedFd,
    /// Where blocks and wake-ups are observed.
    pub(crate) observation: Option<RefCell<Observation>>,
    /// With a power policy.
    pub(crate) power: Option<Requests>,
}

impl Actuator for Acts {
    type Resume = OwnedFd;
    fn now(&self) -> Span {
        timer::now()
    }
    fn grain(&self) -> Span {
        Span::from_us(100)
    }
    fn stop(&self, group: Group) -> io::Result<()> {
        self.mechanism.freeze(group)
    }
    fn start(&self, group: Group) -> io::Result<()> {
        self.mechanism.thaw(group)
    }
    fn set_priority(&self, group: Group, priority: u8) -> io::Result<()> {
        self.mechanism.set_priority(group, priority)
    }
    fn set_leader_class(&self, group: Group, class: Class) -> io::Result<()> {
        self.mechanism.set_leader_class(group, class)
    }
    fn assign(&self, partition: PartitionHandle, cpus: &CpuSet) -> io::Result<()> {
        self.mechanism.set_cpus(partition, cpus)
    }
    fn cpu_time(&self, group: Group) -> Option<Span> {
        self.mechanism.cpu_time(group)
    }
    fn signal(&self, group: Group, signal: Signal) -> io::Result<()> {
        self.mechanism.signal_leader(group, signal)
    }
    fn resume(&self, by: &OwnedFd) -> io::Result<()> {
        protocol::send_continue(by)
    }
    fn ended_job(&self, task: TaskId, since: Span) -> Option<Span> {
        ended_job(&self.ends, task, since)
    }
    fn follow(&self, task: TaskId, group: Option<Group>) {
        let Some(observation) = &self.observation else { return };
        let leader = group.and_then(|group| self.mechanism.leader(group));
        observation.borrow_mut().follow(task, leader, leader.as_slice());
    }
    fn watch(&self, task: TaskId, watched: Option<Blocked>) {
        self.observation.iter().for_each(|observation| observation.borrow().watch(task, watched));
    }
    fn samples_waits(&self) -> bool {
        let observation = self.observation.as_ref();
        observation.is_some_and(|observation| matches!(*observation.borrow(), Observation::States(_)))
    }
    fn has_waits(&self) -> bool {
        self.observation.as_ref().is_some_and(|observation| observation.borrow().has_waits())
    }
    fn take_wait(&self, until: Span) -> Option<Wait> {
        self.observation.as_ref()?.borrow_mut().take(until)
    }
    fn hear_waits(&self, heard: bool) {
        // Without notices the records are read at other wake-ups.
        let _ = self.observation.as_ref().map(|observation| observation.borrow().hear(&self.epoll, heard));
    }
    fn stops_as_sleep(&self) -> bool {
        self.mechanism.stops_as_sleep()
    }
    fn rung(&self, task: TaskId, last: u32) -> Rung {
        Rung::by(self.page(task).map(Deref::deref), last)
    }
    fn answer(&self, task: TaskId, number: u32, status: Status) {
        if let Some(page) = self.page(task) {
            page.answer(number, status);
            page.wake();
        }
    }
    fn waits(&self, task: TaskId) -> bool {
        self.page(task).is_some_and(SharedPage::is_awaited)
    }
    fn begin(&self, task: TaskId, job: Job) {
        self.page(task).into_iter().for_each(|page| page.begin(job));
    }
    fn abort(&self, task: TaskId, job: JobId) {
        self.page(task).into_iter().for_each(|page| page.abort(job));
    }
    fn tell(&self, task: TaskId, statistics: Statistics) {
        self.page(task).into_iter().for_each(|page| page.tell(statistics));
    }
    fn hear_source(&self, task: TaskId) {
        if let Some(source) = &self.sources[task.index()] {
            source.heard();
        }
    }
    fn mute_source(&self, task: TaskId, muted: bool) -> io::Result<()> {
        let data = completion_data(task, SOURCE);
        self.sources[task.index()].as_ref().map_or(Ok(()), |source| source.mute(&self.epoll, data, muted))
    }
    fn wake_supervisor(&self) {
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }
    fn set_frequency(&self, domain: u16, khz: u32) {
        self.power.iter().for_each(|power| power.frequency(domain.into(), khz));
    }
    fn limit_latency(&self, cpu: Place, limit_us: Option<u32>) {
        self.power.iter().for_each(|power| power.latency(cpu.index(), limit_us));
    }
    fn post_power(&self, planned: Option<Span>) {
        self.power.iter().for_each(|power| power.post(planned));
    }
    fn set_frame(&self, length: Span) {
        self.power.iter().for_each(|power| power.set_frame(length));
    }
}

impl Acts {
    fn page(&self, task: TaskId) -> Option<&SharedPage> {
        self.pages[task.index()].get()
    }
}

impl Groups for Mechanism {
    fn add(&mut self, cpus: &CpuSet, groups: usize, moves: bool) -> io::Result<PartitionHandle> {
        let partition = self.add_partition(cpus, groups)?;
        if moves {
            self.expect_cpu_changes(partition)?;
        }
        Ok(partition)
    }
}

/// The supervisor's side.
pub(crate) struct Children {
    mechanism: Arc<Mechanism>,
    plan: Arc<Plan>,
    /// Where completions are heard.
    epoll: OwnedFd,
    /// By task: where its standard output goes.
    outputs: Vec<Option<File>>,
    /// By task: the number of the continue descriptor in its process.
    continue_numbers: Vec<RawFd>,
    /// By task: a copy of that descriptor, if there are not too many.
    continues: Vec<Option<OwnedFd>>,
    pages: Pages,
    sources: Sources,
    ends: Ends,
    /// By task: where those are found.
    tracepoints: Vec<Option<Tracepoints>>,
    /// By task: the descriptor of its page, for as long as a process of it can be started.
    page_files: Vec<Option<OwnedFd>>,
    /// Which tasks can have more than one process.
    replaceable: Vec<bool>,
    threads: Threads,
}

impl Children {
    /// Opens the files for the processes' output.
    pub(crate) fn new(
        mechanism: Arc<Mechanism>,
        plan: Arc<Plan>,
        system: &System,
        epoll: OwnedFd,
    ) -> Result<Children, Error> {
        let mut outputs = Vec::with_capacity(plan.processes.len());
        for process in &plan.processes {
            outputs.push(output(&plan, process)?);
        }
        let mut sources = Vec::with_capacity(plan.processes.len());
        for (process, task) in plan.processes.iter().zip((0..).map(TaskId)) {
            let open = |source: &EventSource| {
                let opened = Source::open(source, plan.directory.as_deref(), process.settings.identity.as_ref());
                opened.map_err(|error| Error::Source { task, name: source.to_string(), source: error })
            };
            sources.push(process.event.as_ref().map(open).transpose()?);
        }
        let sources = Arc::new(sources);
        let mut tracepoints = Vec::with_capacity(plan.processes.len());
        for process in &plan.processes {
            let find = |of| {
                let points = Tracepoints::find(of)?;
                points.try_out().map(|()| points)
            };
            let found = process.observed.map(find).transpose();
            tracepoints.push(found.map_err(|lack| Unavailable {
                reason: format!("the ends of jobs of {} cannot be observed: {}", process.name, lack.reason),
                ..lack
            })?);
        }
        let ends = Arc::new(plan.processes.iter().map(|_| Mutex::new(None)).collect());
        let continue_numbers = vec![-1; outputs.len()];
        let continues = std::iter::repeat_with(|| None).take(outputs.len()).collect();
        let pages = std::iter::repeat_with(OnceLock::new).take(outputs.len()).collect();
        let page_files = std::iter::repeat_with(|| None).take(outputs.len()).collect();
        let mut replaceable = vec![false; outputs.len()];
        plan.replaceable(system).for_each(|task| replaceable[task.index()] = true);
        let threads = plan.threads();
        let pages = Arc::new(pages);
        Ok(Children {
            mechanism,
            plan,
            epoll,
            outputs,
            continue_numbers,
            continues,
            pages,
            sources,
            ends,
            tracepoints,
            page_files,
            replaceable,
            threads,
        })
    }

    /// Makes the page of a task whose program signals, unless it is there.
    fn make_page(&mut self, task: TaskId) -> io::Result<()> {
        let (index, page) = (task.index(), &self.pages[task.index()]);
        if self.plan.processes[index].signals && page.get().is_none() {
            let (shared, file) = SharedPage::new()?;
            let _ = page.set(shared);
            self.page_files[index] = Some(file);
        }
        Ok(())
    }

    /// The sources of events, which from now on are heard where completions are.
    pub(crate) fn listen(&self) -> io::Result<Sources> {
        for (task, source) in (0..).map(TaskId).zip(self.sources.iter()) {
            if let Some(source) = source {
                source.listen(&self.epoll, completion_data(task, SOURCE))?;
            }
        }
        Ok(self.sources.clone())
    }

    /// The pages, for the scheduler.
    pub(crate) fn pages(&self) -> Pages {
        self.pages.clone()
    }

    /// The ends of jobs, for the scheduler.
    pub(crate) fn ends(&self) -> Ends {
        self.ends.clone()
    }

    /// The tasks whose processes have ended a job, as the kernel reports. To be asked instead of the epoll: a `poll` of that takes
    /// the readiness of these descriptors away.
    pub(crate) fn ended_jobs(&self) -> Vec<TaskId> {
        let tasks = (0..).map(TaskId).zip(&self.tracepoints);
        let observed = tasks.filter(|(_, points)| points.is_some()).map(|(task, _)| task);
        observed.filter(|task| ended_job(&self.ends, *task, Span::ZERO).is_some()).collect()
    }

    pub(crate) fn is_observed(&self, task: TaskId) -> bool {
        self.tracepoints[task.index()].is_some()
    }

    /// Starts a process. The inner result is the kernel's refusal of its class, if the kernel is to schedule the process.
    fn try_spawn(
        &mut self,
        task: TaskId,
        group: Group,
        incarnation: Incarnation,
        class: Class,
    ) -> io::Result<io::Result<i32>> {
        let threads: Vec<TaskId> = self.threads.of(task).to_vec();
        for task in threads.iter().chain([&task]) {
            self.make_page(*task)?;
        }
        let (index, process) = (task.index(), &self.plan.processes[task.index()]);
        let mut spec = SpawnSpec::shell(&process.cmd)?;
        // The service manager takes messages of processes for those of Takt.
        service::VARIABLES.into_iter().for_each(|name| spec.remove_env(name));
        let settings = &process.settings;
        let path = |directory: &PathBuf| CString::new(directory.as_os_str().as_bytes()).map_err(io::Error::other);
        let own = settings.cwd.as_ref().map(path).transpose()?;
        match &settings.identity {
            // A path that its user could change leads to no directory that it could not enter.
            Some(_) if own.is_some() => spec.enters = own,
            _ => spec.cwd = own.or(self.plan.directory.as_ref().map(path).transpose()?),
        }
        let (stdout, stderr) = (std::io::stdout(), std::io::stderr());
        let identity = settings.identity.as_ref().filter(|identity| !identity.is_own());
        let unread = |fd: BorrowedFd<'_>| identity.and_then(|_| without_input(fd));
        let (unread_stdout, unread_stderr) = (unread(stdout.as_fd()), unread(stderr.as_fd()));
        if let Some(terminal) = &unread_stderr {
            spec.stderr = Output::Fd(terminal.as_fd());
        }
        match &self.outputs[index] {
            Some(file) => spec.stdout = Output::Fd(file.as_fd()),
            None if process.output == plan::Output::Null => spec.stdout = Output::Null,
            None if self.plan.output_to_stderr => {
                spec.stdout = Output::Fd(unread_stderr.as_ref().map_or(stderr.as_fd(), AsFd::as_fd));
            }
            None => spec.stdout = unread_stdout.as_ref().map_or(Output::Inherit, |fd| Output::Fd(fd.as_fd())),
        }
        let of_kernel = process.kernel.is_some_and(|kernel| kernel.class == class);
        // Its class is a step of its own, so that a refusal has its own message.
        spec.class = if of_kernel { Class::Other } else { class };
        spec.identity.clone_from(&settings.identity);
        spec.umask = settings.umask;
        spec.limits.clone_from(&settings.limits);
        if let Some(identity) = &settings.identity {
            spec.set_service_env(identity)?;
        }
        for (name, value) in &settings.env {
            match value {
                Some(value) => spec.set_env(name, value)?,
                None => spec.remove_env(name),
            }
        }
        // So that a command finds `takt burn` and `takt done` wherever this program was started from.
        if let Some(own) = OWN.as_deref() {
            let path = spec.get_env("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
            spec.set_env("PATH", &format!("{path}:{}", own.display()))?;
        }
        let channel = process.signals.then(|| protocol::Channel::new(process.init)).transpose()?;
        if let Some(channel) = &channel {
            channel.register_completion(&self.epoll, completion_data(task, incarnation))?;
            spec.set_env(protocol::VARIABLE, &channel.variable())?;
            spec.pass_fds.extend(channel.pass_fds());
            self.continue_numbers[index] = channel.continue_number();
            if self.plan.processes.len() <= COPIES_MAX && !self.plan.few_descriptors {
                self.continues[index] = Some(channel.continue_copy()?);
            }
        }
        match (&channel, self.pages[index].get(), &self.page_files[index]) {
            (Some(channel), Some(page), Some(file)) => {
                page.reset(process.abort_signal.map_or(0, |signal| signal.as_raw() as u32));
                spec.set_env(takt_abi::VARIABLE, &channel.client_variable(file))?;
                spec.set_env(takt_abi::RESOURCES, &self.plan.resources.join(","))?;
                spec.pass_fds.push((file.as_fd(), file.as_raw_fd()));
            }
            // One that signalled all the same would wait to be resumed.
            _ => {
                [protocol::VARIABLE, takt_abi::VARIABLE, takt_abi::RESOURCES]
                    .iter()
                    .for_each(|name| spec.remove_env(name));
            }
        }
        spec.remove_env("TAKT_EVENT");
        if let Some(descriptor) = self.sources[index].as_ref().and_then(Source::for_program) {
            spec.set_env("TAKT_EVENT", &descriptor.as_raw_fd().to_string())?;
            spec.pass_fds.push((descriptor, descriptor.as_raw_fd()));
        }
        spec.env.retain(|entry| !entry.to_bytes().starts_with(b"TAKT_THREADS="));
        let mut channels = Vec::with_capacity(threads.len());
        for thread in &threads {
            let channel = protocol::Channel::new(true)?;
            channel.register_completion(&self.epoll, completion_data(*thread, 0))?;
            channels.push(channel);
        }
        let mut lines = Vec::with_capacity(threads.len());
        for (thread, channel) in threads.iter().zip(&channels) {
            let process = &self.plan.processes[thread.index()];
            if let (Some(page), Some(file)) = (self.pages[thread.index()].get(), &self.page_files[thread.index()]) {
                page.reset(process.abort_signal.map_or(0, |signal| signal.as_raw() as u32));
                lines.push(format!("{},{},{}", file.as_raw_fd(), channel.completed_number(), process.name));
                spec.pass_fds.push((file.as_fd(), file.as_raw_fd()));
                spec.pass_fds.push(channel.pass_fds()[0]);
            }
        }
        if !threads.is_empty() {
            spec.set_env(takt_abi::THREADS, &lines.join("\n"))?;
            self.mechanism.host(group)?;
        }
        let spawned = self.mechanism.spawn(group, &spec)?;
        if of_kernel && let Err(refusal) = rt::set_class(spawned, class) {
            // It is frozen, and has run nothing.
            let _ = self.mechanism.kill(group);
            return Ok(Err(refusal));
        }
        if let Some(points) = &self.tracepoints[index] {
            let ends = JobEnds::open(points, spawned)?;
            ends.register(&self.epoll, completion_data(task, incarnation))?;
            *self.ends[index].lock().map_err(|_| io::Error::other("the scheduler thread failed"))? = Some(ends);
        }
        if !self.replaceable[index] {
            threads.into_iter().chain([task]).for_each(|task| self.page_files[task.index()] = None);
        }
        Ok(Ok(spawned))
    }
}

impl Processes for Children {
    type Resume = OwnedFd;
    fn now(&self) -> Span {
        timer::now()
    }
    fn take_in(&mut self, task: TaskId, plan: Arc<Plan>) -> Result<(), Error> {
        self.outputs[task.index()] = output(&plan, &plan.processes[task.index()])?;
        self.plan = plan;
        Ok(())
    }
    fn spawn(&mut self, task: TaskId, group: Group, incarnation: Incarnation, class: Class) -> Result<i32, Error> {
        let spawned = self.try_spawn(task, group, incarnation, class);
        let name = || self.plan.processes[task.index()].name.clone();
        let spawned = spawned.what(format!("cannot start {}", name()))?;
        spawned.map_err(|source| Error::ClassRefused { name: name(), class, source })
    }
    fn fetch(&self, task: TaskId, pid: i32) -> Option<OwnedFd> {
        match &self.continues[task.index()] {
            Some(copy) => copy.try_clone().ok(),
            None if self.continue_numbers[task.index()] < 0 => None,
            None => protocol::fetch_continue_fd(pid, self.continue_numbers[task.index()]).ok(),
        }
    }
    fn stop(&self, group: Group) -> io::Result<()> {
        self.mechanism.freeze(group)
    }
    fn start(&self, group: Group) -> io::Result<()> {
        self.mechanism.thaw(group)
    }
    fn prepare(&self, group: Group) -> io::Result<()> {
        self.mechanism.prepare(group)
    }
    fn kill(&self, group: Group) -> io::Result<()> {
        self.mechanism.kill(group)
    }
    fn ask_to_end(&self, group: Group) -> io::Result<()> {
        self.mechanism.set_class(group, Class::Idle);
        self.mechanism.signal_all(group, Signal::TERM)
    }
    fn set_class(&self, group: Group, class: Class) {
        self.mechanism.set_class(group, class);
    }
    fn adopt(&mut self, task: TaskId, program: Group, own: Group, class: Class) -> io::Result<()> {
        let page = self.pages[task.index()].get();
        let thread = page.map_or(0, |page| page.thread.load(std::sync::atomic::Ordering::Acquire));
        let refused = |e: io::Error| match e.raw_os_error() {
            Some(number) if number == rustix::io::Errno::SRCH.raw_os_error() => io::Error::other(format!(
                "{thread} is no thread of the process that the command starts (begin the command with `exec`)"
            )),
            Some(number) if number == rustix::io::Errno::BUSY.raw_os_error() => {
                io::Error::other(format!("thread {thread} is another task already"))
            }
            _ => e,
        };
        let number = i32::try_from(thread).unwrap_or(-1);
        self.mechanism.adopt(program, own, number, class).map_err(refused)
    }
    fn thread_state(&self, group: Group) -> ThreadState {
        self.mechanism.thread_state(group)
    }
    fn let_die(&self, group: Group) -> io::Result<()> {
        self.mechanism.let_die(group)
    }
    fn end_displaced(&self, group: Group) {
        self.mechanism.end_displaced(group);
    }
    fn forget_thread(&self, group: Group) {
        self.mechanism.forget_thread(group);
    }
    fn thread_time(&self, group: Group) -> Option<Span> {
        self.mechanism.thread_time(group)
    }
    fn threads(&self, group: Group) -> Option<usize> {
        self.mechanism.threads(group)
    }
    fn uses_page(&self, task: TaskId) -> bool {
        self.pages[task.index()].get().is_some_and(|page| page.is_attached())
    }
    fn set_priorities(&self, group: Group, priority: u8) {
        self.mechanism.set_priorities(group, priority);
    }
    fn take_back(&self, group: Group) -> io::Result<bool> {
        self.mechanism.take_back(group)
    }
    fn populated(&self, group: Group) -> io::Result<bool> {
        self.mechanism.populated(group)
    }
    fn notifies(&self) -> bool {
        self.mechanism.notifies()
    }
    /// Any child, since each is in a process group of its own; also those that the processes left to this subreaper.
    fn ended(&mut self) -> Option<i32> {
        disturbance::ended_child()
    }
    fn reap(&mut self, pid: i32) -> Option<TaskEnd> {
        let status = match rustix::process::waitpid(Pid::from_raw(pid), WaitOptions::NOHANG) {
            Ok(Some((_, status))) => status,
            _ => return None,
        };
        Some(match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => TaskEnd::Exited(code),
            (None, signal) => TaskEnd::Signalled(signal.unwrap_or(0)),
        })
    }
    fn leader_exited(&self, group: Group) -> io::Result<bool> {
        self.mechanism.leader_exited(group)
    }
    fn emptied(&self, report: impl FnMut(Group)) {
        // An unreadable queue of events is caught up with by asking.
        let _ = self.mechanism.drain_emptied(report);
    }
    fn times(&self, pid: i32) -> Times {
        Times { waited: disturbance::waited(pid), used: disturbance::used(pid) }
    }
    fn destroy(&self) -> io::Result<()> {
        self.mechanism.destroy()
    }
}

/// A terminal that can be read, opened for writing alone: another user's process would read what is typed for Takt. One that cannot be opened again is
/// replaced by `/dev/null`. `None` for anything else.
fn without_input(fd: BorrowedFd<'_>) -> Option<OwnedFd> {
    use rustix::fs::{Mode, OFlags, fcntl_getfl, open};
    let is_read = fcntl_getfl(fd).is_ok_and(|flags| flags.contains(OFlags::RDWR));
    if !is_read || !rustix::termios::isatty(fd) {
        return None;
    }
    let flags = OFlags::WRONLY | OFlags::NOCTTY | OFlags::CLOEXEC;
    let again = open(format!("/proc/self/fd/{}", fd.as_raw_fd()), flags, Mode::empty());
    again.or_else(|_| open("/dev/null", flags, Mode::empty())).ok()
}

/// The file for the output of a process.
fn output(plan: &Plan, process: &plan::Process) -> Result<Option<File>, Error> {
    let plan::Output::File { path, truncate } = &process.output else { return Ok(None) };
    let path = plan.directory.as_ref().map_or_else(|| path.clone(), |dir| dir.join(path));
    let what = format!("cannot open the output of {}, {}", process.name, path.display());
    match process.settings.identity.as_ref().filter(|identity| !identity.is_own()) {
        None => open_output(&path, *truncate, None).what(what).map(Some),
        Some(identity) => open_output(&path, *truncate, Some(identity))
            .map(Some)
            .map_err(|source| Error::ForeignFile { what, user: identity.user(), source }),
    }
}

/// Opens a file for a process's output, with the rights of its user: a link that the user has put in its place leads to no other file. A named pipe without a
/// reader is an error instead of a wait without end.
fn open_output(path: &std::path::Path, truncate: bool, user: Option<&Identity>) -> io::Result<File> {
    use rustix::fs::{Mode, OFlags, fcntl_getfl, fcntl_setfl, open};
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(0o666);
    let file: File = match user {
        Some(user) => user.open(path, flags, mode)?.into(),
        None => open(path, flags, mode)?.into(),
    };
    // Also a file that is appended to can be emptied first; what is no file has no length.
    if truncate && file.metadata()?.is_file() {
        file.set_len(0)?;
    }
    let plain = fcntl_getfl(&file)?.difference(OFlags::NONBLOCK);
    fcntl_setfl(&file, plain)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{Mode, OFlags, open};
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

    #[test]
    fn a_terminal_is_passed_without_its_input() {
        let other_end = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&other_end).unwrap();
        unlockpt(&other_end).unwrap();
        let name = ptsname(&other_end, Vec::new()).unwrap();
        let terminal = open(&*name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).unwrap();
        rustix::io::write(&other_end, b"typed\n").unwrap();
        let passed = without_input(terminal.as_fd()).unwrap();
        assert!(rustix::io::read(&passed, &mut [0; 8]).is_err());
        assert_eq!(rustix::io::write(&passed, b"seen\n").unwrap(), 5);
        assert_eq!(rustix::io::read(&terminal, &mut [0; 8]).unwrap(), 6, "it can still be read here");
        // It is passed as it is then.
        assert!(without_input(passed.as_fd()).is_none());
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        assert!(without_input(reader.as_fd()).is_none() && without_input(writer.as_fd()).is_none());
    }
}
