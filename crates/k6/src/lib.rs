//! `weir k6`: scripts of k6 as they are, on our engine.
//!
//! Each user has a JavaScript runtime of its own in a coroutine of its own: scripts of k6 are synchronous, so a request
//! suspends one in the middle. The users are behaviours of [`weir_scenario`], which owns their requests, executors and
//! metrics.

mod arguments;
mod cookies;
mod digest_auth;
mod hash;
mod heading;
mod html;
mod options;
mod outcome;
mod output;
mod reaching;
#[doc(hidden)]
pub mod readers;
mod report;
mod run;
mod script;
mod selector;
mod summary;
mod time;
mod wrong;

use arguments::Asked;
use std::ffi::OsString;
use std::process::ExitCode;
use weir_terminal::output::print;

const USAGE: &str = "\
Usage: weir k6 [run] [options] SCRIPT.js

  -u, --vus N                 users (1)
  -d, --duration T            how long iterations begin
  -i, --iterations N          iterations of all users together
  -s, --stage T:N[,T:N]       users that change: to N within T
  -e, --env NAME=VALUE        a variable of __ENV
      --tag NAME=VALUE        a tag of all values
  -c, --config FILE           options as JSON, behind those of the script
  -o, --out json=FILE|csv=FILE  each value, one by one (.gz packs JSON or CSV)
      --no-setup              without setup()
      --no-teardown           without teardown()
      --no-thresholds         without thresholds
      --no-summary            without a summary
      --summary-export FILE   the summary as JSON
      --summary-trend-stats L what is told of trends: avg,p(95),...
      --summary-time-unit U   s, ms or us
      --max-redirects N       redirects that are followed (10)
      --batch N               requests of a batch at a time (20)
      --batch-per-host N      those of them to one host (6)
      --user-agent TEXT       the User-Agent header
      --insecure-skip-tls-verify, --no-connection-reuse,
      --no-vu-connection-reuse, --discard-response-bodies
      --min-iteration-duration T  how long an iteration takes at least
  -w, --throw                 failed requests throw
  -q, --quiet                 the summary alone
      --no-color              without colours
      --include-system-env-vars=false  __ENV without the environment
      --script-limit T        longest time of a script without waiting (10s)
      --memory-limit MIB      most memory of a user's script (256)

Exit status, as k6 has it: 0; 99 a threshold is missed; 104 options that cannot
be followed; 105 ended by a signal; 107 the script threw before the run, in
setup() or in teardown(); 108 the script aborted the test; 110 it marked the
test as failed. 2: a wrong command line, or a module or file that is not there.
";

/// Runs the command; `program` is the name that it was called by.
///
/// # Errors
/// Its report cannot be written.
pub fn run(program: &str, words: Vec<OsString>) -> anyhow::Result<ExitCode> {
    let mut texts = Vec::with_capacity(words.len());
    for word in words {
        match word.into_string() {
            Ok(text) => texts.push(text),
            Err(word) => {
                eprintln!("{program}: {}: a word is no UTF-8; rename the file", word.display());
                return Ok(ExitCode::from(wrong::USAGE));
            }
        }
    }
    let asked = arguments::parse(&texts).and_then(|asked| match asked {
        Asked::Run(mut arguments) => {
            arguments.take_environment(|name| std::env::var(name).ok())?;
            Ok(Asked::Run(arguments))
        }
        other => Ok(other),
    });
    match asked {
        Ok(Asked::Help) => Ok(print(USAGE).map(|()| ExitCode::SUCCESS)?),
        Ok(Asked::Version) => {
            let text = format!("{program}: scripts of k6 1 as weir {} has them, by QuickJS\n", weir_terminal::VERSION);
            Ok(print(&text).map(|()| ExitCode::SUCCESS)?)
        }
        Ok(Asked::Run(arguments)) => Ok(ExitCode::from(whole(program, &arguments))),
        Err(mistake) => {
            eprintln!("{program}: {mistake}");
            Ok(ExitCode::from(wrong::USAGE))
        }
    }
}

/// Makes a run and prints what came of it; the exit status.
fn whole(program: &str, arguments: &arguments::Arguments) -> u8 {
    let told = |words: &str| eprintln!("{program}: {words}");
    let made = match run::run(arguments) {
        Ok(made) => made,
        Err(mistake) => {
            told(&mistake.to_string());
            return mistake.status;
        }
    };
    let missed = match report::end(arguments, &made) {
        Ok(missed) => missed,
        Err(mistake) => {
            told(&mistake.to_string());
            return mistake.status;
        }
    };
    missed.mistakes.iter().for_each(|mistake| told(mistake));
    report::beside(arguments, &made);
    let (status, why) = report::status(&made);
    if let Some(why) = why {
        told(&why);
    }
    if status == 0 && missed.is_unwritten { wrong::OTHER } else { status }
}
