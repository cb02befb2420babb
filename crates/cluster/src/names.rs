//! Answers of DNS with the addresses of nodes (RFC 1035): those that live, the ones with more weight more often and first.
//!
//! It has no clock, no socket and no randomness: each answer gets the number of its draw.

use simple_dns::rdata::{A, AAAA, RData, SOA};
use simple_dns::{CLASS, Name, OPCODE, Packet, PacketFlag, QCLASS, QTYPE, RCODE, ResourceRecord, TYPE};
use std::net::IpAddr;

/// Addresses in an answer. A client takes the first that answers it.
const ADDRESSES_MAX: usize = 4;
/// Bytes of a question that is read: what each resolver takes without further agreement (RFC 1035, section 4.2.1).
const QUESTION_BYTES_MAX: usize = 512;

/// A name cannot be answered for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no name of DNS; give one such as www.example.org")]
pub struct ServiceNameError(pub String);

/// The name of a service, and the nodes whose addresses are told.
#[derive(Debug, Clone)]
pub struct ServiceName {
    name: String,
    ttl_s: u32,
    nodes: Vec<(IpAddr, u16)>,
}

/// What becomes of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NameAnswer {
    /// Addresses, or that there are none of this kind.
    Told(Vec<u8>),
    /// It asks for another name, or for something that is not done here; this says so.
    Refused(Vec<u8>),
    /// It is no question; nothing is sent, so that two servers never answer each other for ever.
    Dropped,
}

impl ServiceName {
    /// Nodes are not known yet. Resolvers keep an answer for `ttl_s` seconds.
    ///
    /// # Errors
    /// [`ServiceNameError`].
    pub fn new(name: &str, ttl_s: u32) -> Result<Self, ServiceNameError> {
        let plain = name.trim_end_matches('.').to_ascii_lowercase();
        let is_name = plain.split('.').all(|label| !label.is_empty()) && plain.is_ascii() && Name::new(&plain).is_ok();
        if is_name {
            Ok(Self { name: plain, ttl_s, nodes: Vec::new() })
        } else {
            Err(ServiceNameError(name.to_owned()))
        }
    }

    /// The nodes that live, with their weights; one of weight 0 is not told.
    pub fn set_nodes(&mut self, nodes: &[(IpAddr, u16)]) {
        self.nodes = nodes.iter().copied().filter(|(_, weight)| *weight > 0).collect();
    }

    /// Answers a question; `draw` is another number for each.
    #[must_use]
    pub fn answer(&self, question: &[u8], draw: u64) -> NameAnswer {
        if question.len() > QUESTION_BYTES_MAX {
            return NameAnswer::Dropped;
        }
        let Ok(asked) = Packet::parse(question) else { return NameAnswer::Dropped };
        if asked.has_flags(PacketFlag::RESPONSE) {
            return NameAnswer::Dropped;
        }
        let mut reply = Packet::new_reply(asked.id());
        if asked.has_flags(PacketFlag::RECURSION_DESIRED) {
            reply.set_flags(PacketFlag::RECURSION_DESIRED);
        }
        *reply.opcode_mut() = asked.opcode();
        let [question] = &asked.questions[..] else { return Self::refuse(reply, RCODE::FormatError) };
        reply.questions.push(question.clone());
        if asked.opcode() != OPCODE::StandardQuery {
            return Self::refuse(reply, RCODE::NotImplemented);
        }
        let is_internet = matches!(question.qclass, QCLASS::ANY | QCLASS::CLASS(CLASS::IN));
        if !is_internet || question.qname.to_string().to_ascii_lowercase() != self.name {
            return Self::refuse(reply, RCODE::Refused);
        }
        reply.set_flags(PacketFlag::AUTHORITATIVE_ANSWER);
        let wants_v4 = matches!(question.qtype, QTYPE::ANY | QTYPE::TYPE(TYPE::A));
        let wants_v6 = matches!(question.qtype, QTYPE::ANY | QTYPE::TYPE(TYPE::AAAA));
        let wanted: Vec<(IpAddr, u16)> =
            self.nodes.iter().copied().filter(|(ip, _)| if ip.is_ipv4() { wants_v4 } else { wants_v6 }).collect();
        let record = |ip: IpAddr| {
            let data = match ip {
                IpAddr::V4(ip) => RData::A(A::from(ip)),
                IpAddr::V6(ip) => RData::AAAA(AAAA::from(ip)),
            };
            ResourceRecord::new(question.qname.clone(), CLASS::IN, self.ttl_s, data)
        };
        reply.answers = drawn(wanted, draw).into_iter().map(record).collect();
        if reply.answers.is_empty() {
            // Resolvers keep that there is none for as long as this says (RFC 2308).
            reply.name_servers.push(self.authority(&question.qname));
        }
        reply.build_bytes_vec_compressed().map_or(NameAnswer::Dropped, NameAnswer::Told)
    }

    fn refuse(mut reply: Packet<'_>, code: RCODE) -> NameAnswer {
        *reply.rcode_mut() = code;
        reply.build_bytes_vec_compressed().map_or(NameAnswer::Dropped, NameAnswer::Refused)
    }

    fn authority<'n>(&self, name: &Name<'n>) -> ResourceRecord<'n> {
        let seconds = i32::try_from(self.ttl_s).unwrap_or(i32::MAX);
        let soa = SOA {
            mname: name.clone(),
            rname: name.clone(),
            serial: 1,
            refresh: seconds,
            retry: seconds,
            expire: seconds,
            minimum: self.ttl_s,
        };
        ResourceRecord::new(name.clone(), CLASS::IN, self.ttl_s, RData::SOA(soa))
    }
}

