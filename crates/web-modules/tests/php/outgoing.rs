//! Requests of pages: whose child the other side becomes, and those that curl sends side by side.

use crate::{required, run};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::Duration;
use weir_agent::transaction::{Status, Transaction};
use weir_web_modules::{Told, tree};

const AUTOMATIC: [&str; 2] = ["extension=curl", "arm.automatic=1"];

/// An HTTP server for so many requests, each of a connection of its own; gives their heads.
fn serving(count: usize) -> (u16, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("it listens").port();
    let answer = |mut stream: TcpStream| {
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("it is open");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).expect("a head");
            head.push(byte[0]);
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi").expect("it takes it");
        String::from_utf8(head).expect("text")
    };
    (
        port,
        std::thread::spawn(move || (0..count).map(|_| answer(listener.accept().expect("a request comes").0)).collect()),
    )
}

/// What a head has of a field.
fn fields<'h>(head: &'h str, name: &str) -> Vec<&'h str> {
    let lines = head.lines().filter_map(|line| line.split_once(": "));
    lines.filter(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value).collect()
}

/// The header that names a transaction.
fn traceparent(of: &Transaction) -> String {
    format!("00-{}-01", of.id)
}

#[test]
fn what_is_asked_of_others_is_a_child_of_the_call() {
    let Some(()) = required("curl") else { return };
    let (port, serving) = serving(9);
    let told = Told::new();
    let code = format!(
        r#"
        $at = "http://127.0.0.1:{port}";
        $page = (new Arm\Application("shop"))->transaction("page")->start();
        file_get_contents("$at/0");
        $text = stream_context_create(["http" => ["header" => "X-Own: text"]]);
        file_get_contents("$at/1", false, $text);
        $list = stream_context_create(["http" => ["header" => ["X-Own: list", "Content-Type: text/plain"], "method" => "POST", "content" => "x"]]);
        file_get_contents("$at/2", false, $list);
        $own = stream_context_create(["http" => ["header" => "Traceparent: mine"]]);
        file_get_contents("$at/3", false, $own);
        echo json_encode([stream_context_get_options($text), stream_context_get_options($list)["http"]["header"],
            stream_context_get_options(stream_context_get_default())]);
        $c = curl_init("$at/4"); curl_setopt($c, CURLOPT_RETURNTRANSFER, true); curl_exec($c);
        curl_setopt_array($c, [CURLOPT_URL => "$at/5", CURLOPT_HTTPHEADER => ["X-Own: curl"]]); curl_exec($c);
        $d = curl_copy_handle($c); curl_setopt($d, CURLOPT_URL, "$at/6"); curl_exec($d);
        curl_setopt($c, CURLOPT_HTTPHEADER, ["traceparent: mine"]); curl_setopt($c, CURLOPT_URL, "$at/7"); curl_exec($c);
        ini_set("arm.propagate", 0);
        curl_setopt($d, CURLOPT_URL, "$at/8"); curl_exec($d);
        $page->stop();
        ini_set("arm.propagate", 1);
        curl_setopt($d, CURLOPT_URL, "http://127.0.0.1:1/"); curl_exec($d);
        echo curl_errno($d) === CURLE_COULDNT_CONNECT && str_contains(curl_error($d), "connect") ? "its error" : "no error";
        "#
    );
    let (said, all) = run(&told, &AUTOMATIC, &code, 11);
    let heads = serving.join().expect("it served");
    assert_eq!(
        said, r#"[{"http":{"header":"X-Own: text"}},["X-Own: list","Content-Type: text\/plain"],[]]its error"#,
        "contexts are as they were"
    );
    assert!(tree(&all)[1..10].iter().all(|one| one.1 == Status::Good && one.2 == Some("page")), "{all:#?}");
    let expected = [
        (traceparent(&all[1]), None),
        (traceparent(&all[2]), Some("text")),
        (traceparent(&all[3]), Some("list")),
        ("mine".to_owned(), None),
        (traceparent(&all[5]), None),
        (traceparent(&all[6]), Some("curl")),
        (traceparent(&all[7]), Some("curl")),
        ("mine".to_owned(), None),
    ];
    for (head, (parent, own)) in heads.iter().zip(expected) {
        assert_eq!(fields(head, "traceparent"), [parent], "{head}");
        assert_eq!(fields(head, "x-own").first().copied(), own, "{head}");
    }
    assert!(fields(&heads[8], "traceparent").is_empty(), "switched off: {}", heads[8]);
    assert_eq!(fields(&heads[8], "x-own"), ["curl"], "the page's own is as it was");
}

