<?php
header('Content-Type: text/plain');
echo str_repeat("The quick brown fox jumps over the lazy dog, and then it rests.\n", 1024);
