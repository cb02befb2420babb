//! Conversations as real servers and clients have them, and any bytes.

use super::*;
use proptest::prelude::*;

/// A conversation whose calls come a microsecond apart.
struct Talk {
    conversation: Conversation,
    now_ns: u64,
    told: Vec<Told>,
    /// Bytes that are copied of a call.
    copied: usize,
}

impl Talk {
    fn new() -> Self {
        Self { conversation: Conversation::new(false), now_ns: 0, told: Vec::new(), copied: 512 }
    }

    fn call(&mut self, given: bool, bytes: &[u8]) -> &mut Self {
        self.now_ns += 1000;
        let copied = &bytes[..bytes.len().min(self.copied)];
        let call = Call { at_ns: self.now_ns, pid: 7, given, length: bytes.len(), bytes: copied };
        self.conversation.push(&call, &mut |told| self.told.push(told));
        self
    }

    fn give(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        self.call(true, bytes.as_ref())
    }

    fn take(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        self.call(false, bytes.as_ref())
    }

    /// Shape, status, whether it failed, and its wait in microseconds.
    fn told(&self) -> Vec<(&str, &str, bool, u64)> {
        let one = |told: &Told| (told.asked_ns, told.answered_ns);
        let wait = |told: &Told| (one(told).1 - one(told).0) / 1000;
        self.told.iter().map(|told| (told.shape.as_str(), told.status.as_str(), told.failed, wait(told))).collect()
    }
}

/// A message of PostgreSQL's.
fn pg(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind][..], &(body.len() as u32 + 4).to_be_bytes(), body].concat()
}

fn pg_error(code: &str) -> Vec<u8> {
    pg(b'E', format!("SERROR\0VERROR\0C{code}\0Mrelation \"secret\" does not exist\0\0").as_bytes())
}

#[test]
fn postgresql_in_one_message_loses_its_values_and_has_its_error() {
    let mut talk = Talk::new();
    talk.give(pg(b'Q', b"SELECT name FROM users WHERE mail = 'a@b'\0"));
    talk.take([pg(b'T', &[0; 30]), pg(b'D', &[1; 40]), pg(b'C', b"SELECT 1\0"), pg(b'Z', b"I")].concat());
    talk.give(pg(b'Q', b"SELECT 1 FROM missing\0")).take([pg_error("42P01"), pg(b'Z', b"I")].concat());
    assert_eq!(
        talk.told(),
        [("SELECT name FROM users WHERE mail = ?", "", false, 1), ("SELECT ? FROM missing", "42P01", true, 1)]
    );
    assert!(talk.told.iter().all(|told| told.protocol == "postgresql" && told.pid == 7 && told.answered));
}

#[test]
fn a_prepared_statement_is_known_by_its_name_on_its_connection() {
    let mut talk = Talk::new();
    let prepare = [pg(b'P', b"s1\0SELECT a FROM t WHERE b = $1\0\0\0"), pg(b'S', b"")].concat();
    talk.give(prepare).take([pg(b'1', b""), pg(b'Z', b"I")].concat());
    let execute = [pg(b'B', b"\0s1\0\0\0\0\x01\0\0\0\x06secret\0\0"), pg(b'E', b"\0\0\0\0\0"), pg(b'S', b"")].concat();
    talk.give(execute).take([pg(b'2', b""), pg(b'C', b"SELECT 0\0"), pg(b'Z', b"I")].concat());
    let older = [pg(b'B', b"\0other\0\0\0\0\0\0\0"), pg(b'E', b"\0\0\0\0\0"), pg(b'S', b"")].concat();
    talk.give(older).take([pg(b'2', b""), pg_error("22012"), pg(b'Z', b"I")].concat());
    assert_eq!(
        talk.told(),
        [
            ("PREPARE SELECT a FROM t WHERE b = ?", "", false, 1),
            ("SELECT a FROM t WHERE b = ?", "", false, 1),
            ("(a statement prepared before the recording)", "22012", true, 1),
        ]
    );
}

