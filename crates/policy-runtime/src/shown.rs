//! What rules and the server know, in the form in which the environment has it.

use crate::environment::{ForecastNow, LinkOf, LinksNow, LinksOf, MethodNow, ReadingNow, Shares, WaitNow};
use crate::monitor::Wait;
use weir_adapt::forecast::{Errors, Said};
use weir_adapt::{Contests, Outcome, Resource};
use weir_server::{Expected, Insight};

/// Addresses, and as many networks, of which it is shown what is expected.
const LINKS_SHOWN: usize = 10;

/// What is expected of clients' links.
pub(crate) fn links(insight: &Insight) -> LinksNow {
    let [addresses, networks] = insight.expected(LINKS_SHOWN).map(links_of);
    LinksNow { addresses, networks }
}

fn links_of(expected: Expected) -> LinksOf {
    let shares = |values: Option<[f64; 3]>| values.map(|[p10, p50, p90]| Shares { p10, p50, p90 });
    let freshest = expected.freshest.into_iter().map(|one| {
        let known = [(Resource::Bandwidth, one.bandwidth_bps), (Resource::Rtt, one.rtt_s)];
        let known = known
            .into_iter()
            .filter_map(|(resource, value)| Some(format!("{} {}", resource.name(), resource.dimension().show(value?))));
        let shown: Vec<String> = known.collect();
        LinkOf {
            place: one.place,
            bandwidth_bps: one.bandwidth_bps,
            rtt_s: one.rtt_s,
            age_ms: one.age_ms,
            shown: shown.join(", "),
        }
    });
    LinksOf {
        kept: expected.kept,
        bandwidth_bps: shares(expected.bandwidth_bps),
        rtt_s: shares(expected.rtt_s),
        freshest: freshest.collect(),
    }
}

pub(crate) fn reading(resource: Resource, of: &str, value: f64) -> ReadingNow {
    let dimension = resource.dimension();
    ReadingNow {
        resource: resource.name().to_owned(),
        unit: dimension.unit().to_owned(),
        of: of.to_owned(),
        value,
        shown: dimension.show(value),
    }
}

pub(crate) fn forecast(now: weir_adapt::ForecastNow, contests: &Contests) -> ForecastNow {
    let dimension = now.resource.dimension();
    let (value, fit) = now.value.ok().unzip();
    let error = now.errors.mean();
    let shown = match &now.value {
        Ok((value, fit)) => format!("{}, fit {fit:.2}", dimension.show(*value)),
        Err(why) => format!("unknown: {why}"),
    };
    let judged = |errors: Errors| {
        errors.mean().map_or_else(String::new, |error| {
            format!("; {} forecasts judged, wrong by {} on average", errors.count, dimension.show(error))
        })
    };
    let method = |said: Said| {
        let (value, fit) = said.forecast.map(|forecast| (forecast.value, forecast.fit)).unzip();
        let shown = match said.forecast {
            Some(forecast) => format!("{}, fit {:.2}", dimension.show(forecast.value), forecast.fit),
            None => "too little is known for it".to_owned(),
        };
        MethodNow {
            method: said.method.name().to_owned(),
            is_chosen: said.method == now.method,
            value,
            fit,
            error: said.errors.mean(),
            judged: said.errors.count,
            shown: shown + &judged(said.errors),
        }
    };
    let methods = contests.of(&now.metric, now.atom.as_deref()).into_iter().flatten().map(method).collect();
    let shown = shown + &judged(now.errors);
    ForecastNow { metric: now.metric, atom: now.atom, value, fit, error, judged: now.errors.count, shown, methods }
}

pub(crate) fn outcome_name(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Fired => "fired",
        Outcome::Released => "released",
        Outcome::Superseded => "superseded",
        Outcome::Unknown { .. } => "unknown",
        Outcome::Outranked => "outranked",
        Outcome::Limited => "limited",
        Outcome::Cooling => "cooling",
    }
}

pub(crate) fn wait_now(wait: &Wait) -> WaitNow {
    let Wait { part, wait_s, queue } = *wait;
    let (each, all) = (Resource::Wait.dimension().show(wait_s), Resource::Queue.dimension().show(queue));
    let shown = format!("{each}, {all}");
    WaitNow { part: part.name().to_owned(), words: part.words().to_owned(), wait_s, queue, shown }
}
