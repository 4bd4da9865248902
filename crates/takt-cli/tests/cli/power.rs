//! Power policies from the command line: what a simulation writes of them, and what is refused.

use crate::common::{Room, workloads};
use std::fs;
use takt_core::record::RecordKind;
use takt_testing::sysfs::Machine;

fn example(name: &str) -> String {
    workloads().join("features").join(name).display().to_string()
}

/// The same trace in all formats, with the frequencies under the chart, and twice the same bytes.
#[test]
fn traces_hold_frequencies_and_temperatures_in_all_formats() {
    let room = Room::new();
    let file = example("skip-best-effort.yaml");
    for name in ["a.jsonl", "b.csv", "c.pftrace", "again.jsonl"] {
        let args = ["sim", &file, "--duration", "30s", "--power", "minbe", "--trace", name, "--gantt", "chart.svg"];
        room.takt(&args).expect(0);
    }
    let (json, csv) = (room.trace("a.jsonl"), room.trace("b.csv"));
    assert_eq!((&json.header, &json.records), (&csv.header, &csv.records));
    assert_eq!(fs::read(room.path("a.jsonl")).unwrap(), fs::read(room.path("again.jsonl")).unwrap());
    assert_eq!(json.header.frequency_domains, ["a53", "a72"]);
    let count = |of: fn(&RecordKind) -> bool| json.records.iter().filter(|r| of(&r.record.kind)).count();
    assert_eq!(count(|kind| matches!(kind, RecordKind::Temperature { zone: 0, millidegrees: Some(_) })), 300);
    // Each window changes both domains twice, after the one change of each at its start.
    assert_eq!(count(|kind| matches!(kind, RecordKind::Frequency { domain: 1, khz: 600_000 })), 300);
    assert_eq!(count(|kind| matches!(kind, RecordKind::Frequency { domain: 1, khz: 1_596_000 })), 300);
    let perfetto = fs::read(room.path("c.pftrace")).unwrap();
    let has = |text: &str| perfetto.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(has("a72 frequency") && has("soc temperature") && has("kHz"));
    let chart = room.text("chart.svg");
    assert!(chart.contains("a72: 600 to 1596 MHz") && chart.contains("soc: 44.6 to "), "the curves are not drawn");
    let shown = room.takt(&["trace", "show", "a.jsonl", "--to", "200ms"]).expect(0);
    assert!(
        shown.stdout.contains("frequency requests 1200") && shown.stdout.contains("temperature of soc"),
        "{}",
        shown.stdout
    );
}

/// The safety-critical jobs are those without the policy, and each skipped start is in the trace and in the counts.
#[test]
fn skipped_starts_are_recorded_and_counted() {
    let room = Room::new();
    let file = example("skip-best-effort.yaml");
    let with = room.takt(&["sim", &file, "--json", "--trace", "with.jsonl", "--energy", "energy.csv"]).expect(0).json();
    let without = room.takt(&["sim", &file, "--power", "none", "--json"]).expect(0).json();
    let skipped = with["power"]["skipped_starts"].as_u64().unwrap();
    let trace = room.trace("with.jsonl");
    let recorded = trace.records.iter().filter(|r| matches!(r.record.kind, RecordKind::StartSkipped { .. })).count();
    assert!(skipped > 50 && skipped == recorded as u64, "{skipped} and {recorded}");
    assert_eq!(with["tasks"][0]["response_ns"], without["tasks"][0]["response_ns"]);
    let highest = |json: &serde_json::Value| json["power"]["zones"][0]["highest_millidegrees"].as_i64().unwrap();
    assert!(highest(&with) < 48_500 && highest(&without) > 48_800, "{} {}", highest(&with), highest(&without));
    // The rows are those of the JSON.
    let energy = room.text("energy.csv");
    let all = with["power"]["energy_uj"]["all"].as_u64().unwrap();
    assert!(energy.contains(&format!("all,,{all},,,")) && energy.contains("zone,soc,,44600,"), "{energy}");
    assert!(energy.contains(&format!("task,control-1,{},,,", with["tasks"][0]["energy_uj"])), "{energy}");
}