#[test]
fn questions_in_a_pipeline_have_each_a_wait() {
    let mut talk = Talk::new();
    let one = |text: &str| {
        [pg(b'P', format!("\0{text}\0\0\0").as_bytes()), pg(b'B', b"\0\0\0\0\0\0\0\0"), pg(b'E', b"\0\0\0\0\0")]
            .concat()
    };
    talk.give(one("SELECT a")).give(one("SELECT b")).give([one("SELECT c"), pg(b'S', b"")].concat());
    talk.take([pg(b'1', b""), pg(b'2', b""), pg(b'C', b"SELECT 1\0")].concat());
    talk.take([pg(b'1', b""), pg(b'2', b""), pg_error("22012"), pg(b'Z', b"I")].concat());
    // What stands behind an error is passed over by the server.
    assert_eq!(talk.told(), [("SELECT a", "", false, 3), ("SELECT b", "22012", true, 3), ("SELECT c", "", false, 2)]);
    let mut redis = Talk::new();
    redis
        .give("*2\r\n$3\r\nGET\r\n$6\r\nsecret\r\n*1\r\n$4\r\nPING\r\n")
        .give("*3\r\n$3\r\nset\r\n$1\r\na\r\n$2\r\nbb\r\n");
    redis.take("$3\r\nabc\r\n").take("+PONG\r\n-WRONGTYPE Operation against secret\r\n");
    assert_eq!(redis.told(), [("GET", "", false, 2), ("PING", "", false, 3), ("SET", "WRONGTYPE", true, 2)]);
}

#[test]
fn an_answer_that_was_not_copied_to_its_end_has_no_status_and_the_next_has() {
    let mut talk = Talk::new();
    talk.copied = 64;
    talk.give(pg(b'Q', b"SELECT a\0"));
    talk.take([pg(b'D', &[1; 20]), pg(b'D', &[1; 30]), pg(b'D', &[1; 400]), pg(b'D', &[2; 4])].concat());
    talk.take(vec![0; 8192]).give(pg(b'Q', b"SELECT b\0")).take([pg_error("57014"), pg(b'Z', b"I")].concat());
    assert_eq!(talk.told(), [("SELECT a", "", false, 1), ("SELECT b", "57014", true, 1)]);
}

#[test]
fn a_recording_may_begin_within_an_answer() {
    let mut talk = Talk::new();
    talk.take("rows and rows").give("GET / HTTP/1.1\r\n\r\n").take("HTTP/1.1 200 OK\r\n\r\n");
    assert_eq!(talk.told(), [("GET /", "200", false, 1)]);
}

#[test]
fn what_is_encrypted_is_not_read() {
    let mut talk = Talk::new();
    talk.give([0, 0, 0, 8, 4, 0xd2, 0x16, 0x2f]).take("S").give(pg(b'Q', b"SELECT a\0"));
    assert!(talk.told.is_empty() && talk.conversation.is_foreign());
    let mut talk = Talk::new();
    talk.give(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03");
    for _ in 0..MOST_LOOKS {
        talk.give([0x17; 60]);
    }
    assert!(talk.conversation.is_foreign());
}

/// A packet of MySQL's.
fn my(sequence: u8, body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32).to_le_bytes();
    [&length[..3], &[sequence], body].concat()
}

#[test]
fn mysql_from_its_greeting_on_with_statements_by_their_numbers() {
    let mut talk = Talk::new();
    talk.take(my(0, b"\x0a11.4.2-MariaDB\0rest of the greeting, of no matter here"));
    talk.give(my(1, b"\x05\xa2\x0f\0\0\0\0\x01\x2d\0 user and password")).take(my(2, b"\0\0\0\x02\0\0\0"));
    talk.give(my(0, b"\x03SELECT a FROM t WHERE b = \"x\" AND c = 17"));
    talk.take([my(1, b"\x01"), my(2, &[3; 40]), my(3, b"\xfe\0\0\x02\0")].concat());
    talk.give(my(0, b"\x16UPDATE t SET a = ? WHERE b = ?")).take(my(1, b"\0\x05\0\0\0\0\0\x02\0\0\0\0"));
    talk.give(my(0, b"\x17\x05\0\0\0\0\x01\0\0\0values")).take(my(1, b"\xff\x15\x04#28000Access denied for secret"));
    talk.give(my(0, b"\x17\x09\0\0\0\0\x01\0\0\0values")).take(my(1, b"\0\0\0\x02\0\0\0"));
    assert_eq!(
        talk.told(),
        [
            ("SELECT a FROM t WHERE b = ? AND c = ?", "", false, 1),
            ("PREPARE UPDATE t SET a = ? WHERE b = ?", "", false, 1),
            ("UPDATE t SET a = ? WHERE b = ?", "1045 (28000)", true, 1),
            ("(a statement prepared before the recording)", "", false, 1),
        ]
    );
    let mut older = Talk::new();
    older.give(my(0, b"\x03SELECT SLEEP(3)")).take([my(1, b"\x01"), my(2, b"x")].concat());
    assert_eq!(older.told(), [("SELECT SLEEP(?)", "", false, 1)]);
    assert_eq!(older.told[0].protocol, "mysql");
}

