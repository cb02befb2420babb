//! The latest requests of a run that is still being written, as its client alone knows them.

use std::path::{Path, PathBuf};
use weir_measure::client_phases::{ClientPhases, ClientTimes};
use weir_trace::{OpenRunError, RunReader, Source, read_from};
use weir_wire::client::{ClientRequest, Outcome};

/// Bytes that are read at most, of all streams together: each look costs no more, however long the run is.
const READ_BYTES_MAX: u64 = 8 << 20;
/// Threads of a generator whose records are read.
const STREAMS_MAX: usize = 64;
/// How far before the latest one requests are taken, nanoseconds: records reach the disk each second.
const WINDOW_NS: u64 = 2_000_000_000;

/// Where the time of the latest requests went.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Latest {
    /// Their stretches.
    pub phases: ClientPhases,
    /// From the end of the first of them to that of the last, nanoseconds.
    pub span_ns: u64,
}

/// Reads the ends of the client's streams: the requests that were answered in the last two seconds that are on the disk,
/// or the latest of these.
///
/// # Errors
/// [`OpenRunError`] where the run has nothing yet. What cannot be read of a stream that grows is left out.
pub fn latest(run: &Path) -> Result<Latest, OpenRunError> {
    let reader = RunReader::open(run)?;
    let of_client = |path: &&PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(Source::Client.name()))
    };
    // A stream's latest segment; one that has only begun leaves the others' to speak.
    let ends: Vec<&PathBuf> =
        reader.streams().iter().filter_map(|segments| segments.last()).filter(of_client).take(STREAMS_MAX).collect();
    let each = READ_BYTES_MAX / ends.len().max(1) as u64;
    let mut answered: Vec<ClientTimes> = Vec::new();
    for path in ends {
        end_of(path, each, &mut answered);
    }
    let last_ns = answered.iter().map(|times| times.done_ns).max().unwrap_or(0);
    answered.retain(|times| times.done_ns.saturating_add(WINDOW_NS) >= last_ns);
    let first_ns = answered.iter().map(|times| times.done_ns).min().unwrap_or(0);
    let mut phases = ClientPhases::default();
    answered.into_iter().for_each(|times| phases.push(times));
    Ok(Latest { phases, span_ns: last_ns - first_ns })
}

/// The answered requests in the last bytes of a segment. A block that the beginning cuts is passed over.
fn end_of(path: &Path, bytes: u64, answered: &mut Vec<ClientTimes>) {
    let length = path.metadata().map_or(0, |metadata| metadata.len());
    let Ok(mut reader) = read_from(path, length.saturating_sub(bytes), bytes) else { return };
    while let Ok(Some(block)) = reader.next_block() {
        for (record, slots) in block.iter() {
            let request = ClientRequest::read(&record, slots);
            let Some(request) = request.filter(|one| one.outcome == Outcome::Done && one.sent_ns > 0) else { continue };
            answered.push(ClientTimes {
                intended_ns: request.intended_ns,
                opening_ns: request.opened_connection.then_some(request.started_ns),
                sent_ns: request.sent_ns,
                first_byte_ns: if request.first_byte_ns == 0 { request.done_ns } else { request.first_byte_ns },
                done_ns: request.done_ns,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_trace::{Limits, Run};
    use weir_wire::client::ClientRequest;

    fn request(done_ns: u64, outcome: Outcome) -> ClientRequest {
        ClientRequest {
            connection: 1,
            intended_ns: done_ns - 100,
            started_ns: done_ns - 90,
            sent_ns: done_ns - 70,
            first_byte_ns: done_ns - 30,
            done_ns,
            request_offset: 0,
            request_bytes: 10,
            response_offset: 0,
            response_bytes: 10,
            status: 200,
            name: 0,
            outcome,
            opened_connection: false,
            encrypted: false,
            retried: false,
            http_version: 1,
            stream: 0,
        }
    }

    #[test]
    fn the_latest_requests_of_a_run_that_grows_are_divided() {
        let folder = tempfile::tempdir().expect("a directory");
        assert!(latest(folder.path()).is_err(), "there is nothing");
        let run = Run::create(folder.path()).expect("a run");
        run.begin(Source::Client, "0", Vec::new(), None, None).expect("noted");
        let mut stream = run.stream(Source::Client, 0, Limits::default());
        stream.define(0, "GET /");
        let second_ns = 1_000_000_000;
        for (done_ns, outcome) in [(second_ns, Outcome::Done), (9 * second_ns, Outcome::Done)] {
            let (record, slots) = request(done_ns, outcome).write(0);
            stream.push(record, &slots, Some(0)).expect("written");
        }
        let (record, slots) = request(9 * second_ns + 50, Outcome::TimedOut).write(0);
        stream.push(record, &slots, Some(0)).expect("written");
        stream.flush().expect("on its way");
        // The stream goes on: its segment is not complete.
        let told = latest(folder.path()).expect("a run");
        assert_eq!((told.phases.responses, told.span_ns), (1, 0), "of the last two seconds, answered");
        let means = told.phases.means_ns().expect("one").map(|(_, ns)| ns);
        assert_eq!(means, [30.0, 0.0, 40.0, 30.0]);
    }
}
