//! The file of a publication: what it shows, and the experiments that test it, as data.

use clap::Command;
use clap::error::ErrorKind;
use std::any::TypeId;
use std::path::PathBuf;
use takt_workload::document::{self, Entry, Kind, Node, Place, Reader};
use takt_workload::{Code, Diagnostic, Source, nearest, parse_duration};

/// A publication with its results.
pub(super) struct Publication {
    /// The name of its page, and the begin of the names of its experiments.
    pub(super) name: String,
    pub(super) source: Source,
    pub(super) authors: String,
    pub(super) title: Option<String>,
    pub(super) published: Option<String>,
    pub(super) results: Vec<Shown>,
}

impl Publication {
    /// Authors, title and place.
    pub(super) fn citation(&self) -> String {
        let title = self.title.iter().map(|title| format!("\"{title}\""));
        std::iter::once(self.authors.clone()).chain(title).chain(self.published.clone()).collect::<Vec<_>>().join(", ")
    }
}

/// A figure, a table or a section that shows a result.
pub(super) struct Shown {
    /// The name of its experiment: that of the publication and its own.
    pub(super) name: String,
    /// Such as `Figure 5`.
    pub(super) figure: String,
    pub(super) section: Option<String>,
    pub(super) page: Option<u64>,
    pub(super) shows: String,
    pub(super) state: Status,
}

/// Whether a result is tested.
pub(super) enum Status {
    Tested(Box<Experiment>),
    /// Not yet, with what it takes.
    NotYet(String),
    /// Not here, with the reason.
    Impossible(String),
}

/// Runs, and claims about their results.
pub(super) struct Experiment {
    pub(super) runs: Vec<Invocation>,
    /// The column of positions, such as the load.
    pub(super) over: Option<String>,
    /// A position of the publication times this is one of the results.
    pub(super) factor: f64,
    /// The reason of `factor`.
    pub(super) scale: Option<String>,
    pub(super) quantity: String,
    pub(super) unit: String,
    /// A value of the results divided by this has the unit.
    pub(super) per_unit: f64,
    pub(super) series: Vec<Series>,
    pub(super) claims: Vec<Claim>,
    /// How the experiment differs from that of the publication.
    pub(super) differs: Option<String>,
}

/// A command of `takt` whose results are a table.
pub(super) struct Invocation {
    pub(super) name: String,
    pub(super) place: Place,
    pub(super) command: Tool,
    pub(super) file: Option<String>,
    /// For the shortest form, the usual one and the full one.
    pub(super) arguments: [Vec<String>; 3],
    pub(super) table: Rows,
}

/// The commands of runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Tool {
    Load,
    Schedulability,
    Copies,
    Hartstone,
    Sim,
}

impl Tool {
    const ALL: [(&'static str, Tool); 5] = [
        ("sweep load", Tool::Load),
        ("sweep schedulability", Tool::Schedulability),
        ("sweep copies", Tool::Copies),
        ("bench hartstone", Tool::Hartstone),
        ("sim", Tool::Sim),
    ];

    pub(super) fn words(self) -> impl Iterator<Item = &'static str> {
        let name = Tool::ALL.iter().find(|(_, tool)| *tool == self).map_or("", |(name, _)| *name);
        name.split(' ')
    }

    /// Whether it keeps a state of its own.
    pub(super) fn is_resumable(self) -> bool {
        matches!(self, Tool::Load | Tool::Schedulability | Tool::Copies)
    }
}

/// The rows of a run's results.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rows {
    /// The only ones of the command.
    Usual,
    /// Tasks of a simulation.
    Tasks,
    /// Thermal zones of a simulation.
    Zones,
    /// Rounds and bursts of a regulator.
    Rounds,
}

/// The forms of an experiment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Length {
    Short,
    Usual,
    Full,
}

/// A curve, or one value: the rows that it selects.
#[derive(Clone, Debug)]
pub(super) struct Series {
    pub(super) name: String,
    /// The place of a run in the list.
    pub(super) run: usize,
    pub(super) quantity: Option<String>,
    pub(super) take: Take,
    pub(super) rows: Vec<(String, Pattern)>,
}

