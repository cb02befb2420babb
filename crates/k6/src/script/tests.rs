//! Scripts with answers that the tests give.

use super::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use weir_scenario::behaviour::{Answer, AnsweredBy, Ask, Behaviour, Failing, Iteration, News, Timings, Wants};
use weir_scenario::metrics::Sink;

/// A script in a file of its own, and the world of it.
pub(crate) struct Played {
    pub(crate) world: Arc<World>,
    pub(crate) asked: Vec<Ask>,
    pub(crate) slept: Vec<Duration>,
    pub(crate) results: Vec<Result<(), String>>,
    _folder: tempfile::TempDir,
}

pub(crate) fn iteration(of_user: u64) -> Iteration {
    Iteration {
        scenario: 0,
        user: 1,
        of_user,
        of_scenario: of_user,
        since_begin: Duration::ZERO,
        late: Duration::ZERO,
        jar: Default::default(),
    }
}

pub(crate) fn answer(ask: &Ask, status: u16, headers: &[(&str, &str)], body: &str) -> Answer {
    Answer {
        by: AnsweredBy::Status(status),
        url: ask.url.clone(),
        method: ask.method.clone(),
        headers: headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        body: body.as_bytes().to_vec(),
        is_cut: false,
        timings: Timings { waiting_ns: 2_000_000, receiving_ns: 500_000, ..Timings::default() },
        latency_ns: 2_500_000,
        sent_bytes: 100,
        received_bytes: 200,
        redirects: Vec::new(),
        is_expected: true,
    }
}

pub(crate) fn world(folder: &std::path::Path, script: &str, bounds: Bounds) -> Arc<World> {
    let main = folder.join("main.js");
    std::fs::write(&main, script).unwrap();
    let env = BTreeMap::from([("NAME".to_owned(), "value".to_owned())]);
    let world = World::new(main, env, bounds);
    let scenario = ScenarioOf {
        name: "default".to_owned(),
        executor: "per-vu-iterations".to_owned(),
        exec: "default".to_owned(),
        env: BTreeMap::new(),
        tags: Vec::new(),
        start: Duration::ZERO,
    };
    world.set(Settings { scenarios: vec![scenario], ..Settings::default() });
    Arc::new(world)
}

/// Plays two iterations of a script.
fn play(script: &str, mut answers: impl FnMut(&Ask) -> Answer) -> Played {
    let folder = tempfile::tempdir().unwrap();
    let world = world(folder.path(), script, Bounds::default());
    let mut user = ScriptUser::begin(world.clone(), Session::Iterations, 1).map_err(|(wrong, _)| wrong).unwrap();
    let mut played = Played { world, asked: Vec::new(), slept: Vec::new(), results: Vec::new(), _folder: folder };
    for at in 0..2 {
        let mut wants = user.resume(News::Begins(iteration(at)));
        loop {
            wants = match wants {
                Wants::Ask(asks) => {
                    let mut given: Vec<Answer> = asks.iter().map(&mut answers).collect();
                    played.asked.extend(asks);
                    user.resume(News::Answered(&mut given))
                }
                Wants::Sleep(time) => {
                    played.slept.push(time);
                    user.resume(News::Woke)
                }
                Wants::Over(result) => {
                    played.results.push(result.map_err(|failure| failure.words.to_string()));
                    break;
                }
                other => {
                    played.results.push(Err(format!("{other:?}")));
                    break;
                }
            }
        }
    }
    played
}

impl Played {
    fn passed(&self) {
        assert_eq!(self.results, [Ok(()), Ok(())]);
        for check in self.world.metrics().checks.list() {
            assert_eq!(check.fails, 0, "{} failed", check.name);
        }
        assert!(!self.world.metrics().checks.list().is_empty());
    }
}

