//! `takt bench decode`: what each frame of a movie needs to be decoded, as a series that workloads read.

use super::figures::{Figures, cell, median};
use super::lab::{Machine, Session};
use super::options::Rounds;
use crate::failure::Failure;
use crate::files;
use crate::outcome::{Outcome, Verdict};
use crate::scratch::Scratch;
use serde_json::json;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use takt::report::{Cell, table};
use takt_workload::Code;

/// Measure the CPU time for decoding each frame of a movie
///
/// ffmpeg makes a clip of generated pictures and noise, and decodes it with one thread. The result is the CPU time of each frame, the
/// median over the rounds. `--out` writes the series, and `execution: {file: SERIES.csv}` of a task reads it. Needs ffmpeg.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    #[command(flatten)]
    rounds: Rounds,
    /// Kind of the movie
    #[arg(long, value_enum, default_value_t = Movie::H264)]
    movie: Movie,
    /// Length of the clip in seconds
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
    /// Seed of the noise and of the motion
    #[arg(long, default_value_t = 1)]
    seed: u32,
    /// Write the series
    #[arg(long, value_name = "SERIES.csv")]
    out: Option<PathBuf>,
    /// One second of the clip, and one round: shows that everything works
    #[arg(long)]
    quick: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Movie {
    /// H.264, 1920x800 at 24 frames per second: some frames need far more CPU time than most
    H264,
    /// Every frame compressed by itself and without loss, 720x480 at 30 frames per second: all frames need about the same CPU time
    Lossless,
}

impl Movie {
    fn rate(self) -> u32 {
        match self {
            Movie::H264 => 24,
            Movie::Lossless => 30,
        }
    }

    /// The graph of ffmpeg's filters that makes the pictures.
    fn graph(self, seed: u32, seconds: u32) -> String {
        let rate = self.rate();
        match self {
            // Cells that live and die, and a zoom, each half of the time, both with noise; and now and then for an eighth of a second
            // much more of it.
            Movie::H264 => {
                let half = format!("trim=duration={}ms,setpts=PTS-STARTPTS", seconds * 500);
                let noise = |much| format!("noise=alls={much}:allf=t:all_seed={seed}");
                format!(
                    "life=s=480x200:r={rate}:seed={seed}:mold=10:life_color=white:death_color=navy,{half},\
                     scale=1920x800:flags=neighbor,format=yuv420p,{}[a];\
                     mandelbrot=s=1920x800:r={rate}:maxiter=200,{half},format=yuv420p,{}[b];\
                     [a][b]concat=n=2:v=1,{}:enable='lt(mod(t+0.4,1.3),0.13)'[v]",
                    noise(3),
                    noise(5),
                    noise(4)
                )
            }
            Movie::Lossless => {
                format!("testsrc2=s=720x480:r={rate}:d={seconds},noise=alls=6:allf=t:all_seed={seed},format=yuv420p[v]")
            }
        }
    }

    /// Without frames that look ahead, so that each packet gives its frame at once.
    fn codec(self) -> &'static [&'static str] {
        match self {
            Movie::H264 => &["-c:v", "libx264", "-preset", "veryfast", "-crf", "21", "-bf", "0", "-g", "48"],
            Movie::Lossless => &["-c:v", "ffvhuff"],
        }
    }

    fn text(self) -> &'static str {
        match self {
            Movie::H264 => "H.264, 1920x800, 24 frames per second",
            Movie::Lossless => "lossless, 720x480, 30 frames per second",
        }
    }
}

fn ffmpeg(args: &[&str]) -> Result<Output, Failure> {
    let mut command = Command::new("ffmpeg");
    command.args(["-hide_banner", "-nostdin", "-nostats"]).args(args).stdin(Stdio::null());
    let missing = |e| {
        Failure::machine(
            Code::MissingProgram,
            format!("ffmpeg cannot be started: {e}"),
            "install it: apt-get install ffmpeg",
        )
    };
    let output = command.output().map_err(missing)?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.trim().lines().last().unwrap_or("nothing").to_owned();
        let fix = "an ffmpeg with libx264 is needed, as Debian's package ffmpeg has it";
        return Err(Failure::machine(Code::MissingProgram, format!("ffmpeg failed: {last}"), fix));
    }
    Ok(output)
}

/// CPU time of each decoded frame in nanoseconds, from the lines of `-benchmark_all`: what a call of the decoder took is reported as
/// `bench: N user N sys N real decode_video F.S`, in microseconds of CPU time of ffmpeg's process (getrusage), and a frame that was
/// decoded is handed on (`encode_video`) before the next packet is taken up.
fn frames(said: &str) -> Vec<i64> {
    let mut frames = Vec::new();
    let (mut decoded, mut sum) = (false, 0);
    for line in said.lines().filter_map(|line| line.split_once("bench:").map(|(_, rest)| rest)) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [user, "user", sys, "sys", _, "real", what, ..] = words[..] else { continue };
        if what == "decode_video" {
            let (Ok(user), Ok(sys)) = (user.parse::<i64>(), sys.parse::<i64>()) else { continue };
            sum += (user + sys) * 1_000;
            decoded = true;
        } else if what == "encode_video" && decoded {
            frames.push(sum);
            (decoded, sum) = (false, 0);
        }
    }
    frames
}

