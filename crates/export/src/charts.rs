//! A run as tracks of slices, for viewers of time lines: requests with their parts, CPUs, threads, objects.

use crate::error::ExportError;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io;
use weir_query::{Cell, Queries};

/// Requests at a time that get a track of their own; further ones share the last one.
const MOST_LANES: usize = 4096;
/// Tracks of objects; what objects beyond them do is counted only.
const MOST_OBJECTS: usize = 1 << 14;
/// Arrows of interactions have numbers from here on, those of requests below.
const FIRST_INTERACTION: u64 = 1 << 40;

/// A track: a group of tracks, or a line within one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Track {
    /// All requests.
    Requests,
    /// Requests that follow each other.
    Lane(u32),
    /// All CPUs.
    Cpus,
    /// A CPU.
    Cpu(u32),
    /// A process.
    Process(u32),
    /// A thread of a process.
    Thread {
        /// Its process.
        process: u32,
        /// Its own number.
        pid: u32,
    },
    /// All objects.
    Objects,
    /// What an object did: it has several tracks if it does several things at a time.
    Object(u32),
    /// What a thread did for requests.
    Serving {
        /// Its process.
        process: u32,
        /// Its own number.
        pid: u32,
    },
}

impl Track {
    /// The group that it belongs to.
    #[must_use]
    pub fn group(self) -> Option<Self> {
        match self {
            Self::Lane(_) => Some(Self::Requests),
            Self::Object(_) => Some(Self::Objects),
            Self::Cpu(_) => Some(Self::Cpus),
            Self::Thread { process, .. } | Self::Serving { process, .. } => Some(Self::Process(process)),
            Self::Requests | Self::Cpus | Self::Objects | Self::Process(_) => None,
        }
    }
}

/// A stretch of time on a track.
#[derive(Debug, Clone, Copy)]
pub struct Slice<'a> {
    /// Its track.
    pub track: Track,
    /// What it is called.
    pub name: &'a str,
    /// What sort of thing it is.
    pub category: &'static str,
    /// Its begin, CLOCK_MONOTONIC in nanoseconds.
    pub from_ns: u64,
    /// Its end.
    pub to_ns: u64,
    /// What else is known of it.
    pub arguments: &'a [(&'static str, Cell<'a>)],
    /// The request or interaction that it is a step of, by which arrows are drawn; 0 for none.
    pub flow: u64,
    /// Whether it goes on from here to others.
    pub is_first: bool,
}

