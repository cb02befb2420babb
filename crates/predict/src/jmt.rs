//! The model as a file of Java Modelling Tools (JSIMgraph): clients, pools as regions with a finite capacity, CPUs that
//! all share, and delays.
//!
//! After Bertoli, Casale and Serazzi, "JMT: performance engineering tools for system modeling", SIGMETRICS Performance
//! Evaluation Review 36 (2009). JMT's simulator has one level of such regions, so of pools within each other the
//! tightest stands for all.

use crate::demand::demand;
use crate::trace::Trace;
use std::fmt::Write;

const CLASS: &str = "request";
const CPU: &str = "CPU";
const DELAY: &str = "Delays";

/// The model as XML, for a rate in requests a second; of clients that ask one after the other without one.
#[must_use]
pub fn jsimg(trace: &Trace, rate_per_s: Option<f64>) -> String {
    let demand = demand(trace);
    let mut xml = String::from(
        "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"no\"?>\n<archive \
         xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" name=\"weir.jsimg\" \
         xsi:noNamespaceSchemaLocation=\"Archive.xsd\">\n<sim \
         xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" disableStatisticStop=\"false\" name=\"weir.jsimg\" \
         xsi:noNamespaceSchemaLocation=\"SIMmodeldefinition.xsd\">\n",
    );
    let clients = trace.clients.filter(|_| rate_per_s.is_none());
    let from = if clients.is_some() { "Clients" } else { "Source" };
    let class = match clients {
        Some(count) => format!("type=\"closed\" customers=\"{count}\""),
        None => "type=\"open\"".to_owned(),
    };
    // Writing to a String cannot fail.
    let _ = writeln!(xml, "<userClass name=\"{CLASS}\" priority=\"0\" referenceSource=\"{from}\" {class}/>");
    if clients.is_some() {
        xml.push_str(&node(from, "Delay", trace.think_ns.max(1.0), None));
    } else {
        let mean_s = 1.0 / rate_per_s.unwrap_or_else(|| trace.rate_per_s()).max(1e-9);
        let arrivals = strategy(&exponential(mean_s));
        let _ = writeln!(
            xml,
            "<node name=\"{from}\">\n<section className=\"RandomSource\">\n{}</section>\n<section \
             className=\"ServiceTunnel\"/>\n{}</node>",
            array("ServiceStrategy", "jmt.engine.NetStrategies.ServiceStrategy", &arrivals),
            router(),
        );
        let _ = writeln!(xml, "<node name=\"Sink\">\n<section className=\"JobSink\"/>\n</node>");
    }
    xml.push_str(&node(CPU, "PSServer", demand.cpu_ns(), Some(trace.cpus)));
    xml.push_str(&node(DELAY, "Delay", demand.delay_ns.max(1.0), None));
    for (name, of, kind) in
        [("response time", CLASS, "System Response Time"), ("throughput", CLASS, "System Throughput")]
    {
        let _ = writeln!(
            xml,
            "<measure alpha=\"0.01\" name=\"{name}\" nodeType=\"\" precision=\"0.03\" referenceNode=\"\" \
             referenceUserClass=\"{of}\" type=\"{kind}\" verbose=\"false\"/>"
        );
    }
    let to = if clients.is_some() { from } else { "Sink" };
    for (source, target) in [(from, CPU), (CPU, DELAY), (DELAY, to)] {
        let _ = writeln!(xml, "<connection source=\"{source}\" target=\"{target}\"/>");
    }
    let pools = trace.pools.iter().filter(|pool| pool.is_limit && pool.service == crate::Service::Holding);
    if let Some(pool) = pools.min_by_key(|pool| pool.workers) {
        let _ = writeln!(
            xml,
            "<blockingRegion name=\"{}\" type=\"default\">\n<regionNode nodeName=\"{CPU}\"/>\n<regionNode \
             nodeName=\"{DELAY}\"/>\n<globalConstraint maxJobs=\"{}\"/>\n<globalMemoryConstraint \
             maxMemory=\"-1\"/>\n<classConstraint jobClass=\"{CLASS}\" maxJobsPerClass=\"-1\"/>\n<dropRules \
             dropThisClass=\"false\" jobClass=\"{CLASS}\"/>\n</blockingRegion>",
            escaped(&pool.name),
            pool.workers
        );
    }
    xml.push_str("</sim>\n</archive>\n");
    xml
}