fn decode(clip: &Path, expected: usize) -> Result<Vec<i64>, Failure> {
    let clip = clip.to_string_lossy();
    let args = ["-benchmark_all", "-threads", "1", "-i", &clip, "-map", "0:v", "-f", "null", "-"];
    let mut found = frames(&String::from_utf8_lossy(&ffmpeg(&args)?.stderr));
    // At its end the decoder is asked once more, and has nothing.
    found.truncate(expected);
    if found.len() != expected || found.contains(&0) {
        let message = format!("ffmpeg told the times of {} frames, and the clip has {expected}", found.len());
        return Err(Failure::machine(
            Code::MissingProgram,
            message,
            "take an ffmpeg whose -benchmark_all names each call, such as 5.1",
        ));
    }
    Ok(found)
}

/// The series as a workload reads it.
fn series(args: &Args, frames: &[i64], about: &[String]) -> String {
    let mut text = String::new();
    for line in about {
        writeln!(text, "# {line}").expect("a string takes all");
    }
    let seed = args.seed;
    writeln!(text, "# CPU time of each frame: takt bench decode --seed {seed}\ncpu_us").expect("a string takes all");
    for ns in frames {
        writeln!(text, "{}", ns / 1_000).expect("a string takes all");
    }
    text
}

pub(super) fn run(args: &Args) -> Outcome {
    let _outputs = args.out.as_deref().map(files::writable).transpose()?;
    let (seconds, rounds) = if args.quick { (1, 1) } else { (args.seconds, args.rounds.rounds) };
    let session = Session::begin("decode", rounds, args.quick);
    let version = String::from_utf8_lossy(&ffmpeg(&["-version"])?.stdout).lines().next().unwrap_or("").to_owned();
    let version = version.split(" Copyright").next().unwrap_or("").to_owned();
    let dir = Scratch::new("takt-bench-")?;
    let clip = dir.path().join("clip.mkv");
    let graph = args.movie.graph(args.seed, seconds);
    let mut make = vec!["-y", "-filter_complex", &graph, "-map", "[v]"];
    make.extend(args.movie.codec());
    let clip_name = clip.to_string_lossy();
    make.push(&clip_name);
    session.progress("making the clip");
    ffmpeg(&make)?;
    let expected = (seconds * args.movie.rate()) as usize;
    let mut all = Vec::new();
    for round in 1..=rounds {
        session.round(round, args.movie.text());
        all.push(decode(&clip, expected)?);
    }
    let frames: Vec<i64> = (0..expected).map(|frame| median(all.iter().map(|round| round[frame]))).collect();
    let (figures, machine) = (Figures::of(frames.iter().copied()), Machine::read());
    let about = [
        format!("{}, {seconds} s; {version}", args.movie.text()),
        format!("{}, Linux {}; medians of {rounds} rounds", machine.model, machine.kernel),
    ];
    if let Some(path) = &args.out {
        files::write(path, series(args, &frames, &about))?;
    }
    let mean = frames.iter().sum::<i64>() / frames.len().max(1) as i64;
    let mut out = io::stdout().lock();
    if args.json {
        let object = session.json(json!({
            "movie": args.movie.text(), "ffmpeg": version, "seed": args.seed, "bytes": fs::metadata(&clip)?.len(),
            "results": {"frames": figures.json(), "mean": mean, "cpu_ns": frames},
        }));
        writeln!(out, "{object}")?;
    } else {
        let [title, machine] = session.heading(", CPU time of each frame");
        writeln!(out, "{title}\n{}\n{machine}\n", about[0])?;
        let [p50, p99, max] = figures.cells();
        let head = ["frames", "mean", "p50", "p99", "max"].map(Cell::from);
        let row = [figures.count.to_string().into(), cell(mean), p50, p99, max];
        table(&mut out, &[head.to_vec(), row.to_vec()])?;
    }
    Ok(Verdict::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_what_the_decoder_took_until_it_was_handed_on() {
        // Two calls of the decoder for each packet, the second of which finds nothing more; at the end one without a packet.
        let said = "Stream mapping:\n\
                    bench:    12105 user       20 sys    24226 real decode_video 0.0 \n\
                    bench:        8 user        0 sys       10 real decode_video 0.0 \n\
                    bench:       13 user        0 sys       12 real encode_video 0.0 \n\
                    frame=   65 fps= 29 bench:    22659 user        0 sys    41883 real decode_video 0.0 \n\
                    bench:        3 user        0 sys        3 real decode_video 0.0 \n\
                    bench:       11 user        0 sys       12 real encode_video 0.0 \n\
                    bench:       16 user        0 sys       19 real encode_video 0.0 \n\
                    bench:        1 user        0 sys        1 real decode_video 0.0 \n\
                    bench:        1 user        0 sys        1 real flush_video 0.0 \n";
        assert_eq!(frames(said), [12_133_000, 22_662_000]);
        assert_eq!(frames("frame= 1\nbench: maxrss=4kB\n"), [] as [i64; 0]);
    }
}
