# expect: one\ntwo\n1,2,3\nmain %Q\nin: a body\n
# body: a body
print "Content-Type: text/plain\n\n";
print while <DATA>;
print join(',', sort { $a <=> $b } 3, 1, 2), "\n";
main() unless caller;
sub main { print __PACKAGE__, " $::ENV{QUERY_STRING}\n" }
print 'in: ', join('', <STDIN>), "\n";

=head1 Documentation

that {

=cut

__DATA__
one
two
