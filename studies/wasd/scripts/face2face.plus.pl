#!/usr/bin/perl
# face2face.pl, as a persistent script that speaks CGIplus.
use Weir::CGIplus;
while (cgiplus_next()) {
    print "Content-Type:  text/html\n\n
<B>Hello!</B>
";
}
