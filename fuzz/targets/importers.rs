//! No text makes an importer panic, and what it accepts has a canonical form that the reader takes.

#![no_main]

use libfuzzer_sys::{Corpus, fuzz_target};
use takt_core::model::PolicySpec;
use takt_workload::import::{chronos, litmus};
use takt_workload::{Options, Source, canonical, load};

fuzz_target!(|text: &str| -> Corpus {
    if text.len() > 8 << 10 {
        return Corpus::Reject;
    }
    let source = Source { name: "fuzz".into(), text: text.into() };
    let options = Options { policy: PolicySpec::from_name("g-edf"), ..Options::default() };
    let imported = [chronos::load(&source, &chronos::Run::default(), &options), litmus::load(&source, &options)];
    for workload in imported.into_iter().flatten() {
        let again = Source { name: "again.yaml".into(), text: canonical(&workload) };
        load(again, &Options::default()).unwrap_or_else(|faults| panic!("{faults:#?}\n{}", canonical(&workload)));
    }
    Corpus::Keep
});
