//! Abstract names of Unix sockets in this network namespace, and the users who have them.
//!
//! The kernel tells these over a socket of `NETLINK_SOCK_DIAG` (sock_diag(7)). A kernel without that lists the names alone, in `/proc/net/unix`.

use rustix::fd::OwnedFd;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::LazyLock;

/// Begin of all names of Takt.
const PREFIX: &[u8] = b"takt/";

/// A name, without the zero byte at its begin.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Name {
    pub(crate) name: String,
    /// The user who has made the socket, if the kernel says so.
    user: Option<u32>,
}

impl Name {
    /// Whether this process is root and the name was taken by another user, who takes no right from root with it.
    pub(crate) fn is_subordinate(&self) -> bool {
        is_root_of_machine() && self.user.is_some_and(|user| user != 0)
    }

    /// Whether its user can write a file, as far as its owner and mode tell.
    pub(crate) fn may_write(&self, path: &Path) -> bool {
        // An unknown user or file may be anything.
        let (Some(user), Ok(known)) = (self.user, fs::metadata(path)) else { return true };
        known.mode() & 0o022 != 0 || known.uid() == user
    }
}

/// Whether this process is root outside of containers with users of their own. In such a one, root of the machine has the number of any other user.
fn is_root_of_machine() -> bool {
    static ALL_USERS: LazyLock<bool> = LazyLock::new(|| {
        let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
        map.split_ascii_whitespace().eq(["0", "0", "4294967295"])
    });
    rustix::process::geteuid().is_root() && *ALL_USERS
}

#[cfg(test)]
thread_local! {
    /// How often this thread has listed the names.
    pub(crate) static LISTS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// All names of Takt. O(sockets of the machine).
pub(crate) fn all() -> Vec<Name> {
    #[cfg(test)]
    LISTS.set(LISTS.get() + 1);
    ask().unwrap_or_else(|_| listed(&fs::read("/proc/self/net/unix").unwrap_or_default()))
}

/// The socket with a name.
pub(crate) fn find(name: &str) -> Option<Name> {
    all().into_iter().find(|known| known.name == name)
}

/// The names in the text of `/proc/net/unix`, where a zero byte is `@`.
fn listed(text: &[u8]) -> Vec<Name> {
    let text = String::from_utf8_lossy(text);
    let names = text.lines().filter_map(|line| line.split_once(" @")).map(|(_, name)| name.to_owned());
    names.filter(|name| name.as_bytes().starts_with(PREFIX)).map(|name| Name { name, user: None }).collect()
}

/// `NLMSG_ERROR` and `NLMSG_DONE` (netlink(7)).
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// `SOCK_DIAG_BY_FAMILY`; the same number is the type of the answers.
const BY_FAMILY: u16 = 20;
/// `NLM_F_REQUEST | NLM_F_DUMP`.
const DUMP: u16 = 0x301;
/// `UDIAG_SHOW_NAME | UDIAG_SHOW_UID` (`linux/unix_diag.h`).
const SHOW: u32 = 0x41;
/// `UNIX_DIAG_NAME` and `UNIX_DIAG_UID`.
const NAME: u16 = 0;
const USER: u16 = 7;
/// Bytes of `struct nlmsghdr` and of `struct unix_diag_msg`, before the attributes.
const HEADER: usize = 16;
const MESSAGE: usize = 16;

fn request() -> Vec<u8> {
    const LENGTH: u32 = 40;
    let mut bytes = Vec::new();
    // The header: length, type, flags, sequence number, port.
    bytes.extend(LENGTH.to_ne_bytes());
    bytes.extend(BY_FAMILY.to_ne_bytes());
    bytes.extend(DUMP.to_ne_bytes());
    bytes.extend([1u32, 0].into_iter().flat_map(u32::to_ne_bytes));
    // The request: family, protocol, padding, states, inode, attributes, cookie.
    bytes.extend([libc::AF_UNIX as u8, 0, 0, 0]);
    bytes.extend([u32::MAX, 0, SHOW, u32::MAX, u32::MAX].into_iter().flat_map(u32::to_ne_bytes));
    bytes
}

fn ask() -> io::Result<Vec<Name>> {
    let flags = SocketFlags::CLOEXEC;
    let socket: OwnedFd = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, Some(netlink::SOCK_DIAG))?;
    send(&socket, &request(), SendFlags::empty())?;
    let (mut found, mut buffer) = (Vec::new(), vec![0; 64 << 10]);
    loop {
        let (length, _) = rustix::io::retry_on_intr(|| recv(&socket, &mut buffer[..], RecvFlags::empty()))?;
        if take(&buffer[..length], &mut found)? {
            return Ok(found);
        }
    }
}

