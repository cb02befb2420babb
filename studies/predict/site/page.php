<?php
// Some 2 ms of work and WAIT_MS of sleep, as a page that asks a service.
function prices() { $x = 0; for ($i = 0; $i < 150000; $i++) { $x += sqrt($i); } return $x; }
echo prices();
usleep((int) ((getenv('WAIT_MS') ?: 10) * 1000));
echo "done\n";
