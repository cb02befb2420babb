//! The life of the process: request after request, until the stream of variables ends.

use crate::abi::{self, ControlBlock};
use crate::body::Body;
use crate::callbacks::{get_server_variable, read_client, write_client};
use crate::exchange::Host;
use crate::library::{Libraries, LoadError};
use crate::log;
use crate::request_stream::{RequestStream, Variables};
use crate::response::Response;
use crate::streams::{Streams, enter_folder_of};
use crate::support::server_support_function;
use std::cell::UnsafeCell;
use std::ffi::{CString, c_char, c_int};
use std::io;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// An extension runs: SIGTERM ends the process at once.
static RUNS: AtomicBool = AtomicBool::new(false);
/// SIGTERM has come while none ran.
static ENDS: AtomicBool = AtomicBool::new(false);
/// The thread that waits for requests.
static WAITS: AtomicU64 = AtomicU64::new(0);

/// Runs extensions for as long as the stream of variables lasts. It returns a failure, after a line on standard error,
/// if the process was not started as a persistent script, or a stream is damaged. To be called once, from a process
/// that has no other thread.
#[must_use]
pub fn run() -> ExitCode {
    let streams = match Streams::take() {
        Ok(streams) => streams,
        Err(error) => return failure(&error),
    };
    let response = Response::new(streams.response, streams.sentinel);
    let Some(host) = Host::set_up(response, Body::new(streams.body)) else {
        return failure(&"it runs already in this process");
    };
    end_on_sigterm();
    let mut process = Process {
        host,
        stream: RequestStream::new(streams.variables),
        variables: Variables::default(),
        libraries: Libraries::default(),
        block: Box::new(UnsafeCell::new(new_block())),
        script: CString::default(),
        nothing: [0; 1],
    };
    let code = process.serve();
    process.libraries.end_all();
    code
}

fn failure(error: &dyn std::fmt::Display) -> ExitCode {
    log::line(b"", error.to_string().as_bytes());
    ExitCode::FAILURE
}

/// What lives from request to request.
struct Process {
    host: &'static Host,
    stream: RequestStream,
    /// Those of the next request, then those of the last.
    variables: Variables,
    libraries: Libraries,
    /// Extensions and their threads have pointers to it.
    block: Box<UnsafeCell<ControlBlock>>,
    /// The script of the last request, whose folder is the working directory.
    script: CString,
    /// An empty text of C, which is the value of variables that are missing.
    nothing: [c_char; 1],
}

impl Process {
    /// Serves requests until the stream ends, or one of the streams is broken.
    fn serve(&mut self) -> ExitCode {
        loop {
            match self.stream.next(&mut self.variables, || ENDS.load(Ordering::Relaxed)) {
                Ok(true) => {}
                Ok(false) => return ExitCode::SUCCESS,
                Err(error) => return failure(&error),
            }
            if let Err(error) = self.request() {
                return failure(&format_args!("a request's streams are broken: {error}"));
            }
            if ENDS.load(Ordering::Relaxed) {
                return ExitCode::SUCCESS;
            }
        }
    }

    fn request(&mut self) -> io::Result<()> {
        self.find_script();
        let (serial, length) = self.begin();
        let host = self.host;
        let mut body = host.body();
        let ahead = body.begin(serial, length)?;
        // SAFETY: no extension runs.
        let block = unsafe { &mut *self.block.get() };
        block.total_bytes = u32::try_from(length).unwrap_or(u32::MAX);
        // At most 48 KiB.
        block.available_bytes = u32::try_from(ahead.len()).unwrap_or_default();
        block.data = ahead.as_mut_ptr();
        drop(body);
        match self.libraries.get(&self.script) {
            Ok(extension) => {
                RUNS.store(true, Ordering::Relaxed);
                // SAFETY: the block is filled in, and lives longer than the request.
                let returned = unsafe { extension(self.block.get()) };
                self.end(returned);
                RUNS.store(false, Ordering::Relaxed);
            }
            Err(error) => self.refuse(&error),
        }
        self.finish()
    }

    /// Notes the script, and enters its folder if it is another one than last time.
    fn find_script(&mut self) {
        let script = self.variables.get(b"SCRIPT_FILENAME").unwrap_or_default();
        if script != self.script.to_bytes() {
            self.script = CString::new(script).unwrap_or_default();
            enter_folder_of(script);
        }
    }

