<?php
// A page of the common kind: a connection that is kept, one indexed look-up, some work on the result.
$db = pg_pconnect(getenv('WEIR_POSTGRES'));
$id = (int) ($_GET['id'] ?? 4711) % 100000;
$row = pg_fetch_assoc(pg_query_params($db, 'SELECT id, code, name FROM items WHERE id = $1', [$id]));
$digest = $row['name'];
for ($round = 0; $round < 200; $round++) {
    $digest = sha1($digest);
}
header('Content-Type: text/plain');
echo "{$row['id']} {$row['name']} $digest\n";
