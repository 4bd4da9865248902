//! `takt ctl` towards a socket behind which there is no run.

use crate::common::Room;
use std::io::Write;
use std::os::unix::net::UnixListener;

/// An answer without an end fills no memory, and one that breaks off is no wait.
#[test]
fn a_socket_of_another_program_is_an_error() {
    let room = Room::new();
    let path = room.path("run.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let answers = std::thread::spawn(move || {
        let mut sent = Vec::new();
        for endless in [true, false] {
            let (mut client, _) = listener.accept().unwrap();
            let chunk = vec![b'x'; 1 << 20];
            // The client closes the connection.
            let count = (0..1 << 12).take_while(|_| endless && client.write_all(&chunk).is_ok()).count();
            sent.push(count);
        }
        sent
    });
    let socket = path.to_str().unwrap();
    let ask = || room.takt(&["ctl", "--run", socket, "status"]);
    let (endless, broken) = (ask(), ask());
    assert_eq!((endless.status.code(), broken.status.code()), (Some(1), Some(1)));
    assert!(endless.stderr.contains("gave no answer: the answer exceeds 256 MiB"), "{}", endless.stderr);
    assert!(broken.stderr.contains("gave no answer"), "{}", broken.stderr);
    let sent = answers.join().unwrap();
    assert!((256..1 << 12).contains(&sent[0]), "{} MiB were read", sent[0]);
}
