//! From a run directory to an explanation: merge, join, fold, put into words.

use crate::course::RunCourse;
use crate::from_sockets::{self, Objectives, View, Watched};
use crate::hosts::{self, Hosts};
use crate::kept_waiting::KeptWaiting;
use crate::lanes;
use crate::moves::MoveFold;
use crate::nothing;
use crate::participants::Participants;
use crate::percentiles;
use crate::phases::{self, WorkFolds};
use crate::pieces::pieces_of;
use crate::proc_side;
use crate::server_side::ServerSide;
use crate::spans::{Beside, Chooser, Contexts, Laying, RealTime, Sample, id_of};
use crate::stacks::StackSection;
use crate::wakeups::WakeupCount;
use crate::words;
use anyhow::Context;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;
use weir_capture::BoundarySource;
use weir_measure::class::{Classes, Grouping};
use weir_measure::examples::Examples;
use weir_measure::part::Part;
use weir_measure::response::{Piece, Profile, ResponseFold};
use weir_measure::summary::Summary;
use weir_measure::trend::TrendFold;
use weir_report::{Cause, Example, ExampleStep, Explanation, Observer, Ratio, ServerCpu, Stages, Transaction, Wakeups};
use weir_timeline::{Detail, Joiner, Labels, Remarks, Response, Statistics, Unjoinable, label};
use weir_trace::{Damage, Entry, RunReader, Source};
use weir_wire::client::Outcome;
use weir_wire::{Record, Slot};

/// Transaction classes that are told apart.
const MOST_CLASSES: usize = 200;
/// Examples of each sort that are drawn.
const EXAMPLES: usize = 4;
/// Steps of an example that are drawn one by one; up to twice as many are drawn in all.
const MOST_STEPS: usize = 200;
/// Begin and end of a client's response time.
const BOUNDARY: &str = "from the time that the schedule intended to the last byte at the client";
/// The share that counts as slow.
const SLOW: f64 = 0.01;

/// Explains a run.
///
/// # Errors
/// The run cannot be read, or nothing in it can be explained.
pub fn explain(directory: &Path, subject: String, grouping: Grouping, view: &View) -> anyhow::Result<Explanation> {
    with_spans(directory, subject, grouping, view).map(|told| told.explanation)
}

/// An explanation, with what its view asked for of spans.
#[derive(Debug)]
pub struct WithSpans {
    /// The explanation.
    pub explanation: Explanation,
    /// Requests that were chosen to be handed on.
    pub sample: Option<Sample>,
    /// Spans that were given, beside the requests.
    pub beside: Option<Beside>,
}

