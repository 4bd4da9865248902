//! `cargo xtask cluster`: the job array of `docs/clusters.md` under Slurm, on two nodes of this machine, of which one is killed in the middle. Then a job of the
//! same script reaches its time limit, and is queued again until it is complete.
//!
//! All daemons are private: their configuration, key, sockets and states lie in a temporary folder, and their ports are free ones. They end with this
//! command, and so do the processes of their jobs, which have the path of that configuration in their environments.

use crate::workspace::{Outcome, built, in_ci, root};
use anyhow::{Context, Result, bail, ensure};
use std::ffi::OsStr;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const TOOLS: [&str; 6] = ["munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol"];
const PACKAGES: &str = "slurmctld slurmd slurm-client munge";
/// Parts of the array, and nodes with a CPU each.
const PARTS: usize = 4;
const NODES: [&str; 2] = ["n1", "n2"];
/// The sets of the experiment: a part takes some seconds, and saves its state every two.
const SETS: u32 = 1800;
/// The time that the job with a time limit has to work for. Slurm looks for its signal every 30 s, and sends it 10 to 40 s after the start.
const BEYOND: Duration = Duration::from_secs(50);
/// Changes of the script that give it the least time limit.
const LIMITED: [(&str, &str); 2] = [("--time=02:00:00", "--time=00:01:00"), ("B:TERM@60", "B:TERM@50")];
/// The node is killed when a part on it has worked for so long.
const WORKED: Duration = Duration::from_secs(3);
/// Everything together ends by then.
const LIMIT: Duration = Duration::from_secs(330);

/// Runs it, with this program or one that is built as for tests.
pub(crate) fn run(takt: Option<&str>) -> Outcome {
    let found = |tool: &&&str| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).chain(["/usr/sbin".into()]).any(|folder| folder.join(tool).is_file())
    };
    let missing: Vec<&str> = TOOLS.iter().filter(|tool| !found(tool)).copied().collect();
    if !missing.is_empty() {
        return Outcome::Skipped(format!("{} not installed: apt-get install {PACKAGES}", missing.join(", ")));
    }
    if !fs::metadata("/proc/self").is_ok_and(|known| std::os::unix::fs::MetadataExt::uid(&known) == 0) {
        return Outcome::Skipped("the daemons of Slurm start jobs as root: run it as root".into());
    }
    let takt = match takt.map_or_else(built, |path| Ok(std::path::absolute(path)?)) {
        Ok(takt) => takt,
        Err(error) => return Outcome::Failed(format!("{error:#}")),
    };
    let cluster = match Cluster::start() {
        Ok(cluster) => cluster,
        Err(error) if in_ci() => return Outcome::Failed(format!("the daemons of Slurm do not start: {error:#}")),
        Err(error) => return Outcome::Skipped(format!("the daemons of Slurm do not work here: {error:#}")),
    };
    match experiments(&takt, cluster) {
        Ok(()) => Outcome::Passed,
        Err(error) => Outcome::Failed(format!("{error:#}")),
    }
}

/// The daemons. They end with this value, with the processes of their jobs.
struct Cluster {
    folder: tempfile::TempDir,
    daemons: Vec<(String, Child)>,
    until: Instant,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for (_, daemon) in self.daemons.iter_mut().rev() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        kill(&self.processes(None));
    }
}

