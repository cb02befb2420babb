<?php
// A hundred transactions with nothing in them: what one costs, a hundred times.
$app_id = arm_init('PhpApache', '*');
$tran_id = arm_getid($app_id, 'PhpApache', 'PhpApache Test Transaction');
for ($i = 0; $i < 100; $i++) {
    arm_stop(arm_start($tran_id), 0);
}
echo "done\n";
