//! What a transaction costs its program: CPU time of a start and a stop through `libarm4.so`, with an agent that
//! listens and without one, beside two bare readings of the clock and beside another way to do the same.
//!
//! All take turns within each round; what is shown is the median of the rounds. CPU time of the threads themselves is
//! measured, so that neither a busy machine nor more threads than CPUs count. Between the timed batches each thread empties
//! its lane, in the agent's place.

use anyhow::{Context, bail, ensure};
use clap::Parser;
use std::ffi::{CString, c_void};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::ptr;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use weir_wire::arm::{
    HEAD_HEARTBEAT, Handle, LANE_DROPPED, LANE_READ, LANE_SLOTS, LANE_WRITTEN, LANES, LANES_AT, POSITION_WORDS,
    POSITIONS_AT,
};

#[derive(Debug, Parser)]
struct Arguments {
    /// The library; without it, the one that was built beside this program
    library: Option<String>,
    /// Rounds, in each of which everything has its turn
    #[arg(short, long, default_value_t = 30)]
    rounds: usize,
    /// Batches of 4,000 pairs that a thread makes in a turn
    #[arg(short, long, default_value_t = 50)]
    batches: u64,
    /// Threads at once
    #[arg(short, long, value_delimiter = ',', default_values_t = [1, 2, 4])]
    threads: Vec<usize>,
    /// A program that does the same in another way: for each line `THREADS PAIRS` it answers nanoseconds of a pair in
    /// its threads, and in the whole process
    #[arg(long)]
    beside: Option<String>,
}

/// Pairs of a batch: what a lane holds.
const BATCH: u64 = 4000;
const _: () = assert!(2 * BATCH < LANE_SLOTS as u64);

type Id = [u64; 2];
type RegisterApplication = unsafe extern "C" fn(*const i8, *const Id, i32, *const c_void, *mut Id) -> i32;
type RegisterTransaction = unsafe extern "C" fn(*const Id, *const i8, *const Id, i32, *const c_void, *mut Id) -> i32;
type StartApplication = unsafe extern "C" fn(*const Id, *const i8, *const i8, i32, *const c_void, *mut i64) -> i32;
type Start = unsafe extern "C" fn(i64, *const Id, *const u8, i32, *const c_void, *mut i64, *mut u8) -> i32;
type Stop = unsafe extern "C" fn(i64, i32, i32, *const c_void) -> i32;

/// The library in use, and its memory as an agent has it.
struct Arm {
    start: Start,
    stop: Stop,
    instance: i64,
    transaction: Id,
    head: *const AtomicU64,
}

// SAFETY: the functions may be called from any thread, and the memory holds atomics only.
unsafe impl Sync for Arm {}

impl Arm {
    fn load(path: &str) -> anyhow::Result<Self> {
        let path = CString::new(path)?;
        // SAFETY: the library's own code runs at its loading.
        let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
        ensure!(!library.is_null(), "{} cannot be loaded: cargo build --release -p weir-arm-c", path.to_string_lossy());
        let find = |name: &str| -> anyhow::Result<*mut c_void> {
            let name = CString::new(name)?;
            // SAFETY: the handle is that of the library above, which is never closed.
            let found = unsafe { libc::dlsym(library, name.as_ptr()) };
            ensure!(!found.is_null(), "{} is not in the library", name.to_string_lossy());
            Ok(found)
        };
        let (mut application, mut transaction, mut instance) = (Id::default(), Id::default(), 0);
        // SAFETY: the types are those that arm4.h declares for these names, and every pointer is valid or null.
        let (start, stop) = unsafe {
            let register: RegisterApplication = std::mem::transmute(find("arm_register_application")?);
            let register_transaction: RegisterTransaction = std::mem::transmute(find("arm_register_transaction")?);
            let start_application: StartApplication = std::mem::transmute(find("arm_start_application")?);
            register(c"arm-pair".as_ptr(), ptr::null(), 0, ptr::null(), &raw mut application);
            register_transaction(
                &raw const application,
                c"pair".as_ptr(),
                ptr::null(),
                0,
                ptr::null(),
                &raw mut transaction,
            );
            start_application(&raw const application, ptr::null(), ptr::null(), 0, ptr::null(), &raw mut instance);
            let start: Start = std::mem::transmute(find("arm_start_transaction")?);
            let stop: Stop = std::mem::transmute(find("arm_stop_transaction")?);
            (start, stop)
        };
        Ok(Self { start, stop, instance, transaction, head: memory()? })
    }

    fn listen(&self, whether: bool) {
        self.word(HEAD_HEARTBEAT).store(u64::from(whether), Ordering::Release);
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        // SAFETY: the head is mapped for good, and the indices are the layout's.
        unsafe { &*self.head.add(index) }
    }

    fn position(&self, lane: usize, index: usize) -> &AtomicU64 {
        self.word(POSITIONS_AT / 8 + lane * POSITION_WORDS + index)
    }

