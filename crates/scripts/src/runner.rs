//! A runner: a process that answers the server's requests on one connection at a time, by running scripts.

use crate::children;
use crate::descriptor::{self, Moved};
use crate::engine;
use crate::environment::{Added, Environment};
use crate::exchange::{Body, Exchange, Feed, Outcome, Pace, Times};
use crate::fastcgi::{self, Pairs, kind};
use crate::input::{Begun, Heard, Input, Opening};
use crate::messages::StuckTold;
use crate::owner::{self, Owners};
use crate::persistent::{Kept, Processes};
use crate::pool::{Pool, Way};
use crate::program::{self, NotRun, Program, Stamp};
use crate::signals;
use crate::spawn::Spawner;
use crate::start::Start;
use crate::steps::Steps;
use crate::telling::{Telling, Told, short};
use crate::trouble::Trouble;
use crate::variables;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a script that is told to end may take.
const END_PATIENCE: Duration = Duration::from_secs(1);
/// How long a killed one may take.
const KILL_PATIENCE: Duration = Duration::from_secs(5);

/// Whether the connection can take another request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Behind {
    Kept,
    Closed,
}

/// A runner.
#[derive(Debug)]
pub(crate) struct Runner {
    pool: Pool,
    listener: OwnedFd,
    telling: Telling,
    /// /dev/null, for scripts whose request has no body.
    null: OwnedFd,
    /// Errors of the script that runs: where they are read, and where scripts write them.
    stderr: (OwnedFd, OwnedFd),
    spawner: Spawner,
    environment: Environment,
    owners: Owners,
    processes: Processes,
    input: Input,
    out: Vec<u8>,
    pairs: Vec<u8>,
    /// What runs the script of the last request.
    found: Option<Found>,
    /// How long a process took from its first output to its end, if that was short.
    pause: Duration,
    /// What is waited for between two requests.
    waits: Vec<libc::pollfd>,
    /// How much of the request's body has come.
    body: Body,
    body_left: u64,
    steps: Steps,
}

/// What a request asks for.
#[derive(Debug, Clone, Default)]
struct Asked {
    script: Vec<u8>,
    length: u64,
}

/// What runs a script.
#[derive(Debug)]
struct Found {
    script: Vec<u8>,
    /// The script's file as it was then.
    stamp: Stamp,
    program: Program,
    /// What a kept process is kept by.
    key: Vec<u8>,
}

impl Runner {
    pub(crate) fn new(pool: Pool, listener: BorrowedFd<'_>, telling: BorrowedFd<'_>) -> io::Result<Self> {
        signals::install()?;
        children::adopt();
        let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
        let (errors, of_scripts) = descriptor::pipe()?;
        let stderr = (descriptor::above(errors.as_fd())?, descriptor::above(of_scripts.as_fd())?);
        descriptor::set_nonblocking(&stderr.0)?;
        if pool.as_owner {
            descriptor::open_to_others(&stderr.1, descriptor::WRITTEN_BY_ALL)?;
        }
        Ok(Self {
            environment: Environment::of_pool(&pool),
            owners: Owners::default(),
            null: descriptor::above(null.as_fd())?,
            listener: descriptor::above(listener)?,
            telling: Telling::new(descriptor::above(telling)?),
            pool,
            stderr,
            spawner: Spawner::new(),
            processes: Processes::default(),
            input: Input::default(),
            out: Vec::new(),
            pairs: Vec::new(),
            found: None,
            pause: Duration::ZERO,
            waits: Vec::new(),
            body: Body::Coming,
            body_left: 0,
            steps: Steps::default(),
        })
    }

    /// Answers until this process is told to end.
    pub(crate) fn run(mut self) {
        while let Some(conn) = self.accept() {
            self.input.clear();
            while self.one(conn.as_raw_fd()) == Behind::Kept {}
        }
        self.processes.retire_all();
        let until = Instant::now() + END_PATIENCE;
        while self.processes.tend().is_some() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        children::end_strays(&[]);
    }

