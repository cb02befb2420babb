<?php
// Some 2 ms of work, or the share of it that WORK says, and WAIT_MS of sleep, as a page that asks a service.
function prices($rounds) { $x = 0; for ($i = 0; $i < $rounds; $i++) { $x += sqrt($i); } return $x; }
echo prices((int) (150000 * (float) (getenv('WORK') ?: 1)));
usleep((int) ((getenv('WAIT_MS') ?: 10) * 1000));
echo "done\n";
