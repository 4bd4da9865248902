//! Commands beside a schedule: in no group of the run, in the ordinary class, and killed at the end of the run.
//!
//! They carry the mark of the run, so that the watcher finds them when the run dies.

use crate::members;
use crate::rt::{self, Class};
use crate::run_id::{GROUP_VARIABLE, RUN_VARIABLE, RunId};
use rustix::process::{Pid, Signal, kill_process_group};
use std::collections::HashSet;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// The mark of commands, where processes of the schedule have that of their group.
const GROUP: &str = "commands";

/// The commands of a run. Live commands are killed when this is dropped.
pub struct Commands {
    run: String,
    /// Process ids of the shells that have not been reaped.
    live: HashSet<i32>,
    started: bool,
}

impl Commands {
    /// None yet.
    #[must_use]
    pub fn new(run: &RunId) -> Commands {
        Commands { run: run.to_string(), live: HashSet::new(), started: false }
    }

    /// How many have not ended.
    #[must_use]
    pub fn live(&self) -> usize {
        self.live.len()
    }

    /// Starts a command for `/bin/sh -c`, in a process group of its own. Its end is to be reported by [`Commands::ended`].
    /// Variables with an empty value are removed from its environment.
    ///
    /// # Errors
    /// When there can be no such process.
    pub fn start(
        &mut self,
        command: &str,
        directory: Option<&Path>,
        environment: &[(&str, String)],
        output_to_stderr: bool,
    ) -> io::Result<()> {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", command]).stdin(Stdio::null()).process_group(0);
        if output_to_stderr {
            shell.stdout(Stdio::from(io::stderr().as_fd().try_clone_to_owned()?));
        }
        if let Some(directory) = directory {
            shell.current_dir(directory);
        }
        for (name, value) in environment {
            if value.is_empty() {
                shell.env_remove(name)
            } else {
                shell.env(name, value)
            };
        }
        for name in crate::service::VARIABLES {
            shell.env_remove(name);
        }
        shell.env(RUN_VARIABLE, &self.run).env(GROUP_VARIABLE, GROUP);
        let pid = shell.spawn()?.id() as i32;
        self.started = true;
        self.live.insert(pid);
        // Takt itself may have been started in a real-time class. A shell that has ended needs none.
        let _ = rt::set_class(pid, Class::Other);
        Ok(())
    }

    /// A child of this process has ended and been reaped. Returns whether it was a command.
    pub fn ended(&mut self, pid: i32) -> bool {
        self.live.remove(&pid)
    }

    /// Kills all commands and the processes that they started. Returns whether some may still be on their way out: the caller then reaps, and asks again.
    pub fn kill(&mut self) -> bool {
        if !self.started {
            return false;
        }
        // Until its first process is reaped, no other group can have the number.
        for pid in self.live.iter().filter_map(|pid| Pid::from_raw(*pid)) {
            let _ = kill_process_group(pid, Signal::KILL);
        }
        let left = members::marked(&self.run, Some(GROUP));
        left.iter().for_each(|process| process.signal(Signal::KILL));
        !left.is_empty() || !self.live.is_empty()
    }
}

impl Drop for Commands {
    fn drop(&mut self) {
        self.kill();
    }
}
