<?php
// Some 1 ms of work, or the share of it that WORK says, and one query of ROWS rows at PostgreSQL.
function prices($rounds) { $x = 0; for ($i = 0; $i < $rounds; $i++) { $x += sqrt($i); } return $x; }
echo prices((int) (75000 * (float) (getenv('WORK') ?: 1)));
$database = pg_pconnect('host=' . getenv('DATABASE') . '/sockets user=weir dbname=postgres');
$rows = (int) (getenv('ROWS') ?: 20000);
echo pg_fetch_result(pg_query($database, "SELECT sum(sqrt(number)) FROM generate_series(1, $rows) AS number"), 0), "\n";