impl Cluster {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts all daemons, and waits until both nodes are idle.
    fn start() -> Result<Cluster> {
        let folder = tempfile::Builder::new().prefix("takt-slurm-").tempdir()?;
        let mut cluster = Cluster { folder, daemons: Vec::new(), until: Instant::now() + LIMIT };
        let key = cluster.path("munge.key");
        fs::write(&key, random()?)?;
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600))?;
        let file =
            |name: &str, cluster: &Cluster| format!("--{name}={}", cluster.path(&format!("munge.{name}")).display());
        let mut munged = Command::new("munged");
        munged.args(["--foreground", "--force", "--num-threads=2"]).arg(format!("--key-file={}", key.display()));
        munged.args(["socket", "pid-file", "log-file", "seed-file"].map(|name| file(name, &cluster)));
        cluster.daemon("munged", munged)?;
        cluster.wait("munged makes no socket", |cluster| Ok(cluster.path("munge.socket").exists()))?;
        fs::write(cluster.path("slurm.conf"), cluster.configuration()?)?;
        fs::create_dir(cluster.path("work"))?;
        let slurmctld = cluster.slurm("slurmctld", &["-D", "-c"]);
        cluster.daemon("slurmctld", slurmctld)?;
        for node in NODES {
            let slurmd = cluster.slurm("slurmd", &["-D", "-N", node]);
            cluster.daemon(node, slurmd)?;
        }
        cluster.wait("the nodes are not idle", |cluster| {
            let states = cluster.ask("sinfo", &["--noheader", "--Node", "--format=%t"])?;
            Ok(states.lines().filter(|state| *state == "idle").count() == NODES.len())
        })?;
        Ok(cluster)
    }

    fn configuration(&self) -> Result<String> {
        let host = fs::read_to_string("/proc/sys/kernel/hostname")?.trim().to_owned();
        // They are free again when the daemons take them.
        let ports = (0..=NODES.len()).map(|_| TcpListener::bind("127.0.0.1:0")).collect::<Result<Vec<_>, _>>()?;
        let ports = ports.iter().map(|port| Ok(port.local_addr()?.port())).collect::<Result<Vec<u16>>>()?;
        let own = self.folder.path().display();
        let mut text = format!(
            "ClusterName=takt\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={}\nSlurmUser=root\nSlurmdUser=root\n\
             AuthType=auth/munge\nCryptoType=crypto/munge\nAuthInfo=socket={own}/munge.socket,cred_expire=15\n\
             StateSaveLocation={own}/state\nSlurmdSpoolDir={own}/spool.%n\nSlurmctldPidFile={own}/slurmctld.pid\n\
             SlurmdPidFile={own}/slurmd.%n.pid\nSlurmctldLogFile={own}/slurmctld.log\nSlurmdLogFile={own}/slurmd.%n.log\n\
             ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nSwitchType=switch/none\nMpiDefault=none\n\
             ReturnToService=2\nSlurmdTimeout=10\nSlurmctldTimeout=10\nKillWait=2\nJobRequeue=1\n\
             SchedulerType=sched/backfill\nSchedulerParameters=batch_sched_delay=0,sched_interval=2\n\
             SelectType=select/cons_tres\nSelectTypeParameters=CR_Core\n",
            ports[0]
        );
        for (node, port) in NODES.iter().zip(&ports[1..]) {
            text +=
                &format!("NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=1 State=UNKNOWN\n");
        }
        text += &format!("PartitionName=all Nodes={} Default=YES MaxTime=INFINITE State=UP\n", NODES.join(","));
        Ok(text)
    }

    /// A program of Slurm, with the configuration of this cluster.
    fn slurm(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).env("SLURM_CONF", self.path("slurm.conf")).current_dir(self.folder.path());
        command
    }

    fn daemon(&mut self, name: &str, mut command: Command) -> Result<()> {
        let output = fs::File::create(self.path(&format!("{name}.out")))?;
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::env::split_paths(&path).chain(["/usr/sbin".into()]);
        command.env("PATH", std::env::join_paths(folders)?);
        let daemon = command.spawn().with_context(|| format!("{name} could not be started"))?;
        self.daemons.push((name.to_owned(), daemon));
        Ok(())
    }

    /// The answer of a program of Slurm.
    fn ask(&self, program: &str, arguments: &[&str]) -> Result<String> {
        let output = self.slurm(program, arguments).stdin(Stdio::null()).output()?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// Waits until it is so. The end of a daemon is an error, and so is the end of the time.
    fn wait(&mut self, lack: &str, mut is: impl FnMut(&Cluster) -> Result<bool>) -> Result<()> {
        loop {
            if is(self)? {
                return Ok(());
            }
            let ended =
                self.daemons.iter_mut().find_map(|(name, daemon)| Some((name.clone(), daemon.try_wait().ok()??)));
            if let Some((name, status)) = ended {
                bail!("{name} has ended: {status}\n{}", self.logs());
            }
            if Instant::now() > self.until {
                bail!("{lack}\n{}", self.logs());
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// The last lines of all daemons.
    fn logs(&self) -> String {
        let last = |path: &Path| {
            let text = fs::read_to_string(path).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            format!("{}:\n{}\n", path.display(), lines[lines.len().saturating_sub(8)..].join("\n"))
        };
        let names = ["munged.out", "slurmctld.log", "slurmd.n1.log", "slurmd.n2.log"];
        names.map(|name| last(&self.path(name))).concat()
    }

    /// The processes of jobs, on one node or all.
    fn processes(&self, node: Option<&str>) -> Vec<i32> {
        let own = format!("SLURM_CONF={}", self.path("slurm.conf").display());
        let on_node = node.map(|node| format!("SLURMD_NODENAME={node}"));
        let is_own = |pid: i32| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            let has = |wanted: &str| environment.split(|byte| *byte == 0).any(|entry| entry == wanted.as_bytes());
            has(&own) && on_node.as_deref().is_none_or(has)
        };
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(|pid| is_own(*pid)).collect()
    }

    /// A node fails: its daemon, the steps of its jobs, and their processes.
    fn kill_node(&mut self, node: &str) -> Result<usize> {
        let place = self.daemons.iter().position(|(name, _)| name == node).context("no such node")?;
        let (_, mut daemon) = self.daemons.remove(place);
        daemon.kill()?;
        daemon.wait()?;
        let mut all = self.processes(Some(node));
        // The parent of a job's script is the step.
        let steps: Vec<i32> = all.iter().filter_map(|pid| parent(*pid)).filter(|parent| is_step(*parent)).collect();
        all.extend(steps);
        kill(&all);
        Ok(all.len())
    }
}

fn parent(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.get(stat.rfind(')')? + 1..)?.split_whitespace().nth(1)?.parse().ok()
}

fn is_step(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.starts_with("slurmstepd"))
}

fn kill(pids: &[i32]) {
    if !pids.is_empty() {
        let _ =
            Command::new("kill").arg("-KILL").args(pids.iter().map(ToString::to_string)).stderr(Stdio::null()).status();
    }
}

fn random() -> Result<Vec<u8>> {
    use std::io::Read;
    let mut bytes = vec![0; 128];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// An experiment over so many sets.
fn command(sets: u32) -> [String; 8] {
    ["sweep", "schedulability", "--cpus", "4", "--sets", &sets.to_string(), "--threads", "1"].map(str::to_owned)
}

/// The script of the documentation, for this experiment in so many parts.
fn script(parts: usize, sets: u32, changes: &[(&str, &str)]) -> Result<String> {
    let path = root().join("docs/clusters.md");
    let text = fs::read_to_string(&path)?;
    let begin = text.find("#!/bin/bash").with_context(|| format!("{} has no script", path.display()))?;
    let block = &text[begin..];
    let block = &block[..block.find("```").context("the script has no end")?];
    let (head, old) = block.split_once("exec takt ").context("the script runs no takt")?;
    let place = old.find("--shard").context("the script computes no part")?;
    let mut head = head.to_owned();
    for (from, to) in [("--array=1-40", &*format!("--array=1-{parts}"))].iter().chain(changes) {
        ensure!(head.contains(from), "the script has no `{from}`");
        head = head.replace(from, to);
    }
    Ok(format!("{head}exec takt {} {}", command(sets).join(" "), &old[place..]))
}

/// An experiment in one piece.
fn whole(takt: &Path, sets: u32) -> Command {
    let mut whole = Command::new(takt);
    whole.args(command(sets)).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    whole
}

fn experiments(takt: &Path, mut cluster: Cluster) -> Result<()> {
    let folder = takt.parent().context("takt has a folder")?;
    let path = std::env::join_paths(
        std::iter::once(folder.to_path_buf())
            .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())),
    )?;
    let began = Instant::now();
    let expected = whole(takt, SETS).output()?;
    ensure!(expected.status.success(), "takt {}: {}", command(SETS).join(" "), expected.status);
    let each = began.elapsed() / SETS;
    println!("{}", with_a_dead_node(&path, &mut cluster, &expected.stdout)?);
    let sets = (BEYOND.as_micros() / each.as_micros().max(1)) as u32;
    println!("{}", with_a_time_limit(takt, &path, &mut cluster, sets)?);
    Ok(())
}