/// Rows by the cell of a column.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Pattern {
    Is(String),
    Between(f64, f64),
}

/// The value of several rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Take {
    /// There is one row.
    Only,
    Least,
    Most,
    Mean,
    Last,
}

const TAKE: [(&str, Take); 4] =
    [("least", Take::Least), ("most", Take::Most), ("mean", Take::Mean), ("last", Take::Last)];

/// A claim of the publication.
pub(super) struct Claim {
    pub(super) place: Place,
    pub(super) says: String,
    pub(super) page: Option<u64>,
    /// Positions, in the units of the publication; none where each series is one value.
    pub(super) at: Vec<f64>,
    pub(super) quantity: Option<String>,
    /// In place of the unit of the experiment.
    pub(super) unit: Option<String>,
    pub(super) test: Test,
}

/// The rule of agreement. Numbers are places in the list of series.
pub(super) enum Test {
    /// Each series is above the next one by at least so much.
    Order(Vec<usize>, Tolerance),
    /// No series is further from the first one than this.
    Equal(Vec<usize>, Tolerance),
    /// Values of the publication, and how far the simulated ones may be from them.
    Values(Vec<(usize, f64)>, Tolerance),
    /// Bounds of the publication; the simulated values must be above them.
    Above(Vec<(usize, f64)>),
    /// The same with values below the bounds.
    Below(Vec<(usize, f64)>),
}

impl Test {
    /// Its series, in order.
    pub(super) fn series(&self) -> Vec<usize> {
        match self {
            Test::Order(series, _) | Test::Equal(series, _) => series.clone(),
            Test::Values(values, _) | Test::Above(values) | Test::Below(values) => {
                values.iter().map(|(series, _)| *series).collect()
            }
        }
    }
}

/// A distance of two values.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Tolerance {
    Absolute(f64),
    /// A part of the reference.
    Relative(f64),
}

impl Tolerance {
    pub(super) fn of(self, reference: f64) -> f64 {
        match self {
            Tolerance::Absolute(by) => by,
            Tolerance::Relative(part) => part * reference.abs(),
        }
    }

    pub(super) fn text(self) -> String {
        match self {
            Tolerance::Absolute(by) => format!("{by}"),
            Tolerance::Relative(part) => format!("{} %", part * 100.0),
        }
    }
}

/// A number, or a duration in nanoseconds.
pub(super) fn number(text: &str) -> Option<f64> {
    let plain = text.parse::<f64>().ok().filter(|number| number.is_finite());
    plain.or_else(|| parse_duration(text).ok().map(|span| span.ns() as f64))
}

fn tolerance(text: &str) -> Option<Tolerance> {
    let positive = |text: &str| text.trim().parse::<f64>().ok().filter(|by| by.is_finite() && *by >= 0.0);
    match text.strip_suffix('%') {
        Some(percent) => positive(percent).map(|percent| Tolerance::Relative(percent / 100.0)),
        None => positive(text).map(Tolerance::Absolute),
    }
}

const EMPTY: &str = "a publication has `authors` and `results`";

/// Reads a publication. `cli` describes the commands that runs may use.
///
/// # Errors
/// All faults of the text.
pub(super) fn read(name: &str, source: &Source, cli: &Command) -> Result<Publication, Vec<Diagnostic>> {
    let (root, mut reader) = document::parse(&source.text, EMPTY).map_err(|fault| vec![fault])?;
    let hint = "docs/experiments.md describes the keys of such a file";
    let publication = reader.hinted(hint, |reader| publication(reader, &root, name, source, cli));
    let faults = reader.faults();
    match publication {
        Some(publication) if faults.is_empty() => Ok(publication),
        _ => Err(faults),
    }
}

