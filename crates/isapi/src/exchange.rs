//! The request that runs, as the functions of its control block see it from any thread.

use crate::abi::{self, ControlBlock, IoCompletion, error};
use crate::body::Body;
use crate::request_stream::Variables;
use crate::response::Response;
use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

/// Completions that wait for their callback, at most.
const COMPLETIONS_MAX: usize = 64;

/// The one request at a time of this process.
static HOST: OnceLock<Host> = OnceLock::new();

/// What the threads of the process share.
#[derive(Debug)]
pub(crate) struct Host {
    exchange: Mutex<Exchange>,
    /// Apart, so that one thread can write while another waits for the body.
    body: Mutex<Body>,
    /// The request is done, or no completion is left.
    settled: Condvar,
    /// A completion waits.
    queued: Condvar,
}

/// Where the request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// No extension runs.
    Idle,
    /// It runs, or has left a thread to go on.
    Running,
    /// It has said that it is done, with its status.
    Done(u32),
}

/// What the thread of completions does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Completer {
    Missing,
    Waiting,
    Calling,
}

/// A callback, and what it is told besides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Completion {
    pub(crate) call: IoCompletion,
    pub(crate) context: *mut c_void,
}

/// A read or write that is over, and whose callback waits.
#[derive(Clone, Copy, Debug)]
struct Finished {
    completion: Completion,
    bytes: u32,
}

/// The request.
#[derive(Debug)]
pub(crate) struct Exchange {
    serial: usize,
    stage: Stage,
    block: *mut ControlBlock,
    pub(crate) variables: Variables,
    pub(crate) response: Response,
    /// Set by `HSE_REQ_IO_COMPLETION`.
    pub(crate) completion: Option<Completion>,
    finished: VecDeque<Finished>,
    completer: Completer,
    /// Numbers of functions that are not supported, which the log has.
    pub(crate) told: Vec<u32>,
}

// SAFETY: the pointers are those of the control block, which outlives the requests, and of extensions, which by the
// interface may use them in any thread.
unsafe impl Send for Exchange {}

impl Exchange {
    /// The status that the control block has now.
    pub(crate) fn status(&self) -> u32 {
        if self.block.is_null() {
            return 200;
        }
        // SAFETY: the block outlives the request; only the extension writes it meanwhile.
        unsafe { (*self.block).http_status }
    }

    /// What the script's lines in the log begin with.
    pub(crate) fn script(&self) -> &[u8] {
        self.variables.get(b"SCRIPT_NAME").unwrap_or_default()
    }

    /// The extension says that it is done.
    pub(crate) fn set_done(&mut self, status: u32) {
        self.stage = Stage::Done(status);
    }

    /// Whether a completion can wait for its callback.
    pub(crate) fn has_room(&self) -> bool {
        self.finished.len() < COMPLETIONS_MAX
    }

    fn is_settled(&self) -> bool {
        self.finished.is_empty() && self.completer != Completer::Calling
    }
}

