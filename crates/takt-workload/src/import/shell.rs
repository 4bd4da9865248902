//! The simple commands of a shell script, as far as they can be told without running it: variables that it sets to plain values
//! are known, what it computes is not.

use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::node::Place;
use crate::text::clipped;
use std::collections::HashMap;

/// Bytes of a word whose variables are replaced. No kernel takes more than twice that as one argument.
const MOST_IN_WORD: usize = 64 << 10;
/// Bytes that all variables of a script stand for together.
const MOST_EXPANDED: usize = 16 << 20;

/// One word of a command.
#[derive(Clone, Debug)]
pub(super) struct Word {
    /// After quotes and variables.
    pub(super) text: String,
    /// Where it stands.
    pub(super) place: Place,
    /// The part that only a running shell knows, such as `$1`; no longer than a message can bear.
    pub(super) unknown: Option<String>,
}

/// A command with its arguments, without redirections and assignments before it.
#[derive(Debug)]
pub(super) struct Command {
    /// At least one.
    pub(super) words: Vec<Word>,
    /// The keyword of the loop, condition or function that encloses it: it may be called many times, or never.
    pub(super) inside: Option<Place>,
}

/// All commands of a script in their order. O(length), and what variables stand for is limited: a few lines that double one can
/// describe more text than any machine has room for.
///
/// # Errors
/// The word in which a variable is too long.
pub(super) fn commands(text: &str) -> Result<Vec<Command>, Diagnostic> {
    let mut lexer = Lexer { text, at: 0, ..Lexer::default() };
    while let Some(c) = lexer.next() {
        lexer.character(c);
        if let Some(place) = &lexer.too_long {
            let fault = Diagnostic::error(Code::LimitExceeded, place, "the variables of this script grow too long");
            let label =
                format!("more than {} KiB in a word, or {} MiB in the script", MOST_IN_WORD >> 10, MOST_EXPANDED >> 20);
            return Err(fault.label(label).hint("write the tasks without them"));
        }
    }
    lexer.end_command();
    Ok(lexer.commands)
}

#[derive(Default)]
struct Lexer<'t> {
    text: &'t str,
    at: usize,
    word: Option<Word>,
    /// The next word is the target of a redirection.
    redirected: bool,
    words: Vec<Word>,
    /// `None` is set to what cannot be known.
    variables: HashMap<String, Option<String>>,
    /// Bytes that variables stood for so far.
    expanded: usize,
    /// The variable that was one too many.
    too_long: Option<Place>,
    /// The keywords of what is open.
    open: Vec<Place>,
    commands: Vec<Command>,
}

impl<'t> Lexer<'t> {
    fn next(&mut self) -> Option<char> {
        let c = self.text[self.at..].chars().next()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    /// The text up to the next `end`, which is passed; all the rest if there is none.
    fn until(&mut self, end: char) -> &'t str {
        let rest = &self.text[self.at..];
        let length = rest.find(end).unwrap_or(rest.len());
        self.at += (length + end.len_utf8()).min(rest.len());
        &rest[..length]
    }

    /// The word that is being read; the character before this place begins it if none is.
    fn word(&mut self, first: char) -> &mut Word {
        let start = self.at - first.len_utf8();
        self.word.get_or_insert_with(|| Word { text: String::new(), place: start..start, unknown: None })
    }

    fn character(&mut self, c: char) {
        match c {
            '\\' if self.peek() == Some('\n') => self.at += 1,
            '\\' => {
                self.word(c);
                let escaped = self.next();
                self.word(c).text.extend(escaped);
            }
            '\'' => {
                self.word(c);
                let quoted = self.until('\'');
                self.word(c).text.push_str(quoted);
            }
            '"' => self.double_quoted(),
            '$' | '`' => {
                self.word(c);
                self.expand(c);
            }
            '#' if self.word.is_none() => {
                let line = self.text[self.at..].find('\n').unwrap_or(self.text.len() - self.at);
                self.at += line;
            }
            '>' | '<' => self.redirection(),
            '&' if self.peek() == Some('>') => {
                self.at += 1;
                self.redirection();
            }
            '\n' | ';' | '&' | '|' | '(' | ')' => self.end_command(),
            c if c.is_whitespace() => self.end_word(self.at - c.len_utf8()),
            c => self.word(c).text.push(c),
        }
    }

