<?php
header('Content-Type: text/plain');
