//! Links of Markdown pages: their targets, and whether these exist.

use std::path::Path;

/// The anchor that a heading gets.
pub fn anchor(heading: &str) -> String {
    let keep = |c: char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    heading.trim().to_lowercase().chars().filter(|c| keep(*c)).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The lines outside of fenced blocks.
pub fn prose(text: &str) -> Vec<&str> {
    let mut inside = false;
    text.lines()
        .filter(|line| {
            let fence = line.starts_with("```");
            inside ^= fence;
            !inside && !fence
        })
        .collect()
}

/// The targets of the links and images in a line, in their order.
pub fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0))
}

/// Links of a page to a file or heading that does not exist. Addresses of other machines are not looked at.
pub fn faults(page: &Path, text: &str) -> Vec<String> {
    let folder = page.parent().unwrap_or(Path::new(""));
    let mut faults = Vec::new();
    for target in prose(text).into_iter().flat_map(targets).filter(|target| !target.contains("://")) {
        let (file, fragment) = target.split_once('#').map_or((target, None), |(file, at)| (file, Some(at)));
        let file = if file.is_empty() { page.to_owned() } else { folder.join(file) };
        if !file.exists() {
            faults.push(format!("`{target}` leads to no file"));
        } else if let Some(fragment) = fragment {
            let linked = std::fs::read(&file).unwrap_or_default();
            let linked = String::from_utf8_lossy(&linked);
            let mut headings = prose(&linked).into_iter().filter(|line| line.starts_with('#'));
            if !headings.any(|line| anchor(line.trim_start_matches('#')) == fragment) {
                faults.push(format!("`{target}` leads to no heading"));
            }
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_missing_files_and_headings_are_faults() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/README.md");
        let text = "[a](#reference) [b](start.md) [![c](images/quickstart.svg)](https://x.y/z) [d](../README.md#install)\n\
                    ```\n[in a block](nothing)\n```\n[e](nothing.md) and [f](start.md#no-heading)\n";
        let expected = ["`nothing.md` leads to no file", "`start.md#no-heading` leads to no heading"];
        assert_eq!(faults(&page, text), expected);
        assert_eq!(anchor(" Of `dispatch: rank`, and jobs"), "of-dispatch-rank-and-jobs");
    }
}
