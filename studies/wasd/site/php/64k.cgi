#!/usr/bin/php8.2 -n
<?php
echo "Content-Type: text/plain\r\n\r\n";
echo str_repeat("The quick brown fox jumps over the lazy dog, and then it rests.\n", 1024);
