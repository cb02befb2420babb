//! The `weir plan` command: how many nodes a site needs, and what belongs on which.

mod json;
mod options;
mod page;
mod placed;
mod planned;
mod report;
mod service;
mod table;
mod warnings;
mod words;

use anyhow::{Context, bail};
use options::Options;
use planned::Planned;
use std::fs::File;
use std::process::ExitCode;
use weir_measure::objective::Objective;
use weir_plan::{Cluster, Found, Limits, Log, NODES_MAX, Policy, Scenario, Tried, is_within, search};
use weir_terminal::output;

const EXAMPLES: &str = "\
Examples:
  weir plan access.log --service 2ms --slo 'p95<200ms'
      the fewest nodes, and the least storage, with which the objective is met
  weir plan access.log* --service 300us --bandwidth 50MB/s --slo 'p99<50ms' \\
      --growth 10x --busiest 1h
      for ten times the visitors, in the busiest hour; .gz is read, too
  weir load -c 1 -d 5s --json http://localhost/small.html > small.json
  weir load -c 1 -d 5s --json http://localhost/large.iso > large.json
  weir plan access.log --measured small.json --measured large.json --nodes 4
      how 4 nodes would do by each policy, with service times of your server
  weir plan access.log --service 2ms --nodes 4 --policy full --policy top=12%
      these two policies only
  weir plan access.log --service 2ms --slo 'p95<200ms' --placement where.tsv
      and which object belongs on which node
  weir plan access.log --service 2ms --slo 'p95<200ms' --html plan.html
      with charts against nodes and replicas
  weir plan --json access.log --service 2ms --slo 'p95<200ms' | jq .best
      for a program

Logs are in Common or Combined Log Format, also with other fields and times
(Kubernetes ingress, lighttpd, Traefik, HAProxy, Envoy, S3, AWS load balancers),
the W3C's (IIS, CloudFront), objects of JSON (Caddy, Traefik, nginx, ECS,
Docker), or the World Cup's records of 20 bytes. An object is a path without its
query. A request that was answered with 400 or above is work, but no node keeps
its object. A response time counts from the request's arrival to the end of its
service, without the network.

Exit status: 0 with a plan, 1 if no plan meets the objective or a log cannot be
read, 2 for wrong usage.";

/// Calculate how many nodes a site needs, and which objects belong on which, from its access log.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    options: Options,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let options = &args.options;
    let log = read(options)?;
    let (service, service_words) = service::of(options)?;
    let mut warnings = warnings::of_log(&log);
    let seeds = options.seeds_for(log.requests(), &mut warnings);
    let scenario = Scenario::new(
        &log,
        &service,
        options.growth,
        options.within(),
        // Behind the largest seed comes the smallest.
        (0..seeds).map(|number| options.seed.wrapping_add(number)),
    );
    let cluster = options.cluster();
    let limits = options.slo.map(|objective| limits(objective, options.nodes)).transpose()?;
    let found = match limits {
        Some(limits) if options.policy.is_empty() => search(&scenario, &cluster, limits),
        _ => compare(&scenario, &cluster, limits, options),
    };
    let mut planned = Planned {
        service,
        service_words,
        cluster,
        limits,
        objective: options.slo.map(|_| options.slo_text()),
        growth: options.growth,
        seeds,
        found,
        warnings,
        log: &log,
    };
    planned.warnings.extend(warnings::of_plans(&planned, scenario.load()));
    // Charts and placements simulate once more, with what the best plan, or the first, says.
    let chosen = planned.best().or(planned.found.tried.first()).map(|tried| (tried.nodes, tried.policy));
    let curves = match (&options.html, chosen) {
        (Some(_), Some((nodes, _))) => Some(page::Curves::of(&scenario, &planned, nodes)),
        _ => None,
    };
    if let (Some(file), Some((nodes, policy))) = (&options.placement, chosen) {
        let cluster = Cluster { nodes, ..cluster };
        let outcome = scenario.outcomes(&cluster, &policy).next().context("there is a seed")?;
        placed::write(file, &log, &outcome.placement)
            .with_context(|| format!("--placement: cannot write {}", file.display()))?;
    }
    if let (Some(file), Some(curves)) = (&options.html, curves) {
        let names: Vec<String> = options.logs.iter().map(|log| log.display().to_string()).collect();
        let subject = names.join(" ");
        std::fs::write(file, weir_report::planned_html(&page::page(&planned, curves, subject)))
            .with_context(|| format!("--html: cannot write {}", file.display()))?;
    }
    if options.json {
        output::print(&format!("{}\n", serde_json::to_string_pretty(&json::of(&planned))?))?;
    } else {
        output::print(&report::report(&planned, output::columns()))?;
    }
    let is_answered = planned.limits.is_none() || planned.best().is_some();
    Ok(if is_answered { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn read(options: &Options) -> anyhow::Result<Log> {
    let open = |path: &std::path::PathBuf| {
        let name = path.display().to_string();
        let file = File::open(path).with_context(|| format!("cannot read {name}"))?;
        Ok((name, file))
    };
    let logs = options.logs.iter().map(open).collect::<anyhow::Result<Vec<_>>>()?;
    let log = Log::read(logs).map_err(|(name, error)| anyhow::Error::from(error).context(name))?;
    let left_out = warnings::left_out(log.left_out(), log.requests());
    if log.requests() == 0 {
        let zeros = log.unread().zeros;
        let zeros = (zeros > 0).then(|| format!("{zeros} bytes that are 0 are in front of its lines, or all of it"));
        let why = left_out.or(zeros).unwrap_or_else(|| "they are empty".to_owned());
        bail!("there is no request in the logs: {why}");
    }
    if let Some(why) = left_out.filter(|_| log.left_out().is_most(log.requests())) {
        bail!("most of the logs cannot be read, so a plan would say nothing: {why}; give the lines of requests only");
    }
    Ok(match options.busiest {
        Some(stretch) => log.busiest(u32::try_from(stretch.as_secs()).unwrap_or(u32::MAX)),
        None => log,
    })
}

fn limits(objective: Objective, nodes: Option<u32>) -> anyhow::Result<Limits> {
    match objective {
        Objective::Latency { share, limit_ns } => Ok(Limits { share, limit_ns, nodes_max: nodes.unwrap_or(NODES_MAX) }),
        Objective::Errors { .. } => bail!("--slo: a plan is made for a time, such as 'p95<200ms'"),
    }
}

/// The policies that were asked for, or all, on as many nodes as there are.
fn compare(scenario: &Scenario<'_>, cluster: &Cluster, limits: Option<Limits>, options: &Options) -> Found {
    let nodes = options.nodes.unwrap_or(1);
    let cluster = Cluster { nodes, limit_ns: limits.map(|limits| limits.limit_ns), ..*cluster };
    let tried = |policy: &Policy| {
        let figures = scenario.repeat(&cluster, policy, limits.map(|limits| limits.share));
        let is_met = limits.is_some_and(|limits| is_within(figures.missed_share, limits.share));
        Tried { nodes, policy: *policy, figures, is_met }
    };
    let tried: Vec<Tried> = options.policies().iter().map(tried).collect();
    let met = tried.iter().enumerate().filter(|(_, tried)| tried.is_met);
    let best = met.min_by(|one, other| one.1.figures.storage.mean.total_cmp(&other.1.figures.storage.mean));
    Found { best: best.map(|(at, _)| at), tried }
}
