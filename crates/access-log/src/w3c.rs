//! The Extended Log File Format of the W3C (working draft WD-logfile-960323), as IIS and CloudFront write it: a line
//! `#Fields:` names the columns of those below.

use crate::entry::{checked_method, checked_target, status};
use crate::escape::Escapes;
use crate::time::{Moment, calendar, since_1970};
use crate::{Entry, Reason, duration};
use std::borrow::Cow;

/// The most columns.
const COLUMNS_MAX: usize = 256;

/// What the directives of a log have said so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Directives {
    columns: Option<Columns>,
    /// The date of `#Date`, for logs that have times only.
    date: Option<String>,
    is_iis: bool,
}

/// At which places the columns stand that are needed.
#[derive(Debug, Clone, Default)]
struct Columns {
    count: usize,
    date: Option<usize>,
    time: Option<usize>,
    timestamp: Option<usize>,
    method: Option<usize>,
    stem: Option<usize>,
    query: Option<usize>,
    status: Option<usize>,
    bytes: Option<usize>,
    took: Option<usize>,
}

impl Directives {
    /// Takes in a line, if it is a directive.
    pub(crate) fn take(&mut self, line: &[u8]) -> bool {
        let Some((name, value)) =
            std::str::from_utf8(line).ok().and_then(|line| line.strip_prefix('#')?.split_once(':')).filter(
                |(name, _)| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-'),
            )
        else {
            return false;
        };
        match name.to_ascii_lowercase().as_str() {
            "fields" => self.columns = Some(Columns::named(value)),
            "date" => self.date = value.trim().get(..10).map(str::to_owned),
            "software" => self.is_iis = value.contains("Microsoft"),
            "version" | "start-date" | "end-date" | "remark" | "gmt-offset" => {}
            _ => return false,
        }
        true
    }

    /// Whether columns have been named: the lines below are of this format then.
    pub(crate) fn are_there(&self) -> bool {
        self.columns.is_some()
    }

    /// Reads a line by the columns.
    pub(crate) fn parse<'a>(&self, line: &'a str) -> Result<Entry<'a>, Reason> {
        let columns = self.columns.as_ref().ok_or(Reason::W3cFields)?;
        let fields = split(line);
        if fields.len() < columns.count {
            return Err(Reason::W3cShort);
        }
        let field = |place: Option<usize>| place.and_then(|place| fields.get(place).copied()).unwrap_or("-");
        let (Some(_), Some(_)) = (columns.method, columns.stem) else { return Err(Reason::W3cFields) };
        let logged = self.moment(columns, field)?;
        if field(columns.method) == "-" {
            return Err(Reason::NoRequest);
        }
        let method = checked_method(field(columns.method))?;
        let stem = checked_target(field(columns.stem), Escapes::None)?;
        let target = match field(columns.query) {
            "-" | "" => stem,
            query => Cow::Owned(format!("{stem}?{}", crate::escape::target(query, Escapes::None))),
        };
        // The time is that of the end (draft, "time": when the transaction completed).
        let took = field(columns.took);
        let took_ns = if self.is_iis {
            // IIS writes milliseconds.
            took.parse::<u32>().ok().map(|ms| i128::from(ms) * 1_000_000)
        } else {
            duration::of_seconds(took).or_else(|| took.parse::<u32>().ok().map(|s| i128::from(s) * 1_000_000_000))
        };
        let mut entry = Entry::new(logged, took_ns, (method, target));
        entry.status = status(field(columns.status));
        let bytes = field(columns.bytes);
        entry.bytes = bytes.parse().ok();
        entry.is_size_unread = entry.bytes.is_none() && (bytes != "-" || columns.bytes.is_none());
        Ok(entry)
    }

    fn moment<'a>(&self, columns: &Columns, field: impl Fn(Option<usize>) -> &'a str) -> Result<Moment, Reason> {
        if columns.timestamp.is_some() {
            let text = field(columns.timestamp);
            return since_1970(text).or_else(|| calendar(text)).ok_or(Reason::Time);
        }
        if columns.time.is_none() {
            return Err(Reason::W3cFields);
        }
        let date = match columns.date {
            Some(_) => field(columns.date),
            None => self.date.as_deref().ok_or(Reason::W3cFields)?,
        };
        calendar(&format!("{date} {}", field(columns.time))).ok_or(Reason::Time)
    }
}

