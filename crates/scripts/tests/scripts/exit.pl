#!/usr/bin/perl
# expect: before\nend 3\n
print "Content-Type: text/plain\n\nbefore\n";
eval { eval { exit 3 }; print "never\n" };
print "never\n";
END { print "end $?\n" }