#[test]
fn redis_tells_its_command_alone() {
    let mut talk = Talk::new();
    talk.give("*3\r\n$6\r\nCONFIG\r\n$3\r\nget\r\n$9\r\nmaxmemory\r\n").take("*2\r\n$9\r\nmaxmemory\r\n$1\r\n0\r\n");
    talk.give("*2\r\n$4\r\nAUTH\r\n$6\r\nsecret\r\n").take("-NOAUTH no\r\n");
    // A push of RESP 3 is no answer.
    talk.give("*2\r\n$4\r\nINCR\r\n$1\r\na\r\n").take(">2\r\n+message\r\n$2\r\nhi\r\n:3\r\n");
    assert_eq!(talk.told(), [("CONFIG GET", "", false, 1), ("AUTH", "NOAUTH", true, 1), ("INCR", "", false, 1)]);
    assert!(talk.told.iter().all(|told| told.protocol == "redis"));
}

#[test]
fn memcached_tells_its_command_and_its_errors() {
    let mut talk = Talk::new();
    talk.give("get user:17\r\n").take("VALUE user:17 0 5\r\nEND\r\n\r\nEND\r\n");
    talk.give("set a 0 60 3\r\nget\r\n").take("STORED\r\n");
    talk.give("set b 0 60 1 noreply\r\nx\r\nincr c 1\r\n").take("CLIENT_ERROR not a number\r\n");
    assert_eq!(talk.told(), [("GET", "", false, 1), ("SET", "", false, 1), ("INCR", "CLIENT_ERROR", true, 1)]);
}

#[test]
fn http_has_method_path_and_status() {
    let mut talk = Talk::new();
    talk.give("POST /orders/17/items?token=secret HTTP/1.1\r\nHost: b\r\nContent-Length: 4\r\n\r\n").give("body");
    talk.take("HTTP/1.1 100 Continue\r\n\r\n").take("HTTP/1.1 503 Service Unavailable\r\n\r\n").take("more");
    talk.give("GET / HTTP/1.1\r\n\r\n").take("HTTP/1.1 200 OK\r\n\r\n");
    assert_eq!(talk.told(), [("POST /orders/:id/items", "503", true, 3), ("GET /", "200", false, 1)]);
}

#[test]
fn http2_tells_streams_apart_and_grpc_its_code() {
    let frame = |kind: u8, flags: u8, stream: u8, body: &[u8]| {
        [&[0, 0, body.len() as u8, kind, flags, 0, 0, 0, stream][..], body].concat()
    };
    let literal = |name: &str, value: &str| {
        [&[0, name.len() as u8][..], name.as_bytes(), &[value.len() as u8], value.as_bytes()].concat()
    };
    let mut talk = Talk::new();
    let request = [vec![0x82], literal(":path", "/a/17?b=c")].concat();
    let call = [vec![0x83], literal(":path", "/shop.Cart/Add"), literal("content-type", "application/grpc")].concat();
    talk.give([b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), frame(4, 0, 0, b"")].concat());
    talk.give(frame(1, 5, 1, &request)).give([frame(1, 4, 3, &call), frame(0, 1, 3, b"12345")].concat());
    talk.take([frame(4, 0, 0, b""), frame(1, 4, 3, &[0x88])].concat());
    talk.take(frame(1, 5, 1, &[0x8d]))
        .take([frame(0, 0, 3, b"x"), frame(1, 5, 3, &literal("grpc-status", "5"))].concat());
    assert_eq!(talk.told(), [("GET /a/:id", "404", true, 3), ("shop.Cart/Add", "grpc 5", true, 1)]);
}

