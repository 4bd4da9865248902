//! Every policy of Takt as a module, for tests: the number behind the marker chooses one of [`REGISTRY`].

use std::hint::black_box;
use takt_core::policy::Entry;
use takt_core::registry::REGISTRY;

/// A test writes another number into the file.
static POLICY: [u8; 20] = *b"takt-policy-number=0";
static TENS: [u8; 20] = *b"takt-policy-tens=  0";

fn entry() -> &'static Entry {
    let digit = |text: &'static [u8; 20]| usize::from(black_box(text)[19] - b'0');
    REGISTRY[10 * digit(&TENS) + digit(&POLICY)]
}

takt_wasm_module::export_policy!(entry());
