<?php
// Some 1 ms of work, then LOCK_MS of sleep under a lock that one page has at a time, as one that writes a file.
function prices($rounds) { $x = 0; for ($i = 0; $i < $rounds; $i++) { $x += sqrt($i); } return $x; }
echo prices(75000);
$file = fopen(getenv('LOCK'), 'c');
flock($file, LOCK_EX);
usleep((int) (getenv('LOCK_MS') * 1000));
flock($file, LOCK_UN);
echo "done\n";
