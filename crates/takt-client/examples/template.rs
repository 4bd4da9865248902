//! A periodic program with a resource and an abort handler.

use std::hint::black_box;
use takt_client::{Aborted, Client, Error};

/// Computes, and checks for an abort from time to time.
fn work(client: &Client, rounds: u64) -> Result<(), Aborted> {
    for n in 0..rounds {
        if n % 1000 == 0 {
            client.check()?;
        }
        black_box(n);
    }
    Ok(())
}

fn main() -> Result<(), Error> {
    let mut client = Client::attach()?;
    let map = client.resource("map")?;
    client.run(
        |client, job| {
            work(client, if job.number % 4 == 3 { 1 << 40 } else { 100_000 })?;
            client.lock(map)?;
            work(client, 10_000)?;
            Ok(client.unlock(map)?)
        },
        |_| println!("aborted"),
    )
}
