//! Calls of tools that are under way, and what is sent to the client.

use super::child;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::JoinHandle;
use std::time::Duration;
use weir_mcp::{Id, Place, Plan, Told, Tool, answer};
use weir_terminal::stop::Stop;

/// Calls under way at most.
const CALLS_MAX: usize = 8;
/// How often a call that waits for its turn looks.
const LOOK: Duration = Duration::from_millis(20);

/// The calls.
pub(super) struct Calls {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// What a call's thread needs.
struct Shared {
    place: Place,
    /// Those under way, each with whether it was cancelled.
    running: Mutex<BTreeMap<Id, Arc<AtomicBool>>>,
    /// Two measurements at once would measure each other.
    turn: Mutex<()>,
    out: Mutex<std::io::Stdout>,
    is_unheard: AtomicBool,
}

/// A lock whose holder panicked is as good as any other: what it guards is changed in one step.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Calls {
    pub(super) fn new(place: Place) -> Self {
        let shared = Shared {
            place,
            running: Mutex::default(),
            turn: Mutex::default(),
            out: Mutex::new(std::io::stdout()),
            is_unheard: AtomicBool::new(false),
        };
        Self { shared: Arc::new(shared), threads: Vec::new() }
    }

    pub(super) fn place(&self) -> &Place {
        &self.shared.place
    }

    pub(super) fn root(&self) -> &Path {
        &self.shared.place.root
    }

    /// Sends a message as a line.
    pub(super) fn send(&self, message: &Value) {
        self.shared.send(message);
    }

    /// Whether the client reads no more.
    pub(super) fn is_unheard(&self) -> bool {
        self.shared.is_unheard.load(Ordering::Relaxed)
    }

    /// Begins a call; its answer is sent when it is over.
    pub(super) fn begin(&mut self, id: Id, tool: Tool, arguments: &Value, progress: Option<Value>) {
        self.threads.retain(|thread| !thread.is_finished());
        let plan = match Plan::of(tool, arguments, self.place()) {
            Ok(plan) => plan,
            Err(error) => return self.send(&answer::result(&id, &Told::failed(&error.to_string()).result())),
        };
        let cancelled = Arc::new(AtomicBool::new(false));
        {
            let mut running = locked(&self.shared.running);
            if running.contains_key(&id) {
                drop(running);
                return self.send(&answer::error(&id, answer::BAD_REQUEST, "a call of this id is under way"));
            }
            if running.len() >= CALLS_MAX {
                drop(running);
                let words = "8 calls are under way; wait for the end of one, or cancel it";
                return self.send(&answer::result(&id, &Told::failed(words).result()));
            }
            running.insert(id.clone(), Arc::clone(&cancelled));
        }
        let shared = Arc::clone(&self.shared);
        self.threads.push(std::thread::spawn(move || {
            let told = shared.carry_out(&plan, &cancelled, progress.as_ref());
            locked(&shared.running).remove(&id);
            // A cancelled request has no answer (MCP, Cancellation).
            if !cancelled.load(Ordering::Relaxed) {
                shared.send(&answer::result(&id, &told.result()));
            }
        }));
    }

    /// Stops a call. One that is over already is none that is under way: nothing is to be done.
    pub(super) fn cancel(&self, id: &Id) {
        if let Some(cancelled) = locked(&self.shared.running).get(id) {
            cancelled.store(true, Ordering::Relaxed);
        }
    }

    /// Ends: calls under way go on to their answers if the client only said that it asks no more, and are stopped once
    /// this server is to end.
    pub(super) fn end(self, stop: &Stop) {
        while !self.threads.iter().all(JoinHandle::is_finished) {
            if stop.asked() || self.is_unheard() {
                self.shared.cancel_all();
            }
            std::thread::sleep(LOOK);
        }
    }
}

impl Shared {
    fn send(&self, message: &Value) {
        let mut out = locked(&self.out);
        if writeln!(out, "{message}").and_then(|()| out.flush()).is_err() {
            self.is_unheard.store(true, Ordering::Relaxed);
        }
    }

    fn cancel_all(&self) {
        locked(&self.running).values().for_each(|cancelled| cancelled.store(true, Ordering::Relaxed));
    }

    /// Runs the commands of a plan, one after the other.
    fn carry_out(&self, plan: &Plan, cancelled: &AtomicBool, progress: Option<&Value>) -> Told {
        let expected_s: f64 = plan.steps.iter().map(|step| step.expected_s).sum();
        let _turn = if expected_s > 0.0 { self.turn(cancelled) } else { None };
        let mut done = Vec::new();
        let mut before = Duration::ZERO;
        for step in &plan.steps {
            if cancelled.load(Ordering::Relaxed) {
                break;
            }
            let mut last = Duration::ZERO;
            let mut tell = |elapsed: Duration| {
                last = elapsed;
                if let Some(token) = progress {
                    let done_s = (before + elapsed).as_secs_f64();
                    // What a command does beside the load is not foreseen: no call is more than done.
                    let total_s = expected_s.max(done_s + 1.0);
                    self.send(&answer::progress(token, done_s, total_s, &format!("weir {}", step.words[0])));
                }
            };
            match child::run(step, &self.place.root, cancelled, &mut tell) {
                Ok(one) => {
                    let is_over = one.output.is_empty();
                    done.push(one);
                    if is_over {
                        break;
                    }
                }
                Err(error) => return Told::failed(&format!("weir {} does not start: {error}", step.words[0])),
            }
            before += last.max(Duration::from_secs_f64(step.expected_s));
        }
        plan.told(&done)
    }

    /// Waits for the end of other measurements; `None` once the call is cancelled.
    fn turn(&self, cancelled: &AtomicBool) -> Option<MutexGuard<'_, ()>> {
        while !cancelled.load(Ordering::Relaxed) {
            match self.turn.try_lock() {
                Ok(turn) => return Some(turn),
                Err(TryLockError::Poisoned(turn)) => return Some(turn.into_inner()),
                Err(TryLockError::WouldBlock) => std::thread::sleep(LOOK),
            }
        }
        None
    }
}