/// Explains a run, and does what the view asks for of spans.
///
/// # Errors
/// As [`explain`].
pub fn with_spans(directory: &Path, subject: String, grouping: Grouping, view: &View) -> anyhow::Result<WithSpans> {
    let mut hosts = hosts::of(directory, &view.others)?;
    let reader = hosts.as_ref().map_or_else(|| Ok(RunReader::open(directory)?), Hosts::reader)?;
    let rung = reader.rung().and_then(BoundarySource::of_name);
    let mut reading = Reading::new(&reader, grouping, view, rung);
    let mut merge = hosts.as_ref().map_or_else(|| reader.merge(), Hosts::merge);
    let mut line = weir_terminal::progress::Line::new();
    merge.each(|sourced| {
        let name = phases::name_of(&sourced);
        match &mut hosts {
            Some(hosts) => hosts.each(&sourced, |record, payload| reading.push(record, payload, name, sourced.source)),
            None => reading.push(&sourced.record, sourced.payload, name, sourced.source),
        }
        let records = reading.records;
        if records.is_multiple_of(1 << 16) {
            line.show(|| format!("reading {records} events"));
        }
        true
    });
    reading.finish();
    drop(line);
    if reading.records == 0
        && let Some(refused) = merge.damage().refused.first()
    {
        anyhow::bail!("{refused}");
    }
    if reading.records > 0 {
        check_damage(directory, merge.damage())?;
    }
    let statistics = reading.joiner.statistics();
    let mut explanation = reading.explanation(&reader, subject, &statistics, merge.damage());
    if rung == Some(BoundarySource::ProcOnly) {
        reading.attribute_samples(&mut explanation, &statistics);
    }
    reading.complete(&mut explanation, &reader, &statistics);
    if let Some(hosts) = &hosts {
        explanation.hosts = hosts.report();
        explanation.warnings.extend(hosts.warnings());
    }
    if view.is_server_side(&reader) {
        from_sockets::apply(&mut explanation, &statistics, &reading.watched);
    } else if reader.rung().is_some() {
        explanation.percentiles = percentiles::shares(&reading.folds.all);
    }
    if statistics.requests == 0 {
        let why = nothing::why(&statistics, reader.rung().unwrap_or("client only"));
        // What is missing may just not be readable, or could not be looked at.
        let told = why.into_iter().chain(reading.came(&reader)).chain(unreadable(merge.damage())).chain(notes(&reader));
        let what = told.collect::<Vec<_>>().join("; ");
        return Err(anyhow::anyhow!("{what}"))
            .with_context(|| format!("nothing to explain in {}", directory.display()));
    }
    let Reading { spans, folds, .. } = reading;
    if folds.contexts.dropped > 0 {
        let dropped = folds.contexts.dropped;
        explanation.warnings.push(format!(
            "{dropped} calls that may name a trace were too many to be kept; their requests form traces of their own"
        ));
    }
    let sample = folds.chooser.map(|chooser| chooser.finish(spans, view.is_server_side(&reader)));
    Ok(WithSpans { explanation, sample, beside: folds.laying.map(Laying::finish) })
}

/// A run while it is read.
struct Reading {
    joiner: Joiner,
    folds: Folds,
    watched: Watched,
    server_side: ServerSide,
    wakeups: WakeupCount,
    remarks: Remarks,
    records: u64,
    /// What the recording's times are by the real clock.
    spans: RealTime,
    /// Events at the server for all requests.
    events: u64,
    /// Whether requests are those that the server's sockets tell: what a client says beside is not looked at.
    is_server_side: bool,
}

impl Reading {
    fn new(reader: &RunReader, grouping: Grouping, view: &View, rung: Option<BoundarySource>) -> Self {
        let mut joiner = view.joiner(reader);
        if rung.is_some_and(BoundarySource::misses_arrivals) {
            joiner.supply_arrivals();
        }
        let chooser = view.sampled.then(Chooser::default);
        let laying = view.beside.clone().map(Laying::new);
        let moves = MoveFold::new(reader, &view.cluster, view.is_server_side(reader));
        Self {
            joiner,
            folds: Folds { chooser, laying, ..Folds::new(grouping, Objectives::new(view), moves) },
            watched: Watched::default(),
            server_side: ServerSide::new(),
            wakeups: WakeupCount::new(),
            remarks: Remarks::default(),
            records: 0,
            spans: RealTime::default(),
            events: 0,
            is_server_side: view.is_server_side(reader),
        }
    }

    fn push(&mut self, record: &Record, payload: &[Slot], name: Option<&Arc<str>>, source: Source) {
        let Self { joiner, folds, .. } = self;
        if !self.is_server_side {
            folds.course.record(record, payload);
        }
        self.remarks.push(record, name.map(|name| &**name));
        self.spans.push(record);
        folds.clock = self.spans;
        if folds.chooser.is_some() {
            folds.contexts.push(record);
        }
        joiner.push(record, payload, name, &mut |joiner, response| folds.push(joiner, response));
        folds.work.settle(joiner, false);
        self.server_side.push(joiner, source, record, payload);
        self.wakeups.push(joiner, record);
        if let Some(edge_ns) = self.watched.push(record) {
            folds.objectives.edge(edge_ns);
        }
        folds.stacks.push(joiner, record, payload);
        self.records += 1;
    }

