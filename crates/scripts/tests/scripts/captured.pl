#!/usr/bin/perl
# Named subs use variables of the file: under CGI they are shared.
# expect: %Q 1 5 7 1 2 3\nend 4\n
use strict;
use warnings;
my $q = $ENV{QUERY_STRING};
my ($first, @list) = (1);
{
    my $count = 0;
    sub next_id { return ++$count }
}
sub show { my $own = shift; return "$q $first @list $own\n" }
sub other { my $q = 7; return $q }
push @list, 5, other(), next_id(), next_id();
print "Content-Type: text/plain\n\n", show(3);
END { print "end $?\n" }
exit 4;
