#!/usr/bin/perl
# expect: The script failed; the server's log says why.\n
# status: 500
# log: it broke, %Q at
die "it broke, $ENV{QUERY_STRING}";
