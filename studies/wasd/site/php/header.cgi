#!/usr/bin/php8.2 -n
<?php
echo "Content-Type: text/plain\r\n\r\n";