/// A station: a queue, a server of a kind with a mean service in nanoseconds, and a router.
fn node(name: &str, server: &str, service_ns: f64, servers: Option<u32>) -> String {
    let queue = "<section className=\"Queue\">\n<parameter classPath=\"java.lang.Integer\" \
                 name=\"size\"><value>-1</value></parameter>\n</section>";
    let count = servers.map_or_else(String::new, |count| {
        format!("<parameter classPath=\"java.lang.Integer\" name=\"maxJobs\"><value>{count}</value></parameter>\n")
    });
    let service = strategy(&exponential(service_ns / 1e9));
    let service = array("ServiceStrategy", "jmt.engine.NetStrategies.ServiceStrategy", &service);
    format!(
        "<node name=\"{name}\">\n{queue}\n<section className=\"{server}\">\n{count}{service}</section>\n{}</node>\n",
        router()
    )
}

fn router() -> String {
    let random =
        "<subParameter classPath=\"jmt.engine.NetStrategies.RoutingStrategies.RandomStrategy\" name=\"Random\"/>\n";
    let routing = array("RoutingStrategy", "jmt.engine.NetStrategies.RoutingStrategy", random);
    format!("<section className=\"Router\">\n{routing}</section>\n")
}

/// A parameter for each class.
fn array(name: &str, path: &str, value: &str) -> String {
    format!(
        "<parameter array=\"true\" classPath=\"{path}\" name=\"{name}\">\n<refClass>{CLASS}</refClass>\n{value}</parameter>\n"
    )
}

fn strategy(distribution: &str) -> String {
    format!(
        "<subParameter classPath=\"jmt.engine.NetStrategies.ServiceStrategies.ServiceTimeStrategy\" \
         name=\"ServiceTimeStrategy\">\n{distribution}</subParameter>\n"
    )
}

/// An exponential distribution of a mean in seconds.
fn exponential(mean_s: f64) -> String {
    let rate = 1.0 / mean_s.max(1e-12);
    format!(
        "<subParameter classPath=\"jmt.engine.random.Exponential\" name=\"Exponential\"/>\n<subParameter \
         classPath=\"jmt.engine.random.ExponentialPar\" name=\"distrPar\">\n<subParameter \
         classPath=\"java.lang.Double\" name=\"lambda\"><value>{rate}</value></subParameter>\n</subParameter>\n"
    )
}

fn escaped(text: &str) -> String {
    let escape = |character| match character {
        '&' => "&amp;".to_owned(),
        '<' => "&lt;".to_owned(),
        '>' => "&gt;".to_owned(),
        '"' => "&quot;".to_owned(),
        other if other.is_control() => " ".to_owned(),
        other => other.to_string(),
    };
    text.chars().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Pool, Service};

    /// Its tags close in the order in which they open: what a reader of XML asks first. JMT's schema was not at hand.
    #[test]
    fn the_model_is_well_formed() {
        let mut trace = Trace { cpus: 2, ..Trace::default() };
        let name = "a<b&\"c\"\u{1}".to_owned();
        trace.pools.push(Pool { name, service: Service::Holding, workers: 3, is_limit: true, after_ns: 1e6 });
        for (clients, rate) in [(None, Some(5.0)), (Some(3), None)] {
            let xml = jsimg(&Trace { clients, ..trace.clone() }, rate);
            let mut open: Vec<&str> = Vec::new();
            for tag in xml.split('<').skip(1) {
                let (tag, text) = tag.split_once('>').expect("a tag ends");
                assert!(!text.contains('&') && !text.contains('"'), "{text}");
                if tag.starts_with('?') || tag.ends_with('/') {
                    continue;
                }
                match tag.strip_prefix('/') {
                    Some(name) => assert_eq!(open.pop(), Some(name)),
                    None => open.push(tag.split([' ', '\n']).next().expect("a name")),
                }
            }
            assert!(open.is_empty(), "{open:?}");
            assert_eq!(xml.contains("customers=\"3\""), clients.is_some());
            assert!(xml.contains("a&lt;b&amp;&quot;c&quot; "), "{xml}");
        }
    }
}
