//! Tables of documents that tests compute.

/// Compares the rows below the head of a table with the rows of a document, or writes them into it if `UPDATE` is set.
///
/// # Panics
/// The document has no such table, or other rows.
pub fn table(document: &str, head: &str, rows: &str) {
    let text = std::fs::read_to_string(document).unwrap_or_else(|e| panic!("{document}: {e}"));
    let begin = text.find(head).expect("the document has the head of the table") + head.len();
    let end = begin + text[begin..].find("\n\n").expect("the table ends") + 1;
    if std::env::var_os("UPDATE").is_some() {
        let text = [&text[..begin], rows, &text[end..]].concat();
        std::fs::write(document, text).unwrap_or_else(|e| panic!("{document}: {e}"));
    } else {
        assert_eq!(&text[begin..end], rows, "UPDATE=1 rewrites the table of {document}");
    }
}
