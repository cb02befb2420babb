//! Tables: the parts, and the transaction classes.

use super::bars::{stacked, swatch};
use super::escape::{escaped, extent, part_of, time};
use crate::clocks;
use crate::units::{count, share};
use crate::{Explanation, PercentileShares, Transaction};
use weir_measure::part::Part;

/// Classes that are shown at once; the others unfold.
const CLASSES_SHOWN: usize = 12;

/// All parts with their times.
pub(super) fn parts(explanation: &Explanation) -> String {
    if explanation.response_ns.is_none() {
        return String::new();
    }
    let columns = [&explanation.median_parts_ns, &explanation.slow_parts_ns, &explanation.parts_ns];
    let totals = columns.map(|column| column.iter().sum::<f64>());
    let rows: String = Part::ALL
        .into_iter()
        .map(|part| {
            let row = columns.map(|column| column[part as usize]);
            let mean_share = share(row[2], totals[2]);
            let cells: String =
                row.iter().zip(totals).map(|(ns, total)| cell(*ns, *ns >= total / 2.0 && total > 0.0)).collect();
            format!(
                "<tr data-part=\"{0}\"{1}><th scope=\"row\"><span class=\"key\">{2}{0}</span><span class=\"aside words\">{3}</span></th>{cells}\
                 <td class=\"share\"><div><svg class=\"p-{0}\" aria-hidden=\"true\" height=\"8\"><rect width=\"{5}\" height=\"8\"/></svg>\
                 <span>{4}</span></div></td></tr>\n",
                part.name(),
                if row.iter().all(|ns| *ns <= 0.0) { " class=\"nil\"" } else { "" },
                swatch(part),
                part.words(),
                part_of(mean_share),
                extent(mean_share),
            )
        })
        .collect();
    let sums: String = totals.iter().map(|ns| cell(*ns, false)).collect();
    format!(
        "<section aria-labelledby=\"parts-h\"><h2 id=\"parts-h\">Parts of the response</h2>{}\
         <thead><tr><th scope=\"col\">Part</th><th scope=\"col\" class=\"n\">Median</th><th scope=\"col\" class=\"n\">Slowest 1&nbsp;%</th>\
         <th scope=\"col\" class=\"n\">Mean</th><th scope=\"col\" class=\"n\">Share</th></tr></thead>\n<tbody>{rows}</tbody>\
         <tfoot><tr><th scope=\"row\">Response</th>{sums}<td class=\"n\">{}</td></tr></tfoot></table></div>\
         <p class=\"note\">In the order in which a response passes them. Share: of the mean. Median: the mean of the middle tenth of the responses, \
         so that its parts add up.</p></section>\n",
        framed("Parts of the response"),
        part_of(share(totals[2], totals[2])),
    )
}

/// Whose time the responses around each percentile were.
pub(super) fn percentiles(explanation: &Explanation) -> String {
    if explanation.percentiles.is_empty() {
        return String::new();
    }
    let row = |shares: &PercentileShares| {
        let of = [shares.generator, shares.network, shares.server, shares.unattributed];
        let cells: String = of.iter().map(|share| format!("<td class=\"n\">{}</td>", part_of(*share))).collect();
        let time = cell(shares.response_ns, false);
        format!("<tr><th scope=\"row\">p{}</th>{time}{cells}</tr>\n", shares.percentile)
    };
    let rows: String = explanation.percentiles.iter().map(row).collect();
    let clocks = clocks::words(explanation).map_or_else(String::new, |words| format!(" {}", escaped(&words)));
    format!(
        "<section aria-labelledby=\"whose-h\"><h2 id=\"whose-h\">Whose time it is</h2>{}\
         <thead><tr><th scope=\"col\">Percentile</th><th scope=\"col\" class=\"n\">Response</th>\
         <th scope=\"col\" class=\"n\">Generator</th><th scope=\"col\" class=\"n\">Network</th>\
         <th scope=\"col\" class=\"n\">Server</th><th scope=\"col\" class=\"n\">Not known</th></tr></thead>\n\
         <tbody>{rows}</tbody></table></div><p class=\"note\">Of the responses around each percentile: generator and \
         client_wakeup are the load generators' own; connect, request_transit and response_transit the network's; the \
         others the server's.{clocks}</p></section>\n",
        framed("Whose time it is"),
    )
}

fn cell(ns: f64, stands_out: bool) -> String {
    let class = if stands_out { "n top" } else { "n" };
    format!("<td class=\"{class}\">{}</td>", time(ns))
}

/// Classes of transactions, most frequent first.
pub(super) fn classes(explanation: &Explanation) -> String {
    let classes = &explanation.transactions;
    if classes.is_empty() {
        return String::new();
    }
    let (shown, folded) = classes.split_at(classes.len().min(CLASSES_SHOWN));
    let more = if folded.is_empty() {
        String::new()
    } else {
        format!("<details><summary>{} more classes</summary>{}</details>", folded.len(), class_table(folded))
    };
    format!(
        "<section aria-labelledby=\"classes-h\"><h2 id=\"classes-h\">Transaction classes</h2>{}{more}</section>\n",
        class_table(shown)
    )
}

fn class_table(classes: &[Transaction]) -> String {
    let rows: String = classes.iter().map(class_row).collect();
    format!(
        "{}<thead><tr><th scope=\"col\">Class</th><th scope=\"col\" class=\"n\">Requests</th><th scope=\"col\" class=\"n\">p50</th>\
         <th scope=\"col\" class=\"n\">p99</th><th scope=\"col\" class=\"n\">Mean</th><th scope=\"col\" class=\"inline\">Mean: parts</th>\
         <th scope=\"col\" class=\"inline spare\">Slowest 1&nbsp;%: parts</th></tr></thead>\n<tbody>{rows}</tbody></table></div>",
        framed("Transaction classes")
    )
}

fn class_row(class: &Transaction) -> String {
    let times = class.response_ns;
    let figure = |ns: Option<f64>| ns.map_or("-".to_owned(), time);
    let bar = |name: &str, parts: &[f64; Part::COUNT]| {
        let total: f64 = parts.iter().sum();
        if total > 0.0 { stacked(&format!("{}, {name}", class.name), parts, total, 16) } else { "-".to_owned() }
    };
    format!(
        "<tr><th scope=\"row\" class=\"name\">{}</th><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
         <td class=\"n\">{}</td><td class=\"inline\">{}</td><td class=\"inline spare\">{}</td></tr>\n",
        escaped(&class.name),
        count(class.count),
        figure(times.map(|times| times.p50 as f64)),
        figure(times.map(|times| times.p99 as f64)),
        figure(times.map(|times| times.mean)),
        bar("mean", &class.parts_ns),
        bar("slowest 1 %", &class.slow_parts_ns),
    )
}

/// The values of a plot as a table that opens on demand.
pub(super) fn values(title: &str, columns: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let head: String = columns.iter().map(|name| format!("<th scope=\"col\" class=\"n\">{name}</th>")).collect();
    let rows: String = rows
        .map(|row| {
            let cells: String = row.iter().map(|cell| format!("<td class=\"n\">{cell}</td>")).collect();
            format!("<tr>{cells}</tr>\n")
        })
        .collect();
    format!(
        "<details><summary>The values as a table</summary>{}<thead><tr>{head}</tr></thead>\n<tbody>{rows}</tbody></table></div></details>",
        framed(title)
    )
}

/// Begins a table that scrolls by itself where the page is too narrow, for the keyboard, too.
pub(super) fn framed(name: &str) -> String {
    format!("<div class=\"card scroll\" role=\"region\" aria-label=\"{}\" tabindex=\"0\"><table>", escaped(name))
}