#[test]
fn a_script_asks_checks_and_sleeps() {
    let played = play(
        "import http from 'k6/http';
         import { check, group, sleep } from 'k6';
         import { Counter, Trend } from 'k6/metrics';
         const counter = new Counter('mine');
         export default function () {
           const res = http.get('http://h:8080/a?b=c#d', { headers: { 'X-A': 'b' }, tags: { t: 'u' } });
           counter.add(2);
           group('outer', () => group('inner', () => {
             check(res, {
               status: (r) => r.status === 200 && r.status_text === '200 OK',
               body: (r) => r.body === '{\"a\":[{\"b\":1},{\"b\":2}]}' && r.json('a.1.b') === 2 && r.json('a.#') === 2,
               headers: (r) => r.headers['Content-Type'] === 'application/json',
               times: (r) => r.timings.duration === 2.5 && r.timings.waiting === 2,
               globals: () => __ENV.NAME === 'value' && __VU === 1 && (__ITER === 0 || __ITER === 1),
             });
           }));
           sleep(1.5);
         }",
        |ask| answer(ask, 200, &[("content-type", "application/json")], "{\"a\":[{\"b\":1},{\"b\":2}]}"),
    );
    played.passed();
    assert_eq!(played.slept, [Duration::from_millis(1500); 2]);
    let ask = &played.asked[0];
    assert_eq!((ask.method.as_str(), ask.url.to_string().as_str()), ("GET", "http://h:8080/a?b=c"));
    assert!(ask.headers.contains(&("X-A".to_owned(), "b".to_owned())) && ask.tag("t") == Some("u"));
    assert_eq!(&*played.world.metrics().checks.list()[0].group, "::outer::inner");
    let metrics = played.world.metrics();
    let mine = metrics.find("mine").unwrap();
    assert!(matches!(metrics[mine].whole, Sink::Counter { sum: 4.0 }));
}

#[test]
fn bodies_forms_files_and_cookies_go_out() {
    let played = play(
        "import http from 'k6/http';
         import { check } from 'k6';
         export default function () {
           http.post('http://h/form', { b: 'x y', a: ['1', '2'] });
           http.put('http://h/json', JSON.stringify({ a: 1 }), { headers: { 'Content-Type': 'application/json' } });
           const sent = http.post('http://h/file', { f: http.file('abc', 'n.txt', 'text/plain'), g: 'h' });
           const jar = http.cookieJar();
           check(jar.cookiesForURL('http://h/'), { kept: (all) => all.c[0] === 'd' });
           http.get('http://u:p@h/x', { cookies: { own: 'e' } });
           check(sent, { cookies: (r) => r.cookies.c[0].value === 'd' && r.cookies.c[0].http_only });
         }",
        |ask| answer(ask, 200, &[("Set-Cookie", "c=d; Path=/; HttpOnly")], "ok"),
    );
    played.passed();
    assert_eq!(played.asked[0].body, b"a=1&a=2&b=x+y");
    assert!(played.asked[0].headers.contains(&("Content-Type".into(), "application/x-www-form-urlencoded".into())));
    assert_eq!(played.asked[1].body, b"{\"a\":1}");
    let file = String::from_utf8(played.asked[2].body.clone()).unwrap();
    assert!(file.contains("name=\"f\"; filename=\"n.txt\"\r\nContent-Type: text/plain\r\n\r\nabc\r\n"), "{file}");
    let headers = &played.asked[3].headers;
    assert!(headers.contains(&("Cookie".into(), "own=e; c=d".into())), "{headers:?}");
    assert!(headers.contains(&("Authorization".into(), "Basic dTpw".into())), "{headers:?}");
    // The jar is emptied between iterations.
    assert!(!played.asked[4].headers.iter().any(|(name, _)| name == "Cookie"));
}

#[test]
fn redirects_are_followed_and_batches_answered() {
    let played = play(
        "import http from 'k6/http';
         import { check } from 'k6';
         export default function () {
           const last = http.post('http://h/1', 'x');
           check(last, { end: (r) => r.url === 'http://h/3' && r.body === '/3' && r.request.method === 'GET' });
           check(http.get('http://h/1', { redirects: 0 }), { first: (r) => r.status === 302 });
           const all = http.batch(['http://h/a', ['POST', 'http://h/b', 'y'], { method: 'GET', url: 'http://h/1' }]);
           check(all, { three: (r) => r.map((one) => one.body).join() === '/a,/b,/3' });
           const named = http.batch({ x: 'http://h/x', y: 'http://h/y' });
           check(named, { named: (r) => r.x.body === '/x' && r.y.body === '/y' });
         }",
        |ask| match ask.url.target.as_str() {
            "/1" => answer(ask, 302, &[("Location", "/2")], ""),
            "/2" => answer(ask, 301, &[("Location", "http://h/3")], ""),
            target => answer(ask, 200, &[], target),
        },
    );
    played.passed();
    assert_eq!(played.asked.len(), 2 * (3 + 1 + 5 + 2));
}

#[test]
fn promises_timers_and_requests_without_waiting() {
    let played = play(
        "import http from 'k6/http';
         import { check } from 'k6';
         import { setTimeout } from 'k6/timers';
         export default async function () {
           const both = await Promise.all([http.asyncRequest('GET', 'http://h/a'), http.asyncRequest('POST', 'http://h/b')]);
           check(both, { both: (r) => r[0].body === '/a' && r[1].body === '/b' });
           await new Promise((resolve) => setTimeout(resolve, 50));
           setTimeout(() => check(null, { later: true }), 10);
         }",
        |ask| answer(ask, 200, &[], &ask.url.target.clone()),
    );
    played.passed();
    assert_eq!(played.world.metrics().checks.list().len(), 2);
    assert_eq!(played.slept.len(), 4);
}

