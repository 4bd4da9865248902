//! Users and groups of processes, and limits of their resources.
//!
//! The user changes last before `execve`, by bare system calls: those of the C library wait for all threads of the process. The change
//! clears the signal of the parent's death, which is then set again. The thread that opens a file for a user keeps its real user, since
//! the kernel allows a user to end each thread that has it.

use nix::unistd::{Gid, Group, Uid, User, getgrouplist};
use rustix::process::{Resource, getegid, geteuid, getgroups, getrlimit};
use rustix::thread::{CapabilitySet, capabilities};
use std::ffi::CString;
use std::io;

/// The user and the groups of a process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) groups: Vec<u32>,
    /// Name, home and shell of the user, if the database of users has it.
    entry: Option<[String; 3]>,
}

/// Why there is no such identity.
#[derive(Debug, thiserror::Error)]
pub enum UnknownIdentity {
    /// No user has this name or number.
    #[error("there is no user `{0}` on this machine")]
    User(String),
    /// No group has this name.
    #[error("there is no group `{0}` on this machine")]
    Group(String),
    /// A number without an entry in the database of users, which would have its group.
    #[error("the user {0} has no entry on this machine, and so no group")]
    NoGroup(u32),
    /// The database of users cannot be read.
    #[error("the database of users cannot be read: {0}")]
    Unreadable(#[from] io::Error),
}

impl Identity {
    /// The user of a name or number, with the groups of the database of users (as by `initgroups`), and in place of the user's own group
    /// another one.
    ///
    /// # Errors
    /// When there is no such user or group.
    pub fn find(user: &str, group: Option<&str>) -> Result<Identity, UnknownIdentity> {
        let number = user.parse::<u32>().ok().filter(|uid| *uid < u32::MAX);
        let found = match number {
            Some(uid) => User::from_uid(Uid::from_raw(uid)),
            None => User::from_name(user),
        };
        let found = found.map_err(io::Error::from)?;
        let uid = found.as_ref().map(|user| user.uid.as_raw()).or(number);
        let uid = uid.ok_or_else(|| UnknownIdentity::User(user.to_owned()))?;
        let gid = match (group, &found) {
            (Some(group), _) => group_of(group)?,
            (None, Some(user)) => user.gid.as_raw(),
            (None, None) => return Err(UnknownIdentity::NoGroup(uid)),
        };
        let groups = match &found {
            Some(user) => {
                let name = CString::new(user.name.as_str()).map_err(io::Error::from)?;
                let groups = getgrouplist(&name, Gid::from_raw(gid)).map_err(io::Error::from)?;
                groups.into_iter().map(Gid::as_raw).collect()
            }
            None => vec![gid],
        };
        let entry = found.map(|user| {
            [user.name, user.dir.to_string_lossy().into_owned(), user.shell.to_string_lossy().into_owned()]
        });
        Ok(Identity { uid, gid, groups, entry })
    }

    /// An identity by its numbers, without the variables of a login.
    pub(crate) fn of_numbers(uid: u32, gid: u32, groups: Vec<u32>) -> Identity {
        Identity { uid, gid, groups, entry: None }
    }

    /// Whether this process can start others of this identity: it has it already, or may take any and signal its processes.
    #[must_use]
    pub fn is_permitted(&self) -> bool {
        let needed = CapabilitySet::SETUID | CapabilitySet::SETGID | CapabilitySet::KILL;
        self.is_own() || has(needed)
    }

    /// Whether this is the identity of this process.
    #[must_use]
    pub fn is_own(&self) -> bool {
        let sorted = |groups: &[u32]| {
            let mut groups: Vec<u32> = groups.iter().copied().chain([self.gid]).collect();
            groups.sort_unstable();
            groups.dedup();
            groups
        };
        let own: Vec<u32> = getgroups().unwrap_or_default().into_iter().map(|gid| gid.as_raw()).collect();
        let same = geteuid().as_raw() == self.uid && getegid().as_raw() == self.gid;
        same && sorted(&own) == sorted(&self.groups)
    }

    /// Its user, by the name where there is one.
    #[must_use]
    pub fn user(&self) -> String {
        self.entry.as_ref().map_or_else(|| self.uid.to_string(), |[name, ..]| name.clone())
    }

