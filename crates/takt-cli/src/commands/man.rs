//! `takt man`: the manual pages of the commands, made from the description that the help texts have.

use crate::failure::Failure;
use crate::outcome::{Outcome, Verdict};
use clap::Command;
use std::io::{self, Write};
use takt_workload::Code;

/// Print a manual page, as in `takt man trace show | man -l -`
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Words of the command, such as `sim` or `trace show`; none for `takt` itself
    #[arg(value_name = "COMMAND")]
    words: Vec<String>,
}

/// `command` is the whole command line.
pub(crate) fn run(args: &Args, command: &Command) -> Outcome {
    let whole = built(command);
    let (mut found, mut name) = (&whole, "takt".to_owned());
    for word in &args.words {
        let Some(next) = visible(found).find(|command| command.get_name() == word) else {
            let near = takt_workload::nearest(word, visible(found).map(Command::get_name));
            let hint = match near {
                Some(near) => format!("did you mean `{name} {near}`?"),
                None => format!("`{name} --help` lists its commands"),
            };
            return Err(Failure::input(Code::UnknownName, format!("there is no command `{name} {word}`"), &hint));
        };
        (found, name) = (next, format!("{name} {word}"));
    }
    io::stdout().lock().write_all(&page(found)?.1)?;
    Ok(Verdict::Done)
}

/// The name and the text of the page of each visible command.
///
/// # Errors
/// None: pages are written into memory.
pub(super) fn pages(command: &Command) -> io::Result<Vec<(String, Vec<u8>)>> {
    fn add(command: &Command, pages: &mut Vec<(String, Vec<u8>)>) -> io::Result<()> {
        pages.push(page(command)?);
        visible(command).try_for_each(|command| add(command, pages))
    }
    let mut pages = Vec::new();
    add(&built(command), &mut pages)?;
    Ok(pages)
}

/// A page of a built command. clap knows the version of the whole command line alone.
fn page(command: &Command) -> io::Result<(String, Vec<u8>)> {
    let page =
        clap_mangen::Man::new(command.clone()).source(concat!("takt ", env!("CARGO_PKG_VERSION"))).manual("Takt");
    let mut text = Vec::new();
    page.render(&mut text)?;
    Ok((page.get_filename(), text))
}

/// With the full names of all commands, and without `help`, which has no page.
fn built(command: &Command) -> Command {
    let mut command = command.clone().disable_help_subcommand(true);
    command.build();
    command
}

/// Commands for users.
pub(super) fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|c| !c.is_hide_set() && c.get_name() != "help")
}
