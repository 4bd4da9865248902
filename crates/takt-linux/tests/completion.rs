//! The completion protocol over a real process, with no descriptor of it kept.

mod common;

use common::{Scratch, eventually, on_each, wait};
use rustix::event::epoll;
use std::os::fd::{AsRawFd, OwnedFd};
use takt_linux::SpawnSpec;
use takt_linux::protocol::{Channel, VARIABLE, fetch_continue_fd, send_continue};

fn reported(epoll: &OwnedFd, ms: i64) -> Vec<u64> {
    let limit = rustix::time::Timespec { tv_sec: 0, tv_nsec: ms * 1_000_000 };
    let mut events = Vec::with_capacity(16);
    epoll::wait(epoll, rustix::buffer::spare_capacity(&mut events), Some(&limit)).unwrap();
    events.iter().map(|event| event.data.u64()).collect()
}

#[test]
fn completions_are_reported_without_an_open_descriptor() {
    on_each(|run| {
        let scratch = Scratch::new("completion");
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        let partition = run.partition(3);
        let mut continue_numbers = Vec::new();
        let mut pids = Vec::new();
        for i in 0..3 {
            let channel = Channel::new(false).unwrap();
            let (a, b) = (channel.pass_fds()[0].1, channel.continue_number());
            // Write 1 as the 8 bytes of an eventfd, then wait in a read.
            let script = format!(
                "for n in 1 2 3; do printf '\\001\\0\\0\\0\\0\\0\\0\\0' >&{a}; \
                 head -c8 <&{b} >/dev/null; echo $n >>{}; done; \
                 ls -m /proc/$$/fd >{}",
                scratch.file(&format!("n{i}")),
                scratch.file(&format!("fds{i}")),
            );
            let mut spec = SpawnSpec::new(&["bash", "-c", &script]).unwrap();
            spec.set_env(VARIABLE, &channel.variable()).unwrap();
            spec.pass_fds = channel.pass_fds().to_vec();
            channel.register_completion(&epoll, 100 + i).unwrap();
            pids.push(run.start(run.mechanism.group(partition, i as usize), &spec));
            continue_numbers.push((a, b));
        }
        assert_eq!(reported(&epoll, 50), [], "{}: nothing has run", run.name);
        for i in 0..3usize {
            run.mechanism.thaw(run.mechanism.group(partition, i)).unwrap();
            let count = || std::fs::read_to_string(scratch.file(&format!("n{i}"))).unwrap_or_default().lines().count();
            let mut proceed = None;
            for n in 0..3 {
                let mut seen = Vec::new();
                eventually("the completion", || {
                    seen.extend(reported(&epoll, 10));
                    !seen.is_empty()
                });
                assert_eq!(seen, [100 + i as u64], "{}", run.name);
                assert_eq!(count(), n, "it waits");
                let proceed: &OwnedFd =
                    proceed.get_or_insert_with(|| fetch_continue_fd(pids[i], continue_numbers[i].1).unwrap());
                assert_ne!(proceed.as_raw_fd(), -1);
                send_continue(proceed).unwrap();
                eventually("it continues", || count() > n);
            }
            assert_eq!(wait(pids[i]).exit_status(), Some(0));
            let (a, b) = continue_numbers[i];
            let listed = std::fs::read_to_string(scratch.file(&format!("fds{i}"))).unwrap();
            let mut listed: Vec<i32> = listed.trim().split(", ").map(|fd| fd.parse().unwrap()).collect();
            listed.sort_unstable();
            let mut expected = vec![0, 1, 2, a, b];
            expected.sort_unstable();
            assert_eq!(listed, expected, "{}", run.name);
            assert!(fetch_continue_fd(pids[i], b).is_err(), "reaped");
        }
    });
}
