<?php
// A query that waits for a timer in the database.
$db = pg_pconnect(getenv('WEIR_POSTGRES'));
$seconds = ((int) ($_GET['ms'] ?? 20)) / 1000;
pg_query_params($db, 'SELECT pg_sleep($1)', [$seconds]);
header('Content-Type: text/plain');
echo "slept\n";