fn publication(r: &mut Reader, root: &Node, name: &str, source: &Source, cli: &Command) -> Option<Publication> {
    if !r.is_map(root, "a publication", EMPTY) {
        return None;
    }
    r.keys(root, "a publication", &["authors", "title", "published", "results"]);
    let authors = required_text(r, root, "a publication", "authors");
    let (title, published) = (optional_text(r, root, "title"), optional_text(r, root, "published"));
    let entry = r.required(root, "a publication", "results", "a list of figures belongs here", EMPTY)?;
    let items = r.items(&entry.value, "`results`", "write `- figure: Figure 1` for each of them");
    let mut results: Vec<Shown> = Vec::new();
    for item in items {
        let Some((id, shown)) = shown(r, item, name, cli) else { continue };
        if results.iter().any(|other| other.name == shown.name) {
            let fault =
                Diagnostic::error(Code::DuplicateName, &id, format!("two results have the id `{}`", shown.name));
            r.push(fault.label("used above").hint("give each result an id of its own"));
        }
        results.push(shown);
    }
    let source = source.clone();
    Some(Publication { name: name.into(), source, authors: authors?, title, published, results })
}

fn required_text(r: &mut Reader, map: &Node, what: &str, key: &str) -> Option<String> {
    let hint = format!("add `{key}:`");
    let entry = r.required(map, what, key, "the key belongs here", &hint)?;
    r.text(&entry.value, key, "a text")
}

fn optional_text(r: &mut Reader, map: &Node, key: &str) -> Option<String> {
    map.get(key).and_then(|entry| r.text(&entry.value, key, "a text"))
}

/// A fault of a value.
fn wrong(r: &mut Reader, code: Code, place: &Place, message: String, label: &str, hint: &str) {
    r.push(Diagnostic::error(code, place, message).label(label).hint(hint));
}

const RESULT: [&str; 16] = [
    "id",
    "figure",
    "section",
    "page",
    "shows",
    "not_yet",
    "impossible",
    "runs",
    "over",
    "scale",
    "quantity",
    "unit",
    "per_unit",
    "series",
    "claims",
    "differs",
];
/// The keys of a result without an experiment.
const UNTESTED: [&str; 7] = ["id", "figure", "section", "page", "shows", "not_yet", "impossible"];

fn shown(r: &mut Reader, node: &Node, publication: &str, cli: &Command) -> Option<(Place, Shown)> {
    let what = "a result";
    if !r.is_map(node, what, "write `figure`, `shows`, and `runs` or `not_yet`") {
        return None;
    }
    r.keys(node, what, &RESULT);
    let id = node.get("id").map_or(node.head(), |entry| entry.value.span.clone());
    let own = required_text(r, node, what, "id");
    let figure = required_text(r, node, what, "figure");
    let shows = required_text(r, node, what, "shows");
    let section = optional_text(r, node, "section");
    let page = page(r, node);
    if let Some(bad) = own.as_ref().filter(|own| own.chars().any(|c| !c.is_ascii_alphanumeric() && c != '-')) {
        let message = format!("`{bad}` is no id");
        wrong(r, Code::InvalidCharacter, &id, message, "it is a part of a name", "use letters, digits and `-`");
    }
    let untested = ["not_yet", "impossible"].into_iter().find_map(|key| node.get(key));
    let state = match untested {
        Some(entry) => {
            for other in node.entries().iter().filter(|other| !UNTESTED.contains(&other.key.as_str())) {
                let message = format!("`{}` excludes `{}`", entry.key, other.key);
                let hint = "remove one of them";
                wrong(r, Code::ConflictingKeys, &other.key_span, message, "the result is not tested", hint);
            }
            let reason = r.text(&entry.value, &entry.key, "the reason")?;
            if entry.key == "not_yet" { Status::NotYet(reason) } else { Status::Impossible(reason) }
        }
        None => Status::Tested(Box::new(experiment(r, node, cli)?)),
    };
    let name = format!("{publication}-{}", own?);
    Some((id, Shown { name, figure: figure?, section, page, shows: shows?, state }))
}

