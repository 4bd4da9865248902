//! `takt policies`: the registry.

use crate::failure::Failure;
use crate::outcome::{Outcome, Verdict};
use std::io::{self, Write};
use takt::report::{self, table};
use takt_core::model::{CLUSTER, Kind, Need, PolicySpec, Profile, Scope, Setting};
use takt_core::policies::mapping::{MAPPER, MAPPERS};
use takt_core::power::{self, Parameter};
use takt_workload::{duration_text, power_argument, power_usage, registry};

/// List the scheduling policies, or the power policies, or show the manual page of one
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Policy to show, with or without its scope's prefix
    name: Option<String>,
    /// List the power policies instead, or show the manual page of one
    #[arg(long)]
    power: bool,
    /// Print the manual pages of all policies as Markdown (docs/policies.md)
    #[arg(long, conflicts_with_all = ["name", "power"])]
    markdown: bool,
}

/// Explains the prefixes.
const PREFIXES: &str = "`g-` is one queue for all CPUs, `p-` gives each task a CPU (`--placement`), and `c-` gives each task \
                        a cluster of CPUs with a queue of its own (the setting `cluster` is its size).";

pub(crate) fn run(args: &Args) -> Outcome {
    let mut out = io::stdout().lock();
    if args.power {
        return power_policies(args.name.as_deref(), &mut out);
    }
    if args.markdown {
        write!(out, "{}", markdown())?;
    } else if let Some(name) = &args.name {
        let found = takt_workload::policy_from_text(name).map(|spec| spec.profile);
        // A policy that has no plain form is shown by its plain name all the same.
        let entry = match (registry().entry(name), found) {
            (Some(entry), _) => entry,
            (None, Ok(profile)) => registry().entry(profile.name).expect("a policy that was found is there"),
            (None, Err(e)) => {
                let hint = match name.contains(':') {
                    true => "give the name of the policy without settings",
                    false => "give a name with or without its scope, as in `edf` or `g-edf`",
                };
                return Err(Failure::input(e.code, &e, hint));
            }
        };
        let profile = &entry.profile;
        let (name, summary) = (profile.name, profile.summary);
        writeln!(out, "{name}: {summary}\n\n{}\n\n{}", names(profile), entry.manual.trim_end())?;
        let settings = settings(profile);
        if !settings.is_empty() {
            let mut rows = vec![["setting", "takes", "default", "meaning"].map(String::from).to_vec()];
            rows.extend(settings.iter().map(|s| row(s, s.default)));
            left(&mut rows);
            // The size of a cluster is a setting of the clustered form alone, the mapper one of the forms with several CPUs.
            let scope = profile.scopes.iter().copied().find(|&scope| match settings[0].name {
                name if name == CLUSTER.name => scope == Scope::Clustered,
                name if name == MAPPER.name => PolicySpec::new(profile, scope).maps(),
                _ => true,
            });
            let prefix = PolicySpec::new(profile, scope.unwrap_or(profile.scopes[0])).prefix();
            writeln!(out, "\nSettings, as in `--policy {prefix}{}:{}=…`:\n", profile.name, settings[0].name)?;
            table(&mut out, &rows)?;
        }
    } else {
        let mut rows = vec![["name", "forms", "needs", "summary"].map(String::from).to_vec()];
        for entry in registry().entries() {
            rows.push(vec![
                entry.profile.name.into(),
                forms(&entry.profile).join(" "),
                needs(&entry.profile),
                entry.profile.summary.into(),
            ]);
        }
        left(&mut rows);
        table(&mut out, &rows)?;
        writeln!(out, "\n`takt policies NAME` shows one, with its settings. {}", PREFIXES.replace('`', ""))?;
        let mut rows = vec![["mapper", "assignment of the chosen jobs to CPUs"].map(String::from).to_vec()];
        rows.extend(MAPPERS.iter().map(|m| vec![m.name.into(), m.summary.into()]));
        left(&mut rows);
        writeln!(out)?;
        table(&mut out, &rows)?;
    }
    Ok(Verdict::Done)
}

/// The power policies, or the manual page of one.
fn power_policies(name: Option<&str>, out: &mut impl Write) -> Outcome {
    let registry = takt_workload::power_registry();
    let Some(name) = name else {
        let mut rows = vec![["name", "written", "summary"].map(String::from).to_vec()];
        for entry in registry.entries() {
            let power::Profile { name, summary, .. } = &entry.profile;
            rows.push(vec![(*name).into(), power_usage(&entry.profile), (*summary).into()]);
        }
        left(&mut rows);
        table(out, &rows)?;
        writeln!(out, "\n`takt policies --power NAME` shows one, with its arguments.")?;
        return Ok(Verdict::Done);
    };
    let Some(entry) = registry.entry(name) else {
        let fault = takt_workload::power_from_text(name).map_or_else(|fault| fault.to_string(), |_| name.to_owned());
        let hint = "give the name of the power policy without arguments";
        return Err(Failure::input(takt_workload::Code::UnknownPolicy, fault, hint));
    };
    let profile = &entry.profile;
    let aliases = match profile.aliases {
        [] => String::new(),
        names => format!(" DEmOS's name: {}.", names.join(", ")),
    };
    let (name, summary) = (profile.name, profile.summary);
    writeln!(out, "{name}: {summary}\n\nWritten: {}.{aliases}\n\n{}", power_usage(profile), entry.manual.trim_end())?;
    if !profile.parameters.is_empty() {
        let mut rows = vec![["argument", "takes", "default", "meaning"].map(String::from).to_vec()];
        rows.extend(profile.parameters.iter().map(power_row));
        left(&mut rows);
        writeln!(out)?;
        table(out, &rows)?;
    }
    Ok(Verdict::Done)
}

