//! EDZL as a module: `cargo build --release -p edzl-wasm --target wasm32-unknown-unknown`.

/// The same file as in the program with EDZL.
#[path = "../../edzl/src/lib.rs"]
pub mod edzl;

takt_wasm_guest::export_policy!(&edzl::ENTRY);
