//! Modules for tests: built by `cargo`, and written by hand.

#![allow(dead_code, unreachable_pub, reason = "each test uses a part")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use takt_core::model::{Need, Scope};
use takt_testing::{Capability, skip};
use takt_wasm_module::wire::{self, Areas, Built, Profile};

const TARGET: &str = "wasm32-unknown-unknown";

/// Options of the build of a module.
pub const BUILD: [&str; 4] = ["--profile", "module", "--target", TARGET];

/// The module of these arguments of `cargo build`, or `None` where the machine cannot build one.
pub fn built(arguments: &[&str], file: &str) -> Option<PathBuf> {
    if !Capability::WasmTarget.is_present() {
        skip(
            Capability::WasmTarget,
            &format!("the Rust target {TARGET} is not installed (`rustup target add {TARGET}`)"),
        );
        return None;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    // A folder of its own: another `cargo` may build in the usual one.
    let folder = root.join("target/modules");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    cargo.arg("build").args(BUILD).args(["--quiet", "--locked"]).args(arguments);
    let output = cargo.current_dir(&root).env("CARGO_TARGET_DIR", &folder).output().expect("cargo starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(folder.join(TARGET).join("module").join(file))
}

/// EDZL as a module, from the same source as the program with it.
pub fn edzl() -> Option<&'static Path> {
    static BUILT: OnceLock<Option<PathBuf>> = OnceLock::new();
    BUILT.get_or_init(|| built(&["-p", "edzl-wasm"], "edzl_wasm.wasm")).as_deref()
}

/// The policy of this number in the registry as a module.
pub fn of_registry(number: usize) -> Option<Vec<u8>> {
    static BUILT: OnceLock<Option<Vec<u8>>> = OnceLock::new();
    let all = BUILT.get_or_init(|| {
        let arguments = ["-p", "takt-rt-wasm-module", "--example", "registry", "--features", "exports"];
        built(&arguments, "examples/registry.wasm").map(|path| std::fs::read(path).expect("it was built"))
    });
    let mut module = all.clone()?;
    for (marker, digit) in [(b"takt-policy-number=0", number % 10), (b"takt-policy-tens=  0", number / 10)] {
        let at = module.windows(marker.len()).position(|window| window == marker).expect("the marker");
        module[at + marker.len() - 1] = b'0' + digit as u8;
    }
    Some(module)
}

/// Where a module by hand has what.
pub const INPUT: i32 = 0x1_0000;
pub const OUTPUT: i32 = 0x8_0000;

/// A module by hand, of a policy for jobs of any form.
pub struct ByHand {
    pub name: &'static str,
    pub abi: i32,
    pub timers: u16,
    /// The body of `takt_ask`: the input and the output are at [`INPUT`] and [`OUTPUT`].
    pub ask: String,
    /// The body of `takt_admits`.
    pub admits: &'static str,
    /// Further fields of the module.
    pub more: String,
    /// A function that is left out.
    pub without: &'static str,
}

impl ByHand {
    pub fn new(name: &'static str, ask: &str) -> ByHand {
        let (abi, admits) = (takt_wasm_module::ABI, "(i32.const 1)");
        ByHand { name, abi, timers: 1, ask: ask.to_owned(), admits, more: String::new(), without: "" }
    }

    pub fn bytes(&self) -> Vec<u8> {
        let profile = Profile {
            name: self.name.to_owned(),
            summary: "by hand".to_owned(),
            manual: String::new(),
            scopes: vec![Scope::Uniprocessor, Scope::Global],
            needs: vec![Need::Period],
            has_demand_test: false,
            settings: Vec::new(),
        };
        let areas = Areas { input: INPUT as u32, input_words: 0x8000, output: OUTPUT as u32, output_words: 0x8000 };
        let built = wire::bytes(&(Some(Built { timers: self.timers, meters: false, areas }), String::new()));
        let profile = wire::bytes(&profile);
        let data = |bytes: &[u8]| bytes.iter().map(|byte| format!("\\{byte:02x}")).collect::<String>();
        let packed = |at: i64, bytes: &[u8]| at << 32 | bytes.len() as i64;
        let export = |name: &str| if name == self.without { String::new() } else { format!("(export \"{name}\")") };
        let text = format!(
            "(module
               (memory (export \"memory\") 64)
               (data (i32.const 1024) \"{}\")
               (data (i32.const 4096) \"{}\")
               (func {} (result i32) (i32.const {}))
               (func {} (result i64) (i64.const {}))
               (func {} (param i32) (result i32) (i32.const 0x200000))
               (func {} (result i64) (i64.const {}))
               (func {} (result i32) {})
               (func {} (result i32) {})
               (func {} (param i32) (result i32) (i32.const -1))
               {})",
            data(&profile),
            data(&built),
            export("takt_abi"),
            self.abi,
            export("takt_profile"),
            packed(1024, &profile),
            export("takt_reserve"),
            export("takt_build"),
            packed(4096, &built),
            export("takt_ask"),
            self.ask,
            export("takt_admits"),
            self.admits,
            export("takt_home"),
            self.more
        );
        wat::parse_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
    }
}

/// Answers with these rows, each of five integers.
pub fn rows(rows: &[[i64; 5]]) -> String {
    let word = |(index, word): (usize, &i64)| {
        format!("(i64.store (i32.const {}) (i64.const {word}))", OUTPUT as usize + 8 * index)
    };
    let words: String = rows.iter().flatten().enumerate().map(word).collect();
    format!("{words} (i32.const {})", rows.len())
}

/// Answers questions of this kind with `answer`, and others with nothing.
pub fn on(kind: i64, answer: &str) -> String {
    format!(
        "(if (result i32) (i64.eq (i64.load (i32.const {INPUT})) (i64.const {kind})) (then {answer}) (else (i32.const 0)))"
    )
}