    /// Waits for a descriptor, and looks after processes meanwhile; whether it is ready, and this process goes on.
    fn await_one(&mut self, fd: RawFd) -> bool {
        // The signal may have come within a request: then no further one interrupts the wait.
        while !signals::is_to_end() {
            let due = self.processes.tend();
            let mut fds = std::mem::take(&mut self.waits);
            fds.clear();
            fds.push(libc::pollfd { fd, events: libc::POLLIN | libc::POLLRDHUP, revents: 0 });
            self.processes.outputs(&mut fds);
            let is_ready = signals::wait(&mut fds, due);
            let is_this = is_ready && fds[0].revents != 0;
            if is_ready {
                self.processes.note(&fds[1..]);
            }
            self.waits = fds;
            if is_this {
                return !signals::is_to_end();
            }
        }
        false
    }

    fn accept(&mut self) -> Option<OwnedFd> {
        let listener = self.listener.as_raw_fd();
        loop {
            if !self.await_one(listener) {
                return None;
            }
            let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
            // SAFETY: the kernel writes no address.
            let conn = unsafe { libc::accept4(listener, std::ptr::null_mut(), std::ptr::null_mut(), flags) };
            if conn >= 0 {
                // SAFETY: it is open, and of no one else.
                return Some(unsafe { OwnedFd::from_raw_fd(conn) });
            }
            // Another runner was faster; or descriptors are scarce, which passes.
            if !matches!(
                io::Error::last_os_error().raw_os_error(),
                Some(libc::EAGAIN | libc::EINTR | libc::ECONNABORTED)
            ) {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }

    /// Answers one request.
    fn one(&mut self, conn: RawFd) -> Behind {
        let mut opening = Opening::default();
        let begun = loop {
            match self.input.open(&mut opening, &mut self.pairs) {
                Heard::Begun(begun) => break begun,
                Heard::Nothing => {}
                _ => return Behind::Closed,
            }
            if !self.await_one(conn) || self.input.receive(conn) == Moved::Over {
                return Behind::Closed;
            }
        };
        self.out.clear();
        self.body = Body::Coming;
        if self.pool.as_owner {
            owner::keep_harmless(&mut self.pairs);
        }
        let asked = Asked::of(&self.pairs);
        self.body_left = asked.length;
        self.steps.taken(&mut self.pairs, line);
        let mut behind = match self.pool.way {
            Way::Cgi => self.by_new_process(conn, begun, &asked),
            _ => self.by_kept_process(conn, begun, &asked),
        };
        if !begun.is_kept || self.input.has_more() {
            behind = Behind::Closed;
        }
        behind
    }

    /// CGI: a process for this request alone.
    fn by_new_process(&mut self, conn: RawFd, begun: Begun, asked: &Asked) -> Behind {
        self.environment.clear();
        for pair in Pairs(&self.pairs) {
            match pair.map(|(name, value)| self.environment.add(name, value)) {
                Some(Added::Yes | Added::Said) => {}
                Some(Added::Malformed | Added::Nul) | None => return self.refuse(conn, begun, &Trouble::Variables),
            }
        }
        let found = match self.find(&asked.script) {
            Ok(found) => found,
            Err(error) => return self.refuse(conn, begun, &Trouble::NotRun(error)),
        };
        let program = &found.program;
        let (child, stdout, stdin) = match self.start(program, asked.length > 0) {
            Ok(started) => started,
            Err(error) => return self.refuse(conn, begun, &Trouble::NotRun(NotRun::of(&program.name, error))),
        };
        self.steps.begun(child, &program.name, false, false);
        let (mut out, mut input) = (std::mem::take(&mut self.out), std::mem::take(&mut self.input));
        let mut exchange = Exchange {
            stdin,
            closes_stdin: true,
            child,
            pace: Pace::new(self.pause),
            ..self.exchange(conn, begun, (&mut input, &mut out), stdout.as_raw_fd())
        };
        let outcome = exchange.run(|time| {
            tell_stuck((&mut self.telling, &self.pool), child, (&program.name, &line(&self.pairs)), time);
        });
        self.pause = exchange.pace.next_of_process();
        if !matches!(outcome, Outcome::Exited(_)) {
            self.pause = Duration::ZERO;
            end_child(child);
        }
        let strays = children::end_strays(&[]);
        exchange.read_stderr();
        self.steps.ended(outcome, exchange.output);
        let behind = finish(&mut exchange, outcome, &program.name, strays);
        (self.out, self.input, self.found) = (out, input, Some(found));
        behind
    }

    /// What runs a script: as for the request before, if it asked for the same and the file has not changed.
    fn find(&mut self, script: &[u8]) -> Result<Found, NotRun> {
        let is_same = |found: &Found| {
            found.script == script && program::stamp(Path::new(OsStr::from_bytes(script))) == Some(found.stamp)
        };
        // Whether an owner may run it is asked anew each time.
        if let Some(found) = self.found.take().filter(|found| !self.pool.as_owner && is_same(found)) {
            return Ok(found);
        }
        let program = program::of_script(&self.pool, script)?;
        let stamp = program.stamp;
        let (program, mut key) = match self.pool.way {
            Way::Cgi | Way::Cgiplus => (program, script.to_owned()),
            way => engine::of_script(way, &self.pool, program, script)?,
        };
        let program = self.as_owner(program, script)?;
        if let Some(owned) = program.owned.as_ref().filter(|_| self.pool.way == Way::Rte) {
            // An engine runs the scripts of one owner.
            key.extend_from_slice(format!(" of user {}", owned.owner.uid).as_bytes());
        }
        Ok(Found { script: script.to_owned(), stamp, program, key })
    }

    /// CGIplus and its like: a process that has answered others before.
    fn by_kept_process(&mut self, conn: RawFd, begun: Begun, asked: &Asked) -> Behind {
        let found = match self.find(&asked.script) {
            Ok(found) => found,
            Err(error) => return self.refuse(conn, begun, &Trouble::NotRun(error)),
        };
        let Found { program, key, .. } = &found;
        loop {
            let stderr = self.stderr.1.as_raw_fd();
            let mut kept = match self.processes.take((program, key), &self.pool, (&mut self.spawner, stderr)) {
                Ok(kept) => kept,
                Err(error) => return self.refuse(conn, begun, &Trouble::NotRun(error)),
            };
            self.steps.begun(kept.pid, &program.name, true, kept.has_answered());
            let mut told = Feed::default();
            kept.marks.take_answers(&mut told.bytes);
            let written = match kept.is_struct {
                true => variables::structured(Pairs(&self.pairs), &mut told.bytes),
                false => variables::lines(Pairs(&self.pairs), &mut told.bytes),
            };
            if written.is_err() {
                self.processes.put_unused(kept);
                return self.refuse(conn, begun, &Trouble::Variables);
            }
            let (mut out, mut input) = (std::mem::take(&mut self.out), std::mem::take(&mut self.input));
            let (outcome, behind) = self.ask(conn, begun, (&mut input, &mut out), (&mut kept, told), (program, asked));
            (self.out, self.input) = (out, input);
            // Else it had ended before it read the request, which a new one gets: of that one this is never said.
            if let Some(behind) = behind {
                let mut told = self.processes.take_notices();
                if outcome == Outcome::Whole {
                    told.extend(self.processes.put(kept, asked.length > 0, &self.pool));
                }
                told.iter().for_each(|told| self.telling.tell(told));
                self.found = Some(found);
                return behind;
            }
        }
    }

    /// Has a script run as the owner of its file, where that is wanted.
    fn as_owner(&mut self, program: Program, script: &[u8]) -> Result<Program, NotRun> {
        if !self.pool.as_owner {
            return Ok(program);
        }
        let path = Path::new(OsStr::from_bytes(script));
        let refused = |why| NotRun::NotOwned(path.to_string_lossy().into_owned(), why);
        let owned = self.owners.of(&self.pool, path).map_err(refused)?;
        Ok(Program { owned: Some(owned), ..program })
    }

    /// Has a kept process answer; `None` for one that has ended by itself before it took notice of the request.
    fn ask(
        &mut self,
        conn: RawFd,
        begun: Begun,
        (input, out): (&mut Input, &mut Vec<u8>),
        (kept, told): (&mut Kept, Feed),
        (program, asked): (&Program, &Asked),
    ) -> (Outcome, Option<Behind>) {
        let (child, has_answered) = (kept.pid, kept.has_answered());
        let stdin = if asked.length > 0 { kept.stdin.try_clone().ok() } else { None };
        let heeds = if has_answered { told.bytes.len() } else { 0 };
        let mut exchange = Exchange {
            stdin,
            child,
            heeds,
            pace: Pace::new(kept.pause),
            variables: Some((kept.tells.as_raw_fd(), told)),
            marks: Some(&mut kept.marks),
            ..self.exchange(conn, begun, (input, out), kept.stdout.as_raw_fd())
        };
        let outcome = exchange.run(|time| {
            tell_stuck((&mut self.telling, &self.pool), child, (&program.name, &line(&self.pairs)), time);
        });
        let outcome = if outcome == Outcome::Whole && exchange.output == 0 { Outcome::Empty } else { outcome };
        let is_behind = exchange.is_unread();
        let pause = exchange.pace.next();
        if outcome == Outcome::Early && asked.length == 0 {
            // What it has written answers nothing; the request can go to another process.
            end_child(child);
            children::end_strays(&self.processes.living());
            self.telling.tell(&Told::Notice(short(&Trouble::Early(program.name.clone()).to_string())));
            exchange.settle();
            self.body = exchange.body;
            return (outcome, None);
        }
        if let Outcome::Exited(status) = outcome
            && has_answered
            && asked.length == 0
            && exchange.output == 0
            && (status == 0 || exchange.was_deaf || descriptor::waiting(kept.tells.as_raw_fd()) > 0)
        {
            // It has not read the variables to their end, so it has done nothing of what they ask for.
            exchange.settle();
            self.body = exchange.body;
            return (outcome, None);
        }
        let mut strays = (0, true);
        if outcome != Outcome::Whole {
            if !matches!(outcome, Outcome::Exited(_)) {
                end_child(child);
            }
            strays = children::end_strays(&self.processes.living());
            exchange.read_stderr();
        }
        self.steps.ended(outcome, exchange.output);
        let behind = finish(&mut exchange, outcome, &program.name, strays);
        (kept.is_behind, kept.pause) = (is_behind, pause);
        (outcome, Some(behind))
    }

    fn exchange<'e>(
        &self,
        conn: RawFd,
        begun: Begun,
        (input, out): (&'e mut Input, &'e mut Vec<u8>),
        stdout: RawFd,
    ) -> Exchange<'e> {
        Exchange {
            conn,
            input,
            begun,
            out,
            sent: 0,
            has_told: false,
            stdout,
            stderr: self.stderr.0.as_raw_fd(),
            stdin: None,
            feed: Feed::default(),
            closes_stdin: false,
            variables: None,
            was_deaf: false,
            body: self.body,
            body_left: self.body_left,
            child: 0,
            ended: signals::children_ended(),
            marks: None,
            times: Times::new(self.pool.slow, self.pool.timeout),
            output_max: self.pool.output,
            output: 0,
            stderr_bytes: 0,
            taken: 0,
            closed: None,
            heeds: 0,
            has_heard_all: false,
            pace: Pace::default(),
            told: self.steps.told(),
        }
    }

