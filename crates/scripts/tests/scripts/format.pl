#!/usr/bin/perl
# expect: abc %Q\n
format OTHER =
@<<<@*
$name, $ENV{QUERY_STRING}
.
$name = 'abc';
print "Content-Type: text/plain\n\n";
$~ = 'OTHER';
write;
