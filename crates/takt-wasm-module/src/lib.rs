//! A scheduling policy as a WebAssembly module: the interface between a module and Takt, and with the feature `exports` the side of the module.
//!
//! A crate of the type `cdylib` makes a module of the [`Entry`](takt_core::policy::Entry) of a policy with [`export_policy!`]. The source of the policy
//! is unchanged: the module holds an engine that mirrors the one of its host. The module imports nothing. `docs/writing-policies.md` has the steps.
//!
//! | export | meaning |
//! |---|---|
//! | `memory` | the module's memory |
//! | `takt_abi() -> i32` | [`ABI`] |
//! | `takt_profile() -> i64` | [`Profile`](wire::Profile): address in the upper 32 bits, length in the lower ones |
//! | `takt_reserve(i32) -> i32` | the address of so many bytes, for the next call |
//! | `takt_build() -> i64` | builds the policy from the [`Setup`](wire::Setup) in these bytes; [`Built`](wire::Built), as an address and a length |
//! | `takt_ask() -> i32` | answers the [`Question`](words::Question) in the input; the number of rows in the output |
//! | `takt_admits() -> i32` | whether a task can have the terms in the input |
//! | `takt_home(i32) -> i32` | the CPU that a task belongs to, or -1 |
//!
//! Numbers in both areas are little-endian integers of 64 bits ([`words`]).

#[cfg(feature = "exports")]
pub mod module;
pub mod wire;
pub mod words;

/// Version of the interface. A host refuses modules of another one.
pub const ABI: i32 = 1;

/// Exports the policy of an [`Entry`](takt_core::policy::Entry) from the module.
#[cfg(feature = "exports")]
#[macro_export]
macro_rules! export_policy {
    ($entry:expr) => {
        // Only the names of these functions need `unsafe`: no other function of a module may have them.
        #[unsafe(no_mangle)]
        extern "C" fn takt_abi() -> i32 {
            $crate::ABI
        }
        #[unsafe(no_mangle)]
        extern "C" fn takt_profile() -> i64 {
            $crate::module::profile($entry)
        }
        #[unsafe(no_mangle)]
        extern "C" fn takt_reserve(length: i32) -> i32 {
            $crate::module::reserve(length)
        }
        #[unsafe(no_mangle)]
        extern "C" fn takt_build() -> i64 {
            $crate::module::build($entry)
        }
        #[unsafe(no_mangle)]
        extern "C" fn takt_ask() -> i32 {
            $crate::module::ask()
        }
        #[unsafe(no_mangle)]
        extern "C" fn takt_admits() -> i32 {
            $crate::module::admits()
        }
        #[unsafe(no_mangle)]
        extern "C" fn takt_home(task: i32) -> i32 {
            $crate::module::home(task)
        }
    };
}