    /// After the last record.
    fn finish(&mut self) {
        let Self { joiner, folds, .. } = self;
        joiner.finish(&mut |joiner, response| folds.push(joiner, response));
        folds.objectives.edge(joiner.end_ns());
        folds.work.settle(joiner, true);
        folds.stacks.finish(joiner);
        folds.kept_waiting.finish();
    }

    /// The figures of all responses, their phases, and the server's CPU time.
    fn explanation(
        &mut self,
        reader: &RunReader,
        subject: String,
        statistics: &Statistics,
        damage: &Damage,
    ) -> Explanation {
        let mut explanation = self.folds.explanation(reader, subject, statistics, damage);
        (explanation.phases, explanation.queries) = self.folds.work.report(&self.joiner, statistics.joined);
        let mean_ns = explanation.parts_ns.iter().sum();
        explanation.asked = self.folds.work.questions.report(&self.joiner, statistics.requests, mean_ns);
        let during = statistics.client_ns.unwrap_or_default();
        (explanation.server_cpu, self.events) = self.server_side.within(during, statistics.requests);
        explanation
    }

    /// Divides the server's time by what samples of /proc have shown.
    fn attribute_samples(&self, explanation: &mut Explanation, statistics: &Statistics) {
        let mut all = self.folds.all.all();
        proc_side::attribute(&mut all.parts_ns, &explanation.server_cpu);
        explanation.parts_ns = all.parts_ns;
        explanation.causes = words::causes(&all, self.folds.labels.texts());
        explanation.warnings.extend(self.server_side.sampled_words(statistics.client_ns.unwrap_or_default()));
    }

    /// Sessions that moved meanwhile, in words, for a run without requests: what moves here began elsewhere.
    fn came(&self, reader: &RunReader) -> Option<String> {
        let noted = reader.entries.iter().filter_map(|entry| match entry {
            Entry::Source { monotonic_ns, .. } => Some(*monotonic_ns),
            _ => None,
        });
        let moves = self.folds.moves.within(noted.min().unwrap_or(0), self.joiner.end_ns());
        let words = "moved within the run's time: a response that came from another node began there, and only that \
                     node's recording has its request";
        (moves > 0).then(|| format!("{} {words}", weir_terminal::units::counted(moves as u64, "session")))
    }

    /// Adds wakeups, decisions, and what is to be known of the recording.
    fn complete(&mut self, explanation: &mut Explanation, reader: &RunReader, statistics: &Statistics) {
        let folds = &mut self.folds;
        explanation.wakeups = self.wakeups.report();
        explanation.decisions = phases::decisions(&self.remarks, statistics.client_ns.map_or(0, |(first, _)| first));
        explanation.warnings.extend(phases::decisions_left_out(&self.remarks));
        explanation.moves = folds.moves.report(statistics.client_ns.unwrap_or_default());
        explanation.warnings.extend(folds.moves.warnings());
        crate::watched::add(explanation, statistics, folds.stacks.modes(), recorded_s(reader));
        explanation.warnings.extend(folds.work.warning());
        explanation.warnings.extend(folds.work.questions.warning());
        explanation.warnings.extend(folds.stacks.notes().iter().cloned());
        explanation.observer_cost.events_per_request = self.events as f64 / statistics.requests.max(1) as f64;
    }
}

/// All folds over the responses of a run.
struct Folds {
    classes: Classes,
    by_class: Vec<ResponseFold>,
    all: ResponseFold,
    trend: TrendFold,
    examples: Examples<Example>,
    objectives: Objectives,
    moves: MoveFold,
    labels: Labels,
    participants: Participants,
    course: RunCourse,
    status: BTreeMap<u16, u64>,
    /// Response times of those with a status below 400.
    succeeded: ResponseFold,
    sums: Option<(f64, f64, f64)>,
    stages: StageSums,
    first_ns: u64,
    pieces: Vec<Piece>,
    work: WorkFolds,
    stacks: StackSection,
    chooser: Option<Chooser>,
    contexts: Contexts,
    laying: Option<Laying>,
    clock: RealTime,
    kept_waiting: KeptWaiting,
}

