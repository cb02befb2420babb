//! What a server's program says about itself.

use super::{Process, process};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long a server's program may take to tell about itself.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of what it tells.
const MOST_ANSWER: u64 = 1 << 20;

/// What a server's program says about itself, both streams; nothing if it takes too long, or if a user other than root
/// and us can write the program: we may be root.
pub(super) fn ask(process: &Process, arguments: &[&str]) -> String {
    let program = &process.program;
    if !process.is_near || !process::is_trusted(program) {
        return String::new();
    }
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let Ok(mut child) = command.spawn() else { return String::new() };
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let reader = std::thread::spawn(move || {
        use std::io::Read;
        let mut text = Vec::new();
        // What cannot be read is missing from the answer, as if it had not been said.
        let _ = stdout.map(|pipe| pipe.take(MOST_ANSWER).read_to_end(&mut text));
        let _ = stderr.map(|pipe| pipe.take(MOST_ANSWER).read_to_end(&mut text));
        String::from_utf8_lossy(&text).into_owned()
    });
    let deadline = Instant::now() + PATIENCE;
    while matches!(child.try_wait(), Ok(None)) {
        if Instant::now() >= deadline {
            let _ = child.kill();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    reader.join().unwrap_or_default()
}
