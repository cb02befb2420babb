<?php
// The same page with the calls that the paper shows.
$app_id = arm_init('PhpApache', '*');
$tran_id1 = arm_getid($app_id, 'PhpApache', 'PhpApache Test Page');
$run_id1 = arm_start($tran_id1);

require __DIR__ . '/work.php';
page();

arm_stop($run_id1, 0);
