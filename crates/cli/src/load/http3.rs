//! What the screen says of HTTP/3 alone.

use std::fmt::Write;
use weir_load::Http3Counts;
use weir_report::count as grouped;
use weir_report::nanoseconds;

/// A line for each thing that happened.
pub(super) fn write(screen: &mut String, counts: &Http3Counts) -> std::fmt::Result {
    if counts.early_accepted + counts.early_refused > 0 {
        let refused = grouped(counts.early_refused);
        writeln!(screen, "  0-RTT      {:>12}   requests accepted, {refused} refused", grouped(counts.early_accepted))?;
    }
    if counts.moves > 0 {
        let lost = grouped(counts.moves_lost);
        writeln!(screen, "  moves      {:>12}   to other ports, {lost} requests lost by them", grouped(counts.moves))?;
    }
    let time = |ns: u64| nanoseconds(ns as f64).trim().to_owned();
    if counts.bodies_held > 0 {
        let held = grouped(counts.bodies_held);
        let words =
            format!("times for {} in all: bodies waited for the server's flow window", time(counts.bodies_held_ns));
        writeln!(screen, "  held up    {held:>12}   {words}")?;
    }
    if counts.streams_held > 0 {
        let held = grouped(counts.streams_held);
        let words =
            format!("times for {} in all: requests waited for the server's streams", time(counts.streams_held_ns));
        writeln!(screen, "  held up    {held:>12}   {words}")?;
    }
    if counts.windows_told > 0 {
        let told = grouped(counts.windows_told);
        writeln!(screen, "  held up    {told:>12}   times the server waited for the generator's flow window")?;
    }
    if counts.packets_lost + counts.datagrams_refused > 0 {
        let refused = grouped(counts.datagrams_refused);
        let words = format!("of the generator's, {refused} datagrams refused by its kernel");
        writeln!(screen, "  packets    {:>12}   lost {words}", grouped(counts.packets_lost))?;
    }
    if counts.datagrams_dropped > 0 {
        let dropped = grouped(counts.datagrams_dropped);
        writeln!(screen, "  datagrams  {dropped:>12}   dropped: the line of a slow client held no more")?;
    }
    Ok(())
}
