//! A run that goes on in threads of its own, seen from Python.

use crate::options::Wanted;
use crate::packed::as_bytes;
use crate::report::as_dict;
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use weir_load::samples::{Kept, Sample, Stream};
use weir_load::{Control, LoadReport, Options, samples};

create_exception!(weir, LoadError, PyException, "The run could not be made, or could not go on.");

/// How long a look for samples waits before the next one.
const LOOK: Duration = Duration::from_millis(1);

/// A run, from its start until it is dropped, which ends it.
#[pyclass(frozen, module = "weir._native")]
#[derive(Debug)]
pub(crate) struct Running {
    shared: Arc<Shared>,
    kept: Mutex<Option<Kept>>,
    stream: Mutex<Option<Stream>>,
    /// URL and method of each request.
    asked: Vec<(String, String)>,
}

/// What the thread that makes the run and Python have in common.
#[derive(Debug, Default)]
struct Shared {
    control: Control,
    result: Mutex<Option<Result<LoadReport, weir_load::LoadError>>>,
    over: Condvar,
}

/// A panic while a lock was held leaves nothing half done: each holds one value that is put there whole.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Begins a run.
///
/// Raises ValueError where the options make no sense.
#[pyfunction]
// Arguments of functions of Python come as values.
#[allow(clippy::needless_pass_by_value)]
pub(crate) fn start(wanted: Wanted) -> PyResult<Running> {
    let mut options = wanted.options()?;
    let asked =
        options.requests.list.iter().map(|listed| (listed.url.to_string(), listed.request.method.clone())).collect();
    let (mut kept, mut stream) = (None, None);
    if wanted.buffer > 0 {
        let (observers, own) = samples::stream(options.threads, wanted.buffer);
        (options.observers, stream) = (observers, Some(own));
    } else if wanted.samples > 0 {
        let (observers, own) = samples::keep(options.threads, wanted.samples);
        (options.observers, kept) = (observers, Some(own));
    }
    let shared = Arc::new(Shared::default());
    let own = Arc::clone(&shared);
    std::thread::Builder::new()
        .name("weir-load".to_owned())
        .spawn(move || own.run(options))
        .map_err(|error| LoadError::new_err(format!("making a thread failed: {error}")))?;
    Ok(Running { shared, kept: Mutex::new(kept), stream: Mutex::new(stream), asked })
}

impl Shared {
    fn run(&self, options: Options) {
        leave_signals_to_python();
        *locked(&self.result) = Some(weir_load::run(options, &self.control));
        self.over.notify_all();
    }
}

/// Signals are handled by threads of Python: one that came here would only wake a loop.
fn leave_signals_to_python() {
    // SAFETY: an all-zero set is a valid place for the full one, which outlives the call; threads made later inherit it.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, std::ptr::null_mut());
    }
}

#[pymethods]
impl Running {
    /// Ends the run: nothing more is begun, what is under way has a second to finish.
    fn stop(&self) {
        self.shared.control.stop();
    }

    /// Whether the run is over, for which so many seconds are waited at most.
    fn wait(&self, py: Python<'_>, seconds: f64) -> bool {
        let patience = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        py.detach(|| {
            let result = locked(&self.shared.result);
            let waited = self.shared.over.wait_timeout_while(result, patience, |result| result.is_none());
            waited.unwrap_or_else(PoisonError::into_inner).0.is_some()
        })
    }

    /// Up to `most` samples that wait in the stream, for which so many seconds are waited at most.
    fn batch<'py>(&self, py: Python<'py>, most: usize, seconds: f64) -> PyResult<Bound<'py, PyBytes>> {
        let patience = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        let samples = py.detach(|| self.take(most, Instant::now() + patience));
        as_bytes(py, &samples)
    }

    /// Whether no more samples will come than wait in the stream.
    fn is_streamed(&self) -> bool {
        locked(&self.stream).as_ref().is_none_or(Stream::is_over)
    }

    /// Samples that found no room in the stream.
    fn lost(&self) -> u64 {
        locked(&self.stream).as_ref().map_or(0, Stream::lost)
    }

    /// The samples that were kept, once, and how many more requests there were; none before the run is over.
    fn samples<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyBytes>, u64)> {
        let kept = locked(&self.kept).take();
        let (samples, left_out) = py.detach(|| kept.map(Kept::take)).unwrap_or_default();
        Ok((as_bytes(py, &samples)?, left_out))
    }

    /// URL and method of each request, where there are several.
    fn asked(&self) -> Vec<(String, String)> {
        self.asked.clone()
    }

    /// Whole responses, failed requests, dropped arrivals, open connections and responses with an unexpected status so far.
    fn progress(&self) -> (u64, u64, u64, u64, u64) {
        let control = &self.shared.control;
        (control.requests(), control.errors(), control.dropped(), control.connections(), control.unexpected())
    }

    /// The report of a run that is over.
    ///
    /// Raises LoadError where it could not be made or go on.
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        match &*locked(&self.shared.result) {
            None => Err(PyRuntimeError::new_err("the run is not over")),
            Some(Err(error)) => Err(LoadError::new_err(error.to_string())),
            Some(Ok(report)) => as_dict(py, report),
        }
    }
}

impl Running {
    /// Samples of the stream: as soon as there are any, or none at the given time or when the run is over.
    fn take(&self, most: usize, until: Instant) -> Vec<Sample> {
        let mut samples = Vec::new();
        loop {
            let is_over = match locked(&self.stream).as_mut() {
                None => true,
                Some(stream) => {
                    // Asked first, so that all samples from before the end are there afterwards.
                    let is_over = stream.is_over();
                    stream.take(most, |sample| samples.push(sample));
                    is_over
                }
            };
            if !samples.is_empty() || is_over || Instant::now() >= until {
                return samples;
            }
            std::thread::sleep(LOOK);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shared.control.stop();
    }
}
