//! Files that become entries of registries.

use crate::contents::accepted;
use crate::fault::LoadError;
use crate::instance::{Opened, interpreter};
use crate::loaded::{FALLBACK, FUEL, Loaded, find, loaded};
use crate::policy::Guarded;
use sha2::{Digest, Sha256};
use std::io::Read;
use std::path::Path;
use std::sync::OnceLock;
use takt_core::model::{CpuTest, Invalid, Kind, MAX_SETTINGS, Need, Profile, Scope, Setting};
use takt_core::policies::scope::SCOPES;
use takt_core::policy::{Build, Entry, Policy, Registry};
use takt_core::time::Span;
use takt_wasm_module::wire::{self, Takes};

/// The largest file that is read.
const LARGEST: u64 = 16 << 20;

/// Digits of a hash in the name of a policy.
const SHOWN: usize = 12;

/// Loads a module. The same file is loaded once.
///
/// # Errors
/// When the file is no module of a policy.
pub fn load(path: &Path) -> Result<&'static Loaded, LoadError> {
    // A pipe may never end, or never begin.
    if !std::fs::metadata(path)?.is_file() {
        return Err(LoadError::Unreadable(std::io::Error::other("it is no regular file")));
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST {
        return Err(LoadError::TooLarge(LARGEST));
    }
    load_bytes(path, &bytes)
}

/// As [`load`], of a file that was read.
///
/// # Errors
/// When it is no module of a policy.
pub fn load_bytes(path: &Path, bytes: &[u8]) -> Result<&'static Loaded, LoadError> {
    let sha256: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    let known = loaded().iter().copied().find(|module| module.sha256 == sha256);
    if let Some(known) = known {
        return Ok(known);
    }
    if !bytes.starts_with(b"\0asm") {
        return Err(LoadError::NotWasm("it does not begin with `\\0asm`".to_owned()));
    }
    let bytes = accepted(bytes)?;
    let engine = interpreter();
    let module = wasmi::Module::new(&engine, bytes).map_err(|error| LoadError::NotWasm(error.to_string()))?;
    let profile = Opened::new(&engine, &module)?.profile()?;
    let entry = made_entry(profile, &sha256)?;
    let module = Loaded { entry, sha256, path: path.to_owned(), engine, module, failed: OnceLock::new() };
    let module: &'static Loaded = Box::leak(Box::new(module));
    loaded().push(module);
    Ok(module)
}

fn kept(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

/// The line of the policy in a registry. Facts that a module claims are not taken over: conclusions about its schedule would rely on them.
fn made_entry(profile: wire::Profile, sha256: &str) -> Result<Entry, LoadError> {
    let is_name = |name: &str| {
        !name.is_empty() && name.len() <= 64 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
    };
    let wire::Profile { name, summary, manual, scopes, needs, has_demand_test, settings } = profile;
    if !is_name(&name) {
        return Err(LoadError::Profile("the name of its policy has other characters than letters, digits and hyphens"));
    }
    if scopes.is_empty() || scopes.contains(&Scope::Table) {
        return Err(LoadError::Profile("its policy schedules no jobs: it has no scope for that"));
    }
    let reserved = |setting: &wire::Setting| [FALLBACK, FUEL].contains(&setting.name.as_str());
    if settings.len() + 2 > MAX_SETTINGS || settings.iter().any(|s| !is_name(&s.name) || reserved(s)) {
        return Err(LoadError::Profile("its policy has too many settings, or one with a name that is taken"));
    }
    let mut all: Vec<Setting> = settings.into_iter().map(setting).collect();
    all.push(Setting {
        name: FALLBACK,
        kind: Kind::Choice(fallbacks()),
        default: "fifo",
        summary: "the policy in place of the module, should it fail",
    });
    all.push(Setting {
        name: FUEL,
        kind: Kind::Count(1_000, 1_000_000_000),
        default: "2000000",
        summary: "instructions of the module for one answer",
    });
    Ok(Entry {
        profile: Profile {
            name: kept(format!("{name}@{}", &sha256[..SHOWN])),
            summary: kept(summary),
            scopes: Vec::leak(scopes),
            needs: Vec::leak(needs),
            facts: &[],
            test: if has_demand_test { CpuTest::Demand } else { CpuTest::Utilisation },
            settings: Vec::leak(all),
        },
        manual: kept(manual),
        build,
    })
}

fn setting(setting: wire::Setting) -> Setting {
    let wire::Setting { name, kind, default, summary } = setting;
    let kind = match kind {
        Takes::Duration { least, most } => Kind::Duration(least, most.max(Span::ZERO)),
        Takes::Ratio { least, most } => Kind::Ratio(least, most),
        Takes::Count { least, most } => Kind::Count(least, most),
        Takes::Choice(words) => Kind::Choice(Vec::leak(words.into_iter().map(kept).collect())),
    };
    Setting { name: kept(name), kind, default: kept(default), summary: kept(summary) }
}

/// The policies that can take over in the middle of an instant: orderings, which end no jobs, and which need nothing but periods and deadlines.
fn fallbacks() -> &'static [&'static str] {
    static NAMES: OnceLock<Vec<&'static str>> = OnceLock::new();
    NAMES.get_or_init(|| {
        let suits = |entry: &&Entry| {
            let simple = |need: &Need| matches!(need, Need::Period | Need::Deadline);
            entry.profile.scopes == SCOPES && entry.profile.needs.iter().all(simple)
        };
        let registry = Registry::standard();
        registry.entries().filter(suits).map(|entry| entry.profile.name).collect()
    })
}

/// Builds the policy of a module.
fn build(build: &Build<'_>) -> Result<Box<dyn Policy>, Invalid> {
    let module = find(build.spec.profile.name).ok_or(Invalid::Unsuitable("its module is not loaded"))?;
    Ok(Box::new(Guarded::new(module, build)?))
}
