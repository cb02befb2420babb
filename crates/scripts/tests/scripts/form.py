#!/usr/bin/python3 -u
# body: a=3&c=some+words
# needs: python's cgi
# expect: 3 some words\n
import warnings
warnings.simplefilter("ignore")
import cgi
form = cgi.FieldStorage()
print("Content-Type: text/plain\n")
print(form.getvalue("a"), form.getvalue("c"))
