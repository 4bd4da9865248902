//! EDZL as a module: `cargo build --profile module -p edzl-wasm --target wasm32-unknown-unknown`.

takt_wasm_module::export_policy!(&edzl::ENTRY);
