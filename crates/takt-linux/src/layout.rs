//! Which cgroup hierarchies are mounted where, and in which group of each this process is.

use crate::control;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// One mounted hierarchy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hierarchy {
    /// Where it is mounted.
    pub mount: PathBuf,
    /// The group of the calling process in it: new groups are made below, as the delegation rule asks.
    pub own: PathBuf,
}

/// The arrangement of cgroup hierarchies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LayoutKind {
    /// v2 alone.
    Unified,
    /// v1 controllers, with v2 beside them.
    Hybrid,
    /// v1 alone.
    V1,
    /// No hierarchy that Takt can use.
    None,
}

/// The hierarchies that Takt can use.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Layout {
    /// cgroup v2.
    pub unified: Option<Hierarchy>,
    /// The v1 freezer.
    pub freezer: Option<Hierarchy>,
    /// The v1 cpuset.
    pub cpuset: Option<Hierarchy>,
    /// The v1 cpu controller: its real-time quota, and groups that share a CPU ([`crate::Halves`]).
    pub cpu: Option<Hierarchy>,
}

impl Layout {
    /// The layout of this machine as the calling process sees it.
    ///
    /// # Errors
    /// When `/proc` cannot be read.
    pub fn read() -> io::Result<Layout> {
        // Without cgroup support in the kernel, there is no /proc/self/cgroup.
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        Ok(Layout::parse(&fs::read_to_string("/proc/self/mountinfo")?, &own))
    }

    fn parse(mountinfo: &str, own: &str) -> Layout {
        let mut layout = Layout::default();
        for line in mountinfo.lines() {
            let Some((left, right)) = line.split_once(" - ") else { continue };
            let left: Vec<&str> = left.split(' ').collect();
            let right: Vec<&str> = right.split(' ').collect();
            let (Some(root), Some(mount), Some(kind)) = (left.get(3), left.get(4), right.first()) else { continue };
            let options = right.get(2).copied().unwrap_or_default();
            let found = |controller: &str| Hierarchy::new(&unescape(mount), &unescape(root), own, controller);
            let has = |controller: &str| *kind == "cgroup" && options.split(',').any(|o| o == controller);
            if *kind == "cgroup2" {
                layout.unified.get_or_insert_with(|| found(""));
            }
            if has("freezer") {
                layout.freezer.get_or_insert_with(|| found("freezer"));
            }
            if has("cpuset") {
                layout.cpuset.get_or_insert_with(|| found("cpuset"));
            }
            if has("cpu") {
                layout.cpu.get_or_insert_with(|| found("cpu"));
            }
        }
        layout
    }

    /// All hierarchies, each once: two controllers of v1 may be mounted together.
    pub(crate) fn hierarchies(&self) -> Vec<&Hierarchy> {
        let mut found: Vec<&Hierarchy> = Vec::new();
        for hierarchy in [&self.unified, &self.freezer, &self.cpuset, &self.cpu].into_iter().flatten() {
            if found.iter().all(|other| other.mount != hierarchy.mount) {
                found.push(hierarchy);
            }
        }
        found
    }

    /// Its name in one word.
    #[must_use]
    pub fn kind(&self) -> LayoutKind {
        match (&self.unified, self.freezer.is_some() || self.cpuset.is_some()) {
            (Some(_), false) => LayoutKind::Unified,
            (Some(_), true) => LayoutKind::Hybrid,
            (None, true) => LayoutKind::V1,
            (None, false) => LayoutKind::None,
        }
    }
}

impl Hierarchy {
    fn new(mount: &str, root: &str, own: &str, controller: &str) -> Hierarchy {
        let path = own.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            let controllers = fields.next()?;
            controllers.split(',').any(|c| c == controller).then(|| fields.next())?
        });
        let mount = PathBuf::from(mount);
        // In a namespace of control groups, a mount from outside shows more than the namespace, whose own place in it has no name here.
        if let Some(own) = Path::new(root).starts_with("/..").then(|| place_of_this_process(&mount)).flatten() {
            return Hierarchy { mount, own };
        }
        // A mount may show only a part of the hierarchy (a container); a group outside of it cannot be reached.
        let below = path.and_then(|p| Path::new(p).strip_prefix(root).ok()).filter(|p| !p.starts_with(".."));
        let own = below.map(|p| mount.join(p)).filter(|p| p.is_dir()).unwrap_or_else(|| mount.clone());
        Hierarchy { mount, own }
    }
}

/// The group of this process in a mounted hierarchy, found in the lists of all groups.
fn place_of_this_process(mount: &Path) -> Option<PathBuf> {
    let own = std::process::id() as i32;
    control::tree(mount).into_iter().find(|group| control::pids(&group.join("cgroup.procs")).contains(&own))
}

/// Blanks in mount points are written as octal escapes.
fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let code = rest.get(at + 1..at + 4).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        out.push(code.map_or('\\', char::from));
        rest = &rest[at + if code.is_some() { 4 } else { 1 }..];
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:5 - cgroup cgroup rw,cpu,cpuacct
34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset
37 31 0:34 / /mnt/a\\040b rw,relatime - cgroup cgroup rw,freezer
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";

    #[test]
    fn hierarchies_are_found_by_their_controllers() {
        let hybrid = Layout::parse(HYBRID, "9:name=systemd:/\n6:freezer:/\n3:cpuset:/\n0::/\n");
        assert_eq!(hybrid.kind(), LayoutKind::Hybrid);
        assert_eq!(hybrid.freezer.unwrap().mount, Path::new("/mnt/a b"));
        assert_eq!(hybrid.cpu.unwrap().mount, Path::new("/sys/fs/cgroup/cpu,cpuacct"));
        let line = HYBRID.lines().last().unwrap();
        assert_eq!(Layout::parse(line, "0::/").kind(), LayoutKind::Unified);
        let v1 = HYBRID.strip_suffix(&format!("{line}\n")).unwrap();
        assert_eq!(Layout::parse(v1, "").kind(), LayoutKind::V1);
        assert_eq!(Layout::parse("", "").kind(), LayoutKind::None);
    }

    #[test]
    fn groups_are_made_below_the_own_group() {
        let dir = std::env::temp_dir().join(format!("takt-layout-{}", std::process::id()));
        fs::create_dir_all(dir.join("a/b")).unwrap();
        let mount = dir.to_str().unwrap();
        let own = |root: &str, path: &str| Hierarchy::new(mount, root, path, "").own;
        assert_eq!(own("/", "0::/a/b"), dir.join("a/b"));
        assert_eq!(own("/x", "0::/x/a"), dir.join("a"), "the mount shows the part below /x");
        assert_eq!(own("/x", "0::/y"), dir, "outside of the mount");
        assert_eq!(own("/", "0::/../y"), dir, "outside of the cgroup namespace");
        assert_eq!(own("/..", "0::/"), dir, "the mount shows more than the cgroup namespace");
        fs::write(dir.join("a/b/cgroup.procs"), format!("1\n{}\n", std::process::id())).unwrap();
        assert_eq!(own("/..", "0::/"), dir.join("a/b"), "where this process is listed");
        fs::remove_dir_all(dir).unwrap();
    }
}
