//! Curves as one HTML page that loads nothing: legends that hide curves, values below the pointer, the experiment and all values as text.
//!
//! The page draws with uPlot (<https://github.com/leeoniya/uPlot>), which is in the folder `uplot` with its licence.

use super::curves::{COLOURS, DASHES, Picture, svg};
use super::points::ratio;
use serde_json::{Value, json};
use std::fmt::Write;
use takt_core::time::Span;
use takt_trace::gantt::escape;
use takt_trace::page::{Data, Document, preformatted};

const UPLOT: &str = include_str!("page/uplot/uPlot.iife.min.js");
const UPLOT_STYLE: &str = include_str!("page/uplot/uPlot.min.css");
const UPLOT_LICENCE: &str = include_str!("page/uplot/LICENSE");
const SCRIPT: &str = include_str!("page/curves.js");
const STYLE: &str = include_str!("page/curves.css");

/// The text of a value by its panel, line and point, with its interval and the number of runs or sets.
pub(super) type Texts<'a> = &'a dyn Fn(usize, usize, usize) -> String;

/// The page of an experiment with these settings and this command.
pub(super) fn html(picture: &Picture<'_>, setup: &Value, command: &str, texts: Texts<'_>) -> String {
    let style = format!("{UPLOT_STYLE}\n{STYLE}");
    let document = Document {
        title: picture.title,
        style: &style,
        scripts: &[UPLOT, SCRIPT],
        data: &[Data::new("curves", curves(picture))],
        body: &body(picture, setup, command, texts),
        drawing: &svg(picture),
        drawing_note: "Without JavaScript, the page shows the curves as a picture.",
    };
    document.text()
}

/// The label of a point.
fn point(picture: &Picture<'_>, millionths: u64) -> String {
    let label = ratio(millionths);
    if picture.whole { label.trim_end_matches(".0").to_owned() } else { label }
}

/// The curves for the program of the page; points and values are in millionths.
fn curves(picture: &Picture<'_>) -> Value {
    let panel = |panel: &super::curves::Panel| {
        let lines = panel.lines.iter().map(|(_, dots)| {
            let each = |of: &dyn Fn(&super::curves::Dot) -> u64| {
                dots.iter().map(|dot| dot.as_ref().map(of)).collect::<Vec<_>>()
            };
            json!({"values": each(&|dot| dot.value), "below": each(&|dot| dot.below), "above": each(&|dot| dot.above)})
        });
        json!({"title": panel.title, "unit": panel.unit, "top": panel.top, "lines": lines.collect::<Vec<_>>()})
    };
    let names = picture.panels.first().map_or(&[][..], |panel| &panel.lines[..]);
    json!({
        "across": picture.across, "whole": picture.whole, "points": picture.points,
        "names": names.iter().map(|(name, _)| name).collect::<Vec<_>>(),
        "colours": COLOURS, "dashes": DASHES, "panels": picture.panels.iter().map(panel).collect::<Vec<_>>(),
    })
}

/// The page's content: the curves, the experiment, and all values as tables.
fn body(picture: &Picture<'_>, setup: &Value, command: &str, texts: Texts<'_>) -> String {
    let mut body = String::new();
    let mut line = |text: std::fmt::Arguments<'_>| {
        body.write_fmt(text).expect("a string takes all");
        body.push('\n');
    };
    for note in picture.note.split('\n').chain(picture.has_bars().then_some(picture.bars)) {
        line(format_args!("<p>{}</p>", escape(note)));
    }
    line(format_args!("<main id=\"app\"></main>"));
    line(format_args!("<h2>Experiment</h2>\n<p><code>{}</code></p>\n<dl>", escape(command)));
    for (key, value) in setup.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null()) {
        let (key, is_time) = key.strip_suffix("_ns").map_or((&key[..], false), |key| (key, true));
        let text = |value: &Value| match (value.as_i64(), value.as_str()) {
            (Some(ns), _) if is_time => Span::from_ns(ns).to_string(),
            (_, Some(text)) => text.to_owned(),
            _ => value.to_string(),
        };
        let value = match value.as_array() {
            Some(all) => all.iter().map(text).collect::<Vec<_>>().join(", "),
            None => text(value),
        };
        line(format_args!("<dt>{}</dt><dd>{}</dd>", escape(&key.replace('_', " ")), escape(&value)));
    }
    line(format_args!("</dl>\n<h2>Values</h2>"));
    for (number, panel) in picture.panels.iter().enumerate() {
        let title = if panel.title.is_empty() { picture.title } else { &panel.title };
        let unit = &panel.unit;
        line(format_args!("<div class=\"values\"><table>\n<caption>{} ({})</caption>", escape(title), escape(unit)));
        let names = panel.lines.iter().map(|(name, _)| format!("<th scope=\"col\">{}</th>", escape(name)));
        line(format_args!("<tr><th scope=\"col\">{}</th>{}</tr>", escape(picture.across), names.collect::<String>()));
        for (at, millionths) in picture.points.iter().enumerate() {
            let cells = (0..panel.lines.len()).map(|name| format!("<td>{}</td>", escape(&texts(number, name, at))));
            let label = point(picture, *millionths);
            line(format_args!("<tr><th scope=\"row\">{label}</th>{}</tr>", cells.collect::<String>()));
        }
        line(format_args!("</table></div>"));
    }
    line(format_args!("<details><summary>The curves are drawn by uPlot: its licence</summary>"));
    line(format_args!("<pre>{}</pre></details>", preformatted(UPLOT_LICENCE)));
    body
}