    /// Starts the process of a CGI script; with its output and, if there is a body, where that goes.
    fn start(&mut self, program: &Program, has_body: bool) -> io::Result<(libc::pid_t, OwnedFd, Option<OwnedFd>)> {
        // It is read only when something has come, so that no read blocks.
        let (stdout, of_script) = descriptor::pipe()?;
        let body = if has_body { Some(descriptor::pipe()?) } else { None };
        if let Some((_, to_script)) = &body {
            descriptor::set_nonblocking(to_script)?;
        }
        if self.pool.as_owner {
            descriptor::open_to_others(&of_script, descriptor::WRITTEN_BY_ALL)?;
            if let Some((from, _)) = &body {
                descriptor::open_to_others(from, descriptor::READ_BY_ALL)?;
            }
        }
        let stdin = body.as_ref().map_or(self.null.as_raw_fd(), |(from, _)| from.as_raw_fd());
        let pid = self.spawner.start(&Start {
            file: &program.file,
            arguments: &program.arguments,
            folder: &program.folder,
            environment: self.environment.pointers(),
            descriptors: &[stdin, of_script.as_raw_fd(), self.stderr.1.as_raw_fd()],
            memory: self.pool.memory,
            cpu_s: self.pool.cpu_s(),
            owned: program.owned.as_ref(),
            is_own_program: program.is_own(),
        })?;
        Ok((pid, stdout, body.map(|(_, to_script)| to_script)))
    }

