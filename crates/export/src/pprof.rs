//! Sampled stacks as a profile of pprof (`perftools.profiles.Profile`, compressed by gzip).

use crate::error::ExportError;
use crate::protobuf::Message;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use weir_query::{Cell, Queries};

/// Functions that are told apart; stacks with further ones are left out, and counted.
const MOST_FUNCTIONS: usize = 1 << 20;

/// What was written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Profiled {
    /// Samples.
    pub samples: u64,
    /// Different stacks.
    pub stacks: u64,
    /// Stacks that found no room.
    pub left_out: u64,
}

/// Writes the stacks of threads that ran as a profile.
///
/// # Errors
/// [`ExportError`]; [`ExportError::Nothing`] if the run has no such samples.
pub fn pprof(queries: &mut Queries, path: &Path) -> Result<Profiled, ExportError> {
    let wrong = |source| ExportError::Write { path: path.to_owned(), source };
    let about = queries.rows("SELECT begin_unix_ns, duration_ns FROM run")?;
    let of_run = |column: usize| about.first().and_then(|row| row.get(column)?.parse().ok()).unwrap_or(0);
    let file = File::create(path).map_err(wrong)?;
    let mut profile = Profile::new(GzEncoder::new(BufWriter::new(file), Compression::default()));
    let sql = "SELECT coalesce(process, ''), stack, count(*), sum(weight_ns) FROM samples WHERE state = 'running'
        GROUP BY process, stack ORDER BY 4 DESC, process, stack";
    let mut outcome = Ok(());
    queries.ask(sql, &mut |_| {}, &mut |row| {
        outcome = profile.stack(row);
        outcome.is_ok()
    })?;
    outcome.map_err(wrong)?;
    if profile.told.samples == 0 {
        return Err(ExportError::Nothing {
            what: "stacks of threads that ran",
            remedy: "`weir record --stacks` and `weir explain --load URL --stacks` sample them",
        });
    }
    let told = profile.told;
    let finished = profile.finish(of_run(0), of_run(1)).and_then(GzEncoder::finish);
    finished.and_then(|mut out| out.flush()).map_err(wrong)?;
    Ok(told)
}

struct Profile<W> {
    out: W,
    /// Texts by their numbers; 0 is the empty one.
    texts: HashMap<String, u64>,
    /// Functions, which are locations as well, by the numbers of their names.
    functions: HashMap<u64, u64>,
    told: Profiled,
}

impl<W: Write> Profile<W> {
    fn new(out: W) -> Self {
        let texts = HashMap::from([(String::new(), 0)]);
        Self { out, texts, functions: HashMap::new(), told: Profiled::default() }
    }

    fn text(&mut self, text: &str) -> u64 {
        if let Some(number) = self.texts.get(text) {
            return *number;
        }
        let number = self.texts.len() as u64;
        self.texts.insert(text.to_owned(), number);
        number
    }

    /// The location of a function; it is written when it is met first.
    fn location(&mut self, name: &str) -> io::Result<u64> {
        let text = self.text(name);
        if let Some(location) = self.functions.get(&text) {
            return Ok(*location);
        }
        let number = self.functions.len() as u64 + 1;
        self.functions.insert(text, number);
        let (mut function, mut line, mut location, mut profile) =
            (Message::new(), Message::new(), Message::new(), Message::new());
        function.number(1, number).number(2, text);
        line.number(1, number);
        location.number(1, number).message(4, &line);
        profile.message(5, &function).message(4, &location);
        self.out.write_all(profile.bytes())?;
        Ok(number)
    }

    /// A row: process, stack, samples, nanoseconds.
    fn stack(&mut self, row: &[Cell<'_>]) -> io::Result<()> {
        let [Cell::Text(process), Cell::Text(stack), Cell::Integer(count), Cell::Integer(ns)] = row else {
            self.told.left_out += 1;
            return Ok(());
        };
        let frames = stack.split(';').count();
        if self.functions.len() + frames > MOST_FUNCTIONS {
            self.told.left_out += 1;
            return Ok(());
        }
        // The innermost comes first, the process is the outermost.
        let mut locations = Vec::with_capacity(frames + 1);
        for name in stack.split(';').rev().filter(|name| !name.is_empty()).chain([*process]) {
            locations.push(self.location(name)?);
        }
        let (mut sample, mut profile) = (Message::new(), Message::new());
        sample.packed(1, locations.into_iter()).packed(2, [*count as u64, *ns as u64].into_iter());
        profile.message(2, &sample);
        self.told.stacks += 1;
        self.told.samples += *count as u64;
        self.out.write_all(profile.bytes())
    }

    fn finish(mut self, begin_unix_ns: u64, duration_ns: u64) -> io::Result<W> {
        let [samples, count, cpu, nanoseconds] = ["samples", "count", "cpu", "nanoseconds"].map(|text| self.text(text));
        let mut profile = Message::new();
        for (what, unit) in [(samples, count), (cpu, nanoseconds)] {
            let mut value = Message::new();
            value.number(1, what).number(2, unit);
            profile.message(1, &value);
        }
        profile.number(9, begin_unix_ns).number(10, duration_ns);
        let mut texts: Vec<(&u64, &String)> = self.texts.iter().map(|(text, number)| (number, text)).collect();
        texts.sort_unstable();
        self.out.write_all(profile.bytes())?;
        for (_, text) in texts {
            let mut one = Message::new();
            one.text(6, text);
            self.out.write_all(one.bytes())?;
        }
        Ok(self.out)
    }
}
