<?php
require __DIR__ . '/work.php';
page();
