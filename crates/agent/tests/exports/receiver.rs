//! An OTLP receiver of the tests: keeps what comes, answers as it is told.

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use weir_agent::export::{Content, fields};

/// How to answer a request.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: &'static str,
    pub(crate) content: Vec<u8>,
}

impl Answer {
    pub(crate) fn status(status: u16) -> Self {
        Self { status, headers: "", content: Vec::new() }
    }
}

#[derive(Debug, Default)]
struct Kept {
    answers: VecDeque<Answer>,
    requests: Vec<(String, Vec<u8>)>,
    heads: Vec<String>,
}

/// It listens until the test ends.
#[derive(Debug, Clone)]
pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    kept: Arc<Mutex<Kept>>,
}

impl Receiver {
    /// Requests for traces are answered so, in turn; what comes after, and all else, is taken.
    pub(crate) fn start(answers: impl IntoIterator<Item = Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("its address");
        let kept = Arc::new(Mutex::new(Kept { answers: answers.into_iter().collect(), ..Kept::default() }));
        let own = Arc::clone(&kept);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let own = Arc::clone(&own);
                std::thread::spawn(move || serve(&stream, &own));
            }
        });
        Self { address, kept }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The bodies of requests to a path.
    pub(crate) fn bodies(&self, path: &str) -> Vec<Vec<u8>> {
        let kept = self.kept.lock().expect("not poisoned");
        kept.requests.iter().filter(|(to, _)| to == path).map(|(_, body)| body.clone()).collect()
    }

    /// The heads of all requests.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.kept.lock().expect("not poisoned").heads.clone()
    }
}

fn serve(mut stream: &TcpStream, kept: &Mutex<Kept>) {
    let mut reader = BufReader::new(stream.try_clone().expect("a second handle"));
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).unwrap_or(0) == 0 {
                return;
            }
        }
        let field = |name: &str| {
            head.lines().find_map(|line| {
                let (own, value) = line.split_once(':')?;
                own.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
            })
        };
        let mut body = vec![0; field("content-length").and_then(|length| length.parse().ok()).unwrap_or(0)];
        if reader.read_exact(&mut body).is_err() {
            return;
        }
        let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
        let mut kept = kept.lock().expect("not poisoned");
        let answer = if path == "/v1/traces" { kept.answers.pop_front() } else { None };
        let answer = answer.unwrap_or_else(|| Answer::status(200));
        if answer.status == 200 {
            kept.requests.push((path, body));
        }
        kept.heads.push(head);
        drop(kept);
        let Answer { status, headers, content } = answer;
        let head = format!("HTTP/1.1 {status} Said\r\n{headers}Content-Length: {}\r\n\r\n", content.len());
        if stream.write_all(&[head.as_bytes(), &content].concat()).is_err() {
            return;
        }
    }
}

/// The messages in a field of a message.
pub(crate) fn within(message: &[u8], field: u32) -> Vec<&[u8]> {
    let bytes = |(number, content)| match content {
        Content::Bytes(bytes) if number == field => Some(bytes),
        _ => None,
    };
    fields(message).filter_map(bytes).collect()
}

/// The fields of a message as text, in an order of its own: writers put them as they like.
fn told(message: &[u8], attributes: u32) -> Vec<String> {
    let mut told: Vec<String> = fields(message)
        // Some write fields that are empty, which says as much as to leave them out.
        .filter(|(_, content)| *content != Content::Bytes(&[]))
        .map(|(field, content)| match content {
            Content::Bytes(pair) if field == attributes => {
                let [key, value] = [1, 2].map(|part| within(pair, part)[0].escape_ascii().to_string());
                format!("{key} = {value}")
            }
            Content::Bytes(bytes) => format!("{field} {}", bytes.escape_ascii()),
            other => format!("{field} {other:?}"),
        })
        .collect();
    told.sort();
    told
}

/// All spans of some requests: by their ids, with their resource's attributes and all fields, in an order of their own.
pub(crate) fn spans(bodies: &[Vec<u8>]) -> BTreeMap<Vec<u8>, Vec<String>> {
    let mut found = BTreeMap::new();
    for body in bodies {
        for group in within(body, 1) {
            let resource = told(within(group, 1)[0], 1).into_iter().map(|line| format!("resource {line}"));
            let resource: Vec<String> = resource.collect();
            for span in within(group, 2).into_iter().flat_map(|scope| within(scope, 2)) {
                let simple =
                    told(span, 9).into_iter().filter(|line| !["11 ", "15 "].iter().any(|of| line.starts_with(of)));
                let events = within(span, 11).into_iter().map(|event| format!("event {:?}", told(event, 3)));
                let status = within(span, 15).into_iter().map(|status| format!("status {:?}", told(status, 0)));
                let lines = resource.iter().cloned().chain(simple).chain(events).chain(status).collect();
                found.insert(within(span, 2)[0].to_vec(), lines);
            }
        }
    }
    found
}
