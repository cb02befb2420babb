//! What is about to run.

use crate::arguments::Arguments;
use crate::options::Plan;
use crate::output::Output;
use crate::wrong::Wrong;
use weir_scenario::executors::Executor;
use weir_terminal::output::print;

/// What is about to run, as k6 says it.
pub(crate) fn heading(arguments: &Arguments, plan: &Plan) -> Result<(), Wrong> {
    let users: u64 = plan.scenarios.iter().map(|scenario| u64::from(scenario.executor.users_max())).sum();
    let longest = plan.scenarios.iter().map(|one| one.start + one.executor.duration() + one.graceful_stop).max();
    let longest = crate::time::short(longest.unwrap_or_default());
    let count = plan.scenarios.len();
    let plural = if count == 1 { "" } else { "s" };
    let outputs = match arguments.outputs.as_slice() {
        [] => "-".to_owned(),
        all => all.iter().map(Output::words).collect::<Vec<_>>().join(", "),
    };
    let mut words = format!(
        "\n     execution: local\n        script: {}\n        output: {outputs}\n\n     scenarios: (100.00%) {count} scenario{plural}, \
         {users} max VUs, {longest} max duration (incl. graceful stop):\n",
        arguments.script.display()
    );
    for scenario in &plan.scenarios {
        let short = crate::time::short;
        let what = match &scenario.executor {
            Executor::Constant { users, duration } => format!("{users} looping VUs for {}", short(*duration)),
            Executor::Ramping { stages, .. } => format!(
                "Up to {} looping VUs for {} over {} stages",
                scenario.executor.users_max(),
                short(scenario.executor.duration()),
                stages.len()
            ),
            Executor::Shared { users, iterations, duration } => {
                format!("{iterations} iterations shared among {users} VUs (maxDuration: {})", short(*duration))
            }
            Executor::PerUser { users, iterations, duration } => {
                format!("{iterations} iterations for each of {users} VUs (maxDuration: {})", short(*duration))
            }
            Executor::Arrivals { profile, users, users_max } => format!(
                "{:.2} iterations in all for {} (maxVUs: {users}-{users_max})",
                profile.arrivals(),
                short(profile.duration())
            ),
        };
        words.push_str(&format!("              * {}: {what}\n", scenario.name));
    }
    words.push('\n');
    print(&words).map_err(|wrong| Wrong::system(&wrong))
}