    /// Makes the request the one that runs, and fills the block in. Returns its number, and the bytes of its
    /// body; a length that is no number counts as none.
    fn begin(&mut self) -> (usize, u64) {
        let nothing = &raw mut self.nothing;
        let (mut exchange, serial) = self.host.begin(&mut self.variables, self.block.get());
        let mut text = |name: &[u8]| exchange.variables.c_text(name).unwrap_or(nothing.cast());
        // SAFETY: no extension runs.
        let block = unsafe { &mut *self.block.get() };
        block.connection = std::ptr::without_provenance_mut(serial);
        block.http_status = 200;
        block.log_data[0] = 0;
        block.method = text(b"REQUEST_METHOD");
        block.query_string = text(b"QUERY_STRING");
        block.path_info = text(b"PATH_INFO");
        block.path_translated = text(b"PATH_TRANSLATED");
        block.content_type = text(b"CONTENT_TYPE");
        let length = exchange.variables.get(b"CONTENT_LENGTH").unwrap_or_default();
        let length = std::str::from_utf8(length).ok().and_then(|length| length.parse().ok());
        (serial, length.unwrap_or(0))
    }

    /// The extension has returned: waits for its threads, and says what it did wrong.
    fn end(&self, returned: u32) {
        let (mut exchange, status) = self.host.settle(returned);
        // SAFETY: the extension is done.
        let block = unsafe { &*self.block.get() };
        if block.log_data[0] != 0 {
            let text = block.log_data.split(|&byte| byte == 0).next().unwrap_or_default();
            log::line(exchange.script(), text);
        }
        let is_error = status == abi::status::ERROR || !(1..=abi::status::ERROR).contains(&returned);
        if is_error {
            log::line(exchange.script(), format!("the extension failed (it returned {returned})").as_bytes());
        }
        if is_error && exchange.response.is_unsent() {
            exchange.response.fail(500, "The extension failed.");
        }
        exchange.response.complete(block.http_status);
    }

    /// The library cannot be run.
    fn refuse(&self, error: &LoadError) {
        let (mut exchange, _) = self.host.settle(abi::status::ERROR);
        log::line(self.script.to_bytes(), error.to_string().as_bytes());
        let is_missing = matches!(error, LoadError::Unreadable(error) if error.kind() == io::ErrorKind::NotFound);
        if is_missing {
            exchange.response.fail(404, "There is no such extension.");
        } else {
            exchange.response.fail(500, "This extension cannot be run: the server's log says why.");
        }
    }

    /// Sends the response, reads what is left of the body, and ends with the sentinel.
    fn finish(&self) -> io::Result<()> {
        let broken = |_| io::Error::from(io::ErrorKind::BrokenPipe);
        let mut body = self.host.body();
        if body.is_unread() {
            self.host.exchange().response.flush().map_err(broken)?;
            body.drain()?;
        }
        body.end();
        self.host.exchange().response.finish().map_err(broken)
    }
}

fn new_block() -> ControlBlock {
    ControlBlock {
        // Less than 300 bytes.
        size: u32::try_from(size_of::<ControlBlock>()).unwrap_or_default(),
        version: abi::VERSION,
        connection: std::ptr::null_mut(),
        http_status: 200,
        log_data: [0; abi::LOG_BYTES],
        method: std::ptr::null_mut(),
        query_string: std::ptr::null_mut(),
        path_info: std::ptr::null_mut(),
        path_translated: std::ptr::null_mut(),
        total_bytes: 0,
        available_bytes: 0,
        data: std::ptr::null_mut(),
        content_type: std::ptr::null_mut(),
        get_server_variable,
        write_client,
        read_client,
        server_support_function,
    }
}

/// SIGTERM ends an idle process in order, and one whose extension runs at once.
fn end_on_sigterm() {
    // SAFETY: the structure is zeroed, which is an empty mask and no flags; the handler does what is allowed in one.
    unsafe {
        WAITS.store(libc::pthread_self(), Ordering::Relaxed);
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_sigterm as extern "C" fn(c_int) as usize;
        libc::sigaction(libc::SIGTERM, &raw const action, std::ptr::null_mut());
    }
}

extern "C" fn on_sigterm(signal: c_int) {
    let waits = WAITS.load(Ordering::Relaxed);
    // SAFETY: these functions may be called in a handler (signal-safety(7)); the thread lives as long as the process.
    unsafe {
        if RUNS.load(Ordering::Relaxed) {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
            return;
        }
        ENDS.store(true, Ordering::Relaxed);
        // A thread of an extension may have got it: only in its own thread it interrupts the wait.
        if libc::pthread_self() != waits {
            libc::pthread_kill(waits, signal);
        }
    }
}