impl Columns {
    fn named(names: &str) -> Self {
        let names: Vec<String> =
            names.split_ascii_whitespace().take(COLUMNS_MAX).map(str::to_ascii_lowercase).collect();
        let of = |wanted: &[&str]| wanted.iter().find_map(|wanted| names.iter().position(|name| name == wanted));
        Self {
            count: names.len(),
            date: of(&["date"]),
            time: of(&["time"]),
            timestamp: of(&["timestamp", "x-timestamp", "datetime"]),
            method: of(&["cs-method", "c-method"]),
            stem: of(&["cs-uri-stem", "cs-uri", "c-uri-stem", "c-uri"]),
            query: of(&["cs-uri-query", "c-uri-query"]),
            status: of(&["sc-status", "s-status", "c-status"]),
            bytes: of(&["sc-content-len", "sc-bytes", "bytes"]),
            took: of(&["time-taken"]),
        }
    }
}

/// The fields of a line: between tabs if it has any, else between blanks, where one in quotes may hold some.
fn split(line: &str) -> Vec<&str> {
    if line.contains('\t') {
        return line.split('\t').take(COLUMNS_MAX).collect();
    }
    let mut fields = Vec::new();
    let mut rest = line.trim_start();
    while !rest.is_empty() && fields.len() < COLUMNS_MAX {
        let quoted = rest.strip_prefix('"').and_then(|inside| inside.split_once('"'));
        let (field, after) = quoted.unwrap_or_else(|| rest.split_once(' ').unwrap_or((rest, "")));
        fields.push(field);
        rest = after.trim_start();
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<Result<Entry<'_>, Reason>> {
        let mut directives = Directives::default();
        let mut entries = Vec::new();
        for line in text.lines() {
            if !directives.take(line.as_bytes()) {
                entries.push(directives.clone().parse(line));
            }
        }
        entries
    }

    #[test]
    fn iis_and_cloudfront_name_their_columns() {
        let iis = "#Software: Microsoft Internet Information Services 10.0\n#Version: 1.0\n\
            #Fields: date time s-ip cs-method cs-uri-stem cs-uri-query s-port c-ip cs(User-Agent) sc-status sc-bytes time-taken\n\
            2000-10-10 20:55:40 192.0.2.49 GET /p1.html a=b 80 198.51.100.7 x/1 200 996 4217\n\
            2000-10-10 20:55:40 192.0.2.49 GET /p1.html - 80\n";
        let entries = read(iis);
        let entry = entries[0].as_ref().expect("a request");
        // 4.2 s before its end, of which whole seconds are known.
        assert_eq!((entry.second, entry.nanosecond, &*entry.target), (971_211_336, None, "/p1.html?a=b"));
        assert_eq!((entry.status, entry.bytes), (Some(200), Some(996)));
        assert_eq!(entries[1], Err(Reason::W3cShort));
        let cloudfront = "#Version: 1.0\n#Fields: date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status cs(Referer) cs(User-Agent) cs-uri-query time-taken\n\
            2000-10-10\t20:55:42\tFRA2\t2390\t192.0.2.1\tGET\td1.cloudfront.net\t/v.mp4\t206\t-\tMozilla/5.0%20(X)\t-\t6.001\n";
        let entries = read(cloudfront);
        let entry = entries[0].as_ref().expect("a request");
        assert_eq!(
            (entry.second, &*entry.target, entry.status, entry.bytes),
            (971_211_336, "/v.mp4", Some(206), Some(2390))
        );
    }

    #[test]
    fn times_alone_have_the_date_of_the_directive() {
        let text = "#Date: 2000-10-10 00:00:00\n#Fields: time cs-method cs-uri sc-status cs(User-Agent)\n\
            20:55:36 GET /a?b 304 \"Mozilla/5.0 (X; Y)\"\n";
        let entries = read(text);
        let entry = entries[0].as_ref().expect("a request");
        assert_eq!((entry.second, &*entry.target, entry.status), (971_211_336, "/a?b", Some(304)));
        assert!(entry.is_size_unread);
        assert_eq!(read("#Fields: time c-ip\n20:55:36 192.0.2.1"), [Err(Reason::W3cFields)]);
        assert_eq!(read("#Fields: time cs-method cs-uri\n20:55:36 GET /"), [Err(Reason::W3cFields)]);
        let two = "#Fields: date time cs-method cs-uri\n2000-10-10 20:55:36 GET /\n#Fields: cs-method cs-uri date time\nGET / 2000-10-10 20:55:36\n";
        assert!(read(two).iter().all(Result::is_ok));
    }
}
