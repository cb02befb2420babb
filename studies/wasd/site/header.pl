print "Content-Type: text/plain\r\n\r\n";
1;