#[test]
fn what_curl_sends_side_by_side_is_told_one_by_one() {
    let Some(()) = required("curl") else { return };
    let (port, serving) = serving(3);
    let told = Told::new();
    let code = format!(
        r#"
        $page = (new Arm\Application("shop"))->transaction("page")->start();
        $all = curl_multi_init();
        foreach (["http://127.0.0.1:{port}/a?secret", "http://127.0.0.1:{port}/b", "http://127.0.0.1:1/c", "http://127.0.0.1:{port}/d"] as $url) {{
            $c = curl_init($url); curl_setopt($c, CURLOPT_RETURNTRANSFER, true); curl_multi_add_handle($all, $c); $each[] = $c;
        }}
        curl_multi_remove_handle($all, $each[3]);
        $meanwhile = (new Arm\Application("shop"))->transaction("meanwhile")->start();
        usleep(2000);
        do {{ curl_multi_exec($all, $running); curl_multi_select($all, 0.1); }} while ($running);
        $meanwhile->stop();
        while ($one = curl_multi_info_read($all)) {{ if ($one["handle"] !== $each[1]) curl_multi_remove_handle($all, $one["handle"]); }}
        $page->stop();
        curl_setopt($each[3], CURLOPT_HTTPHEADER, []);
        ini_set("arm.propagate", 0);
        curl_multi_add_handle($all, $each[3]);
        do {{ curl_multi_exec($all, $running); curl_multi_select($all, 0.1); }} while ($running);
        curl_multi_remove_handle($all, $each[3]);
        $left = curl_init("http://127.0.0.1:{port}/e"); curl_multi_add_handle($all, $left);
        "#
    );
    let (_, all) = run(&told, &AUTOMATIC, &code, 8);
    let heads = serving.join().expect("it served");
    let page = Some("page");
    let expected = [
        ("page", Status::Good, None),
        ("curl_multi", Status::Good, page),
        ("curl_multi", Status::Good, page),
        ("curl_multi", Status::Failed, page),
        ("curl_multi", Status::Aborted, page),
        ("meanwhile", Status::Good, page),
        ("curl_multi", Status::Good, None),
        ("curl_multi", Status::Aborted, None),
    ];
    assert_eq!(tree(&all), expected, "{all:#?}");
    let uris: Vec<_> = all.iter().map(|one| one.details.uri.as_deref().unwrap_or("-")).collect();
    let at = |path: &str| format!("http://127.0.0.1:{port}/{path}");
    assert_eq!(uris[1..4], [&at("a"), &at("b"), "http://127.0.0.1:1/c"]);
    assert!(all[3].details.diagnosis.as_ref().is_some_and(|words| words.contains("connect")), "{:?}", all[3]);
    // Two connections come in any order.
    for (path, one) in [("/a?secret", &all[1]), ("/b", &all[2])] {
        let head = heads.iter().find(|head| head.starts_with(&format!("GET {path} "))).expect("it was asked");
        assert_eq!(fields(head, "traceparent"), [traceparent(one)]);
        assert!(one.duration_ns >= 2_000_000, "{one:?}");
    }
    assert!(fields(&heads[2], "traceparent").is_empty(), "{}", heads[2]);
}
