//! Instructions between marks are counted, exactly.

use std::process::Command;
use takt_linux::count::instructions;
use takt_testing::{Capability, skip};

fn marked(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

/// `None` where tracing is forbidden, as in some containers.
fn count<const N: usize>(script: &str, most: u64) -> Option<std::io::Result<[u64; N]>> {
    match instructions(&mut marked(script), most) {
        Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => {
            skip(Capability::Ptrace, &e.to_string());
            None
        }
        other => Some(other),
    }
}

#[test]
fn more_work_is_more_instructions() {
    let script = "kill -STOP $$; kill -STOP $$; i=0; while [ $i -lt 5 ]; do i=$((i+1)); done; kill -STOP $$";
    let Some(counts) = count::<2>(script, 1_000_000) else { return };
    let [nothing, loops] = counts.unwrap();
    assert!(nothing > 0 && loops > nothing + 5, "{nothing}, {loops}");
}

#[test]
fn a_program_that_ends_too_early_or_executes_too_much_is_an_error() {
    let Some(early) = count::<2>("kill -STOP $$", 1_000_000) else { return };
    assert_eq!(early.unwrap_err().to_string(), "it ended before its last mark");
    let Some(never) = count::<1>("kill -STOP $$; while :; do :; done", 1_000) else { return };
    assert_eq!(never.unwrap_err().to_string(), "it executes more than 1000 instructions");
}
