//! Parts of an installation that the program itself writes: files to begin with, manual pages, completions, the version.

use crate::common::{Room, TAKT};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Commands and their options, as docs/cli.md has them, which another test compares with the program.
fn documented() -> Vec<(Vec<String>, Vec<String>)> {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md")).unwrap();
    let mut commands: Vec<(Vec<String>, Vec<String>)> = Vec::new();
    for line in page.lines() {
        let heading = line.trim_start_matches('#').strip_prefix(" takt ").filter(|_| line.starts_with("##"));
        if let Some(words) = heading {
            commands.push((words.split(' ').map(str::to_owned).collect(), Vec::new()));
        } else if let Some(rest) = line.strip_prefix("| `-") {
            let option = format!("-{}", rest.split([' ', '`']).next().unwrap());
            commands.last_mut().unwrap().1.push(option);
        }
    }
    assert!(commands.len() > 60 && commands.iter().map(|(_, options)| options.len()).sum::<usize>() > 400);
    commands
}

#[test]
fn every_option_of_every_command_is_in_its_manual_page() {
    let room = Room::new();
    room.takt(&["__reference", "--manual", "."]).expect(0);
    let mut files = fs::read_dir(room.path(".")).unwrap().count();
    for (words, options) in documented() {
        let mut args = vec!["man"];
        args.extend(words.iter().map(String::as_str));
        let page = room.takt(&args).expect(0).stdout;
        for option in options {
            let bold = format!("\\fB{}\\fR", option.replace('-', "\\-"));
            assert!(page.contains(&bold), "{words:?}: {option}: {page}");
        }
        assert_eq!(page, room.text(&format!("takt-{}.1", words.join("-"))), "the page of packages");
        files -= 1;
    }
    let page = room.takt(&["man"]).expect(0).stdout;
    assert_eq!(page, room.text("takt.1"));
    assert!(page.contains("takt\\-sim(1)") && !page.contains("__"), "{page}");
    assert_eq!(files, 2, "one more is takt.1, and one is demos-sched.1");
    for (args, says) in [
        (
            &["man", "simm"][..],
            "error[unknown-name]: there is no command `takt simm`\nhint: did you mean `takt sim`?\n",
        ),
        (
            &["man", "trace", "x"],
            "error[unknown-name]: there is no command `takt trace x`\nhint: `takt trace --help` lists its commands\n",
        ),
        (
            &["man", "__watch"],
            "error[unknown-name]: there is no command `takt __watch`\nhint: `takt --help` lists its commands\n",
        ),
    ] {
        assert_eq!(room.takt(args).expect(2).stderr, says);
    }
}

#[test]
fn shells_accept_the_completions() {
    let room = Room::new();
    let mut accepted = Vec::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = room.takt(&["completions", shell]).expect(0).stdout;
        assert!(script.contains("schedulability") && !script.contains("__environments"), "{shell}");
        fs::write(room.path(shell), script).unwrap();
        // Zsh and fish are not everywhere.
        let Ok(output) = Command::new(shell).arg("-n").arg(room.path(shell)).output() else { continue };
        assert!(output.status.success() && output.stderr.is_empty(), "{shell}: {output:?}");
        accepted.push(shell);
    }
    assert!(accepted.contains(&"bash"), "{accepted:?}");
    let completed = |words: &str| {
        let script = format!(
            ". ./bash; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _takt takt \"${{COMP_WORDS[-1]}}\"; echo \"${{COMPREPLY[@]}}\""
        );
        let output = Command::new("bash").args(["-c", &script]).current_dir(room.path(".")).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(completed("takt pol"), "policies\n");
    assert_eq!(completed("takt sim --emit"), "--emit-windows\n");
    assert_eq!(completed("takt init ta"), "table tasks\n");
    let wrong = room.takt(&["completions", "tcsh"]).expect(2).stderr;
    assert!(wrong.contains("bash") && wrong.contains("fish") && wrong.contains("zsh"), "{wrong}");
}

/// The library's tests compare it with the reader.
#[test]
fn the_schema_names_the_keys_and_policies() {
    let schema: serde_json::Value = serde_json::from_str(&Room::new().takt(&["schema"]).expect(0).stdout).unwrap();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    let period = &schema["$defs"]["task"]["properties"]["period"]["description"];
    assert!(period.as_str().unwrap().contains("time between releases"), "{period}");
    assert!(schema["$defs"]["policy"].to_string().contains("\"g-edf\""));
}

#[test]
fn a_file_to_begin_with_is_checked_and_simulated_as_it_is() {
    for kind in ["table", "tasks", "service"] {
        let room = Room::new();
        let file = format!("{kind}.yaml");
        let said = room.takt(&["init", kind]).expect(0).stdout;
        assert!(said.contains(&format!("takt sim {file}")), "{said}");
        let checked = room.takt(&["check", &file]).expect(0);
        assert!(
            checked.stdout.contains("\nschedulable") && checked.stderr.is_empty(),
            "{}{}",
            checked.stdout,
            checked.stderr
        );
        let simulated = room.takt(&["sim", &file, "--strict"]).expect(0);
        assert!(simulated.stderr.is_empty(), "{}", simulated.stderr);
        // Every process has a command, so `takt run` finds no simulated one.
        let text = room.text(&file);
        assert_eq!(
            text.matches("- name: ").count() - text.matches("    processes:").count(),
            text.matches(" cmd: ").count()
        );
        // Its comments name it as it is called.
        assert_eq!(room.takt(&["init", kind, "-"]).expect(0).stdout, text);
        room.takt(&["init", kind, "mine.yaml"]).expect(0);
        assert_eq!(room.text("mine.yaml"), text.replace(&file, "mine.yaml"));
    }
}

#[test]
fn an_existing_file_is_kept() {
    let room = Room::new();
    fs::write(room.path("table.yaml"), "mine").unwrap();
    let refused = room.takt(&["init"]).expect(2).stderr;
    let hint = "hint: name another file, as in `takt init table FILE`, or remove this one\n";
    assert_eq!(refused, format!("error[file-exists]: `table.yaml` exists already\n{hint}"));
    assert_eq!(room.text("table.yaml"), "mine");
    let lost = room.takt(&["init", "tasks", "missing/w.yaml"]).expect(2).stderr;
    assert!(lost.starts_with("error[unwritable-file]: cannot write `missing/w.yaml`"), "{lost}");
    if Path::new("/dev/full").exists() {
        let full =
            Command::new(TAKT).args(["init", "tasks", "-"]).stdout(fs::File::create("/dev/full").unwrap()).output();
        assert_eq!(full.unwrap().status.code(), Some(1));
    }
}

#[test]
fn the_version_is_that_of_the_package() {
    let said = Room::new().takt(&["--version"]).expect(0).stdout;
    let version = option_env!("TAKT_VERSION").filter(|version| !version.is_empty());
    assert_eq!(said, format!("takt {}\n", version.unwrap_or(env!("CARGO_PKG_VERSION"))));
}