/// Takes a run as tracks and slices.
pub trait Chart {
    /// The recording's first time by CLOCK_MONOTONIC and by the real clock, nanoseconds; before all else.
    ///
    /// # Errors
    /// The output cannot be written.
    fn clocks(&mut self, monotonic_ns: u64, unix_ns: u64) -> io::Result<()>;
    /// A track, before its first slice; its group comes before it.
    ///
    /// # Errors
    /// The output cannot be written.
    fn track(&mut self, track: Track, name: &str) -> io::Result<()>;
    /// A slice begins; those that begin and end before it does lie within it.
    ///
    /// # Errors
    /// The output cannot be written.
    fn begin(&mut self, slice: &Slice<'_>) -> io::Result<()>;
    /// The slice that began last on its track and has not ended does.
    ///
    /// # Errors
    /// The output cannot be written.
    fn end(&mut self, slice: &Slice<'_>) -> io::Result<()>;
}

/// What was told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Charted {
    /// Requests.
    pub requests: u64,
    /// Their parts.
    pub parts: u64,
    /// Turns on CPUs.
    pub turns: u64,
    /// Waits of threads.
    pub waits: u64,
    /// Interactions of objects, but for those of tasks with CPUs, which are the turns.
    pub interactions: u64,
    /// Interactions with objects beyond those that have tracks.
    pub left_out: u64,
    /// Requests beyond the most at a time: they share a track, and may be drawn over each other.
    pub crowded: u64,
}

/// Tells a run to a chart. `wrong` puts an error of the output into words.
pub(crate) fn tell(
    queries: &mut Queries,
    chart: &mut dyn Chart,
    wrong: &dyn Fn(io::Error) -> ExportError,
) -> Result<Charted, ExportError> {
    let mut told = Charted::default();
    let begin = queries.rows("SELECT begin_monotonic_ns, begin_unix_ns FROM run")?;
    let by = |column: usize| begin.first().and_then(|row| row.get(column)?.parse().ok()).unwrap_or(0);
    let begin_ns = by(0);
    chart.clocks(begin_ns, by(1)).map_err(wrong)?;
    let processes = tracks(queries, chart).map_err(|error| error.or(wrong))?;
    turns(queries, chart, &processes, begin_ns, &mut told).map_err(|error| error.or(wrong))?;
    waits(queries, chart, &processes, begin_ns, &mut told).map_err(|error| error.or(wrong))?;
    requests(queries, chart, &processes, begin_ns, &mut told).map_err(|error| error.or(wrong))?;
    interactions(queries, chart, &processes, begin_ns, &mut told).map_err(|error| error.or(wrong))?;
    Ok(told)
}

/// What went wrong, before the output's errors are in words.
enum Wrong {
    Query(ExportError),
    Output(io::Error),
}

impl Wrong {
    fn or(self, words: &dyn Fn(io::Error) -> ExportError) -> ExportError {
        match self {
            Self::Query(error) => error,
            Self::Output(error) => words(error),
        }
    }
}

impl From<weir_query::QueryError> for Wrong {
    fn from(error: weir_query::QueryError) -> Self {
        Self::Query(error.into())
    }
}

/// Asks, and hands each row over until the output fails.
fn each(queries: &mut Queries, sql: &str, mut take: impl FnMut(&[Cell<'_>]) -> io::Result<()>) -> Result<(), Wrong> {
    let mut outcome = Ok(());
    queries.ask(sql, &mut |_| {}, &mut |row| {
        outcome = take(row);
        outcome.is_ok()
    })?;
    outcome.map_err(Wrong::Output)
}

fn integer(cell: Option<&Cell<'_>>) -> Option<i64> {
    match cell {
        Some(Cell::Integer(number)) => Some(*number),
        _ => None,
    }
}

fn number(cell: Option<&Cell<'_>>) -> u32 {
    integer(cell).and_then(|number| u32::try_from(number).ok()).unwrap_or(0)
}

fn words<'a>(cell: Option<&Cell<'a>>) -> &'a str {
    match cell {
        Some(Cell::Text(text)) => text,
        _ => "",
    }
}

/// Begin and end of a row, by the recording's clock.
fn times(at: Option<&Cell<'_>>, duration: Option<&Cell<'_>>, begin_ns: u64) -> (u64, u64) {
    let from_ns = begin_ns.saturating_add_signed(integer(at).unwrap_or(0));
    (from_ns, from_ns.saturating_add_signed(integer(duration).unwrap_or(0)))
}

/// The tracks of processes and threads; the processes of tasks.
fn tracks(queries: &mut Queries, chart: &mut dyn Chart) -> Result<BTreeMap<u32, u32>, Wrong> {
    let mut processes = BTreeMap::new();
    let mut last = None;
    let sql = "SELECT tasks.pid, coalesce(tasks.tgid, tasks.pid) AS own, coalesce(leaders.process, tasks.process, ''),
            coalesce(tasks.process, '')
        FROM tasks LEFT JOIN tasks AS leaders ON leaders.pid = tasks.tgid
        ORDER BY tasks.traced DESC, own, tasks.pid";
    each(queries, sql, |row| {
        let (pid, process) = (number(row.first()), number(row.get(1)));
        if last != Some(process) {
            chart.track(Track::Process(process), words(row.get(2)))?;
            last = Some(process);
        }
        chart.track(Track::Thread { process, pid }, words(row.get(3)))?;
        processes.insert(pid, process);
        Ok(())
    })?;
    Ok(processes)
}

fn turns(
    queries: &mut Queries,
    chart: &mut dyn Chart,
    processes: &BTreeMap<u32, u32>,
    begin_ns: u64,
    told: &mut Charted,
) -> Result<(), Wrong> {
    let mut cpus = 0;
    each(queries, "SELECT at_ns, duration_ns, cpu, pid, coalesce(process, '') FROM slices ORDER BY at_ns", |row| {
        let (from_ns, to_ns) = times(row.first(), row.get(1), begin_ns);
        let (cpu, pid) = (number(row.get(2)), number(row.get(3)));
        if cpus == 0 {
            chart.track(Track::Cpus, "CPUs")?;
        }
        while cpus <= cpu {
            chart.track(Track::Cpu(cpus), &format!("CPU {cpus}"))?;
            cpus += 1;
        }
        let name = words(row.get(4));
        let arguments = [("pid", Cell::Integer(pid.into()))];
        let slice = Slice {
            track: Track::Cpu(cpu),
            name,
            category: "cpu",
            from_ns,
            to_ns,
            arguments: &arguments,
            flow: 0,
            is_first: false,
        };
        whole(chart, &slice)?;
        told.turns += 1;
        let Some(process) = processes.get(&pid) else { return Ok(()) };
        let arguments = [("cpu", Cell::Integer(cpu.into()))];
        let track = Track::Thread { process: *process, pid };
        whole(chart, &Slice { track, name: "running", category: "task", arguments: &arguments, ..slice })
    })
}

fn whole(chart: &mut dyn Chart, slice: &Slice<'_>) -> io::Result<()> {
    chart.begin(slice)?;
    chart.end(slice)
}

fn waits(
    queries: &mut Queries,
    chart: &mut dyn Chart,
    processes: &BTreeMap<u32, u32>,
    begin_ns: u64,
    told: &mut Charted,
) -> Result<(), Wrong> {
    let sql =
        "SELECT at_ns, duration_ns, pid, cause, woken_by, coalesce(woken_by_process, '') FROM waits ORDER BY at_ns";
    each(queries, sql, |row| {
        let (from_ns, to_ns) = times(row.first(), row.get(1), begin_ns);
        let pid = number(row.get(2));
        let Some(process) = processes.get(&pid) else { return Ok(()) };
        let cause = words(row.get(3));
        let name = if cause == "cpu" { "waits for a CPU".to_owned() } else { format!("waits: {cause}") };
        let woken_by = row.get(4).copied().unwrap_or(Cell::Null);
        let arguments = [("woken_by", woken_by), ("woken_by_process", Cell::Text(words(row.get(5))))];
        let track = Track::Thread { process: *process, pid };
        told.waits += 1;
        let arguments = &arguments;
        whole(
            chart,
            &Slice { track, name: &name, category: "wait", from_ns, to_ns, arguments, flow: 0, is_first: false },
        )
    })
}

/// Tracks on which requests follow each other.
#[derive(Debug, Default)]
struct Lanes {
    /// Lanes without a request, the lowest first.
    free: BinaryHeap<Reverse<u32>>,
    /// Ends of requests, the earliest first, with their lanes.
    busy: BinaryHeap<Reverse<(u64, u32)>>,
    lanes: u32,
}

impl Lanes {
    /// The lane of a request that begins now, and whether it is a new one; `None` if there are too many.
    fn take(&mut self, from_ns: u64, to_ns: u64) -> Option<(u32, bool)> {
        while let Some(Reverse((_, lane))) = self.busy.peek().copied().filter(|Reverse((end_ns, _))| *end_ns <= from_ns)
        {
            self.busy.pop();
            self.free.push(Reverse(lane));
        }
        let (lane, is_new) = match self.free.pop() {
            Some(Reverse(lane)) => (lane, false),
            None if self.lanes as usize >= MOST_LANES => return None,
            None => {
                self.lanes += 1;
                (self.lanes - 1, true)
            }
        };
        self.busy.push(Reverse((to_ns, lane)));
        Some((lane, is_new))
    }
}

/// A request whose parts are told.
struct Open {
    id: i64,
    name: String,
    status: Option<i64>,
    track: Track,
    from_ns: u64,
    to_ns: u64,
}

impl Open {
    fn slice<'a>(&'a self, arguments: &'a [(&'static str, Cell<'a>)]) -> Slice<'a> {
        Slice {
            track: self.track,
            name: &self.name,
            category: "request",
            from_ns: self.from_ns,
            to_ns: self.to_ns,
            arguments,
            flow: self.id as u64,
            is_first: true,
        }
    }

