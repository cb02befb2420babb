//! Why the console does not begin, and why a call gets no answer.

use crate::parameters::ParameterError;
use crate::server::LiveError;
use std::path::PathBuf;
use weir_endpoint::Answer;

/// Why the console does not begin.
#[derive(Debug, thiserror::Error)]
pub enum ConsoleError {
    /// A directory cannot be listed.
    #[error("{path}: {source}; name a run, or a directory that holds runs", path = path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// No randomness for the word in the address.
    #[error("/dev/urandom: {0}; the console needs it for the word in its address")]
    Random(std::io::Error),
    /// More servers than a page asks.
    #[error("{given} servers are given, and a console shows {most} at most; start another console for the others")]
    Servers {
        /// As many.
        given: usize,
        /// The bound.
        most: usize,
    },
    /// The port cannot be listened at.
    #[error("{0}; --port names another one")]
    Listen(#[from] weir_endpoint::StartError),
}

/// Why a run cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadingError {
    #[error(transparent)]
    Run(#[from] weir_trace::OpenRunError),
    #[error(transparent)]
    Segments(#[from] weir_trace::ReadError),
    #[error("{0:#}")]
    Explanation(#[from] anyhow::Error),
    #[error("its explanation has another form than the console reads, a fault of weir's: {0}")]
    Form(#[from] serde_json::Error),
    #[error(transparent)]
    Tiles(#[from] weir_tiles::OpenError),
    #[error(transparent)]
    Tables(#[from] weir_query::QueryError),
}

/// Why a call gets no answer. Its text is for a person.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("the console answers to 127.0.0.1 and localhost only, with its port")]
    Host,
    #[error("a page of another origin asked: only the console's own page may")]
    Origin,
    #[error("use the whole address that `weir console` printed, with its random word")]
    Word,
    #[error("there is no such call: docs/reference/console-api.md lists them")]
    NoCall,
    #[error("this call takes {allowed}")]
    Method { allowed: &'static str },
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    #[error("there is no run {0:?} in the list of runs; the room Runs reads the directories anew")]
    NoRun(String),
    #[error("{0}")]
    NoLoad(String),
    #[error("the run is not open: POST open?run=... reads it")]
    NotOpen,
    #[error("the run is still being read")]
    Reading,
    #[error("{0}")]
    Failed(String),
    #[error("as many runs are being read as the console holds open ({most}); try again once one is done")]
    Busy { most: usize },
    #[error("{0}")]
    Question(#[from] weir_query::QueryError),
    #[error("the question took longer than {seconds} s and was stopped; ask for less, or use `weir sql`")]
    TooLong { seconds: u64 },
    #[error("there is no request {0} in this run")]
    NoRequest(u64),
    #[error("{0}")]
    NoTile(weir_tiles::TileError),
    #[error("this console shows no running server: start it with --admin ADDRESS")]
    NoServer,
    #[error("there is no server {number} here, but 1 to {last}: has lists them")]
    NoSuchServer { number: u32, last: usize },
    #[error("a server's own console reads no runs: weir console DIR does, on the host that has them")]
    NoRuns,
    #[error("the token is missing or wrong: Authorization: Bearer TOKEN")]
    Token,
    #[error("this console shows no cluster: start it with --cluster DIR")]
    NoCluster,
    #[error("this console replays no policies: start it with --decisions FILE")]
    NoReplay,
    #[error("this console shows no business transactions: start it with --arm")]
    NoAgent,
    #[error("{most} questions to it are under way, and there may be no more; it is asked again when one is answered")]
    Asking { most: usize },
    #[error("{most} watches are under way, and there may be no more; leave the room Watch in another page")]
    Watched { most: usize },
    #[error(transparent)]
    Live(#[from] LiveError),
    #[error("the body is no UTF-8 text of at most 65,536 bytes")]
    Body,
}

impl Refusal {
    fn status(&self) -> u16 {
        use weir_query::QueryError as Asked;
        match self {
            Self::Token => 401,
            Self::Host | Self::Origin | Self::Word => 403,
            Self::NoCall
            | Self::NoServer
            | Self::NoSuchServer { .. }
            | Self::NoRuns
            | Self::NoCluster
            | Self::NoAgent
            | Self::NoReplay
            | Self::NoRun(_)
            | Self::NoLoad(_)
            | Self::NoRequest(_) => 404,
            Self::NoTile(weir_tiles::TileError::Missing { .. }) => 404,
            Self::Method { .. } => 405,
            Self::Parameter(_) | Self::Body => 400,
            Self::NotOpen | Self::Reading => 409,
            Self::Busy { .. } | Self::Watched { .. } | Self::Asking { .. } => 429,
            // That of the server where a page can do something about it.
            Self::Live(LiveError::Refused { status: status @ (400 | 403 | 404 | 503), .. }) => *status,
            Self::Live(_) => 502,
            Self::Question(
                Asked::NoTable { .. }
                | Asked::NoColumn { .. }
                | Asked::Refused { .. }
                | Asked::Sql { .. }
                | Asked::NotSaved { .. },
            ) => 400,
            Self::TooLong { .. } => 503,
            Self::Failed(_) | Self::NoTile(_) | Self::Question(_) => 500,
        }
    }

    /// As an answer: `{"error": "..."}`.
    pub(crate) fn answer(&self) -> Answer {
        let told = serde_json::json!({ "error": self.to_string() });
        let mut answer = Answer::whole(self.status(), "application/json", told.to_string());
        if let Self::Method { allowed } = self {
            answer.headers.push(("Allow".to_owned(), (*allowed).to_owned()));
        }
        answer
    }
}