    fn double_quoted(&mut self) {
        self.word('"');
        while let Some(c) = self.next() {
            match c {
                '"' => return,
                '$' | '`' => self.expand(c),
                '\\' => {
                    let escaped = self.next();
                    self.word(c).text.extend(escaped.filter(|e| *e != '\n'));
                }
                c => self.word(c).text.push(c),
            }
        }
    }

    /// Reads what follows a `$` or a backquote, and puts its value into the present word.
    fn expand(&mut self, c: char) {
        let start = self.at - 1;
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let name = match self.peek() {
            _ if c == '`' => {
                self.until('`');
                None
            }
            Some('(') => {
                self.parenthesis();
                None
            }
            Some('{') => {
                self.at += 1;
                Some(self.until('}')).filter(|name| name.chars().all(is_name))
            }
            Some(c) if is_name(c) => {
                let rest = &self.text[self.at..];
                // `$12` is `$1` and a 2.
                let length = if c.is_ascii_digit() { 1 } else { rest.find(|c| !is_name(c)).unwrap_or(rest.len()) };
                self.at += length;
                Some(&rest[..length])
            }
            Some('#' | '?' | '!' | '@' | '*' | '$') => {
                self.at += 1;
                None
            }
            _ => {
                self.word(c).text.push('$');
                return;
            }
        };
        let value = name.and_then(|name| self.variables.get(name).cloned().flatten());
        let place = start..self.at;
        let shown = clipped(&self.text[place.clone()]);
        let expanded = self.expanded + value.as_ref().map_or(0, String::len);
        let word = self.word(c);
        let Some(value) = value else {
            word.unknown = word.unknown.take().or(Some(shown));
            return;
        };
        if word.text.len() + value.len() > MOST_IN_WORD || expanded > MOST_EXPANDED {
            // Not taken in: there may be many more before the closing quote.
            self.too_long.get_or_insert(place);
        } else {
            word.text.push_str(&value);
            self.expanded = expanded;
        }
    }

    /// Skips a parenthesis and its content.
    fn parenthesis(&mut self) {
        let mut depth = 0;
        while let Some(c) = self.next() {
            match c {
                '(' => depth += 1,
                ')' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return;
            }
        }
    }

    /// After a `<` or `>`: its target is no argument, nor is the descriptor before it.
    fn redirection(&mut self) {
        let is_descriptor = |word: &Word| word.text.bytes().all(|b| b.is_ascii_digit()) && word.unknown.is_none();
        if self.word.as_ref().is_some_and(is_descriptor) {
            self.word = None;
        } else {
            self.end_word(self.at - 1);
        }
        while matches!(self.peek(), Some('>' | '<' | '&' | '|')) {
            self.at += 1;
        }
        self.redirected = true;
    }

    fn end_word(&mut self, end: usize) {
        if let Some(mut word) = self.word.take() {
            word.place.end = end;
            if !std::mem::take(&mut self.redirected) {
                self.words.push(word);
            }
        }
    }

    fn end_command(&mut self) {
        // The character that ends the command is passed already, but at the end of the text there is none.
        let end = self.at - usize::from(self.text[..self.at].ends_with(['\n', ';', '&', '|', '(', ')']));
        self.end_word(end);
        self.redirected = false;
        let mut words = std::mem::take(&mut self.words);
        let mut set = Vec::new();
        let mut before = 0;
        while let Some(first) = words.get(before) {
            match first.text.as_str() {
                "for" | "case" | "select" | "function" => {
                    self.open.push(first.place.clone());
                    return;
                }
                "while" | "until" | "if" | "{" => self.open.push(first.place.clone()),
                "done" | "fi" | "esac" | "}" => {
                    self.open.pop();
                }
                "do" | "then" | "else" | "elif" | "!" | "time" | "export" | "local" | "declare" | "readonly" => {}
                _ => match assignment(first) {
                    Some(assignment) => set.push(assignment),
                    None => break,
                },
            }
            before += 1;
        }
        words.drain(..before);
        if words.is_empty() {
            // Whether and when it is set inside of something is not known.
            let known = self.open.is_empty();
            self.variables.extend(set.into_iter().map(|(name, value)| (name, value.filter(|_| known))));
        } else {
            // A setting before a command is for that command alone.
            self.commands.push(Command { words, inside: self.open.last().cloned() });
        }
    }
}

