//! What orchestrator and workers say to each other.

use crate::carried::{Carried, CarriedError, Reader, carried, put_number};
use crate::counts::OwnSlice;
use crate::run::Made;
use crate::workers::bounds::{PIECE_BYTES_MAX, WORKERS_MAX};
use std::sync::Arc;

/// The longest a clock shows: what is more is none, nanoseconds.
const CLOCK_MAX_NS: u64 = i64::MAX as u64;
/// The most words of a job.
const WORDS_MAX: usize = 4096;

/// What each side says of itself first. This is the same in all versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// The version of what follows: [`crate::workers::PROTOCOL`].
    pub protocol: u32,
    /// The program's version.
    pub version: String,
}

/// A piece of a file that the orchestrator read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePiece {
    /// The file's name, as the options have it.
    pub name: String,
    /// The next bytes of it, at most [`PIECE_BYTES_MAX`].
    pub bytes: Vec<u8>,
}

/// What a worker is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// Which of the workers it is.
    pub worker: u32,
    /// How many there are, 1 to [`WORKERS_MAX`].
    pub workers: u32,
    /// The words of the command line that say how to load.
    pub words: Vec<String>,
    /// The time of a point of the series, nanoseconds.
    pub interval_ns: u64,
    /// The most points.
    pub points_max: u64,
    /// Whether the events of its requests are recorded, and sent before [`FromWorker::Made`].
    pub is_recorded: bool,
}

/// What the orchestrator says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToWorker {
    /// Its version.
    Hello(Hello),
    /// Asks for the time, and shows that it is there.
    Ping {
        /// Counts from 0.
        number: u64,
    },
    /// A piece of a file that the job needs.
    File(Arc<FilePiece>),
    /// What is to be done.
    Job(Box<Job>),
    /// When the run begins.
    Start {
        /// By the worker's CLOCK_MONOTONIC, nanoseconds.
        at_ns: u64,
    },
    /// The user ends the run.
    Stop,
    /// All is said.
    End,
}

/// What a worker says.
#[derive(Debug)]
pub enum FromWorker {
    /// Its version.
    Hello(Hello),
    /// The time.
    Pong {
        /// The number of the ping.
        number: u64,
        /// CLOCK_MONOTONIC, nanoseconds.
        now_ns: u64,
    },
    /// It can begin.
    Ready,
    /// It does not take the job.
    Refused {
        /// Why, with the remedy.
        why: String,
    },
    /// What a loop did in an interval.
    Slice(Box<OwnSlice>),
    /// Its counters: requests, errors, drops, connections, unexpected statuses.
    Progress([u64; 5]),
    /// The next piece of a file of its record; pieces of a file follow each other.
    Record(Box<FilePiece>),
    /// There is no record, or no whole one.
    Unrecorded {
        /// Why.
        why: String,
    },
    /// The whole of its part.
    Made(Box<Made>),
    /// It could not make its part.
    Failed {
        /// Why.
        why: String,
    },
}

/// A message of one side.
pub trait Message: Sized {
    /// Writes its kind and what it holds.
    fn put(&self, to: &mut Vec<u8>);

    /// Reads a message of a kind.
    ///
    /// # Errors
    /// [`CarriedError`], where it is none.
    fn read(kind: u8, bytes: &[u8]) -> Result<Self, CarriedError>;
}

carried!(Hello { protocol, version });
carried!(Made { tally, health, stopped_ns, known_ns, is_stopped, left_out });

