//! Three jobs of a program outside Takt, with requests. `TAKT_STANDALONE=5ms` gives it its period.

use std::process::ExitCode;
use takt_client::{Client, Error};

fn main() -> ExitCode {
    match jobs() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn jobs() -> Result<(), Error> {
    let mut client = Client::attach()?;
    let map = client.resource("map")?;
    let first = client.job();
    for _ in 0..2 {
        client.lock(map)?;
        client.unlock(map)?;
        client.next_job()?;
    }
    let (last, counts) = (client.job(), client.statistics()?);
    assert_eq!((last.number - first.number, last.release - first.release), (2, 10_000_000));
    assert_eq!(last.deadline - last.release, 5_000_000);
    assert_eq!((counts.released, counts.completed, counts.met + counts.missed), (3, 2, 2));
    Ok(())
}
