dnl For phpize; the Makefile beside this builds the same without it.
PHP_ARG_ENABLE([arm],
  [whether to enable ARM, names for what a page does],
  [AS_HELP_STRING([--enable-arm], [Enable ARM (Application Response Measurement)])],
  [yes])

if test "$PHP_ARM" != "no"; then
  PHP_NEW_EXTENSION([arm],
    [extension.c registry.c running.c server.c functions.c objects.c automatic.c outgoing.c targets.c shapes.c],
    [$ext_shared],,
    [-DZEND_ENABLE_STATIC_TSRMLS_CACHE=1 -I$ext_srcdir/../include])
fi