fn page(r: &mut Reader, node: &Node) -> Option<u64> {
    node.get("page").and_then(|entry| r.whole(&entry.value, "page", 100_000))
}

fn experiment(r: &mut Reader, node: &Node, cli: &Command) -> Option<Experiment> {
    let what = "a result";
    let hint = "add `runs` with a `command` each, or a reason as `not_yet` or `impossible`";
    let runs = r.required(node, what, "runs", "runs belong here", hint)?;
    let runs = runs_of(r, &runs.value, cli);
    let quantity = required_text(r, node, what, "quantity");
    let unit = optional_text(r, node, "unit").unwrap_or_default();
    let per_unit = node.get("per_unit").map_or(Some(1.0), |entry| positive(r, entry));
    let over = optional_text(r, node, "over");
    let (factor, scale) = node.get("scale").map_or(Some((1.0, None)), |entry| {
        r.is_map(&entry.value, "`scale`", "write `scale: {factor: 4, why: …}`").then_some(())?;
        r.keys(&entry.value, "`scale`", &["factor", "why"]);
        let why = required_text(r, &entry.value, "`scale`", "why")?;
        let factor = r.required(&entry.value, "`scale`", "factor", "the factor belongs here", "add `factor:`")?;
        Some((positive(r, factor)?, Some(why)))
    })?;
    let differs = optional_text(r, node, "differs");
    let hint = "add `series` with a name and the cells of its rows, as in `EDF: {policy: edf}`";
    let series = r.required(node, what, "series", "series belong here", hint)?;
    let series = series_of(r, &series.value, &runs);
    let hint = "add `claims` with `says`, and `order`, `equal` or `values`";
    let claims = r.required(node, what, "claims", "claims belong here", hint)?;
    let items = r.items(&claims.value, "`claims`", hint);
    if items.is_empty() {
        let message = "an experiment has no claim".to_owned();
        wrong(r, Code::EmptyValue, &claims.key_span, message, "nothing is tested", hint);
    }
    let claims = items.iter().filter_map(|item| claim(r, item, &series, over.is_some())).collect();
    let (quantity, per_unit) = (quantity?, per_unit?);
    Some(Experiment { runs, over, factor, scale, quantity, unit, per_unit, series, claims, differs })
}

fn positive(r: &mut Reader, entry: &Entry) -> Option<f64> {
    let text = r.scalar(&entry.value, &entry.key, "a number above zero")?;
    let value = number(text).filter(|value| *value > 0.0);
    if value.is_none() {
        let message = format!("`{}` must be a number above zero", entry.key);
        wrong(
            r,
            Code::WrongType,
            &entry.value.span,
            message,
            "not such a number",
            "write a number such as `4` or `0.25`",
        );
    }
    value
}

fn runs_of(r: &mut Reader, node: &Node, cli: &Command) -> Vec<Invocation> {
    let hint = "name each run, as in `load: {command: sweep load, …}`";
    if !r.is_map(node, "`runs`", hint) {
        return Vec::new();
    }
    node.entries().iter().filter_map(|entry| run(r, entry, cli)).collect()
}

const FORMS: [&str; 3] = ["short", "options", "full"];

