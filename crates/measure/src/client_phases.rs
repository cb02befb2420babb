//! The stretches of response times that a client knows by itself, while what the server did is not known yet.

/// Sums of the four stretches of responses. Each response time is their sum.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClientPhases {
    /// Responses.
    pub responses: u64,
    /// From the intended time until the request was sent, without `connect_ns`, nanoseconds.
    pub generator_ns: u64,
    /// Making connections, TLS with it, nanoseconds.
    pub connect_ns: u64,
    /// From sending the request to the first byte of its response, nanoseconds.
    pub first_byte_ns: u64,
    /// From the first byte to the last, nanoseconds.
    pub body_ns: u64,
}

/// The times of one response, nanoseconds of one clock, in their order.
#[derive(Debug, Clone, Copy)]
pub struct ClientTimes {
    /// When the schedule wanted it sent.
    pub intended_ns: u64,
    /// When it began to open its connection; `None` if it took an open one.
    pub opening_ns: Option<u64>,
    /// When it was sent.
    pub sent_ns: u64,
    /// When the first byte of its response came.
    pub first_byte_ns: u64,
    /// When the last byte came.
    pub done_ns: u64,
}

impl ClientPhases {
    /// Takes a response; times that are out of their order count as none having passed.
    pub fn push(&mut self, times: ClientTimes) {
        let sent_ns = times.sent_ns.max(times.intended_ns);
        let first_byte_ns = times.first_byte_ns.max(sent_ns);
        let before_ns = sent_ns - times.intended_ns;
        let connect_ns = times.opening_ns.map_or(0, |opening_ns| sent_ns.saturating_sub(opening_ns)).min(before_ns);
        self.responses += 1;
        self.connect_ns = self.connect_ns.saturating_add(connect_ns);
        self.generator_ns = self.generator_ns.saturating_add(before_ns - connect_ns);
        self.first_byte_ns = self.first_byte_ns.saturating_add(first_byte_ns - sent_ns);
        self.body_ns = self.body_ns.saturating_add(times.done_ns.saturating_sub(first_byte_ns));
    }

    /// Means by the names of the stretches, nanoseconds, in the order in which a response passes them; none without a
    /// response.
    #[must_use]
    pub fn means_ns(&self) -> Option<[(&'static str, f64); 4]> {
        let mean = |sum_ns: u64| sum_ns as f64 / self.responses as f64;
        (self.responses > 0).then(|| {
            [
                ("generator", mean(self.generator_ns)),
                ("connect", mean(self.connect_ns)),
                ("first_byte", mean(self.first_byte_ns)),
                ("body", mean(self.body_ns)),
            ]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_response_that_opened_its_connection_waited_in_the_generator_before() {
        let mut phases = ClientPhases::default();
        let (intended_ns, sent_ns, first_byte_ns, done_ns) = (100, 160, 200, 230);
        phases.push(ClientTimes { intended_ns, opening_ns: Some(110), sent_ns, first_byte_ns, done_ns });
        assert_eq!(phases.means_ns().map(|means| means.map(|(_, ns)| ns)), Some([10.0, 50.0, 40.0, 30.0]));
        assert_eq!(ClientPhases::default().means_ns(), None);
    }

    proptest! {
        #[test]
        fn the_stretches_are_the_response_time(gaps in proptest::array::uniform4(0_u64..1 << 40), opens in any::<bool>()) {
            let [before, opening, waits, body] = gaps;
            let sent_ns = before + opening;
            let times = ClientTimes {
                intended_ns: 0,
                opening_ns: opens.then_some(before),
                sent_ns,
                first_byte_ns: sent_ns + waits,
                done_ns: sent_ns + waits + body,
            };
            let mut phases = ClientPhases::default();
            phases.push(times);
            let sum = phases.generator_ns + phases.connect_ns + phases.first_byte_ns + phases.body_ns;
            prop_assert_eq!(sum, times.done_ns);
            prop_assert_eq!(phases.connect_ns, if opens { opening } else { 0 });
        }
    }
}
