//! A program of two tasks: its first thread, and one that the workload calls `log`.

use std::hint::black_box;
use std::thread;
use takt_client::{Client, Error};

/// One job: the rounds stand for the work.
fn work(rounds: u64) {
    for round in 0..rounds {
        black_box(round);
    }
}

fn log() -> Result<(), Error> {
    let mut client = Client::attach_thread("log")?;
    client.ready()?;
    loop {
        work(1_000_000);
        client.next_job()?;
    }
}

fn main() -> Result<(), Error> {
    let mut client = Client::attach()?;
    let _log = thread::spawn(log);
    client.ready()?;
    loop {
        work(200_000);
        client.next_job()?;
    }
}
