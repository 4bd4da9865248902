//! No line makes the control socket of a run panic, and a request survives its line.

#![no_main]

use libfuzzer_sys::{Corpus, fuzz_target};

fuzz_target!(|line: &[u8]| -> Corpus {
    if line.len() > 4 << 10 {
        return Corpus::Reject;
    }
    takt_cli::fuzz_control(line);
    Corpus::Keep
});