/// Sums over joined responses, by where they were.
#[derive(Debug, Default)]
struct StageSums {
    count: u64,
    ns: [u64; 3],
}

impl StageSums {
    fn push(&mut self, response: &Response<'_>) {
        let Some(server) = response.server else { return };
        let (from_ns, to_ns) = (response.request.intended_ns, response.request.done_ns);
        // A response may be sent by the server after the client has all that it wanted of it.
        let picked_ns = server.picked_ns.clamp(from_ns, to_ns.max(from_ns));
        let sent_ns = server.sent_ns.clamp(picked_ns, to_ns.max(picked_ns));
        self.count += 1;
        let each = [picked_ns - from_ns, sent_ns - picked_ns, to_ns.saturating_sub(sent_ns)];
        self.ns.iter_mut().zip(each).for_each(|(sum, ns)| *sum += ns);
    }

    fn means(&self) -> Option<Stages> {
        let [until_pick_up, at_server, until_client] = self.ns.map(|sum| sum as f64 / self.count.max(1) as f64);
        (self.count > 0).then_some(Stages { until_pick_up, at_server, until_client })
    }
}

impl Folds {
    fn new(grouping: Grouping, objectives: Objectives, moves: MoveFold) -> Self {
        Self {
            classes: Classes::new(grouping, MOST_CLASSES),
            by_class: Vec::new(),
            all: ResponseFold::new(),
            trend: TrendFold::default(),
            examples: Examples::new(EXAMPLES, 1),
            objectives,
            moves,
            labels: Labels::new(),
            participants: Participants::new(),
            course: RunCourse::default(),
            status: BTreeMap::new(),
            succeeded: ResponseFold::new(),
            sums: None,
            stages: StageSums::default(),
            first_ns: 0,
            pieces: Vec::new(),
            work: WorkFolds::default(),
            stacks: StackSection::new(),
            chooser: None,
            contexts: Contexts::default(),
            laying: None,
            clock: RealTime::default(),
            kept_waiting: KeptWaiting::default(),
        }
    }

    fn push(&mut self, joiner: &Joiner, response: &Response<'_>) {
        self.objectives.push(response);
        self.moves.push(response);
        if response.unjoinable == Some(Unjoinable::Edge) {
            return; // Its time is not known, only that it took at least so long.
        }
        let time_ns = response.time_ns();
        let mut pieces = std::mem::take(&mut self.pieces);
        pieces_of(joiner, &mut self.labels, response, &mut pieces);
        let labels = &mut self.labels;
        self.participants.push(response.steps, |detail, at_ns| labels.of(joiner, detail, at_ns));
        self.work.push(response);
        self.stages.push(response);
        self.course.push(response);
        let sum: u64 = pieces.iter().map(|piece| piece.ns).sum();
        let ratio = if time_ns == 0 { 1.0 } else { sum as f64 / time_ns as f64 };
        let (least, total, most) = self.sums.unwrap_or((ratio, 0.0, ratio));
        self.sums = Some((least.min(ratio), total + ratio, most.max(ratio)));
        let status = response.request.status;
        // 0: from the server's sockets no status is known.
        if status != 0 {
            *self.status.entry(status).or_default() += 1;
        }
        if (1..400).contains(&status) {
            self.succeeded.push(time_ns, &[]);
        }
        // An error page counts as another transaction than the page: it is fast, and would hide among its responses.
        let class = match status {
            0 | 200..400 => self.classes.number(response.name),
            _ => self.classes.number_with(response.name, &format!(" [{status}]")),
        } as usize;
        if class >= self.by_class.len() {
            self.by_class.resize_with(class + 1, ResponseFold::new);
        }
        self.by_class[class].push(time_ns, &pieces);
        self.all.push(time_ns, &pieces);
        self.stacks.response(class as u32, response);
        let labels = &mut self.labels;
        self.kept_waiting.push(class as u32, response, |detail, at_ns| labels.of(joiner, detail, at_ns));
        self.trend.push(response.request.done_ns, time_ns as f64);
        if self.first_ns == 0 {
            self.first_ns = response.request.intended_ns;
        }
        let first_ns = self.first_ns;
        let request = response.request;
        let id = id_of(response);
        self.examples.push(time_ns, id, || {
            let cpus = lanes::on_cpus(joiner, request.intended_ns, request.done_ns);
            let holders = lanes::of_holders(joiner, response.steps, request.intended_ns);
            Example { cpus, holders, ..example(joiner, response, first_ns) }
        });
        if let Some(chooser) = &mut self.chooser {
            let within = self.contexts.take(response.server).or(response.trace);
            let times = (time_ns, request.intended_ns);
            chooser.push(times, id, within, || example(joiner, response, first_ns));
        }
        if let Some(laying) = &mut self.laying {
            laying.push(response, self.clock);
        }
        self.pieces = pieces;
    }

