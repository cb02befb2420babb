#!/usr/bin/perl
use Weir::CGIplus;
while (cgiplus_next()) {
    print "Content-Type: text/plain\r\n\r\n";
}
