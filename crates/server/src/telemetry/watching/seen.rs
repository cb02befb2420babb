//! What was seen of a watched request. Nothing in it but bodies, which take a right, is a secret: it is redacted where it is
//! taken down.

use super::bodies::BodiesSeen;
use super::redaction::text_shown;
use crate::policy::advice::DecidedBy;
use crate::telemetry::request_filter::RequestFacts;
use serde::Serialize;
use std::net::{IpAddr, Ipv4Addr};

/// A request that is over.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    /// When it began, in nanoseconds since 1970.
    pub(super) at_unix_ns: u64,
    /// It began before a watcher came: times are from then on, and little is known of its head.
    pub(super) begun_before: bool,
    pub(super) network: Network,
    pub(super) head: HeadSeen,
    pub(super) routes: Option<RoutesSeen>,
    pub(super) cache: CacheSeen,
    pub(super) file: Option<FileSeen>,
    pub(super) script: Option<ScriptSeen>,
    /// The name of the upstream that answers.
    pub(super) upstream: Option<String>,
    pub(super) steps: Vec<StepSeen>,
    pub(super) rules: RulesSeen,
    pub(super) arm: ArmSeen,
    pub(super) response: ResponseSeen,
    pub(super) timing: Timing,
    /// None if no watcher is told bodies, or if the request began before one came.
    pub(super) bodies: Option<BodiesSeen>,
}

/// A connection.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Network {
    /// The client, as a trusted proxy tells of it or as the socket has it.
    pub(crate) client: IpAddr,
    /// The port of its socket; none where a proxy stands between.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) port: Option<u16>,
    /// The connection's number.
    pub(crate) session: u64,
    /// The number of the stream; none over HTTP/1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stream: Option<u64>,
    /// `HTTP/1.0`, `HTTP/1.1`, `HTTP/2` or `HTTP/3`.
    pub(crate) protocol: &'static str,
    pub(crate) tls: bool,
    /// Which of the server's loops has the connection.
    #[serde(rename = "loop")]
    pub(crate) loop_index: usize,
}

impl Default for Network {
    fn default() -> Self {
        let client = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        Self { client, port: None, session: 0, stream: None, protocol: "", tls: false, loop_index: 0 }
    }
}

/// The head of a request.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct HeadSeen {
    pub(super) method: String,
    pub(super) target: String,
    pub(super) host: String,
    pub(super) fields: Vec<(String, String)>,
    /// Fields that are not told, as there are more than 64.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) fields_left: usize,
    /// Decoded, for filters.
    #[serde(skip)]
    pub(super) path: Vec<u8>,
    #[serde(skip)]
    pub(super) name: Vec<u8>,
}

/// How a configuration routes it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct RoutesSeen {
    /// The host, with the entry of `names` that it was found by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) host: Option<String>,
    /// Each route that was looked at, with the reason why it holds or not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) routes: Vec<String>,
    /// The path that routes have led to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mapped: Option<String>,
    /// The tables that hold, with what they say.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) tables: Vec<String>,
    /// What keeps clients away.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) limits: Vec<String>,
    /// What answers, and why.
    pub(crate) answer: String,
}

/// What caches did for the request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct CacheSeen {
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    /// Content that was read into the cache.
    pub(crate) fills: u64,
    /// Content that had changed.
    pub(crate) stale: u64,
    pub(crate) evictions: u64,
}

/// The file that answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct FileSeen {
    /// Its path below the root of its site.
    pub(crate) path: String,
    pub(crate) bytes: u64,
    pub(crate) content_type: String,
    /// Whether it is sent from memory.
    pub(crate) in_memory: bool,
}

/// The script that runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ScriptSeen {
    pub(crate) name: String,
    pub(crate) path_info: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) file: Option<String>,
    /// What it wrote on standard error, and how it ended, as far as the server was told.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) output: Vec<String>,
}

/// A step with a server that is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct StepSeen {
    /// Since the request began, in microseconds.
    pub(crate) at_us: u64,
    pub(crate) what: String,
}

/// A rule of the policy that has decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct DecidedSeen {
    pub(crate) rule: String,
    pub(crate) file: String,
    pub(crate) line: usize,
    /// What it orders.
    pub(crate) orders: String,
}

/// A response that went on in another variant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct SwappedSeen {
    /// Since the request began, in microseconds.
    pub(crate) at_us: u64,
    /// The name of the variant.
    pub(crate) variant: String,
}