    /// The causes, each with whose requests held its responses up, or were served meanwhile.
    fn causes(&self, all: &Profile, count: u64) -> Vec<Cause> {
        let mut causes = words::causes(all, self.labels.texts());
        self.kept_waiting.name(&mut causes, count, self.classes.names());
        words::name_requests(&mut causes, self.classes.names(), &self.by_class);
        causes
    }

    /// The share of the requests that were answered with a status below 400; `None` where no status is known.
    fn success_fraction(&self, statistics: &Statistics) -> Option<f64> {
        let failed: u64 = statistics.failed.iter().sum();
        let answered: u64 = self.status.values().sum();
        let succeeded: u64 = self.status.range(..400).map(|(_, count)| count).sum();
        (answered + failed > 0).then(|| succeeded as f64 / (answered + failed) as f64)
    }

    /// The sum of the parts of each response over its time.
    fn sum_of_parts(&self) -> Ratio {
        let (min, total, max) = self.sums.unwrap_or((1.0, 1.0, 1.0));
        Ratio { min, mean: total / self.all.count().max(1) as f64, max }
    }

    fn explanation(
        &mut self,
        reader: &RunReader,
        subject: String,
        statistics: &Statistics,
        damage: &Damage,
    ) -> Explanation {
        let (all, median) = (self.all.all(), self.all.median());
        let (slow, rest) = (self.all.slowest(SLOW), self.all.rest(SLOW));
        let duration_s = statistics.client_ns.map_or(0.0, |(first, last)| last.saturating_sub(first) as f64 / 1e9);
        let count = self.all.count();
        let (processes, waiting) = self.participants.report(self.labels.texts(), count, all.response_ns);
        let causes = self.causes(&all, count);
        let examples = examples(&mut self.examples, self.all.times().value_at_quantile(0.5));
        Explanation {
            version: weir_terminal::VERSION.to_owned(),
            subject,
            run: reader.directory().display().to_string(),
            boundary: BOUNDARY.to_owned(),
            host: host(reader),
            duration_s,
            requests: statistics.requests,
            rate_per_s: if duration_s > 0.0 { statistics.requests as f64 / duration_s } else { 0.0 },
            bytes: statistics.bytes,
            errors: failures(statistics),
            status: self.status.iter().map(|(code, count)| (code.to_string(), *count)).collect(),
            dropped: statistics.dropped,
            retried: statistics.retried,
            response_ns: Summary::of(self.all.times()),
            success_fraction: self.success_fraction(statistics),
            success_response_ns: Summary::of(self.succeeded.times()),
            joined_fraction: statistics.joined as f64 / statistics.requests.max(1) as f64,
            unjoinable: unjoinable(statistics),
            rung: reader.rung().unwrap_or("client only").to_owned(),
            sum_of_parts_over_response: self.sum_of_parts(),
            noise_floor: self.trend.noise(),
            stages_ns: self.stages.means(),
            observer_cost: observer(reader),
            server_cpu: ServerCpu::default(),
            parts_ns: all.parts_ns,
            median_parts_ns: median.parts_ns,
            slow_parts_ns: slow.parts_ns,
            median_response_ns: median.response_ns,
            percentiles: Vec::new(),
            slow_response_ns: slow.response_ns,
            run_parts_ns: BTreeMap::new(),
            not_observed_why: BTreeMap::new(),
            not_observed: Part::NOT_OBSERVED.iter().map(|&name| name.to_owned()).collect(),
            causes,
            slow_causes: words::slow_causes(&slow, &rest, self.labels.texts()),
            transactions: transactions(self.classes.names(), &self.by_class),
            exchanges: BTreeMap::new(),
            long_lived: Vec::new(),
            objectives: self.objectives.results(statistics),
            phases: Vec::new(),
            processes,
            waiting,
            holders: self.kept_waiting.report(self.labels.texts(), self.classes.names(), count, all.response_ns),
            course: self.course.report(self.first_ns),
            queries: Vec::new(),
            asked: Vec::new(),
            decisions: Vec::new(),
            moves: None,
            hosts: Vec::new(),
            stacks: self.stacks.stacks(self.classes.names()),
            wakeups: Wakeups::default(),
            examples,
            warnings: warnings(reader, statistics, damage, &self.status),
        }
    }
}