fn power_row(parameter: &Parameter) -> Vec<String> {
    let takes = power_argument(parameter).replace('`', "");
    vec![parameter.name.into(), takes, parameter.default.unwrap_or("none").into(), parameter.summary.into()]
}

/// Pads all columns to the left edge: this table holds words.
fn left(rows: &mut [Vec<String>]) {
    for column in 0..rows[0].len() {
        let width = rows.iter().map(|r| r[column].chars().count()).max().unwrap_or(0);
        rows.iter_mut().for_each(|r| r[column] = format!("{:<width$}", r[column]));
    }
}

fn forms(profile: &'static Profile) -> Vec<String> {
    let form = |scope: &Scope| format!("{}{}", PolicySpec::new(profile, *scope).prefix(), profile.name);
    profile.scopes.iter().map(form).collect()
}

fn needs(profile: &Profile) -> String {
    let need = |need: &Need| match need {
        Need::Period => "period",
        Need::Deadline => "deadline",
        Need::Runtime => "runtime",
        Need::Utility => "utility",
        Need::Reservation => "reservation",
    };
    if profile.needs.is_empty() { "-".into() } else { profile.needs.iter().map(need).collect::<Vec<_>>().join(" ") }
}

fn names(profile: &'static Profile) -> String {
    let needs = if profile.needs.is_empty() { "nothing in particular".into() } else { needs(profile) };
    format!("Forms: {}. Every task needs: {needs}.", forms(profile).join(" "))
}

/// The settings that the policy declares, and the size of a cluster and the mapper if it has such forms.
fn settings(profile: &'static Profile) -> Vec<&'static Setting> {
    let cluster = profile.scopes.contains(&Scope::Clustered).then_some(&CLUSTER);
    let mapper = profile.scopes.iter().any(|s| PolicySpec::new(profile, *s).maps()).then_some(&MAPPER);
    profile.settings.iter().filter(|s| s.name != CLUSTER.name).chain(cluster).chain(mapper).collect()
}

fn row(setting: &Setting, default: &str) -> Vec<String> {
    vec![setting.name.into(), takes(&setting.kind), default.into(), setting.summary.into()]
}

/// The values of a setting, in words.
fn takes(kind: &Kind) -> String {
    match *kind {
        Kind::Duration(low, high) => format!("{} to {}", duration_text(low), duration_text(high)),
        Kind::Ratio(low, high) => format!("{} to {}", decimal(low), decimal(high)),
        Kind::Count(low, high) => format!("{low} to {high}"),
        Kind::Choice(words) => words.join(", "),
    }
}

/// Millionths as a decimal number without useless digits.
pub(crate) fn decimal(millionths: i64) -> String {
    let sign = if millionths < 0 { "-" } else { "" };
    format!("{sign}{}", report::decimal(millionths.unsigned_abs().into()))
}

fn markdown() -> String {
    let mut text = format!(
        "# Policies\n\n<!-- Written by `takt policies --markdown`; do not edit. -->\n\n{PREFIXES}\nSettings are written behind the name, \
         as in `--policy rr:quantum=2ms`, or in the file (see [workload.md](workload.md)).\n\n\
         | name | forms | needs | summary |\n|---|---|---|---|\n",
    );
    for entry in registry().entries() {
        let (name, forms) = (entry.profile.name, forms(&entry.profile).join(" "));
        text +=
            &format!("| [`{name}`](#{name}) | `{forms}` | {} | {} |\n", needs(&entry.profile), entry.profile.summary);
    }
    for entry in registry().entries() {
        text += &format!("\n## {}\n\n{}\n", entry.profile.name, entry.manual.trim_end());
        let settings = settings(&entry.profile);
        if !settings.is_empty() {
            text += "\n| setting | takes | default | meaning |\n|---|---|---|---|\n";
        }
        for setting in settings {
            text += &format!(
                "| {} |\n",
                row(setting, setting.default).join(" | ").replacen(setting.name, &format!("`{}`", setting.name), 1)
            );
        }
    }
    text += "\n## Mappers\n\nA policy chooses the jobs that run; its mapper chooses their CPUs. The setting `mapper`, as in \
             `--policy g-edf:mapper=in-order`, names the mapper. The default is the first of these.\n";
    for mapper in MAPPERS {
        text += &format!("\n### {}\n\n{}\n", mapper.name, mapper.manual.trim_end());
    }
    text += "\n## Power policies\n\nA power policy chooses frequencies and idle states, and whether best-effort partitions start: `--power NAME[:ARGUMENTS]`, or \
             the key `power` of the file. Arguments are given in their order, or by name as in `skip_be:zone=soc,limit=80`. \
             [power.md](power.md) is the guide.\n";
    for entry in takt_workload::power_registry().entries() {
        let profile = &entry.profile;
        text += &format!("\n### {}\n\n`{}`: {}.", profile.name, power_usage(profile), profile.summary);
        if !profile.aliases.is_empty() {
            text += &format!(" In DEmOS: `{}`.", profile.aliases.join("`, `"));
        }
        text += &format!("\n\n{}\n", entry.manual.trim_end());
        if !profile.parameters.is_empty() {
            text += "\n| argument | takes | default | meaning |\n|---|---|---|---|\n";
        }
        for parameter in profile.parameters {
            text += &format!(
                "| {} |\n",
                power_row(parameter).join(" | ").replacen(parameter.name, &format!("`{}`", parameter.name), 1)
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_written_without_useless_digits() {
        for (millionths, text) in
            [(0, "0"), (500_000, "0.5"), (1, "0.000001"), (-1_250_000, "-1.25"), (12_000_000, "12")]
        {
            assert_eq!(decimal(millionths), text);
        }
    }
}