#[test]
fn impossible_requests_are_refused_with_a_way_out() {
    let room = Room::with("windows: [{length: 100, cpu: 0, sc_processes: [{cmd: x, budget: 10}]}]\n");
    let file = example("power.yaml");
    for (args, part) in [
        (vec!["sim", "w.yaml", "--power", "low"], "add `platform:`"),
        (vec!["sim", "w.yaml", "--energy", "e.csv"], "add `platform:`"),
        (vec!["sim", &file, "--power", "fixed:600,700"], "`600`, `1056`, `1296` and `1596` MHz"),
        (vec!["check", &file, "--power", "skip_be:cpu,60"], "the zones are `soc`"),
        (vec!["sim", &file, "--power", "thermal_cap:soc"], "`thermal_cap:zone,limit[,hysteresis]`"),
        (vec!["policies", "--power", "racetoidle"], "did you mean `race_to_idle`?"),
    ] {
        let done = room.takt(&args).expect(2);
        assert!(done.stderr.contains(part), "{args:?}: {}", done.stderr);
    }
    assert!(!room.path("e.csv").exists());
}

/// The canonical form means the same.
/// `takt check` reports the requests, the frequency domains of the file or of this machine, and what they lack.
#[test]
fn check_reports_the_power_policy() {
    let room = Room::new();
    let file = example("power.yaml");
    let text = room.takt(&["check", &file]).expect(0).stdout;
    assert!(text.contains("power policy minbe: ") && text.contains("; requests frequencies"), "{text}");
    assert!(text.contains("frequency domain a53 of platform (CPU 0-3): 600, 896, 1104, 1200 MHz"), "{text}");
    let table = "partitions: [{name: A, processes: [{cmd: x, budget: 10}]}]\nwindows:\n\
                 - {length: 20, slices: [{cpu: 0, frequency: 1000, sc_partition: A}]}\n";
    fs::write(room.path("w.yaml"), table).unwrap();
    Machine::acpi_cpufreq(&room.path("m"));
    let check = |power: &str, machine: &str| {
        let json =
            room.takt(&["check", "w.yaml", "--power", power, "--sysfs-root", machine, "--json"]).expect(0).json();
        json["power"].clone()
    };
    let fits = check("low", "m");
    assert_eq!(fits["domains"][0]["khz"], serde_json::json!([800_000, 1_200_000, 1_800_000, 2_400_000]));
    assert_eq!(fits["lacks"], serde_json::json!([]));
    let lacks = check("per_slice", "m")["lacks"].to_string();
    assert!(lacks.contains("1000 MHz") && lacks.contains("800"), "{lacks}");
    let none = check("low", "nowhere")["lacks"].to_string();
    assert!(none.contains("no control of CPU frequencies"), "{none}");
    assert_eq!(check("skip_be:x86_pkg_temp,60", "m")["requests"][0], "skipped starts of best-effort partitions");
    let warned = room.takt(&["check", "w.yaml", "--power", "per_slice", "--sysfs-root", "m"]).expect(0).stdout;
    assert!(warned.contains("warning: `takt run` refuses this power policy here: "), "{warned}");
}

#[test]
fn the_canonical_form_keeps_the_power_policy_and_the_platform() {
    let room = Room::new();
    for name in ["power.yaml", "skip-best-effort.yaml"] {
        let file = example(name);
        let canonical = room.takt(&["check", &file, "--canonical"]).expect(0).stdout;
        fs::write(room.path("c.yaml"), &canonical).unwrap();
        let json = |file: &str| {
            let mut json = room.takt(&["sim", file, "--duration", "5s", "--json"]).expect(0).json();
            json.as_object_mut().unwrap().remove("notes");
            json
        };
        assert_eq!(json("c.yaml"), json(&file), "{name}");
        let again = room.takt(&["check", "c.yaml", "--canonical"]).expect(0).stdout;
        assert_eq!(again, canonical, "{name}");
    }
}

#[test]
fn manual_pages_of_power_policies_have_their_arguments() {
    let room = Room::new();
    let all = room.takt(&["policies", "--power"]).expect(0).stdout;
    for entry in takt_core::power::Registry::standard().entries() {
        let name = entry.profile.name;
        assert!(all.lines().any(|line| line.starts_with(name)), "{name} is not listed");
        let page = room.takt(&["policies", "--power", name]).expect(0).stdout;
        let arguments = entry.profile.parameters.iter().all(|parameter| page.contains(parameter.summary));
        assert!(arguments && page.contains("**Source.**"), "{page}");
    }
}
