//! ApacheBench's report as an HTML table (`-w`, `-x`, `-y`, `-z`).

use super::samples::{Measure, Samples};
use super::text::Found;
use super::times::{row, to_ms};
use std::fmt::Write;

/// The report; the attributes go into the tags as they were given.
pub(super) fn report(found: &mut Found<'_>) -> String {
    let arguments = found.arguments;
    let (tr, td) = (&arguments.row, &arguments.cell);
    let mut text = format!("\n\n<table {}>\n", arguments.table);
    let mut line = |label: &str, value: &str| {
        // Writing to a string cannot fail.
        let _ =
            writeln!(text, "<tr {tr}><th colspan=2 {td}>{label}:</th><td colspan=2 {td}>{}</td></tr>", escaped(value));
    };
    let counts = &found.counts;
    line("Server Software", &counts.server);
    line("Server Hostname", &found.target.host);
    line("Server Port", &found.target.port.to_string());
    line("Document Path", &found.target.path);
    line("Document Length", &found.document_length());
    line("Concurrency Level", &arguments.concurrency.to_string());
    line("Time taken for tests", &format!("{:.3} seconds", found.elapsed_s()));
    line("Complete requests", &counts.done.to_string());
    line("Failed requests", &counts.bad.to_string());
    if counts.bad > 0 {
        let _ = writeln!(
            text,
            "<tr {tr}><td colspan=4 {td} >   (Connect: {}, Length: {}, Exceptions: {})</td></tr>",
            counts.connect_errors, counts.length_errors, counts.exceptions
        );
    }
    let mut line = |label: &str, value: &str| {
        let _ = writeln!(text, "<tr {tr}><th colspan=2 {td}>{label}</th><td colspan=2 {td}>{value}</td></tr>");
    };
    if counts.not_2xx > 0 {
        line("Non-2xx responses:", &counts.not_2xx.to_string());
    }
    if arguments.keep_alive {
        line("Keep-Alive requests:", &counts.kept_alive.to_string());
    }
    line("Total transferred:", &format!("{} bytes", counts.read_bytes));
    if arguments.body.is_some() {
        line("Total body sent:", &counts.posted_bytes.to_string());
    }
    line("HTML transferred:", &format!("{} bytes", counts.content_bytes));
    if let Some(rates) = found.rates() {
        line("Requests per second:", &format!("{:.2}", rates.requests_per_s));
        line("Transfer rate:", &format!("{:.2} kb/s received", rates.received_kib_per_s));
        if arguments.body.is_some() {
            for (kib_per_s, what) in [(rates.sent_kib_per_s, "sent"), (rates.total_kib_per_s, "total")] {
                let _ = writeln!(
                    text,
                    "<tr {tr}><td colspan=2 {td}>&nbsp;</td><td colspan=2 {td}>{kib_per_s:.2} kb/s {what}</td></tr>"
                );
            }
        }
    }
    if found.counts.samples.count() > 0 {
        times(&mut text, &mut found.counts.samples, arguments.strict, tr, td);
    }
    text.push_str("</table>\n");
    text
}

/// Minimum, mean and maximum of connecting, processing and both, in milliseconds.
fn times(text: &mut String, samples: &mut Samples, strict: bool, tr: &str, td: &str) {
    let _ = writeln!(text, "<tr {tr}><th {td} colspan=4>Connection Times (ms)</th></tr>");
    let _ =
        writeln!(text, "<tr {tr}><th {td}>&nbsp;</th> <th {td}>min</th>   <th {td}>avg</th>   <th {td}>max</th></tr>");
    let (connect, processing, total) = if strict { strict_times(samples) } else { right_times(samples) };
    for (label, [min, avg, max]) in [("Connect:", connect), ("Processing:", processing), ("Total:", total)] {
        let _ = writeln!(
            text,
            "<tr {tr}><th {td}>{label}</th><td {td}>{min:5}</td><td {td}>{avg:5}</td><td {td}>{max:5}</td></tr>"
        );
    }
}

type Triple = [i64; 3];

fn right_times(samples: &mut Samples) -> (Triple, Triple, Triple) {
    let mut of = |measure| {
        let row = row(samples, measure, false);
        [row.min_ms, row.mean_ms, row.max_ms].map(u64::cast_signed)
    };
    (of(Measure::Connect), of(Measure::Processing), of(Measure::Total))
}

/// As in the original: processing is what its totals and connects differ by, though they are of different requests.
fn strict_times(samples: &Samples) -> (Triple, Triple, Triple) {
    let of = |measure| {
        let column = samples.column(measure);
        let mean_ms = (column.sum + 500) / 1000 / u128::from(column.count);
        [to_ms(f64::from(column.min)), mean_ms as u64, to_ms(f64::from(column.max))].map(u64::cast_signed)
    };
    let (connect, total) = (of(Measure::Connect), of(Measure::Total));
    (connect, [0, 1, 2].map(|place| total[place] - connect[place]), total)
}

/// Text that can stand in a cell: what a server or a URL says must not become markup.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::super::samples::Sample;
    use super::*;

    #[test]
    fn processing_is_measured_not_subtracted_unless_strict() {
        let mut samples = Samples::new(false);
        // One connects slowly and is answered at once, one the other way round.
        samples.push(Sample { connect_us: 9_000, total_us: 10_000, ..Sample::default() });
        samples.push(Sample { connect_us: 1_000, total_us: 10_000, ..Sample::default() });
        assert_eq!(right_times(&mut samples).1, [1, 5, 9]);
        assert_eq!(strict_times(&samples).1, [9, 5, 1]);
    }

    #[test]
    fn what_a_server_calls_itself_is_no_markup() {
        assert_eq!(escaped("<b>&"), "&lt;b&gt;&amp;");
    }
}