/// The name and value of a word such as `TIME=600`.
fn assignment(word: &Word) -> Option<(String, Option<String>)> {
    let (name, value) = word.text.split_once('=')?;
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    is_name.then(|| (name.to_owned(), word.unknown.is_none().then(|| value.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        let shown = |word: &Word| match &word.unknown {
            Some(unknown) => format!("{}?{unknown}", word.text),
            None => word.text.clone(),
        };
        let line = |c: &Command| {
            let inside = c.inside.as_ref().map_or(String::new(), |place| format!("{}: ", &text[place.clone()]));
            inside + &c.words.iter().map(shown).collect::<Vec<_>>().join("|")
        };
        commands(text).unwrap().iter().map(line).collect()
    }

    #[test]
    fn commands_and_their_words() {
        assert_eq!(lines("a b  c & d;e\n# f\ng \\\n h # i\n"), ["a|b|c", "d", "e", "g|h"]);
        assert_eq!(lines("a 'b c' \"d e\"f g\\ h"), ["a|b c|d ef|g h"]);
        assert_eq!(lines("a >log 2>&1 b <in && c | d &> e & f"), ["a|b", "c", "d", "f"]);
    }

    #[test]
    fn variables_are_known_if_they_are_plain() {
        assert_eq!(
            lines("T=60 P=1\na $T ${P}0 \"$T s\" '$T' $U $1 $(b c) `d` ${T:-4} $"),
            ["a|60|10|60 s|$T|?$U|?$1|?$(b c)|?`d`|?${T:-4}|$"]
        );
        assert_eq!(lines("T=$1\na $T\nT=5\na $T\nT=6 a $T\na $T"), ["a|?$T", "a|5", "a|5", "a|5"]);
    }

    #[test]
    fn conditional_calls_are_marked() {
        assert_eq!(lines("for i in 1 2\ndo\n a $i\ndone\nb\n"), ["for: a|?$i", "b"]);
        assert_eq!(
            lines("while ! a; do b; done; if c; then T=1; fi; d $T"),
            ["while: a", "while: b", "if: c", "d|?$T"]
        );
        assert_eq!(lines("f() { a; }\nb"), ["f", "{: a", "b"]);
    }

    #[test]
    fn places_are_those_of_the_text() {
        let text = "T=60\nrun é'x' \"$T\" 5&";
        let places: Vec<&str> = commands(text).unwrap()[0].words.iter().map(|word| &text[word.place.clone()]).collect();
        assert_eq!(places, ["run", "é'x'", "\"$T\"", "5"]);
    }

    #[test]
    fn broken_scripts_end() {
        for text in ["'", "\"", "$(", "`", "${", "a >", "\\", "done", "$", "<<<", "é\\", "a \u{3000}b"] {
            assert!(commands(text).is_ok(), "{text}");
        }
        // Each line doubles the variable before; `A12=` and 64 KiB are too much. The last would have 4 GiB.
        let doubled = |quote: &str| {
            let double = |n: usize| format!("A{}={quote}$A{n}${{A{n}}}{quote}\n", n + 1);
            format!("A0=0123456789abcdef\n{}", (0..28).map(double).collect::<String>())
        };
        for text in [doubled(""), doubled("\"")] {
            let fault = commands(&text).unwrap_err();
            assert_eq!((&text[fault.span.clone()], fault.span.start > 150), ("${A11}", true), "{fault:?}");
        }
        // All in one word.
        let text = format!("A=0123456789abcdef\na \"{}\"", "$A".repeat(1 << 20));
        assert_eq!(commands(&text).unwrap_err().span.end, 22 + 2 * ((1 << 12) + 1));
        // Words that are short enough, and too many of them.
        let kib = format!("A={}\n", "x".repeat(1 << 10));
        let many = |n: usize| format!("{kib}a{}", " $A".repeat(n));
        assert_eq!(commands(&many(16 << 10)).unwrap()[0].words.len(), 1 + (16 << 10));
        let fault = commands(&many((16 << 10) + 1)).unwrap_err();
        assert_eq!(fault.span.end, many((16 << 10) + 1).len());
    }

    #[test]
    fn a_command_after_a_million_keywords() {
        // To move all words for each of them would be some 10^13 bytes, and take an hour.
        assert_eq!(lines(&("do ".repeat(1 << 20) + "a b")), ["a|b"]);
    }
}
