<?php
// The column `code` has no index: PostgreSQL reads the whole table.
$db = pg_pconnect(getenv('WEIR_POSTGRES'));
$code = (int) ($_GET['code'] ?? 4711) % 100000;
$row = pg_fetch_assoc(pg_query_params($db, 'SELECT id, name FROM items WHERE code = $1', [$code]));
header('Content-Type: text/plain');
echo "{$row['id']} {$row['name']}\n";