    /// The variables that a login sets: `USER`, `LOGNAME`, `HOME` and `SHELL`.
    pub fn variables(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let entry = self.entry.iter();
        entry.flat_map(|[name, home, shell]| {
            [("USER", name), ("LOGNAME", name), ("HOME", home), ("SHELL", shell)].map(|(n, v)| (n, v.as_str()))
        })
    }
}

fn group_of(group: &str) -> Result<u32, UnknownIdentity> {
    if let Some(gid) = group.parse::<u32>().ok().filter(|gid| *gid < u32::MAX) {
        return Ok(gid);
    }
    let found = Group::from_name(group).map_err(io::Error::from)?;
    found.map(|group| group.gid.as_raw()).ok_or_else(|| UnknownIdentity::Group(group.to_owned()))
}

fn has(needed: CapabilitySet) -> bool {
    capabilities(None).is_ok_and(|own| own.effective.contains(needed))
}

/// A limit of `setrlimit`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limit {
    pub(crate) resource: Resource,
    pub(crate) soft: Option<u64>,
    pub(crate) hard: Option<u64>,
}

impl Limit {
    /// The resources by their names in `prlimit`.
    pub(crate) const RESOURCES: [(&'static str, Resource); 14] = [
        ("as", Resource::As),
        ("core", Resource::Core),
        ("cpu", Resource::Cpu),
        ("data", Resource::Data),
        ("fsize", Resource::Fsize),
        ("memlock", Resource::Memlock),
        ("msgqueue", Resource::Msgqueue),
        ("nice", Resource::Nice),
        ("nofile", Resource::Nofile),
        ("nproc", Resource::Nproc),
        ("rtprio", Resource::Rtprio),
        ("rttime", Resource::Rttime),
        ("sigpending", Resource::Sigpending),
        ("stack", Resource::Stack),
    ];

    /// The limit of a name in `prlimit`, such as `nofile`; `None` if the kernel has none of this name. A number is one of the kernel's units,
    /// and its absence no limit.
    #[must_use]
    pub fn named(name: &str, soft: Option<u64>, hard: Option<u64>) -> Option<Limit> {
        let (_, resource) = *Limit::RESOURCES.iter().find(|(known, _)| *known == name)?;
        Some(Limit { resource, soft, hard })
    }

    /// The highest hard limit that this process can set, if that is lower.
    #[must_use]
    pub fn exceeds(&self) -> Option<u64> {
        let most = getrlimit(self.resource).maximum?;
        let above = self.hard.is_none_or(|hard| hard > most);
        (above && !has(CapabilitySet::SYS_RESOURCE)).then_some(most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_name_and_number_with_their_groups() {
        let root = Identity::find("root", None).unwrap();
        assert_eq!((root.uid, root.gid), (0, 0));
        assert!(root.groups.contains(&0));
        assert_eq!(Identity::find("0", None).unwrap(), root);
        let home = root.variables().find(|(name, _)| *name == "HOME");
        assert_eq!(home.map(|(_, home)| home), Some("/root"));
        let other = Identity::find("root", Some("12345")).unwrap();
        assert_eq!((other.gid, other.groups.contains(&12345)), (12345, true));
        let numbers = Identity::find("3999999999", Some("3999999998")).unwrap();
        assert_eq!((numbers.uid, numbers.groups.as_slice()), (3_999_999_999, &[3_999_999_998][..]));
        assert_eq!(numbers.variables().count(), 0);
    }

    #[test]
    fn an_unknown_user_or_group_is_an_error() {
        let said = |user, group| Identity::find(user, group).unwrap_err().to_string();
        assert_eq!(said("no-such-user", None), "there is no user `no-such-user` on this machine");
        assert_eq!(said("root", Some("no-such-group")), "there is no group `no-such-group` on this machine");
        assert!(said("3999999999", None).contains("has no entry"));
        assert!(said("4294967295", None).contains("there is no user"), "the number that changes nothing");
    }

    #[test]
    fn every_limit_of_a_workload_has_a_resource() {
        assert!(Limit::named("nofile", Some(1), Some(2)).is_some());
        assert!(Limit::named("files", None, None).is_none());
    }
}