    fn begin(&self, chart: &mut dyn Chart) -> io::Result<()> {
        let status = self.status.map_or(Cell::Null, Cell::Integer);
        chart.begin(&self.slice(&[("request", Cell::Integer(self.id)), ("status", status)]))
    }
}

fn requests(
    queries: &mut Queries,
    chart: &mut dyn Chart,
    processes: &BTreeMap<u32, u32>,
    begin_ns: u64,
    told: &mut Charted,
) -> Result<(), Wrong> {
    let (mut lanes, mut open, mut serving) = (Lanes::default(), None::<Open>, std::collections::BTreeSet::new());
    let sql = "SELECT requests.id, requests.at_ns, requests.response_ns, requests.name, requests.status,
            parts.at_ns, parts.duration_ns, parts.part, parts.culprit, parts.pid
        FROM requests JOIN parts ON parts.request_id = requests.id
        ORDER BY requests.at_ns, requests.id, parts.at_ns, parts.duration_ns";
    each(queries, sql, |row| {
        let id = integer(row.first()).unwrap_or(0);
        if open.as_ref().is_none_or(|open| open.id != id) {
            if let Some(before) = open.take() {
                chart.end(&before.slice(&[]))?;
            }
            let (from_ns, to_ns) = times(row.get(1), row.get(2), begin_ns);
            if told.requests == 0 {
                chart.track(Track::Requests, "requests")?;
            }
            let taken = lanes.take(from_ns, to_ns);
            told.crowded += u64::from(taken.is_none());
            let (lane, is_new) = taken.unwrap_or((MOST_LANES as u32 - 1, false));
            let track = Track::Lane(lane);
            if is_new {
                chart.track(track, &format!("requests {}", lane + 1))?;
            }
            told.requests += 1;
            let name = words(row.get(3)).to_owned();
            let request = Open { id, name, status: integer(row.get(4)), track, from_ns, to_ns };
            request.begin(chart)?;
            open = Some(request);
        }
        let Some(request) = &open else { return Ok(()) };
        let (from_ns, to_ns) = times(row.get(5), row.get(6), begin_ns);
        let (part, pid) = (words(row.get(7)), number(row.get(9)));
        let arguments = [("culprit", Cell::Text(words(row.get(8)))), ("pid", Cell::Integer(pid.into()))];
        let (track, arguments) = (request.track, &arguments);
        whole(
            chart,
            &Slice { track, name: part, category: "part", from_ns, to_ns, arguments, flow: 0, is_first: false },
        )?;
        told.parts += 1;
        let Some(process) = processes.get(&pid).filter(|_| part == "run") else { return Ok(()) };
        let track = Track::Serving { process: *process, pid };
        if serving.insert(pid) {
            chart.track(track, &format!("{pid} serving"))?;
        }
        let (name, flow) = (request.name.as_str(), id as u64);
        whole(chart, &Slice { track, name, category: "serving", from_ns, to_ns, arguments: &[], flow, is_first: false })
    })?;
    if let Some(before) = open {
        chart.end(&before.slice(&[])).map_err(Wrong::Output)?;
    }
    Ok(())
}

/// The tracks of objects.
#[derive(Debug, Default)]
struct Objects {
    /// By class and name: its lanes, and the tracks of these.
    lanes: BTreeMap<(String, String), (Lanes, Vec<u32>)>,
    tracks: u32,
}

impl Objects {
    /// The track on which an object does something in this time, made if there is none; none if there are too many.
    fn track(
        &mut self,
        chart: &mut dyn Chart,
        (class, name): (&str, &str),
        (from_ns, to_ns): (u64, u64),
    ) -> io::Result<Option<Track>> {
        let (lanes, tracks) = self.lanes.entry((class.to_owned(), name.to_owned())).or_default();
        // What has no length would share its lane with what begins then.
        let Some((lane, _)) = lanes.take(from_ns, to_ns.max(from_ns + 1)) else { return Ok(None) };
        while tracks.len() <= lane as usize {
            if self.tracks as usize >= MOST_OBJECTS {
                return Ok(None);
            }
            if self.tracks == 0 {
                chart.track(Track::Objects, "objects")?;
            }
            let title = if class == name { class.to_owned() } else { format!("{class} {name}") };
            chart.track(Track::Object(self.tracks), &title)?;
            tracks.push(self.tracks);
            self.tracks += 1;
        }
        Ok(tracks.get(lane as usize).map(|track| Track::Object(*track)))
    }
}

/// Interactions: on the object's track from the request to the finish, and within it from the accept on, with an arrow
/// from who asked.
fn interactions(
    queries: &mut Queries,
    chart: &mut dyn Chart,
    processes: &BTreeMap<u32, u32>,
    begin_ns: u64,
    told: &mut Charted,
) -> Result<(), Wrong> {
    let mut objects = Objects::default();
    let sql = "SELECT at_ns, coalesce(finished_ns, accepted_ns, requested_ns) - at_ns, interaction,
            requester_class, requester_id, requester, object_class, object, accepted_ns, used_ns
        FROM interactions WHERE pattern <> 'cpu' ORDER BY at_ns, interaction, object_class, object, requester";
    each(queries, sql, |row| {
        let (from_ns, to_ns) = times(row.first(), row.get(1), begin_ns);
        let place = (words(row.get(6)), words(row.get(7)));
        let Some(track) = objects.track(chart, place, (from_ns, to_ns))? else {
            told.left_out += 1;
            return Ok(());
        };
        told.interactions += 1;
        let flow = FIRST_INTERACTION + told.interactions;
        let (interaction, requester) = (words(row.get(2)), words(row.get(5)));
        let pid = number(row.get(4));
        let process = processes.get(&pid).filter(|_| words(row.get(3)) == "task");
        if let Some(process) = process {
            let (track, name) = (Track::Thread { process: *process, pid }, format!("asks: {interaction}"));
            let arguments = [("object", Cell::Text(place.1))];
            let (category, arguments) = ("asks", &arguments);
            let to_ns = from_ns;
            whole(chart, &Slice { track, name: &name, category, from_ns, to_ns, arguments, flow, is_first: true })?;
        }
        let name = format!("{interaction} for {requester}");
        let arguments = [("requester", Cell::Text(requester))];
        let (category, flow) = ("interaction", if process.is_some() { flow } else { 0 });
        let arguments = &arguments;
        let slice = Slice { track, name: &name, category, from_ns, to_ns, arguments, flow, is_first: false };
        chart.begin(&slice)?;
        if integer(row.get(9)).is_some() {
            let (from_ns, to_ns) = times(row.get(8), row.get(9), begin_ns);
            let (name, category, arguments) = ("busy", "busy", &[]);
            whole(chart, &Slice { track, name, category, from_ns, to_ns, arguments, flow: 0, is_first: false })?;
        }
        chart.end(&slice)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_that_overlap_have_lanes_of_their_own_and_lanes_are_used_again() {
        let mut lanes = Lanes::default();
        let taken: Vec<_> =
            [(0, 10), (5, 20), (10, 12), (12, 30), (13, 14)].map(|(from, to)| lanes.take(from, to)).into();
        let lane = |lane, is_new| Some((lane, is_new));
        assert_eq!(taken, [lane(0, true), lane(1, true), lane(0, false), lane(0, false), lane(2, true)]);
    }

    #[test]
    fn lanes_have_a_bound() {
        let mut lanes = Lanes::default();
        let taken = (0..MOST_LANES as u64 + 1).filter_map(|at| lanes.take(at, u64::MAX)).count();
        assert_eq!(taken, MOST_LANES);
    }
}
