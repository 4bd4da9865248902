//! Pictures of pages, compared with accepted ones in `tests/pictures`. `UPDATE=1` accepts the pictures as they are now; look at them.
//!
//! The fragment `picture` leaves out all text, since fonts differ between machines. Bars and signs on a canvas of fixed size remain. Browsers
//! smooth edges differently, so a pixel differs only if a colour does by more than an eighth of its range.

use crate::common::{Room, workloads};
use crate::machine::{Capability, skip};
use miniz_oxide::inflate::decompress_to_vec_zlib;
use std::fs;
use std::path::{Path, PathBuf};
use takt_testing::browse;

/// Workloads with different signs, and the height of each picture: misses and a switch of policies in domains, a window table with activations that are
/// cut off, locks, handlers of aborted jobs, rounds of a regulator with budgets.
const PICTURES: [(&str, &str, u32, &str); 5] = [
    ("overload-domains.yaml", "200ms", 312, ""),
    ("features/cut-off.yaml", "100ms", 190, ""),
    ("features/locking-inheritance.yaml", "100ms", 180, ""),
    ("features/abort-handler.yaml", "200ms", 190, "&lanes=ready"),
    ("ipi-overload.yaml", "100ms", 560, "&lanes=budget,round"),
];
const WIDTH: u32 = 900;
/// One pixel of so many may differ.
const OF: usize = 1000;
/// The largest difference of equal colours.
const SHADE: u8 = 32;

/// A picture as rows of red, green and blue.
#[derive(PartialEq)]
struct Pixels {
    width: usize,
    colours: Vec<[u8; 3]>,
}

/// Reads a PNG of eight bits for each of three or four channels, without interlacing (W3C PNG, sections 5 and 9).
fn pixels(bytes: &[u8]) -> Pixels {
    let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let (width, height, channels) = (number(16), number(20), if bytes[25] == 6 { 4 } else { 3 });
    assert_eq!((&bytes[1..4], bytes[24], bytes[28]), (&b"PNG"[..], 8, 0));
    assert!([2, 6].contains(&bytes[25]), "colour type {}", bytes[25]);
    let (mut at, mut packed) = (8, Vec::new());
    while at < bytes.len() {
        let length = number(at);
        if &bytes[at + 4..at + 8] == b"IDAT" {
            packed.extend_from_slice(&bytes[at + 8..at + 8 + length]);
        }
        at += length + 12;
    }
    let plain = decompress_to_vec_zlib(&packed).unwrap();
    let line = width * channels;
    let (mut above, mut colours) = (vec![0; line], Vec::new());
    for row in plain.chunks_exact(line + 1) {
        let mut now = row[1..].to_vec();
        for index in 0..line {
            let left = if index < channels { 0 } else { now[index - channels] };
            let corner = if index < channels { 0 } else { above[index - channels] };
            let up = above[index];
            let [a, b, c] = [left, up, corner].map(i32::from);
            let paeth = || {
                let [pa, pb, pc] = [(b - c).abs(), (a - c).abs(), (a + b - 2 * c).abs()];
                if pa <= pb && pa <= pc {
                    left
                } else if pb <= pc {
                    up
                } else {
                    corner
                }
            };
            let predicted = match row[0] {
                0 => 0,
                1 => left,
                2 => up,
                3 => ((a + b) / 2) as u8,
                _ => paeth(),
            };
            now[index] = now[index].wrapping_add(predicted);
        }
        colours.extend(now.chunks_exact(channels).map(|colour| [colour[0], colour[1], colour[2]]));
        above = now;
    }
    assert_eq!(colours.len(), width * height);
    Pixels { width, colours }
}

/// How many pixels differ; all of them if the sizes do.
fn differing(a: &Pixels, b: &Pixels) -> usize {
    if a.width != b.width || a.colours.len() != b.colours.len() {
        return a.colours.len().max(b.colours.len());
    }
    let differs = |(a, b): &(&[u8; 3], &[u8; 3])| a.iter().zip(*b).any(|(a, b)| a.abs_diff(*b) > SHADE);
    a.colours.iter().zip(&b.colours).filter(differs).count()
}

/// The picture of a page; `None` without a browser.
fn picture(room: &Room, height: u32, fragment: &str) -> Option<Vec<u8>> {
    let file = room.path("picture.png");
    let (shot, size) = (format!("--screenshot={}", file.display()), format!("--window-size={WIDTH},{height}"));
    let flags = [
        "--virtual-time-budget=60000",
        "--hide-scrollbars",
        "--force-device-scale-factor=1",
        "--force-color-profile=srgb",
    ];
    let arguments = [&flags[..], &[&shot, &size]].concat();
    let _ = fs::remove_file(&file);
    let shown = browse(&room.path("t.html"), fragment, &arguments)?;
    Some(fs::read(&file).unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&shown.stderr))))
}

#[test]
fn pictures_are_the_accepted_ones() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pictures");
    let mut wrong = Vec::new();
    for (workload, duration, height, lanes) in PICTURES {
        let room = Room::new();
        let file: PathBuf = workloads().join(workload);
        room.takt(&["sim", file.to_str().unwrap(), "--duration", duration, "--trace", "t.html"]);
        for theme in ["light", "dark"] {
            let Some(now) = picture(&room, height, &format!("#picture&theme={theme}{lanes}")) else {
                skip(Capability::Browser, "neither chromium nor google-chrome is installed");
                return;
            };
            let stem = Path::new(workload).file_stem().unwrap().to_str().unwrap();
            let accepted = folder.join(format!("{stem}-{theme}.png"));
            if std::env::var_os("UPDATE").is_some() {
                fs::create_dir_all(&folder).unwrap();
                fs::write(&accepted, &now).unwrap();
                continue;
            }
            let before = pixels(&fs::read(&accepted).unwrap_or_else(|e| panic!("{}: {e}", accepted.display())));
            let now = pixels(&now);
            let count = differing(&before, &now);
            if count * OF > before.colours.len() {
                wrong.push(format!("{}: {count} of {} pixels differ", accepted.display(), before.colours.len()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}\nUPDATE=1 accepts them", wrong.join("\n"));
}

/// A missing sign is found: another policy gives another picture, and the same one the same.
#[test]
fn a_picture_of_another_schedule_differs() {
    let room = Room::with(
        "policy: edf\ntasks:\n  - {name: a, period: 10ms, runtime: 6ms}\n  - {name: b, period: 15ms, runtime: 7ms}\n",
    );
    let mut taken = Vec::new();
    for runtime in ["", "", "--policy=rm"] {
        let options: Vec<&str> = [runtime].into_iter().filter(|option| !option.is_empty()).collect();
        room.takt(&[&["sim", "w.yaml", "--duration", "100ms", "--trace", "t.html"], &options[..]].concat());
        let Some(now) = picture(&room, 200, "#picture&theme=light") else {
            skip(Capability::Browser, "neither chromium nor google-chrome is installed");
            return;
        };
        taken.push(pixels(&now));
    }
    assert!(differing(&taken[0], &taken[1]) * OF <= taken[0].colours.len());
    assert!(differing(&taken[0], &taken[2]) * OF > taken[0].colours.len());
}
