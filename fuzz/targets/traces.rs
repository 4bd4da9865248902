//! No bytes make a reader of traces panic, and what it accepts can be drawn, summarised, compared and written again.

#![no_main]

use libfuzzer_sys::{Corpus, fuzz_target};
use std::io;
use takt_core::time::Span;
use takt_trace::gantt::{self, SvgOptions, TextOptions};
use takt_trace::jobs::JobTable;
use takt_trace::{Footer, Format, Writer, check, diff, read, summary};

fuzz_target!(|bytes: &[u8]| -> Corpus {
    if bytes.len() > 16 << 10 {
        return Corpus::Reject;
    }
    for format in [Format::JsonLines, Format::Csv] {
        let Ok(trace) = read(bytes, format) else { continue };
        let _ = gantt::text(&trace, &TextOptions::default());
        let _ = gantt::svg(&trace, &SvgOptions::default());
        let _ = summary::summarize(&trace);
        let _ = check::check(&trace, None, Span::ZERO);
        assert!(diff::diff(&trace, &trace, Span::ZERO).is_equal(), "a trace is equal to itself");
        let mut jobs: Box<dyn Writer> =
            Box::new(JobTable::new(&trace.header, Box::new(io::sink())).expect("nothing can fail there"));
        for to in [Format::JsonLines, Format::Csv, Format::Perfetto] {
            let mut writer = takt_trace::writer(to, &trace.header, Box::new(io::sink())).expect("nothing can fail there");
            for record in &trace.records {
                writer.record(record).expect("nothing can fail there");
            }
        }
        for record in &trace.records {
            jobs.record(record).expect("nothing can fail there");
        }
        if let Some(Footer { end, dropped }) = trace.footer {
            jobs.finish(&Footer { end, dropped }).expect("nothing can fail there");
        }
    }
    Corpus::Keep
});
