//! Words of messages.

use takt_core::cpus::CpuSet;

/// `CPU 2`, or `CPUs 0-3`.
pub(crate) fn cpus_text(cpus: &CpuSet) -> String {
    format!("CPU{} {cpus}", if cpus.len() == 1 { "" } else { "s" })
}

/// A name for a message: not longer than a line can bear.
pub(crate) fn clipped(name: &str) -> String {
    const MOST: usize = 60;
    if name.chars().count() <= MOST {
        return name.to_owned();
    }
    name.chars().take(MOST).chain(['…']).collect()
}

/// Reports whether a character changes a text and has no width of its own: marks of the direction of writing, joiners, separators.
fn is_hidden(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// The character, or a printable stand-in for one that a terminal would obey or hide. Both have the same length in UTF-8, so that
/// offsets stay valid.
#[must_use]
pub fn visible(c: char) -> char {
    match c {
        '\n' | '\t' => c,
        '\r' => ' ',
        c if !c.is_control() && !is_hidden(c) => c,
        c => match c.len_utf8() {
            1 => '?',
            2 => '\u{bf}',
            _ => '\u{fffd}',
        },
    }
}

/// A word as a shell reads it back: quoted where it has other characters than a usual name or path.
pub fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:,=+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stand_ins_have_the_length_of_what_they_replace() {
        for c in '\0'..=char::MAX {
            let shown = visible(c);
            assert_eq!(shown.len_utf8(), c.len_utf8(), "{c:?}");
            assert!(matches!(shown, '\n' | '\t') || !shown.is_control() && !is_hidden(shown), "{c:?}");
        }
        for c in "\u{202a}\u{202e}\u{2066}\u{2069}\u{200e}\u{200f}\u{61c}\u{200b}\u{feff}".chars() {
            assert_ne!(visible(c), c, "{c:?}");
        }
        assert_eq!("Größe 周期".chars().map(visible).collect::<String>(), "Größe 周期");
    }

    #[test]
    fn words_are_quoted_where_a_shell_would_change_them() {
        for (word, quoted) in
            [("a=1..5", "a=1..5"), ("it's", r"'it'\''s'"), ("a b", "'a b'"), ("$HOME", "'$HOME'"), ("", "''")]
        {
            assert_eq!(shell_word(word), quoted);
        }
    }
}