#[test]
fn dns_has_name_type_and_code_even_where_the_question_was_not_seen() {
    let message = |id: u8, flags: [u8; 2], name: &str, kind: u8| {
        let mut bytes = vec![0, id, flags[0], flags[1], 0, 1, 0, 0, 0, 0, 0, 0];
        for label in name.split('.') {
            bytes.push(label.len() as u8);
            bytes.extend_from_slice(label.as_bytes());
        }
        bytes.extend([0, 0, kind, 0, 1]);
        bytes
    };
    let mut talk = Talk::new();
    talk.give(message(9, [1, 0], "db.Example.org", 1)).take(message(9, [0x81, 0x83], "db.Example.org", 1));
    assert_eq!(talk.told(), [("A db.example.org", "NXDOMAIN", true, 1)]);
    // Over TCP each has its length before it; two questions in one call, answered the other way round, then one whose
    // length is given and taken by calls of its own.
    let framed = |message: Vec<u8>| [&(message.len() as u16).to_be_bytes()[..], &message].concat();
    let mut talk = Talk::new();
    talk.give([framed(message(1, [1, 0], "a.example", 1)), framed(message(2, [1, 0], "b.example", 28))].concat());
    talk.take(framed(message(2, [0x81, 0x80], "b.example", 28))).take(framed(message(1, [0x81, 0x82], "a.example", 1)));
    talk.give(vec![0, 27]).give(message(3, [1, 0], "c.example", 16));
    talk.take(vec![0, 27]).take(message(3, [0x81, 0x80], "c.example", 16));
    let told = [("AAAA b.example", "NOERROR", false, 1), ("A a.example", "SERVFAIL", true, 2)];
    assert_eq!(talk.told(), [&told[..], &[("TXT c.example", "NOERROR", false, 2)]].concat());
    // Of sendmmsg no bytes are seen.
    let mut talk = Talk::new();
    talk.copied = 0;
    talk.give(message(9, [1, 0], "db", 28));
    talk.copied = 256;
    talk.take(message(9, [0x81, 0x80], "db", 28));
    assert_eq!(talk.told(), [("AAAA db", "NOERROR", false, 1)]);
}

#[test]
fn what_is_never_answered_is_told_when_the_connection_ends() {
    let mut talk = Talk::new();
    talk.give(pg(b'Q', b"SELECT pg_sleep(9)\0"));
    talk.conversation.close(&mut |told| talk.told.push(told));
    assert_eq!(talk.told(), [("SELECT pg_sleep(?)", "", false, 0)]);
    assert!(!talk.told[0].answered);
}

/// The first bytes of each protocol, so that random bytes reach beyond the search for it.
fn openings() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        Just(pg(b'Q', b"SELECT a\0")),
        Just(my(0, b"\x03SELECT abc")),
        Just(b"*1\r\n$4\r\nPING\r\n".to_vec()),
        Just(b"get a\r\n".to_vec()),
        Just(b"GET / HTTP/1.1\r\n\r\n".to_vec()),
        Just(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec()),
        any::<Vec<u8>>(),
    ]
}

proptest! {
    #[test]
    fn no_bytes_break_it_and_what_is_held_is_bounded(
        opening in openings(), calls in proptest::collection::vec((any::<bool>(), any::<Vec<u8>>(), 0usize..400), 0..60),
    ) {
        let mut conversation = Conversation::new(false);
        let mut told = Vec::new();
        let calls = std::iter::once((true, opening, 400)).chain(calls);
        for (index, (given, bytes, length)) in calls.enumerate() {
            let call = Call { at_ns: index as u64 + 1, pid: 1, given, length, bytes: &bytes };
            conversation.push(&call, &mut |one| told.push(one));
            prop_assert!(conversation.held() <= MOST_OPEN);
        }
        conversation.close(&mut |one| told.push(one));
        prop_assert!(told.iter().all(|one| one.answered_ns >= one.asked_ns && one.shape.len() <= 1100));
    }

    /// A value never leaves: of any text in quotes nothing is found in what is told.
    #[test]
    fn values_never_leave(value in "[a-z]{8,20}", kind in 0usize..4) {
        let mut talk = Talk::new();
        let sql = format!("SELECT a FROM t WHERE b = '{value}'");
        match kind {
            0 => talk.give(pg(b'Q', format!("{sql}\0").as_bytes())),
            1 => talk.give(my(0, format!("\x03{sql}").as_bytes())),
            2 => talk.give(format!("*3\r\n$3\r\nSET\r\n${}\r\n{value}\r\n${}\r\n{value}\r\n", value.len(), value.len())),
            _ => talk.give(format!("set {value} 0 0 {}\r\n{value}\r\n", value.len())),
        };
        talk.conversation.close(&mut |told| talk.told.push(told));
        prop_assert_eq!(talk.told.len(), 1);
        prop_assert!(!talk.told[0].shape.contains(&value), "{:?}", talk.told);
    }
}