/// Some of the addresses in the order of their turns, each turn by the weights of those that are left.
fn drawn(mut nodes: Vec<(IpAddr, u16)>, draw: u64) -> Vec<IpAddr> {
    let mut taken = Vec::new();
    let mut chance = draw;
    while !nodes.is_empty() && taken.len() < ADDRESSES_MAX {
        chance = mixed(chance);
        let sum: u64 = nodes.iter().map(|(_, weight)| u64::from(*weight)).sum();
        let mut left = chance % sum.max(1);
        let at = nodes.iter().position(|(_, weight)| {
            let is_it = left < u64::from(*weight);
            left = left.saturating_sub(u64::from(*weight));
            is_it
        });
        taken.push(nodes.remove(at.unwrap_or(0)).0);
    }
    taken
}

/// The step of SplitMix64 (Steele, Lea, Flood, 2014).
fn mixed(value: u64) -> u64 {
    let mut value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// Answers any question as some service; for the fuzz target.
pub fn answer_any(question: &[u8]) {
    if let Ok(mut service) = ServiceName::new("www.example.org", 5) {
        service.set_nodes(&[(IpAddr::from([10, 0, 0, 1]), 3), (IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]), 1)]);
        if let NameAnswer::Told(bytes) | NameAnswer::Refused(bytes) = service.answer(question, 7) {
            assert!(
                bytes.len() <= question.len() + 600 && Packet::parse(&bytes).is_ok_and(|it| it.id() == id(question))
            );
        }
    }
}

fn id(question: &[u8]) -> u16 {
    question.first_chunk().map_or(0, |id| u16::from_be_bytes(*id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use simple_dns::Question;

    fn service(nodes: &[(&str, u16)]) -> ServiceName {
        let mut service = ServiceName::new("WWW.example.org.", 5).expect("a name");
        let nodes: Vec<(IpAddr, u16)> =
            nodes.iter().map(|(ip, weight)| (ip.parse().expect("an address"), *weight)).collect();
        service.set_nodes(&nodes);
        service
    }

    fn question(name: &str, kind: QTYPE) -> Vec<u8> {
        let mut packet = Packet::new_query(7);
        packet.questions.push(Question::new(Name::new_unchecked(name), kind, QCLASS::CLASS(CLASS::IN), false));
        packet.build_bytes_vec().expect("small")
    }

    fn told(service: &ServiceName, kind: QTYPE, draw: u64) -> Vec<IpAddr> {
        let NameAnswer::Told(bytes) = service.answer(&question("www.EXAMPLE.org", kind), draw) else {
            panic!("it is the name");
        };
        let reply = Packet::parse(&bytes).expect("an answer");
        assert!(reply.has_flags(PacketFlag::RESPONSE | PacketFlag::AUTHORITATIVE_ANSWER) && reply.id() == 7);
        assert_eq!(reply.answers.is_empty(), !reply.name_servers.is_empty());
        let address = |record: &ResourceRecord<'_>| match &record.rdata {
            RData::A(a) => IpAddr::from(a.address.to_be_bytes()),
            RData::AAAA(aaaa) => IpAddr::from(aaaa.address.to_be_bytes()),
            other => panic!("{other:?}"),
        };
        assert!(reply.answers.iter().all(|record| record.ttl == 5));
        reply.answers.iter().map(address).collect()
    }

    #[test]
    fn addresses_come_by_their_weights_and_kinds() {
        let service = service(&[("10.0.0.1", 100), ("10.0.0.2", 300), ("10.0.0.3", 0), ("2001:db8::1", 5)]);
        let mut first = 0;
        for draw in 0..4_000 {
            let told = told(&service, QTYPE::TYPE(TYPE::A), draw);
            assert_eq!(told.len(), 2, "one has no weight, and one is of IPv6: {told:?}");
            first += u32::from(told[0] == IpAddr::from([10, 0, 0, 2]));
        }
        // 3,000 of 4,000; five standard deviations are 137.
        assert!((2_863..=3_137).contains(&first), "{first}");
        assert_eq!(told(&service, QTYPE::TYPE(TYPE::AAAA), 1), ["2001:db8::1".parse::<IpAddr>().expect("one")]);
        assert_eq!(told(&service, QTYPE::ANY, 1).len(), 3);
        assert_eq!(told(&service, QTYPE::TYPE(TYPE::TXT), 1).len(), 0);
    }

    #[test]
    fn an_answer_has_few_addresses_and_none_is_an_answer_too() {
        let many: Vec<String> = (1..=9).map(|last| format!("10.0.0.{last}")).collect();
        let many: Vec<(&str, u16)> = many.iter().map(|ip| (ip.as_str(), 1)).collect();
        let told_now = told(&service(&many), QTYPE::TYPE(TYPE::A), 3);
        assert_eq!(told_now.len(), ADDRESSES_MAX);
        assert_eq!(told(&service(&[]), QTYPE::TYPE(TYPE::A), 3).len(), 0);
    }

    #[test]
    fn what_is_not_asked_here_is_refused_and_answers_are_dropped() {
        let service = service(&[("10.0.0.1", 1)]);
        let NameAnswer::Refused(bytes) = service.answer(&question("example.org", QTYPE::ANY), 1) else {
            panic!("it is another name");
        };
        assert_eq!(Packet::parse(&bytes).expect("an answer").rcode(), RCODE::Refused);
        let mut answer = question("www.example.org", QTYPE::ANY);
        answer[2] |= 0x80;
        assert_eq!(service.answer(&answer, 1), NameAnswer::Dropped);
        assert_eq!(service.answer(&answer[..11], 1), NameAnswer::Dropped);
        for name in ["", "a..b", ".", "ä.org", &"a".repeat(64)] {
            assert!(ServiceName::new(name, 5).is_err(), "{name}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_answered_or_dropped(question in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..90)) {
            answer_any(&question);
        }
    }
}
