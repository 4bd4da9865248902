//! The first file system of the test machine: a cpio archive in the "newc" format.

use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

const DIRECTORY: u32 = 0o040_755;
const FILE: u32 = 0o100_644;
const PROGRAM: u32 = 0o100_755;
const SYMLINK: u32 = 0o120_777;
const CONSOLE: u32 = 0o020_600;

/// Writes entries one after another; the directory of an entry has to come before it.
pub(crate) struct Archive<W: Write> {
    out: W,
    inode: u32,
    written: usize,
}

impl<W: Write> Archive<W> {
    pub(crate) fn new(out: W) -> Self {
        Archive { out, inode: 0, written: 0 }
    }

    pub(crate) fn directory(&mut self, path: &str) -> io::Result<()> {
        self.entry(path, DIRECTORY, [0, 0], &[])
    }

    pub(crate) fn file(&mut self, path: &str, content: &[u8]) -> io::Result<()> {
        self.entry(path, FILE, [0, 0], content)
    }

    pub(crate) fn program(&mut self, path: &str, content: &[u8]) -> io::Result<()> {
        self.entry(path, PROGRAM, [0, 0], content)
    }

    pub(crate) fn symlink(&mut self, path: &str, target: &Path) -> io::Result<()> {
        self.entry(path, SYMLINK, [0, 0], target.as_os_str().as_bytes())
    }

    /// The kernel opens it for process 1 before that can mount anything.
    pub(crate) fn console(&mut self) -> io::Result<()> {
        self.entry("dev/console", CONSOLE, [5, 1], &[])
    }

    pub(crate) fn finish(mut self) -> io::Result<W> {
        self.inode = u32::MAX;
        self.entry("TRAILER!!!", 0, [0, 0], &[])?;
        Ok(self.out)
    }

    fn entry(&mut self, path: &str, mode: u32, device: [u32; 2], content: &[u8]) -> io::Result<()> {
        self.inode = self.inode.wrapping_add(1);
        let size = u32::try_from(content.len()).map_err(io::Error::other)?;
        let links = if mode == DIRECTORY { 2 } else { 1 };
        let [major, minor] = device;
        let name_size = path.len() as u32 + 1;
        // inode, mode, uid, gid, links, mtime, size, device of the file, device that it is, name's size, checksum
        let fields = [self.inode, mode, 0, 0, links, 0, size, 0, 0, major, minor, name_size, 0];
        let mut header = b"070701".to_vec();
        for field in fields {
            write!(header, "{field:08x}")?;
        }
        header.extend(path.as_bytes());
        header.push(0);
        self.put(&header)?;
        self.put(content)
    }

    /// Both parts of an entry end at a multiple of four bytes.
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.written += bytes.len();
        let padding = self.written.next_multiple_of(4) - self.written;
        self.written += padding;
        self.out.write_all(&[0; 3][..padding])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_archive_is_what_the_format_asks_for() {
        let mut archive = Archive::new(Vec::new());
        archive.directory("bin").unwrap();
        archive.program("bin/a", b"xyz").unwrap();
        archive.symlink("bin/b", Path::new("a")).unwrap();
        archive.file("c", b"").unwrap();
        let bytes = archive.finish().unwrap();
        assert_eq!(bytes.len() % 4, 0);
        // Reads it back as the kernel does.
        let mut found = Vec::new();
        let mut rest = &bytes[..];
        loop {
            assert_eq!(&rest[..6], b"070701");
            let field = |i: usize| {
                let text = std::str::from_utf8(&rest[6 + 8 * i..14 + 8 * i]).unwrap();
                u32::from_str_radix(text, 16).unwrap() as usize
            };
            let (mode, size, name_size) = (field(1), field(6), field(11));
            let name = std::str::from_utf8(&rest[110..110 + name_size - 1]).unwrap();
            let start = (110 + name_size).next_multiple_of(4);
            let content = rest[start..start + size].to_vec();
            rest = &rest[(start + size).next_multiple_of(4)..];
            if name == "TRAILER!!!" {
                break;
            }
            found.push((name, mode as u32, content));
        }
        assert!(rest.is_empty());
        let expected: [(&str, u32, &[u8]); 4] =
            [("bin", DIRECTORY, b""), ("bin/a", PROGRAM, b"xyz"), ("bin/b", SYMLINK, b"a"), ("c", FILE, b"")];
        assert_eq!(found, expected.map(|(name, mode, content)| (name, mode, content.to_vec())));
    }
}