pub(crate) fn example(joiner: &Joiner, response: &Response<'_>, first_ns: u64) -> Example {
    let begin_ns = response.request.intended_ns;
    let mut steps: Vec<ExampleStep> = Vec::new();
    for step in response.steps {
        let task = if step.pid == 0 { String::new() } else { label(joiner, Detail::Task(step.pid), step.from_ns) };
        let who = label(joiner, step.detail, step.from_ns);
        let ns = step.to_ns - step.from_ns;
        let (full, overfull) = (steps.len() >= MOST_STEPS, steps.len() >= 2 * MOST_STEPS);
        match steps.last_mut() {
            // Neighbours that differ in nothing are one; where there are too many, those of the same part are.
            Some(last) if last.part == step.part.name() && (full || (last.task == task && last.who == who)) => {
                last.ns += ns;
            }
            _ if overfull => break,
            _ => {
                let part = step.part.name().to_owned();
                steps.push(ExampleStep { part, from_ns: step.from_ns - begin_ns, ns, task, who });
            }
        }
    }
    Example {
        sort: String::new(),
        name: response.name.to_owned(),
        status: response.request.status,
        response_ns: response.time_ns(),
        at_ns: begin_ns.saturating_sub(first_ns),
        steps,
        cpus: Vec::new(),
        holders: Vec::new(),
    }
}

fn examples(kept: &mut Examples<Example>, typical_ns: u64) -> Vec<Example> {
    let typical = kept.near(typical_ns).into_iter().map(|example| Example { sort: "typical".to_owned(), ..example });
    let slow = kept.slowest().cloned().map(|example| Example { sort: "slow".to_owned(), ..example });
    typical.chain(slow).collect()
}

fn transactions(names: &[String], folds: &[ResponseFold]) -> Vec<Transaction> {
    let mut transactions: Vec<Transaction> = names
        .iter()
        .zip(folds)
        .map(|(name, fold)| Transaction {
            name: name.clone(),
            count: fold.count(),
            response_ns: Summary::of(fold.times()),
            parts_ns: fold.all().parts_ns,
            slow_parts_ns: fold.slowest(SLOW).parts_ns,
        })
        .collect();
    transactions.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.name.cmp(&b.name)));
    transactions
}

fn failures(statistics: &Statistics) -> BTreeMap<String, u64> {
    let counts = Outcome::ALL.iter().map(|kind| (kind.name().to_owned(), statistics.failed[*kind as usize]));
    counts.filter(|(_, count)| *count > 0).collect()
}

