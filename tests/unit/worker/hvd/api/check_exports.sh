#!/bin/sh
# check_exports.sh LIBRARY: fails when it exports anything but hvd:: and what belongs to its classes.
set -eu
extra=$(nm --dynamic --defined-only --demangle "$1" | cut -d' ' -f3- |
  grep -Ev '^(hvd::|(typeinfo|typeinfo name|vtable) for hvd::(Error$|elastic::))' || true)
[ -z "$extra" ] || { printf 'exported besides hvd:::\n%s\n' "$extra"; exit 1; }
nm --dynamic --defined-only --demangle "$1" | grep -q 'hvd::init(' || { echo 'no hvd::init'; exit 1; }
