//! What connections and sessions ask, step by step.

use super::calls::Call;
use super::uris::Uris;
use std::time::Duration;
use weir_load::ListedRequest;
use weir_load::sessions::{Session, Think};

/// What is generated.
#[derive(Debug)]
pub(super) enum Workload {
    /// Connections of so many calls, in bursts (`--num-calls`, `--burst-length`).
    Connections { calls: u64, burst: u64 },
    /// Sessions of so many calls, in bursts with pauses between them (`--wsess`).
    Bursts { calls: u64, burst: u64, think: Duration },
    /// Sessions of a file (`--wsesslog`), and which one is next.
    Listed { requests: Vec<ListedRequest>, sessions: Vec<Session>, next: usize },
    /// Sessions of so many pages, with all that is embedded in them (`--wsesspage`).
    Pages { pages: u64, think: Duration },
}

/// How far a connection or session is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Progress {
    /// Which session of the file it is.
    listed: usize,
    /// Steps that were begun, and calls of former steps.
    step: usize,
    asked: u64,
}

/// What comes next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// These calls together, after a pause.
    Calls(Vec<Call>, Duration),
    /// It is complete.
    Complete,
    /// There are no more URIs.
    NoMore,
}

impl Workload {
    /// Whether it is sessions that are generated.
    pub(super) fn has_sessions(&self) -> bool {
        !matches!(self, Self::Connections { .. })
    }

    /// Begins a connection or session.
    pub(super) fn begin(&mut self) -> Progress {
        let mut progress = Progress::default();
        if let Self::Listed { sessions, next, .. } = self {
            progress.listed = *next;
            *next = (*next + 1) % sessions.len();
        }
        progress
    }

    /// The next step of one, all of whose calls so far are answered; numbers of calls go on from `number`.
    pub(super) fn next(&self, progress: &mut Progress, uris: &mut Uris, number: &mut u64) -> Next {
        let (count, pause) = match self {
            Self::Connections { calls, burst } => ((calls - progress.asked).min(*burst), Duration::ZERO),
            Self::Bursts { calls, burst, think } => {
                let (left, place) = (calls - progress.asked, progress.asked % burst);
                // A burst begins with one call; when that is answered, the others follow together.
                match place {
                    0 => (left.min(1), if progress.step > 0 { *think } else { Duration::ZERO }),
                    _ => (left.min(burst - place), Duration::ZERO),
                }
            }
            Self::Pages { pages, think } => {
                ((pages - progress.asked).min(1), if progress.step > 0 { *think } else { Duration::ZERO })
            }
            Self::Listed { requests, sessions, .. } => {
                return listed(requests, &sessions[progress.listed], progress, number);
            }
        };
        if count == 0 {
            return Next::Complete;
        }
        progress.step += 1;
        progress.asked += count;
        let mut calls = Vec::with_capacity(count as usize);
        for _ in 0..count {
            let Some(uri) = uris.next() else { break };
            calls.push(Call::get(*number, uri));
            *number += 1;
        }
        if calls.is_empty() { Next::NoMore } else { Next::Calls(calls, pause) }
    }
}

/// The next step of a session of a file.
fn listed(requests: &[ListedRequest], session: &Session, progress: &mut Progress, number: &mut u64) -> Next {
    // The pause belongs to the step before it.
    let before = progress.step.checked_sub(1).and_then(|before| session.each_burst().nth(before));
    let pause = match before {
        Some((_, Think::Fixed(pause))) => pause,
        _ => Duration::ZERO,
    };
    let Some((burst, _)) = session.each_burst().nth(progress.step) else { return Next::Complete };
    progress.step += 1;
    let call = |request: &u32| {
        let ListedRequest { url, request, .. } = &requests[*request as usize];
        *number += 1;
        Call::with(*number - 1, url.target.clone(), request.method.clone(), request.body.clone())
    };
    Next::Calls(burst.iter().map(call).collect(), pause)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_load::sessions::parse_sessions;
    use weir_load::{Request, Url};

    /// The steps of one session: how many calls each has, and the seconds before it.
    fn steps(workload: &mut Workload) -> Vec<(usize, f64)> {
        let (mut progress, mut uris, mut number) = (workload.begin(), Uris::One("/".to_owned()), 0);
        let mut steps = Vec::new();
        while let Next::Calls(calls, pause) = workload.next(&mut progress, &mut uris, &mut number) {
            steps.push((calls.len(), pause.as_secs_f64()));
        }
        assert_eq!(number, steps.iter().map(|(calls, _)| *calls as u64).sum::<u64>());
        steps
    }

    #[test]
    fn bursts_begin_with_one_call() {
        let think = Duration::from_secs(2);
        assert_eq!(
            steps(&mut Workload::Bursts { calls: 7, burst: 3, think }),
            [(1, 0.0), (2, 0.0), (1, 2.0), (2, 0.0), (1, 2.0)]
        );
        assert_eq!(steps(&mut Workload::Bursts { calls: 3, burst: 1, think }), [(1, 0.0), (1, 2.0), (1, 2.0)]);
        assert_eq!(steps(&mut Workload::Connections { calls: 7, burst: 3 }), [(3, 0.0), (3, 0.0), (1, 0.0)]);
        assert_eq!(steps(&mut Workload::Pages { pages: 2, think }), [(1, 0.0), (1, 2.0)]);
    }

    #[test]
    fn the_example_of_the_manual_is_two_sessions() {
        let text = "/foo.html think=2.0\n     /pict1.gif\n     /pict2.gif\n/foo2.html method=POST contents='Post data'\n \
                    /pict3.gif\n     /pict4.gif\n\n/foo3.html method=POST contents=\"Multiline\\ndata\"\n/foo4.html method=HEAD\n";
        let base = Url::parse("http://h/").expect("a URL");
        let think = Think::Fixed(Duration::from_secs(1));
        let (requests, sessions) = parse_sessions(text, Some(&base), &Request::default(), think).expect("a good file");
        let mut workload = Workload::Listed { requests, sessions, next: 0 };
        assert_eq!(steps(&mut workload), [(1, 0.0), (2, 0.0), (1, 2.0), (2, 0.0)]);
        assert_eq!(steps(&mut workload), [(1, 0.0), (1, 1.0)]);
        assert_eq!(steps(&mut workload).len(), 4, "from the first again");
    }

    #[test]
    fn a_list_that_is_over_ends_it() {
        let workload = Workload::Connections { calls: 5, burst: 2 };
        let mut uris = Uris::Log { list: vec!["/a".to_owned()], next: 0, wraps: false };
        let (mut progress, mut number) = (Progress::default(), 7);
        let wanted = Next::Calls(vec![Call::get(7, "/a".to_owned())], Duration::ZERO);
        assert_eq!(workload.next(&mut progress, &mut uris, &mut number), wanted);
        assert_eq!(workload.next(&mut progress, &mut uris, &mut number), Next::NoMore);
    }
}
