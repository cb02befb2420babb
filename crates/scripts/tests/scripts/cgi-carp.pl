#!/usr/bin/perl
# needs: CGI.pm
# contains: it broke
# log: it broke
use CGI::Carp 'fatalsToBrowser';
die 'it broke';
