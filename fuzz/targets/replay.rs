//! No record of steps makes `takt sim --replay` panic, also with `--what-if`.

#![no_main]

use libfuzzer_sys::{Corpus, fuzz_target};

const WORKLOAD: &str = include_str!("../../crates/takt-cli/tests/records/edf.yaml");

fuzz_target!(|record: &[u8]| -> Corpus {
    if record.len() > 8 << 10 {
        return Corpus::Reject;
    }
    takt_cli::fuzz_replay(WORKLOAD, record);
    Corpus::Keep
});
