//! Policies as WebAssembly modules: how the command line names them, and the messages about failed ones.

use crate::failure::Failure;
use std::fmt;
use std::path::Path;
use std::sync::OnceLock;
use takt_core::model::{PolicySpec, System};
use takt_wasm::{LoadError, Loaded};
use takt_workload::{Code, ModuleFault, PolicyFault, Workload};

/// Loads the module in a file.
type Load = fn(&Path) -> Result<&'static Loaded, LoadError>;

/// Set in a program whose policies may be modules. The others have no interpreter in them.
static LOAD: OnceLock<Load> = OnceLock::new();

/// Allows modules as policies, on the command line and in workload files.
pub(crate) fn allow() {
    let _ = LOAD.set(takt_wasm::load);
    takt_workload::load_modules_by(of_file);
    takt_wasm::ask_for_memory_by(takt_linux::memory::can_allocate);
}

/// A policy that the command line names wrongly.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) code: Code,
    text: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<PolicyFault> for Fault {
    fn from(fault: PolicyFault) -> Fault {
        Fault { code: fault.code, text: fault.to_string() }
    }
}

/// The file of a policy's text, and the settings behind it: `edzl.wasm:fuel=100000`.
fn file(text: &str) -> Option<(&str, Option<&str>)> {
    const ENDING: &str = ".wasm";
    match text.split_once(".wasm:") {
        Some((file, settings)) => Some((&text[..file.len() + ENDING.len()], Some(settings))),
        None => text.ends_with(ENDING).then_some((text, None)),
    }
}

/// Whether the text names a file.
pub(crate) fn is_file(text: &str) -> bool {
    file(text.trim()).is_some()
}

/// The prefix of a form and the file. A file whose name begins with such a prefix stands for itself.
fn parts(file: &str) -> (&str, &str) {
    let prefix = ["g-", "p-", "c-"].into_iter().find(|prefix| file.starts_with(prefix) && !Path::new(file).exists());
    file.split_at(prefix.map_or(0, str::len))
}

/// Reads a policy as the command line takes it: that of a registry, or a module with the settings behind it. The module is loaded.
///
/// # Errors
/// A part of it is unknown or out of range, or the file is no module of a policy.
pub(crate) fn policy(text: &str) -> Result<PolicySpec, Fault> {
    let text = text.trim();
    let (Some((file, settings)), Some(load)) = (file(text), LOAD.get()) else {
        return Ok(takt_workload::policy_from_text(text)?);
    };
    let (prefix, path) = parts(file);
    let module = load(Path::new(path)).map_err(|error| {
        let (code, message, hint) = unusable(Path::new(path), &error);
        Fault { code, text: format!("[{code}] {message}; {hint}") }
    })?;
    let settings = settings.map(|settings| format!(":{settings}")).unwrap_or_default();
    Ok(takt_workload::policy_from_text(&format!("{prefix}{}{settings}", module.entry().profile.name))?)
}

fn unusable(path: &Path, error: &LoadError) -> (Code, String, &'static str) {
    let (code, hint) = match error {
        LoadError::Unreadable(error) => (Code::UnreadableFile, takt_workload::remedy(error)),
        _ => (Code::UnsuitableModule, "build it with `takt-wasm-module`, of the version of this program"),
    };
    (code, format!("`{}` cannot be loaded as a policy: {error}", path.display()), hint)
}

/// Loads a module that a workload file names, and names its policy.
///
/// # Errors
/// The file is no module of a policy.
fn of_file(path: &Path) -> Result<String, ModuleFault> {
    match takt_wasm::load(path) {
        Ok(module) => Ok(module.entry().profile.name.to_owned()),
        Err(error) => {
            let (code, message, hint) = unusable(path, &error);
            Err(ModuleFault { code, message, hint: hint.to_owned() })
        }
    }
}

/// A line for each policy of the system that is of a module, with the hash of the module.
pub(crate) fn hashes(system: &System) -> Vec<String> {
    let policies = std::iter::once(&system.policy).chain(system.domains.iter().map(|domain| &domain.policy));
    let line = |policy: &PolicySpec| {
        let hash = module(policy)?.sha256();
        Some(format!("note: the policy `{}{}` is a module with SHA-256 {hash}", policy.prefix(), policy.profile.name))
    };
    let mut lines: Vec<String> = policies.filter_map(line).collect();
    lines.dedup();
    lines
}

/// Loads a module that a record names.
///
/// # Errors
/// Status 2 if the file is no module of a policy.
pub(crate) fn load(path: &Path) -> Result<(), Failure> {
    takt_wasm::load(path).map(|_| ()).map_err(|error| {
        let (code, message, hint) = unusable(path, &error);
        Failure::input(code, message, hint)
    })
}

/// The policy as another process can name it: with the absolute path of its file.
///
/// # Errors
/// The file does not exist, or its path is no text.
pub(crate) fn absolute(text: &str) -> std::io::Result<String> {
    let Some((file, settings)) = file(text.trim()) else { return Ok(text.to_owned()) };
    let (prefix, path) = parts(file);
    let path = Path::new(path).canonicalize()?.into_os_string().into_string();
    let path =
        path.map_err(|_| std::io::Error::new(std::io::ErrorKind::InvalidFilename, "the path is no text in UTF-8"))?;
    let settings = settings.map(|settings| format!(":{settings}")).unwrap_or_default();
    Ok(format!("{prefix}{path}{settings}"))
}

/// The module of a policy, if it is of one.
pub(crate) fn module(policy: &PolicySpec) -> Option<&'static Loaded> {
    takt_wasm::find(policy.profile.name)
}

/// Names the policies among the alternatives of the system that take over from modules that fail, so that the trace says so.
pub(crate) fn may_fall_back(system: &mut System) {
    let policies = std::iter::once(&system.policy).chain(system.domains.iter().map(|domain| &domain.policy));
    let fallbacks: Vec<PolicySpec> =
        policies.filter(|policy| module(policy).is_some()).map(takt_wasm::fallback).collect();
    for fallback in fallbacks {
        if !system.alternatives.contains(&fallback) {
            system.alternatives.push(fallback);
        }
    }
}

/// A note for each module that failed.
pub(crate) fn failures(workload: &Workload) -> Vec<String> {
    let failed = takt_wasm::all().into_iter().filter_map(|module| Some((module, module.failed()?)));
    let note = |(module, failed): (&'static Loaded, takt_wasm::Failed)| {
        let (name, at) = (module.entry().profile.name, failed.at - takt_core::time::Time::ZERO);
        let why = workload.named(&failed.fault.to_string());
        format!("note: the module of `{name}` {why} at {at}; its fallback took over")
    };
    failed.map(note).collect()
}
