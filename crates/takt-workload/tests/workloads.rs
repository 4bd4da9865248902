//! The workloads that come with Takt load, and mean what their comments say.

use std::path::{Path, PathBuf};
use takt_core::cpus::CpuSet;
use takt_core::time::Span;
use takt_workload::{Options, Source, Workload, canonical, load};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads")
}

#[track_caller]
fn workload(path: &Path) -> Workload {
    let source = Source::read(path).unwrap_or_else(|fault| panic!("{}", fault.render(false)));
    load(source.clone(), &Options::default())
        .unwrap_or_else(|faults| panic!("{}", faults.iter().map(|f| f.render(&source, false)).collect::<String>()))
}

fn files() -> Vec<PathBuf> {
    let list = |folder: PathBuf| std::fs::read_dir(folder).expect("the folder").map(|e| e.expect("an entry").path());
    let mut files: Vec<PathBuf> = list(folder()).chain(list(folder().join("features"))).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "yaml"));
    files.sort();
    files
}

#[test]
fn every_workload_loads_and_says_what_it_shows() {
    let files = files();
    assert!(files.len() >= 16, "{files:?}");
    for path in files {
        let w = workload(&path);
        let suspicious = ["sc-overrun.yaml", "ipi-overload.yaml"].iter().any(|name| path.ends_with(name));
        assert_eq!(w.warnings.len(), usize::from(suspicious), "{path:?}: {:?}", w.warnings);
        assert!(w.source.text.starts_with("# "), "{path:?} has no comment");
        let again = Source { text: canonical(&w), ..w.source.clone() };
        assert_eq!(load(again, &Options::default()).expect("the canonical form").system, w.system, "{path:?}");
    }
}

#[test]
fn the_example_of_the_thesis_is_as_printed() {
    // DEmOS thesis, section 3.4.
    let w = workload(&folder().join("demos-example.yaml"));
    let names: Vec<&str> = w.tasks.iter().map(|t| t.name.as_str()).collect();
    assert_eq!(names, ["SC1-1", "SC1-2", "BE1-1", "SC2-1"]);
    let budgets: Vec<i64> = w.system.tasks.iter().map(|t| t.budget.unwrap().ns() / 1_000_000).collect();
    assert_eq!(budgets, [100, 50, 25, 175]);
    assert_eq!(w.system.major_frame(), Span::from_ms(200));
    assert_eq!(w.system.cpus, CpuSet::first(2));
}

#[test]
fn the_quickstart_leaves_a_tenth_of_each_cpu() {
    let w = workload(&folder().join("quickstart.yaml"));
    assert_eq!(w.system.cpus, CpuSet::first(2));
    let busy: Span = w.system.windows.iter().filter(|w| !w.slices.is_empty()).fold(Span::ZERO, |sum, w| sum + w.length);
    assert!(busy.ns() * 10 < w.system.major_frame().ns() * 9);
}

#[test]
fn times_below_a_millisecond_are_exact() {
    let w = workload(&folder().join("features/sub-millisecond.yaml"));
    assert_eq!(w.system.major_frame(), Span::from_ms(2));
    assert_eq!(w.system.tasks[0].budget, Some(Span::from_us(200)));
}

#[test]
fn a_file_that_is_not_there_is_explained() {
    let fault = Source::read(Path::new("no/such/file.yaml")).unwrap_err();
    let text = fault.render(false);
    assert!(text.starts_with("error[unreadable-file]: cannot read `no/such/file.yaml`"), "{text}");
}