    /// One thread's batches; gives nanoseconds of its CPU time for a pair.
    fn pairs(&self, batches: u64) -> f64 {
        let (mut handle, mut spent) = (0_i64, 0);
        for batch in 0..=batches {
            let before = cpu_ns();
            for _ in 0..BATCH {
                // SAFETY: as `arm4.h` declares.
                unsafe {
                    (self.start)(
                        self.instance,
                        &raw const self.transaction,
                        ptr::null(),
                        0,
                        ptr::null(),
                        &raw mut handle,
                        ptr::null_mut(),
                    );
                    (self.stop)(handle, 0, 0, ptr::null());
                }
            }
            // The first batch warms up.
            spent += if batch == 0 { 0 } else { cpu_ns() - before };
            if handle != 0 {
                let lane = Handle(handle as u64).lane() as usize;
                let written = self.position(lane, LANE_WRITTEN).load(Ordering::Acquire);
                self.position(lane, LANE_READ).store(written, Ordering::Release);
            }
        }
        spent as f64 / (batches * BATCH) as f64
    }
}

/// The head of this process's own memory for ARM.
fn memory() -> anyhow::Result<*const AtomicU64> {
    for entry in std::fs::read_dir("/proc/self/fd")?.flatten() {
        let target = std::fs::read_link(entry.path()).unwrap_or_default();
        if !target.to_string_lossy().starts_with("/memfd:weir-arm") {
            continue;
        }
        let descriptor: i32 = entry.file_name().to_string_lossy().parse()?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping of the library's own file, whose size is sealed.
        let head = unsafe { libc::mmap(ptr::null_mut(), LANES_AT, protection, libc::MAP_SHARED, descriptor, 0) };
        ensure!(head != libc::MAP_FAILED, "the memory cannot be mapped");
        return Ok(head.cast());
    }
    bail!("the library has made no memory: is there a limit on the size of files (ulimit -f)?")
}

fn read_clock(which: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the place is this function's own.
    unsafe { libc::clock_gettime(which, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn cpu_ns() -> u64 {
    read_clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Two readings of the clock for each pair.
fn clock(batches: u64) -> f64 {
    let before = cpu_ns();
    let mut last = 0;
    for _ in 0..2 * batches * BATCH {
        last = std::hint::black_box(read_clock(libc::CLOCK_MONOTONIC)).max(last);
    }
    (cpu_ns() - before) as f64 / (batches * BATCH) as f64
}

/// The mean of what so many threads at once say of themselves.
fn at_once(threads: usize, run: impl Fn() -> f64 + Sync) -> anyhow::Result<f64> {
    let begin = Barrier::new(threads);
    let sum: anyhow::Result<f64> = std::thread::scope(|scope| {
        let one = || {
            begin.wait();
            run()
        };
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(one)).collect();
        running.into_iter().map(|thread| thread.join().ok().context("a thread ended early")).sum()
    });
    Ok(sum? / threads as f64)
}

/// The program beside.
struct Beside {
    child: Child,
    asked: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Beside {
    fn start(program: &str) -> anyhow::Result<Self> {
        let mut child = Command::new(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("{program} cannot be started"))?;
        let (asked, answers) = (child.stdin.take(), child.stdout.take());
        let (asked, answers) = (asked.context("its input")?, BufReader::new(answers.context("its output")?));
        Ok(Self { child, asked, answers })
    }

    fn turn(&mut self, threads: usize, pairs: u64) -> anyhow::Result<[f64; 2]> {
        writeln!(self.asked, "{threads} {pairs}")?;
        self.asked.flush()?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        let mut numbers = line.split_whitespace().map(str::parse);
        let (Some(Ok(own)), Some(Ok(whole))) = (numbers.next(), numbers.next()) else { bail!("it said {line:?}") };
        Ok([own, whole])
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let beside_us = std::env::current_exe()?.with_file_name("libarm4.so").to_string_lossy().into_owned();
    let arm = Arm::load(&arguments.library.unwrap_or(beside_us))?;
    let mut beside = arguments.beside.as_deref().map(Beside::start).transpose()?;
    let batches = arguments.batches.max(1);
    println!(
        "| threads | two readings of the clock, ns | no agent listens | an agent listens | beside: its threads | its process |"
    );
    println!("|---|---|---|---|---|---|");
    for threads in arguments.threads {
        ensure!((1..=LANES / 2).contains(&threads), "threads: 1 to {}", LANES / 2);
        let mut found: [Vec<f64>; 5] = Default::default();
        for round in 0..arguments.rounds.max(1) {
            for turn in 0..4 {
                // Each round begins with another.
                match (round + turn) % 4 {
                    0 => found[0].push(at_once(threads, || clock(batches))?),
                    1 => {
                        arm.listen(false);
                        found[1].push(at_once(threads, || arm.pairs(batches))?);
                    }
                    2 => {
                        arm.listen(true);
                        found[2].push(at_once(threads, || arm.pairs(batches))?);
                    }
                    _ => {
                        let Some(beside) = &mut beside else { continue };
                        // It is slow enough for a tenth of the pairs.
                        let [own, whole] = beside.turn(threads, batches * BATCH / 10)?;
                        found[3].push(own);
                        found[4].push(whole);
                    }
                }
            }
        }
        let shown = found.map(|mut values| match median(&mut values) {
            median if median.is_nan() => "-".to_owned(),
            median => format!("{median:.1}"),
        });
        println!("| {threads} | {} |", shown.join(" | "));
    }
    let dropped: u64 = (0..LANES).map(|lane| arm.position(lane, LANE_DROPPED).load(Ordering::Relaxed)).sum();
    println!("\n{dropped} records dropped.");
    if let Some(beside) = beside {
        drop(beside.asked);
        let mut child = beside.child;
        child.wait()?;
    }
    Ok(())
}