impl Host {
    /// Sets up the one of this process; `None` if there is one already.
    pub(crate) fn set_up(response: Response, body: Body) -> Option<&'static Self> {
        let exchange = Exchange {
            serial: 0,
            stage: Stage::Idle,
            block: std::ptr::null_mut(),
            variables: Variables::default(),
            response,
            completion: None,
            finished: VecDeque::new(),
            completer: Completer::Missing,
            told: Vec::new(),
        };
        let host = Self {
            exchange: Mutex::new(exchange),
            body: Mutex::new(body),
            settled: Condvar::new(),
            queued: Condvar::new(),
        };
        HOST.set(host).ok()?;
        HOST.get()
    }

    /// The exchange, for the thread that runs requests.
    pub(crate) fn exchange(&self) -> MutexGuard<'_, Exchange> {
        // A thread that panics ends the process: the functions for extensions cannot unwind.
        self.exchange.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The body, likewise.
    pub(crate) fn body(&self) -> MutexGuard<'_, Body> {
        self.body.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request begins: takes its variables in exchange for those of the last one. Returns the number of the request.
    pub(crate) fn begin(
        &self,
        variables: &mut Variables,
        block: *mut ControlBlock,
    ) -> (MutexGuard<'_, Exchange>, usize) {
        let mut exchange = self.exchange();
        exchange.serial += 1;
        exchange.stage = Stage::Running;
        exchange.block = block;
        exchange.completion = None;
        exchange.response.begin();
        std::mem::swap(&mut exchange.variables, variables);
        let serial = exchange.serial;
        (exchange, serial)
    }

    /// Waits until no completion is left, and, if it is pending, the extension is done. Returns the last status.
    pub(crate) fn settle(&self, returned: u32) -> (MutexGuard<'_, Exchange>, u32) {
        let mut exchange = self.exchange();
        loop {
            let is_over = returned != abi::status::PENDING || exchange.stage != Stage::Running;
            if is_over && exchange.is_settled() {
                break;
            }
            exchange = self.settled.wait(exchange).unwrap_or_else(PoisonError::into_inner);
        }
        let status = match exchange.stage {
            Stage::Done(status) => status,
            Stage::Idle | Stage::Running => returned,
        };
        exchange.stage = Stage::Idle;
        (exchange, status)
    }

    /// Calls the callbacks of completions, one after the other, for ever.
    fn complete(&self) {
        let mut exchange = self.exchange();
        loop {
            let Some(Finished { completion, bytes }) = exchange.finished.pop_front() else {
                exchange.completer = Completer::Waiting;
                self.settled.notify_all();
                exchange = self.queued.wait(exchange).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            exchange.completer = Completer::Calling;
            let block = exchange.block;
            drop(exchange);
            // SAFETY: the request waits for this call to return, so the block and the library are there.
            unsafe { (completion.call)(block, completion.context, bytes, 0) };
            exchange = self.exchange();
        }
    }
}

/// Does something with the exchange of a control block, unless its request is over.
pub(crate) fn with<R>(connection: *mut c_void, act: impl FnOnce(&mut Exchange) -> Result<R, u32>) -> Result<R, u32> {
    let host = HOST.get().ok_or(error::INVALID_PARAMETER)?;
    let mut exchange = host.exchange();
    if exchange.serial != connection.addr() || exchange.stage != Stage::Running {
        return Err(error::INVALID_PARAMETER);
    }
    act(&mut exchange)
}

/// Reads the body of a control block's request.
pub(crate) fn read_body(connection: *mut c_void, to: &mut [u8]) -> Result<usize, u32> {
    let host = HOST.get().ok_or(error::INVALID_PARAMETER)?;
    let mut body = host.body();
    if !body.is_of(connection.addr()) {
        return Err(error::INVALID_PARAMETER);
    }
    body.some(to).map_err(|_| error::READ_FAULT)
}

/// Has a callback called for bytes that were read or written, by the thread of completions.
pub(crate) fn queue(connection: *mut c_void, completion: Completion, bytes: u32) -> Result<(), u32> {
    with(connection, |exchange| {
        if exchange.completer == Completer::Missing {
            let started = std::thread::Builder::new().name("completions".to_owned()).spawn(|| {
                if let Some(host) = HOST.get() {
                    host.complete();
                }
            });
            started.map_err(|_| error::NOT_ENOUGH_MEMORY)?;
            exchange.completer = Completer::Waiting;
        }
        exchange.finished.push_back(Finished { completion, bytes });
        Ok(())
    })?;
    if let Some(host) = HOST.get() {
        host.queued.notify_one();
    }
    Ok(())
}

/// Wakes the thread that runs requests, after [`Exchange::set_done`].
pub(crate) fn wake() {
    if let Some(host) = HOST.get() {
        host.settled.notify_all();
    }
}
