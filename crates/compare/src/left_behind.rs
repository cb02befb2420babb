//! What a server leaves behind: processes that left its process group and its session, such as daemons that it forked.
//!
//! Where it has a control group of its own they are still in that. Where it has none they are known by a variable of their
//! environment, which every descendant inherits unless it clears it. Should we be killed, the guardian looks for it.
use std::fs;
use std::time::{Duration, Instant};

/// Names the process that was started for an experiment, in the environment of all that it starts.
pub(crate) const MARK: &str = "WEIR_COMPARE_SUBJECT";
/// How long the ended may take to be gone.
const PATIENCE: Duration = Duration::from_secs(2);

/// Kills every process that has the mark, and waits until it is gone.
pub(crate) fn end(mark: &str) {
    let began = Instant::now();
    loop {
        let left = marked(mark);
        for pid in &left {
            // SAFETY: a signal to a process that carries our mark.
            unsafe { libc::kill(*pid, libc::SIGKILL) };
        }
        if left.is_empty() || began.elapsed() > PATIENCE {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The living processes with the mark.
fn marked(mark: &str) -> Vec<libc::pid_t> {
    let variable = format!("{MARK}={mark}");
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbered = processes.filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path())));
    // The environment of a process that ended and was not waited for is empty.
    let has_it = |path: &std::path::Path| {
        let environment = fs::read(path.join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|entry| entry == variable.as_bytes())
    };
    numbered.filter(|(_, path)| has_it(path)).map(|(pid, _)| pid).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_its_mark_and_ended() {
        let mark = format!("test-{}", std::process::id());
        let mut command = std::process::Command::new("sleep");
        let mut child = command.arg("60").env(MARK, &mark).spawn().expect("sleep is there");
        // The kernel shows the environment a moment after the program was exchanged.
        let began = Instant::now();
        while marked(&mark).is_empty() && began.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(marked(&mark), [child.id() as libc::pid_t]);
        assert!(marked(&mark[..mark.len() - 1]).is_empty());
        end(&mark);
        assert!(!child.wait().expect("our child").success());
    }
}
