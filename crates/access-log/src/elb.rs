//! Lines of the load balancers of Amazon Web Services: the Application Load Balancer and the Classic one.

use crate::duration;
use crate::entry::{request_line, status};
use crate::escape::Escapes;
use crate::time::calendar;
use crate::{Entry, Reason};

/// What the Application Load Balancer begins its lines with.
const KINDS: [&str; 7] = ["http", "https", "h2", "grpcs", "ws", "wss", "grpc"];

/// Reads such a line; `None` where it is none.
pub(crate) fn parse(line: &str) -> Option<Result<Entry<'_>, Reason>> {
    // Most lines of other formats end here.
    let first = line.split(' ').next()?;
    let is_application = KINDS.contains(&first);
    if !is_application && !first.ends_with('Z') {
        return None;
    }
    let (front, rest) = line.split_once(" \"")?;
    let words: Vec<&str> = front.split(' ').skip(usize::from(is_application)).collect();
    // Time, name, client, target, three durations, two statuses, bytes received and sent.
    let [time, _, _, _, to_ns, of_ns, back_ns, code, _, _, sent] = words[..] else { return None };
    let durations = [to_ns, of_ns, back_ns].map(|text| text.parse::<f64>().is_ok());
    let logged = calendar(time).filter(|_| durations == [true; 3])?;
    let Some((request, after)) = rest.split_once('"') else { return Some(Err(Reason::Cut)) };
    // `- http://host:80- -` stands for a request that could not be read.
    let request = if request.starts_with("- ") { "-" } else { request };
    let request = match request_line(request, Escapes::Backslash) {
        Ok(request) => request,
        Err(reason) => return Some(Err(reason)),
    };
    let mut entry = if is_application {
        // It has the time of the response, and the time of the request further behind.
        let creation = after.split(' ').filter(|word| word.ends_with('Z')).find_map(calendar);
        // A duration of -1 stands for none.
        let took_ns = || Some([to_ns, of_ns, back_ns].iter().filter_map(|text| duration::of_seconds(text)).sum());
        match creation {
            Some(begin) => Entry::new(begin, None, request),
            None => Entry::new(logged, took_ns(), request),
        }
    } else {
        Entry::new(logged, None, request)
    };
    entry.status = status(code);
    entry.bytes = sent.parse().ok();
    entry.is_size_unread = entry.bytes.is_none();
    Some(Ok(entry))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_balancers_of_amazon_are_read() {
        let application = r#"h2 2018-07-02T22:23:00.186641Z app/my-loadbalancer/50dc6c495c0c9188 10.0.1.252:48160 10.0.0.66:9000 0.000 0.002 0.000 200 200 5 257 "GET https://10.0.2.105:773/a?b HTTP/2.0" "curl/7.46.0" ECDHE-RSA-AES128-GCM-SHA256 TLSv1.2 arn:aws:x "Root=1-58337327" "-" "-" 1 2018-07-02T22:22:48.364000Z "redirect" "https://example.com:80/" "-" "10.0.0.66:9000" "200" "-" "-""#;
        let entry = parse(application).expect("it is one").expect("a request");
        // The request was created twelve seconds before its response: 2018-07-02T22:22:48Z.
        assert_eq!((entry.second, entry.nanosecond), (1_530_570_168, Some(364_000_000)));
        assert_eq!((&*entry.target, entry.status, entry.bytes), ("/a?b", Some(200), Some(257)));
        let old = application.split(" 1 2018").next().expect("its front");
        let entry = parse(old).expect("it is one").expect("a request");
        assert_eq!((entry.second, entry.nanosecond), (1_530_570_180, Some(184_641_000)));
        let classic = r#"2015-05-13T23:39:43.945958Z my-loadbalancer 192.168.131.39:2817 10.0.0.1:80 0.000073 0.001048 0.000057 200 200 0 29 "GET http://www.example.com:80/ HTTP/1.1" "curl/7.38.0" - -"#;
        let entry = parse(classic).expect("it is one").expect("a request");
        assert_eq!((entry.second, entry.nanosecond, &*entry.target), (1_431_560_383, Some(945_958_000), "/"));
        let none = classic.replace("GET http://www.example.com:80/ HTTP/1.1", "- http://www.example.com:80- ");
        assert_eq!(parse(&none), Some(Err(Reason::NoRequest)));
        assert_eq!(parse("https of something \"GET / HTTP/1.1\" 200"), None);
    }
}
