#!/usr/bin/perl
# expect: undef 4\n
package Four;
sub TIESCALAR { return bless [], shift }
sub FETCH { return 4 }
package main;
print "Content-Type: text/plain\n\n", defined $four ? $four : 'undef', ' ';
tie $four, 'Four';
print "$four\n";