fn short(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Takes the names out of a datagram of the kernel. Whether it is the last one.
fn take(mut bytes: &[u8], found: &mut Vec<Name>) -> io::Result<bool> {
    while let (Some(length), Some(kind)) = (long(bytes, 0), short(bytes, 4)) {
        let length = length as usize;
        match kind {
            DONE => return Ok(true),
            // Its number is negative.
            ERROR => {
                return Err(io::Error::from_raw_os_error(long(bytes, HEADER).map_or(0, |e| (e as i32).wrapping_neg())));
            }
            BY_FAMILY => found.extend(bytes.get(HEADER + MESSAGE..length).and_then(name)),
            _ => {}
        }
        if length < HEADER {
            break;
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
}

/// The name in the attributes of a socket, if it is one of Takt.
fn name(mut attributes: &[u8]) -> Option<Name> {
    let (mut name, mut user) = (None, None);
    while let (Some(length), Some(kind)) = (short(attributes, 0), short(attributes, 2)) {
        let length = usize::from(length);
        let value = attributes.get(4..length)?;
        match kind {
            NAME => name = value.strip_prefix(b"\0").filter(|name| name.starts_with(PREFIX)),
            USER => user = long(value, 0),
            _ => {}
        }
        attributes = attributes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    // As `/proc/net/unix` prints it.
    let name = String::from_utf8_lossy(name?).replace('\0', "@");
    Some(Name { name, user })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu_lock::bind;
    use crate::identity::Identity;

    #[test]
    fn names_are_found_with_their_users() {
        let own = format!("takt/test/{}", std::process::id());
        let _socket = bind(&own).unwrap();
        let user = rustix::process::geteuid().as_raw();
        let found = find(&own).unwrap();
        assert!(found.user.is_none_or(|known| known == user) && !found.is_subordinate());
        let listed = listed(&fs::read("/proc/self/net/unix").unwrap());
        assert!(listed.contains(&Name { name: own, user: None }));
        assert!(all().iter().all(|known| known.name.starts_with("takt/")));
        if user != 0 || ask().is_err() {
            return println!("skipped: another user needs root, and CONFIG_UNIX_DIAG");
        }
        let other = format!("takt/test/{}/other", std::process::id());
        let identity = Identity::of_numbers(65_532, 65_532, vec![65_532]);
        let _theirs = identity.with_rights_to_files(|| bind(&other)).unwrap();
        let found = find(&other).unwrap();
        assert_eq!(found.user, Some(65_532));
        assert_eq!(found.is_subordinate(), is_root_of_machine());
        assert!(!found.may_write(Path::new("/proc/self/uid_map")) && found.may_write(Path::new("/dev/null")));
    }

    #[test]
    fn damaged_answers_are_no_names() {
        let mut message = Vec::new();
        message.extend(56u32.to_ne_bytes());
        message.extend(BY_FAMILY.to_ne_bytes());
        message.extend([0; 10 + MESSAGE]);
        message.extend([12u16, NAME].into_iter().flat_map(u16::to_ne_bytes));
        message.extend(b"\0takt/a\0");
        message.extend([8u16, USER].into_iter().flat_map(u16::to_ne_bytes));
        message.extend(7u32.to_ne_bytes());
        message.extend([4u16, 3].into_iter().flat_map(u16::to_ne_bytes));
        let taken = |bytes: &[u8]| {
            let mut found = Vec::new();
            take(bytes, &mut found).map(|last| (last, found))
        };
        let name = Name { name: "takt/a@".into(), user: Some(7) };
        assert_eq!(taken(&message).unwrap(), (false, vec![name]));
        for end in 0..message.len() {
            assert_eq!(taken(&message[..end]).unwrap(), (false, Vec::new()), "{end}");
        }
        // Lengths of zero end the search.
        assert_eq!(taken(&[0; 64]).unwrap(), (false, Vec::new()));
        message[HEADER + MESSAGE..HEADER + MESSAGE + 2].copy_from_slice(&[0, 0]);
        assert_eq!(taken(&message).unwrap(), (false, Vec::new()));
        let mut refused = [0; 20];
        refused[..4].copy_from_slice(&20u32.to_ne_bytes());
        refused[4..6].copy_from_slice(&ERROR.to_ne_bytes());
        refused[16..].copy_from_slice(&(-2i32).to_ne_bytes());
        assert_eq!(taken(&refused).unwrap_err().raw_os_error(), Some(2));
    }
}
