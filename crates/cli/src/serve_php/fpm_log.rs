//! What php-fpm writes: lines of its log, and the log of slow requests with the stacks of their workers.

/// A line of php-fpm's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Line {
    /// A worker has run a request for too long.
    Slow(Slow),
    /// php-fpm may not look into a worker, in its words.
    NoTrace(String),
    /// A warning or an error, or a line that a worker has written.
    Told(String),
    /// Of no interest to an operator.
    Quiet,
}

/// A worker that has run a request for too long.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Slow {
    pub(super) pid: u32,
    pub(super) script: String,
    /// Method, path of the script and query.
    pub(super) request: String,
    pub(super) for_ms: u64,
}

/// The stack of a worker.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Stack {
    pub(super) pid: u32,
    /// The innermost function first.
    pub(super) frames: Vec<String>,
}

/// Functions of a stack that are told.
const FRAMES_MAX: usize = 20;
/// Bytes of a line that are told.
const LINE_BYTES_MAX: usize = 1024;

/// Reads a line of php-fpm's log.
pub(super) fn line(text: &str) -> Line {
    let text = plain(text);
    let bare = without_time(&text);
    let Some((level, rest)) = bare.split_once(": ").filter(|(level, _)| is_level(level)) else {
        return if bare.is_empty() { Line::Quiet } else { Line::Told(text) };
    };
    if let Some(slow) = slow(rest) {
        return Line::Slow(slow);
    }
    if rest.contains("ptrace") || rest.contains("slowlog") {
        return Line::NoTrace(rest.to_owned());
    }
    if matches!(level, "NOTICE" | "DEBUG") { Line::Quiet } else { Line::Told(rest.to_owned()) }
}

fn is_level(text: &str) -> bool {
    ["DEBUG", "NOTICE", "WARNING", "ERROR", "ALERT"].contains(&text)
}

/// A line without what a terminal would take for more than text, and not too long.
fn plain(text: &str) -> String {
    let mut plain: String = text.trim_end().chars().filter(|letter| !letter.is_control()).collect();
    let end = (0..=LINE_BYTES_MAX.min(plain.len())).rev().find(|at| plain.is_char_boundary(*at)).unwrap_or(0);
    plain.truncate(end);
    plain
}

/// A line without the time in brackets before it.
fn without_time(text: &str) -> &str {
    let rest = text.strip_prefix('[').and_then(|rest| rest.split_once("] "));
    rest.filter(|(time, _)| time.starts_with(|letter: char| letter.is_ascii_digit())).map_or(text, |(_, rest)| rest)
}

/// `[pool NAME] child 7, script '/a.php' (request: "GET /a.php") executing too slow (5.01 sec), logging`
fn slow(text: &str) -> Option<Slow> {
    let (_, rest) = text.split_once("] child ")?;
    let (pid, rest) = rest.split_once(", script '")?;
    // A name may have anything in it: the marks behind it are looked for from the end.
    let (rest, seconds) = rest.rsplit_once(") executing too slow (")?;
    let (script, request) = rest.rsplit_once("' (request: \"")?;
    let (seconds, _) = seconds.split_once(" sec)")?;
    let seconds: f64 = seconds.parse().ok().filter(|seconds: &f64| (0.0..1e9).contains(seconds))?;
    Some(Slow {
        pid: pid.parse().ok()?,
        script: script.to_owned(),
        request: request.strip_suffix('"').unwrap_or(request).to_owned(),
        // It is within the bounds.
        for_ms: (seconds * 1000.0) as u64,
    })
}

/// Reads what was written to the log of slow requests. Only what ends with a whole line counts; how many bytes that is.
pub(super) fn stacks(text: &str) -> (Vec<Stack>, usize) {
    let whole = text.rfind('\n').map_or(0, |end| end + 1);
    let mut stacks: Vec<Stack> = Vec::new();
    for line in text[..whole].lines() {
        if let Some((_, pid)) = line.split_once("] pid ").filter(|_| line.starts_with('[')) {
            stacks.push(Stack { pid: pid.trim().parse().unwrap_or(0), frames: Vec::new() });
        } else if let (Some(frame), Some(stack)) = (line.strip_prefix("[0x"), stacks.last_mut()) {
            let frame = frame.split_once("] ").map_or(frame, |(_, frame)| frame);
            if stack.frames.len() < FRAMES_MAX {
                stack.frames.push(plain(frame));
            }
        }
    }
    (stacks, whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_of_the_log_are_told_apart() {
        let of = |text: &str| line(&format!("[28-Nov-2026 04:00:00] {text}"));
        assert_eq!(of("NOTICE: fpm is running, pid 7"), Line::Quiet);
        assert_eq!(
            of("WARNING: [pool a] child 8 exited on signal 9 (SIGKILL) after 3.0 seconds from start"),
            Line::Told("[pool a] child 8 exited on signal 9 (SIGKILL) after 3.0 seconds from start".to_owned())
        );
        assert_eq!(line("a worker's own line: x\u{1b}[31m\n"), Line::Told("a worker's own line: x[31m".to_owned()));
        assert_eq!(line("\n"), Line::Quiet);
        let text = "WARNING: [pool a] child 8, script '/srv/it's (x).php' (request: \"GET /a.php?b=\"c\"\") executing too \
                    slow (5.012 sec), logging";
        let slow = Slow {
            pid: 8,
            script: "/srv/it's (x).php".to_owned(),
            request: "GET /a.php?b=\"c\"".to_owned(),
            for_ms: 5012,
        };
        assert_eq!(of(text), Line::Slow(slow));
        let refused = "failed to ptrace(ATTACH) child 8: Operation not permitted (1)";
        assert_eq!(of(&format!("ERROR: {refused}")), Line::NoTrace(refused.to_owned()));
    }

    #[test]
    fn stacks_are_read_as_far_as_they_are_written() {
        let text = "\n[28-Nov-2026 04:00:00]  [pool a] pid 8\nscript_filename = /srv/a.php\n\
                    [0x00007f00] sleep() /srv/a.php:3\n[0x00007f01] wait_for() /srv/a.php:9\n[0x00007f02] ma";
        let (read, bytes) = stacks(text);
        let frames = vec!["sleep() /srv/a.php:3".to_owned(), "wait_for() /srv/a.php:9".to_owned()];
        assert_eq!(read, [Stack { pid: 8, frames }]);
        assert!(text[bytes..].starts_with("[0x00007f02]"));
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "(?s).{0,200}", request in ".{0,20}", seconds in ".{0,9}") {
            let mark = format!("[pool a] child 8, script 'x' (request: {request}) executing too slow ({seconds} sec)");
            let _ = (line(&text), line(&format!("WARNING: {mark}")), stacks(&text));
        }
    }
}
