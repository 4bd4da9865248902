//! Puts the scripts of this board where the linker finds them.

use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let out = env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?;
    for file in ["memory.x", "device.x"] {
        fs::copy(file, Path::new(&out).join(file))?;
        println!("cargo::rerun-if-changed={file}");
    }
    println!("cargo::rustc-link-search={}", Path::new(&out).display());
    Ok(())
}
