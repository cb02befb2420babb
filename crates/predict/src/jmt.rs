//! The model as a file of Java Modelling Tools (JSIMgraph): clients, pools as regions with a finite capacity, CPUs that
//! all share, and delays.
//!
//! After Bertoli, Casale and Serazzi, "JMT: performance engineering tools for system modeling", SIGMETRICS Performance
//! Evaluation Review 36 (2009). JMT's simulator has one level of such regions, so of pools within each other the
//! tightest stands for all. The elements are those of JMT's schema (`SIMmodeldefinition.xsd`), and the parameters of each
//! section stand in the order of a constructor of JMT's engine. Of clients that ask one after the other JMT's "System
//! Response Time" has their think time in it, and what pools do behind a response is in it in any case.

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
    xml.push_str(&node(DELAY, "Delay", (demand.delay_ns + demand.others_ns).max(1.0), None));
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
    if let Some(count) = clients {
        let _ = writeln!(
            xml,
            "<preload>\n<stationPopulations stationName=\"{from}\">\n<classPopulation population=\"{count}\" \
             refClass=\"{CLASS}\"/>\n</stationPopulations>\n</preload>"
        );
    }
    xml.push_str("</sim>\n</archive>\n");
    xml
}

/// A station: a queue, a server of a kind with a mean service in nanoseconds, and a router.
fn node(name: &str, server: &str, service_ns: f64, servers: Option<u32>) -> String {
    let drop = sub("java.lang.String", "dropStrategy", "<value>drop</value>");
    let tail = sub("jmt.engine.NetStrategies.QueuePutStrategies.TailStrategy", "TailStrategy", "");
    let queue = format!(
        "<section className=\"Queue\">\n{}{}<parameter \
         classPath=\"jmt.engine.NetStrategies.QueueGetStrategies.FCFSstrategy\" name=\"FCFSstrategy\"/>\n{}</section>",
        integer("size", "-1"),
        array("dropStrategies", "java.lang.String", &drop),
        array("QueuePutStrategy", "jmt.engine.NetStrategies.QueuePutStrategy", &tail),
    );
    let service = strategy(&exponential(service_ns / 1e9));
    let mut inner = array("ServiceStrategy", "jmt.engine.NetStrategies.ServiceStrategy", &service);
    // The engine finds a section's constructor by the order of its parameters.
    if let Some(count) = servers {
        let visits = sub("java.lang.Integer", "numberOfVisits", "<value>1</value>");
        let shared = sub("jmt.engine.NetStrategies.PSStrategies.EPSStrategy", "EPSStrategy", "");
        let weight = sub("java.lang.Double", "serviceWeight", "<value>1.0</value>");
        inner = format!(
            "{}{}{inner}{}{}",
            integer("maxJobs", &count.to_string()),
            array("numberOfVisits", "java.lang.Integer", &visits),
            array("PSStrategy", "jmt.engine.NetStrategies.PSStrategy", &shared),
            array("serviceWeights", "java.lang.Double", &weight),
        );
    }
    format!(
        "<node name=\"{name}\">\n{queue}\n<section className=\"{server}\">\n{inner}</section>\n{}</node>\n",
        router()
    )
}

fn integer(name: &str, value: &str) -> String {
    format!("<parameter classPath=\"java.lang.Integer\" name=\"{name}\">\n<value>{value}</value>\n</parameter>\n")
}

fn sub(path: &str, name: &str, inner: &str) -> String {
    if inner.is_empty() {
        return format!("<subParameter classPath=\"{path}\" name=\"{name}\"/>\n");
    }
    format!("<subParameter classPath=\"{path}\" name=\"{name}\">\n{inner}\n</subParameter>\n")
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

    /// Its tags close in the order in which they open, and the elements of the model stand in the order of JMT's schema.
    #[test]
    fn the_model_is_well_formed() {
        let mut trace = Trace { cpus: 2, ..Trace::default() };
        let name = "a<b&\"c\"\u{1}".to_owned();
        trace.pools.push(Pool {
            name,
            service: Service::Holding,
            workers: 3,
            is_limit: true,
            after_ns: 1e6,
            held_ns: 0.0,
        });
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
            let order = ["<userClass", "<node", "<measure", "<connection", "<blockingRegion", "<preload"];
            let places: Vec<(usize, usize)> =
                order.iter().filter_map(|tag| Some((xml.find(tag)?, xml.rfind(tag)?))).collect();
            assert_eq!(places.len(), 5 + usize::from(clients.is_some()));
            assert!(places.windows(2).all(|two| two[0].1 < two[1].0), "{places:?}");
            assert_eq!(xml.contains("customers=\"3\""), clients.is_some());
            assert!(xml.contains("a&lt;b&amp;&quot;c&quot; "), "{xml}");
        }
    }
}
