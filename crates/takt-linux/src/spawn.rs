//! The description of a process to be started, made ready before the fork.

use crate::identity::{Identity, Limit};
use crate::rt::Class;
use crate::run_id::{GROUP_VARIABLE, RUN_VARIABLE};
use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use takt_core::cpus::CpuSet;

/// The `PATH` of a service.
const SERVICE_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Where a process's output goes.
#[derive(Clone, Copy, Debug)]
pub enum Output<'a> {
    /// Where Takt's own goes.
    Inherit,
    /// Nowhere.
    Null,
    /// Into this descriptor.
    Fd(BorrowedFd<'a>),
}

impl<'a> Output<'a> {
    pub(crate) fn fd(self, own: BorrowedFd<'a>, null: BorrowedFd<'a>) -> BorrowedFd<'a> {
        match self {
            Output::Inherit => own,
            Output::Null => null,
            Output::Fd(fd) => fd,
        }
    }
}

/// A process to start. Standard input is always empty.
#[derive(Clone, Debug)]
pub struct SpawnSpec<'a> {
    /// Program and arguments; a program without a slash is searched in the `PATH` of `env`.
    pub argv: Vec<CString>,
    /// The environment as `NAME=value`. Takt's own marks of the run are added to it.
    pub env: Vec<CString>,
    /// Directory to run in; Takt's own without. It is entered with the rights of Takt.
    pub cwd: Option<CString>,
    /// A directory that the process enters after that, with the rights of its user.
    pub enters: Option<CString>,
    /// Standard output.
    pub stdout: Output<'a>,
    /// Standard error.
    pub stderr: Output<'a>,
    /// Further descriptors and their numbers in the process; no number may be that of another one's source.
    pub pass_fds: Vec<(BorrowedFd<'a>, RawFd)>,
    /// Scheduling class of the process and of all it starts.
    pub class: Class,
    /// CPUs the process is restricted to, in addition to its partition's.
    pub cpus: Option<CpuSet>,
    /// Its user and groups; Takt's own without. Its output is opened before the change: see [`Identity::with_rights_to_files`].
    pub identity: Option<Identity>,
    /// The bits that its new files lack; Takt's own without.
    pub umask: Option<u32>,
    /// Its limits; Takt's own without.
    pub limits: Vec<Limit>,
}

impl SpawnSpec<'_> {
    /// A command line for `/bin/sh -c`, in this process's environment.
    ///
    /// # Errors
    /// When the command holds a zero byte.
    pub fn shell(command: &str) -> io::Result<Self> {
        SpawnSpec::new(&["/bin/sh", "-c", command])
    }

    /// A program with its arguments, in this process's environment.
    ///
    /// # Errors
    /// When an argument holds a zero byte.
    pub fn new<S: AsRef<OsStr>>(argv: &[S]) -> io::Result<Self> {
        let argv = argv.iter().map(|a| CString::new(a.as_ref().as_bytes())).collect::<Result<_, _>>()?;
        let env = std::env::vars_os()
            .map(|(name, value)| CString::new([name.as_bytes(), b"=", value.as_bytes()].concat()))
            .collect::<Result<_, _>>()?;
        Ok(SpawnSpec {
            argv,
            env,
            cwd: None,
            enters: None,
            stdout: Output::Inherit,
            stderr: Output::Inherit,
            pass_fds: Vec::new(),
            class: Class::Other,
            cpus: None,
            identity: None,
            umask: None,
            limits: Vec::new(),
        })
    }

    /// Gives the process the environment of a service of its user, and no variable of this process (systemd.exec(5), "Environment variables in spawned
    /// processes").
    ///
    /// # Errors
    /// When an entry of the database of users holds a zero byte.
    pub fn set_service_env(&mut self, identity: &Identity) -> io::Result<()> {
        self.env.clear();
        self.set_env("PATH", SERVICE_PATH)?;
        identity.variables().try_for_each(|(name, value)| self.set_env(name, value))
    }

    /// Sets an environment variable.
    ///
    /// # Errors
    /// When it holds a zero byte.
    pub fn set_env(&mut self, name: &str, value: &str) -> io::Result<()> {
        set(&mut self.env, name, value)
    }

    /// The value of an environment variable; one that is no text counts as absent.
    #[must_use]
    pub fn get_env(&self, name: &str) -> Option<String> {
        let entry = self.env.iter().find(|entry| is_variable(entry, name))?;
        Some(entry.to_str().ok()?[name.len() + 1..].to_owned())
    }

    /// Removes an environment variable.
    pub fn remove_env(&mut self, name: &str) {
        self.env.retain(|entry| !is_variable(entry, name));
    }

    /// The environment with the marks of the run.
    pub(crate) fn marked_env(&self, run: &str, group: &str) -> io::Result<Vec<CString>> {
        let mut env = self.env.clone();
        set(&mut env, RUN_VARIABLE, run)?;
        set(&mut env, GROUP_VARIABLE, group)?;
        Ok(env)
    }

    /// The paths at which the program may be, and an early answer to mistakes that a child could not report well.
    pub(crate) fn programs(&self) -> io::Result<Vec<CString>> {
        let invalid = |what: &str| io::Error::new(io::ErrorKind::InvalidInput, what.to_string());
        let program = self.argv.first().ok_or_else(|| invalid("there is no program to start"))?;
        if let Some(cwd) = &self.cwd
            && !Path::new(OsStr::from_bytes(cwd.as_bytes())).is_dir()
        {
            let what = format!("{} is not a directory to run in", cwd.to_string_lossy());
            return Err(io::Error::new(io::ErrorKind::NotFound, what));
        }
        use std::os::fd::AsRawFd;
        for (i, (_, target)) in self.pass_fds.iter().enumerate() {
            let mut others = self.pass_fds.iter().enumerate().filter(|(j, _)| *j != i);
            if *target < 3 || others.any(|(_, (source, other))| source.as_raw_fd() == *target || other == target) {
                return Err(invalid("a passed descriptor's number is taken by another descriptor"));
            }
        }
        if program.as_bytes().contains(&b'/') {
            return Ok(vec![program.clone()]);
        }
        let path = self.env.iter().find_map(|entry| entry.as_bytes().strip_prefix(b"PATH="));
        path.unwrap_or(b"/usr/local/bin:/usr/bin:/bin")
            .split(|byte| *byte == b':')
            .map(|dir| if dir.is_empty() { &b"."[..] } else { dir })
            .map(|dir| Ok(CString::new([dir, b"/", program.as_bytes()].concat())?))
            .collect()
    }
}

fn set(env: &mut Vec<CString>, name: &str, value: &str) -> io::Result<()> {
    env.retain(|entry| !is_variable(entry, name));
    env.push(CString::new(format!("{name}={value}"))?);
    Ok(())
}

fn is_variable(entry: &CStr, name: &str) -> bool {
    entry.to_bytes().strip_prefix(name.as_bytes()).is_some_and(|rest| rest.starts_with(b"="))
}