#[test]
fn exceptions_end_an_iteration_and_tell_their_place() {
    let played = play(
        "import http from 'k6/http';
         let count = 0;
         function broken() {
           http.get('http://h/');
           throw new TypeError('no such thing');
         }
         export default function () {
           try { broken(); } catch (e) { count++; }
           broken();
         }",
        |ask| answer(ask, 200, &[], ""),
    );
    let words = played.results[0].clone().unwrap_err();
    assert!(words.starts_with("TypeError: no such thing\n") && words.contains("main.js:5:"), "{words}");
    assert_eq!(played.asked.len(), 4);
}

#[test]
fn no_answer_is_an_error_of_the_response() {
    let played = play(
        "import http from 'k6/http';
         import { check } from 'k6';
         export default function () {
           check(http.get('http://h/'), { none: (r) => r.status === 0 && r.error_code === 1212 && r.error === 'refused' && r.body === null });
           let thrown = 0;
           try { http.get('http://h/', { throw: true }); } catch (e) { thrown++; }
           check(thrown, { thrown: (n) => n === 1 });
         }",
        |ask| {
            let mut answer = answer(ask, 0, &[], "");
            let failing = Failing { outcome: weir_load::Outcome::Refused, words: "refused".to_owned() };
            answer.by = AnsweredBy::Nothing(failing);
            answer
        },
    );
    played.passed();
}

#[test]
fn modules_files_and_shared_arrays() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("lib")).unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("lib/es.js", "import { two } from './more.js'; export const one = () => two() - 1;");
    write("lib/more.js", "export function two() { return 2; }");
    write("lib/common.js", "const es = require('./es.js'); exports.three = () => es.one() + 2; exports.four = 4;");
    write("lib/data.json", "[{\"a\":1},{\"a\":2},{\"a\":3}]");
    let script = "import { one } from './lib/es.js';
        import common, { four } from './lib/common.js';
        import { SharedArray } from 'k6/data';
        import encoding from 'k6/encoding';
        import crypto from 'k6/crypto';
        import { parseHTML } from 'k6/html';
        import { URL } from 'https://jslib.k6.io/url/1.0.0/index.js';
        import { findBetween, randomIntBetween } from 'https://jslib.k6.io/k6-utils/1.2.0/index.js';
        import exec from 'k6/execution';
        import { check } from 'k6';
        const http = require('k6/http');
        const text = open('./lib/data.json');
        const bytes = open('./lib/data.json', 'b');
        let made = 0;
        const shared = new SharedArray('data', () => { made++; return JSON.parse(text); });
        export default function () {
          check(null, {
            modules: () => one() === 1 && common.three() === 3 && four === 4 && typeof http.get === 'function',
            files: () => text.length === bytes.byteLength,
            shared: () => shared.length === 3 && shared[1].a === 2 && shared.map((x) => x.a).join() === '1,2,3' && made <= 1,
            spread: () => [...shared].length === 3 && shared.find((x) => x.a === 3) !== undefined,
            readonly: () => { try { shared[0] = 1; return false; } catch (e) { return true; } },
            base64: () => encoding.b64encode('hello world') === 'aGVsbG8gd29ybGQ=' && encoding.b64decode('aGVsbG8gd29ybGQ', 'rawstd', 's') === 'hello world',
            hash: () => crypto.md5('a', 'hex') === '0cc175b9c0f1b6a831c399e269772661',
            hmac: () => crypto.hmac('sha256', 'key', 'The quick brown fox jumps over the lazy dog', 'hex') === 'f7bc83f430538424b13298e6aa6fb143ef4d59a14946175997479dbc2d1a3cd8',
            html: () => parseHTML('<p>a<b class=x>c</b></p>').find('p .x').text() === 'c',
            url: () => { const u = new URL('http://h:81/a/../b?c=d'); u.searchParams.append('e', 'f g'); return u.toString() === 'http://h:81/b?c=d&e=f+g'; },
            utils: () => findBetween('a[b]c', '[', ']') === 'b' && randomIntBetween(3, 3) === 3,
            execution: () => exec.vu.idInTest === 1 && exec.scenario.name === 'default' && exec.scenario.iterationInTest === exec.vu.iterationInScenario,
            tags: () => { exec.vu.metrics.tags.a = 'b'; return exec.vu.metrics.tags.a === 'b' && exec.vu.tags.scenario === 'default'; },
          });
        }";
    let world = world(folder.path(), script, Bounds::default());
    for number in 1..=2 {
        let mut user = ScriptUser::begin(world.clone(), Session::Iterations, 1).map_err(|(wrong, _)| wrong).unwrap();
        let wants = user.resume(News::Begins(iteration(0)));
        assert!(matches!(wants, Wants::Over(Ok(()))), "user {number}: {wants:?}");
    }
    for check in world.metrics().checks.list() {
        assert_eq!((check.passes, check.fails), (2, 0), "{}", check.name);
    }
}