    /// Answers without a script.
    fn refuse(&mut self, conn: RawFd, begun: Begun, trouble: &Trouble) -> Behind {
        let (mut out, mut input) = (std::mem::take(&mut self.out), std::mem::take(&mut self.input));
        let mut exchange = self.exchange(conn, begun, (&mut input, &mut out), -1);
        self.steps.refused(trouble);
        trouble.write(begun.number, exchange.out);
        exchange.settle();
        let is_whole = exchange.finish() && exchange.is_at_end();
        (self.out, self.input) = (out, input);
        if is_whole { Behind::Kept } else { Behind::Closed }
    }
}

impl Asked {
    fn of(pairs: &[u8]) -> Self {
        let mut asked = Self::default();
        for (name, value) in Pairs(pairs).flatten() {
            match name {
                b"SCRIPT_FILENAME" => asked.script = value.to_owned(),
                b"CONTENT_LENGTH" => {
                    asked.length = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok()).unwrap_or(0);
                }
                _ => {}
            }
        }
        asked
    }
}

/// The method and the target of a request, for messages.
fn line(pairs: &[u8]) -> String {
    let of = |wanted: &[u8]| Pairs(pairs).flatten().filter(|(name, _)| *name == wanted).map(|(_, value)| value).last();
    let text = |name| String::from_utf8_lossy(of(name).unwrap_or_default()).into_owned();
    format!("{} {}", text(b"REQUEST_METHOD"), text(b"REQUEST_URI"))
}

