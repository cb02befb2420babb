#!/usr/bin/perl
use Weir::CGIplus;
while (cgiplus_next()) {
    print "Content-Type: text/plain\r\n\r\n";
    print "The quick brown fox jumps over the lazy dog, and then it rests.\n" x 1024;
}
