//! The same as objects.

use crate::{required, run};
use weir_agent::transaction::{MetricValue, Status};
use weir_web_modules::{Told, context, tree};

#[test]
fn what_an_object_begins_ends_with_it_as_its_block_was_left() {
    let Some(()) = required("") else { return };
    let told = Told::new();
    let code = r#"
        $shop = new Arm\Application("Shop", "ann");
        $order = $shop->transaction("order", context: ["number", "shop"], metrics: ["items" => ARM_GAUGE32, "sort" => ARM_STRING32]);
        function returns($t) { $r = $t->start(context: ["number" => 1207], metrics: ["items" => 3, "sort" => "books"]); return $r->isRecorded(); }
        function throws($t) { $r = $t->start(user: "bob", uri: "http://shop/"); throw new RuntimeException("the card was refused"); }
        function leaves($t) { $r = $t->start(); exit; }
        echo returns($order) ? "recorded" : "not";
        try { throws($order); } catch (RuntimeException) {}
        echo $shop->transaction("pay")->run(fn(int $a, int $b) => $a + $b, 40, b: 2);
        try { $shop->transaction("pay")->run(fn() => throw new LogicException("no")); } catch (LogicException $caught) {}
        $waits = $order->start(); $waits->block(); usleep(2000); $waits->unblock(); $waits->fail("late"); $waits->stop();
        $none = $order->start(); $none->discard();
        $global = $order->start();
        leaves($order);
    "#;
    let (said, all) = run(&told, &[], code, 7);
    assert_eq!(said, "recorded42");
    let seen: Vec<_> = tree(&all);
    let expected = [
        ("order", Status::Good, None),
        ("order", Status::Failed, None),
        ("pay", Status::Good, None),
        ("pay", Status::Failed, None),
        ("order", Status::Failed, None),
        ("order", Status::Aborted, None),
        ("order", Status::Aborted, Some("order")),
    ];
    assert_eq!(seen, expected);
    assert_eq!(
        (context(&all[0], "number"), context(&all[0], "shop"), all[0].user.as_deref()),
        (Some("1207"), None, Some("ann"))
    );
    let metrics: Vec<_> =
        all[0].details.metrics.iter().map(|metric| (metric.name.as_str(), metric.value.clone())).collect();
    assert_eq!(metrics, [("items", MetricValue::Integer(3)), ("sort", MetricValue::Text("books".to_owned()))]);
    assert_eq!((all[1].user.as_deref(), all[1].details.uri.as_deref()), (Some("bob"), Some("http://shop/")));
    assert_eq!(all[1].details.diagnosis.as_deref(), Some("RuntimeException: the card was refused"));
    assert_eq!(all[4].details.diagnosis.as_deref(), Some("late"));
    assert!(all[4].blocked_ns >= 2_000_000, "{:?}", all[4]);
}

#[test]
fn misuse_is_an_error_of_php() {
    let Some(()) = required("") else { return };
    let told = Told::new();
    let code = r#"
        $app = new Arm\Application("misuse");
        foreach ([
            fn() => new Arm\Application(""),
            fn() => $app->transaction(""),
            fn() => $app->transaction("t", metrics: ["a" => 99]),
            fn() => $app->transaction("t", metrics: [ARM_GAUGE32]),
            fn() => (new Arm\Transaction)->start(),
            fn() => (new Arm\Transaction)->run(fn() => 1),
            fn() => (new ReflectionClass("Arm\\Application"))->newInstanceWithoutConstructor()->transaction("t"),
            fn() => clone $app,
            fn() => serialize($app),
            fn() => $app->transaction("t", context: ["c"])->start(context: ["c" => new stdClass]),
        ] as $call) {
            try { $call(); echo "?"; } catch (Throwable $error) { echo "e"; }
        }
        (new Arm\Running)->stop();
        (new Arm\Running)->update(["a" => 1]);
        echo arm_error() ?? "fine";
        while (true) {
            // A text that starts another one while it is asked for.
            $t = $app->transaction("outer", context: ["c"]);
            $t->start(context: ["c" => new class($app) { function __construct(private $app) {}
                function __toString(): string { $this->app->transaction("inner")->run(fn() => 1); return "text"; } }])->stop();
            break;
        }
    "#;
    let (said, all) = run(&told, &[], code, 3);
    assert_eq!(said, "eeeeeeeeeefine");
    let names: Vec<_> = all.iter().map(|one| one.name.as_str()).collect();
    // The one whose context had no text was started, and ended by the error.
    assert_eq!(names, ["t", "inner", "outer"]);
    assert_eq!(context(&all[2], "c"), Some("text"));
}