fn unjoinable(statistics: &Statistics) -> BTreeMap<String, u64> {
    let counts = Unjoinable::ALL.iter().map(|why| (why.name().to_owned(), statistics.unjoinable[*why as usize]));
    counts.filter(|(_, count)| *count > 0).collect()
}

fn observer(reader: &RunReader) -> Observer {
    let cost = reader.cost(Source::Kernel);
    let recorded_s = recorded_s(reader);
    Observer {
        events: cost.events,
        bytes: cost.bytes,
        lost: cost.lost,
        cpu_seconds: cost.cpu_seconds,
        cpu_share: if recorded_s > 0.0 { cost.cpu_seconds / recorded_s } else { 0.0 },
        events_per_request: 0.0,
        sources: Vec::new(),
    }
}

/// How long the kernel's events were recorded, seconds, as its sources noted.
fn recorded_s(reader: &RunReader) -> f64 {
    let mut begun = HashMap::new();
    let mut sum_ns = 0;
    for entry in &reader.entries {
        match entry {
            Entry::Source { source, pid, monotonic_ns, .. } if source == Source::Kernel.name() => {
                begun.insert(*pid, *monotonic_ns);
            }
            Entry::End { source, pid, monotonic_ns, .. } if source == Source::Kernel.name() => {
                sum_ns += begun.remove(pid).map_or(0, |begin| monotonic_ns.saturating_sub(begin));
            }
            _ => {}
        }
    }
    sum_ns as f64 / 1e9
}

fn host(reader: &RunReader) -> String {
    let host = reader.entries.iter().find_map(|entry| match entry {
        Entry::Source { host, .. } => Some(host),
        _ => None,
    });
    host.map_or_else(String::new, |host| format!("{}, Linux {}, {} CPUs", host.name, host.kernel, host.cpus))
}

/// Refuses a run of which most could not be read: what is left is no picture of what happened.
fn check_damage(directory: &Path, damage: &Damage) -> anyhow::Result<()> {
    let bytes = segment_bytes(directory);
    if damage.bytes > bytes / 2 {
        anyhow::bail!(
            "{}: {} of the {bytes} bytes of its segments could not be read, so that what is left is no picture of what happened; they were cut off or changed after they were written",
            directory.display(),
            damage.bytes
        );
    }
    Ok(())
}

/// The size of a run's segments.
fn segment_bytes(directory: &Path) -> u64 {
    let files = std::fs::read_dir(directory.join("segments")).into_iter().flatten().flatten();
    files.filter_map(|file| file.metadata().ok()).map(|about| about.len()).sum()
}

/// What could not be read of a run, and why that may be.
fn unreadable(damage: &Damage) -> Vec<String> {
    let mut told = Vec::new();
    let Damage { bytes, cut_segments, .. } = damage;
    if *cut_segments > 0 {
        let (segments, end) = if *cut_segments == 1 { ("segment", "ends") } else { ("segments", "end") };
        told.push(format!(
            "{cut_segments} {segments} {end} in the middle of a block: a source was killed, or the disk was full"
        ));
    }
    if *bytes > 0 {
        told.push(format!(
            "{bytes} bytes of the segments could not be read: they were cut off or changed after they were written"
        ));
    }
    told.extend(damage.refused.iter().cloned());
    told
}

/// What the sources have remarked.
fn notes(reader: &RunReader) -> impl Iterator<Item = String> {
    let of = |entry: &Entry| match entry {
        Entry::End { notes, .. } => notes.clone(),
        _ => Vec::new(),
    };
    reader.entries.iter().flat_map(of)
}

/// Lines of the manifest that told nothing.
fn passed_over(reader: &RunReader) -> impl Iterator<Item = String> {
    let lines = |count| if count == 1 { "line" } else { "lines" };
    let (cut, later) = (reader.manifest_cut, reader.manifest_later);
    let was_cut = format!(
        "{cut} {} of manifest.jsonl cut short: a source was killed or the disk was full, and what it noted is missing",
        lines(cut)
    );
    let is_later = format!(
        "{later} {} of manifest.jsonl not known to this version: a later weir recorded the run, and may say more of it",
        lines(later)
    );
    [(cut, was_cut), (later, is_later)].into_iter().filter(|(count, _)| *count > 0).map(|(_, words)| words)
}