fn tell_stuck(
    (telling, pool): (&mut Telling, &Pool),
    pid: libc::pid_t,
    (script, request): (&str, &str),
    time: Duration,
) {
    let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    telling.tell(&Told::Stuck(StuckTold {
        pool: pool.name.clone(),
        pid: pid.unsigned_abs(),
        script: short(script),
        request: short(request),
        for_ms: ms(time),
        timeout_ms: ms(pool.timeout),
        stack: Vec::new(),
        no_stack: None,
    }));
}

/// Ends a script: it is asked first, and killed if it does not.
fn end_child(pid: libc::pid_t) {
    for (signal, patience) in [(libc::SIGTERM, END_PATIENCE), (libc::SIGKILL, KILL_PATIENCE)] {
        children::signal(pid, signal);
        let until = Instant::now() + patience;
        loop {
            if children::reap(pid).is_some() {
                return;
            }
            let now = Instant::now();
            if now >= until {
                break;
            }
            signals::wait(&mut [], Some(until - now));
        }
    }
}

/// Ends the answer as the outcome has it.
fn finish(exchange: &mut Exchange<'_>, outcome: Outcome, script: &str, strays: (usize, bool)) -> Behind {
    exchange.settle();
    let number = exchange.begun.number;
    let mut note = |text: String| fastcgi::push(kind::STDERR, number, text.as_bytes(), exchange.out);
    if let (ended, is_whole @ false) | (ended @ 1.., is_whole) = strays {
        let whole = if is_whole { "they were ended" } else { "not all could be ended" };
        note(format!("weir: {script} left {ended} processes behind; {whole}\n"));
    }
    if outcome == Outcome::Closed {
        note(format!("weir: {script} closed its output and ran on for more than a second; it was ended\n"));
    }
    if exchange.stderr_lost() > 0 {
        let text = format!("weir: {} more bytes of STDERR of {script} were dropped\n", exchange.stderr_lost());
        fastcgi::push(kind::STDERR, number, text.as_bytes(), exchange.out);
    }
    match Trouble::of(outcome, script, exchange.output) {
        None => {
            let status = if let Outcome::Exited(status) = outcome { libc::WEXITSTATUS(status) } else { 0 };
            fastcgi::push_end(number, status.unsigned_abs(), exchange.out);
            if exchange.finish() && exchange.is_at_end() { Behind::Kept } else { Behind::Closed }
        }
        Some(Trouble::Gone) => Behind::Closed,
        Some(trouble) if exchange.has_told => {
            // The start of a response is on its way: only the end of the connection says that it is not whole.
            trouble.log(number, exchange.out);
            exchange.finish();
            Behind::Closed
        }
        Some(trouble) => {
            exchange.keep_log();
            trouble.write(number, exchange.out);
            if exchange.finish() && exchange.is_at_end() { Behind::Kept } else { Behind::Closed }
        }
    }
}
