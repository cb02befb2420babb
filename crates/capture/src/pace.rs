//! How often the collector looks at the rings, and its sources are asked.

use std::time::Duration;

/// The longest time between two looks: a ring holds twenty times as much of the busiest server. Each source is asked
/// about so often, however often the rings are looked at.
pub(crate) const BEAT: Duration = Duration::from_millis(20);
/// Between two looks at whether a pause is over.
pub(crate) const PAUSED: Duration = Duration::from_millis(200);
/// The shortest time between two looks.
const SHORTEST: Duration = Duration::from_millis(1);
/// Events that a look should find: it takes 0.1 to 0.2 ms to write them down. Whoever shares the collector's CPU stands
/// still for as long: a load generator, and then a server that has answered all that it was asked.
const EVENTS: u64 = 500;

/// How long to sleep after a look that found so many events, which had come together in this time.
pub(crate) fn rest(events: u64, within: Duration) -> Duration {
    let shared_ns = u64::try_from(within.as_nanos()).unwrap_or(u64::MAX).saturating_mul(EVENTS) / events.max(1);
    Duration::from_nanos(shared_ns).clamp(SHORTEST, BEAT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busier_the_server_the_shorter_the_looks() {
        let ms = Duration::from_millis;
        assert_eq!(rest(0, BEAT), BEAT, "nothing happens");
        assert_eq!(rest(EVENTS, BEAT), BEAT);
        assert_eq!(rest(2 * EVENTS, BEAT), ms(10));
        assert_eq!(rest(EVENTS, ms(5)), ms(5), "and it stays so");
        assert_eq!(rest(EVENTS / 2, ms(5)), ms(10), "until less happens");
        assert_eq!(rest(1000 * EVENTS, BEAT), SHORTEST);
        assert_eq!(rest(1, Duration::MAX), BEAT);
    }
}