fn run(r: &mut Reader, entry: &Entry, cli: &Command) -> Option<Invocation> {
    let (node, what) = (&entry.value, "a run");
    if !r.is_map(node, what, "write `command`, `file` and `options`") {
        return None;
    }
    r.keys(node, what, &["command", "file", "options", "short", "full", "table"]);
    let command = r.required(node, what, "command", "the command belongs here", "add `command: sweep load`")?;
    let place = command.value.span.clone();
    let tool = r.choice(&command.value, "command", &Tool::ALL)?;
    let file = optional_text(r, node, "file");
    let table = match node.get("table") {
        None if tool == Tool::Sim => Rows::Tasks,
        None => Rows::Usual,
        Some(entry) if tool == Tool::Sim => r.choice(
            &entry.value,
            "table",
            &[("tasks", Rows::Tasks), ("zones", Rows::Zones), ("rounds", Rows::Rounds)],
        )?,
        Some(entry) => {
            let message = "`table` has no effect on this command".to_owned();
            wrong(r, Code::NoEffect, &entry.key_span, message, "it is a key of `sim`", "remove it");
            return None;
        }
    };
    let known = tool.words().try_fold(cli, |command, word| command.find_subcommand(word))?;
    let [short, usual, full] = FORMS.map(|key| node.get(key).map_or_else(Vec::new, |entry| options(r, entry, known)));
    let with = |more: &[(String, String)]| -> Vec<String> {
        let kept = usual.iter().filter(|(key, _)| more.iter().all(|(other, _)| other != key));
        kept.chain(more).map(|(_, argument)| argument.clone()).filter(|argument| !argument.is_empty()).collect()
    };
    let arguments = [with(&short), with(&[]), with(&full)];
    for arguments in &arguments {
        let words = std::iter::once("takt").chain(tool.words()).map(String::from);
        let words = words.chain(file.clone()).chain(arguments.iter().cloned());
        if let Err(error) = cli.clone().try_get_matches_from(words) {
            let line = error.to_string();
            let text = line.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
            let text = if error.kind() == ErrorKind::MissingRequiredArgument { line.replace('\n', " ") } else { text };
            let name = tool.words().collect::<Vec<_>>().join(" ");
            let hint = format!("`takt {name} --help` describes its options");
            wrong(r, Code::WrongType, &place, "the command refuses its options".into(), &text, &hint);
            return None;
        }
    }
    Some(Invocation { name: entry.key.clone(), place, command: tool, file, arguments, table })
}

/// Options that the command of an experiment sets itself.
const OWN: [&str; 6] = ["json", "csv", "shard", "threads", "state", "trace-size"];

/// The options of a run, each with its argument; an argument is empty for a flag that is not set.
fn options(r: &mut Reader, entry: &Entry, command: &Command) -> Vec<(String, String)> {
    if !r.is_map(&entry.value, &format!("`{}`", entry.key), "write options as `name: value`") {
        return Vec::new();
    }
    let mut all = Vec::new();
    for option in entry.value.entries() {
        let name = option.key.as_str();
        let names = || command.get_arguments().filter_map(clap::Arg::get_long);
        let Some(known) = command.get_arguments().find(|arg| arg.get_long() == Some(name)) else {
            let label =
                nearest(name, names()).map_or("no such option".into(), |near| format!("did you mean `{near}`?"));
            let message = format!("`takt {}` has no option `{name}`", command.get_name());
            wrong(r, Code::UnknownKey, &option.key_span, message, &label, "write options without `--`");
            continue;
        };
        if OWN.contains(&name) || known.get_value_parser().type_id() == TypeId::of::<PathBuf>() {
            let message = format!("an experiment cannot set `{name}`");
            let hint = "remove it; results go to the options of `takt repro`";
            wrong(r, Code::NotSupportedHere, &option.key_span, message, "`takt repro` writes the files", hint);
            continue;
        }
        let argument = if known.get_action().takes_values() {
            let Some(value) = value(r, option) else { continue };
            format!("--{name}={value}")
        } else {
            let Some(set) = r.boolean(&option.value, name) else { continue };
            if set { format!("--{name}") } else { String::new() }
        };
        all.push((name.to_owned(), argument));
    }
    all
}

/// A value of an option; a list has commas between.
fn value(r: &mut Reader, option: &Entry) -> Option<String> {
    match &option.value.kind {
        Kind::List(items) => {
            let texts: Option<Vec<String>> = items.iter().map(|item| r.text(item, &option.key, "a value")).collect();
            texts.map(|texts| texts.join(","))
        }
        _ => r.text(&option.value, &option.key, "a value"),
    }
}

fn series_of(r: &mut Reader, node: &Node, runs: &[Invocation]) -> Vec<Series> {
    if !r.is_map(node, "`series`", "write a name and the cells of its rows, as in `EDF: {policy: edf}`") {
        return Vec::new();
    }
    node.entries().iter().filter_map(|entry| one_series(r, entry, runs)).collect()
}

