//! Rules for the arguments of all commands.

use std::any::TypeId;
use std::path::PathBuf;

/// Lets options that are no files take values such as `-5ms`, so that their own parsers refuse these with the range.
pub(crate) fn negative_values(command: clap::Command) -> clap::Command {
    let is_text = |arg: &clap::Arg| {
        let of = arg.get_value_parser().type_id();
        of == TypeId::of::<PathBuf>() || of == TypeId::of::<String>()
    };
    let command = command.mut_args(|arg| {
        let one = arg.get_num_args().is_none_or(|number| number == 1.into());
        let allow = arg.get_action().takes_values() && arg.get_long().is_some() && one && !is_text(&arg);
        if allow { arg.allow_hyphen_values(true) } else { arg }
    });
    command.mut_subcommands(negative_values)
}