/// Submits a job in a folder, where the program is in the search path, and gives its number.
fn submit(cluster: &Cluster, folder: &Path, path: &OsStr, arguments: &[&str]) -> Result<String> {
    let mut command = cluster.slurm("sbatch", &["--parsable"]);
    let output = command.args(arguments).current_dir(folder).env("PATH", path).stdin(Stdio::null()).output()?;
    ensure!(output.status.success(), "sbatch: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// A node is killed while it works. The parts begin again by themselves, and the merge waits for them.
fn with_a_dead_node(path: &OsStr, cluster: &mut Cluster, expected: &[u8]) -> Result<String> {
    let work = cluster.path("work");
    fs::write(work.join("sweep.sbatch"), script(PARTS, SETS, &[])?)?;
    let array = submit(cluster, &work, path, &["sweep.sbatch"])?;
    let dependency = format!("--dependency=afterok:{array}");
    let merge = [&dependency, "--output=merge.log", "--wrap", "takt sweep merge part-* > merged.csv"];
    let merges = submit(cluster, &work, path, &merge)?;
    let mut since = None;
    cluster.wait("no part has worked on the node that is to be killed", |cluster| {
        let works = !cluster.processes(Some(NODES[1])).is_empty();
        since = if works { since.or(Some(Instant::now())) } else { None };
        Ok(since.is_some_and(|since| since.elapsed() > WORKED))
    })?;
    let killed = cluster.kill_node(NODES[1])?;
    ensure!(killed > 1, "the node had {killed} processes");
    let mut restarts = 0;
    cluster.wait("the jobs have not ended", |cluster| {
        let jobs = cluster.ask("scontrol", &["show", "job", "--oneliner"])?;
        let of_jobs = jobs.split_whitespace().filter_map(|word| word.strip_prefix("Restarts=")?.parse::<u32>().ok());
        restarts = restarts.max(of_jobs.sum());
        Ok(cluster.ask("squeue", &["--noheader", "--jobs", &format!("{array},{merges}")])?.is_empty())
    })?;
    let merged = fs::read(work.join("merged.csv")).unwrap_or_default();
    let logs = || fs::read_to_string(work.join("merge.log")).unwrap_or_default();
    ensure!(restarts > 0, "no part was started again");
    ensure!(merged == expected, "the merged parts differ from the experiment in one piece: {}", logs());
    let rows = String::from_utf8_lossy(&merged).lines().count() - 1;
    Ok(format!(
        "{PARTS} parts of {SETS} sets at {rows} points on {} nodes; {} was killed with {killed} processes, {restarts} parts began again; \
         the merge is byte-equal",
        NODES.len(),
        NODES[1]
    ))
}

/// A job reaches its time limit: it saves its state, says so, and continues when it is queued again.
fn with_a_time_limit(takt: &Path, path: &OsStr, cluster: &mut Cluster, sets: u32) -> Result<String> {
    let work = cluster.path("limited");
    fs::create_dir(&work)?;
    fs::write(work.join("sweep.sbatch"), script(1, sets, &LIMITED)?)?;
    let job = submit(cluster, &work, path, &["sweep.sbatch"])?;
    // It ends with the cluster, as jobs do.
    let expected = whole(takt, sets).env("SLURM_CONF", cluster.path("slurm.conf")).spawn()?;
    let (mut signals, mut saved) = (0, String::new());
    loop {
        let mut state = String::new();
        cluster.wait("the job with a time limit has not ended", |cluster| {
            let shown = cluster.ask("scontrol", &["show", "job", "--oneliner", &job])?;
            let known = shown.split_whitespace().find_map(|word| word.strip_prefix("JobState="));
            state = known.with_context(|| format!("there is no job {job}: {shown}"))?.to_owned();
            Ok(!matches!(&*state, "PENDING" | "CONFIGURING" | "RUNNING" | "COMPLETING" | "REQUEUED"))
        })?;
        if state == "COMPLETED" {
            break;
        }
        let log = fs::read_to_string(work.join("sweep-1.log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().filter(|line| line.starts_with("interrupted: `part-1` keeps ")).collect();
        ensure!(lines.len() == signals + 1, "the job ended in the state {state}, without a message: {log}");
        (signals, saved) = (lines.len(), lines[signals].to_owned());
        ensure!(cluster.ask("scontrol", &["requeue", &job])?.is_empty(), "the job cannot be queued again");
    }
    ensure!(signals > 0, "the job ended before its time limit, over {sets} sets");
    let expected = expected.wait_with_output()?;
    ensure!(expected.status.success(), "takt {}: {}", command(sets).join(" "), expected.status);
    let merged = Command::new(takt).args(["sweep", "merge", "part-1"]).current_dir(&work).output()?;
    let error = || String::from_utf8_lossy(&merged.stderr).into_owned();
    ensure!(
        merged.stdout == expected.stdout,
        "the continued job differs from the experiment in one piece: {}",
        error()
    );
    Ok(format!("a job over {sets} sets got {signals} times SIGTERM before its time limit ({saved}); it is byte-equal"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_is_that_of_the_documentation() {
        let script = script(PARTS, SETS, &[]).unwrap();
        assert!(script.starts_with("#!/bin/bash\n#SBATCH "), "{script}");
        for part in
            ["--array=1-4", "--requeue", "--shard \"$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT\"", "--sets 1800"]
        {
            assert!(script.contains(part), "{part}: {script}");
        }
        assert_eq!(script.matches("exec takt").count(), 1);
        let limited = super::script(1, SETS, &LIMITED).unwrap();
        assert!(limited.contains("--time=00:01:00") && limited.contains("--signal=B:TERM@50"), "{limited}");
    }
}
