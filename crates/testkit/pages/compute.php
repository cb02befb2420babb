<?php
$digest = 'weir';
$rounds = min((int) ($_GET['rounds'] ?? 1000), 10000000);
for ($round = 0; $round < $rounds; $round++) {
    $digest = sha1($digest);
}
header('Content-Type: text/plain');
echo "$digest\n";