fn begin_fails(script: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let world = world(folder.path(), script, Bounds { turn: Duration::from_millis(200), memory_bytes: 16 << 20 });
    let (failure, _) = ScriptUser::begin(world.clone(), Session::Probe, 0).map(|_| ()).unwrap_err();
    failure.words.to_string()
}

#[test]
fn a_script_that_cannot_begin_says_where() {
    assert!(begin_fails("export default function () {\n  let x = ;\n}").ends_with("main.js:2"));
    assert!(begin_fails("import x from 'k6/net/grpc';").contains("module k6/net/grpc is refused"));
    assert!(begin_fails("import x from './none.js';").contains("none.js"));
    assert!(begin_fails("\nundefined_name();").contains("main.js:2:1"));
    assert!(begin_fails("import http from 'k6/http'; http.get('http://h/');").contains("init context"));
    assert!(begin_fails("import { nothing } from 'k6';").contains("nothing"));
}

#[test]
fn a_script_that_never_returns_is_stopped() {
    assert!(begin_fails("while (true) {}").contains("computed for 200ms"));
    let words = begin_fails("for (;;) { try { while (true) {} } catch (e) {} }");
    assert!(words.contains("computed for 200ms"), "{words}");
}

#[test]
fn deep_recursion_and_too_much_memory_are_exceptions() {
    let words = begin_fails("function f(n) { return f(n + 1) + 1; } f(0);");
    assert!(words.contains("RangeError") || words.contains("stack"), "{words}");
    let words = begin_fails("const all = []; for (;;) all.push('x'.repeat(100000) + all.length);");
    assert!(words.contains("memory") || words.contains("InternalError") || words == "null", "{words}");
    // A script goes on behind such an exception.
    let caught = "function f(n) { return f(n + 1) + 1; } export default function () { try { f(0); } catch (e) {} }";
    let folder = tempfile::tempdir().unwrap();
    let world = world(folder.path(), caught, Bounds::default());
    let mut user = ScriptUser::begin(world, Session::Iterations, 1).map_err(|(wrong, _)| wrong).unwrap();
    for at in 0..3 {
        assert!(matches!(user.resume(News::Begins(iteration(at))), Wants::Over(Ok(()))));
    }
}

/// What the host holds for responses counts as the user's memory, and is given back with them.
#[test]
fn responses_take_memory_of_their_user_until_they_are_let_go() {
    let text = "import http from 'k6/http';
        const all = [];
        export function keeps() { for (;;) all.push(http.get('http://h/')); }
        export default function () {
          for (let at = 0; at < 40; at++) { const one = http.get('http://h/'); one.self = one; }
          if (__ITER === 1) keeps();
        }";
    let folder = tempfile::tempdir().unwrap();
    let bounds = Bounds { memory_bytes: 16 << 20, ..Bounds::default() };
    let mut user = ScriptUser::begin(world(folder.path(), text, bounds), Session::Iterations, 1)
        .map_err(|(wrong, _)| wrong)
        .unwrap();
    let body = "x".repeat(1 << 20);
    let mut run = |at| {
        let mut wants = user.resume(News::Begins(iteration(at)));
        for asked in 0..1000 {
            match wants {
                Wants::Ask(asks) => {
                    wants = user.resume(News::Answered(&mut [answer(&asks[0], 200, &[], &body)]));
                }
                Wants::Over(result) => return (asked, result.map_err(|wrong| wrong.words)),
                _ => break,
            }
        }
        panic!("neither asked nor over");
    };
    assert_eq!(run(0), (40, Ok(())));
    let (asked, result) = run(1);
    assert!(
        (41..=56).contains(&asked) && result.as_ref().is_err_and(|words| words.contains("memory")),
        "{asked} {result:?}"
    );
}

