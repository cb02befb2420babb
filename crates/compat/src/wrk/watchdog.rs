//! Stops the run where a function of a script does not return.
//!
//! LuaJIT looks at no hook within a loop that it has compiled, so nothing in the script's thread can stop it: another
//! thread looks at what is under way, and ends the process.

use crate::system::monotonic_ns;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How often it looks.
const LOOK: Duration = Duration::from_millis(50);
/// The exit status of a run that a script keeps from ending.
const STATUS: i32 = 2;

/// What of a script may be under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Whole,
    Setup,
    Init,
    Delay,
    Request,
    Response,
    Done,
}

impl Part {
    pub(super) const ALL: [Self; 7] =
        [Self::Whole, Self::Setup, Self::Init, Self::Delay, Self::Request, Self::Response, Self::Done];

    /// The name of its function; none of the script as a whole.
    pub(super) fn function(self) -> Option<&'static str> {
        [None, Some("setup"), Some("init"), Some("delay"), Some("request"), Some("response"), Some("done")]
            [self as usize]
    }
}

/// What of one script is under way, and since when.
#[derive(Debug)]
pub(super) struct Watched {
    file: String,
    /// When it began; 0 = nothing is.
    since_ns: AtomicU64,
    part: AtomicUsize,
    /// In which line each function begins; 0 = it is not known.
    lines: [AtomicU32; Part::ALL.len()],
}

impl Watched {
    /// A part begins.
    #[inline]
    pub(super) fn begin(&self, part: Part, at_ns: u64) {
        self.part.store(part as usize, Ordering::Relaxed);
        self.since_ns.store(at_ns, Ordering::Release);
    }

    /// It is over.
    #[inline]
    pub(super) fn end(&self) {
        self.since_ns.store(0, Ordering::Release);
    }

    pub(super) fn set_line(&self, part: Part, line: u32) {
        self.lines[part as usize].store(line, Ordering::Relaxed);
    }

    /// Where a part is, for messages: file, line and function.
    pub(super) fn place(&self, part: Part) -> String {
        let line = match self.lines[part as usize].load(Ordering::Relaxed) {
            0 => String::new(),
            line => format!(":{line}"),
        };
        let what = part.function().map_or("the script itself".to_owned(), |name| format!("{name}()"));
        format!("{}{line}: {what}", self.file)
    }

    /// What has been under way for too long, in words.
    fn overdue(&self, now_ns: u64, limit: Duration) -> Option<String> {
        let since_ns = self.since_ns.load(Ordering::Acquire);
        let is_overdue = since_ns > 0 && u128::from(now_ns.saturating_sub(since_ns)) > limit.as_nanos();
        let part = Part::ALL[self.part.load(Ordering::Relaxed)];
        is_overdue.then(|| {
            format!(
                "{} has not returned for {} s, so the run is ended; make its loop end, or allow it more with \
                 --script-limit",
                self.place(part),
                limit.as_secs()
            )
        })
    }
}

/// Looks after all scripts of a run.
#[derive(Debug, Clone)]
pub(super) struct Watchdog {
    all: Arc<Mutex<Vec<Arc<Watched>>>>,
}

impl Watchdog {
    /// Begins to look; `program` stands before its words.
    ///
    /// # Errors
    /// The system makes no thread.
    pub(super) fn begin(program: &str, limit: Duration) -> std::io::Result<Self> {
        let all: Arc<Mutex<Vec<Arc<Watched>>>> = Arc::default();
        let (looked_at, program) = (Arc::clone(&all), program.to_owned());
        std::thread::Builder::new().name("weir-scripts".to_owned()).spawn(move || {
            loop {
                std::thread::sleep(LOOK);
                let now_ns = monotonic_ns();
                let all = looked_at.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(words) = all.iter().find_map(|watched| watched.overdue(now_ns, limit)) {
                    eprintln!("{program}: {words}");
                    // SAFETY: the call takes a number. What else an exit would do may wait for the script's thread.
                    unsafe { libc::_exit(STATUS) };
                }
            }
        })?;
        Ok(Self { all })
    }

    /// Looks after one script more.
    pub(super) fn watch(&self, file: &str) -> Arc<Watched> {
        let watched = Arc::new(Watched {
            file: file.to_owned(),
            since_ns: AtomicU64::new(0),
            part: AtomicUsize::new(Part::Whole as usize),
            lines: Default::default(),
        });
        self.all.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&watched));
        watched
    }
}
