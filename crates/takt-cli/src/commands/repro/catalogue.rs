//! The publications that the program has, with the files of their runs.

use super::form::{self, Publication};
use crate::failure::Failure;
use clap::Command;
use std::fs;
use std::io;
use std::path::Path;
use takt_workload::Source;

/// Files of the repository, by links in `embedded`: the package in a registry has them there.
macro_rules! embedded {
    ($folder:literal: $($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../../../embedded/", $folder, "/", $name)))),*]
    };
}

const PUBLICATIONS: [(&str, &str); 6] = embedded!("experiments":
    "airs.yaml", "buttazzo.yaml", "chronos.yaml", "demos.yaml", "ipi.yaml", "isolation.yaml",
);

/// Files that the runs read, below `workloads`.
const FILES: [(&str, &str); 12] = embedded!("workloads":
    "adasmark.yaml",
    "chronos/10t_5l.yaml",
    "chronos/12t_nl.ts",
    "chronos/12t_nl_g.ts",
    "chronos/20t_nl.ts",
    "ipi-blocking.yaml",
    "ipi-tracking.yaml",
    "movies-h264.yaml",
    "movies-lossless.yaml",
    "platforms/imx8qm.yaml",
    "series/h264.csv",
    "series/lossless.csv",
);

/// Reads all publications of the program.
///
/// # Errors
/// The first one with faults; a test excludes it.
pub(super) fn all(cli: &Command) -> Result<Vec<Publication>, Failure> {
    let publication = |(file, text): &(&str, &str)| read(file, &format!("experiments/{file}"), text, cli);
    PUBLICATIONS.iter().map(publication).collect()
}

/// Reads the publication of a file.
///
/// # Errors
/// The file cannot be read, or has faults.
pub(super) fn of_file(path: &Path, cli: &Command) -> Result<Publication, Failure> {
    let source = Source::read(path).map_err(|fault| Failure::unreadable(&fault))?;
    let file = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    read(&file, &source.name.clone(), &source.text, cli)
}

fn read(file: &str, path: &str, text: &str, cli: &Command) -> Result<Publication, Failure> {
    let source = Source { name: path.into(), text: text.into() };
    let name = file.rsplit_once('.').map_or(file, |(name, _)| name);
    form::read(name, &source, cli).map_err(|faults| Failure::diagnostics(&source, &faults))
}

/// Writes the files of the runs below a directory, beside the folder in which runs work.
///
/// # Errors
/// That of the system.
pub(super) fn write_files(directory: &Path) -> io::Result<()> {
    for (name, text) in FILES {
        let path = directory.join("workloads").join(name);
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(path, text)?;
    }
    fs::create_dir_all(directory.join(FOLDER))
}

/// The folder in which the runs of embedded publications work, as in the repository.
pub(super) const FOLDER: &str = "experiments";

#[cfg(test)]
mod tests {
    use super::*;

    /// A file that is not in the lists would not be in the program.
    #[test]
    fn all_files_of_the_repository_are_embedded() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(FOLDER);
        let mut files: Vec<String> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .filter(|name| name.ends_with(".yaml"))
            .collect();
        files.sort();
        assert_eq!(files, PUBLICATIONS.map(|(name, _)| name));
        let texts: String = PUBLICATIONS.iter().map(|(_, text)| *text).collect();
        let unused = |name: &&str| !texts.contains(&format!("../workloads/{name}")) && !name.contains("s/");
        let unused: Vec<&str> = FILES.iter().map(|(name, _)| *name).filter(unused).collect();
        assert!(unused.is_empty(), "no run reads {unused:?}");
    }
}