/// k6's responses are objects that a script may change.
#[test]
fn a_script_may_change_what_a_response_holds() {
    let played = play(
        "import http from 'k6/http';
         import { check } from 'k6';
         export default function () {
           const res = http.get('http://h/');
           const names = [];
           for (const name in res) names.push(name);
           res.body = null;
           res.status = 7;
           check(res, {
             changed: (r) => r.body === null && r.status === 7 && r.url === 'http://h/' && r instanceof http.Response,
             listed: () => ['body', 'status', 'url', 'error', 'error_code'].every((name) => names.includes(name)),
             json: (r) => JSON.parse(JSON.stringify(r)).status === 7,
           });
           check(http.get('http://h/'), { own: (r) => r.body === 'ok' && r.body === 'ok' && r.error === '' && r.error_code === 0 });
         }",
        |ask| answer(ask, 200, &[], "ok"),
    );
    played.passed();
}

const WAITS: &str = "import http from 'k6/http';
    import { sleep } from 'k6';
    export default function () {
      for (;;) {
        try { http.get('http://h/'); } catch (e) {} finally { sleep(1); }
      }
    }";

#[test]
fn a_user_that_waits_can_be_cut_and_begins_again() {
    let folder = tempfile::tempdir().unwrap();
    let world = world(folder.path(), WAITS, Bounds::default());
    let mut user = ScriptUser::begin(world.clone(), Session::Iterations, 1).map_err(|(wrong, _)| wrong).unwrap();
    for at in 0..3 {
        let Wants::Ask(asks) = user.resume(News::Begins(iteration(at))) else { panic!("no request") };
        let mut given: Vec<Answer> = asks.iter().map(|ask| answer(ask, 200, &[], "")).collect();
        if at > 0 {
            assert!(matches!(user.resume(News::Answered(&mut given)), Wants::Sleep(_)));
        }
        assert!(matches!(user.resume(News::Ends), Wants::Over(Err(_))));
    }
    // One is dropped in the middle of its script, others on another thread.
    let Wants::Ask(_) = user.resume(News::Begins(iteration(3))) else { panic!("no request") };
    drop(user);
    let mut user = ScriptUser::begin(world, Session::Iterations, 2).map_err(|(wrong, _)| wrong).unwrap();
    let Wants::Ask(_) = user.resume(News::Begins(iteration(0))) else { panic!("no request") };
    std::thread::spawn(move || drop(user)).join().unwrap();
}

#[test]
fn setup_hands_its_data_on() {
    let folder = tempfile::tempdir().unwrap();
    let script = "import { check } from 'k6';
        export const options = { vus: 2, thresholds: { checks: ['rate>0.9'] } };
        export function setup() { return { token: 'abc', list: [1, 2] }; }
        export default function (data) { check(data, { given: (d) => d.token === 'abc' && d.list.length === 2 }); }
        export function teardown(data) { check(data, { again: (d) => d.token === 'abc' }); }
        export function handleSummary(data) { return { stdout: `sum ${data.metrics.x}`, 'a/b.json': JSON.stringify(data) }; }";
    let world = world(folder.path(), script, Bounds::default());
    let begin = |session| ScriptUser::begin(world.clone(), session, 1).map_err(|(wrong, _)| wrong).unwrap();
    let exports = begin(Session::Probe).told().exports;
    assert_eq!(exports.functions, ["default", "handleSummary", "setup", "teardown"]);
    assert_eq!(exports.options.as_deref(), Some("{\"vus\":2,\"thresholds\":{\"checks\":[\"rate>0.9\"]}}"));
    for session in [Session::Setup, Session::Iterations, Session::Teardown] {
        begin(session).run_alone(iteration(0)).unwrap();
    }
    let mut summary = begin(Session::Summary("{\"metrics\":{\"x\":7}}".into()));
    summary.run_alone(iteration(0)).unwrap();
    let outputs = summary.told().summary.unwrap();
    assert_eq!(outputs[0], ("stdout".to_owned(), b"sum 7".to_vec()));
    assert_eq!(outputs[1], ("a/b.json".to_owned(), b"{\"metrics\":{\"x\":7}}".to_vec()));
    let groups: Vec<String> = world.metrics().checks.list().iter().map(|check| check.group.to_string()).collect();
    assert_eq!((groups, world.metrics().checks.list()[1].passes), (vec![String::new(), "::teardown".into()], 1));
}

#[test]
fn a_script_can_abort_the_run() {
    let played = play(
        "import exec from 'k6/execution';
         export default function () { try { exec.test.abort('enough'); } catch (e) {} while (true) {} }",
        |ask| answer(ask, 200, &[], ""),
    );
    let words = played.results[0].clone().unwrap_err();
    assert!(words.starts_with("Abort") && words.contains("enough"), "{words}");
}
