# face2face.pl
print "Content-Type:  text/html\n\n
<B>Hello!</B>
";