fn warnings(reader: &RunReader, statistics: &Statistics, damage: &Damage, status: &BTreeMap<u16, u64>) -> Vec<String> {
    let mut warnings: Vec<String> = notes(reader).collect();
    warnings.extend(unfinished(reader));
    warnings.extend(passed_over(reader));
    if reader.rung().is_none() {
        warnings.push(
            "the run holds no kernel events: nothing of the server's side is known; `weir record --run DIR` writes them"
                .to_owned(),
        );
    }
    let refused: Vec<(u16, u64)> =
        status.iter().filter(|(code, _)| !(200..400).contains(*code)).map(|(&code, &count)| (code, count)).collect();
    let refusals: u64 = refused.iter().map(|(_, count)| count).sum();
    if refusals * 100 > statistics.requests {
        let list: Vec<String> = refused.iter().map(|(code, count)| format!("{count} of {code}")).collect();
        warnings.push(format!("{refusals} of {} responses are error pages: {}", statistics.requests, list.join(", ")));
    }
    if statistics.dropped > 0 {
        warnings.push(format!(
            "{} arrivals found the generator's queue full and were never sent: the percentiles lack them",
            statistics.dropped
        ));
    }
    if damage.lost > 0 {
        warnings.push(format!("{} events were lost: the parts of some responses are unattributed", damage.lost));
    }
    warnings.extend(unreadable(damage));
    let http2 = statistics.unjoinable[Unjoinable::Http2 as usize];
    // From the server's side they are reported as exchanges.
    if http2 > 0 && statistics.exchanges.http2 == 0 {
        warnings.push(format!(
            "{http2} requests went over HTTP/2 and their streams could not be followed at the server, so where their time went there is unattributed: it takes another TLS library than OpenSSL 3.0, or io_uring, or the rung of the recording follows no frames; the same load over HTTP/1.1 is explained"
        ));
    }
    let (told, unknown) = statistics.carried_waits;
    if unknown * 10 > told {
        warnings.push(format!(
            "of {unknown} waits of goroutines for a lock or in a sleep, {told} in all, it is not known for whose request they were (work in the background, or a request that came over a channel): what such a request waited for is told by what its threads did"
        ));
    }
    // Every virtual machine loses a few switches; we warn only if requests could not be joined for it.
    let missed = statistics.unjoinable[Unjoinable::Gap as usize];
    if missed * 1000 > statistics.requests {
        warnings.push(format!(
            "{} task switches are missing from the scheduler's events; {missed} requests could not be joined for it",
            statistics.gaps
        ));
    }
    warnings
}

/// Sources that began and never ended, and clocks that do not belong together.
fn unfinished(reader: &RunReader) -> Vec<String> {
    let mut open: Vec<(&str, u32)> = Vec::new();
    let mut boots: Vec<&str> = Vec::new();
    for entry in &reader.entries {
        match entry {
            Entry::Source { source, pid, host, .. } => {
                open.push((source.as_str(), *pid));
                if !boots.contains(&host.boot_id.as_str()) {
                    boots.push(&host.boot_id);
                }
            }
            Entry::End { source, pid, .. } => open.retain(|one| *one != (source.as_str(), *pid)),
            _ => {}
        }
    }
    let mut warnings: Vec<String> = open
        .into_iter()
        .map(|(source, pid)| {
            format!("the {source} events of process {pid} have no end: it runs still, was killed, or its disk was full; its cost is not known and the last events may be missing")
        })
        .collect();
    if boots.len() > 1 {
        warnings
            .push("the run was continued after a restart or on another host: its times do not fit together".to_owned());
    }
    warnings
}