fn one_series(r: &mut Reader, entry: &Entry, runs: &[Invocation]) -> Option<Series> {
    let node = &entry.value;
    if !r.is_map(node, "a series", "write the cells of its rows, as in `{policy: edf}`") {
        return None;
    }
    let mut series = Series { name: entry.key.clone(), run: 0, quantity: None, take: Take::Only, rows: Vec::new() };
    let mut named = false;
    for cell in node.entries() {
        match cell.key.as_str() {
            "run" => {
                let name = r.text(&cell.value, "run", "the name of a run")?;
                let Some(run) = runs.iter().position(|run| run.name == name) else {
                    let label = nearest(&name, runs.iter().map(|run| run.name.as_str()))
                        .map_or("not in `runs`".into(), |near| format!("did you mean `{near}`?"));
                    let message = format!("there is no run `{name}`");
                    wrong(r, Code::UnknownName, &cell.value.span, message, &label, "name a run of this result");
                    return None;
                };
                (series.run, named) = (run, true);
            }
            "quantity" => series.quantity = Some(r.text(&cell.value, "quantity", "the name of a column")?),
            "take" => series.take = r.choice(&cell.value, "take", &TAKE)?,
            column => {
                let text = r.scalar(&cell.value, column, "a value, or a range such as `0s..4s`")?;
                let range = text.split_once("..").and_then(|(low, high)| Some((number(low)?, number(high)?)));
                let pattern = range.map_or_else(|| Pattern::Is(text.into()), |(low, high)| Pattern::Between(low, high));
                series.rows.push((column.into(), pattern));
            }
        }
    }
    if !named && runs.len() > 1 {
        let message = format!("the series `{}` names no run", series.name);
        wrong(r, Code::MissingKey, &entry.key_span, message, "there are several runs", "add `run:`");
        return None;
    }
    Some(series)
}

/// Keys of a claim that are tests.
const TESTS: [&str; 5] = ["order", "equal", "values", "above", "below"];