impl DecidedSeen {
    /// What the rules of a policy tell of one of them.
    pub(crate) fn of(by: &DecidedBy) -> Self {
        let text = |text: &str| text_shown(text.as_bytes());
        Self { rule: text(&by.rule), file: text(&by.file), line: by.line, orders: text(&by.orders) }
    }
}

/// What rules did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct RulesSeen {
    /// Routes (`route:3`), tables (`/api/`), `policy` and the names of its rules, by which filters choose.
    pub(crate) names: Vec<String>,
    /// The rules of the policy that have decided.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) decided: Vec<DecidedSeen>,
    /// Whether rules may have decided that are not known, as others kept them busy at that moment.
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) undetermined: bool,
    /// The variant that answers where one was chosen; `full` is the file itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) variant: Option<String>,
    /// Variants that the response went on in, in their order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) swapped: Vec<SwappedSeen>,
    /// Whether the policy was asked.
    pub(crate) asked: bool,
    /// Whether a lease answered in place of the policy.
    pub(crate) by_lease: bool,
    /// Whether it chose a variant.
    pub(crate) chosen: bool,
    /// Whether it allowed content that was not looked at.
    pub(crate) stale: bool,
    /// How long the request waited for a place within a bound, in milliseconds.
    pub(crate) waited_ms: u64,
}

/// The business transaction that the request is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(super) struct ArmSeen {
    pub(super) told: bool,
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) transaction: Option<String>,
    /// In hexadecimal digits, as those have it that answer the request elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) correlator: Option<String>,
}

/// The response.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(super) struct ResponseSeen {
    pub(super) status: u16,
    pub(super) fields: Vec<(String, String)>,
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) fields_left: usize,
    pub(super) body_bytes: u64,
    pub(super) sent_bytes: u64,
    /// Whether all of it went out.
    pub(super) is_complete: bool,
}

/// How long the parts took, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(super) struct Timing {
    /// Until it was known what answers: routes, tables, cache, file.
    pub(super) answer_us: u64,
    /// From then to the head of a response that something else gives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) head_us: Option<u64>,
    /// From there to the end of the response.
    pub(super) send_us: u64,
    pub(super) whole_us: u64,
}

pub(super) fn is_false(is: &bool) -> bool {
    !*is
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl Seen {
    /// What filters know of it.
    pub(super) fn facts(&self) -> RequestFacts<'_> {
        let agent = self.head.fields.iter().find(|(name, _)| name.eq_ignore_ascii_case("user-agent"));
        let is_known = |text: &[u8]| !(self.begun_before && text.is_empty());
        let agent = agent.map_or(&b""[..], |(_, value)| value.as_bytes());
        RequestFacts {
            client: Some(self.network.client),
            host: Some(self.head.name.as_slice()).filter(|host| is_known(host)),
            path: Some(self.head.path.as_slice()).filter(|path| is_known(path)),
            method: Some(self.head.method.as_str()).filter(|method| is_known(method.as_bytes())),
            protocol: Some(self.network.protocol),
            agent: Some(agent).filter(|agent| is_known(agent)),
            status: Some(self.response.status),
            sent_bytes: Some(self.response.sent_bytes),
            whole_us: Some(self.timing.whole_us),
            upstream: Some(self.upstream.as_deref()).filter(|_| !self.begun_before),
            rules: Some(self.rules.names.as_slice()).filter(|_| !self.begun_before),
            session: Some(self.network.session),
        }
    }

    /// About how many bytes of memory it takes.
    pub(super) fn bytes(&self) -> usize {
        let fields =
            |list: &[(String, String)]| list.iter().map(|(name, value)| name.len() + value.len() + 48).sum::<usize>();
        let routes = self.routes.as_ref().map_or(0, |routes| {
            let lists = [&routes.routes, &routes.tables, &routes.limits];
            lists.iter().flat_map(|list| list.iter()).map(|line| line.len() + 24).sum::<usize>()
        });
        let steps = self.steps.iter().map(|step| step.what.len() + 32).sum::<usize>();
        let bodies = self.bodies.as_ref().map_or(0, BodiesSeen::bytes);
        1024 + bodies
            + self.head.target.len()
            + fields(&self.head.fields)
            + fields(&self.response.fields)
            + routes
            + steps
    }
}