impl Carried for FilePiece {
    fn put(&self, to: &mut Vec<u8>) {
        self.name.put(to);
        to.extend_from_slice(&self.bytes);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, CarriedError> {
        let name = String::take(from)?;
        let bytes = from.all();
        if bytes.len() > PIECE_BYTES_MAX {
            return Err(CarriedError::Contradiction { what: "a piece of a file is longer than one is" });
        }
        Ok(Self { name, bytes: bytes.to_vec() })
    }
}

impl Carried for Job {
    fn put(&self, to: &mut Vec<u8>) {
        self.worker.put(to);
        self.workers.put(to);
        self.words.put(to);
        self.interval_ns.put(to);
        self.points_max.put(to);
        self.is_recorded.put(to);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, CarriedError> {
        let job = Self {
            worker: Carried::take(from)?,
            workers: Carried::take(from)?,
            words: Carried::take(from)?,
            interval_ns: Carried::take(from)?,
            points_max: Carried::take(from)?,
            is_recorded: Carried::take(from)?,
        };
        if job.worker >= job.workers || job.workers as usize > WORKERS_MAX || job.words.len() > WORDS_MAX {
            return Err(CarriedError::Contradiction { what: "a job is of a worker that there is not" });
        }
        Ok(job)
    }
}

/// Writes a kind and what follows it.
fn write(to: &mut Vec<u8>, kind: u8, value: &impl Carried) {
    to.push(kind);
    value.put(to);
}

/// Reads the whole of what a message holds.
fn whole<T>(bytes: &[u8], read: impl FnOnce(&mut Reader<'_>) -> Result<T, CarriedError>) -> Result<T, CarriedError> {
    let mut reader = Reader::new(bytes);
    let value = read(&mut reader)?;
    reader.end()?;
    Ok(value)
}

impl Message for ToWorker {
    fn put(&self, to: &mut Vec<u8>) {
        match self {
            Self::Hello(hello) => write(to, 1, hello),
            Self::Ping { number } => write(to, 2, number),
            Self::File(piece) => write(to, 3, &**piece),
            Self::Job(job) => write(to, 4, job),
            Self::Start { at_ns } => {
                to.push(5);
                put_number(to, *at_ns);
            }
            Self::Stop => to.push(6),
            Self::End => to.push(7),
        }
    }

    fn read(kind: u8, bytes: &[u8]) -> Result<Self, CarriedError> {
        whole(bytes, |reader| {
            Ok(match kind {
                1 => Self::Hello(Carried::take(reader)?),
                2 => Self::Ping { number: Carried::take(reader)? },
                3 => Self::File(Arc::new(Carried::take(reader)?)),
                4 => Self::Job(Carried::take(reader)?),
                5 => Self::Start { at_ns: reader.number(CLOCK_MAX_NS)? },
                6 => Self::Stop,
                7 => Self::End,
                _ => return Err(CarriedError::Number),
            })
        })
    }
}

impl Message for FromWorker {
    fn put(&self, to: &mut Vec<u8>) {
        match self {
            Self::Hello(hello) => write(to, 1, hello),
            Self::Pong { number, now_ns } => {
                write(to, 2, number);
                put_number(to, *now_ns);
            }
            Self::Ready => to.push(3),
            Self::Refused { why } => write(to, 4, why),
            Self::Slice(slice) => write(to, 5, slice),
            Self::Progress(counters) => write(to, 6, counters),
            Self::Made(made) => write(to, 7, made),
            Self::Failed { why } => write(to, 8, why),
            Self::Record(piece) => write(to, 9, &**piece),
            Self::Unrecorded { why } => write(to, 10, why),
        }
    }

    fn read(kind: u8, bytes: &[u8]) -> Result<Self, CarriedError> {
        whole(bytes, |reader| {
            Ok(match kind {
                1 => Self::Hello(Carried::take(reader)?),
                2 => Self::Pong { number: Carried::take(reader)?, now_ns: reader.number(CLOCK_MAX_NS)? },
                3 => Self::Ready,
                4 => Self::Refused { why: Carried::take(reader)? },
                5 => Self::Slice(Carried::take(reader)?),
                6 => Self::Progress(Carried::take(reader)?),
                7 => Self::Made(Carried::take(reader)?),
                8 => Self::Failed { why: Carried::take(reader)? },
                9 => Self::Record(Box::new(Carried::take(reader)?)),
                10 => Self::Unrecorded { why: Carried::take(reader)? },
                _ => return Err(CarriedError::Number),
            })
        })
    }
}
