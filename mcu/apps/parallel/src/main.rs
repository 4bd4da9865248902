//! Four small computations, first in sequence and then together. A context switch that damages a register or a stack changes a result. Figures 0
//! to 3 are the results in sequence, figures 4 to 7 those of the last job of each task, and figures 8 to 11 the
//! results that differed. Figures 12 to 15 count the results.
#![no_std]
#![no_main]

use core::hint::black_box;
use core::sync::atomic::{AtomicU32, Ordering};
use mps2_an385::{board, entry};
use takt_mcu::{Main, Task, Trace, figure};

takt_mcu::tables!();

/// The next number of a linear congruential generator; the factors are those of Numerical Recipes.
fn draw(state: &mut u32) -> u32 {
    *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
    *state >> 8
}

/// CRC-32 of a sequence of numbers, bit by bit.
fn checksum() -> u32 {
    let (mut crc, mut state) = (u32::MAX, 1);
    for _ in 0..2_000 {
        crc ^= draw(&mut state) & 0xff;
        for _ in 0..8 {
            crc = crc >> 1 ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 };
        }
    }
    !crc
}

/// Sorts numbers by exchange over falling distances, and mixes them with their places.
fn sort() -> u32 {
    let mut state = 2;
    let mut numbers = [0; 64];
    numbers.fill_with(|| draw(&mut state));
    for distance in [31, 15, 7, 3, 1] {
        for from in distance..numbers.len() {
            let mut at = from;
            while at >= distance && numbers[at - distance] > numbers[at] {
                numbers.swap(at - distance, at);
                at -= distance;
            }
        }
    }
    numbers.iter().zip(1..).fold(0, |sum: u32, (number, place)| sum.wrapping_add(number.wrapping_mul(place)))
}

/// Shortest paths between all places of a random graph (Floyd and Warshall), summed up.
fn paths() -> u32 {
    const PLACES: usize = 10;
    let mut state = 3;
    let mut length = [[0; PLACES]; PLACES];
    length.as_flattened_mut().fill_with(|| draw(&mut state) % 1_000 + 1);
    for over in 0..PLACES {
        for from in 0..PLACES {
            for to in 0..PLACES {
                length[from][to] = length[from][to].min(length[from][over] + length[over][to]);
            }
        }
    }
    length.as_flattened().iter().sum()
}

/// The sum of the primes below a thousand, by division.
fn primes() -> u32 {
    let prime =
        |number: &u32| (2..*number).take_while(|d| d * d <= *number).all(|d| !black_box(*number).is_multiple_of(d));
    (2..1_000).filter(prime).sum()
}

const COMPUTATIONS: [fn() -> u32; 4] = [checksum, sort, paths, primes];
/// The results in sequence.
static EXPECTED: [AtomicU32; 4] = [const { AtomicU32::new(0) }; 4];

fn compute(task: &Task) -> ! {
    let index = task.reference().number() as usize;
    let (mut different, mut done) = (0, 0);
    loop {
        let result = COMPUTATIONS[index]();
        different += u64::from(result != EXPECTED[index].load(Ordering::Relaxed));
        figure(4 + index, result.into());
        figure(8 + index, different);
        done += 1;
        figure(12 + index, done);
    }
}

#[entry]
fn main() -> ! {
    for (index, computation) in COMPUTATIONS.iter().enumerate() {
        let result = computation();
        EXPECTED[index].store(result, Ordering::Relaxed);
        figure(index, result.into());
    }
    takt_mcu::start(board(), &PARALLEL, [compute as Main; 4], Trace::ring(1 << 20))
}