fn claim(r: &mut Reader, node: &Node, series: &[Series], has_over: bool) -> Option<Claim> {
    let what = "a claim";
    if !r.is_map(node, what, "write `says`, and `order`, `equal` or `values`") {
        return None;
    }
    r.keys(
        node,
        what,
        &["says", "page", "at", "quantity", "unit", "order", "by", "equal", "values", "within", "above", "below"],
    );
    let says = required_text(r, node, what, "says");
    let (page, quantity) = (page(r, node), optional_text(r, node, "quantity"));
    let unit = optional_text(r, node, "unit");
    let at = match node.get("at") {
        None => Vec::new(),
        Some(entry) => {
            if !has_over {
                let message = "`at` has no effect without `over`".to_owned();
                wrong(
                    r,
                    Code::NoEffect,
                    &entry.key_span,
                    message,
                    "positions of no column",
                    "add `over` to the result",
                );
            }
            let items = r.items(&entry.value, "`at`", "write positions, as in `at: [0.5, 1.0]`");
            items
                .iter()
                .filter_map(|item| {
                    let text = r.scalar(item, "at", "a number")?;
                    let value = number(text);
                    if value.is_none() {
                        let message = "`at` must be a list of numbers".to_owned();
                        wrong(
                            r,
                            Code::WrongType,
                            &item.span,
                            message,
                            "not a number",
                            "write positions, as in `[0.5, 1.0]`",
                        );
                    }
                    value
                })
                .collect()
        }
    };
    let tests: Vec<&Entry> = TESTS.into_iter().filter_map(|key| node.get(key)).collect();
    let test = match tests.as_slice() {
        [] => {
            let hint = "add `order: [A, B]`, `equal: [A, B]` or `values: {A: 1.5}`";
            wrong(r, Code::MissingKey, &node.head(), "a claim has no test".into(), "a test belongs here", hint);
            return None;
        }
        [test] => *test,
        [first, second, ..] => {
            let message = format!("`{}` excludes `{}`", first.key, second.key);
            let hint = "write a claim for each";
            wrong(r, Code::ConflictingKeys, &second.key_span, message, "a second test", hint);
            return None;
        }
    };
    let needed = match test.key.as_str() {
        "order" => "by",
        "equal" | "values" => "within",
        _ => "",
    };
    for useless in ["by", "within"].into_iter().filter(|key| *key != needed).filter_map(|key| node.get(key)) {
        let message = format!("`{}` has no effect on `{}`", useless.key, test.key);
        wrong(r, Code::NoEffect, &useless.key_span, message, "other tests have this key", "remove it");
    }
    if needed.is_empty() {
        let bounds = values(r, &test.value, series)?;
        let test = if test.key == "above" { Test::Above(bounds) } else { Test::Below(bounds) };
        return Some(Claim { place: node.head(), says: says?, page, at, quantity, unit, test });
    }
    let distance = match node.get(needed) {
        None if test.key == "order" => Tolerance::Absolute(0.0),
        None => {
            let message = format!("`{}` needs `within`", test.key);
            let hint = "add the largest distance that counts as agreement, as in `within: 0.05` or `within: 10%`";
            wrong(r, Code::MissingKey, &test.key_span, message, "no distance is given", hint);
            return None;
        }
        Some(entry) => {
            let text = r.scalar(&entry.value, needed, "a number or a percentage")?;
            let Some(distance) = tolerance(text) else {
                let message = format!("`{needed}` must be a number or a percentage");
                wrong(r, Code::WrongType, &entry.value.span, message, "neither of them", "write `0.05` or `10%`");
                return None;
            };
            distance
        }
    };
    let test = match test.key.as_str() {
        "values" => Test::Values(values(r, &test.value, series)?, distance),
        key => {
            let names = r.items(&test.value, &format!("`{key}`"), "write the names of series, as in `[A, B]`");
            let found: Vec<usize> = names.iter().filter_map(|item| place_of(r, item, series)).collect();
            if found.len() < names.len() {
                return None;
            }
            if found.len() < 2 {
                let message = format!("`{key}` compares fewer than two series");
                wrong(r, Code::EmptyValue, &test.key_span, message, "nothing is compared", "name at least two series");
                return None;
            }
            if key == "order" { Test::Order(found, distance) } else { Test::Equal(found, distance) }
        }
    };
    Some(Claim { place: node.head(), says: says?, page, at, quantity, unit, test })
}

fn place_of(r: &mut Reader, item: &Node, series: &[Series]) -> Option<usize> {
    let name = r.text(item, "series", "the name of a series")?;
    find(r, &name, &item.span, series)
}

fn find(r: &mut Reader, name: &str, place: &Place, series: &[Series]) -> Option<usize> {
    let found = series.iter().position(|one| one.name == name);
    if found.is_none() {
        let label = nearest(name, series.iter().map(|one| one.name.as_str()))
            .map_or("not in `series`".into(), |near| format!("did you mean `{near}`?"));
        wrong(
            r,
            Code::UnknownName,
            place,
            format!("there is no series `{name}`"),
            &label,
            "name a series of this result",
        );
    }
    found
}

fn values(r: &mut Reader, node: &Node, series: &[Series]) -> Option<Vec<(usize, f64)>> {
    if !r.is_map(node, "`values`", "write the publication's value of each series, as in `{A: 1.5}`") {
        return None;
    }
    let mut all = Vec::new();
    for entry in node.entries() {
        let found = find(r, &entry.key, &entry.key_span, series)?;
        let text = r.scalar(&entry.value, &entry.key, "a number")?;
        let Some(value) = number(text) else {
            let message = format!("`{}` must be a number", entry.key);
            wrong(r, Code::WrongType, &entry.value.span, message, "not a number", "write the publication's value");
            return None;
        };
        all.push((found, value));
    }
    Some(all)
}
